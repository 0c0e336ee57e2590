"""Load in small: a short soak, threads on one sampler, a hub, edge ids beyond int32, widths.

`python -m benchmarks soak` and `load` run the same in full.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from benchmarks import extremes, load, soak
from benchmarks.graphs import power_law
from bliss import Bliss
from bliss.data.npy import map_npy
from bliss.graph import graph
from bliss.samplers import SAMPLERS

pytestmark = pytest.mark.slow


def test_a_short_soak_reads_memory_files_threads_and_policy(tmp_path, monkeypatch):
    monkeypatch.setattr(soak, "READINGS", 10)
    curve = soak.soak(60, tmp_path / "run")
    assert [reading["step"] for reading in curve] == list(range(6, 61, 6))
    assert soak.judge(curve)["held"]
    assert {reading["threads"] for reading in curve} != {0}
    assert curve[-1]["factor_least"] < 0 < curve[-1]["factor_most"]


LEAKS = {
    "memory": {"rss_mb": lambda n: 400 + n},
    "a thread": {"threads": lambda n: 2 + (n > 90)},
    "a file": {"files": lambda n: 6 + n // 50},
    "numbers": {"not_finite": lambda n: float(n == 5)},
    "nothing": {},
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_soak_notices_what_leaks(leak):
    steady = {"rss_mb": 400, "threads": 2, "files": 6, "not_finite": 0, "step_ms": 3}
    steady |= {"factor_least": -1, "factor_most": 1}
    curve = [{**steady, **{k: of(n) for k, of in LEAKS[leak].items()}} for n in range(100)]
    assert soak.judge(curve)["held"] == (leak == "nothing")


@pytest.mark.parametrize("name", SAMPLERS)
def test_eight_threads_draw_and_learn_like_one(name):
    large = power_law(400, 4000)
    shared, alone = (load.make_sampler(name, large) for _ in range(2))
    assert load.compare_draws(shared, alone, rounds=2, batch=32) == 16
    assert load.race(shared, rounds=2, batch=32) == 16


def test_updates_of_threads_are_applied_one_after_the_other(toy_graph, monkeypatch):
    sampler, inside, most = Bliss(toy_graph, [20, 10]), [], []
    blocks = sampler.sample(np.arange(10), 0)
    for block in blocks:
        block.observe(torch.ones(block.num_src, 2))

    def apply(layer, news):
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.002)
        inside.pop()

    monkeypatch.setattr(sampler.policy, "apply", apply)
    together, news = threading.Barrier(4), sampler.digest(blocks)

    def update(_):
        together.wait()
        sampler.apply([news])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(update, range(4)))
    assert sampler.learning.updates == 4
    assert (len(most), max(most)) == (8, 1)


def test_a_hub_is_drawn_as_target_and_as_source():
    found = extremes.hub(20_000)["samplers"]
    assert set(found) == set(extremes.HUB_SAMPLERS)
    assert found["full"]["target_edges"] == 20_001 + 3 * 20_000 + 1
    for name in ("pladies", "bliss"):
        assert 512 < found[name]["target_edges"] < 4000


def test_edge_ids_beyond_32_bits_are_drawn_as_any_others(tmp_path, monkeypatch):
    """In a file with a hole. The check of all its 2^31 ids is left out: it reads 8.6 GB."""
    small = extremes.write_sparse(tmp_path, extremes.HOLE, nodes=300, degree=8)
    indptr, indices = map_npy(tmp_path / "indptr.npy"), map_npy(tmp_path / "indices.npy")
    assert indices.size > 2**31
    assert (tmp_path / "indices.npy").stat().st_blocks * 512 < 1e6
    monkeypatch.setattr(graph, "check_arrays", lambda *arrays: arrays)
    large = graph.Graph(indptr, indices)
    for name in extremes.EDGE_SAMPLERS:
        row = extremes.compare_rows(name, large, small, extremes.HOLE)
        assert 2**31 < row["largest_edge_id"] < indices.size
    assert extremes.draw_hole(large, extremes.HOLE)["largest_edge_id"] > 2**30


def test_stores_with_a_hole_open_and_are_drawn(monkeypatch):
    found = extremes.edges(hole=5000, nodes=100, degree=8)
    assert set(found["samplers"]) == {*extremes.EDGE_SAMPLERS, "neighbor, row of the hole"}


@pytest.mark.parametrize("width", [1, 20_000])
def test_features_of_any_width_are_imported_trained_and_predicted(width):
    (row,) = extremes.widths(nodes=60, sizes=(width,))["widths"].values()
    assert 0 <= row["test_score"] <= 1
