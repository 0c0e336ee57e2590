"""After a power loss at any moment, each file is the old or the new one, and the work goes on."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from bliss.train import RunFolder
from tests.faults import TIMES
from tests.faults.disk import Moment, Recorder, rebuild
from tests.faults.jobs import JOBS
from tests.train.runs import quiet

pytestmark = pytest.mark.slow


def recorded(name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Recorder, list[int]]:
    """A job's moments, and for each the step of the last checkpoint that was promised by then."""
    recorder, steps = Recorder(root), [0]
    save = RunFolder.save_checkpoint
    promised: list[int] = []

    def saved(self, step, checkpoint):
        save(self, step, checkpoint)
        recorder.mark()
        promised.append(step)
        steps.append(len(recorder.moments) - 1)

    monkeypatch.setattr(RunFolder, "save_checkpoint", saved)
    with recorder.recording():
        JOBS[name].run(root)
    monkeypatch.undo()
    ends = steps[1:]
    by_moment = [
        max((step for step, end in zip(promised, ends, strict=True) if end <= number), default=0)
        for number in range(len(recorder.moments))
    ]
    return recorder, by_moment


def distinct(moments: list[Moment]) -> list[int]:
    """Numbers of the moments that differ from the one before."""
    return [n for n, one in enumerate(moments) if n == 0 or one != moments[n - 1]]


@pytest.mark.parametrize("name", ["train", "import"])
@pytest.mark.parametrize("kind", ["all is lost", "some is lost"])
def test_a_power_loss_at_any_moment_is_survived(tmp_path, monkeypatch, name, kind):
    root = tmp_path / "root"
    root.mkdir()
    recorder, promised = recorded(name, root, monkeypatch)
    inode, expected = os.stat(root).st_ino, JOBS[name].digest(root)
    chosen = distinct(recorder.moments)
    assert len(chosen) > 10
    if TIMES == 1 and name == "train":
        chosen = [*chosen[3:-1:6], chosen[-1]]
    trials = 1 if kind == "all is lost" else TIMES
    for number in chosen:
        for trial in range(trials):
            random = None if kind == "all is lost" else np.random.default_rng([number, trial])
            folder = tmp_path / f"{number}-{trial}"
            rebuild(recorder.moments[number], inode, folder, random)
            if promised[number]:
                found = RunFolder(folder / "run").load_checkpoint(quiet)
                assert found.counters["loader"]["step"] >= promised[number]
            JOBS[name].run(folder)
            assert JOBS[name].digest(folder) == expected, number
    print(f"{name}, {kind}: {len(chosen)} moments, {len(chosen) * trials} folders rebuilt")


def test_what_is_finished_is_on_the_disk(tmp_path, monkeypatch):
    for name in ("train", "import", "compare"):
        root = tmp_path / name / "root"
        root.mkdir(parents=True)
        recorder, _ = recorded(name, root, monkeypatch)
        rebuild(recorder.moments[-1], os.stat(root).st_ino, tmp_path / name / "found", None)
        assert JOBS[name].digest(tmp_path / name / "found") == JOBS[name].digest(root)


def test_the_recorder_loses_what_is_not_synced(tmp_path):
    """A rename without a sync leaves an empty file or the old one, as on a real disk."""
    root = tmp_path / "root"
    root.mkdir()
    recorder = Recorder(root)
    with recorder.recording():
        for content in ("old", "new"):
            (root / "scratch").write_text(content)
            if content == "old":
                handle = os.open(root / "scratch", os.O_RDONLY)
                os.fsync(handle)
                os.close(handle)
            os.replace(root / "scratch", root / "file")
            if content == "old":
                handle = os.open(root, os.O_RDONLY)
                os.fsync(handle)
                os.close(handle)
    inode, found = os.stat(root).st_ino, set()
    rebuild(recorder.moments[-1], inode, tmp_path / "lost", None)
    assert (tmp_path / "lost" / "file").read_text() == "old"
    for seed in range(20):
        rebuild(recorder.moments[-1], inode, tmp_path / str(seed), np.random.default_rng(seed))
        found.add((tmp_path / str(seed) / "file").read_text())
    assert {"old", "new"} < found  # and parts of the new one
