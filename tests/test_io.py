from __future__ import annotations

import os
from pathlib import Path

import pytest

from seqgp.io import atomic_write, check_writable


def test_a_file_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with atomic_write(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
        assert temporary.parent == path.parent
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_failure_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(temporary: Path) -> None:
        temporary.write_text("half of the new")
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"), atomic_write(path) as temporary:
        fail(temporary)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_failed_rename_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space"), atomic_write(path) as temporary:
        temporary.write_text("new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_it_is_on_the_disk_before_it_is_renamed(tmp_path, monkeypatch):
    done = []
    sync, move = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda *args: done.append("fsync") or sync(*args))
    monkeypatch.setattr(os, "replace", lambda *args: done.append("rename") or move(*args))
    with atomic_write(tmp_path / "a.txt") as temporary:
        temporary.write_text("all")
    assert done == ["fsync", "rename"]


@pytest.mark.parametrize("name", ["a" * 255, "日" * 85, "🙂" * 63])
def test_names_of_the_greatest_length(tmp_path, name):
    with atomic_write(tmp_path / name) as temporary:
        temporary.write_text("all")
    assert os.listdir(tmp_path) == [name]


def test_places_that_cannot_be_written_are_refused(tmp_path):
    for check in (check_writable, lambda path: atomic_write(path).__enter__()):
        with pytest.raises(ValueError, match="is a folder"):
            check(tmp_path)
        with pytest.raises(ValueError, match="there is no folder"):
            check(tmp_path / "none" / "a.txt")
    check_writable(Path("a.txt"))  # in the working folder
    assert not os.listdir(tmp_path)
