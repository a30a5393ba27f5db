"""How much of what a kernel takes for signal is signal, as validation rows say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from seqgp.training.validation import judge

from seqgp import SequenceGP, SequenceNet
from seqgp.gp import GP, OffsetGP
from seqgp.training import Part, Settings, encode, quieten

SETTINGS = Settings()


def problem(real=(True,), seed=0, n=400):
    """Latent points in pairs; targets with a signal of the point, or one that only a pair shares."""
    rng = np.random.default_rng(seed)
    H = np.repeat(rng.uniform(-1, 1, (n // 2, 2)), 2, axis=0) + 0.001 * rng.standard_normal((n, 2))
    H = H.clip(-1, 1)
    own = np.repeat(rng.standard_normal((n // 2, len(real))), 2, axis=0)
    signal = np.where(real, np.sin(3 * H[:, :1]) + H[:, 1:], own)
    y = signal + 0.1 * rng.standard_normal((n, len(real)))
    return torch.tensor(H), torch.tensor(y)


def trained(real, correlated=False):
    """A layer whose θ explains the training rows, and a score by rows of its own."""
    layer = GP(latent_dim=2, outputs=len(real), inference="exact", correlated=correlated)
    H, y = problem(real)
    layer.initialise(y)
    if not correlated:
        for k, each in enumerate(real):  # what the likelihood says: signal, and hardly any noise
            with torch.no_grad():
                scale = layer.kernel.base_kernel.raw_lengthscale
                rows = scale if scale.ndim == 2 else scale[k]
                rows.copy_(torch.full_like(rows, np.log(0.7 if each else 0.05)))
    layer.noise = 0.02
    h, held = problem(real, seed=1)
    part = Part(torch.zeros(len(h), 1, 1), held)
    return layer, layer.statistics(H, y), part, h


@pytest.mark.parametrize("select", ["nlpd", "rmse"])
def test_a_signal_that_holds_is_left_exactly_as_it_is(select):
    layer, statistics, part, h = trained((True,))
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    settings = replace(SETTINGS, select=select)
    factor = quieten(layer, statistics, lambda p: judge(p, h, part, settings).each, len(part.y))
    assert factor.tolist() == [1.0]
    for name, value in layer.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)


@pytest.mark.parametrize("select", ["nlpd", "rmse"])
def test_each_output_is_quiet_where_its_signal_is_like_nothing_else(select):
    layer, statistics, part, h = trained((True, False))
    settings = replace(SETTINGS, select=select)
    loud = layer.posterior(statistics).predict(h)[0]
    variance = layer.kernel.outputscale.detach().clone()
    factor = quieten(layer, statistics, lambda p: judge(p, h, part, settings).each, len(part.y))
    assert factor[0] == 1.0
    assert factor[1] >= 10.0
    torch.testing.assert_close(layer.kernel.outputscale.detach(), variance / factor)
    quiet = layer.posterior(statistics).predict(h)[0]
    torch.testing.assert_close(quiet[:, 0], loud[:, 0])

    def error(mean):
        return float((part.y - mean).square().mean(0)[1])

    assert error(quiet) < 0.9 * error(loud)
    assert error(quiet) == pytest.approx(float(part.y[:, 1].square().mean()), rel=0.05)


def test_correlated_outputs_have_one_factor():
    layer, statistics, part, h = trained((False, False), correlated=True)
    before = layer.output_covariance.detach().clone()
    factor = quieten(layer, statistics, lambda p: judge(p, h, part, SETTINGS).each, len(part.y))
    assert factor.shape == (1,)
    if factor > 1.0:
        after = layer.output_covariance.detach()
        torch.testing.assert_close(
            after.diagonal(), before.diagonal() / factor, rtol=0.1, atol=1e-4
        )
    layer.quieten(torch.tensor([10.0]))
    torch.testing.assert_close(
        layer.output_covariance.detach().diagonal(),
        before.diagonal() / factor / 10.0,
        rtol=0.1,
        atol=1e-4,
    )


def test_a_few_rows_do_not_make_a_signal_beside_a_readout_quiet():
    layer, statistics, part, h = trained((False,))
    few = Part(part.windows[:4], part.y[:4])
    offset = OffsetGP(latent_dim=2, inference="exact")
    offset.load_state_dict(layer.state_dict())
    H, y = problem((False,))
    zero = torch.zeros(len(H), 1)
    rows = offset.statistics(torch.cat([H, zero], 1), y)
    seen = torch.cat([h[:4], zero[:4]], 1)
    factor = quieten(offset, rows, lambda p: judge(p, seen, few, SETTINGS).each, 4)
    assert factor.tolist() == [1.0]


def walk(n, seed=0):
    """Errors that neighbouring rows share, about a target that the windows explain."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6, 1)).cumsum(0) / 10
    drift = np.zeros(n)
    for t in range(1, n):
        drift[t] = 0.97 * drift[t - 1] + 0.1 * rng.standard_normal()
    return X, np.tanh(X[:, -1, 0]) + drift


OPTIONS = dict(hidden=16, batch_size=64, random_state=0, progress=False, device="cpu")


def test_pretraining_is_the_plain_network_of_the_same_seed():
    X, y = walk(500)
    held = (X[400:], y[400:])
    net = SequenceNet(**OPTIONS, epochs=4, lr=0.01, dropout=0.2, mean="linear")
    net.fit(X[:400], y[:400], validation=held)
    gp = SequenceGP(
        **OPTIONS,
        epochs=1,
        lr=1e-12,
        dropout=0.2,
        pretrain_epochs=4,
        pretrain_lr=0.01,
        readout=True,
    )
    gp.fit(X[:400], y[:400], validation=held)
    assert gp.pretrained_epochs_ == net.best_epoch_
    windows = torch.tensor(gp.x_scaler_.transform(X[400:])).float()
    ours = encode(gp.network_, windows)[:, gp.latent_dim :]
    torch.testing.assert_close(ours, encode(net.network_, windows), rtol=1e-5, atol=1e-6)


def test_a_pretrained_network_is_not_made_worse_by_what_neighbouring_rows_share():
    X, y = walk(1200)
    held = (X[900:], y[900:])
    net = SequenceNet(**OPTIONS, epochs=10, lr=0.01).fit(X[:900], y[:900], validation=held)
    gp = SequenceGP(
        **OPTIONS,
        mean="zero",
        epochs=2,
        lr=1e-4,
        pretrain_epochs=10,
        pretrain_lr=0.01,
        readout=True,
        select="rmse",
    ).fit(X[:900], y[:900], validation=held)
    alone, ours = net.history_.val_rmse.min(), gp.history_.val_rmse.min()
    assert ours <= alone * 1.001


def test_refit_keeps_the_signal_as_quiet_as_validation_rows_wanted_it():
    X, y = walk(900, seed=3)
    options = OPTIONS | dict(mean="linear", epochs=15, lr=0.01, select="rmse")
    gp = SequenceGP(**options).fit(X[:600], y[:600], validation=(X[600:800], y[600:800]))
    said = gp.calibration_
    gp.calibration_ = replace(said, quieter=np.array([100.0]))
    gp.refit(X[:800], y[:800])
    quiet = float(gp.gp_.kernel.outputscale)
    gp.calibration_ = replace(said, quieter=None)
    gp.refit(X[:800], y[:800])
    assert quiet == pytest.approx(float(gp.gp_.kernel.outputscale) / 100.0, rel=1e-6)
