"""What holds for every sampler of SAMPLERS: its blocks, its determinism, its state."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from bliss import Graph, InputError
from bliss.nn.block import Block
from bliss.samplers import SAMPLERS, Sampler, sampler_config
from tests import build
from tests.build import small_features, softmax
from tests.conftest import heavy_tailed_pairs
from tests.statistics import coefficients, heavy_tailed_graph

VARIANTS = {
    "ladies-replacing": ("ladies", {"replace": True}),
    "bliss-exp3": ("bliss", {"policy": "exp3-released"}),
    "bliss-scale-free": ("bliss", {"policy": "exp3-scale-free"}),
    "sketch-node": ("sketch", {"policy": "node"}),
    "neighbor-replacing": ("neighbor", {"replace": True}),
    "fastgcn-authors": ("fastgcn", {"mass": "norm", "replace": False}),
    "gcn-bs-single": ("gcn-bs", {"policy": "exp3-single"}),
}
NAMES = [*(name for name in SAMPLERS if name != "labor-0"), *VARIANTS]  # labor-0 is labor
USES_ATTENTION = {"bliss", "bliss-exp3", "bliss-scale-free", "sketch-node", "asgcn", "gat-bs"}
DRAWN_NODES = {"random-nodes", "saint-node", "saint-edge", "saint-rw"}  # whatever the seeds
every_sampler = pytest.mark.parametrize("name", NAMES)
SEEDS = np.array([3, 50, 0, 7, 59])


def make_sampler(name: str, graph: Graph, **options) -> Sampler:
    kind, settings = VARIANTS.get(name, (name, {}))
    return build.make_sampler(kind, graph, **(settings | options))


def kind_of(name: str) -> str:
    return VARIANTS.get(name, (name, {}))[0]


def train(sampler: Sampler, steps: int, start: int = 0, score: np.ndarray | None = None) -> None:
    """Learn from sizes that belong to nodes and layers, and from attention to a score [V]."""
    for step in range(start, start + steps):
        blocks = sampler.sample(np.arange(10), step)
        for layer, block in enumerate(blocks):
            attention = None if score is None else softmax(block, score)
            size = 1.0 + (block.src[:, None] * (layer + 1)) % 7
            block.observe(size.expand(-1, 5), attention)  # as wide as features and histories
        sampler.update(blocks)


def assert_equal(some: list[Block], others: list[Block]) -> None:
    for one, other in zip(some, others, strict=True):
        for name in ("dst", "src", "indptr", "row", "edge", "edge_prob", "edge_weight"):
            assert torch.equal(getattr(one, name), getattr(other, name)), name
        assert (one.prob is None) == (other.prob is None)
        assert one.prob is None or torch.equal(one.prob, other.prob)


@every_sampler
def test_blocks_chain_and_speak_of_edges_of_the_graph(name, toy_graph):
    blocks = make_sampler(name, toy_graph, layers=3).sample(SEEDS, step=4)
    if name in DRAWN_NODES:  # a subgraph has some of them
        assert set(blocks[-1].dst.tolist()) <= set(SEEDS.tolist())
    else:
        assert blocks[-1].dst.tolist() == SEEDS.tolist()
    for block, below in zip(blocks[1:], blocks, strict=False):
        assert torch.equal(block.src, below.dst)
    for block in blocks:
        assert torch.equal(block.src[: block.num_dst], block.dst)
        assert block.src.unique().numel() == block.num_src
        draws_edges = SAMPLERS[kind_of(name)].unit == "neighbours"
        assert (block.prob is None) == (draws_edges or kind_of(name) == "sketch")
        assert block.prob is None or ((block.prob > 0) & (block.prob <= 1)).all()
        assert (block.edge_prob > 0).all()
        edge = block.edge.numpy()
        np.testing.assert_array_equal(toy_graph.indices[edge], block.src[block.row].numpy())
        target = np.searchsorted(toy_graph.indptr, edge, side="right") - 1
        np.testing.assert_array_equal(target, block.dst[block.col].numpy())


@every_sampler
def test_the_same_seed_and_step_give_the_same_blocks(name, toy_graph):
    first, again = (make_sampler(name, toy_graph, seed=5) for _ in range(2))
    for step in (3, 0, 3):  # in any order, any number of times
        assert_equal(first.sample(SEEDS, step), again.sample(SEEDS, step))
    if name in ("full", "cluster"):  # there are no coins
        assert_equal(first.sample(SEEDS, 3), first.sample(SEEDS, 4))
        return
    same = first.sample(SEEDS, 3)[-1].edge.tolist()
    assert first.sample(SEEDS, 4)[-1].edge.tolist() != same
    assert make_sampler(name, toy_graph, seed=6).sample(SEEDS, 3)[0].edge.tolist() != same


@every_sampler
def test_a_loaded_state_draws_as_the_saved_one_did(name, toy_graph):
    sampler, loaded = make_sampler(name, toy_graph), make_sampler(name, toy_graph)
    train(sampler, 15)
    loaded.load_state_dict({k: v.clone() for k, v in sampler.state_dict().items()})
    assert_equal(sampler.sample(np.arange(10), 99), loaded.sample(np.arange(10), 99))
    for one in (sampler, loaded):
        train(one, 5, start=15)
    assert_equal(sampler.sample(np.arange(10), 99), loaded.sample(np.arange(10), 99))
    assert bool(sampler.state_dict()) == sampler.learns


@every_sampler
def test_feedback_that_waits_is_saved_and_applied_later(name, toy_graph):
    sampler, other = make_sampler(name, toy_graph), make_sampler(name, toy_graph)
    with sampler.learning.drawing_ahead():
        train(sampler, 1)
    other.load_state_dict({k: v.clone() for k, v in sampler.state_dict().items()})
    for one in (sampler, other):
        one.learning.settle()
    ours, theirs = sampler.state_dict(), other.state_dict()
    assert set(ours) == set(theirs)
    assert not any(key.startswith("pending") for key in ours)
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)
    untaught = make_sampler(name, toy_graph).state_dict()
    if sampler.learns:
        assert any(k not in untaught or not torch.equal(ours[k], untaught[k]) for k in ours)


@every_sampler
def test_threads_do_not_change_what_is_drawn(name):
    graph = Graph.from_edge_index(heavy_tailed_pairs(2000, 30_000), 2000)
    sampler = make_sampler(name, graph)
    batches = [np.random.default_rng(step).permutation(2000)[:64] for step in range(12)]
    alone = [sampler.sample(seeds, step) for step, seeds in enumerate(batches)]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(sampler.sample, batches, range(12)))
    for one, other in zip(alone, together, strict=True):
        assert_equal(one, other)


@every_sampler
def test_int64_indices_draw_the_same_as_int32(name, toy_graph):
    wide = Graph(toy_graph.indptr, toy_graph.indices.astype(np.int64))
    for step in range(3):
        assert_equal(
            make_sampler(name, wide).sample(SEEDS, step),
            make_sampler(name, toy_graph).sample(SEEDS, step),
        )


@every_sampler
def test_isolated_nodes_work(name):
    none = np.zeros((2, 0), np.int64)
    lonely = Graph.from_edge_index(none, 4, self_loops="keep")
    sources = 4 if name in DRAWN_NODES else 2  # a subgraph draws from all nodes
    for block in make_sampler(name, lonely).sample([2, 0], 0):
        assert (block.num_src <= sources, block.num_edges) == (True, 0)
    for block in make_sampler(name, Graph.from_edge_index(none, 4)).sample([2, 0], 0)[-1:]:
        assert block.edge_weight.tolist() == [1] * block.num_dst


@every_sampler
@pytest.mark.parametrize("norm", ["gcn", "weights", "weighted-mean"])
def test_weights_are_coefficients_over_chances_whatever_the_norm(name, norm):
    config = sampler_config(kind_of(name))
    estimator = {"estimator": "ht"} if config.allows("estimator", "ht") else {}
    graph = heavy_tailed_graph(norm)
    sampler = make_sampler(name, graph, **estimator)
    train(sampler, 3)
    for block in sampler.sample(np.arange(20), 9):
        alpha = coefficients(graph)[block.edge.numpy()]
        if name in ("random-nodes", "cluster"):  # rows are rescaled
            sums = np.bincount(block.col, block.edge_weight, block.num_dst)
            np.testing.assert_allclose(
                sums, graph.rows(block.dst.numpy()).coefficient_sum(), rtol=1e-5
            )
        else:
            np.testing.assert_allclose(block.edge_weight * block.edge_prob, alpha, rtol=1e-5)


@pytest.mark.parametrize("name", [n for n in NAMES if SAMPLERS[kind_of(n)].unit != "none"])
@pytest.mark.parametrize("norm", ["gcn", "weights", "weighted-mean"])
def test_full_budgets_give_the_exact_sum_of_coefficients(name, norm):
    graph = heavy_tailed_graph(norm)
    layers = SAMPLERS[kind_of(name)].sampled_layers(2)
    sampler = make_sampler(name, graph, budgets=[60] * layers)
    train(sampler, 3)
    for block in sampler.sample(np.arange(20), 9)[-layers:]:
        kept = block.indptr.diff().numpy()
        sums = np.bincount(block.col, block.edge_weight, block.num_dst)
        np.testing.assert_allclose(sums, graph.rows(block.dst.numpy()).coefficient_sum(), rtol=1e-5)
        np.testing.assert_array_equal(kept, graph.degree[block.dst])


@every_sampler
def test_attention_changes_what_is_learnt_only_where_it_is_used(name, toy_graph):
    plain, attentive = make_sampler(name, toy_graph), make_sampler(name, toy_graph)
    train(plain, 3)
    train(attentive, 3, score=np.random.default_rng(0).lognormal(0, 1, 60))
    ours, theirs = attentive.state_dict(), plain.state_dict()
    same = all(torch.equal(ours[key], theirs[key]) for key in ours)
    assert same == (name not in USES_ATTENTION)
    assert all(torch.isfinite(tensor).all() for tensor in ours.values())


LEARNERS = {
    "bliss": {},
    "bliss-exp3": {"delta": 1.0},
    "bliss-scale-free": {},
    "sketch-node": {},
    "asgcn": {"rate": 0.05},
    "gat-bs": {"delta": 0.3},
}


@pytest.mark.parametrize("name", LEARNERS)
def test_sources_with_more_attention_get_more_mass(name):
    graph, seeds = heavy_tailed_graph(), np.arange(12)
    sampler = make_sampler(name, graph, layers=1, **LEARNERS[name])
    is_favoured = small_features(graph)[:, 0] > 0  # a linear policy can tell them apart
    score = np.where(is_favoured, 10.0, 1.0)
    before = favoured_mass(sampler, seeds, is_favoured)
    for step in range(60):
        (block,) = sampler.sample(seeds, step)
        block.observe(torch.ones(block.num_src, 1), softmax(block, score))
        sampler.update([block])
    assert favoured_mass(sampler, seeds, is_favoured) > 1.2 * before


def favoured_mass(sampler: Sampler, seeds: np.ndarray, is_favoured: np.ndarray) -> float:
    """Mean mass of favoured sources over that of the others."""
    if hasattr(sampler, "_masses"):
        source, mass = sampler._masses(sampler.graph.rows(seeds), 0, np.unique(seeds))
    else:
        edge, mass = sampler.inclusion(seeds, 0)
        source = sampler.graph.indices[edge]
    return float(mass[is_favoured[source]].mean() / mass[~is_favoured[source]].mean())


@every_sampler
def test_bad_budgets_and_seeds_are_refused(name, toy_graph):
    sampler = make_sampler(name, toy_graph)
    with pytest.raises(InputError, match="seeds holds 60"):
        sampler.sample([60], 0)
    wrong = [5, 5, 5] if SAMPLERS[kind_of(name)].unit == "none" else [5, 0]
    with pytest.raises(InputError, match="budgets"):
        make_sampler(name, toy_graph, budgets=wrong)
    with pytest.raises(InputError, match="0 blocks were given for 2 layers"):
        sampler.digest([])
    with pytest.raises(InputError, match="needs"):
        sampler.load_state_dict({"other": torch.ones(3)})
