"""The state of one training run: the posterior trained against, the optimisers, the best so far."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from seqgp.encoders import Encoded, Network, encode
from seqgp.inference import Posterior
from seqgp.training.checkpoint import State, load_optimiser, nested, optimiser_state, section
from seqgp.training.parts import Layer, Part
from seqgp.training.schedules import SCHEDULES
from seqgp.training.selection import judge
from seqgp.training.settings import Training
from seqgp.training.surrogates import SURROGATES, Surrogate

__all__ = ["Best", "Diverged", "Run"]

# In log space: σ² can fall from the targets' variance to a thousandth of it.
_SETTLE_STEPS, _SETTLE_LR = 70, 0.1
_SETTLE_EVERY, _SETTLE_PATIENCE = 5, 20
# Log likelihood ratio, over the validation set, at which it overrules the likelihood of the training set.
# For independent rows 3 would do; their residuals are autocorrelated, so that ten may count as one.
_SETTLE_WORTH = 30.0


class Diverged(RuntimeError):
    """A number that should be finite is not."""


class Run:
    """The state of one training run between two refreshes."""

    encoded: Encoded
    """Latent points ``(n, d)`` and offsets ``(n, outputs)`` of all rows at the last refresh."""
    conditioned_at: State
    """The layer's θ at the posterior of the last refresh."""
    posterior: Posterior
    surrogate: Surrogate

    def __init__(
        self,
        network: Network,
        gp: Layer,
        part: Part,
        settings: Training,
        calibrate: bool,
        hold_theta: bool = False,
    ) -> None:
        n = len(part.y)
        self.network, self.layer, self.part, self.settings = network, gp, part, settings
        self.calibrate = calibrate
        self.full = settings.algorithm == "full"
        self.batch = n if self.full else min(int(settings.batch_size), n)
        batches = math.ceil(n / self.batch)
        self.delay = _delay(settings, batches)
        self.at_epoch_end = self.delay == batches
        # Foreign modules may register frozen parameters (a Keras layer keeps its seed as one).
        self.w = [p for p in network.parameters() if p.requires_grad]
        theta = [] if hold_theta else [p for p in gp.parameters() if p.requires_grad]
        self.w_optimiser = torch.optim.AdamW(
            _groups(self.w), lr=settings.lr, weight_decay=settings.weight_decay
        )
        self.theta_optimiser = torch.optim.Adam(theta, lr=settings.theta_lr) if theta else None
        self.schedule, self.steps = SCHEDULES[settings.schedule], settings.epochs * batches
        self.lr = settings.lr
        self.step = 0
        self.since_refresh = 0

    def refresh(self) -> None:
        """Condition on every row at the present weights, improving θ on the way."""
        self.encoded = self.encode()
        statistics = self._statistics(self.encoded)
        # Solves may start from one another within a refresh, never across: a run that goes on from
        # a checkpoint has no earlier ones.
        self.layer.restart()
        if not self.full:
            for _ in range(self.settings.theta_steps):
                self._improve_theta(self.layer.posterior(statistics))
        self.conditioned_at = _copy(self.layer)
        self._freeze(statistics)
        if self.full:
            # Joint step: θ moves by the gradient at the very posterior that w is about to use.
            self._improve_theta(self.posterior)

    def settle(self, validation: Part | None) -> None:
        """Improve θ alone, from its first values to those that suit the latent points as they are.

        The residuals of a pre-trained network are often autocorrelated, and the likelihood takes that
        for a short lengthscale, which does not generalise. So θ goes no further than to where the
        validation set says clearly that it is worse.
        """
        theta = [p for p in self.layer.parameters() if p.requires_grad]
        if not theta:
            return
        statistics = self._statistics(self.encode())
        seen = None if validation is None else self.encode(validation)
        optimiser = torch.optim.Adam(theta, lr=_SETTLE_LR)
        kept, lowest, best, worse = _copy(self.layer), math.inf, 0, False
        for step in range(_SETTLE_STEPS + 1):
            posterior = self.layer.posterior(statistics)
            if validation is not None and seen is not None and step % _SETTLE_EVERY == 0:
                found = judge(posterior, seen, validation, self.calibrate)
                # The log of the RMSE is the density, but for a constant, of errors of their own size.
                rmse = self.settings.select == "rmse"
                value = math.log(max(found.rmse, 1e-300)) if rmse else found.nlpd
                worse = len(validation.y) * (value - lowest) > _SETTLE_WORTH
                if value < lowest:
                    kept, lowest, best = _copy(self.layer), value, step
                elif worse and step - best >= _SETTLE_PATIENCE:
                    break
            if step < _SETTLE_STEPS:
                optimiser.zero_grad()
                (posterior.nlml / len(self.part.y)).backward()
                optimiser.step()
        if worse:
            self.layer.load_state_dict(kept)

    def _freeze(self, statistics: Any) -> None:
        """What to train against until the next refresh: it follows from H and θ, and nothing else."""
        self.layer.restart()
        with torch.set_grad_enabled(self.full):
            self.posterior = self.layer.posterior(statistics)
        latent, offset = self.encoded.latent, self.encoded.offset
        make = SURROGATES[self.settings.surrogate]
        self.surrogate = make(self.posterior, latent, self.part.y - offset)
        self.since_refresh = 0

    def _improve_theta(self, posterior: Posterior) -> None:
        if self.theta_optimiser is not None:
            self.theta_optimiser.zero_grad()
            (posterior.nlml / len(self.part.y)).backward()
            self.theta_optimiser.step()

    def state(self) -> State:
        """All that training goes on from after an epoch; :meth:`load` is the way back."""
        state = {
            "step": torch.tensor(self.step),
            "since_refresh": torch.tensor(self.since_refresh),
            "latent": self.encoded.latent,
            "offset": self.encoded.offset,
            **nested("network", self.network.state_dict()),
            **nested("layer", self.layer.state_dict()),
            **nested("conditioned_at", self.conditioned_at),
            **nested("w", optimiser_state(self.w_optimiser)),
        }
        if self.theta_optimiser is not None:
            state |= nested("theta", optimiser_state(self.theta_optimiser))
        return state

    def load(self, state: State) -> None:
        """Be as the run was that gave this state."""
        self.network.load_state_dict(section("network", state))
        load_optimiser(self.w_optimiser, section("w", state))
        if self.theta_optimiser is not None:
            load_optimiser(self.theta_optimiser, section("theta", state))
        self.step = int(state["step"])
        self.lr = self._rate()
        # The posterior may be from earlier weights and θ than the present ones.
        device = self.part.y.device
        self.encoded = Encoded(state["latent"].to(device), state["offset"].to(device))
        self.conditioned_at = section("conditioned_at", state)
        self.layer.load_state_dict(self.conditioned_at)
        self._freeze(self._statistics(self.encoded))
        self.layer.load_state_dict(section("layer", state))
        self.since_refresh = int(state["since_refresh"])

    def one_epoch(self, generator: torch.Generator | None, stop: Callable[[], bool] | None) -> bool:
        """All mini-batches once, in random order; False if it was stopped on the way."""
        order = torch.randperm(len(self.part.y), generator=generator).to(self.part.y.device)
        total = torch.zeros((), dtype=torch.float64, device=self.part.y.device)
        for index in order.split(self.batch):
            if stop is not None and stop():
                return False
            if self.since_refresh >= self.delay:
                self.refresh()
            latent, offset = self.network(self.part.windows[index])
            loss = self.surrogate.loss(latent, self.part.y[index] - offset, index)
            total += loss.detach()
            self.w_optimiser.zero_grad()
            loss.backward()
            if self.settings.grad_clip is not None:
                nn.utils.clip_grad_norm_(self.w, self.settings.grad_clip)
            self.step += 1
            self.lr = self._rate()
            for group in self.w_optimiser.param_groups:
                group["lr"] = self.lr
            self.w_optimiser.step()
            self.since_refresh += 1
        # Asked once an epoch, because asking makes the CPU wait for the GPU.
        if not bool(torch.isfinite(total)):
            raise Diverged("the loss is not finite")
        return True

    def encode(self, part: Part | None = None) -> Encoded:
        """Latent points and offsets of a part's rows, by default the training part's."""
        training = self.network.training
        self.network.eval()
        found = encode(self.network, (self.part if part is None else part).windows)
        self.network.train(training)
        if part is None and not all(bool(torch.isfinite(v).all()) for v in found[:2]):
            raise Diverged("the network's output is not finite")
        return found

    def posterior_for_evaluation(self) -> Posterior:
        """A posterior at the present weights; the one training goes on with, if it is due anyway."""
        if self.at_epoch_end:
            self.refresh()
            if not self.full:
                return self.posterior
        statistics = self._statistics(self.encode())
        self.layer.restart()
        with torch.no_grad():
            return self.layer.posterior(statistics)

    def _statistics(self, encoded: Encoded) -> Any:
        return self.layer.statistics(encoded.latent, self.part.y - encoded.offset)

    def _rate(self) -> float:
        return self.settings.lr * self.schedule(self.step, self.steps, self.delay)


