"""The training loop: algorithms, schedules, selection, pre-training, warnings."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch import nn

from seqgp import GP, GRU, LSTM, SequenceGP, Training, TrainingWarning
from seqgp.encoders import Encoder, Head, Network, ScaledLinear, encode
from seqgp.likelihoods import NOISE_FLOOR
from seqgp.training import (
    SCHEDULES,
    Part,
    Plain,
    latent_directions,
    pretrain,
    progress_bar,
    train,
)
from seqgp.training.messages import warn_if_moved, warn_if_overconfident, warn_if_suspicious


def network_of(encoder: Encoder, width: int, features: int = 1, lag: int = 8) -> Network:
    return Network(encoder.build(features, lag), Head(width, 2), None, outputs=1)


def setup(n=96, seed=0):
    torch.manual_seed(seed)
    x = torch.randn(n, 8, 1)
    y = torch.tanh(2 * x[:, -1]).double() + 0.1 * torch.randn(n, 1, dtype=torch.float64)
    network = network_of(GRU(hidden=8), 8)
    network.head.centre(encode(network.eval(), x, features=True).features)
    gp = GP(inference="exact")
    gp.initialise(y)
    return network.train(), gp, Part(x, y)


class Counting(GP):
    """A GP that counts how often it is conditioned on all the rows."""

    calls = 0

    def statistics(self, H, y):
        type(self).calls += 1
        return super().statistics(H, y)


@pytest.mark.parametrize("algorithm", ["full", "alternating", "delayed"])
def test_every_algorithm_lowers_the_nlml(algorithm):
    network, gp, part = setup()
    epochs = 30 if algorithm == "full" else 6
    settings = Training(algorithm=algorithm, epochs=epochs, batch_size=32, lr=5e-3)
    trained = train(network, gp, part, settings, generator=torch.Generator().manual_seed(0))
    assert len(trained.history) == epochs
    assert trained.history[-1].nlml < trained.history[0].nlml - 0.1
    assert trained.diverged is None
    assert not network.training  # what is left is a model to predict with


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
    train(network, gp, part, Training(**settings, epochs=4, batch_size=24, lr=1e-3))
    assert Counting.calls == conditionings


def test_full_batch_first_step_follows_the_joint_gradient():
    """Adam's first step has the sign of the gradient: compare with autograd through everything."""
    network, gp, part = setup()
    parameters = [*network.parameters(), *gp.parameters()]
    before = [p.detach().clone() for p in parameters]
    gp.condition(network(part.windows)[0], part.y).nlml.backward()
    expected = [-p.grad.sign() for p in parameters]
    sizes = [p.grad.abs().clone() for p in parameters]
    for p in parameters:
        p.grad = None
    settings = Training(algorithm="full", epochs=1, lr=1e-3, theta_lr=1e-3, grad_clip=None)
    train(network, gp, part, settings)
    for p, old, sign, size in zip(parameters, before, expected, sizes, strict=True):
        clear = size > 1e-3 * size.max()  # rounding may turn the sign of what is nearly zero
        assert torch.equal((p.detach() - old).sign()[clear], sign[clear].to(p))


