"""Free simulation, in which a model's predictions take the place of past targets, and training for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqgp.data import WindowSet
from seqgp.distributions import Student
from seqgp.estimators import SequenceRegressor
from seqgp.forecasting.model import InputsOnly, Linear, Model, TrainedModel, predictive, train

__all__ = ["FEEDBACKS", "Multistep", "Simulation", "fit_multistep", "simulate", "starts_of"]

Array = NDArray[np.float64]
FEEDBACKS = ("sample", "mean")
_LEAST_HELD = 10
_HELD = 0.2  # share of the windows, the last, on which a model for free runs is chosen


@dataclass(frozen=True)
class Simulation:
    """Free runs from ``B`` starts over ``steps`` steps; every array ``(B, steps[, outputs])``."""

    mean: Array
    std: Array
    """Of an observation; with sampled feedback it includes the variance between paths."""
    paths: Array | None
    """Sampled paths ``(B, samples, steps[, outputs])``; None with mean feedback."""
    single: bool = False
    """Whether there was one start and all arrays lack the first axis."""

    def quantile(self, q: float) -> Array:
        """The ``q``-quantile of the sampled paths."""
        if self.paths is None:
            raise ValueError("mean feedback has no paths: simulate with feedback='sample'")
        axis = 0 if self.single else 1
        value: Array = np.quantile(self.paths, q, axis=axis)
        return value


def simulate(
    model: Model,
    inputs: Array | None,
    history: Array,
    *,
    steps: int | None = None,
    feedback: str = "sample",
    samples: int = 100,
    seed: int = 0,
    carrier: Linear | None = None,
) -> Simulation:
    """Run a model freely from one or many starts in parallel.

    The model must have been fitted in autoregression mode, one step ahead. At each step its
    prediction is fed back as the newest past target: a draw from the predictive distribution of
    an observation with ``feedback="sample"``, so that uncertainty accumulates over the paths; or the
    mean alone with ``"mean"``, as in the paper.

    Args:
        model: fitted; ``predict(X, return_std=True)`` on windows of inputs, then past targets.
        inputs: ``(B, lag + steps - 1, p)``, or without the first axis for one start; None if
            the model has no inputs.
        history: true targets before the first step, ``(B, lag, outputs)`` or ``(B, lag)``, or without
            the first axis for one start.
        steps: how many; by default as many as ``inputs`` allow.
        feedback: ``"sample"`` or ``"mean"``.
        samples: paths for each start.
        seed: of the samples.
        carrier: a model of past inputs, which stand before past targets in windows and in ``history``
            and are fed back too.

    References:
        Gaussian process priors with uncertain inputs: application to multiple-step ahead time
        series forecasting, Girard et al. 2003.
    """
    if feedback not in FEEDBACKS:
        raise ValueError(f"feedback={feedback!r} is not known: use one of {', '.join(FEEDBACKS)}")
    past = np.asarray(history, dtype=np.float64)
    flat = past.ndim == (1 if inputs is None else np.ndim(inputs) - 1)
    past = past[..., None] if flat else past
    single = past.ndim == 2
    past = past[None] if single else past
    known = _inputs(inputs, past, single, steps)
    starts, lag, outputs = past.shape
    steps = known.shape[1] - lag + 1
    copies = samples if feedback == "sample" else 1
    means = np.empty((steps, starts * copies, outputs))
    deviations, draws = np.empty_like(means), np.empty_like(means)
    draw = np.random.default_rng(seed) if feedback == "sample" else None
    past, known = (np.repeat(rows, copies, axis=0) for rows in (past, known))  # start by start
    for t, (_, mean, std, fed) in enumerate(_free_run(model, carrier, known, past, draw)):
        means[t], deviations[t], draws[t] = mean, std, fed

    def by_start(values: Array) -> Array:  # (starts, copies, steps, outputs)
        return values.transpose(1, 0, 2).reshape(starts, copies, steps, outputs)

    each_mean, each_std = by_start(means), by_start(deviations)
    # The law of total variance: exact moments of the mixture, with less noise than those of the draws.
    variance = (each_std**2).mean(1) + each_mean.var(1)
    paths = by_start(draws) if feedback == "sample" else None

    def shaped(values: Array) -> Array:
        values = values[..., 0] if flat else values
        return values[0] if single else values

    return Simulation(
        mean=shaped(each_mean.mean(1)),
        std=shaped(np.sqrt(variance)),
        paths=None if paths is None else shaped(paths),
        single=single,
    )


def _free_run(
    model: Model,
    carrier: Linear | None,
    inputs: Array,
    past: Array,
    draw: np.random.Generator | None,
) -> Iterator[tuple[Array, Array, Array, Array]]:
    """The windows, the mean, the deviation and the value fed back, step by step.

    ``inputs`` ``(B, lag + steps - 1, p)`` and ``past`` ``(B, lag, outputs)``; a draw is fed back
    if there is a generator, else the mean.
    """
    lag, outputs = past.shape[1:]
    for t in range(inputs.shape[1] - lag + 1):
        windows = np.concatenate([inputs[:, t : t + lag], past], axis=2)
        next_row = _next_row(model, carrier, windows, outputs)
        fed = next_row.mean if draw is None else next_row.draw(draw)
        yield windows, next_row.mean, next_row.std, fed
        past = np.concatenate([past[:, 1:], fed[:, None]], axis=1)


def _next_row(model: Model, carrier: Linear | None, windows: Array, outputs: int) -> Student:
    """Distribution of the row after each window, ``(B, outputs)``: past inputs, then targets."""
    if carrier is None:
        return predictive(model, windows, outputs)
    q = len(carrier.intercept)
    past, target = predictive(carrier, windows, q), predictive(model, windows, outputs - q)
    return Student(
        np.concatenate([past.mean, target.mean], axis=1),
        np.concatenate([past.std, target.std], axis=1),
        np.append(np.full(q, np.inf), np.broadcast_to(target.dof, outputs - q)),
    )


def starts_of(windows: WindowSet, steps: int, stride: int = 1) -> tuple[Array, Array, Array]:
    """Inputs, histories and true targets of every free run of ``steps`` steps inside a WindowSet.

    Args:
        windows: in time order, without gaps within a series, and in autoregression mode.
        steps: of a run.
        stride: windows from the start of one run to that of the next.

    Returns:
        Inputs ``(B, lag + steps - 1, p)``, histories ``(B, lag, outputs)`` and targets
        ``(B, steps, outputs)``.
    """
    outputs = _outputs(windows)
    if windows.mode != "autoregression":
        raise ValueError(
            "the windows hold no past targets: cut them with mode='autoregression' to simulate"
        )
    y = windows.y.reshape(len(windows), outputs)
    last = np.arange(len(windows)) + steps - 1
    fits = last < len(windows)
    same = np.zeros(len(windows), dtype=bool)
    same[fits] = (windows.starts[last[fits]] - windows.starts[fits] == steps - 1) & (
        windows.series_index[last[fits]] == windows.series_index[fits]
    )
    begin = np.flatnonzero(same)[::stride]
    if not len(begin):
        raise ValueError(
            f"no run of {steps} steps fits into {len(windows)} windows: use fewer steps"
        )
    rows = windows.starts[begin][:, None] + np.arange(windows.lag + steps - 1)
    block = windows.series[rows]
    p = windows.features - outputs
    targets = y[begin[:, None] + np.arange(steps)]
    return block[:, :, :p], block[:, : windows.lag, p:], targets


@dataclass(frozen=True)
class Multistep:
    """A model trained for free simulation, and the scores it was chosen by."""

    model: TrainedModel
    """The one with the smallest error in free simulation over validation windows."""
    scores: dict[str, float]
    """Validation RMSE of a free run, for each way of training."""

    @property
    def chosen(self) -> str:
        """The way of training with the smallest error."""
        return min(self.scores, key=self.scores.__getitem__)


def fit_multistep(
    model: SequenceRegressor,
    windows: WindowSet,
    validation: WindowSet | None = None,
    *,
    steps: int = 100,
    rounds: int = 2,
    seed: int = 0,
    stop: Callable[[], bool] | None = None,
) -> Multistep:
    """Train for free simulation in several ways, and keep the model with the smallest error.

    - ``one-step``: on true windows, as for predictions one step ahead.
    - ``round k``: on true windows and on windows of free runs (dataset aggregation). In each round the
      last model runs freely from every training window, and from every run the window at a random
      depth of up to ``steps`` is added, with the model's predictions for past targets in it and the
      true target beside it. So the next model is trained on the errors that it will meet.
    - ``inputs-only``: on windows with past targets hidden, if there are inputs.

    Models are compared by the RMSE of one free run over the longest part of the validation windows
    without a gap.

    Args:
        model: the options to train with; it is not changed.
        windows: to train on, in autoregression mode, in time order.
        validation: to choose epochs and models on; None for the last fifth of ``windows``.
        steps: the longest free run from which windows are added.
        rounds: of dataset aggregation.
        seed: of the random depths.
        stop: asked now and then whether to end early. The training in progress then ends with its best
            state, and no other is begun.

    References:
        A Reduction of Imitation Learning and Structured Prediction to No-Regret Online Learning,
        Ross, Gordon and Bagnell 2011, arXiv:1011.0686 (DAgger).
    """
    if validation is None:
        held = windows.subset(slice(len(windows) - max(int(_HELD * len(windows)), 1), None))
        validation = _longest_run(held)
        windows = windows.subset(windows.time < validation.time[0])
    else:
        validation = _longest_run(validation)
    rng = np.random.default_rng(seed)
    last = train(model, windows, validation=validation, stop=stop)
    models: dict[str, TrainedModel] = {"one-step": last}
    inputs = windows.features - _outputs(windows)
    if inputs and not (stop is not None and stop()):
        models["inputs-only"] = InputsOnly.trained(model, inputs, windows, validation, stop)
    X, y = windows[:], windows.y
    X_val, y_val = validation[:], validation.y
    for k in range(1, rounds + 1):
        if stop is not None and stop():
            break
        met, met_targets = _met_windows(last, windows, steps, rng)
        X, y = np.concatenate([X, met]), np.concatenate([y, met_targets])
        # The epoch is chosen on windows of both kinds, too.
        met, met_targets = _met_windows(last, validation, steps, rng)
        X_val, y_val = np.concatenate([X_val, met]), np.concatenate([y_val, met_targets])
        last = train(model, X, y, (X_val, y_val), stop)
        models[f"round {k}"] = last
    scores = {name: _score(each, validation) for name, each in models.items()}
    return Multistep(models[min(scores, key=scores.__getitem__)], scores)


def _met_windows(
    model: Model, windows: WindowSet, steps: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """One window of each free run, at a random depth ≥ 1, and its true target."""
    depth = min(steps, len(windows) // 2)
    inputs, history, targets = starts_of(windows, depth + 1)
    chosen = rng.integers(1, depth + 1, len(inputs))
    X = np.empty((len(inputs), *windows.shape[1:]))
    for t, (seen, _, _, _) in enumerate(_free_run(model, None, inputs, history, draw=None)):
        X[chosen == t] = seen[chosen == t]
    y = targets[np.arange(len(inputs)), chosen]
    return X, y.reshape(len(y), *windows.y.shape[1:])


def _score(model: Model, validation: WindowSet) -> float:
    """RMSE of one free run over all validation windows."""
    inputs, history, targets = starts_of(validation, len(validation))
    run = simulate(model, inputs, history, feedback="mean")
    return float(np.sqrt(np.mean((run.mean - targets) ** 2)))


def _longest_run(windows: WindowSet) -> WindowSet:
    """The longest part without a gap in time."""
    borders = np.flatnonzero(np.diff(windows.time) != 1) + 1
    longest = max(np.split(np.arange(len(windows)), borders), key=len)
    if len(longest) < _LEAST_HELD:
        raise ValueError(
            f"the longest part of the validation rows without a gap has {len(longest)} windows, expected "
            f"at least {_LEAST_HELD}: use more rows, a shorter lag, or missing='interpolate'"
        )
    return windows.subset(longest)


def _outputs(windows: WindowSet) -> int:
    return 1 if windows.y.ndim == 1 else int(windows.y.shape[1])


def _inputs(inputs: Array | None, past: Array, single: bool, steps: int | None) -> Array:
    """Inputs ``(B, lag + steps - 1, p)`` that go with ``past`` ``(B, lag, outputs)``."""
    starts, lag, _ = past.shape
    if inputs is None:
        if steps is None or steps < 1:
            raise ValueError(f"steps={steps!r}: without inputs, say how many steps to simulate")
        return np.empty((starts, lag + steps - 1, 0))
    known = np.asarray(inputs, dtype=np.float64)
    known = known[None] if single else known
    if known.ndim != 3 or len(known) != starts or known.shape[1] < lag:
        raise ValueError(
            f"inputs have shape {np.shape(inputs)} for {starts} start(s) and a history of {lag} rows, "
            f"expected (starts, {lag} + steps - 1, p): they begin with the history and end one row "
            "before the last step"
        )
    if steps is not None:
        if known.shape[1] < lag + steps - 1:
            raise ValueError(
                f"{steps} steps need {lag + steps - 1} rows of inputs, got {known.shape[1]}: give more "
                "inputs or simulate fewer steps"
            )
        known = known[:, : lag + steps - 1]
    return known
