"""A disk that is full or fails, at every operation in turn: one sentence, and nothing is lost."""

from __future__ import annotations

import errno
import os
import sys
import time

import pytest

from bliss.errors import DamagedError, ResourceError
from bliss.train import RunFolder, Trainer
from tests.faults import TIMES
from tests.faults.disk import Trap, failing, trapped
from tests.faults.jobs import JOBS, STEPS, toy
from tests.train.runs import quiet, settings

pytestmark = pytest.mark.slow

REMEDIES = {
    errno.ENOSPC: "free disk space",
    errno.EIO: "check the disk or the network drive",
    errno.EROFS: "choose a place with write permission",
}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Digests of jobs that met no fault."""
    found = {}

    def digest(name):
        if name not in found:
            folder = tmp_path_factory.mktemp("whole")
            JOBS[name].run(folder)
            found[name] = JOBS[name].digest(folder)
        return found[name]

    return digest


@pytest.mark.parametrize("name", ["train", "import", "compare"])
def test_every_operation_may_fail_once(tmp_path, expected, name):
    """Operations are numbered; each is made to fail in a run of its own."""
    wanted = expected(name)
    few = {"train": 29, "import": 5, "compare": 101}
    every = few[name] if TIMES == 1 else max({"train": 13, "compare": 67}.get(name, 1) // TIMES, 1)
    number, tried, told = 0, 0, 0
    while True:
        error = list(REMEDIES)[tried % len(REMEDIES)]
        folder = tmp_path / str(number)
        folder.mkdir()
        trap = Trap(number, failing(error))
        try:
            with trapped(trap):
                JOBS[name].run(folder)
        except ResourceError as sentence:
            told += 1
            assert "\n" not in str(sentence)
            assert REMEDIES[error] in str(sentence), sentence
            assert os.strerror(error) in str(sentence)
        if not trap.is_sprung:
            break
        JOBS[name].run(folder)
        assert JOBS[name].digest(folder) == wanted, number
        assert not list(folder.rglob("*.bliss-scratch"))
        number, tried = number + every, tried + 1
    print(f"{name}: {tried} operations failed in turn, {told} of them ended it with a sentence")
    assert tried > 4
    assert told > 0.7 * tried


@pytest.mark.parametrize("error", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks_is_refused(tmp_path, monkeypatch, error):
    def flock(*_):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(ResourceError, match=r"cannot be locked .* choose a folder on"):
        JOBS["train"].run(tmp_path)
    assert not (tmp_path / "run" / "config.json").exists()


def test_two_runs_under_one_lock_are_noticed_if_they_disturb_each_other(
    tmp_path, monkeypatch, expected
):
    """As on a network drive that grants a lock twice: the second run ends amid the first."""
    monkeypatch.setattr("fcntl.flock", lambda *_: None)
    config = settings(steps=STEPS, evaluate_every=4, policy="node")
    outer = Trainer(config, toy(), tmp_path / "run", quiet)

    def meet(now):
        if now.step == 6:
            JOBS["train"].run(tmp_path)
            assert JOBS["train"].digest(tmp_path) == expected("train")

    outer.run(on_step=meet)
    folder = RunFolder(tmp_path / "run")
    assert folder.result().steps == STEPS
    assert folder.load_checkpoint(quiet).counters["loader"]["step"] == STEPS
    with pytest.raises(DamagedError, match=r"metrics.jsonl, line 4, does not match its digest"):
        folder.metrics()  # the lines of step 8 and 12 are there twice


def test_a_folder_that_disappears_is_noticed_and_not_made_again(tmp_path, monkeypatch):
    add = RunFolder.add_metrics

    def removed(self, evaluation):
        if evaluation.step == 8:
            self.path.rename(tmp_path / "moved")
        add(self, evaluation)

    monkeypatch.setattr(RunFolder, "add_metrics", removed)
    with pytest.raises(ResourceError, match=r"check that its folder was not removed or moved"):
        JOBS["train"].run(tmp_path)
    assert not (tmp_path / "run").exists()
    monkeypatch.undo()
    (tmp_path / "moved").rename(tmp_path / "run")  # it goes on at any place
    JOBS["train"].run(tmp_path)
    (tmp_path / "whole").mkdir()
    JOBS["train"].run(tmp_path / "whole")
    assert JOBS["train"].digest(tmp_path) == JOBS["train"].digest(tmp_path / "whole")


@pytest.mark.parametrize("method", ["save_checkpoint", "save_best"])
def test_no_file_is_written_into_a_folder_made_anew(tmp_path, monkeypatch, method):
    save = getattr(RunFolder, method)

    def removed(self, *arguments):
        self.path.rename(tmp_path / "moved")
        save(self, *arguments)

    monkeypatch.setattr(RunFolder, method, removed)
    with pytest.raises(ResourceError, match=r"was removed or moved while the run wrote to it"):
        JOBS["train"].run(tmp_path)
    assert not (tmp_path / "run").exists()


def test_clocks_that_jump_do_not_change_a_run(tmp_path, monkeypatch, expected):
    """perf_counter and time go back by an hour at every third call."""
    calls = 0

    def clock():
        nonlocal calls
        calls += 1
        return 1e9 + calls - 3600.0 * (calls // 3)

    for module in [one for name, one in sys.modules.items() if name.startswith("bliss")]:
        for name in ("perf_counter", "time", "monotonic"):
            if getattr(module, name, None) is getattr(time, name):
                monkeypatch.setattr(module, name, clock)
    monkeypatch.setattr(time, "time", clock)
    for name in ("train", "import"):
        (tmp_path / name).mkdir()
        JOBS[name].run(tmp_path / name)
        assert JOBS[name].digest(tmp_path / name) == expected(name)
    assert calls > 20