class _Shift(nn.Module):
    """Beside a frozen network, so that there is a weight to train."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.shift = nn.Parameter(torch.zeros(8))

    def forward(self, x):
        return self.inner(x) + self.shift


def test_theta_alone_improves_when_the_network_is_frozen():
    network, gp, part = setup()
    for p in network.parameters():
        p.requires_grad_(False)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    network.encoder = _Shift(network.encoder)
    trained = train(network, gp, part, Training(epochs=5, lr=1e-9, theta_steps=20))
    assert trained.history[-1].nlml < trained.history[0].nlml
    after = {name.replace(".inner", ""): v for name, v in network.state_dict().items()}
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_schedules():
    cosine, constant = SCHEDULES["cosine"], SCHEDULES["constant"]
    assert cosine(1, 10, 1) == 1.0
    assert cosine(11, 10, 1) == pytest.approx(0.0)
    assert [constant(t, 5, 3) for t in (1, 5)] == [1.0, 1.0]
    with pytest.raises(ValueError, match="schedule='step' is not known: use one of 'constant'"):
        Training(schedule="step").check()


def test_the_schedule_reaches_the_optimiser():
    network, gp, part = setup()
    settings = Training(epochs=3, schedule="cosine", batch_size=32)
    rates = [record.lr for record in train(network, gp, part, settings).history]
    assert rates == pytest.approx([1e-3 * SCHEDULES["cosine"](t, 9, 3) for t in (3, 6, 9)])
    assert rates[0] > rates[1] > rates[2] > 0


def test_gradient_clipping_bounds_the_first_step():
    norms = []
    for clip in (None, 1e-12):
        network, gp, part = setup()
        before = network.head.linear.weight.detach().clone()
        settings = Training(algorithm="full", epochs=1, lr=0.1, grad_clip=clip)
        train(network, gp, part, settings)
        norms.append(float((network.head.linear.weight.detach() - before).norm()))
    assert norms[1] < 0.1 * norms[0]  # below Adam's epsilon the step itself shrinks


def test_best_state_is_restored_and_patience_stops():
    rng = np.random.default_rng(0)
    # nothing to learn: it over-fits
    X, y = rng.standard_normal((80, 5, 1)), rng.standard_normal(80)
    validation = (rng.standard_normal((40, 5, 1)), rng.standard_normal(40))

    def fit(**options):
        training = Training(epochs=60, lr=0.02, **options)
        model = SequenceGP(
            LSTM(hidden=32), mean="zero", training=training, random_state=0,
            progress=False, calibrate=False,  # the model as it was when the epoch was chosen
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingWarning)
            return model.fit(X, y, validation=validation)

    model = fit(patience=5)
    assert len(model.history_) < 60
    best = model.history_.val_nlpd.idxmin()
    best_epoch = model.fitted_.members[0].record.best_epoch
    assert best_epoch == model.history_.epoch[best] == len(model.history_) - 5
    by_rmse = fit(select="rmse")
    chosen = by_rmse.history_.epoch[by_rmse.history_.val_rmse.idxmin()]
    assert by_rmse.fitted_.members[0].record.best_epoch == chosen
    mean, std = model.predict(validation[0], return_std=True)
    scale = float(model.fitted_.y_scaler.scale)
    nlpd = np.mean(
        0.5 * np.log(2 * np.pi * (std / scale) ** 2) + 0.5 * ((validation[1] - mean) / std) ** 2
    )
    assert nlpd == pytest.approx(model.history_.val_nlpd[best], rel=1e-5)


def test_pretraining_hands_its_prediction_to_the_head():
    torch.manual_seed(0)
    x = torch.randn(300, 6, 2)
    y = torch.stack([x[:, -1, 0] * 2, x[:, 0, 1]], -1).double()
    encoder, readout = GRU(hidden=16).build(2, 6), ScaledLinear(16, 2)
    readout.measure(y)
    settings = Training(batch_size=32, pretrain_lr=0.01, pretrain_epochs=25)
    history = pretrain(
        encoder, readout, Part(x, y), settings,
        validation=None, generator=torch.Generator().manual_seed(0),
    ).history  # fmt: skip
    assert len(history) == 25
    assert history[-1].noise < 0.1 * history[0].noise
    assert {record.lr for record in history} == {0.01}
    features = encoder.eval()(x).detach().double()
    directions = latent_directions(features, readout, count=3)
    assert directions.shape == (3, 16)
    latent = (features - features.mean(0)) @ directions.T
    fitted = latent[:, :2] @ torch.linalg.lstsq(latent[:, :2], y - y.mean(0)).solution
    assert float((fitted - (y - y.mean(0))).square().mean() / y.var()) < 0.1
    correlation = torch.corrcoef(latent.T)
    assert float(correlation[2, :2].abs().max()) < 1e-3  # the third shows something new
    assert latent_directions(features, readout, count=1).shape == (1, 16)


def test_pretraining_in_the_estimator_starts_better():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 10, 1))
    y = np.sin(3 * X[:, -2, 0]) + 0.05 * rng.standard_normal(300)
    cold, warm = (
        SequenceGP(
            LSTM(hidden=16), random_state=0, progress=False,
            training=Training(epochs=1, lr=0.01, batch_size=32, pretrain_epochs=epochs),
        ).fit(X, y).history_
        for epochs in (0, 30)
    )  # fmt: skip
    assert cold.epoch.tolist() == [1]
    assert warm.epoch.tolist() == [
        0,
        1,
    ]  # the GP on the encoder as pre-training left it, then trained
    assert warm.val_rmse[0] < 0.8 * cold.val_rmse[0]


def test_a_plain_network_is_trained_by_the_same_loop():
    torch.manual_seed(0)
    x = torch.randn(200, 6, 1)
    y = x[:, -1].double() * 2
    network = Network(GRU(hidden=8).build(1, 6), None, ScaledLinear(8, 1), outputs=1)
    layer = Plain(outputs=1)
    trained = train(network, layer, Part(x, y), Training(epochs=30, lr=0.01, batch_size=32))
    encoded = encode(network, x)
    assert encoded.latent.shape == (200, 0)
    error = float((encoded.offset - y).square().mean())
    assert error < 0.2
    assert min(record.noise for record in trained.history) == pytest.approx(error, rel=1e-6)
    post = layer.posterior(layer.statistics(encoded.latent, y - encoded.offset))
    assert float(post.noise) == pytest.approx(error, rel=1e-6)
    normal = torch.distributions.Normal(encoded.offset, post.noise.sqrt())
    assert float(post.nlml) == pytest.approx(-float(normal.log_prob(y).sum()), rel=1e-9)
    for none in (post.covariance, post.prior_covariance):
        covariance = none(encoded.latent[:5])
        assert covariance.shape == (1, 5, 5)
        assert not covariance.any()


class _Exploding(nn.Module):
    """Not finite any more from the sixth mini-batch on."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.calls = 0

    def forward(self, x):
        self.calls += self.training
        out = self.linear(x.flatten(1))
        return out * float("nan") if self.calls > 5 else out


