"""Free simulation: the model's own predictions take the place of past targets."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from seqgp.data import WindowSet
from seqgp.distributions import Student

__all__ = ["FEEDBACKS", "Simulation", "free_run", "simulate", "starts_of", "tails_of"]

Array = NDArray[np.float64]
FEEDBACKS = ("sample", "mean")


class _Predictor(Protocol):
    """Any fitted model on windows ``(n, lag, p + outputs)`` whose last columns are past targets."""

    def predict(self, X: Any, return_std: bool = ...) -> Any: ...


@dataclass(frozen=True)
class Simulation:
    """Free runs from ``B`` starts over ``steps`` steps; every array ``(B, steps[, outputs])``."""

    mean: Array
    std: Array
    """Of an observation; with sampled feedback it includes what the fed-back draws differ by."""
    paths: Array | None
    """Draws ``(B, samples, steps[, outputs])``, none with mean feedback."""
    single: bool = False
    """Whether there was one start, and the first axis of all arrays is left out."""

    def quantile(self, q: float) -> Array:
        """The ``q``-quantile of the sampled paths."""
        if self.paths is None:
            raise ValueError("mean feedback has no paths: simulate with feedback='sample'")
        axis = 0 if self.single else 1
        value: Array = np.quantile(self.paths, q, axis=axis)
        return value


def simulate(
    model: _Predictor,
    inputs: Array | None,
    history: Array,
    *,
    steps: int | None = None,
    feedback: str = "sample",
    samples: int = 100,
    seed: int = 0,
) -> Simulation:
    """Run ``model`` freely from one or many starts, side by side.

    The model must have been fitted in autoregression mode, one step ahead. At each step its
    prediction is fed back as the newest past target: a draw from the predictive distribution of
    an observation with ``feedback="sample"``, so that the paths' spread is the uncertainty carried
    forward; or the mean alone with ``"mean"``, as the paper does.

    Args:
        model: fitted; ``predict(X, return_std=True)`` on windows of inputs, then past targets.
        inputs: ``(B, lag + steps - 1, p)``, or without the first axis for one start; None where
            the model has no inputs.
        history: ``(B, lag, outputs)`` or ``(B, lag)`` true targets before the first step; likewise.
        steps: how many; follows from ``inputs`` where there are any.
        feedback: ``"sample"`` or ``"mean"``.
        samples: paths for each start.
        seed: of the draws.

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
    for t, (_, mean, std, fed) in enumerate(free_run(model, known, past, draw)):
        means[t], deviations[t], draws[t] = mean, std, fed

    def by_start(values: Array) -> Array:  # (starts, copies, steps, outputs)
        return values.transpose(1, 0, 2).reshape(starts, copies, steps, outputs)

    each_mean, each_std = by_start(means), by_start(deviations)
    # The law of total variance: exact moments of the mixture, with less noise than the draws' own.
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


def tails_of(model: Any) -> Array | float:
    """Degrees of freedom of what a model predicts; infinite, a Gaussian's, where it does not say."""
    dof: Array | float = getattr(model, "dof_", math.inf)
    return dof


def free_run(
    model: _Predictor, inputs: Array, past: Array, draw: np.random.Generator | None
) -> Iterator[tuple[Array, Array, Array, Array]]:
    """The windows seen, the mean, the deviation and what was fed back, step by step.

    ``inputs`` ``(B, lag + steps - 1, p)`` and ``past`` ``(B, lag, outputs)``; a draw is fed back
    where there is a generator, else the mean.
    """
    lag, outputs = past.shape[1:]
    tails = tails_of(model)
    for t in range(inputs.shape[1] - lag + 1):
        windows = np.concatenate([inputs[:, t : t + lag], past], axis=2)
        mean, std = model.predict(windows, return_std=True)
        mean, std = mean.reshape(-1, outputs), std.reshape(-1, outputs)
        fed = mean if draw is None else Student(mean, std, tails).draw(draw)
        yield windows, mean, std, fed
        past = np.concatenate([past[:, 1:], fed[:, None]], axis=1)


def starts_of(windows: WindowSet, steps: int, stride: int = 1) -> tuple[Array, Array, Array]:
    """Inputs, histories and true targets of every free run of ``steps`` steps inside a WindowSet.

    Returns ``(B, lag + steps - 1, p)``, ``(B, lag, outputs)`` and ``(B, steps, outputs)``. The
    set must be in time order, without gaps within a series, and in autoregression mode.
    """
    outputs = 1 if windows.y.ndim == 1 else windows.y.shape[1]
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
