"""One contract over all encoders, and each fast path against its slow twin."""

from __future__ import annotations

import warnings

import pytest
import torch
from sklearn.base import clone
from torch import nn

from seqgp.encoders import (
    ENCODERS,
    GRU,
    LSTM,
    NARX,
    RNN,
    Given,
    Head,
    Network,
    ScaledLinear,
    Skip,
    as_encoder,
    common,
    encode,
    recurrent,
    width_of,
)
from seqgp.encoders.narx import Narx
from seqgp.encoders.recurrent import Recurrent

N, T, P, H = 6, 5, 3, 8
NAMES = [name for name in ENCODERS if ENCODERS[name].__module__.startswith("seqgp.")]
RECURRENT = [name for name in NAMES if name != "narx"]


def make(name, layers=1, dtype=torch.float64, seed=0, **options):
    torch.manual_seed(seed)
    return ENCODERS[name](hidden=H, layers=layers, **options).build(P, T).to(dtype)


def windows(dtype=torch.float64, seed=1, n=N, steps=T):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, steps, P, generator=generator, dtype=torch.float64).to(dtype)


def rates(name, value=0.4):
    options = {"dropout": value, "input_dropout": value}
    return options if name == "narx" else {**options, "recurrent_dropout": value}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", NAMES)
class TestContract:
    def test_shape_and_dtype(self, name, layers, dtype):
        encoder, x = make(name, layers, dtype), windows(dtype)
        out = encoder(x)
        assert out.shape == (N, encoder.width) == (N, H)
        assert out.dtype == dtype
        assert width_of(encoder, x[:1]) == H
        # A row's output does not depend on its neighbours.
        torch.testing.assert_close(encoder(x[2:3])[0], out[2], rtol=1e-5, atol=1e-6)

    def test_gradient_reaches_every_parameter(self, name, layers, dtype):
        for options in ({}, rates(name, 0.1)):
            encoder = make(name, layers, dtype, **options).train()
            encoder(windows(dtype, n=32)).square().sum().backward()
            for key, value in encoder.named_parameters():
                assert value.grad is not None, key
                assert torch.isfinite(value.grad).all(), key
                assert value.grad.abs().max() > 0, key

    def test_state_round_trip_is_bit_for_bit(self, name, layers, dtype, tmp_path):
        encoder, other = make(name, layers, dtype), make(name, layers, dtype, seed=9)
        x = windows(dtype)
        assert not torch.equal(encoder(x), other(x))
        torch.save(encoder.state_dict(), tmp_path / "state.pt")
        other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
        assert torch.equal(encoder(x), other(x))

    def test_eval_is_deterministic_and_train_is_not(self, name, layers, dtype):
        encoder, x = make(name, layers, dtype, **rates(name)), windows(dtype)
        plain = make(name, layers, dtype).eval()
        encoder.eval()
        assert torch.equal(encoder(x), encoder(x))
        assert torch.equal(encoder(x), plain(x))  # and the masks leave no trace
        encoder.train()
        assert not torch.equal(encoder(x), encoder(x))

    def test_same_seed_same_masks(self, name, layers, dtype):
        encoder, x = make(name, layers, dtype, **rates(name)).train(), windows(dtype)
        first, second = (torch.manual_seed(3), encoder(x))[1], (torch.manual_seed(3), encoder(x))[1]
        assert torch.equal(first, second)


@pytest.mark.parametrize(("name", "rate"), [(name, rate) for name in NAMES for rate in rates(name)])
def test_each_rate_acts_alone(name, rate):
    encoder, x = make(name, **{rate: 0.5}).train(), windows()
    assert not torch.equal(encoder(x), encoder(x))