@pytest.mark.parametrize("refresh", ["epoch", 1])
def test_divergence_keeps_the_best_state_and_is_said(refresh):
    network, gp, part = setup()
    network.encoder = _Exploding()
    trained = train(network, gp, part, Training(epochs=10, batch_size=48, refresh=refresh))
    assert "not finite" in trained.diverged
    assert 1 <= len(trained.history) < 10
    assert all(bool(torch.isfinite(value).all()) for value in network.state_dict().values())
    H = torch.randn(10, 2)
    with pytest.warns(TrainingWarning, match="diverged.*Lower lr"):
        warn_if_suspicious(H, None, torch.tensor([0.1]), NOISE_FLOOR, diverged="loss")


def test_collapse_and_noise_floor_are_said():
    lengthscale = torch.tensor([[0.5, 0.5]])
    H = 0.5 + 1e-3 * torch.randn(50, 2)
    with pytest.warns(TrainingWarning, match="collapsed.*pre-train"):
        warn_if_suspicious(H, lengthscale, torch.tensor([0.1]), NOISE_FLOOR, diverged=None)
    noise = torch.tensor([0.1, 1.5e-6])  # of two outputs
    with pytest.warns(TrainingWarning, match="floor of 1e-06.*too narrow"):
        warn_if_suspicious(50 * H, lengthscale, noise, NOISE_FLOOR, diverged=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_suspicious(50 * H, lengthscale, torch.tensor([0.1]), NOISE_FLOOR, diverged=None)


def test_large_errors_and_a_moved_level_are_said():
    with pytest.warns(TrainingWarning, match=r"are 3.0 times as large as the model predicts"):
        warn_if_overconfident(9.0)
    error = torch.tensor([[1.0, 2.0], [-1.0, 0.0]])  # deviations of 1
    with pytest.warns(TrainingWarning, match="distribution shift: the mean error.*is 1.0 standard"):
        warn_if_moved(torch.tensor([0.0, 1.0]), error)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_overconfident(3.9)
        warn_if_moved(torch.tensor([0.0, 0.4]), error)


class _Dead(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1, 4)

    def forward(self, x):
        return self.linear(x[:, 0] * 0.0)


def test_a_dead_encoder_is_reported_by_fit_at_the_line_that_called_it():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 5, 1)), rng.standard_normal(60)
    model = SequenceGP(_Dead(), training=Training(epochs=1), random_state=0, progress=False)
    with pytest.warns(TrainingWarning, match="collapsed") as caught:
        model.fit(X, y)
    assert {warning.filename for warning in caught} == {__file__}


def test_progress_is_for_terminals_only(monkeypatch, capsys):
    network, gp, part = setup()

    def run(show):
        with progress_bar(2, show) as on_epoch:
            train(network, gp, part, Training(epochs=2), validation=part, on_epoch=on_epoch)
            return on_epoch

    assert run(False) is None
    assert run(True) is None  # captured standard error is no terminal
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    assert run(True) is not None
    assert "NLML" in capsys.readouterr().err


def test_encoding_switches_nothing_and_does_not_depend_on_batches():
    torch.manual_seed(0)
    network = network_of(LSTM(hidden=8, dropout=0.5), 8, lag=4)
    x = torch.randn(2500, 4, 1)
    for mode in (True, False):
        network.train(mode)
        encode(network, x[:10])
        assert network.training is network.encoder.training is mode
    found = encode(network, x, features=True)
    assert found.latent.shape == (2500, 2)
    assert found.offset.shape == (2500, 1)
    assert found.features.shape == (2500, 8)
    assert encode(network, x).features is None
    again = encode(network, x)
    assert torch.equal(again.latent, found.latent)
    latent, offset = network(x)
    torch.testing.assert_close(found.latent, latent.detach(), rtol=1e-6, atol=1e-6)
    assert torch.equal(found.offset, offset)
