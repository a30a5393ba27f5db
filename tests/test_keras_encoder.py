"""A Keras 3 layer on the torch backend is an ``nn.Module``, hence an encoder."""

import os

import pytest
import torch

from seqgp.encoders import Head, width_of

# Keras reads its backend when it is first imported.
os.environ.setdefault("KERAS_BACKEND", "torch")
keras = pytest.importorskip("keras", exc_type=ImportError)
if keras.backend.backend() != "torch":
    pytest.skip("Keras runs on another backend here", allow_module_level=True)


def test_keras_lstm_is_an_encoder():
    keras.utils.set_random_seed(0)
    layer = keras.layers.LSTM(8)
    x = torch.randn(5, 6, 3)
    assert width_of(layer, x) == 8  # the first call also creates the layer's weights
    head = Head(8, 2)
    device = next(layer.parameters()).device
    latent = head.to(device)(layer(x.to(device)))
    assert latent.shape == (5, 2)

    latent.square().sum().backward()
    # Keras also registers its random seed, an integer, as a parameter that is not trained.
    parameters = {key: value for key, value in layer.named_parameters() if value.requires_grad}
    assert len(parameters) == 3  # kernel, recurrent kernel, bias
    for name, value in parameters.items():
        assert value.grad is not None, name
        assert value.grad.abs().max() > 0, name

    before = latent.detach().clone()
    torch.optim.SGD(layer.parameters(), lr=0.1).step()
    after = head(layer(x.to(device)))
    assert not torch.equal(before, after)
    assert after.square().sum() < before.square().sum()


def test_keras_state_is_restored():
    """Into the same layer, as early stopping does: the keys carry the layer's own name."""
    x = torch.randn(5, 6, 3)
    layer = keras.layers.GRU(4)
    width_of(layer, x)
    before = layer(x)
    state = {key: value.clone() for key, value in layer.state_dict().items()}
    with torch.no_grad():
        for value in filter(lambda value: value.requires_grad, layer.parameters()):
            value.add_(0.1)
    assert not torch.equal(layer(x), before)
    layer.load_state_dict(state)
    assert torch.equal(layer(x), before)
