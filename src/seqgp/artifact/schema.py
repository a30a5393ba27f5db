"""The header of a model file, format 1: what may stand in it, and of which type.

Frozen by the format's number: a file written today must read the same for as long as format 1 is
read. A later format gets a schema of its own beside this one.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from seqgp.exceptions import ArtifactError
from seqgp.forecasting import DataReport

__all__ = [
    "Estimator",
    "ForecasterModel",
    "ForecasterParams",
    "GPParams",
    "Header",
    "InputsOnlyModel",
    "Made",
    "NetParams",
    "State",
    "Training",
    "parse_header",
    "refusal",
]

Count = Annotated[int, Field(ge=1, le=2**40)]
Share = Annotated[float, Field(ge=0.0, lt=1.0)]
Text = Annotated[str, Field(max_length=1000)]


class _Strict(BaseModel):
    """No conversions, nothing unknown, no NaN."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=()
    )


class _Params(_Strict):
    """Constructor arguments that all estimators share."""

    encoder: Literal["narx", "rnn", "gru", "lstm", "lstm-peephole"]
    hidden: Count
    layers: Count
    dropout: Share
    input_dropout: Share
    recurrent_dropout: Share
    skip: bool
    mean: Literal["zero", "linear"]
    epochs: Annotated[int, Field(ge=0)]
    batch_size: Count
    lr: float
    schedule: Text
    grad_clip: float | None
    weight_decay: float
    validation_fraction: Share
    patience: int | float | None
    calibrate: bool
    restarts: Count
    lag: Count | None
    random_state: int | None
    device: Text
    progress: bool


class GPParams(_Params):
    """Constructor arguments of :class:`seqgp.SequenceGP`."""

    kind: Literal["SequenceGP"]
    latent_dim: Count
    kernel: Literal["rbf", "matern12", "matern32", "matern52", "spectral-mixture", "periodic"]
    readout: bool
    inference: Literal["auto", "exact", "grid"]
    grid_size: Count | None
    correlated: bool | Literal["auto"]
    output_rank: Count | None
    algorithm: Text
    surrogate: Text
    refresh: int | Text
    theta_lr: float
    theta_steps: Annotated[int, Field(ge=0)]
    pretrain_epochs: Annotated[int, Field(ge=0)]
    pretrain_lr: float | None
    select: Text


class NetParams(_Params):
    """Constructor arguments of :class:`seqgp.SequenceNet`."""

    kind: Literal["SequenceNet"]


Template = Annotated[GPParams | NetParams, Field(discriminator="kind")]
"""An estimator that is not fitted."""


class Training(_Strict):
    """One training of an estimator."""

    best_epoch: Annotated[int, Field(ge=0)]
    pretrained_epochs: Annotated[int, Field(ge=0)]
    """The best epoch of pre-training."""
    quieter: bool
    """Whether validation rows had signal variances lowered."""
    seed: Annotated[int, Field(ge=0)]
    noise_steps: Annotated[int, Field(ge=0)]
    """Of training the noise's shape; 0 where there is none."""
    best: dict[Text, float | None]
    """The history at the best epoch, for people; null where a number is not finite."""
    nlml: float | None


class Estimator(Training):
    """A fitted ``SequenceGP`` or ``SequenceNet``; its numbers are in the arrays."""

    kind: Literal["estimator"]
    params: Template
    lag: Count
    features: Count
    feature_names: tuple[Text, ...] | None
    outputs: Count
    vector: bool
    """Whether the targets were ``(n,)``."""
    rows: Count
    inference: Literal["exact", "grid", "readout"]
    """What ``inference="auto"`` came to."""
    grid_size: Count | None
    """Points per dimension, for a grid: the default may change, a saved grid does not."""
    history: tuple[Text, ...]
    """Columns of the training history."""
    correlated: bool
    """What ``correlated="auto"`` came to."""
    validation_rows: Annotated[int, Field(ge=0, le=2**40)]
    """Whose errors are in the arrays."""
    others: tuple[Training, ...] = ()
    """Trainings that predict together with this one."""


class InputsOnlyModel(_Strict):
    """A model that sees zeros for past targets, with the fitted estimator inside."""

    kind: Literal["inputs-only"]
    inputs: Count
    model: Estimator


class ForecasterParams(_Strict):
    """Constructor arguments of :class:`seqgp.Forecaster`."""

    target: Text | tuple[Text, ...]
    inputs: tuple[Text, ...]
    past_inputs: tuple[Text, ...]
    time: Text | None
    lag: Count
    horizon: Count
    mode: Literal["regression", "autoregression", "simulation"]
    calendar: tuple[Text, ...]
    holidays: tuple[Text, ...]
    frequency: Text | None
    missing: Text
    max_gap: Count
    model: Template | None


class State(_Strict):
    """What :class:`seqgp.forecasting.ForecasterState` holds beside arrays."""

    kind: Literal["time", "row"]
    step: Text | int
    end: Text | int
    timezone: Text | None
    report: DataReport
    simulation_scores: dict[Text, float | None]
    """Null where a run has diverged."""


class ForecasterModel(_Strict):
    """A fitted ``Forecaster``."""

    kind: Literal["forecaster"]
    params: ForecasterParams
    model: Annotated[Estimator | InputsOnlyModel, Field(discriminator="kind")]
    state: State


class Made(_Strict):
    """When and with what a file was made."""

    at: Text
    seqgp: Text
    python: Text
    torch: Text
    gpytorch: Text


class Header(_Strict):
    """All of it."""

    format: Literal[1]
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    made: Made
    model: Annotated[Estimator | ForecasterModel, Field(discriminator="kind")]


def parse_header(text: str, source: str) -> Header:
    """The header in ``text``.

    Raises:
        ArtifactError: it does not have the form of format 1; begins with ``source``.
    """
    try:
        return Header.model_validate_json(text)
    except ValidationError as error:
        raise ArtifactError(f"{source}: in its header, {refusal(error)}") from error


def refusal(error: ValidationError) -> str:
    """The first of what was wrong, as a clause."""
    first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(map(str, first["loc"]))[:200] or "the whole"
    return f"{where} is {first['input']!r:.100}: {first['msg']:.200}"
