"""The training loop: algorithms, schedules, selection, pre-training, warnings."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from seqgp.training.health import warn_if_suspicious
from torch import nn

import seqgp
from seqgp import SequenceGP, TrainingWarning
from seqgp.encoders import Head, build_encoder
from seqgp.gp import GP, NOISE_FLOOR
from seqgp.inference import Readout
from seqgp.training import Part, Settings, encode, make_schedule, train
from seqgp.training import progress as progress_module
from seqgp.training.pretrain import latent_directions, pretrain


def setup(n=96, seed=0, encoder="gru"):
    torch.manual_seed(seed)
    x = torch.randn(n, 8, 1)
    y = torch.tanh(2 * x[:, -1]).double() + 0.1 * torch.randn(n, 1, dtype=torch.float64)
    network = nn.Sequential(build_encoder(encoder, 1, 8, hidden=8), Head(8, 2))
    network[1].calibrate(encode(network[0], x).float())
    gp = GP(inference="exact")
    gp.initialise(y)
    return network, gp, Part(x, y)


class Counting(GP):
    """A GP that counts how often it is conditioned on all the rows."""

    calls = 0

    def statistics(self, H, y):
        type(self).calls += 1
        return super().statistics(H, y)


@pytest.mark.parametrize("algorithm", ["full", "alternating", "delayed"])
@pytest.mark.parametrize("surrogate", ["posterior", "gradient", "block"])
def test_every_algorithm_lowers_the_nlml(algorithm, surrogate):
    network, gp, part = setup()
    epochs = 30 if algorithm == "full" else 6
    settings = Settings(algorithm, surrogate, epochs=epochs, batch_size=32, lr=5e-3)
    trained = train(network, gp, part, settings, generator=torch.Generator().manual_seed(0))
    assert len(trained.history) == epochs
    assert trained.history[-1].nlml < trained.history[0].nlml - 0.1
    assert trained.diverged is None


@pytest.mark.parametrize(
    ("settings", "conditionings"),
    [
        (dict(refresh="epoch"), 1 + 4),  # at the start, then at the end of every epoch
        (dict(refresh=2), 1 + 7 + 4),  # every second of 16 batches, and to evaluate each epoch
        (dict(algorithm="alternating"), 1 + 15 + 4),
        (dict(refresh=8), 1 + 1 + 4),  # stale over two epochs
    ],
)
def test_refresh_counts_mini_batches(settings, conditionings):
    network, _, part = setup()
    Counting.calls = 0
    gp = Counting(inference="exact")
    train(network, gp, part, Settings(**settings, epochs=4, batch_size=24, lr=1e-3))
    assert Counting.calls == conditionings


def test_full_batch_first_step_follows_the_joint_gradient():
    """Adam's first step has the sign of the gradient: compare with autograd through everything."""
    network, gp, part = setup()
    before = [p.detach().clone() for p in [*network.parameters(), *gp.parameters()]]
    gp.condition(network(part.windows), part.y).nlml.backward()
    expected = [-p.grad.sign() for p in [*network.parameters(), *gp.parameters()]]
    sizes = [p.grad.abs().clone() for p in [*network.parameters(), *gp.parameters()]]
    for p in [*network.parameters(), *gp.parameters()]:
        p.grad = None
    settings = Settings("full", epochs=1, lr=1e-3, theta_lr=1e-3, grad_clip=None)
    train(network, gp, part, settings)
    for p, old, sign, size in zip(
        [*network.parameters(), *gp.parameters()], before, expected, sizes, strict=True
    ):
        clear = size > 1e-3 * size.max()  # rounding may turn the sign of what is nearly zero
        assert torch.equal((p.detach() - old).sign()[clear], sign[clear].to(p))


def test_theta_alone_improves_when_the_network_is_frozen():
    network, gp, part = setup()
    for p in network.parameters():
        p.requires_grad_(False)
    network.append(_Shift())
    trained = train(network, gp, part, Settings(epochs=5, lr=1e-9, theta_steps=20))
    assert trained.history[-1].nlml < trained.history[0].nlml


class _Shift(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(2))

    def forward(self, h):
        return (h + self.shift).clamp(-1, 1)


