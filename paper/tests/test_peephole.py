"""The paper's LSTM against its equations, and under the contract that every encoder keeps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import paper.peephole
from paper.peephole import LSTMPeephole, PeepholeLSTM
from seqgp import LSTM, SequenceGP, Training, load, save
from seqgp.encoders import Skip, as_encoder, drop_mask, width_of

N, T, P, H = 6, 5, 3, 8
RATES = ("dropout", "input_dropout", "recurrent_dropout")


def make(layers=1, dtype=torch.float64, seed=0, **options):
    torch.manual_seed(seed)
    return LSTMPeephole(hidden=H, layers=layers, **options).build(P, T).to(dtype)


def windows(dtype=torch.float64, seed=1, n=N, steps=T):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, steps, P, generator=generator, dtype=torch.float64).to(dtype)


def shake(encoder, scale=0.3, seed=5):
    """Random values everywhere: zero biases and peepholes would hide a wrong term."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in encoder.parameters():
            value.copy_(scale * torch.randn(value.shape, generator=generator, dtype=value.dtype))
    return encoder


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("layers", [1, 2])
class TestContract:
    def test_shape_and_dtype(self, layers, dtype):
        encoder, x = make(layers, dtype), windows(dtype)
        out = encoder(x)
        assert out.shape == (N, encoder.width) == (N, H)
        assert out.dtype == dtype
        assert width_of(encoder, x[:1]) == H
        # A row's output does not depend on its neighbours.
        torch.testing.assert_close(encoder(x[2:3])[0], out[2], rtol=1e-5, atol=1e-6)

    def test_gradient_reaches_every_parameter(self, layers, dtype):
        for options in ({}, dict.fromkeys(RATES, 0.1)):
            encoder = make(layers, dtype, **options).train()
            encoder(windows(dtype, n=32)).square().sum().backward()
            for key, value in encoder.named_parameters():
                assert value.grad is not None, key
                assert torch.isfinite(value.grad).all(), key
                assert value.grad.abs().max() > 0, key

    def test_state_round_trip_is_bit_for_bit(self, layers, dtype, tmp_path):
        encoder, other = make(layers, dtype), make(layers, dtype, seed=9)
        x = windows(dtype)
        assert not torch.equal(encoder(x), other(x))
        torch.save(encoder.state_dict(), tmp_path / "state.pt")
        other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
        assert torch.equal(encoder(x), other(x))

    def test_eval_is_deterministic_and_train_is_not(self, layers, dtype):
        encoder, x = make(layers, dtype, **dict.fromkeys(RATES, 0.4)), windows(dtype)
        plain = make(layers, dtype).eval()
        encoder.eval()
        assert torch.equal(encoder(x), encoder(x))
        assert torch.equal(encoder(x), plain(x))  # and the masks leave no trace
        encoder.train()
        assert not torch.equal(encoder(x), encoder(x))

    def test_same_seed_same_masks(self, layers, dtype):
        encoder, x = make(layers, dtype, **dict.fromkeys(RATES, 0.4)).train(), windows(dtype)
        first, second = (torch.manual_seed(3), encoder(x))[1], (torch.manual_seed(3), encoder(x))[1]
        assert torch.equal(first, second)


@pytest.mark.parametrize("rate", RATES)
def test_each_rate_acts_alone(rate):
    encoder, x = make(**{rate: 0.5}).train(), windows()
    assert not torch.equal(encoder(x), encoder(x))


def test_final_dropout_acts_on_the_output():
    encoder, x = make(dropout=0.5).train(), windows(n=50)
    out, clean = encoder(x), make()(x)
    dropped = out == 0
    assert 0.3 < dropped.double().mean() < 0.9
    torch.testing.assert_close(out[~dropped], 2 * clean[~dropped])


@pytest.mark.parametrize("recurrent_dropout", [0.0, 0.5])
def test_dropout_between_layers_is_not_the_final_one(recurrent_dropout, monkeypatch):
    # Recurrent masks of one: what differs is the dropout between layers.
    monkeypatch.setattr(paper.peephole, "drop_mask", lambda x, size, _: x.new_ones(len(x), size))
    x = windows(n=50)
    encoder = make(layers=2, dropout=0.5, recurrent_dropout=recurrent_dropout).train()
    clean = make(layers=2)(x)
    out = encoder(x)
    kept = out != 0
    assert not torch.allclose(out[kept], 2 * clean[kept])


def test_input_dropout_equals_masking_the_window(monkeypatch):
    """A dropped feature is dropped at every step, as seen through the whole encoder."""
    encoder, x = make(input_dropout=0.5).train(), windows()
    mask = torch.tensor([[0.0, 2.0, 2.0]] * 3 + [[2.0, 0.0, 0.0]] * 3, dtype=x.dtype)
    monkeypatch.setattr("seqgp.encoders.common.drop_mask", lambda like, size, rate: mask)
    torch.testing.assert_close(encoder(x), make()(x * mask[:, None]))


def reference(layers, x, masks):
    """The paper's equations, one gate and one matrix at a time."""
    sequence = list(x.unbind(1))
    for W, mask in zip(layers, masks, strict=True):
        h = torch.zeros(len(x), H, dtype=x.dtype)
        c = torch.zeros(len(x), H, dtype=x.dtype)
        out = []
        for xt in sequence:
            hm = h * mask
            it = torch.tanh(xt @ W["xc"] + hm @ W["hc"] + W["bc"])
            gi = torch.sigmoid(xt @ W["xi"] + hm @ W["hi"] + c @ W["ci"] + W["bi"])
            gc = torch.sigmoid(xt @ W["xf"] + hm @ W["hf"] + c @ W["cf"] + W["bf"])
            c = gc * c + gi * it
            go = torch.sigmoid(xt @ W["xo"] + hm @ W["ho"] + c @ W["co"] + W["bo"])
            h = go * torch.tanh(c)
            out.append(h)
        sequence = out
    return sequence[-1]


