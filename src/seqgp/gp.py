"""The GP layer: a module that holds θ and σ², and conditions on latent points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import gpytorch
import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from seqgp.inference import EXACT_ROWS, INFERENCES, Inference, Posterior
from seqgp.kernels import build_kernel, set_signal_variance
from seqgp.likelihoods import NOISE_FLOOR, Likelihood, as_likelihood
from seqgp.options import OptionsModule, Registry

__all__ = ["BOX", "GP", "GPS", "Statistics", "register"]

BOX = 1.0
"""Latent points live in ``[-BOX, BOX]^d``."""


@dataclass(frozen=True)
class Statistics:
    """What conditioning needs of the rows, free of θ; that of more rows adds."""

    inference: Inference
    """That they are for."""
    value: Any
    """:class:`seqgp.inference.Rows` or :class:`seqgp.inference.GridStatistics`, say."""

    def __add__(self, other: Statistics) -> Statistics:
        return replace(self, value=self.value + other.value)


GPS: Registry[type[GP]] = Registry("gp")
register = GPS.register


@register("gp")
class GP(OptionsModule):
    """A Gaussian process on latent points ``H`` ``(n, latent_dim)`` in the box ``[-1, 1]^d``.

    Holds the kernel's parameters θ and the likelihood's (float64, log-parametrised) and no data:
    :meth:`condition` returns an immutable posterior. Several outputs are independent GPs on
    the same latent points, each with its own kernel parameters.

    Args:
        kernel: ``"rbf"``, ``"matern12"``, ``"matern32"``, ``"matern52"``, ``"spectral-mixture"``,
            ``"periodic"``, another registered name, or a gpytorch kernel: any for exact inference, a
            stationary product (or a sum of such) for a grid. Matérn by name is a product over dimensions
            unless exact.
        inference: ``"exact"`` (dense, O(n³)), ``"grid"`` (one pass over the rows, then free of n;
            latent_dim ≤ 4), another registered name, or ``"auto"``: exact up to 2,000 rows, else grid.
        latent_dim: d, the dimension of the latent points.
        outputs: how many targets each row has.
        likelihood: ``"gaussian"``, another registered name, or a :class:`seqgp.likelihoods.Likelihood`.
        grid_size: grid points per dimension; by default chosen by ``latent_dim``.

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
        likelihood: str | Likelihood = "gaussian",
        grid_size: int | None = None,
    ) -> None:
        super().__init__(
            kernel=kernel,
            inference=inference,
            latent_dim=latent_dim,
            outputs=outputs,
            likelihood=likelihood,
            grid_size=grid_size,
        )
        if min(latent_dim, outputs) < 1:
            raise ValueError(
                f"latent_dim={latent_dim} and outputs={outputs} must both be at least 1"
            )
        if inference != "auto":
            _ = INFERENCES[inference]
        self.latent_dim = latent_dim
        self.outputs = outputs
        self.inference = inference
        self.grid_size = grid_size
        self.likelihood = as_likelihood(likelihood, outputs)
        self.kernel = self.build_kernel(kernel, inference != "exact")
        self._inferences: dict[str, Inference] = {}

    def build_kernel(self, kernel: str | gpytorch.kernels.Kernel, product: bool) -> Any:
        """The kernel module; a subclass may share one between outputs.

        Args:
            kernel: as given to the constructor.
            product: whether it must be a product over dimensions.
        """
        return build_kernel(kernel, self.latent_dim, self.outputs, product)

    @property
    def noise(self) -> Tensor:
        """Variance of the noise, ``(outputs,)``."""
        return self.likelihood.noise

    def initialise(self, y: Tensor) -> None:
        """Start the signal variance and the likelihood at the targets' own variance.

        Noise as large as the signal is meant: the network first learns what explains much, and the
        kernel narrows down as it does.

        Args:
            y: ``(n,)`` or ``(n, outputs)``.
        """
        targets = y.detach().double().reshape(len(y), -1)
        variance = targets.var(0, correction=0).clamp_min(20.0 * NOISE_FLOOR)
        set_signal_variance(self.kernel, variance)
        self.likelihood.initialise(targets)

    def statistics(self, H: Tensor | ArrayLike, y: Tensor | ArrayLike) -> Statistics:
        """What conditioning needs of the rows, free of θ: make once, condition on often.

        Args:
            H: latent points ``(n, d)``.
            y: targets ``(n,)`` or ``(n, outputs)``.
        """
        points, targets = self._checked(H, y)
        inference = self.inference_for(len(points))
        return Statistics(inference, inference.statistics(points, targets))

    def posterior(self, statistics: Statistics) -> Posterior:
        """The posterior given :meth:`statistics`, under the present parameters."""
        return statistics.inference.posterior(self.kernel, self.likelihood, statistics.value)

    def condition(self, H: Tensor | ArrayLike, y: Tensor | ArrayLike) -> Posterior:
        """The posterior given rows; its results are ``(n,)`` where ``y`` was.

        Args:
            H: latent points ``(n, d)``.
            y: targets ``(n,)`` or ``(n, outputs)``.
        """
        posterior = self.posterior(self.statistics(H, y))
        return replace(posterior, squeeze=True) if np.ndim(y) == 1 else posterior

    def restart(self) -> None:
        """Forget where iterative solves ended: the next begins as the first did."""
        for inference in self._inferences.values():
            inference.restart()

    def inference_for(self, rows: int) -> Inference:
        """The inference for so many rows: the same object each time, since it may go on from a solve."""
        name = self.inference
        if name == "auto":
            name = "exact" if rows <= EXACT_ROWS else "grid"
        if name not in self._inferences:
            self._inferences[name] = INFERENCES[name](self.grid_size)
        return self._inferences[name]

    def _checked(self, H: Tensor | ArrayLike, y: Tensor | ArrayLike) -> tuple[Tensor, Tensor]:
        device = self.likelihood.noise.device
        points = _as_tensor(H, "H").to(device=device, dtype=torch.float64)
        targets = _as_tensor(y, "y").to(device=device, dtype=torch.float64)
        if points.ndim != 2 or points.shape[1] != self.latent_dim or len(points) == 0:
            raise ValueError(
                f"H has shape {tuple(points.shape)}, expected (n, {self.latent_dim}) with n ≥ 1: "
                "pass one latent point per row, or set latent_dim to their dimension"
            )
        rows = targets[:, None] if targets.ndim == 1 else targets
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
        return points, rows


def _as_tensor(value: Tensor | ArrayLike, name: str) -> Tensor:
    try:
        return torch.as_tensor(value if isinstance(value, Tensor) else np.asarray(value, float))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} is not numeric ({error}): pass a float array or tensor"
        ) from error
