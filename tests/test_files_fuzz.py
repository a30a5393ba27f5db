"""Files that are no whole, unchanged model: refused in one sentence, whatever is in them."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import resource

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seqgp import (
    GP,
    LSTM,
    RNN,
    ArtifactError,
    Forecaster,
    SequenceGP,
    SequenceNet,
    Training,
    info,
    load,
    save,
)
from seqgp.io import read, write

_fuzz = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def _rows():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((30, 3, 1))
    return X, np.tanh(X[:, -1, 0]) + 0.1 * rng.standard_normal(30)


def _small(kind=SequenceGP, encoder=None, epochs=1, **options):
    encoder = RNN(hidden=2) if encoder is None else encoder
    training = Training(epochs=epochs)
    return kind(encoder, training=training, random_state=0, progress=False, **options)


_MODELS = {
    "exact": lambda: _small(gp=GP(inference="exact", latent_dim=1)),
    "grid": lambda: _small(gp=GP(inference="grid", latent_dim=1, grid_size=6), mean="zero"),
    "net": lambda: _small(SequenceNet, mean="linear"),
    "ensemble": lambda: _small(
        gp=GP(inference="grid", latent_dim=1, grid_size=6),
        members=2,
        readout=True,
        validation_fraction=0.4,
    ),
}


@pytest.fixture(scope="module", params=[*_MODELS, "forecaster"])
def whole(request, tmp_path_factory):
    """A file for each kind of model, as small as it gets."""
    path = tmp_path_factory.mktemp("whole") / "model.seqgp"
    if request.param == "forecaster":
        frame = pd.DataFrame({"y": _rows()[1]}, pd.date_range("2024-01-01", periods=30, freq="h"))
        model = Forecaster("y", lag=3, model=_small(gp=GP(latent_dim=1))).fit(frame)
    else:
        model = _MODELS[request.param]().fit(*_rows())
    save(model, path)
    return path


@pytest.fixture(scope="module")
def forged(tmp_path_factory):
    """A path to write forgeries to."""
    return tmp_path_factory.mktemp("forged") / "model.seqgp"


def _refusal(path, reader=load):
    with pytest.raises(ArtifactError) as caught:
        reader(path)
    text = str(caught.value)
    assert "\n" not in text
    assert text.count(str(path)) == 1
    return text


def _sign(path, header, arrays):
    """Write a file with a valid checksum, whatever is in it."""
    header = {name: value for name, value in header.items() if name != "digest"}
    write(path, header, arrays)


def _parts(path):
    text, arrays = read(path)
    return json.loads(text), arrays


# Damaged.


def test_cut_off_at_every_length(whole, forged):
    raw = whole.read_bytes()
    assert len(raw) < 20_000
    forged.write_bytes(raw)
    load(forged)
    for size in range(len(raw) - 1, -1, -1):
        os.truncate(forged, size)
        text = _refusal(forged)
        assert "part of a model" in text or size <= 8
    assert "it is empty" in text


def test_any_byte_changed(whole, forged):
    raw = whole.read_bytes()
    load(whole)
    with forged.open("wb", buffering=0) as file:
        file.write(raw)
        for at, byte in enumerate(raw):
            os.pwrite(file.fileno(), bytes([byte ^ (1 << at % 8)]), at)
            _refusal(forged)
            os.pwrite(file.fileno(), bytes([byte]), at)
    load(forged)


def test_bytes_added(whole, forged):
    forged.write_bytes(whole.read_bytes() + b"\0")
    assert "has changed since it was written" in _refusal(forged)


@_fuzz
@given(data=st.data())
def test_bytes_moved_about(whole, forged, data):
    raw = bytearray(whole.read_bytes())
    at = data.draw(st.integers(0, len(raw)))
    junk = data.draw(st.binary(min_size=1, max_size=40))
    end = data.draw(st.integers(at, min(at + 40, len(raw))))
    changed = bytes(raw[:at] + junk + raw[end:])
    forged.write_bytes(changed)
    if changed != raw:
        _refusal(forged)
        _refusal(forged, info)


@_fuzz
@given(junk=st.binary(max_size=200))
def test_any_bytes(forged, junk):
    forged.write_bytes(junk)
    _refusal(forged)
    start = b'{"__metadata__":{"seqgp":"'
    forged.write_bytes((len(start) + len(junk)).to_bytes(8, "little") + start + junk)
    _refusal(forged)


# Forged: with a checksum that is right, so that what is inside must be looked at.

_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.sampled_from([0, 1, 2, 3, 20_000, 2**31, 2**40])
    | st.floats()
    | st.text(max_size=10)
    | st.sampled_from(["SequenceGP", "SequenceNet", "grid", "exact", "readout", "lstm", "linear"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


def _places(value, at=()):
    """The paths of all values inside."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        yield (*at, key)
        yield from _places(inner, (*at, key))


