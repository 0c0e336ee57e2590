"""Any number of processes gives the same bits, and what one of them meets all of them learn."""

from __future__ import annotations

import pytest

from tests.engines import work
from tests.engines.group import run_group
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
