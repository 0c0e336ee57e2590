"""Each compiled kernel does what its plain NumPy twin does, draw for draw."""

from __future__ import annotations

import inspect
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bliss.arrays import NOTHING
from bliss.kernels import bounds, edge_bandits, frontier, node_bandit
from bliss.kernels.coins import coin, fill_coins, fill_short_coins
from bliss.kernels.gathering import gather
from bliss.rng import coin_key, derive_key, short_uniforms, uniforms
from tests.rows import SHAPES, random_ranges
from tests.twins import layerwise as reference


class Case:
    """A random graph, targets, their rows in turn of every shape, and one sampled layer."""

    def __init__(self, seed: int, index_type: type = np.int32, shapes: int = 3) -> None:
        random = np.random.default_rng(seed)
        self.random = random
        self.nodes = int(random.integers(2, 80))
        self.edges = int(random.integers(1, 6 * self.nodes))
        source = random.integers(0, self.nodes, self.edges).astype(index_type)
        target = random.integers(0, self.nodes, self.edges).astype(index_type)
        self.pairs = source, target
        self.indptr, order = reference.group_by_target(source, target, self.nodes)
        self.indices = source[order]
        self.dst = random.permutation(self.nodes)[: random.integers(1, self.nodes + 1)]
        self.rows = random_ranges(random, self.indptr, self.dst, SHAPES[seed % shapes])
        groups = self.rows.degree.size
        self.offset = random.random(groups)
        self.slope = random.random(groups) * (random.random(groups) < 0.7)
        self.value = random.random(self.edges)
        self.seen = np.zeros(self.nodes, np.float32)
        self.buffer = np.empty(self.nodes + 1, index_type)

    def layer(self) -> tuple[np.ndarray, ...]:
        """Candidates and masses, then source, prob, kept_indptr, row, edge."""
        masses = self.offset, self.slope, self.value, NOTHING
        candidate, squares = reference.scan(*self.rows.ranges, self.indices, self.dst, *masses)
        mass = np.sqrt(squares)
        source, prob = reference.poisson_keep(candidate, mass, 0.5, self.dst.size, coin_key(1, 0))
        return (
            candidate,
            mass,
            source,
            prob,
            *reference.gather(*self.rows.ranges, self.indices, source),
        )


cases = pytest.mark.parametrize("seed", range(25))


def test_every_kernel_has_a_twin():
    kernels = {
        name
        for module in (bounds, edge_bandits, frontier, node_bandit)
        for name, member in inspect.getmembers(module)
        if hasattr(member, "py_func") and not name.startswith("_")
    }
    assert kernels - {"fill_coins"} - set(dir(reference)) == set()


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint8, np.uint64])
@given(st.lists(st.integers(0, 50), max_size=40), st.data())
@settings(max_examples=50, deadline=None, derandomize=True)
def test_first_id_outside_agrees(kind, ids, data):
    ids = np.array(ids, np.int64)
    if ids.size and data.draw(st.booleans()):
        extreme = [-1, -(2**62), np.iinfo(np.int64).min, 51, 2**31, 2**62]
        ids[data.draw(st.integers(0, ids.size - 1))] = data.draw(st.sampled_from(extreme))
    ids, limit = ids.astype(kind), data.draw(st.integers(0, 52))
    assert bounds.first_outside(ids, limit) == reference.first_outside(ids, limit)


@pytest.mark.parametrize("place", [0, 4095, 4096, 9999])
def test_first_id_outside_is_found_in_every_chunk(place):
    ids = np.zeros(10_000, np.int64)
    assert bounds.first_outside(ids, 1) == -1
    ids[place:] = -1
    assert bounds.first_outside(ids, 1) == reference.first_outside(ids, 1) == place


@given(st.lists(st.integers(-5, 5), max_size=12), st.booleans())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_first_fall_agrees(pointers, is_sorted):
    array = np.array(sorted(pointers) if is_sorted else pointers, np.int64)
    assert bounds.first_fall(array) == reference.first_fall(array)


@pytest.mark.parametrize("index_type", [np.int32, np.int64])
@pytest.mark.parametrize("seed", range(10))
def test_grouping_sorts_by_target_then_source(seed, index_type):
    case = Case(seed, index_type)
    indptr, order = frontier.group_by_target(*case.pairs, case.nodes)
    np.testing.assert_array_equal(indptr, case.indptr)
    np.testing.assert_array_equal(order, reference.group_by_target(*case.pairs, case.nodes)[1])