def _write_raw(path, text, arrays):
    """Header text as it is, NaN and all, signed."""
    zeros = "0" * 64
    raw = safetensors.numpy.save(arrays, metadata={"seqgp": text})
    at = raw.find(zeros.encode())
    if at >= 0:
        digest = hashlib.sha256(raw).hexdigest().encode()
        raw = raw[:at] + digest + raw[at + 64 :]
    path.write_bytes(raw)


@_fuzz
@given(data=st.data())
def test_forged_headers_make_a_model_or_are_refused(whole, forged, data):
    header, arrays = _parts(whole)
    header["digest"] = "0" * 64
    for _ in range(data.draw(st.integers(1, 2))):
        *outer, last = data.draw(st.sampled_from(list(_places(header))))
        place = header
        for key in outer:
            place = place[key]
        if isinstance(place, dict) and data.draw(st.booleans()):
            place[data.draw(st.sampled_from(["extra", last]))] = data.draw(_json)
        elif data.draw(st.integers(0, 5)) == 0:
            del place[last]
        else:
            place[last] = data.draw(_json)
    _write_raw(forged, json.dumps(header), {k: np.array(v) for k, v in arrays.items()})
    try:
        model = load(forged)
    except ArtifactError:
        _refusal(forged)
    else:  # an option that changes nothing in what was fitted
        assert type(model) in (SequenceGP, SequenceNet, Forecaster)
        if getattr(model, "window_shape_", None) == (3, 1):
            mean, std = model.predict(_rows()[0], return_std=True)
            assert np.isfinite(mean).all()
            assert (std > 0).all()


# Values of each JSON type, one of which is wrong wherever a type is declared.
_WRONG = [None, True, -1, 0.5, "other", [], {}]


def test_every_value_of_the_header_is_of_its_type_or_refused(whole, forged):
    """One at a time, all of them: other types, a missing name, a name too many."""
    original, arrays = _parts(whole)
    for place in _places(original["model"]):
        *outer, last = place
        for wrong in [*_WRONG, "missing", "extra"]:
            header = json.loads(json.dumps(original))
            inner = header["model"]
            for key in outer:
                inner = inner[key]
            if wrong == "missing":
                del inner[last]
            elif wrong == "extra":
                if isinstance(inner, dict):
                    inner["extra"] = 1
            else:
                inner[last] = wrong
            _sign(forged, header, arrays)
            for reader in (load, info) if wrong in (None, "missing") else (load,):
                refused = ""
                try:  # some values are as good as those that were there
                    reader(forged)
                except ArtifactError as error:
                    refused = str(error)
                assert not refused or refused.count(str(forged)) == 1, (place, wrong)


_REQUIRED = [
    ("kind",),
    ("options",),
    ("feature_names",),
    ("fitted",),
    *(
        ("fitted", name)
        for name in (
            "blueprint",
            "lag",
            "features",
            "outputs",
            "vector",
            "rows",
            "inference",
            "grid_size",
            "history",
            "validation_rows",
            "noise_steps",
            "members",
        )
    ),
    *(
        ("fitted", "blueprint", name)
        for name in ("encoder", "gp", "readout", "mean", "training", "members", "calibrate")
    ),
    *(
        ("fitted", "members", 0, name)
        for name in ("best_epoch", "pretrained_epochs", "seed", "best", "nlml")
    ),
]


@pytest.mark.parametrize("place", _REQUIRED, ids=lambda place: ".".join(map(str, place)))
def test_every_name_is_needed_and_no_other_is_known(whole, forged, place):
    for change in ("missing", "extra"):
        header, arrays = _parts(whole)
        inner = _estimator(header)
        for key in place[:-1]:
            inner = inner[key]
        if change == "missing":
            del inner[place[-1]]
        else:
            inner["extra"] = None
        _sign(forged, header, arrays)
        _refusal(forged)


