"""EXP3 is the published algorithm, and nothing that happens to it breaks it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bliss import Bliss, Feedback, Graph
from bliss.policies import Exp3Config
from tests.conftest import heavy_tailed_pairs


class Oracle:
    """The paper's update, edge by edge, in float64 logarithms."""

    def __init__(self, graph: Graph, eta: float, delta: float) -> None:
        self.graph, self.eta, self.delta = graph, eta, delta
        self.log_weight = np.zeros(graph.num_edges)

    def edge_prob(self, node: int) -> np.ndarray:
        row = self.log_weight[self.graph.indptr[node] : self.graph.indptr[node + 1]]
        weight = np.exp(row - row.max())
        return (1 - self.eta) * weight / weight.sum() + self.eta / row.size

    def update(self, seen: Feedback, alpha: np.ndarray | None) -> None:
        graph = self.graph
        before = {int(i): self.edge_prob(i) for i in seen.dst}
        for t, i in enumerate(seen.dst):
            kept = range(seen.indptr[t], seen.indptr[t + 1])
            q = {e: before[int(i)][seen.edge[e] - graph.indptr[i]] for e in kept}
            for e in kept:
                if alpha is None:
                    coefficient = seen.attention[e] * sum(q.values())
                else:
                    coefficient = alpha[seen.edge[e]]
                j = seen.row[e]
                reward = coefficient**2 * float(seen.norm[j]) ** 2 / (len(kept) * q[e] ** 2)
                gain = self.delta * reward / (float(seen.prob[j]) * graph.degree[i])
                self.log_weight[seen.edge[e]] += min(1.0, gain)


def coefficients(graph: Graph) -> np.ndarray:
    """alpha_ij of every edge, from the definitions. float64[E]."""
    target = np.repeat(np.arange(graph.num_nodes), graph.degree)
    if graph.norm == "mean":
        return 1 / graph.degree[target]
    if graph.norm == "gcn":
        return 1 / np.sqrt(graph.degree[target] * graph.degree[graph.indices])
    return graph.weight.astype(np.float64)


def observed(graph: Graph, sampler: Bliss, step: int, spread: float, attention: bool) -> Feedback:
    """A real draw with made-up sizes and, if asked for, made-up attention."""
    random = np.random.default_rng(step)
    seeds = random.permutation(graph.num_nodes)[:12]
    block = sampler.sample(seeds, step)[0]
    norm = random.lognormal(0, spread, block.num_src).astype(np.float32)
    weight = random.random(block.num_edges)
    total = np.bincount(block.col.numpy(), weights=weight)
    softmax = (weight / total[block.col.numpy()]).astype(np.float32) if attention else None
    draw = [getattr(block, name).numpy() for name in Feedback._fields[1:6]]
    return Feedback(block.rows, *draw, norm, prob=block.prob.numpy(), attention=softmax)


@pytest.mark.parametrize("norm", ["mean", "gcn", "weights", "attention"])
@pytest.mark.parametrize(("eta", "delta"), [(0.4, 4e-7), (0.1, 0.01), (0.02, 1.0), (1.0, 0.1)])
def test_many_updates_agree_with_the_oracle(norm, eta, delta):
    pairs = heavy_tailed_pairs(40, 200)
    weight = np.random.default_rng(0).random(200) if norm == "weights" else None
    kind = "mean" if norm == "attention" else norm
    graph = Graph.from_edge_index(pairs, 40, weight=weight, norm=kind)
    sampler = Bliss(graph, [15], policy="exp3", eta=eta, delta=delta)
    oracle = Oracle(graph, eta, delta)
    alpha = None if norm == "attention" else coefficients(graph)
    for step in range(300):
        seen = observed(graph, sampler, step, spread=2.0, attention=norm == "attention")
        sampler.policy.update(0, seen)
        oracle.update(seen, alpha)
    assert np.ptp(oracle.log_weight) > 1e-6  # something was learnt
    for node in range(graph.num_nodes):
        ours = sampler.policy.edge_prob(0, node)
        np.testing.assert_allclose(ours, oracle.edge_prob(node), rtol=1e-6)
        assert ours.sum() == pytest.approx(1, abs=1e-12)
        assert (ours >= eta / ours.size * (1 - 1e-12)).all()