@pytest.mark.parametrize("index_type", [np.int32, np.int64])
@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("values", ["none", "plain", "coded"])
def test_scan_agrees_bit_for_bit_and_clears_what_it_used(seed, index_type, values):
    case = Case(seed, index_type)
    value, table = case.value if values == "plain" else NOTHING, NOTHING
    if values == "coded":
        value = case.random.integers(0, 256, case.edges).astype(np.uint8)
        table = case.random.random(256).astype(np.float32)
    edges = *case.rows.ranges, case.indices, case.dst
    rows = (*edges, case.offset, case.slope, value, table)
    count = frontier.scan(*rows, case.seen, case.buffer)
    candidate, squares = reference.scan(*rows)
    np.testing.assert_array_equal(case.buffer[:count], candidate)
    np.testing.assert_array_equal(case.seen[candidate], squares)

    code = case.random.integers(0, 256, case.nodes).astype(np.uint8)
    table = case.random.random(256).astype(np.float32)
    for power in (0.0, 0.5, 1.0):
        for coded in ((code, table), (code[:0], table[:0])):
            case.seen[candidate] = squares
            mass = np.empty(count, np.float32)
            frontier.collect_mass(candidate, case.seen, *coded, power, mass)
            expected = reference.collect_mass(candidate, squares, *coded, power)
            np.testing.assert_array_equal(mass, expected)
            assert not case.seen.any()


@pytest.mark.parametrize("is_coded", [False, True])
@pytest.mark.parametrize("slope", [0.0, 1.0])
def test_edges_of_weight_zero_give_each_candidate_once(slope, is_coded):
    """A word of 0 means "not seen", so a sum of zeros must not look like it."""
    case = Case(1)
    groups = case.rows.degree.size
    value, table = np.zeros(case.edges), NOTHING
    if is_coded:
        value, table = value.astype(np.uint8), np.zeros(256, np.float32)
    edges = *case.rows.ranges, case.indices, case.dst
    rows = (*edges, np.zeros(groups), np.full(groups, slope), value, table)
    buffer = np.empty(case.nodes + case.edges + 1, np.int32)  # room for any mistake
    count = frontier.scan(*rows, case.seen, buffer)
    candidate, squares = reference.scan(*rows)
    np.testing.assert_array_equal(buffer[:count], candidate)
    np.testing.assert_array_equal(case.seen[candidate], squares)
    assert count == np.unique(candidate).size > case.dst.size


