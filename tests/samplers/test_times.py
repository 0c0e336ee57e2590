"""Sampling up to a time is sampling on the graph as it was then."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bliss import Graph, InputError
from bliss.graph import WEIGHTED, Cutoff
from bliss.kernels.times import ALWAYS
from bliss.samplers import SAMPLERS
from tests.build import make_sampler
from tests.conftest import heavy_tailed_pairs
from tests.samplers.test_hidden_edges import (
    NODES,
    NORMS,
    SEEDS,
    VARIANTS,
    assert_same,
    rows_of_bandits,
    teach,
)
from tests.statistics import weight_matrix

REFUSED = ("bliss/first-hop", "bliss/history", "bliss/surveys", "vrgcn")
TIMED = [name for name in VARIANTS if name not in REFUSED]
EXACT = ("full", "neighbor/ht", "neighbor/static", "labor-0", "gcn-bs", "neighbor/last")
VARIANTS = {**VARIANTS, "neighbor/last": {"temporal_strategy": "last"}}
NOW = 60


def timed_graph(norm: str, pairs: np.ndarray | None = None, time: np.ndarray | None = None):
    """A graph with times from 0 to 99; the column of each edge is its id."""
    random = np.random.default_rng(1)
    pairs = heavy_tailed_pairs(50, 300) if pairs is None else pairs
    time = random.integers(0, 100, pairs.shape[1]) if time is None else time
    weight = random.random(pairs.shape[1]).astype(np.float32) if norm in WEIGHTED else None
    loops = "keep" if norm == "weighted-mean" else "add"
    options = {"norm": norm, "self_loops": loops, "edge_ids": True, "time": time}
    return Graph.from_edge_index(pairs, NODES, weight, **options)


def sampler_of(name: str, graph: Graph, **options):
    return make_sampler(name.split("/")[0], graph, seed=5, width=4, **VARIANTS[name], **options)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", TIMED)
def test_a_draw_at_one_time_is_that_of_the_graph_at_that_time(name, norm):
    if name == "sketch/plain" and norm == "gcn":
        pytest.skip("the same draw as sketch")
    graph = timed_graph(norm)
    left = np.flatnonzero(graph.time <= NOW)
    sampler, other = sampler_of(name, graph), sampler_of(name, graph.at(NOW))
    if sampler.learns:
        teach(sampler)
    state = {
        key: tensor[left].clone() if tensor.shape[:1] == (graph.num_edges,) else tensor.clone()
        for key, tensor in sampler.state_dict().items()
    }
    rows_of_bandits(state, other.graph)
    other.load_state_dict(state)
    ours = sampler.sample(SEEDS, 3, time=np.full(SEEDS.size, NOW))
    assert_same(ours, other.sample(SEEDS, 3), left)
    late = sampler.sample(SEEDS, 3, time=np.full(SEEDS.size, NOW + 3))  # would be noticed
    with pytest.raises(AssertionError):
        assert_same(late, other.sample(SEEDS, 3), left)


@pytest.mark.parametrize("norm", ["mean", "gcn"])
@pytest.mark.parametrize("window", [None, 25])
@pytest.mark.parametrize("name", EXACT)
def test_each_seed_of_an_exact_sampler_sees_its_own_graph(name, window, norm):
    """A seed's output is, bit for bit, that of a batch of its own on the graph at its time."""
    graph = timed_graph(norm)
    seeds, time = np.array([3, 3, 0, 9, 3]), np.array([20, 80, 80, 0, 20])
    cutoff = Cutoff.of(time, window=window)
    x = torch.randn(NODES, 4, generator=torch.Generator().manual_seed(0))
    together = outputs(sampler_of(name, graph).sample(seeds, 2, time=cutoff), x)
    for place, when in enumerate(time):
        old = graph.at(int(when))
        if window is not None:  # rebuild the graph of the window
            seen = (graph.time <= when) & ((graph.time > when - window) | (graph.time == ALWAYS))
            target = np.repeat(np.arange(NODES), graph.degree)[seen]
            indptr = np.concatenate([[0], np.cumsum(np.bincount(target, minlength=NODES))])
            old = Graph(indptr, graph.indices[seen], norm, time=graph.time[seen])
        if name == "neighbor/last":
            old = Graph(old.indptr, old.indices, norm, time=np.zeros(old.num_edges, np.int64))
        alone = outputs(sampler_of(name, old).sample(seeds[[place]], 2), x)
        torch.testing.assert_close(together[place], alone[0], rtol=1e-5, atol=1e-6)


