"""A run's folder can be read while the run writes it: files are read whole, old or new."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections import Counter

import pytest
import torch

from benchmarks.load import read_until, write_run
from benchmarks.soak import make_dataset
from bliss import InputError
from bliss.errors import DamagedError
from bliss.report.load import load
from bliss.storage import records
from bliss.train import RunFolder, predict
from tests.train.runs import trained

pytestmark = pytest.mark.slow


@pytest.fixture
def finished(whole, tmp_path):
    """A copy of a finished run."""
    return shutil.copytree(whole(), tmp_path / "run")


SWAP = """
import os, sys
best, *spare = sys.argv[1:]
print(flush=True)
while True:
    for file in spare:
        os.link(file, "next")
        os.replace("next", best)
"""


def test_weights_that_are_replaced_while_they_are_read_are_the_old_or_the_new_ones(finished):
    folder = RunFolder(finished)
    old, schema = folder.load_best(), folder.schema()
    best = finished / "best.safetensors"
    shutil.copy(best, finished / "old")
    folder.save_best({name: tensor + 1 for name, tensor in old.items()}, schema)
    shutil.copy(best, finished / "new")
    command = [sys.executable, "-c", SWAP, best.name, "old", "new"]
    with subprocess.Popen(command, cwd=finished, stdout=subprocess.PIPE) as swapping:
        try:
            swapping.stdout.readline()
            name = next(iter(old))
            for _ in range(300):
                found = folder.load_best()[name]
                assert torch.equal(found, old[name]) or torch.equal(found, old[name] + 1)
        finally:
            swapping.kill()


def after_first(monkeypatch, owner, name, action):
    """Let something happen after the first call of a method."""
    original, calls = getattr(owner, name), []

    def call(self, *arguments):
        found = original(self, *arguments)
        calls.append(1)
        if len(calls) == 1:
            action()
        return found

    monkeypatch.setattr(owner, name, call)


@pytest.mark.parametrize("name", ["metrics", "times"])
def test_a_run_that_ends_while_its_lines_are_read_is_not_called_damaged(
    finished, name, monkeypatch
):
    log, end = finished / f"{name}.jsonl", finished / "result.json"
    whole, result = log.read_text(), end.read_text()
    log.write_text("".join(whole.splitlines(keepends=True)[:-1]))
    end.unlink()

    def finish() -> None:
        log.write_text(whole)
        end.write_text(result)

    after_first(monkeypatch, records.Log, "read", finish)
    read = getattr(RunFolder(finished), name)
    assert [line.step for line in read()] == [10, 20]
    assert [line.step for line in read()] == [10, 20, 30]


def test_a_run_that_is_extended_while_its_lines_are_read_is_not_called_damaged(
    dataset, finished, monkeypatch
):
    def extend() -> None:
        trained(dataset, finished, resume=True, steps=40)

    after_first(monkeypatch, RunFolder, "result", extend)
    assert [line.step for line in RunFolder(finished).metrics()] == [10, 20, 30, 40]


def test_lines_that_are_missing_are_still_noticed(finished):
    log = finished / "metrics.jsonl"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(DamagedError, match="ends before the last step"):
        RunFolder(finished).metrics()


def test_a_result_that_is_deleted_while_it_is_read_is_none(finished, monkeypatch):
    read = records.read_sealed

    def late(path, *arguments):
        path.unlink()
        return read(path, *arguments)

    monkeypatch.setattr(records, "read_sealed", late)
    assert RunFolder(finished).result() is None


def test_a_report_of_a_run_that_ends_meanwhile_shows_it_as_unfinished(finished, monkeypatch):
    end = finished / "result.json"
    result = end.read_text()
    end.unlink()
    after_first(monkeypatch, RunFolder, "result", lambda: end.write_text(result))
    (run,) = load([finished])
    assert run.result is None


def test_readers_see_no_torn_file_while_a_run_is_written(tmp_path):
    dataset, done, found = make_dataset(), threading.Event(), []
    arguments = (tmp_path / "run", dataset, done.is_set, found.append)
    readers = [threading.Thread(target=read_until, args=arguments) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        write_run(tmp_path / "run", dataset, steps=18, rounds=3)
    finally:
        done.set()
    for reader in readers:
        reader.join()
    reads = sum((reads for reads, _ in found), Counter())
    assert min(reads[name] for name in ("metrics", "result", "weights", "report", "predict")) > 0
    assert sum((faults for _, faults in found), Counter()) == {}


def test_data_that_is_missing_for_predictions_is_told_in_whole_sentences(finished):
    with pytest.raises(InputError) as caught:
        predict(finished)
    first, second = str(caught.value).split(". ")
    assert first.startswith("dataset='toy' is neither a name nor a folder: choose one of")
    assert second.endswith("pass it to predict as dataset=....")
