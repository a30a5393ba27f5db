"""Names: how a thing joins one of the package's registries, and what is said where a name is not known."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from seqgp import GP, ArtifactError, SequenceGP, Training, load, save
from seqgp.encoders import ENCODERS, Encoder, as_encoder
from seqgp.encoders import register as register_encoder
from seqgp.gp import GPS
from seqgp.inference import INFERENCES
from seqgp.kernels import KERNELS
from seqgp.likelihoods import LIKELIHOODS
from seqgp.options import Registry
from seqgp.training import SCHEDULES, SURROGATES


@pytest.fixture
def shapes():
    found = Registry("shape", ", or a Shape")

    @found.register("round")
    class Round: ...

    @found.register("square")
    def square(): ...

    return found


def test_things_are_found_by_name_in_their_order(shapes):
    assert list(shapes) == ["round", "square"]
    assert shapes["round"].__name__ == "Round"  # the decorator gives back what it was given
    assert "round" in shapes
    assert "oval" not in shapes


def test_the_name_of_a_thing_is_that_of_itself_alone(shapes):
    class Derived(shapes["round"]): ...

    assert shapes.name_of(shapes["round"]) == "round"
    assert shapes.name_of(shapes["square"]) == "square"
    assert shapes.name_of(Derived) is None
    assert shapes.name_of("round") is None
    assert shapes.name_of(None) is None


@pytest.mark.parametrize("name", ["oval", "", None, 3, ["round"], {"round": 1}, b"round"])
def test_an_unknown_name_is_refused_with_the_known_ones(shapes, name):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the text is compared below)
        shapes[name]
    text = str(caught.value)
    assert text.startswith(f"shape={name!r} is not known: use one of 'round', 'square', or a Shape")
    assert "imported" in text  # a name from outside


def test_a_name_is_given_once(shapes):
    first = shapes["round"]
    with pytest.raises(
        ValueError, match=r"shape 'round' is registered already, by .*Round: choose"
    ):

        @shapes.register("round")
        class Other: ...

    assert shapes["round"] is first


def test_the_same_definition_run_again_takes_its_own_name():
    """As a cell of a notebook does."""
    shapes = Registry("shape")

    def cell(size):
        @shapes.register("round")
        class Round:
            width = size

        return Round

    cell(1)
    second = cell(2)
    assert shapes["round"] is second
    assert shapes["round"].width == 2
    assert list(shapes) == ["round"]


@pytest.mark.parametrize(
    ("registry", "kind", "names"),
    [
        (ENCODERS, "encoder", {"lstm", "gru", "rnn", "narx"}),
        (GPS, "gp", {"gp"}),
        (INFERENCES, "inference", {"exact", "grid"}),
        (
            KERNELS,
            "kernel",
            {"rbf", "matern12", "matern32", "matern52", "spectral-mixture", "periodic"},
        ),
        (LIKELIHOODS, "likelihood", {"gaussian"}),
        (SCHEDULES, "schedule", {"constant", "cosine"}),
        (SURROGATES, "surrogate", {"posterior"}),
    ],
)
def test_the_packages_own_names(registry, kind, names):
    assert registry.kind == kind
    assert names <= set(registry)
    for name in names:
        assert registry.name_of(registry[name]) == name


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: SequenceGP("transformer"), "encoder='transformer' is not known"),
        (lambda: SequenceGP(gp="cubic"), "kernel='cubic' is not known"),
        (lambda: SequenceGP(gp=GP(inference="magic")), "inference='magic' is not known"),
        (lambda: SequenceGP(gp=GP(likelihood="magic")), "likelihood='magic' is not known"),
        (lambda: SequenceGP(training=Training(schedule="steep")), "schedule='steep' is not known"),
        (lambda: SequenceGP(training=Training(surrogate="x")), "surrogate='x' is not known"),
    ],
)
def test_options_that_name_nothing_are_refused_by_fit(make, message):
    X, y = torch.randn(20, 3, 1).numpy(), torch.randn(20).numpy()
    with pytest.raises(ValueError, match=message):
        make().fit(X, y)


@dataclass(repr=False)
class Last(Encoder):
    """The last step, through a linear layer."""

    units: int = 3

    def build(self, features: int, lag: int) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(features * lag, self.units))


def test_an_encoder_of_ones_own_is_used_and_saved_by_its_name(tmp_path, monkeypatch):
    monkeypatch.setattr(ENCODERS, "_items", dict(ENCODERS._items))
    register_encoder("last")(Last)
    assert isinstance(as_encoder("last"), Last)
    X = torch.randn(60, 4, 2, dtype=torch.float64).numpy()
    model = SequenceGP(Last(units=5), training=Training(epochs=1), random_state=0, progress=False)
    model.fit(X, X[:, -1, 0])
    save(model, tmp_path / "model.seqgp")
    twin = load(tmp_path / "model.seqgp")
    assert twin.encoder == Last(units=5)
    assert (twin.predict(X) == model.predict(X)).all()
    # Where the module that registers the name has not been imported the file says which name it is.
    monkeypatch.undo()
    with pytest.raises(ArtifactError, match=r"encoder='last' is not known.*has been imported"):
        load(tmp_path / "model.seqgp")
