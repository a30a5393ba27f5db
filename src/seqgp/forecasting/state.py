"""What a fitted :class:`seqgp.Forecaster` knows beside its model: plain numbers, text and arrays."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["DataReport", "ForecasterState", "Linear"]

Array = NDArray[np.float64]
_CHUNK = 4096  # windows made at a time, where they come as views


@dataclass(frozen=True)
class DataReport:
    """What was found in the data at ``fit`` and what was done about it; ``asdict`` is JSON."""

    rows: int
    """Rows of the frame given."""
    first: str
    """Time (or number) of the first row; ``last``, of the last row that has a target."""
    last: str
    step: str
    """Time from row to row, or the difference of row numbers."""
    rows_without_target_at_end: int
    """Left out: what is to be forecast, not learnt from."""
    missing_times: int
    """Times that the frame skips; they became rows with nothing known."""
    missing_values: dict[str, int]
    """Empty cells of each column, skipped times not counted."""
    interpolated_values: dict[str, int]
    """Cells of each column filled for use in windows, skipped times included."""
    constant_columns: list[str]
    features: list[str]
    """Columns of a window, calendar features and past targets included."""
    windows: int
    """Windows that fit between the first and the last row."""
    windows_incomplete: int
    """Of those, left out because a value in them is missing."""
    windows_without_target: int
    """Of the complete ones, left out because the target itself is missing."""
    windows_used: int
    updated_rows: int = 0
    """Rows that came with ``update`` since; ``updated_windows``, what they added."""
    updated_windows: int = 0


@dataclass(frozen=True)
class Linear:
    """A linear model of flattened windows ``(n, lag p)`` on their own scale, with constant errors."""

    weight: Array
    """``(lag p, outputs)``."""
    intercept: Array
    """``(outputs,)``."""
    std: Array
    """Standard deviation of an observation around the line, ``(outputs,)``."""

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Mean, and with ``return_std`` deviation, ``(n, outputs)``, of windows ``(n, lag, p)``."""
        parts = [
            X[i : i + _CHUNK].reshape(-1, len(self.weight)) @ self.weight + self.intercept
            for i in range(0, len(X), _CHUNK)
        ]
        mean = np.concatenate(parts) if parts else np.empty((0, len(self.intercept)))
        return (mean, np.broadcast_to(self.std, mean.shape)) if return_std else mean


@dataclass(frozen=True)
class ForecasterState:
    """All that ``fit`` learnt except the model: with the constructor's arguments, a forecaster."""

    kind: str
    """``"time"``: rows have dates; ``"row"``: rows have whole numbers."""
    step: str | int
    """From row to row: a pandas offset such as ``"h"``, or a difference of row numbers."""
    end: str | int
    """The last known row: an ISO date, or a number."""
    timezone: str | None
    history: Array
    """``(k, columns)``: the newest rows, up to ``end``, one step apart, missing values as NaN;
    columns are inputs, past inputs, targets."""
    target_mean: Array
    """Mean of the training targets, ``(outputs,)``."""
    target_std: Array
    """Their standard deviation: the unit of the z-scale."""
    persistence_std: Array
    """Deviation of the target from its newest known value, over the training rows."""
    ridge: Linear
    """A linear model on the same windows, for comparison."""
    carrier: Linear | None
    """Past inputs one step on, from the same windows; carries them in runs of many steps."""
    report: DataReport
    simulation_scores: dict[str, float] = field(default_factory=dict)
    """In simulation mode: validation RMSE of a free run for each way of training tried."""

    def __post_init__(self) -> None:
        number = {"time": str, "row": int}.get(self.kind)
        if number is None or type(self.step) is not number or type(self.end) is not number:
            raise ValueError(
                f"kind={self.kind!r}, step={self.step!r}, end={self.end!r}; expected text for kind='time', "
                "integers for kind='row'"
            )
        outputs = self.target_mean.shape
        widths = {self.target_std.shape, self.persistence_std.shape, self.ridge.intercept.shape}
        if len(outputs) != 1 or widths != {outputs} or self.history.ndim != 2:
            raise ValueError(
                f"history has shape {self.history.shape}, targets' numbers {outputs} and {widths}; "
                "expected (rows, columns) and one shape (outputs,)"
            )

    def to_header(self) -> dict[str, Any]:
        """Everything but the arrays, as JSON can hold it."""
        return {
            "kind": self.kind,
            "step": self.step,
            "end": self.end,
            "timezone": self.timezone,
            "report": asdict(self.report),
            "simulation_scores": dict(self.simulation_scores),
        }

    def to_arrays(self) -> dict[str, Array]:
        """The float64 arrays by name; those of the carrier only where there is one."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        for name in ("ridge", "carrier"):
            model = getattr(self, name)
            if model is not None:
                arrays |= {f"{name}.{part}": getattr(model, part) for part in _LINEAR}
        return arrays

    @classmethod
    def from_parts(cls, header: dict[str, Any], arrays: dict[str, Array]) -> ForecasterState:
        """The inverse of ``to_header`` and ``to_arrays``.

        Raises:
            ValueError: a part is missing or has another form.
        """
        try:
            return cls._from_parts(header, arrays)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"not the state of a forecaster: {error!r}") from error

    @classmethod
    def _from_parts(cls, header: dict[str, Any], arrays: dict[str, Array]) -> ForecasterState:
        linear = {
            name: Linear(*(arrays[f"{name}.{part}"] for part in _LINEAR))
            for name in ("ridge", "carrier")
            if f"{name}.weight" in arrays
        }
        return cls(
            kind=header["kind"],
            step=header["step"],
            end=header["end"],
            timezone=header["timezone"],
            history=arrays["history"],
            target_mean=arrays["target_mean"],
            target_std=arrays["target_std"],
            persistence_std=arrays["persistence_std"],
            ridge=linear["ridge"],
            carrier=linear.get("carrier"),
            report=DataReport(**header["report"]),
            simulation_scores=dict(header["simulation_scores"]),
        )


_ARRAYS = ("history", "target_mean", "target_std", "persistence_std")
_LINEAR = ("weight", "intercept", "std")
