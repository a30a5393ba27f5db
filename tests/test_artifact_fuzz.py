"""Files that are no whole, unchanged model: refused in one sentence, whatever is in them."""

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
from seqgp.artifact import info
from seqgp.artifact.container import read, write

from seqgp import ArtifactError, Forecaster, SequenceGP, SequenceNet, load, save

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


@pytest.fixture(scope="module", params=["gp", "grid", "forecaster"])
def whole(request, tmp_path_factory):
    """A file for each kind of model, as small as it gets."""
    path = tmp_path_factory.mktemp("whole") / "model.seqgp"
    small = dict(encoder="rnn", hidden=2, latent_dim=1, epochs=1, random_state=0, progress=False)
    if request.param == "forecaster":
        frame = pd.DataFrame({"y": _rows()[1]}, pd.date_range("2024-01-01", periods=30, freq="h"))
        save(Forecaster("y", lag=3, model=SequenceGP(**small)).fit(frame), path)
    else:
        inference = "grid" if request.param == "grid" else "exact"
        save(SequenceGP(**small, inference=inference, grid_size=6).fit(*_rows()), path)
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


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", ["lr", "hidden", "dropout", "patience"])
def test_numbers_in_the_header_must_be_finite(tmp_path, name, value):
    path = tmp_path / "model.seqgp"
    save(SequenceGP(hidden=2, epochs=0, random_state=0).fit(*_rows()), path)
    header, arrays = _parts(path)
    header["digest"], header["model"]["params"][name] = "0" * 64, value
    _write_raw(path, json.dumps(header), arrays)
    assert name in _refusal(path)


@pytest.mark.parametrize("name", ["hidden", "layers", "latent_dim", "lag", "features", "outputs"])
@pytest.mark.parametrize("value", [4, 20_000, 2**31, 2**40])
def test_sizes_are_compared_with_the_file_before_memory_is_taken(whole, forged, name, value):
    header, arrays = _parts(whole)
    inner = header["model"].get("model", header["model"])
    place = inner if name in inner else inner["params"]
    place[name] = value
    _sign(forged, header, arrays)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _refusal(forged)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes


def test_all_sizes_together_are_compared_too(tmp_path):
    path = tmp_path / "model.seqgp"
    save(SequenceGP(hidden=2, epochs=0, mean="zero", random_state=0).fit(*_rows()), path)
    header, arrays = _parts(path)
    header["model"] |= dict(lag=2**40, features=1, rows=30)
    header["model"]["params"] |= dict(hidden=2**20, layers=5, skip=True)
    _sign(path, header, arrays)
    _refusal(path)


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
    if name in ("history", "state.history") and change == "longer":
        arrays[name] = arrays[name][:, None]
    _sign(forged, header, arrays)
    _refusal(forged)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_arrays_must_be_finite(whole, forged, number):
    header, arrays = _parts(whole)
    for name in arrays:
        if name in ("history", "state.history"):
            continue  # validation scores and missing values may be NaN there
        changed = {k: np.array(v) for k, v in arrays.items()}
        changed[name].reshape(-1)[0] = number
        _sign(forged, header, changed)
        assert f"{name} has values that are NaN" in _refusal(forged)


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
    model = SequenceGP(hidden=2, epochs=0, inference="exact", random_state=0).fit(*_rows())
    save(model, path)
    header, arrays = _parts(path)
    arrays = {k: np.array(v) for k, v in arrays.items()}
    arrays["gp.kernel.raw_outputscale"][...] = 710.0  # finite, but its exponential is not
    _sign(path, header, arrays)
    assert "not positive definite" in _refusal(path)


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
