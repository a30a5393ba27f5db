"""What the validation set decides: the best epoch, θ after pre-training, the size of errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import nn

from seqgp import GP, LSTM, SequenceGP, SequenceNet, Training
from seqgp.encoders import Encoded, Network, encode
from seqgp.training import Part, variance_scale
from seqgp.training.run import Run
from seqgp.training.selection import PRIOR_ROWS, judge


def problem(outputs=2, n=60):
    """A posterior, and validation rows about which it is too sure."""
    rng = np.random.default_rng(0)
    H = torch.as_tensor(rng.uniform(-1, 1, (2 * n, 2)))
    y = torch.sin(3 * H[:, :1]) * torch.linspace(1, 2, outputs) + 0.4 * torch.as_tensor(
        rng.standard_normal((2 * n, outputs))
    )
    gp = GP(outputs=outputs, inference="exact")
    gp.likelihood.set_noise(0.01)
    offset = torch.as_tensor(rng.standard_normal((n, outputs)))
    post = gp.condition(H[:n], y[:n])
    part = Part(
        torch.zeros(n, 1, 1), y[n:] + offset, torch.as_tensor(rng.uniform(0, 0.1, (n, outputs)))
    )
    return post, Encoded(H[n:], offset), part


def test_scores_are_those_of_the_predicted_gaussians():
    post, encoded, part = problem()
    found = judge(post, encoded, part, calibrate=False)
    mean, variance = (v.detach().numpy() for v in post.predict(encoded.latent, observed=True))
    error = part.y.numpy() - mean - encoded.offset.numpy()
    variance = variance + part.mean_variance.numpy()
    assert found.scale is None
    assert found.rmse == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-12)
    density = norm.logpdf(error, scale=np.sqrt(variance))
    assert found.nlpd == pytest.approx(-density.mean(), rel=1e-12)

    scaled = judge(post, encoded, part, calibrate=True)
    assert scaled.rmse == found.rmse  # accuracy is not touched
    np.testing.assert_allclose(
        scaled.scale, (np.sum(error**2 / variance, 0) + PRIOR_ROWS) / (len(error) + PRIOR_ROWS)
    )
    density = norm.logpdf(error, scale=np.sqrt(variance * scaled.scale.numpy()))
    assert scaled.nlpd == pytest.approx(-density.mean(), rel=1e-12)
    assert scaled.nlpd < found.nlpd


def test_a_mean_function_without_a_variance_is_known_exactly():
    post, encoded, part = problem()
    zero = Part(part.windows, part.y, torch.zeros_like(part.y))
    none = Part(part.windows, part.y)
    assert judge(post, encoded, zero, True).nlpd == judge(post, encoded, none, True).nlpd


def test_the_scale_maximises_the_penalised_density():
    """Its prior is that of ``rows`` residuals of the very size that was predicted."""
    rng = np.random.default_rng(1)
    error, variance = 2.0 * rng.standard_normal((80, 2)), rng.uniform(0.5, 2.0, (80, 2))
    found = variance_scale(torch.as_tensor(error), torch.as_tensor(variance), rows=50.0).numpy()

    def value(scale):
        own = norm.logpdf(error, scale=np.sqrt(variance * scale)).sum(0)
        return own + 50.0 * norm.logpdf(1.0, scale=np.sqrt(scale))

    for factor in (0.99, 1.01):
        assert (value(found) > value(found * factor)).all()
    few = variance_scale(torch.as_tensor(error[:1]), torch.as_tensor(variance[:1]))
    assert float((few - 1.0).abs().max()) < 0.2  # one row says next to nothing
    most = variance_scale(torch.as_tensor(error), torch.as_tensor(variance), rows=0.0)
    np.testing.assert_allclose(most, np.mean(error**2 / variance, 0), rtol=1e-12)


def walk(n, seed=0):
    """Errors that neighbouring rows share, about a target that the windows explain."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6, 1)).cumsum(0) / 10
    drift = np.zeros(n)
    for t in range(1, n):
        drift[t] = 0.97 * drift[t - 1] + 0.1 * rng.standard_normal()
    return X, np.tanh(X[:, -1, 0]) + drift


OPTIONS = dict(random_state=0, progress=False, device="cpu")


def test_pretraining_is_the_plain_network_of_the_same_seed():
    X, y = walk(500)
    held = (X[400:], y[400:])
    encoder = LSTM(hidden=16, dropout=0.2)
    plain = Training(epochs=4, lr=0.01, batch_size=64)
    net = SequenceNet(encoder, training=plain, mean="linear", **OPTIONS)
    net.fit(X[:400], y[:400], validation=held)
    training = Training(epochs=1, lr=1e-12, batch_size=64, pretrain_epochs=4, pretrain_lr=0.01)
    gp = SequenceGP(encoder, training=training, readout=True, **OPTIONS)
    gp.fit(X[:400], y[:400], validation=held)
    ours, theirs = gp.fitted_.members[0], net.fitted_.members[0]
    assert ours.record.pretrained_epochs == theirs.record.best_epoch
    windows = gp.fitted_.inputs(X[400:])
    torch.testing.assert_close(
        encode(ours.network, windows).offset,
        encode(theirs.network, windows).offset,
        rtol=1e-5,
        atol=1e-6,
    )


