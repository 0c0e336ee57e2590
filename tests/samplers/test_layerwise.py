"""What a sampled layer looks like, and that nothing but its inputs decides it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bliss import LADIES, PLADIES, SKETCH, Bliss, Block, Graph, InputError, LayerSampler
from bliss.policies import POLICIES, Exp3Config, NodeConfig
from bliss.rng import derive_key
from tests.conftest import heavy_tailed_pairs

SAMPLERS = {
    "ladies": LADIES,
    "ladies-replacing": lambda *args, **kwargs: LADIES(*args, replace=True, **kwargs),
    "sketch": SKETCH,
    "pladies": PLADIES,
    "bliss": Bliss,
    "bliss-exp3": lambda *args, **kwargs: Bliss(*args, policy="exp3-released", **kwargs),
}
every_sampler = pytest.mark.parametrize("make", SAMPLERS.values(), ids=SAMPLERS)


def train(sampler: LayerSampler, steps: int, start: int = 0) -> None:
    """Learn from sizes that belong to nodes and layers."""
    for step in range(start, start + steps):
        blocks = sampler.sample(np.arange(10), step)
        for layer, block in enumerate(blocks):
            block.observe(1.0 + (block.src[:, None] * (layer + 1)) % 7)
        sampler.update(blocks)


def assert_equal(some: list[Block], others: list[Block]) -> None:
    for one, other in zip(some, others, strict=True):
        for name in ("dst", "src", "indptr", "row", "edge", "edge_prob", "edge_weight"):
            assert torch.equal(getattr(one, name), getattr(other, name)), name


@every_sampler
def test_blocks_chain_and_speak_of_edges_of_the_graph(make, toy_graph):
    seeds = np.array([3, 50, 0, 7, 59])  # 59 has only itself
    blocks = make(toy_graph, [20, 10, 6]).sample(seeds, step=4)
    assert blocks[-1].dst.tolist() == seeds.tolist()
    for block, below in zip(blocks[1:], blocks, strict=False):
        assert torch.equal(block.src, below.dst)
    for block in blocks:
        assert torch.equal(block.src[: block.num_dst], block.dst)
        assert block.src.unique().numel() == block.num_src
        if block.prob is not None:  # SKETCH's have no closed form
            assert (block.prob[: block.num_dst] == 1).all()
        edge = block.edge.numpy()
        np.testing.assert_array_equal(toy_graph.indices[edge], block.src[block.row].numpy())
        target = np.searchsorted(toy_graph.indptr, edge, side="right") - 1
        np.testing.assert_array_equal(target, block.dst[block.col].numpy())
        assert torch.equal(block.edge_index, torch.stack([block.row, block.col]))
        # every edge between a kept source and a target is there
        kept = set(block.src.tolist())
        for t, i in enumerate(block.dst.tolist()):
            row = toy_graph.indices[toy_graph.indptr[i] : toy_graph.indptr[i + 1]]
            assert sum(j in kept for j in row.tolist()) == block.indptr[t + 1] - block.indptr[t]


@pytest.mark.parametrize("norm", ["mean", "gcn", "weights"])
def test_estimators_are_their_formulas(norm):
    pairs = heavy_tailed_pairs(40, 200)
    weight = np.random.default_rng(0).random(200) if norm == "weights" else None
    graph = Graph.from_edge_index(pairs, 40, weight=weight, norm=norm)
    plain = PLADIES(graph, [10]).sample(np.arange(6), 0)[0]
    dst, edge = plain.dst[plain.col].numpy(), plain.edge.numpy()
    alpha = {
        "mean": 1 / graph.degree[dst],
        "gcn": 1 / np.sqrt(graph.degree[dst] * graph.degree[graph.indices[edge]]),
        "weights": graph.weight[edge] if norm == "weights" else None,
    }[norm]
    ht = alpha / plain.prob[plain.row].double().numpy()
    col = plain.col.numpy()
    hajek = ht * graph.rows(dst).coefficient_sum() / np.bincount(col, weights=ht)[col]
    for name, expected in {"ht": ht, "hajek": hajek}.items():
        block = PLADIES(graph, [10], estimator=name).sample(np.arange(6), 0)[0]
        np.testing.assert_allclose(block.edge_weight.numpy(), expected, rtol=1e-6)


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_relabelling_nodes_permutes_probabilities(seed):
    random = np.random.default_rng(seed)
    nodes = int(random.integers(5, 40))
    pairs = random.integers(0, nodes, (2, 5 * nodes))
    name = random.permutation(nodes)
    seeds = random.permutation(nodes)[: random.integers(1, nodes)]
    budget = int(random.integers(1, nodes))
    graph, renamed = Graph.from_edge_index(pairs, nodes), Graph.from_edge_index(name[pairs], nodes)
    for policy in POLICIES:
        chances = []
        for g, targets in ((graph, seeds), (renamed, name[seeds])):
            sampler = LayerSampler(g, [budget], policy=policy, draw=PLADIES(g, [1]).draw)
            if policy.startswith(("exp3", "node")):
                block = LayerSampler(g, [nodes], policy="static", draw=sampler.draw).sample(
                    targets, 0
                )[0]
                own = np.argsort(name) if g is renamed else np.arange(nodes)
                block.observe(torch.from_numpy(1.0 + own[block.src.numpy()] % 5)[:, None])
                sampler.update([block])
            candidate, prob = sampler.inclusion(targets, 0)
            chance = np.zeros(nodes)
            chance[candidate] = prob
            chances.append(chance)
        np.testing.assert_allclose(chances[1][name], chances[0], rtol=1e-5)


def test_a_coin_belongs_to_its_node_whatever_the_order_of_seeds(toy_graph):
    sampler = PLADIES(toy_graph, [10])
    seeds = np.arange(8)
    forward, backward = sampler.sample(seeds, 0)[0], sampler.sample(seeds[::-1], 0)[0]
    assert set(forward.src.tolist()) == set(backward.src.tolist())


@pytest.mark.parametrize("policy", [p for p in POLICIES if not p.startswith("node")])
def test_zero_weights_do_no_harm(policy):
    graph = Graph.from_edge_index(
        [[1, 2, 3, 4], [0, 0, 0, 0]], weight=[0, 0, 1, 2], norm="weights", self_loops="keep"
    )
    for step in range(50):
        block = PLADIES(graph, [2], policy=policy).sample([0], step)[0]
        assert torch.isfinite(block.edge_weight).all()
        assert block.src.unique().numel() == block.num_src


def test_an_interrupt_between_kernels_leaves_no_trace(toy_graph, monkeypatch):
    sampler, fresh = PLADIES(toy_graph, [20]), PLADIES(toy_graph, [20])
    sampler.sample(np.arange(9), 0)
    interrupted = pytest.raises(KeyboardInterrupt)
    with monkeypatch.context() as patch, interrupted:
        patch.setattr(
            "bliss.kernels.frontier.collect_mass",
            lambda *_: (_ for _ in ()).throw(KeyboardInterrupt),
        )
        sampler.sample(np.arange(5), 1)
    assert_equal(sampler.sample(np.arange(9), 2), fresh.sample(np.arange(9), 2))


def test_keys_differ_between_layers_and_steps():
    keys = {int(derive_key(0, step, layer)) for step in range(100) for layer in range(5)}
    assert len(keys) == 500


def watched(sampler: LayerSampler) -> list[Block]:
    blocks = sampler.sample([0, 1, 2], 0)
    for block in blocks:
        block.observe(torch.ones(block.num_src, 1))
    return blocks


REFUSED = {
    "no seeds": (lambda g: PLADIES(g, [5]).sample([], 0), "seeds is empty"),
    "same seed twice": (lambda g: PLADIES(g, [5]).sample([1, 2, 1], 0), "seeds holds node 1 more"),
    "seed too large": (lambda g: PLADIES(g, [5]).sample([60], 0), "seeds holds 60"),
    "negative seed": (lambda g: PLADIES(g, [5]).sample([-3], 0), "seeds holds -3"),
    "float seeds": (lambda g: PLADIES(g, [5]).sample([0.5], 0), "seeds has type float64"),
    "negative step": (lambda g: PLADIES(g, [5]).sample([0], -1), "step=-1"),
    "budget of zero": (lambda g: PLADIES(g, [5, 0]), r"budgets\[1\]=0"),
    "negative budget": (lambda g: PLADIES(g, [-5]), r"budgets\[0\]=-5"),
    "fractional budget": (lambda g: PLADIES(g, [1.5]), r"budgets\[0\]=1.5"),
    "no budgets": (lambda g: PLADIES(g, []), "budgets is empty"),
    "one number": (lambda g: PLADIES(g, 5), "budgets=5 must be a list"),
    "wrong number": (lambda g: PLADIES(g, [5, 5], layers=3), "2 entries for 3 layers"),
    "unknown estimator": (lambda g: PLADIES(g, [5], estimator="hat"), "estimator='hat'"),
    "unknown policy": (lambda g: Bliss(g, [5], policy="exp4"), "policy='exp4'"),
    "unknown thinning": (lambda g: PLADIES(g, [5], thinning="no"), "thinning='no'"),
    "unknown option": (lambda g: Bliss(g, [5], delta=1.0), "delta=1.0 is not an option"),
    "eta of zero": (lambda g: Bliss(g, [5], policy="exp3", eta=0.0), "eta=0.0"),
    "eta above one": (lambda g: Bliss(g, [5], policy="node", eta=1.5), "eta=1.5"),
    "eta not a number": (lambda g: Exp3Config(eta=float("nan")), "eta=nan"),
    "delta of zero": (lambda g: Exp3Config(delta=0.0), "delta=0.0"),
    "negative delta": (lambda g: Exp3Config(delta=-1.0), "delta=-1.0"),
    "memory of zero": (lambda g: NodeConfig(memory=0.0), "memory=0.0"),
    "another graph's policy": (
        lambda g: Bliss(g, [5], policy=Bliss(g, [5, 5]).policy),
        "was built for 2 layers",
    ),
    "nothing observed": (
        lambda g: (s := Bliss(g, [5])).update(s.sample([0], 0)),
        "this block was not observed",
    ),
    "too few blocks": (
        lambda g: (s := Bliss(g, [5, 5])).update(watched(s)[:1]),
        "1 blocks were given for 2 layers",
    ),
    "blocks in the wrong order": (
        lambda g: (s := Bliss(g, [9, 5])).update(watched(s)[::-1]),
        "blocks do not chain",
    ),
    "blocks of another graph": (
        lambda g: Bliss(Graph.from_edge_index([[0], [1]]), [5]).update(watched(Bliss(g, [5]))),
        "a block's dst holds 2, which is not in",
    ),
    "raw scores": (
        lambda g: (
            (b := PLADIES(g, [5]).sample([0], 0)[0]).observe(
                torch.ones(b.num_src, 1), -torch.ones(b.num_edges)
            ),
            b.feedback(),
        ),
        "attention holds -1",
    ),
    "a policy's class": (lambda g: Bliss(g, [5], policy=NodeConfig), "is not a policy"),
    "eta of text": (lambda g: Exp3Config(eta="much"), "eta='much'"),
    "short mask": (lambda g: PLADIES(g, [5]).sample([True], 0), r"mask of shape \(1,\)"),
    "wrong rows observed": (
        lambda g: PLADIES(g, [5]).sample([0], 0)[0].observe(torch.ones(999, 2)),
        r"shape \(999, 2\), but the block has",
    ),
    "wrong attention": (
        lambda g: (b := PLADIES(g, [5]).sample([0], 0)[0]).observe(
            torch.ones(b.num_src, 1), torch.ones(999, 2)
        ),
        r"attention has shape \(999, 2\)",
    ),
    "state of another policy": (
        lambda g: Bliss(g, [5]).load_state_dict(Bliss(g, [5], policy="exp3").state_dict()),
        "but policy 'node'",
    ),
    "another norm": (lambda g: PLADIES(g, [5], norm="gcn"), "norm='gcn' differs from the graph's"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_gets_one_sentence(case, toy_graph):
    attempt, message = REFUSED[case]
    with pytest.raises(InputError, match=message) as caught:
        attempt(toy_graph)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_nan_is_refused_before_anything_is_learnt(toy_graph):
    sampler = Bliss(toy_graph, [10, 5])
    blocks = sampler.sample(np.arange(4), 0)
    for block in blocks:
        block.observe(torch.ones(block.num_src, 1))
    blocks[-1].observe(torch.full((blocks[-1].num_src, 1), torch.nan))
    before = {name: tensor.clone() for name, tensor in sampler.state_dict().items()}
    with pytest.raises(InputError, match="the observed norm holds NaN"):
        sampler.update(blocks)
    for name, tensor in sampler.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_an_update_that_fails_half_way_is_not_applied_twice(toy_graph, monkeypatch):
    sampler = Bliss(toy_graph, [20, 8])
    original, calls = type(sampler.policy).apply, []

    def interrupted(self, layer, news):
        calls.append(layer)
        if len(calls) == 2:
            raise KeyboardInterrupt
        original(self, layer, news)

    monkeypatch.setattr(type(sampler.policy), "apply", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(sampler, 1)
    train(sampler, 1)
    assert calls == [0, 1, 0, 1]


def test_a_state_survives_torch_save(toy_graph, tmp_path):
    sampler, other = Bliss(toy_graph, [20, 8]), Bliss(toy_graph, [20, 8])
    train(sampler, 3)
    torch.save(sampler.state_dict(), tmp_path / "state.pt")
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert_equal(sampler.sample(np.arange(10), 9), other.sample(np.arange(10), 9))


def test_flushing_subnormal_numbers_changes_nothing(toy_graph):
    expected = PLADIES(toy_graph, [20]).sample(np.arange(40), 0)
    torch.set_flush_denormal(True)
    try:
        assert_equal(PLADIES(toy_graph, [20]).sample(np.arange(40), 0), expected)
    finally:
        torch.set_flush_denormal(False)


def test_a_mask_and_a_tensor_are_seeds_too(toy_graph):
    sampler = PLADIES(toy_graph, [20])
    mask = np.arange(60) < 5
    for seeds in (mask, torch.from_numpy(mask), torch.arange(5), range(5)):
        assert_equal(sampler.sample(seeds, 0), sampler.sample(np.arange(5), 0))


def test_pairs_that_pyg_returns_are_checked_against_the_edges(toy_graph):
    block = PLADIES(toy_graph, [20]).sample(np.arange(5), 0)[0]
    x, attention = torch.ones(block.num_src, 1), torch.arange(2.0 * block.num_edges).view(-1, 2)
    block.observe(x, (block.edge_index, attention))
    torch.testing.assert_close(block.observation.attention, attention.mean(1))
    with pytest.raises(InputError, match="add_self_loops=False"):
        block.observe(x, (block.edge_index.flip(1), attention))
    block.observe(x)
    assert block.observation.attention is None
