"""The bandit samplers: chances and steps are their formulas, and they learn."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch

from bliss import Graph, InputError
from bliss.samplers import GATBS, GCNBS
from tests.statistics import coefficients, heavy_tailed_graph, repeat, targets_of

pytestmark = pytest.mark.slow

LEAVES = 9
SIZE = np.array([1.0, 5.0, 1.0, 2.0, 1.0, 3.0, 1.0, 1.0, 4.0, 1.0])  # |h_j|, node 0 included
ETA, DELTA = 0.4, 0.01
FALSE_ALARM = 1e-6


def star() -> Graph:
    """Node 0 receives from nodes 1 to 9 and from itself: ten edges, in the order of sources."""
    pairs = np.stack([np.arange(1, LEAVES + 1), np.zeros(LEAVES, int)])
    return Graph.from_edge_index(pairs, LEAVES + 1)


def taught(sampler: GCNBS, steps: int, attention: torch.Tensor | None = None) -> list[torch.Tensor]:
    """Show node 0 its messages; returns the edges of every step."""
    seen = []
    for step in range(steps):
        (block,) = sampler.sample([0], step)
        shown = None if attention is None else attention[block.edge]
        if shown is not None:
            shown = shown / shown.sum()
        block.observe(torch.from_numpy(SIZE)[block.src][:, None].float(), shown)
        sampler.update([block])
        seen.append(block.edge)
    return seen


def log_weights(sampler: GCNBS) -> np.ndarray:
    """log w_ij of node 0, from q_ij = (1 - eta) w / sum w + eta / |N|, up to a constant."""
    q = sampler.policy.edge_prob(0, 0)
    return np.log((q - ETA / q.size) / (1 - ETA))


def steps_by_hand(
    edges: list[torch.Tensor], fanout: int, reward: str, single: bool, alpha: np.ndarray
) -> np.ndarray:
    """log w after these draws, in plain Python: the published rule, edge by edge."""
    log_w = np.zeros(LEAVES + 1)
    for kept in edges:
        weight = np.exp(log_w)
        q = (1 - ETA) * weight / weight.sum() + ETA / (LEAVES + 1)
        p = fanout * q
        assert single or (p < 1).all()
        gain = (alpha * SIZE) ** 2 / q**2
        if reward == "thanos":
            z = alpha * SIZE
            mean = np.average(z[kept], weights=1 / q[kept])
            gain = (2 * z * mean - z**2 + 3 * (z[kept] ** 2).max()) / (4 * (z[kept] ** 2).max())
        for e in kept.tolist():
            estimate = gain[e] / q[e] if single else fanout * gain[e] / p[e]
            log_w[e] += min(1.0, DELTA * estimate / (LEAVES + 1))
    return log_w


@pytest.mark.parametrize("reward", ["published", "thanos"])
@pytest.mark.parametrize("policy", ["exp3-single", "exp3m"])
def test_steps_are_the_published_rule(policy, reward):
    sampler = GCNBS(star(), [3], policy=policy, reward=reward, eta=ETA, delta=DELTA)
    edges = taught(sampler, 12)
    alpha = np.full(LEAVES + 1, 1 / (LEAVES + 1))
    expected = steps_by_hand(edges, 3, reward, policy == "exp3-single", alpha)
    found = log_weights(sampler)
    assert np.ptp(expected) > 1e-3
    np.testing.assert_allclose(found - found.mean(), expected - expected.mean(), atol=1e-5)
    wrong = steps_by_hand(edges, 3, reward, policy == "exp3-single", 1.3 * alpha)
    if reward == "published":
        assert np.abs(found - found.mean() - wrong + wrong.mean()).max() > 1e-3


def test_chances_are_k_times_q_and_capped_at_one():
    sampler = GCNBS(star(), [3])
    taught(sampler, 2)
    q = sampler.policy.edge_prob(0, 0)
    assert (3 * q).max() < 1
    np.testing.assert_allclose(sampler.inclusion([0], 0).prob, 3 * q)
    sampler = GCNBS(star(), [3], delta=1.0)
    taught(sampler, 200)
    q, prob = sampler.policy.edge_prob(0, 0), sampler.inclusion([0], 0).prob
    assert prob.sum() == pytest.approx(3)
    assert (3 * q).max() > 1
    assert prob.max() == 1
    open_ = prob < 1
    np.testing.assert_allclose(prob[open_] / prob[open_].sum(), q[open_] / q[open_].sum())
    single = GCNBS(star(), [3], policy="exp3-single")
    q = single.policy.edge_prob(0, 0)
    np.testing.assert_allclose(single.inclusion([0], 0).prob, 3 * q)


def test_a_certain_edge_keeps_its_weight():
    sampler = GCNBS(star(), [3], delta=1.0)
    taught(sampler, 200)
    certain = sampler.inclusion([0], 0).prob == 1
    assert certain.any()
    before = sampler.state_dict()["exp3.0.excess"].numpy()[: LEAVES + 1].copy()
    taught(sampler, 1)
    after = sampler.state_dict()["exp3.0.excess"].numpy()[: LEAVES + 1]
    np.testing.assert_array_equal(after[certain], before[certain])
    assert (after != before).any()


@pytest.mark.parametrize(
    ("options", "most"),
    [({}, 0.9), ({"policy": "exp3-single"}, 0.9)],
)
def test_it_learns_to_draw_with_less_variance(options, most):
    # V = sum_j (alpha_ij |h_j|)^2 / p_ij, against the uniform start
    sampler = GCNBS(star(), [3], delta=0.05, **options)

    def variance() -> float:
        return float((SIZE**2 / sampler.inclusion([0], 0).prob).sum())

    before = variance()
    taught(sampler, 90)
    assert variance() < most * before


def vectors() -> torch.Tensor:
    """Messages of which most are alike, and two are far away, on opposite sides. [10, 2]."""
    x = torch.ones(LEAVES + 1, 2)
    x[:, 1] = torch.linspace(-0.2, 0.2, LEAVES + 1)
    x[2, 1], x[7, 1] = 6.0, -6.0
    return x


@pytest.mark.parametrize("policy", ["exp3-single", "exp3m"])
def test_thanos_draws_what_is_near_the_mean_and_errs_less(policy):
    # E |mean of kept - mean of all|^2, by 4,000 draws; with unbiased weights it would not fall
    options = {"reward": "thanos", "restart": 0, "delta": 0.3, "policy": policy}
    sampler = GCNBS(star(), [3], estimator="plain", **options)
    x = vectors()

    def error() -> float:
        draws = repeat(sampler, np.array([0]), 4000)
        off = draws.aggregate(draws.weight, x.numpy()) - x.mean(0).numpy()
        return float(np.square(off).sum((1, 2)).mean())

    before = error()
    for step in range(10_000, 10_300):
        (block,) = sampler.sample([0], step)
        block.observe(x[block.src])
        sampler.update([block])
    q = sampler.policy.edge_prob(0, 0)
    far = np.isin(star().indices[: q.size], [2, 7])
    assert q[far].mean() < 0.7 * q[~far].mean()
    assert error() < 0.7 * before


def test_plain_weights_are_as_if_all_had_been_drawn_alike():
    # The expected aggregate is sum_j (p_ij |N_i| / k) alpha_ij h_j: biased once chances differ.
    sampler = GCNBS(star(), [3], estimator="plain", delta=0.05)
    taught(sampler, 60)
    prob = sampler.inclusion([0], 0).prob
    expected, full = (prob / 3 * SIZE).sum(), SIZE.mean()
    draws = repeat(sampler, np.array([0]), 8000)
    np.testing.assert_allclose(draws.weight, 1 / 3, rtol=1e-6)
    found = draws.aggregate(draws.weight, SIZE[:, None])
    error = found.std() / np.sqrt(found.size)
    bound = scipy.stats.norm.isf(FALSE_ALARM / 2)
    assert abs(found.mean() - expected) < bound * error
    assert abs(found.mean() - full) > bound * error  # biased, and the test would see it


@pytest.mark.parametrize(
    ("options", "eta", "delta", "restart"),
    [({}, 0.4, 0.01, 0), ({"reward": "thanos"}, 0.2, 0.1, 2000), ({"eta": 0.3}, 0.3, 0.01, 0)],
)
def test_constants_are_those_of_the_authors_unless_given(options, eta, delta, restart):
    config = GCNBS(star(), [3], **options).policy.config
    assert (config.eta, config.step, config.restart) == (eta, delta, restart)


def test_thanos_moves_its_distribution_with_the_constants_of_its_authors():
    # q_ij |N_i| after 300 updates of the target; with delta = 0.01 it stays within 25% of 1
    spread = []
    for options in ({}, {"delta": 0.01}):
        sampler = GCNBS(star(), [3], reward="thanos", estimator="plain", **options)
        taught(sampler, 300)
        spread.append(np.ptp(sampler.policy.edge_prob(0, 0)) * (LEAVES + 1))
    assert spread[0] > 1.0
    assert spread[1] < 0.5


def test_thanos_needs_the_messages_of_its_own_blocks():
    sampler = GCNBS(star(), [3], reward="thanos")
    (block,) = GCNBS(star(), [3]).sample([0], 0)
    block.observe(vectors()[block.src])
    with pytest.raises(InputError, match="did not keep the input"):
        sampler.update([block])


def test_rewards_of_thanos_are_bounded_and_restarts_forget():
    sampler = GCNBS(star(), [3], reward="thanos", restart=7, eta=ETA, delta=DELTA)
    untaught = {k: v.clone() for k, v in sampler.state_dict().items()}
    sampler_size = SIZE * 1e6  # whatever the embeddings' size
    for step in range(1, 15):
        (block,) = sampler.sample([0], step)
        block.observe(torch.from_numpy(sampler_size)[block.src][:, None].float())
        before = log_weights(sampler)
        q = block.edge_prob.numpy() / 3
        sampler.update([block])
        if step % 7:
            grown = log_weights(sampler) - before
            assert np.ptp(grown) <= (DELTA / (q * (LEAVES + 1))).max() + 1e-6
            assert np.ptp(grown) > 0
        else:
            for name in ("exp3.0.excess", "exp3.0.scale"):
                assert torch.equal(sampler.state_dict()[name], untaught[name])


def test_only_gat_bs_listens_to_attention():
    attention = torch.linspace(0.1, 1, LEAVES + 1)
    found = {}
    for kind in (GCNBS, GATBS):
        sampler = kind(star(), [3])
        edges = taught(sampler, 6, attention)
        found[kind] = log_weights(sampler)
        plain = steps_by_hand(edges, 3, "published", False, np.full(LEAVES + 1, 0.1))
        off = np.abs(found[kind] - found[kind].mean() - plain + plain.mean()).max()
        assert (off < 1e-5) == (kind is GCNBS)


def test_feedback_attention_is_the_kept_share_of_the_softmax():
    sampler = GATBS(star(), [3])
    (block,) = sampler.sample([0], 0)
    block.observe(torch.ones(block.num_src, 1), torch.tensor([0.5, 0.3, 0.2]))
    sampler.update([block])
    alpha = np.array([0.5, 0.3, 0.2]) * 3 / (LEAVES + 1)  # q is 1 / 10, and three were kept
    expected = np.zeros(LEAVES + 1)
    q = 1 / (LEAVES + 1)
    expected[block.edge.numpy()] = np.minimum(1, DELTA * alpha**2 / q**3 / (LEAVES + 1))
    found = log_weights(sampler)
    np.testing.assert_allclose(found - found.mean(), expected - expected.mean(), atol=1e-6)


def test_a_target_without_a_choice_learns_nothing():
    graph = heavy_tailed_graph()
    sampler = GCNBS(graph, [50])
    for step in range(3):
        (block,) = sampler.sample(np.arange(20), step)
        block.observe(torch.ones(block.num_src, 1))
        sampler.update([block])
    assert not sampler.state_dict()["exp3.0.excess"].any()
    edge, prob = sampler.inclusion(np.arange(20), 0)
    assert (prob == 1).all()
    assert coefficients(graph)[edge].size == np.isin(targets_of(graph), np.arange(20)).sum()


REFUSED = {
    "unknown policy": ({"policy": "exp4"}, "policy='exp4'"),
    "unknown reward": ({"reward": "large"}, "reward='large'"),
    "negative restart": ({"restart": -1}, "restart=-1"),
    "eta of zero": ({"eta": 0.0}, "eta=0.0"),
    "delta of zero": ({"delta": 0.0}, "delta=0.0"),
    "unknown estimator": ({"estimator": "sketch"}, "estimator='sketch'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_options_get_one_sentence(case, toy_graph):
    options, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        GCNBS(toy_graph, [5], **options)