class _Given(nn.Module):
    """A network whose latent points are its windows ``(n, 1, 2)``."""

    def forward(self, x):
        return x[:, 0]


def pairs(shared, seed, n=400):
    """Latent points in pairs; targets with a signal of the point, or one that only a pair shares."""
    rng = np.random.default_rng(seed)
    H = np.repeat(rng.uniform(-1, 1, (n // 2, 2)), 2, axis=0) + 0.001 * rng.standard_normal((n, 2))
    own = np.repeat(rng.standard_normal((n // 2, 1)), 2, axis=0)
    signal = own if shared else np.sin(3 * H[:, :1]) + H[:, 1:]
    y = torch.as_tensor(signal + 0.1 * rng.standard_normal((n, 1)))
    return Part(torch.as_tensor(H.clip(-1, 1))[:, None], y)


def settled(shared, validation):
    """A run whose θ has settled, from where it starts in every training."""
    part = pairs(shared, 0)
    gp = GP(inference="exact")
    gp.initialise(part.y)
    network = Network(_Given(), nn.Identity(), nn.Linear(2, 1), outputs=1)
    nn.init.zeros_(network.readout.weight)
    nn.init.zeros_(network.readout.bias)
    run = Run(network.double().eval(), gp, part, Training(), calibrate=True)
    run.settle(validation)
    return run, gp.condition(part.windows[:, 0], part.y)


def test_theta_settles_at_the_optimum_of_the_likelihood():
    for validation in (None, pairs(False, 1)):
        run, post = settled(False, validation)
        optimiser = torch.optim.LBFGS(run.layer.parameters(), max_iter=100)

        def nlml(run=run, optimiser=optimiser):
            optimiser.zero_grad()
            value = run.layer.condition(run.part.windows[:, 0], run.part.y).nlml
            value.backward()
            return value

        optimiser.step(nlml)
        assert float((post.nlml - nlml()).detach()) < 0.01 * 400  # nats a row


def test_theta_does_not_settle_where_the_validation_set_says_clearly_that_it_is_worse():
    """Residuals of neighbours are alike: the likelihood takes that for a short lengthscale."""
    held = pairs(True, 1)
    alone, _ = settled(True, None)
    run, _ = settled(True, held)
    scores = []
    for each in (alone, run):
        lengthscale = float(each.layer.kernel.base_kernel.lengthscale.detach().max())
        post = each.layer.posterior(each.layer.statistics(each.part.windows[:, 0], each.part.y))
        found = judge(post, each.encode(held), held, calibrate=True)
        scores.append((lengthscale, found.rmse, found.nlpd))
    assert scores[0][0] < 0.1 < 0.3 < scores[1][0]
    assert scores[1][1] < scores[0][1]
    assert scores[1][2] < scores[0][2] - 30.0 / 400


def test_a_few_rows_do_not_overrule_the_likelihood():
    few = pairs(True, 1)
    few = Part(few.windows[:10], few.y[:10])
    alone, run = (settled(True, validation)[0] for validation in (None, few))
    for one, other in zip(alone.layer.parameters(), run.layer.parameters(), strict=True):
        assert torch.equal(one, other)


def test_epoch_zero_is_the_network_as_pretraining_left_it():
    X, y = walk(600)
    training = Training(epochs=2, lr=0.01, batch_size=64, pretrain_epochs=3, select="rmse")
    gp = SequenceGP(LSTM(hidden=8), training=training, mean="zero", readout=True, **OPTIONS)
    gp.fit(X[:400], y[:400], validation=(X[400:], y[400:]))
    assert gp.history_.epoch.tolist() == [0, 1, 2]
    record = gp.fitted_.members[0].record
    assert record.best_epoch == gp.history_.epoch[gp.history_.val_rmse.idxmin()]


def test_refit_after_pretraining_keeps_theta():
    """Without a validation set the likelihood alone would take it on to short lengthscales."""
    X, y = walk(500, seed=3)
    training = Training(epochs=2, lr=1e-3, batch_size=64, pretrain_epochs=3, pretrain_lr=0.01)
    gp = SequenceGP(LSTM(hidden=8), training=training, readout=True, **OPTIONS)
    gp.fit(X[:300], y[:300], validation=(X[300:400], y[300:400]))
    before = {k: v.clone() for k, v in gp.fitted_.members[0].layer.state_dict().items()}
    record = gp.fitted_.members[0].record
    gp.refit(X[:400], y[:400])
    after = gp.fitted_.members[0].layer.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert gp.fitted_.members[0].record.pretrained_epochs == record.pretrained_epochs