def _estimator(header):
    """The estimator's part of a header."""
    return header["model"].get("estimator", header["model"])


def _changed(whole, forged, place, value):
    """Refused with one value of the estimator's header changed."""
    header, arrays = _parts(whole)
    inner = _estimator(header)
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    _sign(forged, header, arrays)
    return _refusal(forged)


_FITTED, _BLUEPRINT = ("fitted",), ("fitted", "blueprint")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("kind",), "Forecaster"),
        (("kind",), ["SequenceGP"]),
        (("kind",), {}),
        (("feature_names",), "abc"),
        (("feature_names",), ["a"]),
        (("feature_names",), [1, 2, 3]),
        (("feature_names",), {"a": 1, "b": 2, "c": 3}),
        (("options", "encoder"), {"encoder": "lstm"}),
        (("options", "encoder"), {"encoder": "no such", "options": {}}),
        (("options", "encoder"), {"encoder": "lstm", "options": {"hidden": "many"}}),
        (("options", "encoder"), {"encoder": "lstm", "options": {"size": 3}}),
        (("options", "encoder"), {"encoder": "lstm", "options": []}),
        (("options", "encoder"), "no such"),
        (("options", "training"), {"encoder": "lstm", "options": {}}),
        (("options", "training"), {"training": {"lr": -1.0}}),
        (("options", "training"), {"training": {"lr": "fast"}}),
        (("options", "training"), {"training": {"speed": 1.0}}),
        (("options", "training"), {"training": {"schedule": "steep"}}),
        (("options", "members"), 0),
        (("options", "mean"), "cubic"),
        (("options", "validation_fraction"), 1.5),
        (("options", "lag"), -1),
        ((*_FITTED, "lag"), 0),
        ((*_FITTED, "lag"), -3),
        ((*_FITTED, "features"), 0),
        ((*_FITTED, "outputs"), 0),
        ((*_FITTED, "outputs"), 2),
        ((*_FITTED, "vector"), False),
        ((*_FITTED, "rows"), 0),
        ((*_FITTED, "rows"), -30),
        ((*_FITTED, "inference"), "magic"),
        ((*_FITTED, "inference"), "auto"),
        ((*_FITTED, "grid_size"), -6),
        ((*_FITTED, "grid_size"), 2**40),
        ((*_FITTED, "history"), []),
        ((*_FITTED, "history"), ["epoch"]),
        ((*_FITTED, "history"), ["epoch"] * 7),
        ((*_FITTED, "history"), list("abcdefg")),
        ((*_FITTED, "validation_rows"), -12),
        ((*_FITTED, "validation_rows"), 2**40),
        ((*_FITTED, "noise_steps"), -25),
        ((*_FITTED, "noise_steps"), 25),
        ((*_FITTED, "members"), []),
        ((*_FITTED, "members", 0, "best_epoch"), -1),
        ((*_FITTED, "members", 0, "pretrained_epochs"), -1),
        ((*_BLUEPRINT, "mean"), "cubic"),
        ((*_BLUEPRINT, "members"), 0),
        ((*_BLUEPRINT, "encoder"), {"encoder": "gru", "options": {"hidden": 2}}),
        ((*_BLUEPRINT, "encoder"), {"encoder": "rnn", "options": {"hidden": 3}}),
        ((*_BLUEPRINT, "encoder"), "rnn"),
        ((*_BLUEPRINT, "encoder"), None),
        ((*_BLUEPRINT, "encoder"), {"gp": "gp", "options": {}}),
        ((*_BLUEPRINT, "gp"), "rbf"),
        ((*_BLUEPRINT, "gp"), {"gp": "gp", "options": {"kernel": "cubic"}}),
        ((*_BLUEPRINT, "gp"), {"gp": "gp", "options": {"kernel": None}}),
        ((*_BLUEPRINT, "gp"), {"gp": "gp", "options": {"latent_dim": 0}}),
        ((*_BLUEPRINT, "gp"), {"gp": "gp", "options": {"latent_dim": 5}}),
        (
            (*_BLUEPRINT, "gp"),
            {"gp": "gp", "options": {"likelihood": {"likelihood": "x", "options": {}}}},
        ),
        (
            (*_BLUEPRINT, "gp"),
            {
                "gp": "gp",
                "options": {"likelihood": {"likelihood": "gaussian", "options": {"noise": -1}}},
            },
        ),
        ((*_BLUEPRINT, "training"), None),
        ((*_BLUEPRINT, "training"), {"training": {"epochs": -1}}),
    ],
)
def test_values_out_of_their_range_are_refused(whole, forged, place, value):
    _changed(whole, forged, place, value)


