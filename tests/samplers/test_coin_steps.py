"""Coins that last several steps: unbiased in every step, and batches share their sources."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from bliss import Graph
from bliss.errors import InputError
from bliss.kernels.coins import NO_PHASE
from bliss.rng import Stream, coin_key, uniforms
from bliss.samplers import LayerSampler, Sampler, sampler_config
from bliss.samplers.draws import Poisson, Successive, WithoutReplacement, WithReplacement
from bliss.studies import VarianceStudy, advise
from bliss.train import TrainConfig
from tests.build import make_sampler
from tests.statistics import features, full_aggregate, heavy_tailed_graph, normal_limit

FALSE_ALARM = 1e-6  # chance that correct coins fail, in each of the tests
TIMES = 1500
LASTING = 4
STEPS = range(9, 9 + LASTING + 1)
SAMPLERS = ["bliss", "pladies", "sketch", "labor-0", "labor-1", "neighbor"]
TARGETS = np.array([0, 2, 5, 9, 14, 20, 30, 40])

NODES = np.arange(40)
RANDOM = np.random.default_rng(3)
MASSES = np.exp(RANDOM.normal(0, 1, (STEPS.stop, NODES.size))).astype(np.float32)  # by step
BUDGET = 12
PROBABILITIES = np.array([Poisson().probability(mass, 0, BUDGET) for mass in MASSES])
VALUES = RANDOM.normal(1, 1, NODES.size)


def test_a_coin_lasts_so_many_steps_and_an_equal_share_changes_in_each():
    nodes = np.arange(20_000)
    coins = np.array(
        [uniforms(coin_key(1, step, 2, lasting=LASTING), nodes) for step in range(3 * LASTING + 1)]
    )
    changes = coins[1:] != coins[:-1]  # [12, V]
    place = np.argmax(changes, axis=0)  # step of the first change
    for again in range(3):
        assert changes[place + again * LASTING, nodes].all()
    assert (changes.sum(0) == 3).all()
    share = changes.mean(1)
    error = np.sqrt((1 - 1 / LASTING) / LASTING / nodes.size)
    assert np.abs(share - 1 / LASTING).max() < normal_limit(FALSE_ALARM, LASTING) * error


@cache
def first_steps(step: int) -> np.ndarray:
    """First step of the coin that each node has in a step. int64[V]."""
    coins = [uniforms(coin_key(0, t, lasting=LASTING), NODES) for t in range(step + 1)]
    return np.argmax(np.array(coins) == coins[-1], axis=0)


def total(draw: Poisson | Successive, step: int, seed: int) -> float:
    """Estimated sum of the values of all nodes."""
    key = coin_key(seed, step, lasting=LASTING)
    source, _, correction = draw.keep(NODES, MASSES[step], 0, BUDGET, key)
    return float(VALUES[source] @ correction)


def total_of_first_policy(_: Poisson, step: int, seed: int) -> float:
    """Mutant: a source stays kept as the masses of its coin's first step decided."""
    coins = uniforms(coin_key(seed, step, lasting=LASTING), NODES)
    kept = coins < PROBABILITIES[first_steps(step), NODES]
    return float(VALUES[kept] @ (1 / PROBABILITIES[step, kept]))


@pytest.mark.parametrize(
    ("draw", "estimate", "is_right"),
    [
        (Poisson(), total, True),
        (Successive(), total, True),
        (Poisson(), total_of_first_policy, False),
    ],
)
def test_sums_are_unbiased_in_every_step_while_masses_change(draw, estimate, is_right):
    sums = np.array([[estimate(draw, step, seed) for seed in range(TIMES)] for step in STEPS])
    z = np.sqrt(TIMES) * (sums.mean(1) - VALUES.sum()) / sums.std(1, ddof=1)
    assert (np.abs(z).max() < normal_limit(FALSE_ALARM, z.size)) == is_right


