"""Control variates: unbiased whatever the history, exact if it is right, and part of the state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch.nn import functional

from bliss import InputError
from bliss.block import Block
from bliss.nn import GNN, ModelConfig
from bliss.nn.aggregate import aggregate
from bliss.samplers import PLADIES, VRGCN, Bliss, Full, Neighbor
from bliss.samplers.configs import BlissConfig, PLADIESConfig
from bliss.samplers.control import ControlVariate
from tests.statistics import ROUNDING, features, full_aggregate, heavy_tailed_graph, normal_limit

FALSE_ALARM = 1e-6  # chance that a correct sampler fails, in each case
TIMES = 4000
TARGETS = np.array([0, 2, 5, 9, 14, 20, 30, 40])


@dataclass(frozen=True, kw_only=True)
class WithPLADIESConfig(PLADIESConfig):
    """PLADIES with features and unbiased weights only."""

    needs_features: ClassVar[bool] = True
    estimators = ("ht",)


class WithPLADIES(ControlVariate, PLADIES):
    """A control variate on another sampler."""

    Config = WithPLADIESConfig


@dataclass(frozen=True, kw_only=True)
class WithBlissConfig(BlissConfig):
    """BLISS with features and unbiased weights only."""

    needs_features: ClassVar[bool] = True
    estimators = ("ht",)


class WithBliss(ControlVariate, Bliss):
    """A control variate on a sampler that learns by itself."""

    Config = WithBlissConfig


KINDS = {
    "vrgcn": (VRGCN, 5, "mean"),
    "vrgcn-gcn": (VRGCN, 5, "gcn"),
    "vrgcn-replacing": (lambda *a, **o: VRGCN(*a, replace=True, **o), 5, "mean"),
    "pladies-weights": (WithPLADIES, 36, "weights"),
}
every_kind = pytest.mark.parametrize("kind", KINDS)
HISTORIES = {
    "something": np.random.default_rng(9).normal(1, 2, (60, 3)),
    "near": features() + np.random.default_rng(9).normal(0, 0.1, (60, 3)),
    "right": features(),
}


def make(kind: str, history: np.ndarray) -> ControlVariate:
    sampler, budget, norm = KINDS[kind]
    return sampler(heavy_tailed_graph(norm), [budget], x=history.astype(np.float32))


@lru_cache
def draws(kind: str, history: str) -> dict[str, np.ndarray]:
    """Aggregates of the same x, by draw, and of mutants that leave one term out. [N, D, F]."""
    sampler = make(kind, HISTORIES[history])
    x = torch.from_numpy(features().astype(np.float32))
    found = {name: np.zeros((TIMES, TARGETS.size, 3)) for name in ("true", "no baseline", "plain")}
    for step in range(TIMES):
        (block,) = sampler.sample(TARGETS, step)
        inputs = x[block.src]
        found["true"][step] = aggregate(block, inputs)
        found["no baseline"][step] = found["true"][step] - block.control.baseline.numpy()
        found["plain"][step] = aggregate(replace(block, control=None), inputs)
    return found


def worst_z(samples: np.ndarray, kind: str) -> float:
    graph = heavy_tailed_graph(KINDS[kind][2])
    exact = full_aggregate(graph, TARGETS, features())
    # sums of terms of both signs round more than one weight does
    rounding = 50 * ROUNDING * (1 + full_aggregate(graph, TARGETS, np.abs(features())))
    error = np.hypot(samples.std(0, ddof=1) / np.sqrt(TIMES), rounding)
    return float(np.abs((samples.mean(0) - exact) / error).max())


@pytest.mark.parametrize("history", ["something", "near"])
@every_kind
def test_aggregate_is_unbiased_whatever_the_history(kind, history):
    found = draws(kind, history)
    limit = normal_limit(FALSE_ALARM, found["true"][0].size)
    assert worst_z(found["true"], kind) < limit
    assert worst_z(found["no baseline"], kind) > limit  # mutant


@every_kind
def test_variance_is_that_of_the_change_since_the_history(kind):
    plain = draws(kind, "near")["plain"].var(0).sum()
    assert draws(kind, "near")["true"].var(0).sum() < 0.05 * plain  # changes are 0.1 of about 1
    assert draws(kind, "something")["true"].var(0).sum() > plain  # worse than none: it is wrong


@every_kind
def test_aggregate_is_exact_where_the_history_is_right(kind):
    sampler = make(kind, HISTORIES["right"])
    exact = full_aggregate(sampler.graph, TARGETS, features())
    x = torch.from_numpy(features().astype(np.float32))
    for step in range(20):
        (block,) = sampler.sample(TARGETS, step)
        assert block.num_edges < sampler.graph.degree[TARGETS].sum()  # something was left out
        np.testing.assert_allclose(aggregate(block, x[block.src]), exact, rtol=1e-4, atol=1e-5)
        control = replace(block.control, baseline=torch.zeros_like(block.control.baseline))
        mutant = replace(block, control=control)
        assert not np.allclose(aggregate(mutant, x[block.src]), exact, rtol=0.1)


def test_noise_of_dropout_has_the_variance_of_a_full_sum():
    # A history that is right, and dropout of rate 1/2: the full sum has variance
    # sum_j alpha_ij^2 x_j^2; the plain 1 / p would have about 1 / p times as much.
    sampler = make("vrgcn", HISTORIES["right"])
    x = torch.from_numpy(features().astype(np.float32))
    generator = torch.Generator().manual_seed(0)
    kept, plain = np.zeros((TIMES, 8, 3)), np.zeros((TIMES, 8, 3))
    for step in range(TIMES):
        (block,) = sampler.sample(TARGETS, step)
        inputs = x[block.src]
        mask = 2.0 * (torch.rand(inputs.shape, generator=generator) < 0.5)
        kept[step] = aggregate(block, inputs * mask, inputs)
        plain[step] = aggregate(block, inputs * mask)  # mutant: all of it is change
    assert worst_z(kept, "vrgcn") < normal_limit(FALSE_ALARM, kept[0].size)
    graph = sampler.graph
    expected = full_aggregate(graph, TARGETS, features() ** 2) / graph.degree[TARGETS][:, None]
    np.testing.assert_allclose(kept.var(0).sum(), expected.sum(), rtol=0.1)
    assert plain.var(0).sum() > 1.5 * expected.sum()


def test_gradients_are_those_of_the_weighted_sum_without_dropout():
    sampler = make("vrgcn", HISTORIES["something"])
    (block,) = sampler.sample(TARGETS, 0)
    x = torch.from_numpy(features().astype(np.float32))[block.src].requires_grad_()
    mask = 2.0 * (torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.5)
    for dropped in (x, x * mask):
        (grad,) = torch.autograd.grad(aggregate(block, dropped, x).sum(), x)
        weight = block.edge_weight[:, None].expand(-1, 3)
        if dropped is not x:
            noise = block.edge_weight * block.edge_prob.sqrt()
            weight = weight + noise[:, None] * (mask[block.row] - 1)
        expected = torch.zeros_like(x).index_add(0, block.row, weight)
        torch.testing.assert_close(grad, expected)


# --- in a network ------------------------------------------------------------------------------


def network(dropout: float = 0.0, model: str = "sage") -> GNN:
    torch.manual_seed(0)
    return GNN(3, 4, ModelConfig(model=model, layers=2, hidden=8, dropout=dropout))


def step(model: GNN, sampler: ControlVariate, x: torch.Tensor, number: int) -> list[Block]:
    blocks = sampler.sample(TARGETS, number)
    loss = functional.cross_entropy(model(x[blocks[0].src], blocks), torch.arange(8) % 4)
    loss.backward()
    sampler.update(blocks)
    return blocks


@pytest.mark.parametrize("model", ["sage", "gcn"])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_history_is_the_newest_input_before_dropout(dropout, model):
    graph = heavy_tailed_graph("gcn" if model == "gcn" else "mean")
    x = torch.from_numpy(features().astype(np.float32))
    sampler, net = VRGCN(graph, [2, 2], x=x), network(dropout, model)
    assert sampler.history(1) is None
    assert sampler.history(0).ctypes.data == x.numpy().ctypes.data  # features are not copied
    expected = np.zeros((60, 8), np.float32)
    for number in range(5):
        blocks = step(net, sampler, x, number)
        assert (number == 0) == (blocks[1].control is None)
        torch.testing.assert_close(blocks[0].control.history, x[blocks[0].src])
        seen = blocks[1].observation
        expected[blocks[1].src.numpy()] = seen.input.numpy()
        np.testing.assert_array_equal(sampler.history(1), expected)
        assert (seen.input >= 0).all()  # after ReLU: dropout has not touched it
        torch.testing.assert_close(seen.norm, seen.input.norm(dim=1))


def test_a_network_at_rest_becomes_exact():
    # With weights that do not change, two passes over all nodes leave every history right.
    graph = heavy_tailed_graph()
    x = torch.from_numpy(features().astype(np.float32))
    sampler, net = VRGCN(graph, [2, 2], x=x), network()
    full = net(x, Full(graph, layers=2).sample(np.arange(60), 0))
    for number in range(3):
        blocks = sampler.sample(np.arange(60), number)
        out = net(x[blocks[0].src], blocks)
        sampler.update(blocks)
        is_exact = torch.allclose(out, full, atol=1e-5)
        assert is_exact == (number > 0)
    plain = Neighbor(graph, [2, 2]).sample(np.arange(60), 3)
    assert not torch.allclose(net(x[plain[0].src], plain), full, atol=0.1)


def test_a_policy_below_goes_on_learning_and_both_are_saved():
    graph = heavy_tailed_graph()
    x = torch.from_numpy(features().astype(np.float32))
    sampler = WithBliss(graph, [40, 20], x=x)
    net = network()
    for number in range(4):
        step(net, sampler, x, number)
    state = {name: tensor.clone() for name, tensor in sampler.state_dict().items()}
    names = {name for name in state if not name.startswith("history.")}
    assert names == set(Bliss(graph, [40, 20]).state_dict())
    assert state["history.1"].shape == (60, 8)
    other = WithBliss(graph, [40, 20], x=x)
    other.load_state_dict(state)
    for ours, theirs in zip(sampler.sample(TARGETS, 9), other.sample(TARGETS, 9), strict=True):
        for field in ("src", "edge_weight"):
            assert torch.equal(getattr(ours, field), getattr(theirs, field))
        for field in ("history", "baseline"):
            assert torch.equal(getattr(ours.control, field), getattr(theirs.control, field))
    step(net, sampler, x, 10)
    assert not torch.equal(state["history.1"], sampler.state_dict()["history.1"])
    np.testing.assert_array_equal(other.history(1), state["history.1"])  # a copy was taken


def test_blocks_move_with_their_history():
    sampler = make("vrgcn", HISTORIES["near"])
    (block,) = sampler.sample(TARGETS, 0)
    moved = block.to("cpu", non_blocking=True)
    assert moved.keeps_input
    assert torch.equal(moved.control.history, block.control.history)
    assert torch.equal(moved.control.baseline, block.control.baseline)


def test_bad_input_gets_one_sentence():
    graph, x = heavy_tailed_graph(), np.ones((60, 3), np.float32)
    with pytest.raises(InputError, match=r"x is float32 of shape \(9, 3\)"):
        VRGCN(graph, [2], x=x[:9])
    with pytest.raises(InputError, match="estimator='hajek'"):
        VRGCN(graph, [2], x=x, estimator="hajek")
    with pytest.raises(InputError, match="estimator='hajek'"):
        WithPLADIES(graph, [2], x=x, estimator="hajek")
    sampler = VRGCN(graph, [2, 2], x=x)
    step(network(), sampler, torch.from_numpy(x), 0)
    foreign = Neighbor(graph, [2, 2]).sample(TARGETS, 0)
    for block in foreign:
        block.observe(torch.ones(block.num_src, 2))
    with pytest.raises(InputError, match="drawn by a sampler without a history"):
        sampler.update(foreign)
    wider = VRGCN(graph, [2, 2], x=x).sample(TARGETS, 0)
    for block in wider:
        block.observe(torch.ones(block.num_src, 9))
    with pytest.raises(InputError, match="width 9, but its history has width 8"):
        sampler.update(wider)
    for name, value in {"history.1": torch.ones(59, 8), "history.7": torch.ones(60, 8)}.items():
        with pytest.raises(InputError, match=f"{name} is float32"):
            sampler.load_state_dict({name: value})