def test_masks_keep_the_scale_on_average():
    mask = common.drop_mask(torch.zeros(20000, 1), 3, 0.5)
    assert mask.mean().item() == pytest.approx(1.0, abs=0.03)
    assert set(mask.unique().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("name", NAMES)
def test_final_dropout_acts_on_the_output(name):
    encoder, x = make(name, dropout=0.5).train(), windows(n=50)
    out, clean = encoder(x), make(name)(x)
    dropped = out == 0
    assert 0.3 < dropped.double().mean() < 0.9
    torch.testing.assert_close(out[~dropped], 2 * clean[~dropped])


@pytest.mark.parametrize("recurrent_dropout", [0.0, 0.5])
@pytest.mark.parametrize("name", RECURRENT)
def test_dropout_between_layers_is_not_the_final_one(name, recurrent_dropout, monkeypatch):
    # Recurrent masks of one: the loop runs, and what differs is the dropout between layers.
    monkeypatch.setattr(recurrent, "drop_mask", lambda x, size, _: x.new_ones(len(x), size))
    x = windows(n=50)
    encoder = make(name, layers=2, dropout=0.5, recurrent_dropout=recurrent_dropout).train()
    clean = make(name, layers=2)(x)
    out = encoder(x)
    kept = out != 0
    assert not torch.allclose(out[kept], 2 * clean[kept])


def test_input_mask_is_one_per_sequence():
    torch.manual_seed(0)
    out = common.drop_steps(torch.ones(40, 7, 3), 0.5, training=True)
    assert torch.equal(out, out[:, :1].expand_as(out))  # constant over time
    assert out[:, 0].unique(dim=0).shape[0] > 1  # differs between sequences
    assert set(out.unique().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("name", NAMES)
def test_input_dropout_equals_masking_the_window(name, monkeypatch):
    """A dropped feature is dropped at every step, as seen through the whole encoder."""
    encoder, x = make(name, input_dropout=0.5).train(), windows()
    mask = torch.tensor([[0.0, 2.0, 2.0]] * 3 + [[2.0, 0.0, 0.0]] * 3, dtype=x.dtype)
    monkeypatch.setattr(common, "drop_mask", lambda like, size, rate: mask)
    torch.testing.assert_close(encoder(x), make(name)(x * mask[:, None]))


def masked_reference(cell, parameters, x, masks):
    """The textbook step for one sequence set, with h_{t-1} masked before it enters the gates."""
    sequence = list(x.unbind(1))
    for (w_ih, w_hh, b_ih, b_hh), mask in zip(parameters, masks, strict=True):
        h = c = torch.zeros(len(x), H, dtype=x.dtype)
        out = []
        for step in sequence:
            a, b = step @ w_ih.T + b_ih, (h * mask) @ w_hh.T + b_hh
            if cell == "rnn":
                h = torch.tanh(a + b)
            elif cell == "gru":
                r, z = (torch.sigmoid((a + b)[:, k * H : (k + 1) * H]) for k in (0, 1))
                n = torch.tanh(a[:, 2 * H :] + r * b[:, 2 * H :])
                h = (1 - z) * n + z * h
            else:
                i, f, o = (torch.sigmoid((a + b)[:, k * H : (k + 1) * H]) for k in (0, 1, 3))
                c = f * c + i * torch.tanh((a + b)[:, 2 * H : 3 * H])
                h = o * torch.tanh(c)
            out.append(h)
        sequence = out
    return sequence[-1]


def shake(encoder, scale=0.3, seed=5):
    """Random values everywhere: zero biases would hide a wrong term."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in encoder.parameters():
            value.copy_(scale * torch.randn(value.shape, generator=generator, dtype=value.dtype))
    return encoder


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_loop_with_masks_of_one_equals_the_fused_kernel(cell, layers, monkeypatch):
    encoder = shake(make(cell, layers, recurrent_dropout=0.3))
    monkeypatch.setattr(
        recurrent, "drop_mask", lambda like, size, rate: like.new_ones(len(like), size)
    )
    results = []
    for mode in (True, False):
        x = windows().requires_grad_()
        encoder.train(mode)
        encoder.zero_grad()
        out = encoder(x)
        out.square().sum().backward()
        results.append([out, x.grad, *(value.grad.clone() for value in encoder.parameters())])
    for loop, fused in zip(*results, strict=True):
        torch.testing.assert_close(loop, fused, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_recurrent_mask_is_one_per_sequence_and_layer(cell, layers, monkeypatch):
    encoder, x = shake(make(cell, layers, recurrent_dropout=0.3)).train(), windows()
    masks = []

    def record(like, size, rate):
        masks.append(common.drop_mask(like, size, rate))
        return masks[-1]

    monkeypatch.setattr(recurrent, "drop_mask", record)
    out = encoder(x)
    assert len(masks) == layers  # drawn once for all steps
    assert masks[0].shape == (N, H)
    assert masks[0].unique(dim=0).shape[0] > 1
    parameters = [
        [
            getattr(encoder.core, f"{kind}_l{k}")
            for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        ]
        for k in range(layers)
    ]
    torch.testing.assert_close(out, masked_reference(cell, parameters, x, masks))


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", RECURRENT)
def test_initialisation(name, layers):
    values = dict(make(name, layers).named_parameters())
    eye = torch.eye(H, dtype=torch.float64)
    biases = {}
    for key, value in values.items():
        if "weight_hh" in key:
            for gate in value.split(H):
                torch.testing.assert_close(gate @ gate.T, eye, rtol=0, atol=1e-5)
        elif "weight_ih" in key:
            bound = (6 / (H + value.shape[1])) ** 0.5
            assert 0.8 * bound < value.abs().max() <= bound
        elif "bias" in key:
            layer = "".join(c for c in key if c.isdigit())
            biases[layer] = biases.get(layer, 0) + value
    assert len(biases) == layers
    for bias in biases.values():
        expected = torch.zeros_like(bias)
        if name == "lstm":
            expected[H : 2 * H] = 1.0
        assert torch.equal(bias, expected)


def test_one_layer_with_dropout_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make("lstm", layers=1, dropout=0.3)


def test_the_fused_kernel_is_used_where_it_can_be(monkeypatch):
    def refuse(self, x):
        raise AssertionError("the loop ran")

    monkeypatch.setattr(Recurrent, "_loop", refuse)
    make("lstm", dropout=0.3, input_dropout=0.3).train()(windows())
    make("lstm", recurrent_dropout=0.3).eval()(windows())
    with pytest.raises(AssertionError, match="the loop ran"):
        make("lstm", recurrent_dropout=0.3).train()(windows())


def test_recurrent_encoders_take_any_length_and_narx_does_not():
    for name in RECURRENT:
        assert make(name)(windows(steps=9)).shape == (N, H)
    with pytest.raises(ValueError, match=r"shape \(6, 9, 3\); expected \(n, 5, 3\)"):
        make("narx")(windows(steps=9))


@pytest.mark.parametrize("name", NAMES)
def test_wrong_windows_are_refused(name):
    encoder = make(name)
    for bad in (torch.zeros(4, T, P + 1), torch.zeros(4, T * P), torch.zeros(4, 0, P)):
        with pytest.raises(ValueError, match=r"windows have shape .* expected \(n, [T5], 3\)"):
            encoder(bad.double())


# Options


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (LSTM(hidden=0), "hidden is 0; expected an integer >= 1"),
        (GRU(hidden=True), "hidden is True; expected an integer >= 1"),
        (RNN(layers=1.5), "layers is 1.5; expected an integer >= 1"),
        (NARX(layers=0), "layers is 0; expected an integer >= 1"),
        (LSTM(dropout=1.0), r"dropout is 1.0; expected a probability in \[0, 1\)"),
        (NARX(input_dropout=-0.1), "input_dropout is -0.1"),
        (GRU(recurrent_dropout=float("nan")), "recurrent_dropout is nan"),
        (LSTM(recurrent_dropout=2), "recurrent_dropout is 2"),
    ],
)
def test_bad_options_are_refused_when_a_network_is_built(encoder, message):
    with pytest.raises(ValueError, match=message):
        encoder.build(P, T)


def test_bad_windows_are_refused_when_a_network_is_built():
    with pytest.raises(ValueError, match="input_size is 0"):
        LSTM().build(0, T)
    with pytest.raises(ValueError, match="lag is 0"):
        NARX().build(P, 0)
    with pytest.raises(ValueError, match="cell is 'elman'"):
        Recurrent("elman", P)


def test_options_that_an_encoder_has_not_are_refused():
    with pytest.raises(TypeError, match="recurrent_dropout"):
        NARX(recurrent_dropout=0.1)
    with pytest.raises(ValueError, match="Invalid parameter 'recurrent_dropout'"):
        NARX().set_params(recurrent_dropout=0.1)


def test_names_stand_for_their_classes():
    assert {name: type(as_encoder(name)) for name in NAMES} == {
        "narx": NARX,
        "rnn": RNN,
        "gru": GRU,
        "lstm": LSTM,
    }
    assert isinstance(make("narx"), Narx)
    assert {name: make(name).cell for name in RECURRENT} == {name: name for name in RECURRENT}
    assert len([m for m in make("narx", 3).modules() if isinstance(m, nn.Linear)]) == 3
    known = "use one of 'narx', 'rnn', 'gru', 'lstm'.*an Encoder, or an nn.Module"
    with pytest.raises(ValueError, match=f"encoder='transformer' is not known: {known}"):
        as_encoder("transformer")


@pytest.mark.parametrize("name", NAMES)
def test_options_are_cloned_and_a_network_has_them(name):
    options = {"hidden": 5, "layers": 2, "skip": True} | rates(name, 0.25)
    encoder = ENCODERS[name](**options)
    assert encoder.get_params() == options
    twin = clone(encoder)
    assert twin is not encoder
    assert twin.get_params() == options
    assert as_encoder(encoder) is encoder
    network = twin.build(P, T)
    assert isinstance(network, Skip)
    assert network.dropout.p == 0.25
    inner = network.encoder
    assert inner.width == 5
    assert all(getattr(inner, rate, 0.25) == 0.25 for rate in rates(name))
    assert width_of(network, windows(torch.float32)) == 5 + T * P


def test_a_network_draws_its_weights_from_torchs_generator():
    first, same, other = (make("lstm", seed=seed).core.weight_ih_l0 for seed in (3, 3, 4))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_a_module_is_copied_for_every_training():
    module = nn.Sequential(nn.Flatten(), nn.Linear(T * P, 4))
    encoder = as_encoder(module)
    assert isinstance(encoder, Given)
    built = [encoder.build(P, T) for _ in range(2)]
    assert len({id(each) for each in [module, *built]}) == 3
    with torch.no_grad():
        built[0][1].weight.zero_()
    assert torch.equal(built[1][1].weight, module[1].weight)
    assert module[1].weight.abs().max() > 0


# The head


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_head_stays_in_the_box_and_computes_in_float64(dtype):
    head = Head(2, 2)
    with torch.no_grad():
        head.linear.weight.copy_(torch.eye(2))
    size = torch.logspace(-6, 30, 20001, dtype=dtype)
    out = head(torch.stack([size, -size], 1))
    assert out.dtype == torch.float64
    assert out.abs().max() == 1.0
    torch.testing.assert_close(out[:, 0], torch.tanh(size.double()))


def test_head_rows_are_orthonormal():
    weight = Head(10, 4).linear.weight
    torch.testing.assert_close(weight @ weight.T, torch.eye(4).double(), rtol=0, atol=1e-5)
    assert Head(2, 5)(torch.zeros(3, 2)).shape == (3, 5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_centre_sets_mean_and_spread_and_keeps_directions(dtype):
    torch.manual_seed(0)
    head = Head(6, 3)
    before = head.linear.weight.detach().clone()
    features = (torch.randn(500, 6) * torch.tensor([1.0, 5, 0.01, 1, 2, 3]) + 4).to(dtype)
    features[:, 3] = 0.0  # a dead unit
    head.centre(features)
    inner = head.linear(features.double())
    torch.testing.assert_close(inner.mean(0), torch.zeros(3).double(), rtol=0, atol=1e-5)
    torch.testing.assert_close(
        inner.std(0, correction=0), torch.full((3,), 0.5).double(), rtol=1e-4, atol=0
    )
    cosine = torch.cosine_similarity(before, head.linear.weight, dim=1)
    torch.testing.assert_close(cosine, torch.ones_like(cosine))
    assert head.linear.weight.requires_grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", [1, 50])
def test_centre_survives_constant_features(dtype, rows):
    head = Head(5, 2)
    before = head.linear.weight.detach().clone()
    constant = torch.full((1, 5), 0.1, dtype=dtype).repeat(rows, 1)
    constant[::2] *= 1 + torch.finfo(dtype).eps  # rounding, not variation
    head.centre(constant)
    torch.testing.assert_close(head.linear.weight, before)
    assert head(constant).abs().max() < 1e-5
    head.centre(torch.zeros(4, 5, dtype=dtype))
    assert torch.equal(head(torch.zeros(1, 5)), torch.zeros(1, 2).double())


def test_centre_refuses():
    head = Head(5, 2)
    with pytest.raises(ValueError, match=r"shape \(4, 3\); expected \(n, 5\)"):
        head.centre(torch.zeros(4, 3))
    with pytest.raises(ValueError, match="NaN or infinite"):
        head.centre(torch.full((4, 5), torch.nan))
    with pytest.raises(ValueError, match="latent_dim is 0"):
        Head(5, 0)


# The network


def network(readout=True, name="lstm", width=H):
    torch.manual_seed(4)
    encoder = ENCODERS[name](hidden=H, dropout=0.2).build(P, T)
    return Network(encoder, Head(width, 2), ScaledLinear(width, 3) if readout else None, 3).eval()


@pytest.mark.parametrize("readout", [False, True])
def test_encode_is_the_network_on_all_rows(readout):
    """In batches of its own choosing, without gradients, and of a tensor or of anything it is cut from."""
    net, x = network(readout), windows(torch.float32, n=600)
    found = encode(net, x)
    latent, offset = net(x)
    assert found.latent.dtype == found.offset.dtype == torch.float64
    assert not found.latent.requires_grad
    torch.testing.assert_close(found.latent, latent.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found.offset, offset.detach(), rtol=1e-5, atol=1e-6)
    assert readout or not found.offset.any()
    assert found.features is None
    assert not net.training


def test_encode_keeps_features_and_what_is_beside_them():
    net, x = network(), windows(torch.float32, n=300)
    features = encode(net, x, features=True).features
    torch.testing.assert_close(features, net.encoder(x).detach().double(), rtol=1e-5, atol=1e-6)
    assert features.dtype == torch.float64
    both = encode(net, x, beside=lambda x: x.flatten(1)[:, :4]).features
    assert torch.equal(both[:, :H], features)
    assert torch.equal(both[:, H:], x.flatten(1)[:, :4].double())


def test_ends_do_not_depend_on_company():
    """In float32 a product of one row rounds otherwise than one of many."""
    net, features = network(), torch.randn(200, H)
    together = net.ends(features)
    for k in range(0, 200, 20):
        for one, many in zip(net.ends(features[k : k + 1]), together, strict=True):
            torch.testing.assert_close(one[0], many[k], rtol=1e-13, atol=1e-13)


def test_the_width_of_a_network_is_that_of_its_features():
    assert network().width == H
    assert Network(nn.Flatten(), None, ScaledLinear(7, 2), 2).width == 7
    assert Network(nn.Flatten(), Head(6, 2), None, 2).width == 6


# Encoders of one's own


class MeanPool(nn.Module):
    """A custom encoder: no base class of ours, no width attribute."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(P, 7)
        self.norm = nn.BatchNorm1d(7)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.norm(self.linear(x).mean(1)))


class Returns(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x):
        return self.fn(x)


def test_width_of_a_custom_module_leaves_it_as_it_was():
    encoder = MeanPool().train()
    encoder.norm.eval()  # a part the user has frozen
    state = {key: value.clone() for key, value in encoder.state_dict().items()}
    assert width_of(encoder, windows(torch.float32, n=1)) == 7
    assert (encoder.training, encoder.norm.training, encoder.drop.training) == (True, False, True)
    assert all(torch.equal(value, state[key]) for key, value in encoder.state_dict().items())
    head = Head(7, 2)
    head(encoder(windows(torch.float32))).sum().backward()
    assert encoder.linear.weight.grad.abs().max() > 0


def test_width_of_runs_in_eval_without_gradients():
    seen = []

    def record(x):
        seen.append((encoder.training, torch.is_grad_enabled()))
        return x[:, -1]

    encoder = Returns(record)
    width_of(encoder, windows())
    assert seen == [(False, False)]
    assert encoder.training


def test_width_of_materialises_lazy_modules():
    encoder = nn.Sequential(nn.Flatten(), nn.LazyLinear(4))
    assert width_of(encoder, windows(torch.float32)) == 4
    assert encoder[1].weight.shape == (4, T * P)


@pytest.mark.parametrize(
    ("encoder", "error", "message"),
    [
        (nn.LSTM(P, 4, batch_first=True), TypeError, "tuple of 2.*return.* the last hidden state"),
        (lambda x: x, TypeError, "is a function; expected an nn.Module"),
        (Returns(lambda x: x.numpy()), TypeError, "returns ndarray; expected a tensor"),
        (Returns(lambda x: x[:, 0].long()), TypeError, "torch.int64; expected a floating dtype"),
        (Returns(lambda x: x), ValueError, r"shape \(6, 5, 3\).*last step, output\[:, -1\]"),
        (Returns(lambda x: x[:, 0, 0]), ValueError, r"shape \(6,\) for 6 windows"),
        (Returns(lambda x: x[0]), ValueError, r"shape \(5, 3\) for 6 windows"),
        (Returns(lambda x: x[:, 0] / 0), ValueError, "NaN or infinite"),
        (nn.Linear(P + 1, 4), ValueError, r"fails on windows of shape \(6, 5, 3\)"),
    ],
)
def test_width_of_refuses(encoder, error, message):
    with pytest.raises(error, match=message):
        width_of(encoder, windows(torch.float32))
    if isinstance(encoder, nn.Module):
        assert encoder.training  # restored after a failure too


def test_width_of_refuses_a_sample_that_is_no_window():
    with pytest.raises(ValueError, match=r"sample has shape \(6, 3\); expected \(n, T, p\)"):
        width_of(MeanPool(), torch.zeros(6, 3))


def test_head_points_where_it_is_told():
    head = Head(3, 2)
    head.point(torch.tensor([[3.0, 0.0, 4.0]]))
    torch.testing.assert_close(
        head.linear.weight[0].detach(), torch.tensor([0.6, 0.0, 0.8], dtype=torch.float64)
    )
    assert float(head.linear.weight[1].detach().norm()) == pytest.approx(1.0, rel=1e-5)


def test_skip_drops_window_values_in_training_only():
    skip = Skip(GRU(hidden=4).build(2, 5), dropout=0.5)
    x = torch.ones(200, 5, 2)
    skip.eval()
    assert torch.equal(skip(x)[:, 4:], x.flatten(1))
    skip.train()
    dropped = float((skip(x)[:, 4:] == 0).float().mean())
    assert dropped == pytest.approx(0.5, abs=0.1)
    with pytest.raises(ValueError, match="dropout"):
        Skip(nn.Identity(), dropout=1.0)
