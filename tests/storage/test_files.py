"""Files and folders appear complete or not at all, and last once they have appeared."""

from __future__ import annotations

import os
import stat

import pytest

from bliss.errors import InputError, ResourceError
from bliss.storage import files
from bliss.storage.files import new_folder, remove_scratch, replace_file, replacing, scratch_folder


@pytest.fixture()
def log(monkeypatch):
    """Calls of os.fsync ("file" or "directory") and os.replace, in order."""
    calls = []
    fsync, replace = os.fsync, os.replace

    def logged_fsync(handle):
        is_folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        calls.append("directory" if is_folder else "file")
        fsync(handle)

    def logged_replace(source, target):
        calls.append("replace")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", logged_fsync)
    monkeypatch.setattr(os, "replace", logged_replace)
    return calls


def test_a_file_is_synced_before_and_its_directory_after_the_rename(tmp_path, log):
    replace_file(tmp_path / "sub" / "a.txt", b"content")
    assert (tmp_path / "sub" / "a.txt").read_bytes() == b"content"
    assert log == ["directory", "file", "replace", "directory"]  # first the one that holds sub
    replace_file(tmp_path / "sub" / "a.txt", b"new")
    assert log[4:] == ["file", "replace", "directory"]


def test_all_of_a_folder_is_synced_before_and_its_directory_after_the_rename(tmp_path, log):
    with new_folder(tmp_path / "store") as scratch:
        (scratch / "a").write_text("1")
        (scratch / "sub").mkdir()
        (scratch / "sub" / "b").write_text("2")
    assert sorted(log[:4]) == ["directory", "directory", "file", "file"]
    assert log[4:] == ["replace", "directory"]
    assert (tmp_path / "store" / "sub" / "b").read_text() == "2"
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o755


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_keeps_the_old_file_and_leaves_no_scratch(tmp_path, error):
    replace_file(tmp_path / "a", b"old")
    with pytest.raises(error), replacing(tmp_path / "a") as scratch:
        scratch.write_bytes(b"half")
        raise error
    with pytest.raises(error), new_folder(tmp_path / "b") as scratch:
        (scratch / "half").write_text("")
        raise error
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_what_cannot_be_written_is_said_with_the_remedy(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match=r"cannot be written .*choose a place"):
        replace_file(tmp_path / "file" / "a", b"")
    with pytest.raises(ResourceError, match=r"\(disk full\)"), replacing(tmp_path / "a"):
        raise OSError("disk full")


def test_an_existing_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match="already exists"), new_folder(tmp_path):
        pass


def test_scratch_files_of_a_killed_process_are_removed_and_nothing_else(tmp_path, monkeypatch):
    with monkeypatch.context() as killed:
        killed.setattr(files, "publish", lambda *_: None)  # the end never comes
        with replacing(tmp_path / "config.json"):
            pass
    (orphan,) = tmp_path.iterdir()
    kept = [
        "config.json",
        ".config.json",
        ".config.json.abcd1234",
        "config.json.abcd1234.bliss-scratch",
        ".bliss-scratch",
        ".notes.bliss-scratch",
        ".notes.ABCD1234.bliss-scratch",
        ".notes.abcd1234.bliss-scratch.txt",
    ]
    for name in kept:
        (tmp_path / name).write_text("mine")
    (tmp_path / ".folder.abcd1234.bliss-scratch").mkdir()
    (tmp_path / ".link.abcd1234.bliss-scratch").symlink_to(tmp_path / "config.json")
    remove_scratch(tmp_path)
    assert not orphan.exists()
    names = {".folder.abcd1234.bliss-scratch", ".link.abcd1234.bliss-scratch", *kept}
    assert {path.name for path in tmp_path.iterdir()} == names


def test_a_folder_that_a_killed_process_left_is_removed_by_the_next_one(tmp_path):
    (tmp_path / ".store.abcdefgh.bliss-scratch").mkdir()
    (tmp_path / ".store.abcdefgh.bliss-scratch" / "half").write_text("")
    kept = [".other.abcdefgh.bliss-scratch", ".store.abc.bliss-scratch", ".store.x"]
    for name in kept:
        (tmp_path / name).mkdir()
    with new_folder(tmp_path / "store"):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*kept, "store"])


def test_a_folder_that_is_being_written_is_kept(tmp_path):
    with scratch_folder(tmp_path / "store") as first:
        (first / "half").write_text("")
        with scratch_folder(tmp_path / "store") as second:
            assert first != second
        assert (first / "half").exists()
        assert not second.exists()
    assert list(tmp_path.iterdir()) == []