@cases
def test_scaling_by_node_agrees(seed):
    case = Case(seed)
    candidate, mass = case.layer()[:2]
    factor = case.random.random(case.nodes)
    for number in (0, case.nodes // 3 + 1):
        changed = np.sort(case.random.permutation(case.nodes)[:number])
        factors = factor, changed, case.random.random(number).astype(np.float32)
        twin = mass.copy()
        frontier.scale_by_node(mass, candidate, *factors)
        reference.scale_by_node(twin, candidate, *factors)
        np.testing.assert_array_equal(mass, twin)
    both = [m.changed_or(0.5, np.uint64(changed[0]), *factors[1:]) for m in (frontier, reference)]
    assert both[0] == both[1] == factors[2][0]


@cases
def test_sums_over_ranges_agree(seed):
    case = Case(seed)
    given = *case.rows.ranges, case.value
    ours, twin = (module.range_sums(*given) for module in (frontier, reference))
    np.testing.assert_allclose(ours, twin, rtol=1e-12)
    for number in (0, case.nodes // 3):
        changed = np.sort(case.random.permutation(case.nodes)[:number])
        scales = case.indptr, changed, case.random.random(number)
        given = *case.rows.ranges, case.indices, *scales
        ours, twin = (module.source_sums(*given) for module in (frontier, reference))
        np.testing.assert_allclose(ours, twin, rtol=1e-12)


@given(
    st.lists(st.floats(2.0**-20, 2.0**20, width=32), min_size=2, max_size=60),
    st.integers(1, 59),
)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_both_ways_to_solve_the_budget_agree(masses, budget):
    mass = np.array(masses, np.float32)
    assume(mass.size > budget)
    scale = frontier.fit_scale(mass, float(budget))
    assert scale == pytest.approx(reference.fit_scale(mass, float(budget)), rel=1e-9)
    total = np.minimum(mass.astype(np.float64) * scale, 1).sum()
    assert total == pytest.approx(budget, rel=1e-6)


@pytest.mark.parametrize("kernel", [frontier.fit_scale, reference.fit_scale])
def test_too_few_positive_masses_are_all_kept(kernel):
    mass = np.array([1, 1, 0, 0, 0], np.float32)
    prob = np.minimum(mass.astype(np.float64) * kernel(mass, 3.0), 1)
    np.testing.assert_array_equal(prob, [1, 1, 0, 0, 0])


@cases
def test_the_papers_thinning_agrees(seed):
    case = Case(seed)
    mass = case.layer()[1]
    budget = max(1.0, mass.size // 3)
    ours, twin = (module.fit_scale_paper(mass, budget) for module in (frontier, reference))
    assert ours == pytest.approx(twin, rel=1e-9)


@cases
def test_kept_sources_and_edges_agree_draw_for_draw(seed):
    case = Case(seed)
    candidate, mass = case.layer()[:2]
    for step in range(20):
        key = coin_key(3, step, lasting=1 + step % 4)
        for scale in (0.1, 0.7, 3.0):
            kept = candidate, mass, scale, case.dst.size, key
            source, prob = frontier.poisson_keep(*kept)
            twin_source, twin_prob = reference.poisson_keep(*kept)
            np.testing.assert_array_equal(source, twin_source)
            np.testing.assert_array_equal(prob, twin_prob)
    bits = np.zeros(case.nodes // 32 + 1, np.uint32)
    scratch = np.empty(case.edges + 1, np.int64)
    rows = *case.rows.ranges, case.indices, source
    position = np.empty(case.nodes, np.int32)
    for ours, twin in zip(
        gather(*rows, bits, position, scratch), reference.gather(*rows), strict=True
    ):
        np.testing.assert_array_equal(ours, twin)
    assert not bits.any()


def test_edges_of_groups_that_follow_each_other_agree():
    """Short groups are passed over together, up to a number of edges."""
    random = np.random.default_rng(0)
    bound = np.sort(random.permutation(6000)[:120])
    bound[40:45] = bound[40]  # groups without edges
    indices = random.integers(0, 500, 6000).astype(np.int32)
    pointer = np.arange(bound.size)
    source = random.permutation(500)[:90]
    rows = pointer, bound[:-1].copy(), bound[1:].copy(), indices, source
    scratch = np.zeros(16, np.uint32), np.empty(500, np.int32), np.empty(6001, np.int64)
    for ours, twin in zip(gather(*rows, *scratch), reference.gather(*rows), strict=True):
        np.testing.assert_array_equal(ours, twin)


def test_inverses_agree():
    degree = np.array([3, 0, 1, 7, 49])
    np.testing.assert_array_equal(frontier.inverse(degree), reference.inverse(degree))


@cases
@pytest.mark.parametrize("kind", ["mean", "gcn", "weights"])
def test_weights_agree(seed, kind):
    case = Case(seed)
    _, _, source, prob, kept_indptr, row, edge = case.layer()
    nothing = np.empty(0)
    groups = case.rows.degree.size
    target_scale = case.random.random(groups) if kind != "weights" else nothing
    source_scale = case.random.random(source.size) if kind == "gcn" else nothing
    weight = case.random.random(case.edges).astype(np.float32) if kind == "weights" else nothing
    scales = target_scale, source_scale, weight
    for correction in (nothing, 1 / prob.astype(np.float64)):
        given_ = (kept_indptr, row, edge, source.size, correction, *scales)
        np.testing.assert_allclose(
            frontier.edge_weights(*given_), reference.edge_weights(*given_), rtol=1e-6
        )
    ours, twin = frontier.edge_weights(*given_), reference.edge_weights(*given_)
    np.testing.assert_allclose(ours, twin, rtol=1e-6)

    total = case.random.random(groups)
    expected = reference.rescale_rows(twin, kept_indptr, total)
    frontier.rescale_rows(ours, kept_indptr, total)
    np.testing.assert_allclose(ours, expected, rtol=1e-6)


@cases
def test_influence_agrees(seed):
    case = Case(seed, shapes=1)  # by target
    _, _, source, prob, kept_indptr, row, _ = case.layer()
    weight = case.random.random(row.size).astype(np.float32) / prob[row]
    given = kept_indptr, row, weight, case.random.random(case.dst.size), source.size
    ours, twin = (module.source_influence(*given) for module in (frontier, reference))
    np.testing.assert_allclose(ours, twin, rtol=1e-12)


@cases
@pytest.mark.parametrize("attention", [True, False])
def test_exp3_agrees_over_many_updates(seed, attention):
    case = Case(seed, shapes=2)  # the state has one row per target
    _, _, source, prob, kept_indptr, row, edge = case.layer()
    states = [(np.zeros(case.edges), np.tile([1.0, 0.0], (case.nodes, 1))) for _ in range(2)]
    degree, node = case.rows.degree, case.rows.node
    target_scale = np.empty(0) if attention else case.random.random(degree.size)
    alpha = case.random.random(row.size) if attention else np.empty(0)
    for _ in range(50):
        strength = case.random.lognormal(0, 3, source.size) / prob
        feedback = (kept_indptr, row, edge, target_scale, strength, alpha)
        for module, (excess, scale) in zip((edge_bandits, reference), states, strict=True):
            sums = scale[node, 0], reference.range_sums(*case.rows.ranges, excess)
            growth = module.exp3_growth(degree, *sums, *feedback, attention, 0.3, 0.1, excess)
            module.grow(node, case.indptr, kept_indptr, edge, growth, excess, scale)
    for ours, twin in zip(*states, strict=True):
        np.testing.assert_allclose(ours, twin, rtol=1e-9)
    rows = [
        module.exp3_rows(degree, *states[0][1][node].T, 0.3) for module in (edge_bandits, reference)
    ]
    np.testing.assert_allclose(*rows, rtol=1e-12)


@cases
def test_scale_free_updates_agree(seed):
    case = Case(seed, shapes=2)  # the state has one row per target
    _, _, _, _, kept_indptr, _, edge = case.layer()
    degree = np.diff(case.indptr).astype(np.float64)
    states = [(np.ones(case.edges, np.float32), degree.copy()) for _ in range(2)]
    for _ in range(30):
        signal = case.random.normal(0, 5, edge.size)
        for module, state in zip((edge_bandits, reference), states, strict=True):
            module.scale_free_update(case.rows.node, kept_indptr, edge, signal, 0.3, *state)
    for ours, twin in zip(*states, strict=True):
        np.testing.assert_allclose(ours, twin, rtol=1e-5)


@cases
def test_relative_attention_agrees(seed):
    case = Case(seed)
    _, _, _, prob, kept_indptr, row, _ = case.layer()
    given = kept_indptr, prob[row], case.random.random(row.size).astype(np.float32)
    ours, twin = (module.relative_attention(*given) for module in (edge_bandits, reference))
    np.testing.assert_allclose(ours, twin, rtol=1e-6)


@cases
def test_node_kernels_agree(seed):
    case = Case(seed)
    _, _, source, _, kept_indptr, row, _ = case.layer()
    attention = case.random.random(row.size).astype(np.float32)
    attention[::7] = 0
    score = case.random.normal(0, 2, source.size).astype(np.float32)
    given = kept_indptr, row, attention, score
    ours, twin = (module.source_scores(*given) for module in (node_bandit, reference))
    # NaN where NaN is; logarithms down to -21 are rounded to float32, that is by 1e-6
    np.testing.assert_allclose(ours, twin, rtol=1e-6, atol=2e-6)
    states = [
        (np.zeros((case.nodes, 2), np.float32), np.full(case.nodes, 128, np.uint8))
        for _ in range(2)
    ]
    for _ in range(30):
        signal = case.random.normal(0, 5, source.size).astype(np.float32)
        for module, (arm, code) in zip((node_bandit, reference), states, strict=True):
            told = module.follow(source, signal, 0.3, 0.1, 2.0, arm)
            module.encode(source, told[0], code)
    np.testing.assert_array_equal(states[0][0], states[1][0])
    np.testing.assert_array_equal(states[0][1], states[1][1])
    told = [
        module.follow(source, signal, 0.1, 0.2, 0.7, arm)
        for module, (arm, _) in zip((node_bandit, reference), states, strict=True)
    ]
    for one, other in zip(*told, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    table = case.random.random(256).astype(np.float32)
    edge_code = case.random.integers(0, 256, case.edges).astype(np.uint8)
    for coded in (edge_code, edge_code[:0]):
        given = *case.rows.ranges, case.indices, states[0][1], table, coded, table
        ours, twin = (module.coded_sums(*given) for module in (node_bandit, reference))
        np.testing.assert_allclose(ours, twin, rtol=1e-6)  # products are in float32
    nodes = case.indptr.size - 1
    given = case.indptr, case.indices, nodes, edge_code, table + np.float32(0.1), 4
    ours, twin = (module.fit_scores(*given) for module in (node_bandit, reference))
    np.testing.assert_allclose(ours, twin, rtol=1e-9)


@cases
@pytest.mark.parametrize("flag", [False, True])
def test_rewards_and_growth_of_bandits_agree(seed, flag):
    case = Case(seed)
    kept_indptr, row = case.layer()[4:6]
    chance = np.minimum(1, 1.3 * case.random.random(row.size) + 1e-3).astype(np.float32)
    message = case.random.lognormal(0, 1, row.size).astype(np.float32)
    x = case.random.normal(size=(row.max(initial=0) + 1, 5)).astype(np.float32)
    x *= case.random.random() < 0.9
    for name, given_ in (
        ("variance_rewards", (kept_indptr, message, chance, flag)),
        ("distance_rewards", (kept_indptr, row, message, chance, x)),
        ("neighbour_growth", (case.rows.degree, kept_indptr, message, chance, 0.1, flag)),
    ):
        ours, twin = getattr(edge_bandits, name)(*given_), getattr(reference, name)(*given_)
        np.testing.assert_allclose(ours, twin, rtol=1e-6, atol=1e-12)
        if name == "distance_rewards":
            assert ((ours >= 0) & (ours <= 1)).all()


@cases
def test_growth_agrees_over_many_updates_and_repeated_edges(seed):
    case = Case(seed, shapes=2)  # the state has one row per target
    kept_indptr, _, edge = case.layer()[4:]
    edge = edge.copy()
    for a, b in pairwise(kept_indptr):
        edge[a:b] = case.random.choice(edge[a:b], b - a)  # some several times
    states = [(np.zeros(case.edges), np.tile([1.0, 0.0], (case.nodes, 1))) for _ in range(2)]
    for _ in range(400):  # long enough for rows to be scaled down
        growth = case.random.random(edge.size)
        for module, state in zip((edge_bandits, reference), states, strict=True):
            module.grow(case.rows.node, case.indptr, kept_indptr, edge, growth, *state)
    for ours, twin in zip(*states, strict=True):
        np.testing.assert_allclose(ours, twin, rtol=1e-7)


@cases
def test_linear_sizes_agree(seed):
    case = Case(seed)
    x = case.random.normal(size=(case.nodes, 7)).astype(np.float32)
    weight = case.random.normal(size=7).astype(np.float32)
    given_ = x, case.dst, weight, 0.3, 0.1
    np.testing.assert_allclose(
        edge_bandits.linear_sizes(*given_), reference.linear_sizes(*given_), rtol=1e-4, atol=1e-6
    )


def test_coins_are_the_same_one_by_one_and_at_once():
    counter = np.arange(1000)
    for step in range(4):
        key = coin_key(7, step, 2, lasting=4)
        coins, short = np.empty(1000), np.empty(1000, np.uint32)
        fill_coins(key, counter, coins)
        fill_short_coins(key, counter, short)
        np.testing.assert_array_equal(uniforms(key, counter), coins / 2**53)
        np.testing.assert_array_equal(short_uniforms(key, counter), short / 2**32)
    key = derive_key(7, 1, 2)
    one_by_one = [coin(key, np.uint64(c)) / 2**53 for c in counter]
    np.testing.assert_array_equal(uniforms(key, counter), one_by_one)


@pytest.mark.parametrize("x", [0.0, 1e-300, 1e-12, 1e-6, 1e-3, 0.1, 0.5, 0.9, 1.0])
def test_the_series_for_small_exponentials_is_exact_to_twelve_digits(x):
    assert edge_bandits._expm1(x) == pytest.approx(np.expm1(x), rel=1e-12, abs=0)
