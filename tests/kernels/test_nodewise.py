"""Each compiled kernel of node-wise sampling does what its plain NumPy twin does."""

from __future__ import annotations

import inspect
from itertools import pairwise

import numpy as np
import pytest

from bliss.kernels import labor, nodewise
from bliss.rng import coin_key
from tests.rows import SHAPES, random_ranges
from tests.twins import layerwise as reference
from tests.twins import nodewise as twins

pytestmark = pytest.mark.slow

KERNELS = (nodewise, labor)
LASTING = 3  # steps for which the coins of a node last


class Case:
    """A random graph with parallel edges, targets, and their rows in turn of every shape."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes = int(self.random.integers(2, 60))
        self.edges = int(self.random.integers(1, 12 * self.nodes))
        kind = (np.int32, np.int64)[seed % 2]
        source, target = self.random.integers(0, self.nodes, (2, self.edges)).astype(kind)
        self.indptr, order = reference.group_by_target(source, target, self.nodes)
        self.indices = source[order]
        self.dst = self.random.permutation(self.nodes)[: self.random.integers(1, self.nodes + 1)]
        self.rows = random_ranges(self.random, self.indptr, self.dst, SHAPES[seed % 3])
        self.frontier = int(self.rows.degree.sum())
        self.fanout = int(self.random.integers(1, 12))

    def masses(self) -> np.ndarray:
        """Heavy-tailed, and one in five of them 0. float64[F]."""
        size = self.random.lognormal(0, 1.5, self.frontier)
        return size * (self.random.random(self.frontier) < 0.8)


cases = pytest.mark.parametrize("seed", range(25))


def same(ours, twin) -> None:
    for one, other in zip(ours, twin, strict=True):
        np.testing.assert_array_equal(one, other)


def by_row(drawn) -> list:
    """Edges and chances of each target, in the order of edges."""
    indptr, edge, prob = drawn
    return [
        sorted(zip(edge[a:b].tolist(), prob[a:b].tolist(), strict=True))
        for a, b in pairwise(indptr)
    ]


def test_every_kernel_has_a_twin():
    imported = {"coin", "node_key", "random_bits", "fill_short_coins", "fit_scale", "changed_or"}
    kernels = {
        name
        for module in KERNELS
        for name, member in inspect.getmembers(module)
        if hasattr(member, "py_func") and not name.startswith("_")
    }
    assert kernels - imported - set(dir(twins)) == set()


@cases
def test_all_edges_and_their_sources(seed):
    case = Case(seed)
    indptr, edge = nodewise.all_edges(*case.rows.ranges)
    same((indptr, edge), twins.all_edges(*case.rows.ranges))
    np.testing.assert_array_equal(np.diff(indptr), case.rows.degree)
    number = np.zeros(case.nodes, case.indices.dtype)
    some = edge[case.random.random(edge.size) < 0.4]
    for chosen in (edge, some, edge[:0]):
        ours = nodewise.relabel(case.indices, case.dst, chosen, number)
        same(ours, twins.relabel(case.indices, case.dst, chosen))
        assert not number.any()


@cases
def test_sources_are_marked(seed):
    case = Case(seed)
    mark = np.zeros(case.nodes, np.bool_)
    edges = case.rows.start, case.rows.stop, case.indices
    nodewise.mark_sources(*edges, mark)
    np.testing.assert_array_equal(mark, twins.mark_sources(*edges, case.nodes))


@cases
def test_keys_and_places_of_groups_agree(seed):
    case = Case(seed)
    groups, key = (case.rows.node, case.rows.relation), coin_key(5, 1, lasting=3)
    for g in range(case.rows.degree.size):
        assert nodewise.group_key(key, *groups, g) == twins.group_key(key, *groups, g)
        for place in range(case.rows.degree[g]):
            at = case.rows.start, case.rows.stop, case.rows.pointer[g], place
            assert nodewise.edge_at(*at) == twins.edge_at(*at)


@cases
@pytest.mark.parametrize("replace", [False, True])
def test_uniform_picks_agree_draw_for_draw(seed, replace):
    case = Case(seed)
    for step in range(5):
        given = *case.rows, case.fanout, replace, coin_key(1, step, lasting=LASTING)
        same(nodewise.pick_uniform(*given), twins.pick_uniform(*given))


@cases
def test_fanouts_follow_a_weight_and_keep_the_number_of_edges(seed):
    case = Case(seed)
    degree = case.rows.degree
    even = np.minimum(degree, case.fanout)
    weight = case.random.lognormal(0, 1.5, degree.size)
    found = nodewise.fit_fanouts(weight, degree, even.sum())
    assert abs(found.sum() - even.sum()) <= 1
    assert np.array_equal(nodewise.fit_fanouts(np.ones(degree.size), degree, even.sum()), even)
    weight[1:] *= case.random.random(degree.size - 1) < 0.9  # those of weight 0 keep one edge
    for size in (degree.size, 1):
        args = weight[:size], degree[:size], even[:size].sum()
        found = nodewise.fit_fanouts(*args)
        np.testing.assert_array_equal(found, twins.fit_fanouts(*args))
        assert (found >= np.minimum(args[1], 1)).all()
        assert (found <= args[1]).all()


@cases
def test_masses_of_edges_agree(seed):
    case = Case(seed)
    groups = case.rows.degree.size
    offset, slope = case.random.random((2, groups))
    slope *= case.random.random(groups) < 0.5
    value = case.random.random(case.edges)
    code = case.random.integers(0, 256, case.nodes).astype(np.uint8)
    table = case.random.random(256).astype(np.float32)
    factor = case.random.random(case.nodes)
    rows = *case.rows.ranges, case.indices
    changed = np.sort(case.random.permutation(case.nodes)[: case.nodes // 3])
    changes = changed, case.random.random(changed.size).astype(np.float32)
    none = changed[:0], changes[1][:0]
    edge_code = case.random.integers(0, 256, case.edges).astype(np.uint8)
    mass = np.full(case.frontier, np.nan)
    for power in (0.0, 0.5, 1.0):
        for values in ((value, value[:0]), (edge_code, table)):
            for coded in ((code, table), (code[:0], table[:0])):
                for by_node in ((factor, *none), (factor, *changes), (factor[:0], *none)):
                    given = (*rows, offset, slope, *values, *coded, *by_node, power)
                    nodewise.edge_masses(*given, mass)
                    np.testing.assert_allclose(mass, twins.edge_masses(*given), rtol=1e-12)
    flat = (*rows, offset, 0 * slope, value[:0], value[:0], code[:0], table[:0], factor[:0])
    flat = (*flat, *none, 0.5)
    nodewise.edge_masses(*flat, mass)
    np.testing.assert_allclose(mass, twins.edge_masses(*flat), rtol=1e-12)


@cases
@pytest.mark.parametrize("replace", [False, True])
def test_weighted_picks_agree_draw_for_draw(seed, replace):
    case = Case(seed)
    ours = case.masses()
    twin = ours.copy()
    for module, mass in ((nodewise, ours), (twins, twin)):
        module.row_chances(case.rows.degree, mass, case.fanout, replace)
    np.testing.assert_allclose(ours, twin, rtol=1e-9)
    for step in range(5):
        key = coin_key(2, step, lasting=LASTING)
        if replace:
            given = *case.rows, ours, case.fanout, key
            same(nodewise.pick_replacing(*given), twins.pick_replacing(*given))
        else:
            given = *case.rows, ours, key
            drawn = [by_row(module.pick_pivotal(*given)) for module in (nodewise, twins)]
            assert drawn[0] == drawn[1]


@cases
@pytest.mark.parametrize("iterations", [0, 1, 3, 100])
def test_labors_chances_and_picks_agree(seed, iterations):
    case = Case(seed)
    indptr, edge = twins.all_edges(*case.rows.ranges)
    source, row = twins.relabel(case.indices, case.dst, edge)
    tolerance = 1e-4 if iterations == 100 else 0.0
    for coefficient in (np.empty(0), case.masses()):
        given = indptr, row, source.size, coefficient, case.fanout, iterations, tolerance
        ours = labor.labor_chances(*given)
        np.testing.assert_allclose(ours, twins.labor_chances(*given), rtol=1e-6)
        for chance, lasting in ((ours, 1), (np.empty(0), 1), (ours, LASTING)):
            edges = *case.rows.ranges, case.rows.degree, case.indices
            picked = *edges, chance, case.fanout, coin_key(3, 1, lasting=lasting)
            scratch = np.empty(case.frontier + 1, np.int64)
            same(labor.pick_shared(*picked, scratch), twins.pick_shared(*picked))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_labor_picks_agree_for_rows_of_every_length_and_many_of_them(kind, shape):
    # rows around the sizes of vectors and chunks, more of them than are read ahead at a time
    random = np.random.default_rng(0)
    degree = np.tile([0, 1, 31, 32, 33, 64, 511, 512, 513, 544, 1030, 3], 20)
    indptr = np.concatenate([[0], degree.cumsum()])
    indices = random.integers(0, degree.size, indptr[-1]).astype(kind)
    dst = random.permutation(degree.size)
    rows = random_ranges(random, indptr, dst, shape)
    frontier = int(rows.degree.sum())
    for chance, lasting in ((np.empty(0), 1), (random.random(frontier), 1), (np.empty(0), LASTING)):
        key = coin_key(3, 1, lasting=lasting)
        picked = *rows.ranges, rows.degree, indices, chance, 10, key
        scratch = np.full(frontier + 2, -7)
        same(labor.pick_shared(*picked, scratch), twins.pick_shared(*picked))
        assert scratch[-1] == -7
