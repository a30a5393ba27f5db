"""``SequenceGP``: windows in, mean and standard deviation out, with scikit-learn's manners."""

from __future__ import annotations

import copy
from typing import Self

import gpytorch
import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from seqgp.data import WindowSet
from seqgp.encoders import Head, ReadoutHead, ScaledLinear
from seqgp.estimator.base import SequenceRegressor
from seqgp.estimator.rows import windows_on
from seqgp.gp import GP, NOISE_FLOOR, OffsetGP
from seqgp.inference import EXACT_ROWS
from seqgp.kernels import lengthscale
from seqgp.training import Checkpoint, Ends, Layer, Part, Settings, Trained, encode
from seqgp.training.health import warn_if_suspicious
from seqgp.training.pretrain import latent_directions, pretrain

__all__ = ["SequenceGP"]


class SequenceGP(SequenceRegressor):
    """Gaussian process regression on sequences, with a recurrent network inside the kernel.

    ``X`` is ``(n, T, p)``: n windows of T steps of p features; or flattened ``(n, T*p)`` with
    ``lag=T``; or a :class:`seqgp.WindowSet`. ``y`` is ``(n,)`` or ``(n, outputs)``. Inputs and
    targets are standardised inside, on the training part only.

    Args:
        encoder: ``"narx"``, ``"rnn"``, ``"gru"``, ``"lstm"``, ``"lstm-peephole"``, or any
            ``nn.Module`` mapping ``(n, T, p)`` to ``(n, width)`` (copied, never changed).
        hidden: units per layer.
        layers: recurrent (or hidden) layers.
        dropout: on the output of every layer.
        input_dropout: variational, one mask per window.
        recurrent_dropout: variational, on the previous hidden state.
        skip: let the head see the flattened window beside the encoder's features.
        latent_dim: d, the dimension of the space in which the GP lives.
        kernel: ``"rbf"``, ``"matern12"``, ``"matern32"``, ``"matern52"``, ``"spectral-mixture"``,
            ``"periodic"``, or a gpytorch kernel on d dimensions.
        mean: ``"linear"`` in the window (steps long ago, and columns that say little, count less, as
            far as the evidence agrees), or ``"zero"``.
        readout: a linear readout of the encoder's features joins the mean, trained with them, as in
            a plain network; the GP is about what it leaves. For targets that do not fit through
            ``latent_dim`` numbers: many outputs, or very little noise.
        inference: ``"exact"``, ``"grid"`` (latent_dim ≤ 4), or ``"auto"``: exact up to a few
            thousand rows, else grid.
        grid_size: grid points per latent dimension; by default chosen by ``latent_dim``.
        correlated: learn how several outputs, and their noise, vary together (see
            :class:`seqgp.GP`); then ``predict(X, return_cov=True)`` has their covariance, and epochs
            are compared by the joint density of all outputs. They share the kernel's parameters.
            ``"auto"`` trains both and keeps the better, by the same measure as the best epoch
            (``correlated_`` says which).
        output_rank: of what correlates outputs; by default 4, or all if fewer.
        algorithm: ``"delayed"`` (the posterior is renewed every ``refresh`` mini-batches),
            ``"alternating"`` (at every mini-batch) or ``"full"`` (no mini-batches).
        surrogate: what mini-batches descend on between two renewals: ``"posterior"``,
            ``"gradient"`` or ``"block"``; see :mod:`seqgp.training.surrogates`.
        refresh: mini-batches between two renewals of the posterior, or ``"epoch"``.
        epochs: passes over the training rows.
        batch_size: rows in a mini-batch.
        lr: learning rate of the network (Adam).
        theta_lr: learning rate of the kernel's parameters and the noise (Adam, log scale).
        theta_steps: steps on those at each renewal.
        schedule: of ``lr``: ``"constant"``, ``"cosine"``, or ``"theorem"`` (the paper's).
        grad_clip: largest norm of the network's gradient, or None.
        weight_decay: shrinks the network's weights (AdamW).
        pretrain_epochs: epochs of plain squared-error training of the encoder beforehand, as a
            :class:`seqgp.SequenceNet` of the same seed. The GP on the encoder as it is then, epoch 0,
            may be the best.
        pretrain_lr: learning rate of those epochs; by default ``lr``.
        validation_fraction: share of the rows, the last in order, on which the best epoch is
            chosen. They join the posterior at the end. Parts of fewer
            than 10 rows are not made: then the lowest training NLML is chosen.
        patience: stop after so many epochs without improvement, or None.
        select: what the best epoch is best in, on validation rows: ``"nlpd"`` (the predictive
            density: mean and deviation together) or ``"rmse"`` (the mean alone).
        calibrate: let validation rows say how much of what the kernel takes for signal is signal, how
            much of what was learnt beyond a line they bear out, whether the level has moved since, and
            how large errors are, where, and with what tails;
            epochs are compared with errors of that size. Nothing is done without validation rows.
        restarts: train so many times from different random weights: the likelihood of a recurrent
            kernel has bad local optima. With ``calibrate`` and validation rows all those predict together
            that are nearly as good as the best, by the same measure as the best epoch: their mean, with a
            deviation that has their differences in it. Else the best is kept.
        lag: T, for flattened ``X``; without it each column is one step of a single feature.
        random_state: seed; the same seed gives the same numbers on the same machine.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, or a torch device.
        progress: show a progress bar when standard error is a terminal.

    Attributes:
        history_: DataFrame with one row per epoch: NLML per row, validation RMSE and NLPD (of
            standardised targets), the factor on the variance, noise, learning rate.
        variance_scale_: the factor on predictive variances, one per output (see ``calibrate``).
        nlml_: NLML of the standardised targets, less the mean function, total in nats.
        best_epoch_: the epoch whose state was kept.
        statistics_: what the posterior was conditioned on, in the latent space.
        gp_: the trained :class:`seqgp.GP`; ``posterior_``, what it predicts from.
        network_: encoder and head, windows to latent points.
        others_: with ``restarts``, the trainings that predict together with this one, which was the best.

    References:
        Learning Scalable Deep Kernels with Recurrent Structure, Al-Shedivat et al. 2017,
        arXiv:1610.08936.

    >>> rng = np.random.default_rng(0)
    >>> series = np.sin(np.arange(220) / 5) + 0.1 * rng.standard_normal(220)
    >>> X = np.stack([series[i : i + 12] for i in range(200)])[:, :, None]
    >>> y = series[12:212]
    >>> model = SequenceGP(hidden=8, epochs=5, random_state=0).fit(X[:150], y[:150])
    >>> mean, std = model.predict(X[150:], return_std=True)
    >>> mean.shape, bool(model.score(X[150:], y[150:]) > 0.9)
    ((50,), True)
    """

    _shaped = True
    _mixes = True

    def __init__(
        self,
        encoder: str | nn.Module = "lstm",
        hidden: int = 64,
        layers: int = 1,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        skip: bool = False,
        latent_dim: int = 2,
        kernel: str | gpytorch.kernels.Kernel = "rbf",
        mean: str = "linear",
        readout: bool = False,
        inference: str = "auto",
        grid_size: int | None = None,
        correlated: bool | str = False,
        output_rank: int | None = None,
        algorithm: str = "delayed",
        surrogate: str = "posterior",
        refresh: int | str = "epoch",
        epochs: int = 100,
        batch_size: int = 128,
        lr: float = 1e-3,
        theta_lr: float = 0.02,
        theta_steps: int = 2,
        schedule: str = "constant",
        grad_clip: float | None = 5.0,
        weight_decay: float = 0.0,
        pretrain_epochs: int = 0,
        pretrain_lr: float | None = None,
        validation_fraction: float = 0.1,
        patience: int | None = None,
        select: str = "nlpd",
        calibrate: bool = True,
        restarts: int = 1,
        lag: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        device: str | torch.device = "auto",
        progress: bool = True,
    ) -> None:
        self.encoder = encoder
        self.hidden = hidden
        self.layers = layers
        self.dropout = dropout
        self.input_dropout = input_dropout
        self.recurrent_dropout = recurrent_dropout
        self.skip = skip
        self.latent_dim = latent_dim
        self.kernel = kernel
        self.mean = mean
        self.readout = readout
        self.inference = inference
        self.grid_size = grid_size
        self.correlated = correlated
        self.output_rank = output_rank
        self.algorithm = algorithm
        self.surrogate = surrogate
        self.refresh = refresh
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.theta_lr = theta_lr
        self.theta_steps = theta_steps
        self.schedule = schedule
        self.grad_clip = grad_clip
        self.weight_decay = weight_decay
        self.pretrain_epochs = pretrain_epochs
        self.pretrain_lr = pretrain_lr
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.select = select
        self.calibrate = calibrate
        self.restarts = restarts
        self.lag = lag
        self.random_state = random_state
        self.device = device
        self.progress = progress

    def _build(
        self,
        encoder: nn.Module,
        width: int,
        part: Part,
        validation: Part | None,
        settings: Settings,
        generator: torch.Generator,
        checkpoint: Checkpoint | None,
        until: Ends | None,
    ) -> tuple[nn.Sequential, Layer, int | None]:
        device, outputs = part.y.device, part.y.shape[1]
        pretrained: Trained | None = None
        if self.pretrain_epochs:
            # First of all, so that a plain network of the same seed and options is this one.
            readout = ScaledLinear(width, outputs).to(device)
            readout.measure(part.y)
            pretrained = pretrain(
                encoder,
                readout,
                part,
                settings,
                epochs=self.pretrain_epochs,
                validation=validation,
                generator=generator,
                lr=self.pretrain_lr,
                checkpoint=checkpoint,
                until=until,
            )
        head = self._new_head(width, outputs).to(device)
        if isinstance(head, ReadoutHead):
            head.readout.measure(part.y)
        if pretrained is not None:
            head.point(latent_directions(encoder, readout, part, self.latent_dim))
            if isinstance(head, ReadoutHead):
                head.readout.load_state_dict(readout.state_dict())
        features = encode(encoder, part.windows).float()
        head.calibrate(features)
        left = part.y
        if isinstance(head, ReadoutHead):
            with torch.no_grad():
                left = part.y - head.readout(features)
        # Settled here by all rows, since training sees fewer of them than the final posterior.
        inference = self.inference
        if inference == "auto":
            inference = "exact" if self.n_rows_ <= EXACT_ROWS else "grid"
        gp = self._new_layer(outputs, inference, self.grid_size).to(device)
        gp.initialise(left)
        if pretrained is not None and until is not None:
            gp.load_state_dict(self.gp_.state_dict())
        return nn.Sequential(encoder, head), gp, pretrained.best_epoch if pretrained else None

    def _kinds(self, outputs: int) -> tuple[bool, ...]:
        if self.correlated == "auto":
            return (False, True) if outputs > 1 else (False,)
        return (bool(self.correlated),)

    def _new_head(self, width: int, outputs: int) -> Head:
        if self.readout:
            return ReadoutHead(width, self.latent_dim, outputs)
        return Head(width, self.latent_dim)

    def _new_layer(self, outputs: int, inference: str, grid_size: int | None) -> GP:
        kind = OffsetGP if self.readout else GP
        return kind(
            kernel=copy.deepcopy(self.kernel),
            inference=inference,
            grid_size=grid_size,
            latent_dim=self.latent_dim,
            outputs=outputs,
            correlated=self.correlated_,
            output_rank=self.output_rank,
        )

    def update(self, X: ArrayLike | WindowSet, y: ArrayLike | None = None) -> Self:
        """Condition on more rows, at the network, parameters, scales and mean function of ``fit``.

        The posterior is that of all rows from scratch; with grid inference the old ones are not
        needed for it. Predictions have as much of it as validation rows bore out (``calibrate``): where
        that is nothing they are those of a line, which only ``fit`` and ``refit`` change.
        """
        windows, targets = self._more_rows(X, y)
        device = self.posterior_.noise.device
        z = torch.as_tensor(self.y_scaler_.transform(targets), device=device)
        part = self._part(windows_on(device, windows, self.x_scaler_), z.reshape(len(z), -1))
        for one in self._all():
            H = encode(one.network_, part.windows)
            one.statistics_ = one.statistics_ + one.layer_.statistics(H, one._unshifted(part.y))
            one.n_rows_ += len(z)
            one._condition()
        return self

    def _condition(self) -> None:
        # Where an iterative solve begins depends on what came before; this one depends on nothing.
        self.gp_.restart()
        super()._condition()

    @property
    def gp_(self) -> GP:
        """The trained GP layer."""
        gp = self.layer_
        assert isinstance(gp, GP)
        return gp

    def _inspect(self, H: Tensor, trained: Trained) -> None:
        noise = self.gp_.noise.detach()
        warn_if_suspicious(
            H[:, : self.latent_dim],
            lengthscale(self.gp_.kernel),
            noise,
            NOISE_FLOOR,
            trained.diverged,
        )
