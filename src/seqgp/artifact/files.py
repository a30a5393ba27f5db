"""``save``, ``load`` and ``info``: models in and out of one file."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import gpytorch
import torch

from seqgp._version import __version__
from seqgp.artifact.container import Arrays, read, write
from seqgp.artifact.estimators import estimator_parts
from seqgp.artifact.forecasters import forecaster_parts, rebuild_forecaster
from seqgp.artifact.rebuild import rebuild_estimator
from seqgp.artifact.schema import Estimator, ForecasterModel, Header, Made, parse_header
from seqgp.artifact.shelf import Shelf
from seqgp.estimator import SequenceGP, SequenceNet
from seqgp.exceptions import ArtifactError
from seqgp.forecasting import Forecaster

__all__ = ["info", "load", "save"]

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


def save(model: SequenceGP | SequenceNet | Forecaster, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to one file, from which :func:`load` makes it again.

    The file holds numbers and a JSON header (safetensors, no pickle) and all that is needed to
    predict and to ``update``; the training windows are not in it. It is written in one stroke: on
    any failure a file that was there before stays as it was. A ``random_state`` that is a generator
    comes back as None.

    Raises:
        ArtifactError: the model is not fitted or holds code (an encoder or a kernel of one's own),
            or the path cannot be a file.
        OSError: the disk is full, or not ours to write to.
    """
    parts = forecaster_parts(model) if isinstance(model, Forecaster) else estimator_parts(model)
    header, arrays = parts
    made = Made(
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        seqgp=__version__,
        python=platform.python_version(),
        torch=torch.__version__,
        gpytorch=gpytorch.__version__,
    )
    whole = {"made": made.model_dump(mode="json"), "model": header.model_dump(mode="json")}
    write(Path(path), whole, arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """The model that :func:`save` wrote: it predicts bit for bit the same on the same machine.

    A model fitted on CUDA comes back on the CPU where there is no CUDA.

    Raises:
        ArtifactError: there is no such file, or it is not a whole, unchanged model file that this
            version can read; nothing in it was executed.
    """
    header, arrays = _read(Path(path))
    shelf = Shelf(arrays)
    try:
        if isinstance(header.model, Estimator):
            model: Any = rebuild_estimator(header.model, shelf)
        else:
            model = rebuild_forecaster(header.model, shelf)
        shelf.close()
    except _MISFITS as error:
        text = " ".join(str(error).split())[:500]
        raise ArtifactError(f"{path} is not a valid model file: {text}") from error
    return model


def info(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What the file holds, as JSON can hold it, without building the model.

    Keys: ``kind``, ``format``, ``made``, ``bytes``, ``parameters`` (of the network), ``rows``, ``lag``,
    ``features``, ``outputs``, ``inference``, ``grid_size``, ``best_epoch``, ``best`` (the history at
    that epoch, validation scores included), ``nlml``, ``others`` (the same of trainings that predict
    together with it), ``params`` (of the estimator); of a forecaster also
    ``forecaster`` (its own parameters) and ``data`` (what was done to the data).

    Raises:
        ArtifactError: as :func:`load`.
    """
    header, arrays = _read(Path(path))
    model = header.model
    found: dict[str, Any] = {
        "kind": "Forecaster" if isinstance(model, ForecasterModel) else model.params.kind,
        "format": header.format,
        "made": header.made.model_dump(mode="json"),
        "bytes": Path(path).stat().st_size,
        "parameters": _network_parameters(arrays),
    }
    if isinstance(model, ForecasterModel):
        found["forecaster"] = model.params.model_dump(mode="json", exclude={"model"})
        found["data"] = asdict(model.state.report)
        inner = model.model if isinstance(model.model, Estimator) else model.model.model
    else:
        inner = model
    return found | inner.model_dump(
        mode="json", exclude={"kind", "vector", "feature_names", "history"}
    )


def _read(path: Path) -> tuple[Header, Arrays]:
    text, arrays = read(path)
    if "checkpoint" in json.loads(text):
        raise ArtifactError(
            f"{path} is a checkpoint of a fit that has not ended, expected a model file: pass it as "
            "checkpoint to fit, with the same options and data, to go on"
        )
    return parse_header(text, f"{path} is not a valid model file"), arrays


def _network_parameters(arrays: Arrays) -> int:
    return sum(value.size for name, value in arrays.items() if name.split(".")[0] == "network")
