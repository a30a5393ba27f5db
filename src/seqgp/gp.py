"""The GP layer: a module that holds θ and σ², and conditions on latent points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import gpytorch
import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from seqgp.coregion import Coregion, NoiseCorrelation
from seqgp.inference import OffsetPosterior, Posterior, build_inference, coregionalise
from seqgp.kernels import (
    build_kernel,
    build_shared_kernel,
    log_greater_than,
    scale_signal_variance,
    set_signal_variance,
)

__all__ = ["BOX", "GP", "NOISE_FLOOR", "Statistics"]

BOX = 1.0
"""Latent points live in ``[-BOX, BOX]^d``."""
NOISE_FLOOR = 1e-6
"""The least σ², on standardised targets: a thousandth of their standard deviation."""
_OUTPUT_RANK = 4


class GP(nn.Module):
    """A Gaussian process on latent points ``H`` ``(n, latent_dim)`` in the box ``[-1, 1]^d``.

    Holds the kernel's parameters θ and the noise σ² (float64, log-parametrised) and no data:
    :meth:`condition` returns an immutable posterior. Several outputs are independent GPs on
    the same latent points, each with its own kernel parameters; or, ``correlated``, one GP with
    ``cov(f_a(h), f_b(h')) = B_ab k(h, h')`` and noise that is correlated between outputs as well.

    Args:
        kernel: ``"rbf"``, ``"matern12"``, ``"matern32"``, ``"matern52"``, ``"spectral-mixture"``,
            ``"periodic"``, or a gpytorch kernel: any for exact inference, a stationary product (or
            a sum of such) for a grid. Matérn by name is a product over dimensions unless exact.
        inference: ``"exact"`` (dense, O(n³)), ``"grid"`` (one pass over the rows, then free of n;
            latent_dim ≤ 4), or ``"auto"``: exact up to a few thousand rows, else grid.
        latent_dim: d, the dimension of the latent points.
        outputs: how many targets each row has.
        noise: initial σ².
        grid_size: grid points per dimension; by default chosen by ``latent_dim``.
        correlated: learn a covariance B between outputs, and a correlation of their noise, with θ
            (intrinsic coregionalisation); a kernel given by name has no variance of its own then.
            Nothing changes with one output.
        output_rank: of what correlates outputs, in B and in the noise; by default 4, or all if fewer.

    References:
        Learning Scalable Deep Kernels with Recurrent Structure, Al-Shedivat et al. 2017,
        arXiv:1610.08936.

    >>> H = torch.linspace(-1, 1, 20).reshape(-1, 1)
    >>> y = torch.sin(3 * H[:, 0])
    >>> post = GP(kernel="rbf", latent_dim=1).condition(H, y)
    >>> mean, var = post.predict(H)
    >>> mean.shape, bool((var > 0).all())
    (torch.Size([20]), True)
    """

    def __init__(
        self,
        kernel: str | gpytorch.kernels.Kernel = "rbf",
        inference: str = "auto",
        latent_dim: int = 2,
        outputs: int = 1,
        noise: float = 0.1,
        grid_size: int | None = None,
        correlated: bool = False,
        output_rank: int | None = None,
    ) -> None:
        super().__init__()
        if latent_dim < 1 or outputs < 1:
            raise ValueError(
                f"latent_dim={latent_dim} and outputs={outputs} must both be at least 1"
            )
        self.latent_dim = latent_dim
        self.outputs = outputs
        self.inference = build_inference(inference, grid_size)
        self._product = inference != "exact"
        self.coregion: Coregion | None = None
        if correlated and outputs > 1:
            rank = min(outputs, _OUTPUT_RANK) if output_rank is None else output_rank
            if not 1 <= rank <= outputs:
                raise ValueError(
                    f"output_rank={rank} is not between 1 and the number of outputs, {outputs}: a "
                    "covariance of so many outputs has no other rank"
                )
            self.coregion = Coregion(outputs, rank)
            self.noise_correlation = NoiseCorrelation(outputs, rank)
        self.kernel = kernel
        self._noise_constraint = log_greater_than(NOISE_FLOOR).double()
        self.raw_noise = nn.Parameter(torch.zeros(outputs, dtype=torch.float64))
        self.noise = noise

    def restart(self) -> None:
        """Forget where iterative solves ended: the next begins as the first did."""
        self.inference.restart()

    def __setattr__(self, name: str, value: Any) -> None:
        # nn.Module registers modules before it looks at properties, so the kernel is checked here.
        if name == "kernel":
            if self.coregion is None:
                value = build_kernel(value, self.latent_dim, self.outputs, self._product)
            else:
                value = build_shared_kernel(value, self.latent_dim, self._product)
        super().__setattr__(name, value)

    @property
    def noise(self) -> Tensor:
        """σ²: a scalar with one output, else ``(outputs,)``."""
        value: Tensor = self._noise_constraint.transform(self.raw_noise)
        return value.squeeze(0) if self.outputs == 1 else value

    @noise.setter
    def noise(self, value: float | ArrayLike | Tensor) -> None:
        target = torch.as_tensor(value, dtype=torch.float64).detach().to(self.raw_noise.device)
        if not bool((target > NOISE_FLOOR).all()):
            raise ValueError(
                f"noise={value!r} is not above the floor of {NOISE_FLOOR:g}: σ² is a variance on the "
                "scale of standardised targets; use a larger value"
            )
        raw = self._noise_constraint.inverse_transform(target)
        with torch.no_grad():
            self.raw_noise.copy_(raw.expand_as(self.raw_noise))

    @property
    def output_covariance(self) -> Tensor | None:
        """B ``(outputs, outputs)`` of correlated outputs, else None."""
        return None if self.coregion is None else self.coregion()

    @property
    def noise_covariance(self) -> Tensor:
        """Covariance of the noise ``(outputs, outputs)``, with σ² on its diagonal."""
        noise: Tensor = self._noise_constraint.transform(self.raw_noise)
        if self.coregion is None:
            return noise.diag()
        correlation: Tensor = self.noise_correlation()
        return correlation * (noise[:, None] * noise).sqrt()

    def initialise(self, y: Tensor) -> None:
        """Start σ² and the signal variance at the targets' own variance ``y`` ``(n[, outputs])``.

        Noise as large as the signal is meant: the network first learns what explains much, and the
        kernel narrows down as it does. Runs on a few hundred rows that started with little noise
        tended to memorise them; this was seen in sweeps, not isolated.
        """
        targets = y.detach().double().reshape(len(y), -1)
        variance = targets.var(0, correction=0).clamp_min(20.0 * NOISE_FLOOR)
        if self.coregion is None:
            set_signal_variance(self.kernel, variance)
        else:
            self.coregion.initialise(torch.cov(targets.T, correction=0))
        self.noise = variance

    def quieten(self, factor: Tensor) -> None:
        """Divide the signal variance by ``factor`` ``(outputs,)``, where there is one.

        Correlated outputs have one factor, the mean.
        """
        if self.coregion is None:
            scale_signal_variance(self.kernel, 1.0 / factor.to(self.raw_noise))
        else:
            self.coregion.initialise(self.coregion().detach() / float(factor.mean()))

    def statistics(self, H: Tensor | ArrayLike, y: Tensor | ArrayLike) -> Statistics:
        """What conditioning needs of the rows, free of θ: make once, condition on often."""
        rows_h, rows_y, squeeze = self._checked(H, y)
        return Statistics(self.inference.statistics(rows_h, rows_y), squeeze)

    def posterior(self, statistics: Statistics) -> Posterior:
        """The posterior given :meth:`statistics`, under the present θ and σ²."""
        rows, squeeze = statistics.value, statistics.squeeze
        if self.coregion is None:
            noise = self._noise_constraint.transform(self.raw_noise)
            return self.inference.posterior(self.kernel, noise, rows, squeeze)
        D = self.noise_covariance
        return coregionalise(self.inference, self.kernel, self.coregion(), D, rows, squeeze)

    def condition(self, H: Tensor | ArrayLike, y: Tensor | ArrayLike) -> Posterior:
        """Posterior given latent points ``H`` ``(n, d)`` and targets ``y`` ``(n,)`` or ``(n, outputs)``."""
        return self.posterior(self.statistics(H, y))

    def _checked(self, H: Tensor | ArrayLike, y: Tensor | ArrayLike) -> tuple[Tensor, Tensor, bool]:
        device = self.raw_noise.device
        points = _as_tensor(H, "H").to(device=device, dtype=torch.float64)
        targets = _as_tensor(y, "y").to(device=device, dtype=torch.float64)
        if points.ndim != 2 or points.shape[1] != self.latent_dim or len(points) == 0:
            raise ValueError(
                f"H has shape {tuple(points.shape)}, expected (n, {self.latent_dim}) with n ≥ 1: "
                "pass one latent point per row, or set latent_dim to their dimension"
            )
        squeeze = targets.ndim == 1
        rows = targets[:, None] if squeeze else targets
        if rows.shape != (len(points), self.outputs):
            expected = f"({len(points)}, {self.outputs})" + (
                f" or ({len(points)},)" if self.outputs == 1 else ""
            )
            raise ValueError(
                f"y has shape {tuple(targets.shape)}, expected {expected}: one row per latent point "
                f"and one column per output (outputs={self.outputs})"
            )
        for name, value in (("H", points), ("y", rows)):
            bad = int((~torch.isfinite(value)).sum())
            if bad:
                raise ValueError(
                    f"{name} has {bad} values that are NaN or infinite, expected none: "
                    "drop or repair those rows first"
                )
        reach = float(points.detach().abs().max())
        if reach > BOX:
            raise ValueError(
                f"H reaches {reach:g}, expected latent points inside the box [-1, 1]^{self.latent_dim}: "
                "scale them, or squash them with tanh as seqgp's own head does"
            )
        return points, rows, squeeze


class OffsetGP(GP):
    """A GP about predictions that come with its latent points: ``H`` is ``(n, latent_dim + outputs)``.

    The last columns are the mean function at each row; what the GP models is what they leave.
    """

    def statistics(self, H: Tensor | ArrayLike, y: Tensor | ArrayLike) -> Statistics:
        """Of the latent points and what the predictions leave of the targets."""
        rows, targets = _as_tensor(H, "H"), _as_tensor(y, "y")
        latent, prediction = rows[:, : self.latent_dim], rows[:, self.latent_dim :]
        return super().statistics(latent, targets - prediction.reshape(targets.shape))

    def posterior(self, statistics: Statistics) -> OffsetPosterior:
        """About the predictions, under the present θ and σ²."""
        inner = super().posterior(statistics)
        return OffsetPosterior(
            nlml=inner.nlml,
            noise=inner.noise,
            squeeze=inner.squeeze,
            diagnostics=inner.diagnostics,
            inner=inner,
            latent_dim=self.latent_dim,
        )


@dataclass(frozen=True)
class Statistics:
    """An inference's statistics with the shape the targets came in; those of more rows add."""

    value: Any
    """:class:`seqgp.inference.Rows` or :class:`seqgp.inference.GridStatistics`."""
    squeeze: bool
    """Whether the targets were ``(n,)``."""

    def __add__(self, other: Statistics) -> Statistics:
        return replace(self, value=self.value + other.value)


def _as_tensor(value: Tensor | ArrayLike, name: str) -> Tensor:
    try:
        return torch.as_tensor(value if isinstance(value, Tensor) else np.asarray(value, float))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} is not numeric ({error}): pass a float array or tensor"
        ) from error
