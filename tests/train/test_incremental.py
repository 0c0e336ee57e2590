"""Incremental checkpoints are as good as full ones, and safe against a kill."""

from __future__ import annotations

import os
import shutil
import signal

import numpy as np
import pytest
import torch

from bliss.train import RunFolder, checkpoints, incremental
from bliss.train.incremental import Checkpoint, CheckpointFiles
from tests.train.runs import assert_same_run, make_trainer, quiet, same, stopped, trained

pytestmark = pytest.mark.slow

OPTIONS = {
    "node": {"survey": False},
    "node, surveys": {},
    "attention, prefetch": {"survey": False, "model": "gatv2", "prefetch": 1},
    "exp3, prefetch": {"policy": "exp3", "prefetch": 1},
    "histories": {"history": "nodes", "budgets": (30,), "survey": False},
    "node-wise": {"sampler": "gcn-bs", "budgets": (5, 5)},
    "shards": {"survey": False, "shards": 3, "batch_size": 20},
}
EVERY = {"evaluate_every": 5}


@pytest.fixture
def large(monkeypatch) -> None:
    """Every state is large."""
    monkeypatch.setattr(checkpoints, "WHOLE_STATE_BYTES", 0)


def kinds(folder: RunFolder) -> dict[int, bool]:
    """Whether each checkpoint is incremental."""
    files = sorted(folder.checkpoints.glob("*.json"))
    return {int(file.stem): '"parent"' in file.read_text() for file in files}


@pytest.mark.parametrize("case", OPTIONS)
def test_a_run_resumed_from_changes_ends_as_one_with_whole_checkpoints(
    dataset, tmp_path, whole, large, case
):
    options = OPTIONS[case] | EVERY
    stopped(make_trainer(dataset, tmp_path, **options), 13, signal.SIGTERM)
    assert True in kinds(RunFolder(tmp_path)).values()  # after a survey, at most the last one
    trained(dataset, tmp_path, resume=True, **options)
    assert_same_run(tmp_path, whole(**options))


def test_changes_are_less_than_the_whole_and_small_runs_have_none(dataset, tmp_path, monkeypatch):
    small, _ = trained(dataset, tmp_path / "small", survey=False, **EVERY)
    assert kinds(small.folder) == {25: False, 30: False}
    monkeypatch.setattr(checkpoints, "WHOLE_STATE_BYTES", 0)
    options = {"survey": False, "budgets": (4, 4), "batch_size": 8, "hidden": 2, "steps": 3}
    large, _ = trained(dataset, tmp_path / "large", evaluate_every=1, **options)
    assert kinds(large.folder) == {1: False, 2: True, 3: True}
    files = {step: large.folder.checkpoints / f"{step:09d}.safetensors" for step in (1, 2)}
    assert files[2].stat().st_size < files[1].stat().st_size


class Killed(BaseException):
    pass


def test_a_kill_between_any_two_writes_leaves_a_checkpoint_that_resumes(
    dataset, tmp_path, whole, large, monkeypatch
):
    options = {"survey": False, "steps": 15} | EVERY
    expected = whole(**options)
    monkeypatch.setattr(incremental, "LONGEST", 2)  # full, incremental, full
    count, at = [0], [0]
    names = ("replace", "unlink")
    original = {name: getattr(os, name) for name in names}

    def killing(name):
        def run(*arguments, **others):
            count[0] += 1
            if count[0] == at[0]:
                raise Killed
            return original[name](*arguments, **others)

        return run

    for name in names:
        monkeypatch.setattr(os, name, killing(name))
    make_trainer(dataset, tmp_path / "counted", **options).run()
    writes = count[0]
    assert writes > 10
    for number in range(2, writes + 1):  # the first writes the settings
        folder = tmp_path / str(number)
        count[0], at[0] = 0, number
        with pytest.raises(Killed):
            make_trainer(dataset, folder, **options).run()
        at[0] = 0
        trained(dataset, folder, resume=True, **options)
        assert_same_run(folder, expected)


def make(value: float, rows: list[int] | None) -> Checkpoint:
    """A state of 1000 rows of which some, or all, have a new value."""
    tensors = {"big": STATE, "small": torch.tensor([value])}
    STATE[slice(None) if rows is None else rows] = value
    dirty = None if rows is None else {"big": np.array(rows, np.int64)}
    return Checkpoint(tensors, {"step": value}, dirty)


