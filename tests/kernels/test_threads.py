"""Kernels give the same bits on one, two and three threads, and the pool behaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import bliss.nn.block  # noqa: F401 (sets the number of threads of the pool)
from bliss.arrays import NO_IDS, NOTHING
from bliss.kernels import histories, messages, node_bandit, pool
from bliss.kernels.gathering import gather
from tests.kernels.test_twins import Case
from tests.twins import layerwise as reference

pytestmark = pytest.mark.slow

COUNTS = (2, 3)
seeds = pytest.mark.parametrize("seed", range(8))
counts = pytest.mark.parametrize("count", COUNTS)


@pytest.fixture(autouse=True, params=["team", "pool"])
def eager(monkeypatch, request):
    """Split even the smallest input, among torch's threads and among Python's."""
    monkeypatch.setattr(pool, "LEAST", 1)
    if request.param == "pool":
        monkeypatch.setattr(pool, "_team", None)
    elif sys.platform == "linux":
        assert pool._team is not None


def on_threads(count, kernel, *arguments):
    with pool.limited(count):
        return kernel(*arguments)


def assert_same(one, other):
    for a, b in zip(as_tuple(one), as_tuple(other), strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8))


def as_tuple(found):
    found = found if isinstance(found, tuple) else (found,)
    return tuple(np.ascontiguousarray(one) for one in found)


@seeds
@counts
@pytest.mark.parametrize("index_type", [np.int32, np.int64])
def test_gathering_has_the_same_bits_and_clears_what_it_used(seed, count, index_type):
    case = Case(seed, index_type)
    rows = *case.rows.ranges, case.indices, case.layer()[2]

    def gathered():
        bits = np.zeros(case.nodes // 32 + 1, np.uint32)
        position = np.empty(case.nodes, index_type)
        edges = gather(*rows, bits, position, np.empty(case.edges, np.int64))
        assert not bits.any()
        return edges

    expected = on_threads(1, gathered)
    assert_same(expected, reference.gather(*rows))
    assert_same(on_threads(count, gathered), expected)


def block(seed, heads, width):
    random = np.random.default_rng(seed)
    targets, sources = int(random.integers(1, 60)), int(random.integers(60, 120))
    degree = random.integers(0, 30, targets)
    indptr = np.concatenate([[0], np.cumsum(degree)])
    row = random.integers(0, sources, indptr[-1])

    def normal(*shape):
        return random.standard_normal(shape).astype(np.float32)

    mask = (random.random((row.size, heads)) < 0.5).astype(np.float32)
    return indptr, row, mask, normal, targets, sources


@seeds
@counts
@pytest.mark.parametrize(("heads", "width"), [(1, 64), (1, 41), (4, 16), (3, 5)])
def test_attention_has_the_same_bits_forward_and_backward(seed, count, heads, width):
    indptr, row, mask, normal, targets, sources = block(seed, heads, width)
    target, source = normal(targets, heads, width), normal(sources, heads, width)
    grad, scores, vector = (
        normal(targets, heads, width),
        normal(row.size, heads),
        normal(heads, width),
    )
    weights = 0.2, indptr, row, target, source, vector
    for mask_ in (mask, mask[:0, :1]):
        for kernel, given in (
            (messages.gatv2_scores, weights),
            (messages.gatv2_scores_backward, (*weights, scores)),
            (messages.attend, (indptr, row, scores, mask_, source)),
            (messages.attend_backward, (indptr, row, np.abs(scores), mask_, source, grad)),
        ):
            assert_same(on_threads(count, kernel, *given), on_threads(1, kernel, *given))


@counts
@pytest.mark.parametrize("size", [0, 1, 3, 4, 7, 1000, 10_001])
def test_dropout_has_the_same_bits(count, size):
    x = np.random.default_rng(0).standard_normal(size).astype(np.float32)

    def dropped(threads):
        out = np.empty_like(x)
        on_threads(threads, messages.dropout, x, np.uint64(5), 0.3, out)
        return out

    assert_same(dropped(count), dropped(1))


@seeds
@counts
def test_sums_over_in_edges_have_the_same_bits(seed, count):
    case = Case(seed)
    table = case.random.random(256).astype(np.float32)
    code = case.random.integers(0, 256, case.nodes).astype(np.uint8)
    edge_code = case.random.integers(0, 256, case.edges).astype(np.uint8)
    for coded in (edge_code, edge_code[:0]):
        given = *case.rows.ranges, case.indices, code, table, coded, table
        one, several = (on_threads(n, node_bandit.coded_sums, *given) for n in (1, count))
        assert_same(several, one)
    value = case.random.normal(size=(case.nodes, 19)).astype(np.float32)
    scales = case.random.random(case.rows.degree.size), NO_IDS, NOTHING
    given = *case.rows.ranges, case.indices, *scales, value
    assert_same(*(on_threads(n, histories.full_sums, *given) for n in (count, 1)))


def test_ranges_cover_everything_once():
    with pool.limited(3):
        for size in (0, 1, 2, 7, 1000):
            for multiple in (1, 4):
                parts = pool.ranges(size, 10**9, multiple)
                assert [n for a, b in parts for n in range(a, b)] == list(range(size))
                assert all(a % multiple == 0 for a, _ in parts)
        indptr = np.array([0, 0, 50, 51, 51, 60])
        parts = pool.shares(indptr, 1.0)
        assert len(parts) > 1
        assert [n for a, b in parts for n in range(a, b)] == list(range(5))


def test_small_inputs_stay_in_one_thread(monkeypatch):
    monkeypatch.undo()
    with pool.limited(4):
        assert pool.ranges(1000, pool.LEAST) == [(0, 1000)]
        assert len(pool.ranges(1000, 2 * pool.LEAST)) == 2
        assert len(pool.ranges(1000, 10**9)) == 4 * pool.PARTS


def test_an_error_in_any_thread_reaches_the_caller_after_all_have_ended():
    ended = []

    def fail(part):
        try:
            if part == 3:
                raise ValueError("part 3")
        finally:
            ended.append(part)

    with pool.limited(3), pytest.raises(ValueError, match="part 3"):
        pool.run(fail, [(n,) for n in range(4)])
    assert 3 in ended
    with pool.limited(3):  # the pool still works
        pool.run(lambda part: ended.append(part), [(n,) for n in range(10, 20)])
    assert set(range(10, 20)) <= set(ended)


def test_several_threads_may_use_the_pool_at_once():
    x = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    found = {}

    def drop(key):
        out = np.empty_like(x)
        with pool.limited(3):
            for _ in range(20):
                messages.dropout(x, np.uint64(key), 0.3, out)
        found[key] = out

    threads = [threading.Thread(target=drop, args=(key,)) for key in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    for key, out in found.items():
        expected = np.empty_like(x)
        on_threads(1, messages.dropout, x, np.uint64(key), 0.3, expected)
        assert_same(out, expected)
    assert len(found) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_starts_threads_of_its_own():
    def spread():  # in a child of torch's team, too, which OpenMP does not support
        barrier = threading.Barrier(2, timeout=20)
        pool.run(lambda part: barrier.wait(), [(0,), (1,)])  # passes if two threads take part
        return True

    with pool.limited(2):
        assert spread()
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            os._exit(0 if spread() else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert spread()


def test_no_thread_is_started_at_import_or_for_one_thread():
    code = """
import threading, numpy as np, torch
torch.set_num_threads(1)
import bliss
from bliss.kernels import messages, pool
x = np.zeros(10**6, np.float32)
bliss.Block
messages.dropout(x, np.uint64(1), 0.5, x.copy())
assert pool.threads() == 1 and threading.active_count() == 1
torch.set_num_threads(2)
messages.dropout(x, np.uint64(1), 0.5, x.copy())  # may use torch's threads
pool.follow(torch.get_num_threads)
messages.dropout(x, np.uint64(1), 0.5, x.copy())
assert pool.threads() == 2 and threading.active_count() == 2
"""
    subprocess.run([sys.executable, "-c", code], check=True)