def test_schedules():
    cosine = make_schedule("cosine", total=10)
    assert cosine(1) == 1.0
    assert cosine(11) == pytest.approx(0.0)
    assert [make_schedule("constant", 5)(t) for t in (1, 5)] == [1.0, 1.0]
    direct, delayed = make_schedule("theorem", 5), make_schedule("theorem", 5, delay=4)
    assert delayed(7) == direct(7) / 4
    assert direct(16) / direct(4) == pytest.approx(4 ** (-1.1 / 2))
    with pytest.raises(ValueError, match="schedule='step' is not known"):
        make_schedule("step", 5)


@pytest.mark.parametrize("schedule", ["cosine", "theorem"])
def test_the_schedule_reaches_the_optimiser(schedule):
    network, gp, part = setup()
    trained = train(network, gp, part, Settings(epochs=3, schedule=schedule, refresh=1))
    rates = [record.lr for record in trained.history]
    assert rates[0] > rates[1] > rates[2] > 0


def test_gradient_clipping_bounds_the_first_step():
    norms = []
    for clip in (None, 1e-12):
        network, gp, part = setup()
        before = network[1].linear.weight.detach().clone()
        settings = Settings("full", epochs=1, lr=0.1, grad_clip=clip)
        train(network, gp, part, settings)
        norms.append(float((network[1].linear.weight.detach() - before).norm()))
    assert norms[1] < 0.1 * norms[0]  # below Adam's epsilon the step itself shrinks


def test_best_state_is_restored_and_patience_stops():
    rng = np.random.default_rng(0)
    X, y = (
        rng.standard_normal((80, 5, 1)),
        rng.standard_normal(80),
    )  # nothing to learn: it over-fits
    validation = (rng.standard_normal((40, 5, 1)), rng.standard_normal(40))
    options = dict(hidden=32, epochs=60, lr=0.02, mean="zero", random_state=0)
    options |= dict(
        progress=False, calibrate=False
    )  # the model as it was when the epoch was chosen
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        model = SequenceGP(**options, patience=5).fit(X, y, validation=validation)
    assert len(model.history_) < 60
    best = model.history_.val_nlpd.idxmin()
    assert model.best_epoch_ == model.history_.epoch[best] == len(model.history_) - 5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        by_rmse = SequenceGP(**options, select="rmse").fit(X, y, validation=validation)
    assert by_rmse.best_epoch_ == by_rmse.history_.epoch[by_rmse.history_.val_rmse.idxmin()]
    mean, std = model.predict(validation[0], return_std=True)
    scale = float(model.y_scaler_.scale)
    nlpd = np.mean(
        0.5 * np.log(2 * np.pi * (std / scale) ** 2) + 0.5 * ((validation[1] - mean) / std) ** 2
    )
    assert nlpd == pytest.approx(model.history_.val_nlpd[best], rel=1e-5)


def test_pretraining_hands_its_prediction_to_the_head():
    torch.manual_seed(0)
    x = torch.randn(300, 6, 2)
    y = torch.stack([x[:, -1, 0] * 2, x[:, 0, 1]], -1).double()
    encoder, readout = build_encoder("gru", 2, 6, hidden=16), nn.Linear(16, 2)
    part = Part(x, y)
    history = pretrain(
        encoder, readout, part, Settings(batch_size=32, lr=0.01), epochs=25,
        validation=None, generator=torch.Generator().manual_seed(0),
    ).history  # fmt: skip
    assert history[-1].noise < 0.1 * history[0].noise
    directions = latent_directions(encoder, readout, part, count=3)
    assert directions.shape == (3, 16)
    features = encode(encoder, x)
    latent = (features - features.mean(0)) @ directions.T
    fitted = latent[:, :2] @ torch.linalg.lstsq(latent[:, :2], y - y.mean(0)).solution
    assert float((fitted - (y - y.mean(0))).square().mean() / y.var()) < 0.1
    correlation = torch.corrcoef(latent.T)
    assert float(correlation[2, :2].abs().max()) < 1e-3  # the third shows something new
    assert latent_directions(encoder, readout, part, count=1).shape == (1, 16)


