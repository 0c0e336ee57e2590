"""Any number of processes gives the same bits, and an error or a signal of one stops all."""

from __future__ import annotations

import shutil
import signal

import numpy as np
import pytest

from bliss.train import RunFolder
from tests.distributed import work
from tests.distributed.group import run_group
from tests.train.runs import assert_same_run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders and states of every case, by number of processes."""
    found = {}
    for size in (1, 2, 4):
        folder = tmp_path_factory.mktemp(f"processes{size}")
        found[size] = folder, run_group(size, work.train_all, folder)
    return found


@pytest.mark.parametrize("case", work.CASES)
@pytest.mark.parametrize("size", [2, 4])
def test_any_number_of_processes_gives_the_same_bits(runs, case, size):
    (one, alone), (other, several) = runs[1], runs[size]
    assert len(several) == size
    for found in several:
        assert found[case] == alone[0][case]
    assert_same_run(one / case, other / case)


@pytest.mark.parametrize(("size", "machines"), [(2, 2), (4, 2)])
def test_any_number_of_machines_gives_the_same_bits(runs, tmp_path, size, machines):
    for case in ("sage node", "gatv2 exp3"):
        assert run_group(size, work.train_apart, tmp_path / case, case, machines) == [""] * size
        assert_same_run(tmp_path / case, runs[1][0] / case)


def test_a_run_killed_on_two_processes_ends_on_one_and_on_four_as_if_it_had_not(runs, tmp_path):
    case, killed = "gatv2 exp3", tmp_path / "two"
    found = run_group(2, work.train_until, killed, case, 5, 1, signal.SIGKILL, timeout=20.0)
    assert found[1] is None
    assert found[0].startswith("LostError: rank 0 gets no answer from another process of the run")
    for size in (1, 4):
        folder = tmp_path / str(size)
        shutil.copytree(killed, folder)
        assert run_group(size, work.train_case, folder, case) == [""] * size
        assert_same_run(folder, runs[1][0] / case)


def test_a_signal_to_one_process_stops_all_after_the_same_step(runs, tmp_path):
    case = "sage node"
    found = run_group(2, work.train_until, tmp_path, case, 3, 1, signal.SIGTERM)
    assert found == ["Interrupted: interrupted by signal 15"] * 2
    assert (tmp_path / "checkpoints" / "000000004.json").exists()  # agreed on in the step after it
    assert run_group(2, work.train_case, tmp_path, case) == ["", ""]
    assert_same_run(tmp_path, runs[1][0] / case)


SENTENCES = {
    "one-sided": "InputError: class_weights has 99 numbers, but 'toy' has 3 classes: give one",
    "settings": "InputError: settings on rank 1 differ from rank 0 (rank 1, rank 0): lr: 0.5, 0.1",
    "data": "data on rank 1 differ from rank 0 for dataset='toy': put the same files",
    "policy": "DamagedError: policy values on rank 1 differ from rank 0 after step 4, ",
    "features": "DivergedError: loss=nan at step 1: ",
    "disk": "ResourceError: the disk is full: free disk space.",
    "locked": "InputError: out=",
    "started": "InputError: out=",
    "shards": "InputError: shards=3 cannot be divided among 2 processes: start 1 or 3 of them",
}


@pytest.fixture(scope="module")
def refusals(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refused")
    with RunFolder(folder / "locked").locked():
        return run_group(2, work.refused, folder)


@pytest.mark.parametrize("case", SENTENCES)
def test_what_stops_one_process_stops_all(refusals, case):
    assert [found[case][: len(SENTENCES[case])] for found in refusals] == [SENTENCES[case]] * 2
    if case in ("locked", "started"):
        words = {"locked": "in use by another run", "started": "already holds a run"}[case]
        assert all(words in found[case] for found in refusals)


def test_an_all_reduce_gives_nearly_the_same_steps_and_the_same_in_all_processes(tmp_path):
    first, second = run_group(2, work.train_two_ways, tmp_path)
    for reduction in ("exact", "allreduce"):
        assert all(np.array_equal(first[reduction][k], v) for k, v in second[reduction].items())
    assert {"first loss", "last loss"} < first["exact"].keys()
    for name, value in first["exact"].items():
        atol = 1e-6 if name.startswith("first") else 1e-3
        np.testing.assert_allclose(first["allreduce"][name], value, 1e-4, atol, err_msg=name)


def test_a_process_that_is_too_late_is_lost():
    found = run_group(2, work.late, 3.0, timeout=1.0)
    assert found[0].startswith("rank 0 gets no answer from another process of the run, which has")


def test_the_data_is_loaded_once_and_mapped_by_all():
    leader, other = run_group(2, work.share, "toy")
    assert (leader.pop("loads"), other.pop("loads")) == (1, 0)
    wanted = {"mapped": ["features", "indices"], "left": [], "equal": True, "fingerprint": True}
    assert leader == other == wanted


def test_data_that_the_first_process_cannot_load_is_refused_in_all():
    found = run_group(2, work.share, "missing")
    assert found == [{"error": "there is no such data: look again."}] * 2


def test_an_update_with_a_group_learns_from_all_batches_in_the_order_of_ranks():
    (updated, applied), (other, _) = run_group(2, work.update_together)
    assert updated == applied == other


@pytest.fixture(scope="module")
def states():
    """Shared states by number of processes and of machines."""
    cases = ((2, 1), (4, 2), (2, 2))
    return {(size, number): run_group(size, work.share_states, number) for size, number in cases}


@pytest.mark.parametrize("name", work.SHARED)
def test_processes_of_a_machine_share_one_state_and_learn_as_if_each_had_its_own(states, name):
    for (processes, machines), ranks in states.items():
        found = [rank[name] for rank in ranks]
        assert len({one["shared"] for one in found} | {one["alone"] for one in found}) == 1
        assert all(one["is_mapped"] == (machines < processes) for one in found)


def test_what_cannot_be_shared_is_built_again_and_every_process_learns(tmp_path):
    first, second = run_group(2, work.not_shared, tmp_path)
    assert first == second
    private = {"builds": 2, "same": True, "mapped": False}
    assert first["own_policy"] == private | {"calls": 6}
    assert first["histories_in_files"] == private
    assert first["ladies"]["builds"] == 1


def test_nothing_is_shared_if_one_process_cannot_open_the_memory():
    assert run_group(2, work.cannot_open) == [{"same": True, "mapped": False}] * 2


def test_a_state_that_every_process_changes_is_wrong():
    assert run_group(2, work.all_change) == [False, False]