def test_an_estimator_holds_what_its_kind_trains(tmp_path, forged):
    """A GP in a SequenceNet, or none in a SequenceGP, could be neither updated nor fitted again."""
    for name in ("exact", "net"):
        path = tmp_path / name
        save(_MODELS[name]().fit(*_rows()), path)
        header, arrays = _parts(path)
        options = header["model"]["options"]
        if name == "exact":
            header["model"]["kind"] = "SequenceNet"
            del options["gp"], options["readout"]
        else:
            header["model"]["kind"] = "SequenceGP"
        _sign(forged, header, arrays)
        _refusal(forged)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(
    ("holder", "name"),
    [
        (("training", "training"), "lr"),
        (("encoder", "options"), "hidden"),
        (("encoder", "options"), "dropout"),
        (("training", "training"), "patience"),
        ((), "validation_fraction"),
    ],
)
def test_numbers_in_the_header_must_be_finite(tmp_path, holder, name, value):
    path = tmp_path / "model.seqgp"
    save(_small(encoder=LSTM(hidden=2), epochs=0).fit(*_rows()), path)
    header, arrays = _parts(path)
    place = header["model"]["options"]
    for key in holder:
        place = place[key]
    header["digest"], place[name] = "0" * 64, value
    _write_raw(path, json.dumps(header), arrays)
    assert name in _refusal(path)


# No header asks for more memory than its file has.


def _peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _holders(header, name):
    """Everything in a header that has a value of that name."""
    if isinstance(header, dict):
        if name in header:
            yield header
        for inner in header.values():
            yield from _holders(inner, name)
    elif isinstance(header, list):
        for inner in header:
            yield from _holders(inner, name)


_SIZES = [
    "hidden",
    "layers",
    "latent_dim",
    "lag",
    "features",
    "outputs",
    "rows",
    "grid_size",
    "validation_rows",
    "members",
]


@pytest.mark.parametrize("name", _SIZES)
@pytest.mark.parametrize("value", [4, 20_000, 2**31, 2**40])
def test_sizes_are_compared_with_the_file_before_memory_is_taken(whole, forged, name, value):
    """Wherever the size stands: in the options, in those of the fit, or in what was fitted."""
    original, arrays = _parts(whole)
    count = len(list(_holders(original["model"], name)))
    for k in range(count):
        header = json.loads(json.dumps(original))
        place = list(_holders(header["model"], name))[k]
        if not isinstance(place[name], int | None):
            continue
        place[name] = value
        _sign(forged, header, arrays)
        before = _peak()
        try:
            load(forged)
        except ArtifactError:
            _refusal(forged)
        assert _peak() - before < 200_000  # kilobytes


@pytest.mark.parametrize("name", ["features", "outputs"])
@pytest.mark.parametrize("value", [4, 20_000, 2**31, 2**40])
def test_shapes_of_what_was_fitted_must_be_those_of_the_file(whole, forged, name, value):
    _changed(whole, forged, ("fitted", name), value)


@pytest.mark.parametrize("value", [4, 20_000, 2**31, 2**40])
@pytest.mark.parametrize("name", ["hidden", "layers"])
def test_sizes_of_the_fitted_encoder_must_be_those_of_the_file(whole, forged, name, value):
    _changed(whole, forged, ("fitted", "blueprint", "encoder", "options", name), value)