STATE = torch.zeros(1000, 2)


def test_a_chain_is_written_anew_when_its_changes_are_as_large(tmp_path):
    files = CheckpointFiles(tmp_path)
    files.save(1, make(1.0, None))
    expected = {}
    for step in range(2, 12):
        files.save(step, make(float(step), list(range(step, 400 + step))))
        expected[step] = STATE.clone()
    whole = [step for step in files.steps() if len(files._chain_steps(step)) == 1]
    assert whole == files.steps()[:1] + whole[1:]
    assert len(whole) == 2  # this chain and the one before
    loaded = CheckpointFiles(tmp_path).load(quiet)
    assert same(loaded.tensors["big"], expected[11])
    assert loaded.counters == {"step": 11.0}


def test_damage_falls_back_along_the_chain_and_then_to_the_chain_before(tmp_path):
    files, states = CheckpointFiles(tmp_path), {}
    for step, rows in ((1, None), (2, [5]), (3, None), (4, [7]), (5, [8, 9])):
        files.save(step, make(float(step), rows))
        states[step] = STATE.clone()
    assert files.steps() == [1, 2, 3, 4, 5]

    def newest() -> int:
        said: list[str] = []
        found = CheckpointFiles(tmp_path).load(said.append)
        step = int(found.counters["step"])
        assert same(found.tensors["big"], states[step])
        assert [text.split()[4] for text in said] == [str(n) for n in range(5, step, -1)]
        return step

    assert newest() == 5
    for damaged, left in ((5, 4), (3, 2)):  # 4 continues 3
        file = tmp_path / f"{damaged:09d}.safetensors"
        data = bytearray(file.read_bytes())
        data[-1] ^= 255
        file.write_bytes(data)
        assert newest() == left


def test_an_increment_needs_the_very_checkpoint_that_it_continues(tmp_path):
    ours, other = CheckpointFiles(tmp_path / "ours"), CheckpointFiles(tmp_path / "other")
    other.save(1, make(7.0, None))
    ours.save(1, make(1.0, None))
    ours.save(2, make(2.0, [5]))
    for file in (tmp_path / "other").iterdir():  # a sound checkpoint, but not the parent
        shutil.copy(file, tmp_path / "ours")
    said: list[str] = []
    loaded = CheckpointFiles(tmp_path / "ours").load(said.append)
    assert loaded.counters == {"step": 7.0}
    assert ["step 2 is damaged" in text for text in said] == [True]


@pytest.mark.parametrize("step", [1, 2])
def test_a_checkpoint_that_is_written_again_is_full(tmp_path, step):
    files = CheckpointFiles(tmp_path)
    for number, rows in ((1, None), (2, [5]), (step, [6])):
        files.save(number, make(float(number), rows))
    assert files._chain_steps(step) == [step]
    if step == 1:
        (tmp_path / "000000002.json").unlink()  # it continues what was there before
    assert same(CheckpointFiles(tmp_path).load(quiet).tensors["big"], STATE)


def test_a_chain_continues_only_the_checkpoint_that_was_loaded(tmp_path):
    files = CheckpointFiles(tmp_path)
    for step, rows in ((1, None), (2, [5]), (3, [6])):
        files.save(step, make(float(step), rows))
    (tmp_path / "000000003.json").write_text("{}")
    resumed = CheckpointFiles(tmp_path)
    loaded = resumed.load(quiet)
    STATE[:] = loaded.tensors["big"]
    resumed.save(3, make(3.5, [9]))
    assert resumed._chain_steps(3) == [3, 2, 1]
    assert same(CheckpointFiles(tmp_path).load(quiet).tensors["big"], STATE)


def test_files_are_read_by_the_library_of_their_format(tmp_path):
    import safetensors.torch

    tensors = {
        "a": torch.randn(3, 5).double(),
        "b": torch.tensor([True, False]),
        "c": torch.arange(3, dtype=torch.uint8),
        "d": torch.tensor(2.5).bfloat16(),
        "e": torch.empty(0, 4),
        "f": torch.arange(6).view(2, 3).T,
    }
    incremental._write(tmp_path / "file.safetensors", tensors)
    found = safetensors.torch.load_file(tmp_path / "file.safetensors")
    assert set(found) == set(tensors)
    assert all(torch.equal(found[name], one) for name, one in tensors.items())
