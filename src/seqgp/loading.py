"""Models out of files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from seqgp.estimators import SequenceGP, SequenceNet
from seqgp.exceptions import ArtifactError, UnknownNameError
from seqgp.forecasting import Forecaster
from seqgp.forecasting.files import restored_state
from seqgp.forecasting.model import InputsOnly
from seqgp.io import Arrays, arguments, from_json, read
from seqgp.io.shelf import Shelf
from seqgp.restoring import restored_estimator, unfitted
from seqgp.saving import FittedHeader

__all__ = ["info", "load"]

# What building on a header that lies can come to. Not Exception: a bug elsewhere stays a bug.
_MISFITS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)


def load(path: str | os.PathLike[str]) -> Any:
    """The model that :func:`seqgp.save` wrote: it predicts bit for bit the same on the same machine.

    A model fitted on CUDA comes back on the CPU where there is no CUDA. Encoders, kernels and likelihoods
    from outside seqgp must be registered first, by importing the module that defines them.

    Args:
        path: the file.

    Raises:
        ArtifactError: there is no such file, or it is not a whole, unchanged model file that this
            version can read; nothing in it was executed.
    """
    header, arrays = _read(Path(path))
    shelf = Shelf(arrays)
    with _explained(path):
        model: Forecaster | SequenceGP | SequenceNet
        if header["kind"] == "Forecaster":
            model = _forecaster(header, shelf)
        else:
            model = restored_estimator(header, shelf)
        shelf.close()
    return model


def info(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a file holds, as JSON can hold it, without building the model.

    Keys: ``kind``, ``format``, ``made``, ``bytes``, ``parameters`` (of the networks), ``options`` (of the
    estimator), ``rows``, ``lag``, ``features``, ``outputs``, ``inference``, ``grid_size``,
    ``validation_rows`` and ``members`` (the history at the best epoch of each, validation scores
    included); of a forecaster also ``forecaster`` (its own options) and ``data`` (what was done to it).

    Args:
        path: the file.

    Raises:
        ArtifactError: as :func:`load`.
    """
    text, arrays = _text(Path(path))
    header = json.loads(text)
    with _explained(path):
        model = header["model"]
        estimator = model.get("estimator", model)
        fitted = from_json(FittedHeader, estimator["fitted"], "fitted")
        found: dict[str, Any] = {
            "kind": model["kind"],
            "format": header["format"],
            "made": header["made"],
            "bytes": Path(path).stat().st_size,
            "parameters": sum(v.size for name, v in arrays.items() if ".network." in name),
            "options": estimator["options"],
        }
        if "estimator" in model:
            found |= {"forecaster": model["options"], "data": model["state"]["report"]}
        return found | {
            name: value
            for name, value in asdict(fitted).items()
            if name not in ("blueprint", "vector", "history")
        }


def _forecaster(header: Any, shelf: Shelf) -> Forecaster:
    """A fitted forecaster, on the device of its estimator."""
    if set(header) != {"kind", "options", "template", "estimator", "inputs_only", "state"}:
        raise ArtifactError("in its header, there is no forecaster with an estimator and a state")
    template = header["template"]
    options = arguments(Forecaster, header["options"], "Forecaster")
    model = (
        None if template is None else unfitted(template["kind"], template["options"], shelf.numbers)
    )
    forecaster = Forecaster(**options, model=model)
    layout, inputs = forecaster.layout, header["inputs_only"]
    found = header["estimator"]["fitted"]
    got = found["lag"], found["features"], found["outputs"]
    wanted = layout.lag, len(layout.features), len(layout.targets)
    if got != wanted or inputs not in (None, wanted[1] - wanted[2]):
        raise ArtifactError(
            f"its estimator has (lag, features, outputs) {got}, but its columns give {wanted}"
        )
    forecaster.state_ = restored_state(header["state"], shelf, layout)
    _ = forecaster.history_  # refused here, where its times do not make sense
    estimator = restored_estimator(header["estimator"], shelf)
    forecaster.model_ = estimator if inputs is None else InputsOnly(inputs, estimator)
    return forecaster


def _read(path: Path) -> tuple[Any, Arrays]:
    """The model's header, and the arrays."""
    text, arrays = _text(path)
    with _explained(path):
        return json.loads(text)["model"], arrays


def _text(path: Path) -> tuple[str, Arrays]:
    text, arrays = read(path)
    if "checkpoint" in json.loads(text):
        raise ArtifactError(
            f"{path} is a checkpoint of a fit that has not ended, expected a model file: pass it as "
            "checkpoint to fit, with the same options and data, to go on"
        )
    return text, arrays


@contextmanager
def _explained(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except UnknownNameError as error:
        raise ArtifactError(f"{path} cannot be loaded here: {error}") from error
    except _MISFITS as error:
        text = " ".join(str(error).split())[:500]
        raise ArtifactError(f"{path} is not a valid model file: {text}") from error
