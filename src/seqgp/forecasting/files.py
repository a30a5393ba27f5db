"""A fitted forecaster taken apart into a header and arrays, and its state put together again."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqgp.estimators import SequenceGP, SequenceNet
from seqgp.exceptions import ArtifactError
from seqgp.forecasting.frames import Layout
from seqgp.forecasting.model import InputsOnly, Linear, TrainedModel, estimator_of
from seqgp.forecasting.state import DataReport, ForecasterState
from seqgp.io import Arrays, as_json, from_json
from seqgp.io.shelf import Shelf
from seqgp.saving import estimator_parts, options_header

__all__ = ["forecaster_parts", "restored_state"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class StateHeader:
    """What a :class:`ForecasterState` has beside arrays."""

    kind: str
    step: str | int
    end: str | int
    timezone: str | None
    report: DataReport
    simulation_scores: dict[str, float | None]
    """Null where a run has diverged."""


def forecaster_parts(
    options: dict[str, Any], model: TrainedModel, state: ForecasterState
) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a fitted forecaster.

    Args:
        options: of its constructor.
        model: that it trained.
        state: what else it learned.

    Raises:
        ArtifactError: the estimator holds what a file cannot.
    """
    template = options["model"]
    estimator = estimator_of(model)
    if not isinstance(estimator, SequenceGP | SequenceNet):
        raise ArtifactError(
            f"a {type(estimator).__name__} cannot be saved: expected a SequenceGP or a SequenceNet"
        )
    inner, arrays = estimator_parts(estimator)
    scores = state.simulation_scores.items()
    header = StateHeader(
        kind=state.kind,
        step=state.step,
        end=state.end,
        timezone=state.timezone,
        report=state.report,
        simulation_scores={k: v if math.isfinite(v) else None for k, v in scores},
    )
    whole = {
        "kind": "Forecaster",
        "options": as_json({name: value for name, value in options.items() if name != "model"}),
        "template": None
        if template is None
        else {"kind": type(template).__name__, "options": options_header(template)},
        "estimator": inner,
        "inputs_only": model.inputs if isinstance(model, InputsOnly) else None,
        "state": as_json(header),
    }
    for name in ("history", "target_mean", "target_std", "persistence_std"):
        arrays[f"state.{name}"] = getattr(state, name)
    for name, linear in (("ridge", state.ridge), ("carrier", state.carrier)):
        if linear is not None:
            arrays |= {
                f"state.{name}.weight": linear.weight,
                f"state.{name}.intercept": linear.intercept,
                f"state.{name}.std": linear.std,
            }
    return whole, arrays


def restored_state(data: Any, shelf: Shelf, layout: Layout) -> ForecasterState:
    """The state of a forecaster.

    Args:
        data: its header.
        shelf: its arrays, among others.
        layout: that the forecaster's options define.

    Raises:
        ArtifactError: a part is missing or has another form.
    """
    header = from_json(StateHeader, data, "state")
    outputs, width = len(layout.targets), len(layout.features)
    # A row of the history may lack values; what was fitted may not.
    history = shelf.take("state.history", (None, len(layout.columns)), finite=False)
    if not 1 <= len(history) <= layout.keep:
        raise ArtifactError(f"it keeps {len(history)} rows of history, expected 1 to {layout.keep}")

    def deviations(name: str, columns: int) -> Array:
        found = shelf.take(f"state.{name}", (columns,)).copy()
        if (found < 0.0).any():
            raise ArtifactError(f"state.{name} has values below 0, expected standard deviations")
        return found

    def linear(name: str, columns: int) -> Linear:
        return Linear(
            weight=shelf.take(f"state.{name}.weight", (layout.lag * width, columns)).copy(),
            intercept=shelf.take(f"state.{name}.intercept", (columns,)).copy(),
            std=deviations(f"{name}.std", columns),
        )

    carried = layout.past_inputs if layout.runs_freely else ()
    scores = header.simulation_scores.items()
    return ForecasterState(
        kind=header.kind,
        step=header.step,
        end=header.end,
        timezone=header.timezone,
        history=history.copy(),
        target_mean=shelf.take("state.target_mean", (outputs,)).copy(),
        target_std=deviations("target_std", outputs),
        persistence_std=deviations("persistence_std", outputs),
        ridge=linear("ridge", outputs),
        carrier=linear("carrier", len(carried)) if carried else None,
        report=header.report,
        simulation_scores={k: math.inf if v is None else v for k, v in scores},
    )