class Best:
    """The best state seen, kept as copies."""

    def __init__(self, *modules: nn.Module | Layer) -> None:
        self.modules = modules
        self.epoch = 0
        self.score = math.inf
        self.scale: Tensor | None = None
        self._keep()

    def offer(self, epoch: int, score: float, scale: Tensor | None) -> None:
        if score < self.score:  # NaN is never better
            self.epoch, self.score, self.scale = epoch, score, scale
            self._keep()

    def restore(self) -> None:
        for module, state in zip(self.modules, self.states, strict=True):
            module.load_state_dict(state)

    def state(self) -> State:
        """The best state and what it is best by; :meth:`load` is the way back."""
        state = {
            "epoch": torch.tensor(self.epoch),
            "score": torch.tensor(self.score, dtype=torch.float64),
        }
        if self.scale is not None:
            state["scale"] = self.scale
        for k, module in enumerate(self.states):
            state |= nested(f"module.{k}", module)
        return state

    def load(self, state: State, device: torch.device) -> None:
        """Know what was known when this state was taken."""
        self.epoch, self.score = int(state["epoch"]), float(state["score"])
        self.scale = state["scale"].to(device) if "scale" in state else None
        self.states = [section(f"module.{k}", state) for k in range(len(self.modules))]

    def _keep(self) -> None:
        self.states = [_copy(module) for module in self.modules]


def _copy(module: nn.Module | Layer) -> State:
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


def _groups(weights: list[nn.Parameter]) -> list[dict[str, Any]]:
    """Weights that the weight decay shrinks, and those marked ``decay = False``, if there are any."""
    groups: list[dict[str, Any]] = [
        {"params": [p for p in weights if getattr(p, "decay", True)]},
        {"params": [p for p in weights if not getattr(p, "decay", True)], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def _delay(settings: Training, batches: int) -> int:
    """Mini-batches between two conditionings (the paper's τ)."""
    if settings.algorithm in {"full", "alternating"}:
        return 1
    if settings.refresh == "epoch":
        return batches
    return int(settings.refresh)