def outputs(blocks, x):
    h = x[blocks[0].src]
    for block in blocks:
        h = weight_matrix(block) @ h
    return h


@pytest.mark.parametrize("name", TIMED)
@pytest.mark.parametrize("cutoff", ["inclusive", "strict", "window"])
def test_no_path_leads_from_the_future_to_a_seed(name, cutoff):
    """For every kept edge, the latest time of a seed that it reaches is not before its own."""
    random = np.random.default_rng(3)
    graph = timed_graph("mean", time=random.integers(0, 10, heavy_tailed_pairs(50, 300).shape[1]))
    sampler = sampler_of(name, graph)
    seeds, time = random.integers(0, 50, 40), random.integers(0, 10, 40)
    window = 4 if cutoff == "window" else None
    rule = Cutoff.of(time, strict=cutoff == "strict", window=window)
    for step in range(3):
        blocks = sampler.sample(seeds, step, time=rule)
        assert violations(graph, blocks, rule) == 0
        late = Cutoff(rule.before + 1, rule.after)  # a mutant: one step late
        assert violations(graph, sampler.sample(seeds, step, time=late), rule) > 0


def violations(graph, blocks, rule) -> int:
    """Kept edges that reach a seed which may not see them."""
    count = 0
    before, after = rule.before, rule.after
    for block in reversed(blocks):  # from the output down: what a source may show at most
        col, row, edge = block.col.numpy(), block.row.numpy(), block.edge.numpy()
        time = graph.time[edge]
        count += int((time >= before[col]).sum())
        if after.size:
            count += int(((time < after[col]) & (time != ALWAYS)).sum())
        lowest = np.full(block.num_src, np.iinfo(np.int64).max)
        lowest[: block.num_dst] = before
        np.minimum.at(lowest, row, before[col])
        if after.size:
            highest = np.full(block.num_src, np.iinfo(np.int64).min)
            highest[: block.num_dst] = after
            np.maximum.at(highest, row, after[col])
            after = highest
        before = lowest
    return count


@pytest.mark.parametrize("name", TIMED)
def test_what_happens_after_the_latest_seed_changes_nothing(name):
    random = np.random.default_rng(4)
    pairs, seeds, time = heavy_tailed_pairs(50, 300), np.arange(20), np.arange(20) * 3
    when = random.integers(0, 100, pairs.shape[1])
    later = np.flatnonzero(when > time.max())
    other = pairs.copy()
    other[:, later] = random.integers(0, NODES, (2, later.size))
    extra = np.concatenate([other, random.integers(0, NODES, (2, 80))], axis=1)
    until = np.concatenate([when, np.full(80, 99)])
    drawn = []
    for edges, moments in ((pairs, when), (extra, until)):
        sampler = sampler_of(name, timed_graph("gcn", edges, moments))
        drawn.append(sampler.sample(seeds, 1, time=time))
    for one, same in zip(*drawn, strict=True):
        for field in ("src", "indptr", "row", "e_id", "edge_prob", "edge_weight", "degree"):
            torch.testing.assert_close(getattr(one, field), getattr(same, field), rtol=0, atol=0)


@pytest.mark.parametrize("policy", ["exp3", "exp3-scale-free", "node"])
def test_bandits_learn_from_repeated_targets(policy):
    graph = timed_graph("mean")
    sampler = make_sampler("bliss", graph, seed=5, policy=policy)
    seeds, time = np.array([3, 3, 0, 9, 3]), np.array([20, 80, 80, 30, 20])
    for step in range(20):
        blocks = sampler.sample(seeds, step, time=time)
        for block in blocks:
            block.observe(torch.randn(block.num_src, 4, generator=torch.Generator().manual_seed(1)))
        sampler.update(blocks)
    target = np.repeat(np.arange(NODES), graph.degree)
    state = sampler.state_dict()
    for layer in range(2):
        if f"exp3.{layer}.excess" in state:  # running sums of rows are those of their edges
            sums = np.bincount(target, state[f"exp3.{layer}.excess"].numpy(), NODES)
            np.testing.assert_allclose(state[f"exp3.{layer}.scale"][:, 1], sums, rtol=1e-9)
        if f"exp3.{layer}.total" in state:
            sums = np.bincount(target, state[f"exp3.{layer}.weight"].numpy(), NODES)
            np.testing.assert_allclose(state[f"exp3.{layer}.total"], sums, rtol=1e-5)
    rows = graph.rows(seeds, before=time + 1)
    mass = sampler.policy.edge_mass(0, rows)
    if policy != "node":  # q sums to 1 over the visible edges of each target
        indptr, edge = rows.edges()
        owner = np.repeat(np.arange(seeds.size), np.diff(indptr))
        share = mass.offset[owner] + (
            mass.slope[owner] * mass.value[edge] if mass.value.size else 0
        )
        sums = np.bincount(owner, share, seeds.size)
        np.testing.assert_allclose(sums[rows.degree > 0], 1, rtol=1e-6)


