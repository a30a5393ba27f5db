"""Fitted forecasters taken apart and put together: their estimator, and their own state beside it."""

from __future__ import annotations

import json
import math
from typing import Any

from pydantic import ValidationError

from seqgp.artifact.container import Arrays
from seqgp.artifact.estimators import estimator_parts, template_of
from seqgp.artifact.rebuild import rebuild_estimator, unfitted
from seqgp.artifact.schema import (
    Estimator,
    ForecasterModel,
    ForecasterParams,
    InputsOnlyModel,
    State,
    refusal,
)
from seqgp.artifact.shelf import Shelf
from seqgp.exceptions import ArtifactError
from seqgp.forecasting import Forecaster, ForecasterState, InputsOnly

__all__ = ["forecaster_parts", "rebuild_forecaster"]


def forecaster_parts(forecaster: Forecaster) -> tuple[ForecasterModel, Arrays]:
    """Header and arrays of a fitted forecaster.

    Raises:
        ArtifactError: it is not fitted, or its estimator holds what a file cannot.
    """
    if not hasattr(forecaster, "state_"):
        raise ArtifactError("the Forecaster is not fitted: call fit before save")
    model, arrays = _model_parts(forecaster.model_)
    options = forecaster.params()
    template = options.pop("model")
    state = forecaster.state_.to_header()
    scores = state["simulation_scores"].items()
    state["simulation_scores"] = {k: v if math.isfinite(v) else None for k, v in scores}
    try:
        header = ForecasterModel(
            kind="forecaster",
            params=ForecasterParams(
                **options, model=None if template is None else template_of(template)
            ),
            model=model,
            state=State.model_validate_json(json.dumps(state)),
        )
    except (ValidationError, TypeError) as error:
        why = refusal(error) if isinstance(error, ValidationError) else str(error)
        raise ArtifactError(f"the Forecaster cannot be saved: {why}") from error
    arrays |= {f"state.{name}": value for name, value in forecaster.state_.to_arrays().items()}
    return header, arrays


def rebuild_forecaster(header: ForecasterModel, shelf: Shelf) -> Forecaster:
    """The fitted forecaster, on the device of its estimator."""
    options = header.params.model_dump(exclude={"model"})
    template = header.params.model
    forecaster = Forecaster(**options, model=None if template is None else unfitted(template))
    _check_windows(forecaster, header.model)
    forecaster.state_ = _state(forecaster, header.state, shelf)
    _ = forecaster.history_  # refused here, where its times do not make sense
    if isinstance(header.model, Estimator):
        forecaster.model_ = rebuild_estimator(header.model, shelf)
    else:
        inner = rebuild_estimator(header.model.model, shelf)
        forecaster.model_ = InputsOnly(header.model.inputs, inner)
    return forecaster


def _model_parts(model: Any) -> tuple[Estimator | InputsOnlyModel, Arrays]:
    if not isinstance(model, InputsOnly):
        return estimator_parts(model)
    inner, arrays = estimator_parts(model.model)
    return InputsOnlyModel(kind="inputs-only", inputs=model.inputs, model=inner), arrays


def _check_windows(forecaster: Forecaster, model: Estimator | InputsOnlyModel) -> None:
    """Refuse an estimator of other windows than the forecaster cuts."""
    layout = forecaster.layout
    estimator = model if isinstance(model, Estimator) else model.model
    got = estimator.lag, estimator.features, estimator.outputs
    wanted = layout.lag, len(layout.features), len(layout.targets)
    inputs = wanted[1] - wanted[2]
    if got != wanted or (isinstance(model, InputsOnlyModel) and model.inputs != inputs):
        raise ArtifactError(
            f"its estimator has (lag, features, outputs) {got}, but its columns give {wanted}"
        )


def _state(forecaster: Forecaster, header: State, shelf: Shelf) -> ForecasterState:
    layout = forecaster.layout
    window, outputs = layout.lag * len(layout.features), len(layout.targets)
    shapes: dict[str, tuple[int | None, ...]] = {
        "history": (None, len(layout.columns)),
        "target_mean": (outputs,),
        "target_std": (outputs,),
        "persistence_std": (outputs,),
    }
    linear = {"ridge": outputs}
    if layout.past_inputs and layout.feeds_back and layout.horizon == 1:
        linear["carrier"] = len(layout.past_inputs)
    for name, columns in linear.items():
        shapes[f"{name}.weight"] = (window, columns)
        shapes |= {f"{name}.intercept": (columns,), f"{name}.std": (columns,)}
    arrays: Arrays = {
        # A row of the history may lack values; what was fitted may not.
        name: shelf.take(f"state.{name}", shape, finite=name != "history").copy()
        for name, shape in shapes.items()
    }
    rows = len(arrays["history"])
    if not 1 <= rows <= layout.keep:
        raise ArtifactError(f"it keeps {rows} rows of history, expected 1 to {layout.keep}")
    plain = header.model_dump(mode="json")
    scores = plain["simulation_scores"].items()
    plain["simulation_scores"] = {k: math.inf if v is None else v for k, v in scores}
    return ForecasterState.from_parts(plain, arrays)