def test_pretraining_in_the_estimator_starts_better():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 10, 1))
    y = np.sin(3 * X[:, -2, 0]) + 0.05 * rng.standard_normal(300)
    options = dict(hidden=16, epochs=1, lr=0.01, batch_size=32, random_state=0, progress=False)
    cold = SequenceGP(**options).fit(X, y)
    warm = SequenceGP(**options, pretrain_epochs=30).fit(X, y)
    assert warm.history_.val_rmse[0] < 0.8 * cold.history_.val_rmse[0]


def test_a_plain_network_is_trained_by_the_same_loop():
    torch.manual_seed(0)
    x = torch.randn(200, 6, 1)
    y = x[:, -1].double() * 2
    network = nn.Sequential(build_encoder("gru", 1, 6, hidden=8), nn.Linear(8, 1))
    trained = train(network, Readout(), Part(x, y), Settings(epochs=30, lr=0.01, batch_size=32))
    error = float((encode(network, x) - y).square().mean())
    assert error < 0.2
    assert min(record.noise for record in trained.history) == pytest.approx(error, rel=1e-6)
    post = Readout().posterior(Readout().statistics(encode(network, x), y))
    assert post.covariance(x[:5, 0]).shape == (1, 5, 5)
    with pytest.raises(TypeError, match="no kernel"):
        post.prior_covariance(x[:5, 0])


@pytest.mark.parametrize("refresh", ["epoch", 1])
def test_divergence_keeps_the_best_state_and_is_said(refresh):
    class Exploding(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 2)
            self.calls = 0

        def forward(self, x):
            self.calls += self.training
            out = torch.tanh(self.linear(x.flatten(1)))
            return out * float("nan") if self.calls > 5 else out

    network, gp, part = setup()
    network = Exploding()
    trained = train(network, gp, part, Settings(epochs=10, batch_size=48, refresh=refresh))
    assert "not finite" in trained.diverged
    assert 1 <= len(trained.history) < 10
    H = torch.randn(10, 2)
    with pytest.warns(TrainingWarning, match="diverged.*Lower lr"):
        warn_if_suspicious(H, None, torch.tensor(0.1), NOISE_FLOOR, diverged="loss")


def test_collapse_and_noise_floor_are_said():
    lengthscale = torch.tensor([[0.5, 0.5]])
    H = 0.5 + 1e-3 * torch.randn(50, 2)
    with pytest.warns(TrainingWarning, match="collapsed.*pre-train"):
        warn_if_suspicious(H, lengthscale, torch.tensor(0.1), NOISE_FLOOR, diverged=None)
    with pytest.warns(TrainingWarning, match="floor of 1e-06.*too narrow"):
        warn_if_suspicious(50 * H, lengthscale, torch.tensor(1.5e-6), NOISE_FLOOR, diverged=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_suspicious(50 * H, lengthscale, torch.tensor(0.1), NOISE_FLOOR, diverged=None)


def test_a_dead_encoder_is_reported_by_fit():
    class Dead(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(1, 4)

        def forward(self, x):
            return self.linear(x[:, 0] * 0.0)

    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 5, 1)), rng.standard_normal(60)
    with pytest.warns(seqgp.TrainingWarning, match="collapsed"):
        SequenceGP(encoder=Dead(), epochs=1, random_state=0, progress=False).fit(X, y)


def test_progress_is_for_terminals_only(monkeypatch, capsys):
    network, gp, part = setup()

    def run(show):
        with progress_module.progress_bar(2, show) as on_epoch:
            train(network, gp, part, Settings(epochs=2), validation=part, on_epoch=on_epoch)
            return on_epoch

    assert run(False) is None
    assert run(True) is None  # captured standard error is no terminal
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    assert run(True) is not None
    assert "NLML" in capsys.readouterr().err


def test_encode_restores_the_mode_and_ignores_dropout():
    network = nn.Sequential(build_encoder("lstm", 1, 4, hidden=8, dropout=0.5), Head(8, 2))
    network.train()
    x = torch.randn(2500, 4, 1)
    assert torch.equal(encode(network, x), encode(network, x))
    assert network.training
    assert encode(network, x).shape == (2500, 2)
