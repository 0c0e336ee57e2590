"""Arrays in memory that several processes of a machine share."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from bliss.errors import ResourceError
from bliss.storage.memory import LazyZeros, SharedMemory, full, placed_in, zeros

needs_files_in_memory = pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="this system has no memfd_create"
)


@pytest.fixture
def memory():
    return SharedMemory.create()


def allocated(memory: SharedMemory | None) -> list[np.ndarray]:
    with placed_in(memory):
        later = LazyZeros((3, 2), np.float32)
        return [zeros(5), full(4, -1, np.int32), full((2, 2), [1.0, 0.0]), zeros(0), later()]


@needs_files_in_memory
def test_shared_arrays_have_the_values_of_own_ones(memory):
    for own, shared in zip(allocated(None), allocated(memory), strict=True):
        assert shared.dtype == own.dtype
        assert shared.tolist() == own.tolist()
        assert shared.flags.writeable


@needs_files_in_memory
def test_who_opens_the_memory_and_allocates_in_the_same_order_has_the_same_arrays(memory):
    here, there = allocated(memory), allocated(SharedMemory.open(memory.address))
    for number, (one, other) in enumerate(zip(here, there, strict=True)):
        assert not np.shares_memory(one, other)  # other addresses
        one[...] = number + 7
        assert other.tolist() == one.tolist()


@needs_files_in_memory
def test_another_process_writes_what_this_one_reads(memory):
    code = (
        "import sys; from bliss.storage.memory import SharedMemory, placed_in, zeros\n"
        "with placed_in(SharedMemory.open(sys.argv[1])): zeros(3); zeros(2)[1] = 4.5"
    )
    with placed_in(memory):
        first, second = zeros(3), zeros(2)
    subprocess.run([sys.executable, "-c", code, memory.address], check=True)
    assert (first.tolist(), second.tolist()) == ([0, 0, 0], [0, 4.5])


@needs_files_in_memory
def test_memory_knows_what_it_holds(memory):
    shared, own = allocated(memory), allocated(None)
    assert memory.holds(shared)
    assert memory.holds([shared[1][2:], np.empty(0)])
    assert not memory.holds([shared[0], own[0]])
    assert not memory.holds([shared[0].copy()])
    assert not SharedMemory.create().holds(shared)


@needs_files_in_memory
def test_an_array_at_the_place_of_one_that_was_released_is_not_held(memory):
    for _ in range(20):
        with placed_in(memory):
            released = zeros(10**6)
        del released
        assert not memory.holds([np.ones(10**6)])


@needs_files_in_memory
def test_a_large_array_takes_memory_when_it_is_written(memory):
    with placed_in(memory):
        large, behind = zeros(2**33, np.uint8), zeros(2)
    large[2**32] = 1
    behind[:] = 2
    assert os.stat(memory.address).st_blocks * 512 < 2**20
    assert (large[2**32], large[-1]) == (1, 0)


def test_an_array_for_later_is_allocated_once_and_copied_with_its_owner():
    later = LazyZeros(3, np.float32)
    other = copy.deepcopy(later)
    later()[0] = 1
    assert later() is later()
    assert other().tolist() == [0, 0, 0]
    assert copy.deepcopy(later)().tolist() == [1, 0, 0]


@needs_files_in_memory
def test_the_current_memory_is_that_of_a_thread(memory):
    found = []
    with placed_in(memory):
        thread = threading.Thread(target=lambda: found.append(zeros(1)))
        thread.start()
        thread.join()
        own = zeros(1)
    assert memory.holds([own])
    assert not memory.holds(found)
    assert not memory.holds([zeros(1)])


def test_a_system_without_files_in_memory_says_so(monkeypatch):
    monkeypatch.delattr(os, "memfd_create", raising=False)
    with pytest.raises(OSError, match="no memfd_create"):
        SharedMemory.create()


@pytest.mark.parametrize("width", [10**12, 10**18])
def test_arrays_that_no_machine_holds_are_a_matter_of_resources(width):
    sentence = rf"not have enough memory for an array of shape \(50, {width}\), [\d,]+ bytes"
    with pytest.raises(ResourceError, match=sentence):
        zeros((50, width), np.float32)


@needs_files_in_memory
def test_shared_memory_has_an_end(memory):
    with placed_in(memory), pytest.raises(ResourceError, match="not have enough memory"):
        LazyZeros((50, 10**18), np.float32)
    with placed_in(memory):
        assert zeros(3).tolist() == [0, 0, 0]