def set_weights(cell, W):
    with torch.no_grad():
        cell.weight_ih.copy_(torch.cat([W["xi"], W["xf"], W["xc"], W["xo"]], 1).T)
        cell.weight_hh.copy_(torch.cat([W["hi"], W["hf"], W["hc"], W["ho"]], 1).T)
        cell.weight_ch.copy_(torch.cat([W["ci"], W["cf"], W["co"]], 1).T)
        cell.bias.copy_(torch.cat([W["bi"], W["bf"], W["bc"], W["bo"]]))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
def test_it_equals_the_papers_equations(layers, masked, monkeypatch):
    encoder, x = make(layers, recurrent_dropout=0.4 * masked).train(), windows()
    generator = torch.Generator().manual_seed(2)

    def draw(*shape):
        return 0.5 * torch.randn(*shape, generator=generator, dtype=torch.float64)

    matrices = []
    for k, cell in enumerate(encoder.cells):
        W = {f"x{g}": draw(H if k else P, H) for g in "cifo"}
        W |= {f"h{g}": draw(H, H) for g in "cifo"} | {f"c{g}": draw(H, H) for g in "ifo"}
        W |= {f"b{g}": draw(H) for g in "cifo"}
        set_weights(cell, W)
        matrices.append(W)
    masks = [torch.ones(N, H, dtype=x.dtype)] * layers
    queue = []
    if masked:
        masks = [drop_mask(x, H, 0.4) for _ in range(layers)]
        queue = list(masks)
        monkeypatch.setattr(paper.peephole, "drop_mask", lambda *_: queue.pop(0))
    expected = reference(matrices, x, masks)
    torch.testing.assert_close(encoder(x), expected, rtol=1e-12, atol=1e-12)
    assert not queue  # one mask a layer, for all steps


@pytest.mark.parametrize("layers", [1, 2])
def test_without_peeking_it_is_the_fused_lstm(layers):
    torch.manual_seed(0)
    peephole, lstm = make(layers), shake(LSTM(hidden=H, layers=layers).build(P, T).double())
    with torch.no_grad():
        for k, cell in enumerate(peephole.cells):
            cell.weight_ih.copy_(getattr(lstm.core, f"weight_ih_l{k}"))
            cell.weight_hh.copy_(getattr(lstm.core, f"weight_hh_l{k}"))
            cell.bias.copy_(
                getattr(lstm.core, f"bias_ih_l{k}") + getattr(lstm.core, f"bias_hh_l{k}")
            )
    torch.testing.assert_close(peephole(windows()), lstm(windows()))


@pytest.mark.parametrize("layers", [1, 2])
def test_initialisation(layers):
    eye = torch.eye(H, dtype=torch.float64)
    for cell in make(layers).cells:
        for gate in cell.weight_hh.split(H):
            torch.testing.assert_close(gate @ gate.T, eye, rtol=0, atol=1e-5)
        bound = (6 / (H + cell.weight_ih.shape[1])) ** 0.5
        assert 0.8 * bound < cell.weight_ih.abs().max() <= bound
        assert not cell.weight_ch.any()
        forget = torch.zeros(4 * H, dtype=torch.float64)
        forget[H : 2 * H] = 1.0
        assert torch.equal(cell.bias, forget)


def test_it_takes_windows_of_any_length():
    assert make()(windows(steps=9)).shape == (N, H)


def test_wrong_windows_are_refused():
    encoder = make()
    for bad in (torch.zeros(4, T, P + 1), torch.zeros(4, T * P), torch.zeros(4, 0, P)):
        with pytest.raises(ValueError, match=r"windows have shape .* expected \(n, T, 3\)"):
            encoder(bad.double())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(hidden=0), "hidden is 0; expected an integer >= 1"),
        (dict(layers=1.5), "layers is 1.5; expected an integer >= 1"),
        (dict(dropout=1.0), r"dropout is 1.0; expected a probability in \[0, 1\)"),
        (dict(input_dropout=-0.1), "input_dropout is -0.1"),
        (dict(recurrent_dropout=2), "recurrent_dropout is 2"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LSTMPeephole(**options).build(P, T)


def test_it_is_known_by_its_name():
    assert isinstance(as_encoder("lstm-peephole").build(P, T), PeepholeLSTM)
    skip = LSTMPeephole(hidden=H, skip=True).build(P, T)
    assert isinstance(skip, Skip)
    assert width_of(skip, windows(torch.float32)) == H + T * P


def test_an_estimator_trains_and_saves_it(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, T, P))
    y = np.tanh(X[:, -1, 0]) + 0.1 * rng.standard_normal(120)
    options = dict(training=Training(epochs=2), random_state=0, progress=False)
    model = SequenceGP("lstm-peephole", **options).set_params(encoder__hidden=H).fit(X, y)
    assert isinstance(model.fitted_.members[0].network.encoder, PeepholeLSTM)
    save(model, tmp_path / "m.seqgp")
    twin = load(tmp_path / "m.seqgp")
    assert twin.encoder.get_params() == model.encoder.get_params()
    for one, other in zip(
        twin.predict(X, return_std=True), model.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kernel", ["matern12", "matern32", "matern52", "spectral-mixture"])
def test_it_trains_with_every_kernel(kernel):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, T, P)), rng.standard_normal(40)
    encoder, training = LSTMPeephole(hidden=H), Training(epochs=1)
    model = SequenceGP(encoder, kernel, training=training, random_state=0, progress=False)
    mean, std = model.fit(X, y).predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