def test_all_sizes_together_are_compared_too(tmp_path):
    path = tmp_path / "model.seqgp"
    save(_small(encoder=LSTM(hidden=2), epochs=0, mean="zero").fit(*_rows()), path)
    header, arrays = _parts(path)
    fitted = header["model"]["fitted"]
    fitted |= dict(lag=2**40, features=1, rows=30)
    fitted["blueprint"]["encoder"]["options"] |= dict(hidden=2**20, layers=5, skip=True)
    fitted["blueprint"]["gp"] = {"gp": "gp", "options": {"latent_dim": 2**15, "outputs": 2**15}}
    _sign(path, header, arrays)
    before = _peak()
    _refusal(path)
    assert _peak() - before < 200_000


def test_a_likelihood_asks_for_no_more_than_the_file_has(whole, forged):
    header, arrays = _parts(whole)
    options = {"likelihood": {"likelihood": "gaussian", "options": {"outputs": 2**31}}}
    estimator = _estimator(header)
    for place in (estimator["options"], estimator["fitted"]["blueprint"]):
        place["gp"] = {"gp": "gp", "options": options}
        _sign(forged, header, arrays)
        before = _peak()
        _refusal(forged)
        assert _peak() - before < 200_000
        place["gp"] = None


@_fuzz
@given(data=st.data())
def test_arrays_must_be_those_that_the_header_implies(whole, forged, data):
    header, arrays = _parts(whole)
    name = data.draw(st.sampled_from(sorted(arrays)))
    value = arrays[name]
    change = data.draw(st.sampled_from(["drop", "add", "rename", "dtype", "axis", "longer"]))
    if change == "drop":
        del arrays[name]
    elif change == "add":
        arrays[data.draw(st.text(max_size=8)) + "."] = value
    elif change == "rename":
        arrays[name + "x"] = arrays.pop(name)
    elif change == "dtype":
        other = data.draw(st.sampled_from([np.float16, np.int64, np.bool_, np.uint8, np.float64]))
        arrays[name] = np.nan_to_num(value).astype(
            np.float32 if other is value.dtype.type else other
        )
    elif change == "axis":
        arrays[name] = value[None]
    else:
        arrays[name] = np.concatenate([value.reshape(-1), [0.0]]).astype(value.dtype)
    if name.endswith(".history") and change == "longer":
        arrays[name] = arrays[name][:, None]
    _sign(forged, header, arrays)
    _refusal(forged)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_arrays_must_be_finite(whole, forged, number):
    header, arrays = _parts(whole)
    for name in arrays:
        if name.endswith(".history"):
            continue  # there is no validation score where there is no validation set
        changed = {k: np.array(v) for k, v in arrays.items()}
        changed[name].reshape(-1)[0] = number
        _sign(forged, header, changed)
        assert f"{name} has values that are NaN" in _refusal(forged)