def test_a_seed_before_every_edge_has_an_empty_neighbourhood():
    graph = timed_graph("mean", time=np.arange(heavy_tailed_pairs(50, 300).shape[1]))
    plain = Graph.from_edge_index(np.array([[1], [0]]), 3, self_loops="keep", time=[5])
    for name in ("bliss", "neighbor", "full", "labor-0"):
        blocks = make_sampler(name, plain).sample([0, 0], 0, time=[4, 5])
        assert blocks[-1].indptr.tolist() == [0, 0, 1]
        assert make_sampler(name, graph).sample([4], 0, time=[-10])[-1].degree.tolist() == [1]


@pytest.mark.parametrize("name", [*REFUSED, "fastgcn", "saint-rw", "cluster"])
def test_samplers_without_times_refuse_with_a_sentence(name):
    config = SAMPLERS[name.split("/")[0]]
    options = VARIANTS.get(name, {})
    sampler = make_sampler(name.split("/")[0], timed_graph("mean"), width=4, **options)
    assert config is not None
    with pytest.raises(InputError, match=r"times are not possible with .*, because .*: choose "):
        sampler.sample(SEEDS, 0, time=np.zeros(SEEDS.size, np.int64))


def test_the_last_neighbours_are_the_newest():
    graph = Graph.from_edge_index([[1, 2, 3, 4], [0] * 4], 5, self_loops="keep", time=[4, 2, 3, 1])
    sampler = make_sampler("neighbor", graph, budgets=[2], layers=1, temporal_strategy="last")
    for time, kept in ((4, [3, 1]), (3, [2, 3]), (1, [4])):
        (block,) = sampler.sample([0], 0, time=[time])
        assert graph.indices[block.edge.numpy()].tolist() == kept
        np.testing.assert_allclose(block.edge_weight, 1 / len(kept))
    with pytest.raises(InputError, match="temporal_strategy='last' needs times of edges"):
        make_sampler("neighbor", Graph.of(np.array([[0], [1]])), temporal_strategy="last")
    with pytest.raises(InputError, match="keeps the newest neighbours and draws none"):
        make_sampler("neighbor", graph, temporal_strategy="last", replace=True)


BAD = {
    "floats": ({"time": [0.5]}, "time is float64 of shape .*whole numbers: convert it to int64"),
    "too few": ({"time": [1, 2]}, r"time is int64 of shape \(2,\), but times must be one per seed"),
    "the end of time": ({"time": [2**63 - 1]}, "the largest whole number"),
}


@pytest.mark.parametrize(("options", "message"), BAD.values(), ids=BAD)
def test_bad_times_are_refused(options, message):
    sampler = make_sampler("bliss", timed_graph("mean"))
    with pytest.raises(InputError, match=message):
        sampler.sample([1], 0, **options)


def test_times_need_a_graph_with_times(toy_graph):
    with pytest.raises(InputError, match='build the sampler with time_attr="time"'):
        make_sampler("bliss", toy_graph).sample([1], 0, time=[1])
    with pytest.raises(InputError, match="the graph has no times"):
        toy_graph.rows(np.array([1]), before=[1])
    with pytest.raises(InputError, match="the graph has no times"):
        toy_graph.at(3)
    with pytest.raises(InputError, match="time_window=0 must be a whole number, 1 or larger"):
        Cutoff.of(np.array([1]), window=0)
