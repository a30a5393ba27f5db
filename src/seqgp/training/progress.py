"""A progress bar on standard error, for people only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from seqgp.training.parts import EpochRecord

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(epochs: int, show: bool) -> Iterator[Callable[[EpochRecord], None] | None]:
    """Gives a function to call after each epoch, or None where nobody is watching."""
    if not show:
        yield None
        return
    # Imported here: a library user who switched it off, or has no rich, should not pay for it.
    try:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )
    except ImportError:
        yield None
        return

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=epochs)

        def show_epoch(record: EpochRecord) -> None:
            text = f"NLML {record.nlml:.3f}"
            if record.val_rmse == record.val_rmse:  # NaN without a validation part
                text += f"  val RMSE {record.val_rmse:.3f}  val NLPD {record.val_nlpd:.3f}"
            bar.update(task, advance=1, description=text)

        yield show_epoch