def _noisy(path):
    """A file whose calibration has a noise network and scores, and whose mean function is linear."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 3, 1))
    y = X[:, 0, 0] + np.exp(X[:, -1, 0]) * rng.standard_normal(900)
    model = _small(gp=GP(inference="grid", latent_dim=1, grid_size=6), validation_fraction=0.4)
    model.fit(X, y)
    assert model.fitted_.calibration.noise is not None
    save(model, path)
    return path


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("calibration.scale", [0.0, -1.0]),
        ("calibration.tail", [-0.1, 0.5, 2.0]),
        ("calibration.scores", [-1.0]),
        ("mean.axis_variance", [-1.0]),
        ("mean.intercept_variance", [-1e-9]),
        ("x_scaler.scale", [0.0, -1.0]),
        ("y_scaler.scale", [0.0, -1.0]),
        ("noise.unit", [0.0, -1.0]),
    ],
)
def test_variances_and_scales_must_be_what_they_can_be(tmp_path, name, numbers):
    path = _noisy(tmp_path / "model.seqgp")
    header, arrays = _parts(path)
    for number in numbers:
        changed = {k: np.array(v) for k, v in arrays.items()}
        changed[name].reshape(-1)[-1] = number
        _sign(path, header, changed)
        _refusal(path)


def test_a_residual_variance_must_be_positive(tmp_path):
    path = tmp_path / "model.seqgp"
    save(_MODELS["net"]().fit(*_rows()), path)
    header, arrays = _parts(path)
    for number in (0.0, -1.0):
        _sign(path, header, arrays | {"members.0.statistics.variance": np.array([number])})
        _refusal(path)


def test_a_newer_format_is_refused_with_what_to_do(whole, forged):
    header, arrays = _parts(whole)
    header["format"] = 2
    header["model"] = {"kind": "something new"}
    _sign(forged, header, arrays)
    text = _refusal(forged)
    assert "made by a newer seqgp" in text
    assert "upgrade" in text


@pytest.mark.parametrize("number", [0, -1, True, 1.5, "1", None])
def test_a_format_that_never_was_is_refused(whole, forged, number):
    header, arrays = _parts(whole)
    header["format"] = number
    _sign(forged, header, arrays)
    assert "names no format" in _refusal(forged)


def test_headers_too_deep_or_too_long_are_refused(forged):
    arrays = {"a": np.zeros(1)}
    _write_raw(forged, "[" * 100_000, arrays)
    _refusal(forged)
    _write_raw(forged, '{"format": ' + "9" * 10_000 + "}", arrays)
    _refusal(forged)
    start = b'{"__metadata__":{"seqgp":"'
    forged.write_bytes((2**40).to_bytes(8, "little") + start)
    assert "claims a header of" in _refusal(forged)


def test_a_matrix_that_cannot_be_factorised_is_refused(tmp_path):
    path = tmp_path / "model.seqgp"
    save(_small(gp=GP(inference="exact"), epochs=0).fit(*_rows()), path)
    header, arrays = _parts(path)
    arrays = {k: np.array(v) for k, v in arrays.items()}
    # Finite, but its exponential is not.
    arrays["members.0.layer.kernel.raw_outputscale"][...] = 710.0
    _sign(path, header, arrays)
    assert "not positive definite" in _refusal(path)


def test_a_checkpoint_is_no_model(tmp_path):
    path = tmp_path / "checkpoint"
    X, y = _rows()
    asked = iter([False, True])
    _small(epochs=5).fit(X, y, stop=lambda: next(asked, True), checkpoint=path)
    assert path.exists()
    for reader in (load, info):
        assert "checkpoint of a fit that has not ended" in _refusal(path, reader)


# Foreign.


class _Bomb:
    def __reduce__(self):
        return os.mkdir, (self.folder,)


def _saved_by_torch(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "it is empty"),
        (b"x", "text file"),
        (b"time,load\n2024-01-01,3.5\n", "text file, such as a CSV"),
        ("\ufeffZeit;Last\n1;größer\n".encode(), "text file"),
        (("é" * 4000).encode(), "text file"),
        (bytes(range(256)), "begins with other bytes"),
        (b"PAR1" + bytes(50), "a Parquet data file"),
        (b"\x1f\x8b\x08\x00" + bytes(50), "a gzip file"),
        (pickle.dumps({"weights": [1.0] * 100}), "a pickle, which seqgp never loads"),
        (_saved_by_torch({"w": torch.zeros(3)}), "what torch.save writes, which seqgp never loads"),
        (safetensors.numpy.save({"w": np.zeros(3)}), "safetensors file of another program"),
        (
            safetensors.numpy.save({"w": np.zeros(3)}, metadata={"format": "pt"}),
            "safetensors file of another program",
        ),
    ],
)
def test_other_files_are_refused_by_what_they_are(content, message, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(content)
    for reader in (load, info):
        text = _refusal(path, reader)
        assert message in text
        assert "give the file that save wrote" in text


def test_nothing_in_a_pickle_is_executed(tmp_path):
    bomb = _Bomb()
    bomb.folder = str(tmp_path / "made by the pickle")
    path = tmp_path / "model.seqgp"
    for content in (pickle.dumps(bomb), pickle.dumps(bomb, 0), _saved_by_torch(bomb)):
        path.write_bytes(content)
        _refusal(path)
    assert [p.name for p in tmp_path.iterdir()] == ["model.seqgp"]


def test_no_file_a_folder_and_a_pipe_are_refused(tmp_path):
    assert "there is no file" in _refusal(tmp_path / "nothing")
    assert "is a folder" in _refusal(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "is not a regular file" in _refusal(tmp_path / "pipe")
    with pytest.raises(ArtifactError, match="cannot be read"):
        load("a\0b")
    with pytest.raises(ArtifactError, match="cannot be read"):
        load(tmp_path / ("long" * 100))
