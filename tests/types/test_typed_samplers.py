"""Samplers on a graph with types: unbiased sums for each relation, budgets by type, fanouts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import bliss
from bliss.errors import InputError
from bliss.graph import Graph
from bliss.samplers.draws import WithoutReplacement
from tests.statistics import ROUNDING, Draws, normal_limit, repeat, train
from tests.types.graphs import RELATIONS, SIZES, hetero

FALSE_ALARM = 1e-6  # chance that an unbiased sampler fails, all sums and samplers together
DATA = hetero()
GRAPH = Graph.of(DATA)
DST = np.arange(40, 65)  # papers, which four relations lead to
FANOUTS = {**{one: 2 for one in RELATIONS}, ("paper", "rev_writes", "author"): 1, "cites": 1}
SAMPLERS = {
    "pladies": lambda: bliss.PLADIES(GRAPH, [25]),
    "ladies": lambda: bliss.LADIES(GRAPH, [60], estimator="ht"),
    "sketch": lambda: bliss.SKETCH(GRAPH, [25]),
    "fastgcn": lambda: bliss.FastGCN(GRAPH, [60], estimator="ht"),
    "bliss": lambda: bliss.Bliss(GRAPH, [25]),
    "exp3": lambda: bliss.LayerSampler(GRAPH, [25], policy="exp3"),
    "fixed size": lambda: bliss.LayerSampler(GRAPH, [25], draw=WithoutReplacement()),
    "neighbor": lambda: bliss.Neighbor(GRAPH, [2]),
    "with replacement": lambda: bliss.Neighbor(GRAPH, [2], replace=True),
    "labor": lambda: bliss.LABOR(GRAPH, [2], estimator="ht"),
    "gcn-bs": lambda: bliss.GCNBS(GRAPH, [2], estimator="ht"),
    "by type": lambda: bliss.PLADIES(GRAPH, [{"author": 12, "paper": 9, "venue": 3}]),
    "ladies by type": lambda: bliss.LADIES(
        GRAPH, [{"author": 30, "paper": 30, "venue": 4}], estimator="ht"
    ),
    "bliss by type": lambda: bliss.Bliss(GRAPH, [{"author": 12, "paper": 9, "venue": 3}]),
    "scale-free": lambda: bliss.LayerSampler(GRAPH, [25], policy="exp3-scale-free"),
    "as-gcn": lambda: bliss.ASGCN(GRAPH, [25], x=by_type()),
    "fastgcn, distinct": lambda: bliss.FastGCN(GRAPH, [60], replace=False, estimator="ht"),
    "labor*": lambda: bliss.LABOR(GRAPH, [2], iterations="converged", estimator="ht"),
    "gat-bs": lambda: bliss.GATBS(GRAPH, [2], estimator="ht"),
    "fanouts": lambda: bliss.Neighbor(GRAPH, [FANOUTS]),
    "fanouts, learnt": lambda: bliss.GCNBS(GRAPH, [FANOUTS], estimator="ht"),
    "fanouts, labor": lambda: bliss.LABOR(GRAPH, [FANOUTS], estimator="ht"),
}


def features() -> np.ndarray:
    """Ones, which show an error of scale best; positive sizes; and signed numbers. [105, 3]."""
    generator = np.random.default_rng(7)
    parts = np.ones(105), generator.lognormal(0, 0.6, 105), generator.normal(size=105)
    return np.stack(parts, axis=1)


def by_type() -> dict[str, np.ndarray]:
    """The features of each type."""
    return dict(zip(SIZES, np.split(features(), [40, 100]), strict=True))


def relation_sums(draws: Draws, weight: np.ndarray, x: np.ndarray, swap: bool) -> np.ndarray:
    """Sums of each target under each relation, in each draw. [N, D, R, F]."""
    types = draws.graph.types
    group = np.searchsorted(types.group_start, draws.edge, side="right") - 1
    relation = types.group_relation[group].astype(int)
    if swap:  # edges of writes in the group of reviews, and the reverse
        relation = np.array([3, 1, 2, 0, 4])[relation]
    target = np.searchsorted(draws.graph.indptr, draws.edge, side="right") - 1
    code = (draws.draw * DST.size + target - DST[0]) * 5 + relation
    shape = draws.times, DST.size, 5, x.shape[1]
    rows = [
        np.bincount(code, weight * x[draws.graph.indices[draws.edge], column], np.prod(shape[:3]))
        for column in range(x.shape[1])
    ]
    return np.stack(rows, axis=-1).reshape(shape)


def exact_sums(x: np.ndarray) -> np.ndarray:
    """Mean over the in-edges of each target under each relation, from the data. [D, R, F]."""
    first = dict(zip(SIZES, (0, 40, 100), strict=True))
    sums = np.zeros((DST.size, 5, x.shape[1]))
    for number, edge_type in enumerate(DATA.edge_types):
        source, target = DATA[edge_type].edge_index.numpy()
        target = target + first[edge_type[2]]
        degree = np.bincount(target, minlength=105)
        here = np.isin(target, DST)
        alpha = 1 / degree[target[here]]
        at = x[source[here] + first[edge_type[0]]] * alpha[:, None]
        np.add.at(sums[:, number], target[here] - DST[0], at)
    return sums


def worst_z(draws: Draws, weight: np.ndarray, swap: bool = False) -> float:
    x = features()
    samples = relation_sums(draws, weight, x, swap)
    exact = exact_sums(x)
    rounding = ROUNDING * exact_sums(np.abs(x)) + 1e-12
    error = np.hypot(samples.std(0, ddof=1) / np.sqrt(draws.times), rounding)
    return float(np.abs((samples.mean(0) - exact) / error).max())


LIMIT = normal_limit(FALSE_ALARM, DST.size * 4 * 3 * len(SAMPLERS))


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLERS)
def test_the_sum_of_each_relation_is_unbiased(name):
    """Mutants: |N_i| over all relations in place of one; edges in the group of another relation."""
    sampler = SAMPLERS[name]()
    if sampler.learns:
        train(sampler, DST, features(), steps=30)
    draws = repeat(sampler, DST, times=800)
    assert worst_z(draws, draws.weight) < LIMIT
    types = GRAPH.types
    group = np.searchsorted(types.group_start, draws.edge, side="right") - 1
    target = np.searchsorted(GRAPH.indptr, draws.edge, side="right") - 1
    share = np.diff(types.group_start)[group] / np.diff(GRAPH.indptr)[target]
    assert worst_z(draws, draws.weight * share) > LIMIT
    assert worst_z(draws, draws.weight, swap=True) > LIMIT


def test_every_sampler_learns_and_draws_the_same_again():
    """Two layers of every layer-wise and node-wise sampler: draws are functions of their step."""
    seeds = DST[:8]
    for build in SAMPLERS.values():
        name = type(build()).__name__
        kind = getattr(bliss, name)
        budgets = [2, 2] if name in ("GCNBS", "GATBS") else [20, 10]
        options = {"x": by_type()} if name == "ASGCN" else {}
        sampler, twin = (kind(GRAPH, budgets, **options) for _ in range(2))
        for step in range(2):
            blocks = sampler.sample(seeds, step)
            for block in blocks:
                block.observe(torch.ones(block.num_src, 2))
            sampler.update(blocks)
            again = twin.sample(seeds, step)
            for block in again:
                block.observe(torch.ones(block.num_src, 2))
            twin.update(again)
            assert all(
                torch.equal(one.edge, two.edge) for one, two in zip(blocks, again, strict=True)
            )


def test_as_gcn_stacks_features_of_one_width():
    """In the order of types, from a dictionary or from the data."""
    samplers = [bliss.ASGCN(GRAPH, [25], x=x) for x in (features(), by_type())]
    for sampler in samplers:
        train(sampler, DST, features(), steps=30)
    one, two = (sampler.inclusion(DST, 0) for sampler in samplers)
    np.testing.assert_array_equal(one.prob, two.prob)
    assert np.ptp(one.prob) > 0.1
    assert bliss.ASGCN(hetero(width=3), [25]).features[0].shape == (40, 3)


def test_budgets_of_types_are_kept_by_each_type():
    """About as many sources of each type as asked for; the targets come first, in their order."""
    budgets = {"author": 10, "paper": 6, "venue": 2}
    sampler = bliss.LayerSampler(GRAPH, [budgets], draw=WithoutReplacement())
    dst = DST[::-1].copy()
    inclusion = sampler.inclusion(dst, 0)
    own = [inclusion.prob[place].sum() for place in GRAPH.types.places(inclusion.candidate)]
    (block,) = sampler.sample(dst, 0)
    np.testing.assert_array_equal(block.src[: dst.size], dst)
    assert block.prob[: dst.size].eq(1).all()
    sources = block.num_src_dict
    assert abs(sources["author"] - 10) <= 1
    assert abs(sources["venue"] - 2) <= 1
    np.testing.assert_allclose(own[0], 10)
    np.testing.assert_allclose(own[2], 2)
    assert sampler.budgets == (18,)


def test_fanouts_of_relations_are_kept_by_each_relation():
    fanouts = {**{one: 2 for one in RELATIONS}, "rev_writes": 1, "cites": -1}
    sampler = bliss.Neighbor(GRAPH, [fanouts])
    (block,) = sampler.sample(DST, 0)
    degrees = np.diff(GRAPH.types.group_start)
    for edge_type, part in block.relations.items():
        if edge_type[2] != "paper":
            continue
        most = {"cites": 1000}.get(edge_type[1], 2)
        assert torch.equal(part.indptr.diff(), part.degree.clamp(max=most))
    chances = sampler.inclusion(DST, 0)
    group = np.searchsorted(GRAPH.types.group_start, chances.edge, side="right") - 1
    most = np.where(GRAPH.types.group_relation[group] == 1, 1000, 2)
    np.testing.assert_allclose(chances.prob, np.minimum(1, most / degrees[group]))


BAD = {
    "missing type": ([{"author": 3, "paper": 4}], "no entry for type 'venue'"),
    "unknown type": ([{"editor": 3}], "'editor' is not a type of nodes"),
    "not by layer": (
        {"author": [3, 3], "paper": [4, 4], "venue": [1, 1]},  # as in PyG's loaders
        "budgets is a dictionary, but must be a list with an entry per layer",
    ),
    "zero": ([{"author": 0, "paper": 4, "venue": 1}], "must be at least 1"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_budgets_get_one_sentence(case):
    budgets, message = BAD[case]
    with pytest.raises(InputError, match=message):
        bliss.PLADIES(GRAPH, budgets)


def test_budgets_by_type_without_a_meaning_are_refused():
    with pytest.raises(InputError, match=r"no entry for relation \('author', 'writes', 'paper'\)"):
        bliss.Neighbor(GRAPH, [{"cites": 2}])
    with pytest.raises(InputError, match="FastGCN has one budget for all types"):
        bliss.FastGCN(GRAPH, [{"author": 3, "paper": 4, "venue": 1}])
    with pytest.raises(InputError, match="the graph has no types of nodes and edges"):
        bliss.PLADIES(Graph([0, 1], [0]), [{"author": 3}])
    with pytest.raises(InputError, match="iterations=1 lower the sources of all relations"):
        bliss.LABOR(GRAPH, [FANOUTS], iterations=1)
    for name in ("RandomNodes", "ClusterGCN", "SaintNode", "SaintEdge", "SaintWalk"):
        with pytest.raises(InputError, match="draws one subgraph for all layers"):
            getattr(bliss, name)(DATA, layers=2)
