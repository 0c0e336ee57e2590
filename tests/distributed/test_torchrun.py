"""`torchrun -m bliss train` really starts two processes, of which one speaks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bliss.data import load_dataset
from bliss.distributed.processes import process_group, read_launch
from bliss.errors import InputError
from bliss.train import Trainer, resolve
from tests.train.runs import assert_same_run, quiet

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {"shards": 2, "steps": 4, "evaluate_every": 2, "hidden": 8, "batch_size": 16}


def torchrun(*options: str) -> subprocess.CompletedProcess:
    """`bliss train` in two processes of one thread."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launcher = ["torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(port)]
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", *launcher, "-m", "bliss", "train", *options],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        timeout=120,
    )


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_two_processes_of_torchrun_end_like_one_and_one_of_them_speaks(tmp_path):
    given = [f"--{name.replace('_', '-')}={value}" for name, value in SETTINGS.items()]
    done = torchrun(*given, "--budgets=64,32,16", "--out", str(tmp_path / "two"))
    assert done.returncode == 0, done.stderr
    for words in ("Written to", "4 steps of 2 shards in 2 processes of 1 thread each"):
        assert done.stdout.count(words) == 1
    config = resolve(dataset="synthetic", budgets=(64, 32, 16), **SETTINGS)
    Trainer(config, load_dataset("synthetic"), tmp_path / "one", quiet).run()
    assert_same_run(tmp_path / "one", tmp_path / "two")


def test_a_process_without_torchrun_is_alone():
    assert read_launch({}) == (0, 1, 0, 0)
    with process_group(read_launch({})) as group:
        assert (group.rank, group.size) == (0, 1)


def test_the_place_comes_from_the_environment():
    found = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "TORCHELASTIC_RESTART_COUNT": "2"}
    assert read_launch(found) == (3, 4, 1, 2)
    with pytest.raises(InputError, match="RANK='first' in the environment is not a whole number"):
        read_launch(found | {"RANK": "first"})


def test_a_timeout_that_is_not_positive_is_refused():
    with (
        pytest.raises(InputError, match=r"timeout=0\.0 must be positive"),
        process_group(read_launch({}), timeout=0.0),
    ):
        pass
