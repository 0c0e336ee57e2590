"""A run's folder stays whole: damage is noticed, leftovers are removed, one process writes."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from bliss.errors import DamagedError, InputError, ResourceError
from bliss.train import Evaluation, RunFolder
from tests.train.runs import make_trainer, settings, trained


@pytest.fixture
def finished(whole, tmp_path):
    """A copy of a finished run."""
    return shutil.copytree(whole(), tmp_path / "run")


def test_a_damaged_checkpoint_falls_back_to_the_one_before(finished):
    folder = RunFolder(finished)
    newest = finished / "checkpoints" / "000000030.safetensors"
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 255
    newest.write_bytes(data)
    said = []
    assert folder.load_checkpoint(said.append).counters["loader"]["step"] == 20
    assert "checkpoint of step 30 is damaged" in said[0]
    (finished / "checkpoints" / "000000020.json").write_text("{")
    with pytest.raises(DamagedError, match="no intact checkpoint"):
        folder.load_checkpoint(said.append)


@pytest.mark.parametrize("damage", ["a counter gone", "a counter changed", "not counters"])
def test_damaged_counters_are_noticed_too(finished, damage):
    newest = finished / "checkpoints" / "000000030.json"
    counters = json.loads(newest.read_text())
    if damage == "a counter gone":
        del counters["progress"]
    else:
        counters["loader"]["step"] = 3
    newest.write_text("[1]" if damage == "not counters" else json.dumps(counters))
    said = []
    checkpoint = RunFolder(finished).load_checkpoint(said.append)
    assert checkpoint.counters["loader"]["step"] == 20
    assert "checkpoint of step 30 is damaged" in said[0]


@pytest.mark.parametrize("line", [b"\xff\n", b"[1]\n", b"{}\n", b'{"step": "2"}\n'])
@pytest.mark.parametrize("number", [2, 3])
def test_a_damaged_line_of_metrics_is_named_and_nothing_is_lost(dataset, finished, line, number):
    file = finished / "metrics.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    lines[number - 1] = line
    before = b"".join(lines)
    file.write_bytes(before)
    with pytest.raises(DamagedError, match=rf"metrics.jsonl, line {number}, "):
        trained(dataset, finished, resume=True)
    assert file.read_bytes() == before


def evaluation(step: int) -> Evaluation:
    return Evaluation(step=step, loss=1.0, train_f1=0.5, val_f1=0.25)


def test_a_line_of_metrics_cut_short_is_forgotten(tmp_path):
    folder = RunFolder(tmp_path)
    with folder.locked():
        folder.add_metrics(evaluation(1))
        with (tmp_path / "metrics.jsonl").open("a") as file:
            file.write('{"step": 2, "lo')
        folder.forget_after(5)
        folder.add_metrics(evaluation(3))
    assert folder.metrics() == [evaluation(1), evaluation(3)]


def test_a_folder_serves_one_run_at_a_time(dataset, tmp_path):
    with RunFolder(tmp_path).locked(), pytest.raises(InputError, match="in use by another run"):
        trained(dataset, tmp_path)


def test_a_folder_that_cannot_be_written_is_refused(dataset, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match="cannot be written"):
        trained(dataset, tmp_path / "file" / "run")


def test_a_full_disk_leaves_the_old_file_whole(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path)
    with folder.locked():
        folder.write_settings(settings(seed=1))

        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(ResourceError, match="free disk space"):
            folder.write_settings(settings(seed=2))
    assert folder.settings().seed == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == [".lock", "checkpoints", "config.json"]


LEFTOVERS = [
    ".config.json.abcdefgh.bliss-scratch",
    "checkpoints/.000000030.json.a_0bcdef.bliss-scratch",
    "checkpoints/000000025.safetensors",  # its counters were not written
]
OTHERS = [
    "notes.txt",
    ".hidden",
    "x.abcdefgh.bliss-scratch",  # scratch files start with a dot
    ".x.abc.bliss-scratch",  # and have eight letters
    "checkpoints/notes.json",
    "checkpoints/000000025.txt",
]


def test_the_next_start_removes_what_a_killed_run_left_and_nothing_else(dataset, finished):
    for name in (*LEFTOVERS, *OTHERS):
        (finished / name).write_bytes(b"")
    trained(dataset, finished, resume=True)
    assert [name for name in LEFTOVERS if (finished / name).exists()] == []
    assert [name for name in OTHERS if not (finished / name).exists()] == []
    kept = sorted(path.name for path in (finished / "checkpoints").glob("0000000[23]0.*"))
    assert kept == [f"0000000{s}0.{x}" for s in (2, 3) for x in ("json", "safetensors")]


@pytest.mark.parametrize("resume", [False, True])
def test_checkpoints_without_settings_are_not_mixed_with_those_of_a_new_run(
    dataset, finished, resume
):
    (finished / "config.json").unlink()
    with pytest.raises(InputError, match="holds checkpoints but no config"):
        make_trainer(dataset, finished, seed=7).run(resume)
    assert not (finished / "config.json").exists()
    assert RunFolder(finished).result().seed == 0
