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


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def torchrun(*options: str) -> subprocess.CompletedProcess:
    """`bliss train` in two processes of one thread."""
    port = ["--master-port", str(free_port())]
    launcher = ["torch.distributed.run", "--nproc-per-node", "2", *port]
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
    assert read_launch({}) == (0, 1, 0, 0, True)
    with process_group(read_launch({})) as group:
        assert (group.rank, group.size) == (0, 1)


def test_the_place_comes_from_the_environment():
    found = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "TORCHELASTIC_RESTART_COUNT": "2"}
    assert read_launch(found) == (3, 4, 1, 2, False)
    assert read_launch(found | {"LOCAL_WORLD_SIZE": "4"}).is_local
    assert not read_launch(found | {"LOCAL_WORLD_SIZE": "2"}).is_local
    assert read_launch(found | {"MASTER_ADDR": "127.0.0.1"}).is_local
    with pytest.raises(InputError, match="RANK='first' in the environment is not a whole number"):
        read_launch(found | {"RANK": "first"})


JOIN = """
import os
from bliss.distributed.groups import all_gather_text
from bliss.distributed.processes import process_group, read_launch
from tests.distributed.listening import own_listeners

with process_group(read_launch(), timeout=60) as group:
    print(os.environ["GLOO_SOCKET_IFNAME"], *sorted(own_listeners()), flush=True)
    all_gather_text(group, "seen")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("address", ["127.0.0.1", "localhost"])
def test_processes_of_one_machine_listen_on_loopback_alone(address):
    given = {"WORLD_SIZE": "2", "MASTER_ADDR": address, "MASTER_PORT": str(free_port())}
    given |= {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", JOIN],
            env=os.environ | given | {"RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    shown = [process.communicate(timeout=120)[0].split() for process in started]
    assert [process.returncode for process in started] == [0, 0]
    assert [len(words) for words in shown] == [3, 2]  # rank 0 holds the store, too
    for interface, *addresses in shown:
        assert interface == "lo"
        assert set(addresses) <= {"127.0.0.1", "::1"}


def test_a_timeout_that_is_not_positive_is_refused():
    with (
        pytest.raises(InputError, match=r"timeout=0\.0 must be positive"),
        process_group(read_launch({}), timeout=0.0),
    ):
        pass
