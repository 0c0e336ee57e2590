"""Sampling without some edges is sampling on the graph that was built without them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from bliss import Graph, InputError
from bliss.graph import WEIGHTED, HiddenEdges
from bliss.nn import GNN, ModelConfig
from bliss.samplers import SAMPLERS, Sampler
from tests.build import make_sampler
from tests.conftest import heavy_tailed_pairs

NODES = 60
SEEDS = np.arange(0, 50, 3)
NORMS = ("mean", "gcn", "weights", "weighted-mean")
LAYERWISE = ("ladies", "pladies", "sketch", "bliss")
VARIANTS = {
    **{name: {} for name in (*LAYERWISE, "labor-0", "labor-1", "labor-*", "full", "asgcn")},
    **{f"{name}/{e}": {"estimator": e} for name in ("pladies", "ladies") for e in ("ht", "hajek")},
    **{f"{name}/influence": {"influence": "prior", "layers": 3} for name in LAYERWISE},
    "neighbor/influence": {"influence": "prior", "layers": 3},
    "sketch/plain": {"estimator": "sketch"},
    "sketch/hajek": {"estimator": "hajek"},
    "ladies/replace": {"replace": True},
    "bliss/released": {"policy": "exp3", "estimator": "released"},
    **{f"bliss/{p}": {"policy": p} for p in ("uniform", "exp3", "exp3-scale-free")},
    **{f"neighbor/{e}": {"estimator": e} for e in ("ht", "hajek")},
    "neighbor/static": {"policy": "static"},
    "neighbor/replace": {"policy": "static", "replace": True},
    "labor-0/ht": {"estimator": "ht"},
    "asgcn/hajek": {"estimator": "hajek"},
    "gat-bs": {},
    "gcn-bs": {},
    "gcn-bs/plain": {"estimator": "plain"},
    "gcn-bs/single": {"policy": "exp3-single"},
    "bliss/first-hop": {"first_hop": "exact", "layers": 3},
    "bliss/history": {"history": "nodes", "layers": 3},
    "bliss/surveys": {"history": "surveys", "layers": 3},
    "vrgcn": {"layers": 3},
}


def graphs(norm: str) -> tuple[Graph, Graph, np.ndarray, np.ndarray]:
    """A graph; the graph without some edges; their ids; and the old id of each edge left."""
    random = np.random.default_rng(1)
    pairs = heavy_tailed_pairs(50, 300)
    weight = random.random(pairs.shape[1]).astype(np.float32) if norm in WEIGHTED else None
    graph = Graph.from_edge_index(pairs, NODES, weight=weight, norm=norm)
    hidden = np.sort(random.permutation(graph.num_edges)[:40])
    hidden = np.union1d(hidden, np.arange(graph.indptr[3], graph.indptr[4]))  # all of a seed
    left = np.setdiff1d(np.arange(graph.num_edges), hidden)
    target = np.repeat(np.arange(NODES), graph.degree)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(target[left], minlength=NODES))])
    kept = graph.weight[left] if norm in WEIGHTED else None
    options = {"self_loops": "keep", "duplicates": "keep"}
    built = Graph.from_csc(indptr, graph.indices[left], kept, norm, **options)
    return graph, built, hidden, left


def pair(name: str, norm: str) -> tuple[Sampler, Sampler, np.ndarray, np.ndarray]:
    """The same sampler on both graphs, with the same learnt state, edge by edge."""
    graph, built, hidden, left = graphs(norm)
    settings = {"seed": 5, "width": 4, **VARIANTS[name]}
    sampler, other = (make_sampler(name.split("/")[0], one, **settings) for one in (graph, built))
    if sampler.learns:
        teach(sampler)
    state = {}
    for key, tensor in sampler.state_dict().items():
        by_edge = tensor.shape[:1] == (graph.num_edges,)
        state[key] = tensor[left].clone() if by_edge else tensor.clone()
    for key, tensor in other.state_dict().items():
        state.setdefault(key, tensor)
    rows_of_bandits(state, built)
    other.load_state_dict(state)
    return sampler, other, hidden, left


def teach(sampler: Sampler) -> None:
    """A few steps of feedback; a survey where histories need one."""
    random = torch.Generator().manual_seed(0)
    if sampler.history is not None and sampler.history.kind == "surveys":
        config = ModelConfig(model="sage", layers=3, hidden=4)
        x = torch.from_numpy(sampler.features)
        sampler.survey(GNN(x.size(1), 3, config), x)
    for step in range(4):
        blocks = sampler.sample(SEEDS, step)
        for block in blocks:
            block.observe(torch.randn(block.num_src, 4, generator=random))
        sampler.update(blocks)


def rows_of_bandits(state: dict[str, torch.Tensor], built: Graph) -> None:
    """Running sums of rows, which the bandit on the smaller graph would have."""
    for name, kind in (("excess", "scale"), ("weight", "total")):
        for layer in range(3):
            edges, rows = state.get(f"exp3.{layer}.{name}"), state.get(f"exp3.{layer}.{kind}")
            if edges is None or rows is None:
                continue
            target = np.repeat(np.arange(NODES), built.degree)
            sums = torch.from_numpy(np.bincount(target, edges.numpy(), NODES))
            if kind == "scale":
                rows[:, 1] = sums
            else:
                rows[:] = sums.to(rows.dtype)


def assert_same(ours, theirs, left: np.ndarray) -> None:
    for one, other in zip(ours, theirs, strict=True):
        for name in ("dst", "src", "indptr", "row"):
            torch.testing.assert_close(getattr(one, name), getattr(other, name), rtol=0, atol=0)
        np.testing.assert_array_equal(one.edge.numpy(), left[other.edge.numpy()])
        for name in ("edge_prob", "edge_weight", "coefficient", "degree"):
            torch.testing.assert_close(getattr(one, name), getattr(other, name), rtol=2e-5, atol=0)
        assert (one.control is None) == (other.control is None)
        if one.control is not None:
            torch.testing.assert_close(
                one.control.baseline, other.control.baseline, rtol=1e-4, atol=1e-5
            )


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", VARIANTS)
def test_a_draw_is_that_of_the_graph_without_the_edges(name, norm):
    if name == "sketch/plain" and norm == "gcn":
        pytest.skip("the same draw as sketch")
    sampler, other, hidden, left = pair(name, norm)
    for step in (0, 7):
        ours = sampler.sample(SEEDS, step, without=hidden)
        theirs = other.sample(SEEDS, step)
        assert_same(ours, theirs, left)
        seen = np.concatenate([block.edge.numpy() for block in ours])
        assert not np.isin(seen, hidden).any()
    shown = sampler.sample(SEEDS, 0)  # the comparison would notice
    with pytest.raises(AssertionError):
        assert_same(shown, theirs, np.arange(sampler.graph.num_edges))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("estimator", ["ht", "hajek"])
def test_fastgcn_keeps_its_distribution_and_weighs_by_what_is_visible(norm, estimator):
    graph, built, hidden, left = graphs(norm)
    settings = {"seed": 5, "estimator": estimator}
    sampler, other = (make_sampler("fastgcn", one, **settings) for one in (graph, built))
    other._share, other._ladder = sampler._share, sampler._ladder
    assert_same(sampler.sample(SEEDS, 1, without=hidden), other.sample(SEEDS, 1), left)


@pytest.mark.parametrize("name", [n for n, c in SAMPLERS.items() if c.makes_batches])
def test_subgraph_samplers_refuse(name):
    sampler = make_sampler(name, graphs("mean")[0])
    with pytest.raises(InputError, match=r"without=... is not possible with .*: choose a layer"):
        sampler.sample(SEEDS, 0, without=[1])


@pytest.mark.parametrize("norm", ["mean", "weighted-mean"])
@pytest.mark.parametrize("policy", ["node", "exp3", "exp3-scale-free"])
def test_what_is_learnt_is_that_of_the_graph_without_the_edges(policy, norm):
    graph, built, hidden, left = graphs(norm)
    sampler, other = (make_sampler("bliss", one, seed=5, policy=policy) for one in (graph, built))
    for step in range(5):
        drawn = [sampler.sample(SEEDS, step, without=hidden), other.sample(SEEDS, step)]
        for blocks, learner in zip(drawn, (sampler, other), strict=True):
            for block in blocks:
                generator = torch.Generator().manual_seed(step)
                block.observe(torch.randn(block.num_src, 4, generator=generator))
            learner.update(blocks)
    ours, theirs = sampler.state_dict(), other.state_dict()
    for name, tensor in ours.items():
        if name.endswith("total"):  # rows of ours hold the weights of hidden edges, too
            continue
        by_edge = tensor.shape[:1] == (graph.num_edges,)
        mapped = tensor[left] if by_edge else tensor
        torch.testing.assert_close(mapped, theirs[name], rtol=1e-6, atol=1e-9)


def test_rows_are_ranges_around_the_hidden_edges():
    graph = Graph.from_csc([0, 4, 4, 7], [0, 1, 1, 2, 0, 1, 2], self_loops="keep")
    rows = graph.rows(np.array([2, 0, 1]), without=[5, 0, 5, 2])
    assert rows.pointer.tolist() == [0, 2, 5, 6]
    assert list(zip(rows.start.tolist(), rows.stop.tolist(), strict=True)) == [
        (4, 5), (6, 7), (0, 0), (1, 2), (3, 4), (4, 4),
    ]  # fmt: skip
    assert rows.degree.tolist() == [2, 2, 0]
    assert rows.edges()[1].tolist() == [4, 6, 1, 3]
    assert rows.is_partial.tolist() == [True, True, False]
    whole = graph.rows(np.array([2, 0, 1]))
    assert whole.degree.tolist() == [3, 4, 0]
    assert not whole.is_partial.any()
    empty = graph.rows(np.array([2, 0, 1]), without=np.empty(0, np.int64))
    assert empty.degree.tolist() == whole.degree.tolist()


BAD = {
    "negative": ([-1], "without holds -1"),
    "too large": ([10**9], "without holds 1000000000"),
    "fractions": ([0.5], "without is float64"),
    "a matrix": ([[1, 2]], "without is int64 of shape"),
}


@pytest.mark.parametrize(("edges", "message"), BAD.values(), ids=BAD)
def test_bad_edges_are_refused(toy_graph, edges, message):
    with pytest.raises(InputError, match=message):
        HiddenEdges.of(toy_graph, edges)


@pytest.mark.parametrize("norm", NORMS)
def test_a_row_that_loses_all_edges_sums_to_zero_exactly(norm):
    graph, _, hidden, _ = graphs(norm)
    value = np.random.default_rng(0).normal(0, 1e3, (NODES, 8)).astype(np.float32)
    rows = graph.rows(SEEDS, without=hidden)
    sums = rows.visible_sums(graph.rows(SEEDS).full_sums(value), value)
    (empty,) = np.flatnonzero(rows.degree == 0)
    assert (sums[empty] == 0).all()
    np.testing.assert_allclose(sums, rows.full_sums(value), rtol=1e-3, atol=0.1)


def test_the_graph_itself_is_not_changed(toy_graph):
    before = toy_graph.indptr.copy(), toy_graph.indices.copy()
    sampler = make_sampler("bliss", toy_graph)
    drawn = sampler.sample(SEEDS, 0)
    sampler.sample(SEEDS, 0, without=np.arange(50))
    for one, other in zip(drawn, sampler.sample(SEEDS, 0), strict=True):
        torch.testing.assert_close(one.edge_weight, other.edge_weight, rtol=0, atol=0)
    np.testing.assert_array_equal(before[0], toy_graph.indptr)
    np.testing.assert_array_equal(before[1], toy_graph.indices)
    assert replace(drawn[0]).rows is drawn[0].rows
