"""Horvitz-Thompson aggregates are unbiased, whatever the draw, the norm and what was learnt.

Unbiasedness follows from weights that are alpha_ij / p_j (`test_every` compares them for every
sampler and norm) and coins that keep j with probability p_j (`test_inclusion`). One long case of
each draw and each norm shows that nothing is between the two; policies change the p_j alone.
"""

from __future__ import annotations

import numpy as np
import pytest

from bliss import Graph
from bliss.feedback import Survey, encode_attention
from bliss.policies import NodeConfig
from bliss.samplers import LADIES, PLADIES, LayerSampler
from tests.statistics import (
    ROUNDING,
    Draws,
    coefficients,
    features,
    heavy_tailed_graph,
    normal_limit,
    repeat,
    square_sums,
    targets_of,
    train,
    worst_z,
)

pytestmark = pytest.mark.slow

FALSE_ALARM = 1e-6  # chance that correct samplers fail in this file, all cases together
TIMES = 4000
BUDGET = 36  # of 55 candidates
TARGETS = np.array([0, 2, 5, 9, 14, 20, 30, 40])  # 41 to 3 in-edges; some feed one another

SAMPLERS = {
    "LADIES": lambda graph, policy: LADIES(graph, [BUDGET], policy=policy, estimator="ht"),
    "LADIES-replacing": lambda graph, policy: LADIES(
        graph, [BUDGET], policy=policy, estimator="ht", replace=True
    ),
    "PLADIES": lambda graph, policy: PLADIES(graph, [BUDGET], policy=policy, estimator="ht"),
}
# Sizes of embeddings at which 40 steps teach each bandit something: the paper's delta is tiny.
TEACHING_SIZE = {"exp3-released": 15.0, "node": 1.0}
# Policies that are surveyed before they see samples.
SURVEYED = {"survey-edge": NodeConfig(survey_attention="edge")}

CASES = [
    ("LADIES", "ladies", "mean"),
    ("LADIES-replacing", "exp3-released", "mean"),
    ("PLADIES", "node", "mean"),
    ("PLADIES", "static", "gcn"),
    ("PLADIES", "static", "weights"),
    ("PLADIES", "survey-edge", "mean"),
]
LIMIT = normal_limit(FALSE_ALARM / len(CASES), features()[TARGETS].size + 1)

MUTANTS = ("none", "hajek", "unclipped", "no-skip", "misaligned", "2%-too-large")


def frozen_draws(name: str, policy: str, norm: str) -> tuple[LayerSampler, Draws]:
    sampler = SAMPLERS[name](heavy_tailed_graph(norm), SURVEYED.get(policy, policy))
    if policy in TEACHING_SIZE or policy in SURVEYED:
        untaught = sampler.inclusion(TARGETS, 0).prob
        if policy in SURVEYED:
            sampler.policy.survey(
                0, Survey(features()[:, 1].astype(np.float32), attention(sampler.graph))
            )
        size = TEACHING_SIZE.get(policy, 1.0)
        train(sampler, TARGETS, size * features()[:, 1:2], steps=40)
        change = sampler.inclusion(TARGETS, 0).prob / untaught
        assert change.max() > 1.5 * change.min()  # what is measured is not the static policy
    # Rarer sources would leave means too far from normal for a limit this far out.
    assert sampler.inclusion(TARGETS, 0).prob.min() > 0.05
    return sampler, repeat(sampler, TARGETS, TIMES)


def attention(graph: Graph) -> np.ndarray:
    """Codes of attention that differs between the edges of a target. uint8[E]."""
    raised = np.random.default_rng(5).lognormal(0, 0.7, graph.num_edges)
    return encode_attention(raised / np.bincount(targets_of(graph), raised)[targets_of(graph)])


def chances(sampler: LayerSampler) -> np.ndarray:
    """p_j of each node, 1 where it is no candidate. [V]."""
    candidate, prob = sampler.inclusion(TARGETS, 0)
    by_node = np.ones(sampler.graph.num_nodes)
    by_node[candidate] = prob
    return by_node


def total_z(draws: Draws, weight: np.ndarray, prob: np.ndarray) -> float:
    """|z| of the sum over open sources of p_j w_ij / alpha_ij, averaged over i, against sum p_j.

    With the right weights it counts the kept sources, so that a common factor shows in it.
    """
    graph = draws.graph
    degree = np.bincount(graph.indices, np.isin(targets_of(graph), TARGETS), prob.size)  # [V]
    share = np.where(prob < 1, prob / np.maximum(degree, 1), 0)[graph.indices[draws.edge]]
    ratio = weight / coefficients(graph)[draws.edge]
    samples = np.bincount(draws.draw, share * ratio, draws.times)  # [N]
    error = np.hypot(samples.std(ddof=1) / np.sqrt(draws.times), ROUNDING * prob.sum())
    return float(abs(samples.mean() - prob[prob < 1].sum()) / error)


def is_unbiased(draws: Draws, weight: np.ndarray, prob: np.ndarray) -> bool:
    return max(worst_z(draws, weight), total_z(draws, weight, prob)) < LIMIT


@pytest.mark.parametrize(("name", "policy", "norm"), CASES)
def test_horvitz_thompson_aggregate_is_unbiased(name, policy, norm):
    sampler, draws = frozen_draws(name, policy, norm)
    prob = chances(sampler)
    assert is_unbiased(draws, draws.weight, prob)
    too_large = np.where(prob < 1, 1.03, 1)[draws.graph.indices[draws.edge]]
    assert not is_unbiased(draws, too_large * draws.weight, prob)  # mutant


def test_check_of_bias_rejects_wrong_weights():
    sampler, draws = frozen_draws("PLADIES", "static", "mean")
    alpha = coefficients(draws.graph)[draws.edge]
    for mutant in MUTANTS:
        if mutant == "hajek":
            row = draws.draw * 60 + targets_of(draws.graph)[draws.edge]
            weight = draws.weight / np.bincount(row, draws.weight)[row]  # the full sums are 1
        else:
            weight = alpha / mutated_prob(sampler, mutant)[draws.graph.indices[draws.edge]]
        assert is_unbiased(draws, weight, chances(sampler)) == (mutant == "none"), mutant


def mutated_prob(sampler: LayerSampler, mutant: str) -> np.ndarray:
    """What a mistaken sampler would divide by, for each node. [V]."""
    candidate, prob = sampler.inclusion(TARGETS, 0)
    mass = np.sqrt(square_sums(sampler.graph, TARGETS))[candidate].astype(np.float32)
    scaled = mass.astype(np.float64) * sampler.draw.scale(mass, BUDGET)
    num_dst = TARGETS.size
    # Each mistake must have something to get wrong here.
    assert scaled[:num_dst].min() < 0.8
    assert scaled[num_dst:].max() > 1.2
    if mutant == "unclipped":
        prob[num_dst:] = scaled[num_dst:]
    elif mutant == "no-skip":
        prob[:num_dst] = np.minimum(scaled[:num_dst], 1.0)
    elif mutant == "misaligned":
        prob = np.roll(prob, 1)
    elif mutant == "2%-too-large":
        prob = np.minimum(1.02 * prob, 1.0)
    by_node = np.ones(sampler.graph.num_nodes)
    by_node[candidate] = prob
    return by_node
