"""HTML from nested elements, so that no text can be taken for markup; figures as images inside."""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element, SubElement, tostring

from matplotlib.figure import Figure
from PIL import Image

__all__ = ["figure", "figures", "page", "section", "table", "tag"]

_DPI = 160  # sharp in print, and on screens with small pixels
_COLOURS = 128

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
.note { border-left: .3rem solid #d55e00; background: #fdf3ec; padding: .5rem .75rem; }
.good { border-left: .3rem solid #0072b2; background: #eef6fb; padding: .5rem .75rem; }
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


def tag(name: str, /, *children: Element | str, **attributes: str) -> Element:
    """An element with those children; ``class_`` and the like lose their underscore.

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
    """A part of the page that the contents link to."""
    return tag("section", tag("h2", heading), *children, id=anchor)


def figure(drawn: Figure, alt: str, *caption: Element | str) -> Element:
    """A figure as an image inside the page, with its caption below."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # A column named in a script that the font lacks: the caption has the name in any case.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        drawn.savefig(buffer, format="png", dpi=_DPI)
    # A palette makes a third of the size, and clouds of points would make a vector image heavy.
    small = io.BytesIO()
    Image.open(buffer).convert("RGB").quantize(_COLOURS).save(small, "PNG", optimize=True)
    source = "data:image/png;base64," + base64.b64encode(small.getvalue()).decode("ascii")
    return tag("figure", tag("img", src=source, alt=alt), tag("figcaption", *caption))


def figures(*drawn: Element) -> Element:
    """Figures beside one another, where there is room."""
    return tag("div", *drawn, class_="figures")


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[Element | str]],
    marked: Iterable[tuple[int, int]] = (),
    numbers: bool = True,
) -> Element:
    """A table whose first column names the row; cells ``(row, column)`` in ``marked`` are the best ones.

    ``numbers``: the other columns hold numbers, and are set flush right.
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
            classes = [kind["class_"]] if kind else []
            classes += ["best"] if (i, j) in best else []
            row.append(tag("td", cell, **({"class_": " ".join(classes)} if classes else {})))
    return tag("div", tag("table", tag("thead", top), body), class_="scroll")


def page(title: str, sections: Sequence[Element]) -> str:
    """The whole page; the contents list the sections' headings."""
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
    # "<" may stand in an attribute and is left there, but nothing should look like markup that is none.
    text = re.sub(r'alt="[^"]*"', lambda found: found[0].replace("<", "&lt;"), text)
    return f"<!DOCTYPE html>\n{text}\n"
