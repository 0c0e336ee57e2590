"""GraphSAINT: chances are those of enumeration, and aggregate and loss are unbiased."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product

import numpy as np
import pytest
import torch

from bliss import Graph, InputError
from bliss.samplers import SaintEdge, SaintNode, SaintWalk
from bliss.samplers.saint import Saint, Visits
from tests.conftest import heavy_tailed_pairs
from tests.samplers.test_inclusion import binomial_tail, larger
from tests.statistics import (
    ROUNDING,
    coefficients,
    features,
    full_aggregate,
    heavy_tailed_graph,
    normal_limit,
    square_sums,
    targets_of,
)

pytestmark = pytest.mark.slow

FALSE_ALARM = 1e-6  # chance that a correct sampler fails, in each test that rolls dice
TIMES = 4000
DRAWS = {"node": 120, "edge": 24, "walk": 20}  # a batch has 30 to 43 of 60 nodes
WANTED = np.array([0, 2, 9, 14, 20, 30, 40, 41, 55])
KINDS = {"node": SaintNode, "edge": SaintEdge, "walk": SaintWalk}
every_kind = pytest.mark.parametrize("kind", KINDS)


def make(kind: str, graph: Graph, wanted: np.ndarray, draws: int, **options) -> Saint:
    sampler = KINDS[kind](graph, layers=1, **options)
    sampler.prepare(wanted, draws)
    return sampler


# --- enumeration -----------------------------------------------------------------------------


def small_graph() -> Graph:
    """Five nodes: a triangle, a parallel edge, an edge one way, and a node of its own."""
    pairs = [(0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0), (0, 1), (3, 0)]
    return Graph.from_edge_index(np.array(pairs).T, num_nodes=5)


def single_draws(kind: str, graph: Graph, wanted: np.ndarray) -> Iterator[tuple[set[int], float]]:
    """All that one draw can visit, by the definition of the sampler, and its chance."""
    rows = [graph.indices[graph.indptr[i] : graph.indptr[i + 1]].tolist() for i in range(5)]
    if kind in ("node", "degree"):
        by_degree = np.array([len(row) for row in rows])
        mass = by_degree if kind == "degree" else square_sums(graph, np.arange(5))
        yield from (({node}, mass[node] / mass.sum()) for node in range(5))
        return
    roots = range(5) if kind == "edge" else wanted.tolist()
    for root in roots:
        for first in rows[root]:
            if kind == "edge":
                yield {root, first}, 1 / len(roots) / len(rows[root])
                continue
            for second in rows[first]:
                chance = 1 / len(roots) / len(rows[root]) / len(rows[first])
                yield {root, first, second}, chance


def enumerated(kind: str, graph: Graph, wanted: np.ndarray, draws: int) -> np.ndarray:
    """p_uv for all pairs, and p_v on the diagonal, from every outcome of a batch. [5, 5]."""
    joint = np.zeros((5, 5))
    for outcome in product(list(single_draws(kind, graph, wanted)), repeat=draws):
        there = sorted(set().union(*(visited for visited, _ in outcome)))
        joint[np.ix_(there, there)] += np.prod([chance for _, chance in outcome])
    return joint


@pytest.mark.parametrize("kind", [*KINDS, "degree"])
@pytest.mark.parametrize("draws", [1, 2])
def test_chances_are_those_of_enumeration(kind, draws):
    graph, wanted = small_graph(), np.array([0, 2, 3])
    if kind == "degree":
        sampler = make("node", graph, wanted, draws, mass="degree")
    else:
        sampler = make(kind, graph, wanted, draws)
    if kind == "walk":
        sampler.visits = exact_visits(graph, wanted)  # what counting converges to
    joint = enumerated(kind, graph, wanted, draws)
    np.testing.assert_allclose(sampler.included, joint.diagonal(), rtol=1e-12)
    seen = set()
    for step in range(60):
        (block,) = sampler.sample(wanted, step)
        source, target = block.src[block.row].numpy(), block.dst[block.col].numpy()
        given = joint[source, target] / joint[target, target]
        np.testing.assert_allclose(block.edge_prob.numpy(), given, rtol=1e-5)
        alpha = coefficients(graph)[block.edge.numpy()]
        np.testing.assert_allclose(block.edge_weight.numpy(), alpha / given, rtol=1e-5)
        loss = 1 / (wanted.size * joint[block.dst, block.dst])
        np.testing.assert_allclose(block.dst_weight.numpy(), loss, rtol=1e-5)
        np.testing.assert_allclose(block.prob.numpy(), joint[block.src, block.src], rtol=1e-5)
        seen |= set(block.edge.tolist())
    assert len(seen) >= (2 if kind in ("node", "degree") and draws == 1 else 6)


def exact_visits(graph: Graph, wanted: np.ndarray) -> Visits:
    joint = enumerated("walk", graph, wanted, 1)
    edge = joint[graph.indices, targets_of(graph)]
    return Visits(joint.diagonal().copy(), np.where(graph.indices == targets_of(graph), 0, edge))


@pytest.mark.parametrize("overstated", [False, True])
def test_counted_walks_visit_nodes_and_pairs_as_often_as_all_walks_do(overstated):
    graph, wanted = small_graph(), np.array([0, 2, 3])
    sampler = make("walk", graph, wanted, 2, coverage=60_000)
    number = round(60_000 * 5 / 3)
    spoken_of = np.r_[np.ones(5, bool), graph.indices != targets_of(graph)]  # not of self-loops
    exact = np.concatenate(exact_visits(graph, wanted))[spoken_of]
    if overstated:
        exact = larger(exact)
    counted = np.rint(np.concatenate(sampler.visits)[spoken_of] * number)
    kept = np.zeros((number, exact.size), bool)
    for column, count in enumerate(counted.astype(int)):
        kept[:count, column] = True
    assert (binomial_tail(kept, exact) < FALSE_ALARM) == overstated


def test_bounds_of_walks_stand_in_for_what_was_not_counted():
    graph, wanted = small_graph(), np.array([0, 2, 3])
    exact = exact_visits(graph, wanted)
    sampler = make("walk", graph, wanted, 2, coverage=0.1)  # one walk
    node, edge = sampler._least()
    assert (node <= exact.node + 1e-12).all()
    no_loop = graph.indices != targets_of(graph)
    assert (edge <= exact.edge + 1e-12)[no_loop].all()
    assert (sampler.visits.edge[exact.edge > 0] > 0).all()
    assert (sampler.visits.node[exact.node > 0] > 0).all()


def test_a_single_walk_that_meets_what_was_not_counted_has_finite_weights():
    # 0 sends to 1, 1 to 2, and 0 to 2; walks start at 2, so that 0 is only met at their end.
    graph = Graph.from_edge_index([[0, 1, 0], [1, 2, 2]], num_nodes=3, self_loops="keep")
    sampler = make("walk", graph, np.array([2]), 1, coverage=0.1)
    sampler.visits = Visits(sampler.visits.node, np.zeros(3))  # nothing was counted
    for step in range(20):
        (block,) = sampler.sample([2], step)
        assert torch.isfinite(block.edge_weight).all()
        assert (block.edge_prob > 0).all()


def test_counting_walks_errs_less_than_counting_subgraphs():
    # The paper's C_v / C_uv and ours, from as many visits of nodes, against far longer counting,
    # on the edges of fresh batches. Root of the mean squared relative error: 0.14, and ours 0.08.
    graph = Graph.from_edge_index(heavy_tailed_pairs(400, 1500), num_nodes=400)
    wanted, draws = np.arange(0, 400, 3), 20
    ours, truth = (make("walk", graph, wanted, draws, coverage=c, seed=1) for c in (50, 20_000))
    other = make("walk", graph, wanted, draws, seed=2)
    node_count, edge_count, visits, step = np.zeros(400), np.zeros(graph.num_edges), 0, 0
    while visits < 50 * 400:
        node, _ = other._draw(wanted, step)
        node_count[node] += 1
        edge_count[other._induce(node, 0).edge] += 1
        visits, step = visits + node.size, step + 1
    errors = {"ours": [], "paper": []}
    for fresh in range(step, step + 200):
        subgraph = other._induce(*other._draw(wanted, fresh))
        target = np.repeat(subgraph.node, np.diff(subgraph.indptr))
        others = target != subgraph.node[subgraph.row]
        exact = truth._weigh(subgraph).chance[others]
        counted = np.maximum(edge_count[subgraph.edge], 1) / np.maximum(node_count[target], 1)
        errors["ours"].append(exact / ours._weigh(subgraph).chance[others] - 1)
        errors["paper"].append(exact / counted[others] - 1)
    ours_error, paper_error = (
        np.sqrt(np.square(np.concatenate(errors[name])).mean()) for name in ("ours", "paper")
    )
    assert ours_error < 0.8 * paper_error


def test_rows_in_any_order_have_the_same_chances(toy_graph):
    generator = np.random.default_rng(0)
    order = np.concatenate(
        [generator.permutation(np.arange(*toy_graph.indptr[i : i + 2])) for i in range(60)]
    )
    mixed = Graph.from_csc(toy_graph.indptr, toy_graph.indices[order], self_loops="keep")
    ours, theirs = (make("edge", graph, WANTED, 9) for graph in (toy_graph, mixed))
    np.testing.assert_allclose(ours.visits.edge[order], theirs.visits.edge)
    # other walks are counted, 40,000 of them: five standard errors
    ours, theirs = (make("walk", graph, WANTED, 9, coverage=2000) for graph in (toy_graph, mixed))
    error = np.sqrt(2 * ours.visits.edge[order] / 40_000)
    assert (np.abs(ours.visits.edge[order] - theirs.visits.edge) <= 5 * error + 1e-9).all()


# --- many draws ------------------------------------------------------------------------------


@lru_cache  # several tests, and the mutants, look at the same draws
def many(kind: str, norm: str) -> tuple[Saint, dict[str, np.ndarray]]:
    """Aggregates [N, D, F] by each way to weigh, NaN where a target is not there; and losses."""
    graph = heavy_tailed_graph(norm)
    options = {"coverage": 100_000} if kind == "walk" else {}  # so that counts are as good as exact
    sampler = make(kind, graph, WANTED, DRAWS[kind], **options)
    blocks = [sampler.sample(sampler.batches(0)[0], step)[0] for step in range(TIMES)]
    edge = np.concatenate([block.edge.numpy() for block in blocks])
    draw = np.repeat(np.arange(TIMES), [block.num_edges for block in blocks])
    true = np.concatenate([block.edge_weight.numpy() for block in blocks])
    assert np.concatenate([block.edge_prob.numpy() for block in blocks]).min() > 0.05
    source, target = graph.indices[edge], targets_of(graph)[edge]
    alpha = coefficients(graph)[edge]
    place = np.zeros(60, np.int64)
    place[WANTED] = np.arange(WANTED.size)
    slot = draw * WANTED.size + place[target]
    there = np.zeros((TIMES, 60), bool)
    share, plain = np.zeros(TIMES), np.zeros(TIMES)
    for step, block in enumerate(blocks):
        there[step, block.src.numpy()] = True
        losses = LOSSES[place[block.dst.numpy()]]
        share[step] = (block.dst_weight.numpy() * losses).sum()
        plain[step] = losses.sum() / WANTED.size
    independent = alpha / np.where(source == target, 1, sampler.included[source])
    found = {"there": there, "loss": share, "plain loss": plain}
    for name, weight in {"true": true, "plain": alpha, "independent": independent}.items():
        sums = [
            np.bincount(slot, weight * column[source], TIMES * WANTED.size)
            for column in features().T
        ]
        samples = np.stack(sums, axis=1).reshape(TIMES, WANTED.size, -1)
        samples[~there[:, WANTED]] = np.nan
        found[name] = samples
    return sampler, found


LOSSES = np.random.default_rng(4).lognormal(0, 1, WANTED.size)


def worst_z(samples: np.ndarray, graph: Graph) -> float:
    """The largest |z| over targets and features, of means over the draws that have the target."""
    there = np.isfinite(samples[:, :, 0]).sum(0)[:, None]
    assert there.min() > 400  # so that means are close to normal
    x = features()
    rounding = ROUNDING * full_aggregate(graph, WANTED, np.abs(x))
    error = np.hypot(np.nanstd(samples, axis=0, ddof=1) / np.sqrt(there), rounding)
    exact = full_aggregate(graph, WANTED, x)
    return float(np.abs((np.nanmean(samples, axis=0) - exact) / error).max())


@pytest.mark.parametrize(
    ("kind", "norm"),  # other coefficients where chances depend on them
    [(kind, "mean") for kind in KINDS] + [("node", "gcn"), ("node", "weights")],
)
def test_aggregate_of_a_target_that_is_there_is_unbiased(kind, norm):
    sampler, found = many(kind, norm)
    limit = normal_limit(FALSE_ALARM, found["true"][0].size)
    assert worst_z(found["true"], sampler.graph) < limit
    assert worst_z(found["plain"], sampler.graph) > limit  # mutant: no correction
    if kind != "node":  # whose draws are all but independent
        assert worst_z(found["independent"], sampler.graph) > limit  # mutant: 1 / p_u


@every_kind
def test_loss_is_unbiased(kind):
    _, found = many(kind, "mean")

    def z(samples: np.ndarray) -> float:
        return abs(samples.mean() - LOSSES.mean()) / (samples.std(ddof=1) / np.sqrt(TIMES))

    assert z(found["loss"]) < normal_limit(FALSE_ALARM, 1)
    assert z(found["plain loss"]) > normal_limit(FALSE_ALARM, 1)  # mutant: no 1 / p_v


@pytest.mark.parametrize("overstated", [False, True])
@every_kind
def test_nodes_and_pairs_are_there_as_often_as_stated(kind, overstated):
    # C_v / N and C_uv / N of the paper, against the chances they estimate.
    sampler, found = many(kind, "mean")
    graph, there = sampler.graph, found["there"]
    edges = np.flatnonzero(graph.indices != targets_of(graph))[::7]
    source, target = graph.indices[edges], targets_of(graph)[edges]
    kept = np.concatenate([there, there[:, source] & there[:, target]], axis=1)
    joint = pair_chances(sampler)[source, target]
    prob = np.concatenate([sampler.included, joint])
    assert (binomial_tail(kept, larger(prob, 0.1) if overstated else prob) < FALSE_ALARM) == (
        overstated
    )


def pair_chances(sampler: Saint) -> np.ndarray:
    """p_uv of each edge u -> v, from the weights of a subgraph of all nodes. [60, 60]."""
    everything = sampler._induce(np.arange(60), 60)
    weights = sampler._weigh(everything)
    chance = np.zeros((60, 60))
    target = np.repeat(np.arange(60), np.diff(everything.indptr))
    chance[everything.row, target] = weights.chance * sampler.included[target]
    return chance


# --- what a batch looks like -------------------------------------------------------------------


@every_kind
def test_blocks_are_the_induced_subgraph_and_share_their_memory(kind, toy_graph):
    sampler = KINDS[kind](toy_graph, layers=3)
    sampler.prepare(WANTED, 12)
    blocks = sampler.sample(WANTED, 5)
    node = set(blocks[0].src.tolist())
    for block in blocks:
        assert set(block.src.tolist()) == node
        for t, i in enumerate(block.dst.tolist()):
            row = toy_graph.indices[toy_graph.indptr[i] : toy_graph.indptr[i + 1]]
            assert sum(j in node for j in row.tolist()) == block.indptr[t + 1] - block.indptr[t]
        for name in ("src", "row", "edge", "edge_weight", "edge_prob"):
            assert getattr(block, name).data_ptr() == getattr(blocks[0], name).data_ptr()
    assert set(blocks[-1].dst.tolist()) == node & set(WANTED.tolist())
    assert [block.num_dst for block in blocks[:-1]] == [len(node)] * 2
    assert blocks[0].dst_weight is None
    blocks[0].observe(torch.ones(len(node), 2))
    assert blocks[1].observation is None


@every_kind
def test_seeds_that_were_not_prepared_are_targets_too(kind, toy_graph):
    sampler = make(kind, toy_graph, WANTED, 30)
    (block,) = sampler.sample([7, 8, 9], 0)
    assert set(block.dst.tolist()) == {7, 8, 9} & set(block.src.tolist())


def test_an_epoch_draws_as_often_as_there_are_wanted_nodes(toy_graph):
    batches = make("walk", toy_graph, WANTED, 4).batches(0)
    assert len(batches) == 3
    assert all(batch is batches[0] for batch in batches)


REFUSED = {
    "budgets": (lambda g: SaintNode(g, [5], layers=1), "budgets=.* would have no effect"),
    "no layers": (lambda g: SaintNode(g, layers=0), "layers=0"),
    "a mass of others": (lambda g: SaintNode(g, layers=1, mass="norm"), "mass='norm'"),
    "short walk": (lambda g: SaintWalk(g, layers=1, length=0), "length=0"),
    "no walks": (lambda g: SaintWalk(g, layers=1, coverage=0), "coverage=0"),
    "not prepared": (lambda g: SaintEdge(g, layers=1).sample([1], 0), "call prepare"),
    "no batch": (lambda g: make("edge", g, WANTED, 0), "batch_size=0"),
    "two loaders": (lambda g: make("edge", g, WANTED, 5).prepare([1], 5), "its own sampler"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_gets_one_sentence(case, toy_graph):
    act, message = REFUSED[case]
    with pytest.raises(InputError, match=message) as caught:
        act(toy_graph)
    assert "\n" not in str(caught.value)
