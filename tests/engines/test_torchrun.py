"""`torchrun -m bliss train` really starts two processes, of which one speaks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bliss.engines.processes import joined, place_of
from bliss.errors import InputError
from tests.train.runs import assert_same_run

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = [
    "--shards",
    "2",
    "--steps",
    "4",
    "--evaluate-every",
    "2",
    "--hidden",
    "8",
    "--batch-size",
    "16",
    "--threads",
    "1",
]
OPTIONS += ["--dataset", "synthetic", "--budgets", "64,32,16"]


def run(*command: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    options = {"capture_output": True, "text": True, "cwd": ROOT, "env": environment}
    return subprocess.run([sys.executable, "-W", "ignore", *command], **options, timeout=120)


def torchrun(*options: str) -> subprocess.CompletedProcess:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launcher = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(port))
    return run(*launcher, "-m", "bliss", "train", *options)


def test_two_processes_of_torchrun_end_like_one_and_one_of_them_speaks(tmp_path):
    two, one = tmp_path / "two", tmp_path / "one"
    done = torchrun(*OPTIONS, "--out", str(two))
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout.count("Written to") == done.stdout.count("4 steps of 2 shards in 2 proc") == 1
    )
    assert run("-m", "bliss", "train", *OPTIONS, "--out", str(one)).returncode == 0
    assert_same_run(one, two)
    done = torchrun(*OPTIONS, "--out", str(two))
    assert done.returncode != 0
    assert done.stderr.count("already holds a run: pass --resume") == 1


def test_a_process_without_torchrun_is_alone():
    assert place_of({}) == (0, 1, 0, 0)
    with joined(place_of({})) as group:
        assert (group.rank, group.size) == (0, 1)


def test_the_place_comes_from_the_environment():
    found = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "TORCHELASTIC_RESTART_COUNT": "2"}
    assert place_of(found) == (3, 4, 1, 2)
    with pytest.raises(InputError, match="RANK='first' in the environment is not a whole number"):
        place_of(found | {"RANK": "first"})


def test_a_timeout_that_is_not_positive_is_refused():
    with (
        pytest.raises(InputError, match=r"timeout=0\.0 must be positive"),
        joined(place_of({}), timeout=0.0),
    ):
        pass
