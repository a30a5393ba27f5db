from __future__ import annotations

import hashlib
import io
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from paper import datasets
from paper.datasets import DatasetError, File, WrongFileError, registry


class Server:
    """A web server on this machine: ``pages`` maps a path to a body and the length it declares."""

    def __init__(self):
        self.pages: dict[str, tuple[bytes, int]] = {}
        self.requests: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                server.requests.append(self.path)
                if self.path not in server.pages:
                    self.send_error(404)
                    return
                body, length = server.pages[self.path]
                self.send_response(200)
                self.send_header("Content-Length", str(length))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format, *args):
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def stop(self):
        if self._thread.is_alive():
            self._http.shutdown()
            self._http.server_close()
            self._thread.join()


@pytest.fixture
def server():
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache that is there already, and no data folder."""
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setenv("SEQGP_CACHE", str(folder))
    monkeypatch.delenv("SEQGP_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return folder


@pytest.fixture
def content() -> bytes:
    stream = io.BytesIO()
    savemat(stream, {"u": np.arange(5.0)[:, None], "p": 10 * np.arange(5)[:, None]})
    return stream.getvalue()


@pytest.fixture
def small(content, server, monkeypatch):
    """``actuator`` as a made-up file of five rows whose home is the server."""
    server.pages["/actuator.mat"] = (content, len(content))
    file = File(
        path="sysid/actuator.mat",
        sha256=hashlib.sha256(content).hexdigest(),
        url=f"{server.url}/actuator.mat",
    )
    entry = replace(registry.ENTRIES["actuator"], rows=5, files=(file,))
    monkeypatch.setitem(registry.ENTRIES, "actuator", entry)
    return entry


def put(folder, content):
    (folder / "sysid").mkdir(parents=True, exist_ok=True)
    path = folder / "sysid" / "actuator.mat"
    path.write_bytes(content)
    return path


def contents(folder):
    return sorted(folder.rglob("*"))


@pytest.mark.parametrize(
    ("name", "x", "y", "rows"), [("actuator", "u", "p", 1024), ("drives", "u1", "z1", 500)]
)
def test_real_recordings(data_folder, monkeypatch, name, x, y, rows):
    monkeypatch.setitem(sys.modules, "pooch", None)  # importing it fails: it is not needed
    data = datasets.load(name)
    raw = loadmat(data_folder / "sysid" / f"{name}.mat")
    assert data.inputs.shape == (rows, 1)
    assert data.targets.shape == (rows,)
    assert data.inputs.dtype == data.targets.dtype == np.dtype("=f8")
    np.testing.assert_array_equal(data.inputs[:, 0], raw[x].ravel())
    np.testing.assert_array_equal(data.targets, raw[y].ravel())
    assert (data.input_names, data.target_names) == ((x,), (y,))


def test_entries_describe_what_is_loaded(data_folder):
    for entry in datasets.available():
        if not entry.present:
            continue
        data = datasets.load(entry.name)
        assert data.name == entry.name
        assert data.inputs.shape == (entry.rows, entry.inputs)
        assert data.targets.reshape(entry.rows, -1).shape == (entry.rows, entry.outputs)
        assert len(repr(data)) < 500


def test_homes_are_fixed_and_encrypted():
    for entry in datasets.available():
        for file in entry.files:
            assert len(bytes.fromhex(file.sha256)) == 32
            if file.url is not None:
                assert file.url.startswith(
                    "https://raw.githubusercontent.com/zhenwendai/RGP/e55e66d36692"
                )
            if file.requirement is not None:
                name, version = file.requirement.split("==")
                assert file.path.split("/")[-1].startswith(f"{name}-{version}-")


def test_unknown_name():
    with pytest.raises(ValueError, match="'actuators' is not known: use one of actuator, drives"):
        datasets.load("actuators")


def test_downloaded_once(small, server, cache):
    assert not small.present
    data = datasets.load("actuator")
    np.testing.assert_array_equal(data.inputs, np.arange(5.0)[:, None])
    np.testing.assert_array_equal(data.targets, 10 * np.arange(5.0))
    assert data.targets.dtype == np.float64
    assert small.status().where == (cache / "sysid" / "actuator.mat",)
    datasets.load("actuator")
    assert server.requests == ["/actuator.mat"]
    assert contents(cache) == [cache / "sysid", cache / "sysid" / "actuator.mat"]


def test_data_folder_comes_first(small, server, cache, content, tmp_path, monkeypatch):
    put(cache, content)
    path = put(tmp_path / "data", content)
    monkeypatch.setenv("SEQGP_DATA", str(tmp_path / "data"))
    assert small.status().where == (path,)
    path.unlink()
    assert small.status().where == (cache / "sysid" / "actuator.mat",)
    assert len(datasets.load("actuator").targets) == 5
    assert server.requests == []


def tampered(server, content):
    server.pages["/actuator.mat"] = (content[:-1] + b"?", len(content))


def truncated(server, content):
    server.pages["/actuator.mat"] = (content[:100], len(content))


def absent(server, content):
    server.pages.clear()


def unreachable(server, content):
    server.stop()


@pytest.mark.parametrize("spoil", [tampered, truncated, absent, unreachable])
@pytest.mark.parametrize("before", ["empty", "damaged", "none"])
def test_failed_download_leaves_nothing(small, server, cache, content, spoil, before):
    if before == "damaged":
        put(cache, content[:50])
    elif before == "none":
        cache.rmdir()
    spoil(server, content)
    with pytest.raises(DatasetError) as caught:
        datasets.load("actuator")
    assert not isinstance(caught.value, ValueError)  # not the user's fault
    message = str(caught.value)
    assert f"downloading it from {server.url}/actuator.mat" in message
    assert "SEQGP_DATA is not set" in message
    assert "set SEQGP_DATA to a folder that has sysid/actuator.mat" in message
    assert "try again" in message
    assert [path for path in contents(cache) if path.is_file()] == []
    assert cache.exists() == (before != "none")
    if before != "damaged":  # that one's folder was there before
        assert contents(cache) == []


def test_download_names_the_reason(small, server, cache, content):
    tampered(server, content)
    with pytest.raises(DatasetError, match=small.files[0].sha256):
        datasets.load("actuator")
    absent(server, content)
    with pytest.raises(DatasetError, match="404"):
        datasets.load("actuator")


def test_damaged_cache_is_replaced(small, server, cache, content):
    path = put(cache, content[:50])
    assert not small.present
    assert len(datasets.load("actuator").targets) == 5
    assert path.read_bytes() == content


def test_wrong_file_in_data_folder_is_refused(small, server, cache, content, tmp_path, monkeypatch):
    path = put(tmp_path / "data", content + b"more")
    monkeypatch.setenv("SEQGP_DATA", str(tmp_path / "data"))
    with pytest.raises(WrongFileError, match=r"sha256 [0-9a-f]{64} .* replace it") as caught:
        datasets.load("actuator")
    assert str(path) in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, DatasetError)
    status = small.status()
    assert not status.present
    assert str(path) in status.problem
    assert path.read_bytes() == content + b"more"
    assert server.requests == []


def test_without_pooch(small, cache, content, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DatasetError, match=r"set SEQGP_DATA to a folder .* or install pooch"):
        datasets.load("actuator")
    monkeypatch.delenv("SEQGP_CACHE")
    assert not small.present
    monkeypatch.setenv("SEQGP_DATA", str(tmp_path / "data"))
    put(tmp_path / "data", content)
    assert len(datasets.load("actuator").targets) == 5


def test_no_public_home(small, cache, monkeypatch):
    entry = replace(small, files=(replace(small.files[0], url=None),))
    monkeypatch.setitem(registry.ENTRIES, "actuator", entry)
    with pytest.raises(
        DatasetError, match=r"no public home .* set SEQGP_DATA to a folder that has"
    ):
        datasets.load("actuator")


def test_several_columns(tmp_path):
    from paper.datasets.matlab import mat_reader

    columns = {name: np.arange(4)[:, None] * scale for scale, name in enumerate("abcd", 1)}
    savemat(tmp_path / "some.mat", columns)
    rows = mat_reader(inputs=("c", "a"), targets=("d", "b"))([tmp_path / "some.mat"])
    np.testing.assert_array_equal(rows.inputs, np.outer(np.arange(4.0), [3, 1]))
    np.testing.assert_array_equal(rows.targets, np.outer(np.arange(4.0), [4, 2]))