def test_the_oracle_notices_a_reward_without_its_square():
    graph = Graph.from_edge_index(heavy_tailed_pairs(40, 200), 40)
    sampler = Bliss(graph, [15], policy="exp3", eta=0.1, delta=0.01)
    oracle = Oracle(graph, 0.1, 0.01)
    for step in range(20):
        seen = observed(graph, sampler, step, spread=1.0, attention=False)
        sampler.policy.update(0, seen)
        oracle.update(seen._replace(norm=np.sqrt(seen.norm)), coefficients(graph))
    worst = max(
        np.abs(sampler.policy.edge_prob(0, i) / oracle.edge_prob(i) - 1).max() for i in range(40)
    )
    assert worst > 1e-4


def star(leaves: int) -> Graph:
    return Graph.from_edge_index([list(range(1, leaves + 1)), [0] * leaves])


def one_row(graph: Graph, norm: float) -> Feedback:
    """Every edge into node 0 kept, all messages of one size."""
    degree = graph.degree[0]
    src = graph.indices[:degree].astype(np.int64)
    return Feedback(
        rows=graph.rows(np.array([0])),
        src=src,
        indptr=np.array([0, degree]),
        row=np.arange(degree),
        edge=np.arange(degree),
        edge_prob=np.full(degree, 0.5, np.float32),
        norm=np.full(degree, norm, np.float32),
        prob=np.full(degree, 0.5, np.float32),
    )


@pytest.mark.parametrize("norm", [1e15, 1e19])  # rewards of 1e30 and far beyond
def test_ten_thousand_huge_rewards_leave_a_distribution(norm):
    graph = star(5)
    policy = Exp3Config(eta=0.3, delta=1.0).build(graph, 1)
    everything = one_row(graph, norm)
    first_edge = everything._replace(
        indptr=np.array([0, 1]), row=everything.row[:1], edge=everything.edge[:1]
    )
    for _ in range(10_000):
        policy.update(0, first_edge)
    q = policy.edge_prob(0, 0)
    np.testing.assert_allclose(q[1:], 0.3 / 6)
    assert q.sum() == pytest.approx(1)
    for _ in range(10_000):  # all alike: nothing may drift apart
        policy.update(0, everything)
    np.testing.assert_allclose(policy.edge_prob(0, 0), q, rtol=1e-9)


def test_an_arm_left_far_behind_catches_up():
    graph = star(2)
    policy = Exp3Config(eta=0.4, delta=1.0).build(graph, 1)
    seen = one_row(graph, 1e15)
    for edge, times in ((0, 1200), (1, 3000)):
        only = seen._replace(indptr=np.array([0, 1]), row=np.array([edge]), edge=np.array([edge]))
        for _ in range(times):
            policy.update(0, only)
    np.testing.assert_allclose(policy.edge_prob(0, 0), [0.4 / 3, 0.6 + 0.4 / 3, 0.4 / 3])


@given(st.lists(st.floats(0, 1e30), min_size=1, max_size=30), st.floats(0.01, 1))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_rows_always_sum_to_one_and_never_fall_below_exploration(norms, eta):
    graph = star(4)
    policy = Exp3Config(eta=eta, delta=1.0).build(graph, 1)
    for norm in norms:
        policy.update(0, one_row(graph, norm)._replace(norm=np.float32([norm, 0, 1, 2, 3])))
        q = policy.edge_prob(0, 0)
        assert q.sum() == pytest.approx(1)
        assert (q >= eta / q.size * (1 - 1e-12)).all()


def test_rows_never_updated_are_uniform_and_rows_of_others_untouched(toy_graph):
    sampler = Bliss(toy_graph, [10, 10], policy="exp3-released")
    seen = observed(toy_graph, sampler, 0, 1.0, attention=False)
    sampler.policy.update(0, seen)
    others = np.setdiff1d(np.arange(toy_graph.num_nodes), seen.dst)
    for node in others:
        np.testing.assert_array_equal(sampler.policy.edge_prob(0, node), 1 / toy_graph.degree[node])
    state = sampler.state_dict()
    changed = np.flatnonzero(state["exp3.0.excess"].numpy())
    assert set(changed) <= set(seen.edge)
    assert not state["exp3.1.excess"].any()


def test_presets_are_the_papers_and_the_released_codes(toy_graph):
    paper = Bliss(toy_graph, [5], policy="exp3").policy.config
    released = Bliss(toy_graph, [5], policy="exp3-released").policy.config
    assert (paper.eta, paper.step) == pytest.approx((0.4, 0.4e-6))
    assert (released.eta, released.step) == (0.1, 0.01)
