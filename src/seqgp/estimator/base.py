"""What all estimators on windows share: rows, scaling, mean function, training, prediction."""

from __future__ import annotations

import copy
import os
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from seqgp.data import Standardizer, TensorWindows, WindowSet
from seqgp.encoders import Skip, build_encoder, width_of
from seqgp.estimator.calibrating import PREDICT_ROWS, Known, calibrate, encode_both, known_of
from seqgp.estimator.identity import identity
from seqgp.estimator.mixing import Start, mixed, mixture_of, near_best
from seqgp.estimator.options import check_options, resolve_device
from seqgp.estimator.rows import pair_of, part_of, rows_of, windows_on
from seqgp.inference import OffsetPosterior, Posterior
from seqgp.means import MeanFunction, fit_mean
from seqgp.training import Checkpoint, Ends, Layer, Part, Settings, Trained, encode, train
from seqgp.training.noise import Calibration, Errors, NoiseShape
from seqgp.training.progress import progress_bar

__all__ = ["SequenceRegressor"]

Array = NDArray[np.float64]

_LEAST_VALIDATION = 10  # fewer rows than this tell noise from noise


class SequenceRegressor(RegressorMixin, BaseEstimator):
    """Windows ``(n, T, p)`` to a mean and a deviation; what sits on the encoder is the subclass's.

    Subclasses take the options below, and more, in their constructors.
    """

    encoder: str | nn.Module
    hidden: int
    layers: int
    dropout: float
    input_dropout: float
    recurrent_dropout: float
    skip: bool
    restarts: int
    mean: str
    epochs: int
    validation_fraction: float
    calibrate: bool
    lag: int | None
    random_state: int | np.random.RandomState | None
    device: str | torch.device
    progress: bool

    _shaped = False  # whether errors may be larger in some places than in others
    _mixes = False  # whether several trainings predict together
    correlated_ = False

    n_rows_: int
    window_shape_: tuple[int, ...]
    calibration_: Calibration
    mixture_: Calibration | None
    others_: tuple[Self, ...]
    noise_shape_: NoiseShape | None
    network_: nn.Sequential
    layer_: Layer
    mean_function_: MeanFunction

    def fit(
        self,
        X: ArrayLike | WindowSet,
        y: ArrayLike | None = None,
        validation: tuple[ArrayLike, ArrayLike] | WindowSet | None = None,
        stop: Callable[[], bool] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Train on windows ``X`` and targets ``y`` (a WindowSet brings its own targets).

        ``validation`` gives the rows to choose the best epoch on, ``(X, y)`` or a WindowSet, in
        place of the last ``validation_fraction`` of the rows; these never join the posterior.
        ``stop`` is asked now and then whether to end training early, with the best state so far.

        ``checkpoint`` names a file to which the state of training is written after every epoch,
        pre-training included. Where the file exists, training goes on from it and ends with the
        numbers, bit for bit, of a fit that was never interrupted; options, data and versions must
        be those of that fit. It is removed when training has come to its end, since the model is
        what remains, and left where ``stop`` ended it early, to go on from.
        """
        check_options(self.get_params(deep=False))
        device = resolve_device(self.device)
        windows, targets = rows_of(self, X, y, reset=True)
        n = len(windows)
        if n < 2:
            raise ValueError(
                f"X has {n} sample(s), expected at least 2: a single row says nothing about noise. "
                "Use a longer series or a shorter lag"
            )
        held = 0 if validation is not None else int(self.validation_fraction * n)
        held = held if held >= _LEAST_VALIDATION else 0
        chosen_on = None if validation is None else rows_of(self, *pair_of(validation), reset=False)

        self._fit_scalers(windows, targets, n - held)
        every = windows_on(device, windows, self.x_scaler_)
        z = torch.as_tensor(self.y_scaler_.transform(targets), device=device).reshape(n, -1)
        if chosen_on is not None and chosen_on[1].shape[1:] != targets.shape[1:]:
            raise ValueError(
                f"the validation targets have shape {chosen_on[1].shape}, expected the columns of y "
                f"{targets.shape}: cut both from the same data"
            )

        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        saved = None
        if checkpoint is not None:
            rows = {"X": windows, "y": targets}
            if chosen_on is not None:
                rows |= {"validation X": chosen_on[0], "validation y": chosen_on[1]}
            saved = Checkpoint(Path(checkpoint), identity(self, device, rows), seed)
            seed = saved.seed
        # The global generator is put back afterwards: fitting a model changes nobody's random numbers.
        cuda = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(devices=cuda):
            torch.manual_seed(seed)
            stopped = self._fit(every, z, held, chosen_on, device, stop, saved)
        if saved is not None and not stopped:
            saved.remove()
        return self

    def refit(self, X: ArrayLike | WindowSet, y: ArrayLike | None = None) -> Self:
        """Train again, on rows of which some were held back in ``fit``, as long as was best there.

        From the same initial weights, for the epochs that ``fit`` found best; nothing is held back.
        After pre-training, the kernel's parameters are those that ``fit`` ended with.
        What validation rows said of the errors is kept, since there are none to ask again: deviations are
        as large as before on average over these rows. A mean that was shifted for validation rows no
        longer is, since they are trained on, and deviations allow for it.
        Newer rows than those trained on are often worth the second training.
        """
        windows, targets = self._more_rows(X, y)
        device = self.posterior_.noise.device
        known = self._known(windows, targets, device)
        self._fit_scalers(windows, targets, len(windows))
        every = windows_on(device, windows, self.x_scaler_)
        z = torch.as_tensor(self.y_scaler_.transform(targets), device=device)
        cuda = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(devices=cuda):
            for one, said in zip(self._all(), known, strict=True):
                one.x_scaler_, one.y_scaler_ = self.x_scaler_, self.y_scaler_
                torch.manual_seed(one.seed_)
                until = Ends(one.pretrained_epochs_, one.best_epoch_)
                one._fit(every, z.reshape(len(z), -1), 0, None, device, None, None, until, said)
        return self

    def _known(
        self, windows: Array | WindowSet, targets: Array, device: torch.device
    ) -> list[Known]:
        """What validation rows said of each training, for another one on these rows."""
        every = windows_on(device, windows, self.x_scaler_)
        z = torch.as_tensor(self.y_scaler_.transform(targets), device=device)
        return [known_of(one, one._part(every, z.reshape(len(z), -1))) for one in self._all()]

    def _fit(
        self,
        every: Tensor | TensorWindows,
        z: Tensor,
        held: int,
        chosen_on: tuple[Array | WindowSet, Array] | None,
        device: torch.device,
        stop: Callable[[], bool] | None,
        checkpoint: Checkpoint | None,
        until: Ends | None = None,
        known: Known | None = None,
    ) -> bool:
        """Train and condition; whether training was stopped before its end.

        ``until`` says where the stages of training end and ``known`` what validation rows said, where
        that is known.
        """
        n = self.n_rows_ = len(z)
        rows = torch.arange(n - held, device=device)
        self.mean_function_ = fit_mean(self.mean, part_of(every, rows), z[: n - held])
        whole = self._part(every, z)
        part = Part(part_of(every, rows), whole.y[: n - held])
        validation = None
        if held:
            tail = torch.arange(n - held, n, device=device)
            assert whole.mean_variance is not None
            validation = Part(
                part_of(every, tail), whole.y[n - held :], whole.mean_variance[n - held :]
            )
        elif chosen_on is not None:
            z_val = torch.as_tensor(self.y_scaler_.transform(chosen_on[1]), device=device)
            validation = self._part(
                windows_on(device, chosen_on[0], self.x_scaler_),
                z_val.reshape(len(z_val), -1),
            )

        options = {
            name: getattr(self, name)
            for name in Settings.__dataclass_fields__
            if hasattr(self, name)
        }
        settings = Settings(**options)
        seed = torch.initial_seed()
        starts: list[Start] = []
        stopped = False
        trials = [(bool(self.correlated_), 0)]
        if until is None:
            self.others_, self.mixture_ = (), None
            kinds = self._kinds(z.shape[1])
            trials = [(kind, start) for kind in kinds for start in range(self.restarts)]
        with progress_bar(len(trials) * self.epochs, self.progress) as on_epoch:
            for correlated, start in trials:
                stopped = stopped or (bool(starts) and stop is not None and stop())
                if stopped:
                    break
                begins = (seed + start) % 2**63
                torch.manual_seed(begins)
                generator = torch.Generator().manual_seed(begins)
                self.correlated_ = correlated
                encoder, width = self._encoder(part.windows[slice(0, 2)], device)
                network, layer, pretrained = self._build(
                    encoder, width, part, validation, settings, generator, checkpoint, until
                )
                trained = train(
                    network,
                    layer,
                    part,
                    settings,
                    validation=validation,
                    generator=generator,
                    on_epoch=on_epoch,
                    stop=stop,
                    checkpoint=checkpoint,
                    pretrained=pretrained is not None,
                    until=until,
                )
                stopped = trained.stopped
                starts.append(Start(network, layer, trained, begins, correlated, pretrained or 0))
        best, *near = near_best(starts, settings.select)
        mixes = self._mixes and self.calibrate and validation is not None
        models = [self, *(copy.copy(self) for _ in near)] if mixes else [self]
        found: list[Errors | None] = []
        for one, kept in zip(models, [best, *near], strict=False):
            found.append(one._finish(kept, every, whole.y, part, validation, settings, known))
        if len(models) > 1:
            self.others_ = tuple(models[1:])
            self.mixture_ = mixture_of([errors for errors in found if errors is not None])
        return stopped

    def _finish(
        self,
        start: Start,
        every: Tensor | TensorWindows,
        y: Tensor,
        part: Part,
        validation: Part | None,
        settings: Settings,
        known: Known | None,
    ) -> Errors | None:
        """Be the model of that training, conditioned on all rows ``y``; what :func:`calibrate` returns."""
        trained = start.trained
        self.network_, self.layer_ = start.network, start.layer
        self.seed_, self.correlated_ = start.seed, start.correlated
        self.pretrained_epochs_, self.best_epoch_ = start.pretrained_epochs, trained.best_epoch
        self.history_ = pd.DataFrame([asdict(record) for record in trained.history])
        H = encode(self.network_, every)
        n = len(part.y)
        held = calibrate(self, part, H[:n], validation, trained, settings, known)
        self.statistics_ = self.layer_.statistics(H, torch.cat([part.y, self._unshifted(y[n:])]))
        self._condition()
        self._inspect(H, trained)
        return held

    def _all(self) -> tuple[Self, ...]:
        """The trainings that predict together, the best first; most often it is alone."""
        return (self, *self.others_)

    def _unshifted(self, y: Tensor) -> Tensor:
        """Targets of rows newer than those trained on, less what their mean is shifted by."""
        return y - torch.as_tensor(self.calibration_.shift, device=y.device)

    @property
    def variance_scale_(self) -> Array:
        """Factor on predictive variances, one per output, from validation rows."""
        return self.calibration_.scale

    @property
    def dof_(self) -> Array:
        """Degrees of freedom of Student's t, one per output; infinite for a Gaussian."""
        return self.said_.dof

    @property
    def said_(self) -> Calibration:
        """What validation rows said of the errors of predictions: of the mixture, if it is one."""
        return self.calibration_ if self.mixture_ is None else self.mixture_

    def _condition(self) -> None:
        """The posterior from the statistics at hand."""
        with torch.no_grad():
            posterior = self.layer_.posterior(self.statistics_)
        if isinstance(posterior, OffsetPosterior):
            share = torch.as_tensor(self.calibration_.share, device=posterior.noise.device)
            posterior = replace(posterior, share=share)
        self.posterior_: Posterior = posterior
        self.nlml_ = float(self.posterior_.nlml)

    def _kinds(self, outputs: int) -> tuple[bool, ...]:
        """Whether outputs are to be correlated; both are tried where there are two."""
        return (False,)

    @abstractmethod
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
        """The network (the encoder first) and the layer on it, ready to be trained.

        And the best epoch of pre-training, where there was any.
        """

    @abstractmethod
    def _new_head(self, width: int, outputs: int) -> nn.Module:
        """What follows the encoder in the network, untrained."""

    @abstractmethod
    def _new_layer(self, outputs: int, inference: str, grid_size: int | None) -> Layer:
        """The layer on the network, untrained; ``inference`` is settled, where there is any."""

    def _inspect(self, H: Tensor, trained: Trained) -> None:
        """Look at the result, and warn where it is suspicious."""

    def _new_encoder(self, lag: int, features: int) -> nn.Module:
        """The encoder asked for, untrained."""
        if isinstance(self.encoder, nn.Module):
            encoder = copy.deepcopy(self.encoder)
        else:
            encoder = build_encoder(
                self.encoder,
                input_size=features,
                lag=lag,
                hidden=self.hidden,
                layers=self.layers,
                dropout=self.dropout,
                input_dropout=self.input_dropout,
                recurrent_dropout=self.recurrent_dropout,
            )
        return Skip(encoder, self.dropout) if self.skip else encoder

    def _encoder(self, sample: Tensor, device: torch.device) -> tuple[nn.Module, int]:
        """The encoder asked for, on the device, and its width."""
        encoder = self._new_encoder(*sample.shape[1:]).to(device)
        return encoder, width_of(encoder, sample)

    def _fit_scalers(self, windows: Array | WindowSet, targets: Array, n: int) -> None:
        """Standardisation from the first ``n`` rows; a target that does not vary is refused."""
        if isinstance(windows, WindowSet):
            inputs = windows.subset(slice(0, n)).rows()
        else:
            inputs = windows[:n].reshape(-1, windows.shape[-1])
        constant = np.flatnonzero(np.ptp(targets[:n].reshape(n, -1), axis=0) == 0)
        if len(constant):
            value = targets.reshape(len(targets), -1)[0, constant[0]]
            raise ValueError(
                f"y is constant in the training part (column {constant[0]}, value {value:g}), expected "
                "a target that varies: check the column, or use more rows"
            )
        self.x_scaler_ = Standardizer.fit(inputs)
        self.y_scaler_ = Standardizer.fit(targets[:n])

    def _part(self, windows: Any, z: Tensor) -> Part:
        """Rows with the mean function subtracted and its variance at hand."""
        mean, variance = self.mean_function_.predict(windows)
        return Part(windows, z - mean, variance)

    def predict(
        self,
        X: ArrayLike | WindowSet,
        return_std: bool = False,
        observed: bool = True,
        return_cov: bool = False,
    ) -> Array | tuple[Array, Array]:
        """Mean ``(n,)`` or ``(n, outputs)``, and with ``return_std`` the standard deviation.

        Of what was learnt beyond the mean function the mean has as much as validation rows bear out, and
        it is shifted where they said clearly that the level has moved since training.
        The deviation is that of a new observation, which is Student's t with ``dof_`` degrees of
        freedom around the mean (a Gaussian where that is infinite); ``observed=False`` gives that of
        the latent function, without the noise. The mean function's own uncertainty is part of both,
        and so is what validation rows said of the errors' size, with ``calibrate``. For an interval
        that holds its level whatever the distribution see :meth:`interval`.

        ``return_cov`` gives the covariance of the outputs of each row instead, ``(n, outputs,
        outputs)``: diagonal, with the same variances, unless outputs are correlated.
        """
        if return_std and return_cov:
            raise ValueError(
                "return_std and return_cov are both True, expected one of them: the deviations are "
                "the roots of the covariance's diagonal"
            )
        check_is_fitted(self, "posterior_")
        windows, _ = rows_of(self, X, None, reset=False, targets=False)
        inputs = windows_on(self.posterior_.noise.device, windows, self.x_scaler_)
        line = self.mean_function_.predict(inputs)
        found = [one._moments(inputs, line, observed, return_cov) for one in self._all()]
        mean, spread = found[0]
        if self.mixture_ is not None:
            mean, spread = mixed(*zip(*found, strict=True))
            spread = _scaled(spread, self.mixture_.factor(None, mean), return_cov)
        size = (len(mean), *self.y_scaler_.shift.shape)
        means = self.y_scaler_.inverse(mean.cpu().numpy().reshape(size))
        if return_cov:
            unit = np.broadcast_to(self.y_scaler_.scale, mean.shape[1:])
            covariance: Array = spread.cpu().numpy() * unit[:, None] * unit
            return means, covariance
        if not return_std:
            return means
        return means, self.y_scaler_.inverse_std(spread.sqrt().cpu().numpy().reshape(size))

    def _moments(
        self, inputs: Any, line: tuple[Tensor, Tensor], observed: bool, covariance: bool
    ) -> tuple[Tensor, Tensor]:
        """Mean ``(n, outputs)`` and variance, or covariance of outputs, by this training alone.

        Standardised, at windows where the mean function says ``line``.
        """
        mean, more = line
        device = mean.device
        features, H = encode_both(self, inputs)
        chunks = H.split(PREDICT_ROWS)
        with torch.no_grad():
            pieces = [self.posterior_.predict(h, observed) for h in chunks]
            slope = torch.as_tensor(self.calibration_.slope, device=device)
            mean = mean + slope * torch.cat([piece[0] for piece in pieces])
            shape = None
            if observed and self.noise_shape_ is not None:
                shape = self.noise_shape_(torch.cat([features, mean], 1))
            mean = mean + torch.as_tensor(self.calibration_.shift, device=device)
            spread = torch.cat([piece[1] for piece in pieces]) + more
            if covariance:
                between = [self.posterior_.output_covariance(h, observed) for h in chunks]
                spread = torch.cat(between) + torch.diag_embed(more)
        return mean, _scaled(spread, self.calibration_.factor(shape, mean), covariance)

    def interval(self, X: ArrayLike | WindowSet, level: float = 0.95) -> tuple[Array, Array]:
        """Lower and upper ends, ``(n,)`` or ``(n, outputs)``, between which new observations are.

        A new observation is inside with a probability of at least ``level`` if its error is one as
        validation rows had: exchangeable with theirs, whatever the distribution. Under drift it is
        not; :func:`seqgp.adaptive_quantiles` follows that. The rows also chose the epoch and the
        size of the deviations; with fewer than 500 of them it is not narrower than the t is.

        References:
            Algorithmic Learning in a Random World, Vovk, Gammerman and Shafer 2005.
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level={level!r} must be between 0 and 1: 0.95 is 95%")
        check_is_fitted(self, "posterior_")
        mean, std = self.predict(X, return_std=True)
        radius = self.said_.radius(level).reshape(self.y_scaler_.shift.shape)
        return mean - radius * std, mean + radius * std

    def _more_rows(self, X: Any, y: Any) -> tuple[Array | WindowSet, Array]:
        """Checked windows and targets for a fitted model, of the shapes that it was fitted to."""
        check_is_fitted(self, "posterior_")
        windows, targets = rows_of(self, X, y, reset=False)
        outputs = self.y_scaler_.shift.shape
        if targets.shape[1:] != outputs:
            raise ValueError(
                f"y has shape {targets.shape}, expected (n, {', '.join(map(str, outputs))}) as in fit"
            )
        return windows, targets

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _scaled(spread: Tensor, factor: Tensor, covariance: bool) -> Tensor:
    """Variances ``(n, outputs)`` times a factor, or covariances with such variances."""
    if not covariance:
        return spread * factor
    unit = factor.sqrt()
    return spread * unit[..., :, None] * unit[..., None, :]