@pytest.mark.parametrize("name", SAMPLERS)
def test_aggregates_are_unbiased_in_every_step(name):
    graph, x = heavy_tailed_graph(), features()
    unbiased = "debiased" if name == "sketch" else "ht"
    sampler = make_sampler(name, graph, 1, coin_steps=LASTING, estimator=unbiased)
    exact = full_aggregate(graph, TARGETS, x)
    worst, limit = 0.0, normal_limit(FALSE_ALARM, len(STEPS) * exact.size)
    for step in STEPS:
        sums = np.empty((TIMES // 2, *exact.shape))
        for seed in range(sums.shape[0]):
            sampler.seed = seed
            (block,) = sampler.sample(TARGETS, step)
            message = block.edge_weight.numpy()[:, None] * x[block.src.numpy()[block.row.numpy()]]
            running = np.concatenate([np.zeros((1, x.shape[1])), np.cumsum(message, 0)])
            sums[seed] = np.diff(running[block.indptr.numpy()], axis=0)
        varies = sums.std(0) > 1e-6
        z = np.sqrt(sums.shape[0]) * (sums.mean(0) - exact)[varies] / sums.std(0)[varies]
        worst = max(worst, np.abs(z).max())
    assert worst < limit


def share_of_new_sources(sampler: Sampler, seeds: np.ndarray) -> float:
    """Share of a step's sources that the step before did not have. seeds [N, B]."""
    before, shares = np.empty(0), []
    for step, batch in enumerate(seeds):
        source = sampler.sample(batch, step)[0].src.numpy()
        shares.append(np.isin(source, before, invert=True).mean())
        before = source
    return float(np.mean(shares[1:]))


@pytest.mark.parametrize("name", SAMPLERS)
def test_batches_share_more_sources_the_longer_coins_last(name):
    random = np.random.default_rng(0)
    graph = Graph.from_edge_index(random.integers(0, 1000, (2, 20_000)), 1000)
    seeds = random.permuted(np.tile(np.arange(1000), (40, 1)), axis=1)[:, :10]
    if name == "neighbor":
        seeds[:] = seeds[0]  # coins belong to targets, so sources are shared where targets are
    budgets = [40, 40] if sampler_config(name).unit == "sources" else [4, 4]
    shares = [
        share_of_new_sources(make_sampler(name, graph, coin_steps=k, budgets=budgets), seeds)
        for k in (1, 4, 32)
    ]
    assert shares[0] > shares[1] + 0.1
    assert shares[1] > shares[2] + 0.02


@pytest.mark.parametrize("name", SAMPLERS)
def test_coins_depend_on_step_and_shard_alone(name, toy_graph):
    sampler, other = (make_sampler(name, toy_graph, coin_steps=8) for _ in range(2))
    seeds = np.arange(10)
    for step, shard in ((3, 0), (4, 0), (4, 1)):
        sampler.sample(seeds, step, shard)
    for shard in (0, 1):  # drawn by different processes, or by one
        ours, twin = (s.sample(seeds, 5, shard)[0].src.tolist() for s in (sampler, other))
        assert ours == twin


def test_one_step_is_the_default(toy_graph):
    for step in range(3):
        assert coin_key(5, step, 1, lasting=1) == coin_key(5, step, 1)
    ours, default = (make_sampler("bliss", toy_graph, **o) for o in ({"coin_steps": 1}, {}))
    seeds = np.arange(10)
    assert ours.sample(seeds, 3)[0].src.tolist() == default.sample(seeds, 3)[0].src.tolist()


@pytest.mark.parametrize("stream", [Stream.EVALUATION, Stream.MEASUREMENT])
def test_evaluations_and_measurements_flip_new_coins(stream, toy_graph):
    sampler = make_sampler("bliss", toy_graph, coin_steps=8)
    assert sampler._key(9, 0).turn < NO_PHASE
    assert sampler._key(stream + 9, 0).turn == NO_PHASE


@pytest.mark.parametrize(
    "name", ["ladies", "fastgcn", "full", "asgcn", "gcn-bs", "gat-bs", "cluster", "saint-rw"]
)
def test_samplers_without_a_coin_per_node_refuse(name):
    with pytest.raises(InputError, match="coin_steps=8 is not an option of"):
        sampler_config(name, coin_steps=8)


@pytest.mark.parametrize("steps", [0, -1, 1.5, True, "two", 2**33])
def test_bad_numbers_of_steps_are_refused(steps):
    with pytest.raises(InputError, match="coin_steps="):
        sampler_config("bliss", coin_steps=steps)


@pytest.mark.parametrize("draw", [WithReplacement(), WithoutReplacement()])
def test_draws_of_a_fixed_number_are_refused(draw, toy_graph):
    with pytest.raises(InputError, match="has no coin per node"):
        LayerSampler(toy_graph, [20], draw=draw, coin_steps=2)


def test_policies_that_divide_rewards_are_refused(toy_graph):
    with pytest.raises(InputError, match="coin_steps=2 is not possible with policy 'exp3'"):
        make_sampler("bliss", toy_graph, policy="exp3", coin_steps=2)


def test_histories_of_nodes_are_refused_and_those_of_surveys_are_not(toy_graph):
    with pytest.raises(InputError, match="history='nodes'"):
        sampler_config("bliss", history="nodes", coin_steps=2)
    with pytest.raises(InputError, match="history='nodes'"):
        sampler_config("vrgcn", coin_steps=2)
    assert sampler_config("vrgcn", history="surveys", coin_steps=2).lasting == 2


def test_statistics_of_independent_draws_are_refused(dataset):
    config = TrainConfig.of(sampler="bliss", coin_steps=2, budgets=(20, 10, 10))
    with pytest.raises(InputError, match="coin_steps=2 must be 1 here"):
        VarianceStudy(config, dataset, ["node"], every=1)
    with pytest.raises(InputError, match="coin_steps=2 is not supported by the pilot"):
        advise({"sampler": "bliss", "coin_steps": 2}, dataset)
