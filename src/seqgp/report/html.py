"""Text and HTML: numbers as they are written, elements that escape their text, embedded figures."""

from __future__ import annotations

import base64
import io
import math
import re
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement, tostring

import pandas as pd
from pandas.tseries.frequencies import to_offset

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "document",
    "duration",
    "figure",
    "figures",
    "listed",
    "number",
    "percent",
    "section",
    "table",
    "tag",
]

_DPI = 160  # sharp in print and on high-resolution screens
_COLOURS = 128
_UNITS = (("day", 86400.0), ("hour", 3600.0), ("minute", 60.0), ("second", 1.0))

_CSS = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 72rem; background: #fff; color: #1b1b1b;
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif;
  overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .5rem 0; }
h2 { font-size: 1.3rem; line-height: 1.25; margin: 2.5rem 0 .5rem; padding-top: .75rem;
  border-top: 2px solid #d9d9d9; }
h3 { font-size: 1.05rem; margin: 1.5rem 0 .25rem; }
p, ul, figcaption { max-width: 46rem; }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1rem; padding: 0; list-style: none; }
a { color: #00598c; }
.lead { font-size: 1.1rem; }
.verdict { border-left: .3rem solid; padding: .5rem .75rem; }
.good { border-color: #0072b2; background: #eef6fb; }
.fair { border-color: #767676; background: #f5f5f5; }
.bad { border-color: #d55e00; background: #fdf3ec; }
.figures { display: grid; gap: 1.25rem 2rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); }
figure { margin: 0; max-width: 36rem; break-inside: avoid; }
figure img { display: block; width: 100%; height: auto; }
figcaption { font-size: .92rem; color: #333; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0; font-size: .95rem; }
th, td { padding: .3rem .6rem; text-align: left; vertical-align: top; border-bottom: 1px solid #ddd; }
th, td { overflow-wrap: break-word; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.best { font-weight: 700; background: #eef6fb; }
small { color: #444; font-size: .85em; font-weight: 400; }
footer { margin-top: 3rem; color: #444; font-size: .85rem; }
@media (max-width: 40rem) { th, td { padding: .25rem .35rem; } table { font-size: .85rem; } }
@media print { html { font-size: 10pt; } nav { display: none; } body { max-width: none; }
  .figures { grid-template-columns: 1fr 1fr; } tr { break-inside: avoid; }
  h2, h3 { break-after: avoid; } a { color: inherit; } }
"""


def number(value: float) -> str:
    """Three significant digits, with thousands separators.

    >>> number(1234567.0), number(0.012345), number(float("nan"))
    ('1,234,567', '0.0123', '–')
    """
    if not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}"


def percent(share: float) -> str:
    """A share as a percentage with at most one decimal.

    >>> percent(0.95), percent(0.8713)
    ('95%', '87.1%')
    """
    return f"{100 * share:.1f}".removesuffix(".0") + "%"


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names as an enumeration, at most ``most`` of them.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], most=2)
    ('a, b and c', 'a, b and 1 more')
    """
    shown = list(names[:most])
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def duration(steps: int, step: str | int) -> str:
    """The length of ``steps`` steps, in a unit of time if the step has a fixed length.

    >>> duration(48, "h"), duration(1, "15min"), duration(3, 1), duration(2, "MS")
    ('2 days', '15 minutes', '3 rows', '2 rows')
    """
    rows = f"{steps} row{'s' * (steps != 1)}"
    if isinstance(step, int):
        return rows
    offset = to_offset(step)
    if isinstance(offset, pd.offsets.Day):
        seconds = 86400.0 * offset.n * steps
    elif isinstance(offset, pd.offsets.Tick):
        seconds = offset.nanos / 1e9 * steps
    else:
        return rows
    for name, unit in _UNITS:
        count = seconds / unit
        if count >= 1 and count == round(count):
            return f"{count:.0f} {name}{'s' * (count != 1)}"
    return f"{seconds:g} seconds"


def tag(name: str, /, *children: Element | str, **attributes: str) -> Element:
    """An element; a trailing underscore of attribute names, as in ``class_``, is removed.

    >>> tostring(tag("p", "a < b, ", tag("b", "c"), " d"), encoding="unicode")
    '<p>a &lt; b, <b>c</b> d</p>'
    """
    element = Element(name, {key.rstrip("_"): value for key, value in attributes.items()})
    for child in children:
        if isinstance(child, Element):
            element.append(child)
        elif len(element):
            element[-1].tail = (element[-1].tail or "") + child
        else:
            element.text = (element.text or "") + child
    return element


def section(anchor: str, heading: str, *children: Element) -> Element:
    """A part of the page that is listed in the contents."""
    return tag("section", tag("h2", heading), *children, id=anchor)


def figure(drawn: Figure, alt: str, *caption: Element | str) -> Element:
    """A figure as an embedded PNG image with a caption.

    Args:
        drawn: the matplotlib figure.
        alt: text for readers who cannot see the image.
        caption: text or elements below the image.
    """
    from PIL import Image

    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # A column name in a script that the font lacks: the caption has the name in any case.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        drawn.savefig(buffer, format="png", dpi=_DPI)
    # A palette reduces the size to a third; scatter plots would make vector images large.
    small = io.BytesIO()
    Image.open(buffer).convert("RGB").quantize(_COLOURS).save(small, "PNG", optimize=True)
    source = "data:image/png;base64," + base64.b64encode(small.getvalue()).decode("ascii")
    return tag("figure", tag("img", src=source, alt=alt), tag("figcaption", *caption))


def figures(*drawn: Element) -> Element:
    """Figures side by side where there is room."""
    return tag("div", *drawn, class_="figures")


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[Element | str]],
    marked: Iterable[tuple[int, int]] = (),
    numbers: bool = True,
) -> Element:
    """A table whose first column names the rows.

    Args:
        head: column headings.
        rows: cells by row.
        marked: ``(row, column)`` of cells to highlight.
        numbers: the other columns hold numbers and are aligned to the right.
    """
    best = set(marked)
    kind = {"class_": "number"} if numbers else {}
    first, *others = head
    top = tag(
        "tr", tag("th", first, scope="col"), *(tag("th", h, scope="col", **kind) for h in others)
    )
    body = tag("tbody")
    for i, (name, *cells) in enumerate(rows):
        row = SubElement(body, "tr")
        row.append(tag("th", name, scope="row"))
        for j, cell in enumerate(cells, start=1):
            classes = [*kind.values(), *(["best"] if (i, j) in best else [])]
            row.append(tag("td", cell, **({"class_": " ".join(classes)} if classes else {})))
    return tag("div", tag("table", tag("thead", top), body), class_="scroll")


def document(title: str, sections: Sequence[Element]) -> str:
    """The whole page, with a table of contents.

    Args:
        title: heading of the page.
        sections: from :func:`section`, in order.
    """
    links = [
        tag("li", tag("a", str(part.findtext("h2")), href=f"#{part.get('id')}"))
        for part in sections
    ]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", _CSS),
    )
    contents = tag("nav", tag("ul", *links))
    contents.set("aria-label", "Contents")
    body = tag("body", tag("h1", title), contents, tag("main", *sections))
    text = tostring(tag("html", head, body, lang="en"), encoding="unicode", method="html")
    # "<" is allowed in an attribute and is not escaped there; escape it, so that nothing looks like markup.
    text = re.sub(r'alt="[^"]*"', lambda found: found[0].replace("<", "&lt;"), text)
    return f"<!DOCTYPE html>\n{text}\n"
