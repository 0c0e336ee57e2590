"""Histories: unbiased whatever they hold, exact if they are right, aged, and part of the state."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from bliss import InputError
from bliss.arrays import NOTHING
from bliss.feedback import Survey
from bliss.nn import GNN, ModelConfig
from bliss.nn.aggregate import aggregate, aggregate_noise
from bliss.nn.block import Block
from bliss.samplers import Full, Neighbor, Sampler, sampler_config
from tests.statistics import ROUNDING, features, full_aggregate, heavy_tailed_graph, normal_limit

FALSE_ALARM = 1e-6  # chance that a correct sampler fails, in each case
TIMES = 1200
TARGETS = np.array([0, 2, 5, 9, 14, 20, 30, 40])
KINDS: dict[str, tuple[str, int, str, dict[str, Any]]] = {
    "vrgcn": ("vrgcn", 5, "mean", {}),
    "neighbor-gcn": ("neighbor", 5, "gcn", {}),
    "neighbor-replacing": ("neighbor", 5, "mean", {"replace": True}),
    "labor": ("labor", 5, "mean", {"estimator": "ht"}),
    "bliss": ("bliss", 36, "mean", {}),
    "bliss-ageless": ("bliss", 36, "mean", {}),  # ages matter to the policy alone
    "pladies-weights": ("pladies", 36, "weights", {}),
    "ladies": ("ladies", 36, "gcn", {"estimator": "ht", "replace": False}),
    "sketch": ("sketch", 36, "mean", {}),
}
every_kind = pytest.mark.parametrize("kind", KINDS)
HISTORIES = {
    "something": np.random.default_rng(9).normal(1, 2, (60, 3)),
    "near": features() + np.random.default_rng(9).normal(0, 0.1, (60, 3)),
    "right": features(),
}


def make(name: str, norm: str, budgets: list[int], widths: list[int], **options: Any) -> Sampler:
    config = sampler_config(name, **{"history": "nodes", **options})
    x = features().astype(np.float32)[:, : widths[0]]
    return config.build(heavy_tailed_graph(norm), budgets, x=x, widths=widths)


def one_layer(kind: str, history: np.ndarray, **options: Any) -> Sampler:
    """A sampler with one sampled layer whose inputs are 3 numbers, and a given history of them."""
    name, budget, norm, own = KINDS[kind]
    sampler = make(name, norm, [budget], [3, 3], **own, **options)
    for number in range(20):  # a policy learns sizes and ages; they must not matter to the mean
        first, block = sampler.sample(TARGETS, 10_000 + number)
        block.observe(number * torch.from_numpy(features().astype(np.float32))[block.src])
        sampler.update([first, block])
    state = sampler.state_dict()
    state["history.0.value"].copy_(torch.from_numpy(history.astype(np.float32)))
    state["history.0.stamp"].copy_(torch.arange(60) % 7 - 1)  # ages, and nodes never seen
    state["history.now"][0] = 40
    if kind == "bliss-ageless":
        prob = sampler.inclusion(TARGETS, 0).prob
        sampler.policy.age_factor = lambda layer: NOTHING
        assert not np.allclose(sampler.inclusion(TARGETS, 0).prob, prob, rtol=0.01)
    return sampler


@lru_cache
def draws(kind: str, history: str) -> dict[str, np.ndarray]:
    """Aggregates of the same x, by draw, and those of mutants. [N, D, F]."""
    sampler = one_layer(kind, HISTORIES[history])
    stale = torch.from_numpy(full_aggregate(sampler.graph, TARGETS, HISTORIES["right"] + 0.1))
    x = torch.from_numpy(features().astype(np.float32))
    names = ("true", "stale baseline", "without 1 / p", "history written first", "plain")
    found = {name: np.zeros((TIMES, TARGETS.size, 3)) for name in names}
    for step in range(TIMES):
        _, block = sampler.sample(TARGETS, step)
        inputs, control = x[block.src], block.control
        found["true"][step] = aggregate(block, inputs)
        old = replace(control, baseline=stale)
        found["stale baseline"][step] = aggregate(replace(block, control=old), inputs)
        light = replace(block, edge_weight=block.edge_weight * block.edge_prob)
        found["without 1 / p"][step] = aggregate(light, inputs)
        early = replace(control, history=inputs)
        found["history written first"][step] = aggregate(replace(block, control=early), inputs)
        found["plain"][step] = aggregate(replace(block, control=None), inputs)
    return found


def worst_z(samples: np.ndarray, kind: str) -> float:
    graph = heavy_tailed_graph(KINDS[kind][2])
    exact = full_aggregate(graph, TARGETS, features())
    # sums of terms of both signs round more than one weight does
    rounding = 50 * ROUNDING * (1 + full_aggregate(graph, TARGETS, np.abs(features())))
    error = np.hypot(samples.std(0, ddof=1) / np.sqrt(len(samples)), rounding)
    return float(np.abs((samples.mean(0) - exact) / error).max())


@pytest.mark.slow
@every_kind
def test_aggregate_is_unbiased_whatever_the_history(kind):
    found = draws(kind, "something")
    limit = normal_limit(FALSE_ALARM, found["true"][0].size)
    assert worst_z(found["true"], kind) < limit
    for mutant in ("stale baseline", "without 1 / p", "history written first"):
        assert worst_z(found[mutant], kind) > limit, mutant


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["vrgcn", "bliss", "ladies"])
def test_variance_is_that_of_the_change_since_the_history(kind):
    plain = draws(kind, "near")["plain"].var(0).sum()
    assert draws(kind, "near")["true"].var(0).sum() < 0.05 * plain  # changes are 0.1 of about 1
    assert draws(kind, "something")["true"].var(0).sum() > plain  # worse than none: it is wrong


@every_kind
def test_aggregate_is_exact_where_the_history_is_right(kind):
    sampler = one_layer(kind, HISTORIES["right"])
    exact = full_aggregate(sampler.graph, TARGETS, features())
    x = torch.from_numpy(features().astype(np.float32))
    for step in range(10):
        _, block = sampler.sample(TARGETS, step)
        assert block.num_edges < sampler.graph.degree[TARGETS].sum()  # something was left out
        np.testing.assert_allclose(aggregate(block, x[block.src]), exact, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_half_precision_is_near_and_still_unbiased():
    sampler = one_layer("pladies-weights", HISTORIES["something"], history_type="float16")
    assert sampler.history.value(0).dtype == np.float16
    x = torch.from_numpy(features().astype(np.float32))
    samples = np.zeros((TIMES, TARGETS.size, 3))
    for step in range(TIMES):
        _, block = sampler.sample(TARGETS, step)
        samples[step] = aggregate(block, x[block.src])
    assert worst_z(samples, "pladies-weights") < normal_limit(FALSE_ALARM, samples[0].size)
    rounded = HISTORIES["something"].astype(np.float16)
    np.testing.assert_array_equal(block.control.history, rounded[block.src.numpy()])
    baseline = full_aggregate(sampler.graph, TARGETS, rounded.astype(np.float64))
    np.testing.assert_allclose(block.control.baseline, baseline, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_noise_of_dropout_has_the_variance_of_a_full_sum():
    # A history that is right, and dropout of rate 1/2: the full sum has variance
    # sum_j alpha_ij^2 x_j^2; the plain 1 / p would have about 1 / p times as much.
    sampler = one_layer("vrgcn", HISTORIES["right"])
    x = torch.from_numpy(features().astype(np.float32))
    generator = torch.Generator().manual_seed(0)
    kept, plain = np.zeros((TIMES, 8, 3)), np.zeros((TIMES, 8, 3))
    for step in range(TIMES):
        _, block = sampler.sample(TARGETS, step)
        inputs = x[block.src]
        noise = inputs * (2.0 * (torch.rand(inputs.shape, generator=generator) < 0.5) - 1)
        kept[step] = aggregate(block, inputs) + aggregate_noise(block, noise)
        plain[step] = aggregate(block, inputs + noise)  # mutant: all of it is change
    assert worst_z(kept, "vrgcn") < normal_limit(FALSE_ALARM, kept[0].size)
    graph = sampler.graph
    expected = full_aggregate(graph, TARGETS, features() ** 2) / graph.degree[TARGETS][:, None]
    np.testing.assert_allclose(kept.var(0).sum(), expected.sum(), rtol=0.1)
    assert plain.var(0).sum() > 1.5 * expected.sum()


# --- in a network ------------------------------------------------------------------------------


def network(dropout: float = 0.0, model: str = "sage", layers: int = 3, **options: Any) -> GNN:
    torch.manual_seed(0)
    config = ModelConfig(model=model, layers=layers, hidden=8, dropout=dropout, **options)
    return GNN(3, 4, config)


def step(model: GNN, sampler: Sampler, x: torch.Tensor, number: int) -> list[Block]:
    blocks = sampler.sample(TARGETS, number)
    loss = functional.cross_entropy(model(x[blocks[0].src], blocks), torch.arange(8) % 4)
    loss.backward()
    sampler.update(blocks)
    return blocks


def hidden_inputs(model: GNN, graph: Any, x: torch.Tensor) -> list[torch.Tensor]:
    """Input of every layer at all nodes, without dropout, from full neighbourhoods."""
    model.eval()
    (block,) = Full(graph, layers=1).sample(np.arange(60), 0)
    found = [x]
    for number in range(model.config.layers - 1):
        found.append(model.layer(number, found[-1], block).detach())
    model.train()
    return found


@pytest.mark.parametrize("model", ["sage", "gcn"])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_history_is_the_newest_input_without_dropout_in_any_layer(dropout, model):
    norm = "gcn" if model == "gcn" else "mean"
    x = torch.from_numpy(features().astype(np.float32))
    net = network(dropout, model)
    sampler = make("vrgcn", norm, [2, 2], [3, 8, 8])
    expected = np.zeros((2, 60, 8), np.float32)
    exact = hidden_inputs(net, sampler.graph, x)[1]  # the first hop is exact, so this is too
    for number in range(4):
        blocks = step(net, sampler, x, number)
        for layer, block in enumerate(blocks[1:]):
            seen = block.observation
            expected[layer, block.src.numpy()] = seen.input.numpy()
            np.testing.assert_array_equal(sampler.history.value(layer), expected[layer])
            change = seen.input - block.control.history
            torch.testing.assert_close(seen.norm, change.norm(dim=1))
        lowest = blocks[1].observation.input
        torch.testing.assert_close(lowest, exact[blocks[1].src], rtol=1e-4, atol=1e-5)


def test_a_network_at_rest_becomes_exact_layer_by_layer():
    # With weights that do not change, a pass over all nodes makes one more layer's history right.
    x = torch.from_numpy(features().astype(np.float32))
    sampler, net = make("vrgcn", "mean", [2, 2], [3, 8, 8]), network()
    full = net(x, Full(sampler.graph, layers=3).sample(np.arange(60), 0))
    for number in range(4):
        blocks = sampler.sample(np.arange(60), number)
        out = net(x[blocks[0].src], blocks)
        sampler.update(blocks)
        assert torch.allclose(out, full, atol=1e-5) == (number > 1)
    plain = Neighbor(sampler.graph, [2, 2, 2]).sample(np.arange(60), 3)
    assert not torch.allclose(net(x[plain[0].src], plain), full, atol=0.1)


@pytest.mark.slow
def test_gradients_are_those_of_full_neighbourhoods_where_histories_are_right():
    # Histories are constants, so a gradient through a sampled layer is an unbiased estimate: its
    # mean over draws is the full gradient. False-alarm rate 1e-6; the mutant scales it by 1.1.
    x = torch.from_numpy(features().astype(np.float32))
    sampler, net = make("bliss", "mean", [30], [3, 8], policy="static"), network(layers=2)
    inputs = hidden_inputs(net, sampler.graph, x)
    sampler.history.survey(0, Survey(NOTHING, input=inputs[1].numpy()))
    weight = net.convs[0].others.weight
    blocks = Full(sampler.graph, layers=2).sample(TARGETS, 0)
    (exact,) = torch.autograd.grad(net(x[blocks[0].src], blocks).square().sum(), weight)
    samples = np.zeros((600, *weight.shape))
    for number in range(len(samples)):
        blocks = sampler.sample(TARGETS, number)
        loss = net(x[blocks[0].src], blocks).square().sum()
        samples[number] = torch.autograd.grad(loss, weight)[0]
    error = samples.std(0, ddof=1) / np.sqrt(len(samples)) + 1e-5 * exact.abs().numpy()
    limit = normal_limit(FALSE_ALARM, exact.numel())
    assert (np.abs(samples.mean(0) - exact.numpy()) <= limit * error).all()
    assert not (np.abs(1.1 * samples.mean(0) - exact.numpy()) < limit * error).all()


@pytest.mark.slow
@pytest.mark.parametrize("normalisation", ["none", "batch"])
def test_dropout_has_the_variance_of_full_neighbourhoods_in_three_layers(normalisation):
    # Histories are right and weights at rest, so only dropout varies. Ratio of the logits'
    # variance to that with full neighbourhoods; a single stream of activations has 1.2 and more.
    # Statistics of batches vary, so with them histories are only nearly right: 1.06.
    x = torch.from_numpy(features().astype(np.float32))
    net = network(0.2, normalisation=normalisation)
    sampler = make("neighbor", "mean", [3, 3], [3, 8, 8])
    # the same first hop for all: dropout of the aggregated features is not what is compared
    first = sampler.first_hop.block(sampler.graph.rows(np.arange(60)))
    (above,) = Full(sampler.graph, layers=1).sample(np.arange(60), 0)
    with torch.no_grad():
        mean = net.eval()(x, [first, above, above])
        inputs, net = hidden_inputs(net, sampler.graph, x), net.train()
        for layer in (0, 1):
            sampler.history.survey(layer, Survey(NOTHING, input=inputs[layer + 1].numpy()))

        def scatter(draw: Any, forward: Any) -> float:
            out = np.stack([forward(draw(number)).numpy() for number in range(400)])
            return float(out.var(0).sum())

        def single(blocks: list[Block]) -> torch.Tensor:
            out = x
            for number, block in enumerate(blocks):
                out = net.layer(number, out, block)
            return out

        def sampled(number: int) -> list[Block]:
            return sampler.sample(np.arange(60), number)

        torch.manual_seed(1)
        full = scatter(lambda number: [first, above, above], single)
        streams = scatter(sampled, lambda blocks: net(x[blocks[0].src], blocks))
        mutant = scatter(sampled, lambda blocks: single(blocks))
    assert mean.shape == (60, 4)
    assert streams / full == pytest.approx(1.0, abs=0.12 if normalisation == "batch" else 0.06)
    assert mutant / full > 1.2


def test_a_belief_grows_with_the_age_of_a_history():
    # Inputs move by a random walk, so a change is about sqrt(age) of a step's.
    random = np.random.default_rng(0)
    sampler = make("bliss", "mean", [12], [3, 4])
    value = torch.from_numpy(random.normal(size=(60, 4)).astype(np.float32))
    for number in range(300):
        first, block = sampler.sample(TARGETS, number)
        block.observe(value[block.src])
        sampler.update([first, block])
        value = value + 0.1 * torch.from_numpy(random.normal(size=(60, 4)).astype(np.float32))
    factor = sampler.policy.age_factor(0)
    grown = factor[5] / factor[2]  # ages 16 to 31 over 2 and 3: sqrt(24 / 2.5) = 3.1
    assert 2.2 < grown < 4.2
    stamp = sampler.state_dict()["history.0.stamp"].numpy()
    before = sampler.inclusion(TARGETS, 0)
    old = before.candidate[np.argmax(sampler.history.ages(0, before.candidate))]
    place = list(before.candidate).index(old)
    stamp[old] = sampler.history.now[0]  # as if the last step had seen it
    assert sampler.inclusion(TARGETS, 0).prob[place] < before.prob[place]


def test_ages_count_steps_and_start_at_zero():
    x = torch.from_numpy(features().astype(np.float32))
    sampler, net = make("bliss", "mean", [12, 12], [3, 8, 8]), network()
    last, found = np.full(60, -1), {0}  # the step that wrote each history; ages that occurred
    assert (sampler.history.ages(0, np.arange(60)) == 0).all()
    for number in range(6):
        blocks = step(net, sampler, x, number)
        np.testing.assert_array_equal(
            blocks[1].feedback().age, np.where(last < 0, 0, number - last)[blocks[1].src]
        )
        last[blocks[1].src] = number
        expected = np.where(last < 0, 0, number + 1 - last)
        np.testing.assert_array_equal(sampler.history.ages(0, np.arange(60)), expected)
        found |= set(expected.tolist())
    assert found >= {0, 1, 2, 3}


def test_the_age_of_a_block_drawn_ahead_is_that_of_its_history():
    x = torch.from_numpy(features().astype(np.float32))
    sampler, net = make("bliss", "mean", [12, 12], [3, 8, 8]), network()
    ahead = sampler.sample(TARGETS, 1)  # drawn before the first step has written a history
    step(net, sampler, x, 0)
    net(x[ahead[0].src], ahead)
    assert (ahead[1].feedback().age == 0).all()
    assert (sampler.history.ages(0, ahead[1].src.numpy()) > 0).any()


def test_state_loads_into_a_fresh_sampler():
    x = torch.from_numpy(features().astype(np.float32))
    sampler, net = make("bliss", "mean", [30, 20], [3, 8, 8]), network()
    for number in range(4):
        step(net, sampler, x, number)
    state = {name: tensor.clone() for name, tensor in sampler.state_dict().items()}
    other = make("bliss", "mean", [30, 20], [3, 8, 8])
    other.load_state_dict(state)
    for ours, theirs in zip(
        sampler.sample(TARGETS, 9)[1:], other.sample(TARGETS, 9)[1:], strict=True
    ):
        for field in ("src", "edge_weight"):
            assert torch.equal(getattr(ours, field), getattr(theirs, field))
        for field in ("history", "baseline"):
            assert torch.equal(getattr(ours.control, field), getattr(theirs.control, field))
    step(net, sampler, x, 10)
    assert not torch.equal(state["history.1.value"], sampler.state_dict()["history.1.value"])
    np.testing.assert_array_equal(other.history.value(1), state["history.1.value"])  # a copy


def test_histories_on_disk_are_the_same_and_leave_no_file(tmp_path):
    x = torch.from_numpy(features().astype(np.float32))
    places = {"memory": None, "disk": str(tmp_path / "deep")}
    found = {}
    for name, folder in places.items():
        sampler = make("bliss", "mean", [30, 20], [3, 8, 8], history_folder=folder)
        net = network()
        for number in range(3):
            step(net, sampler, x, number)
        found[name] = sampler.state_dict()
    assert isinstance(sampler.history.value(0), np.memmap)
    for name, tensor in found["memory"].items():
        assert torch.equal(tensor, found["disk"][name])
    assert list((tmp_path / "deep").iterdir()) == []


def test_histories_of_surveys_are_looked_up():
    x = torch.from_numpy(features().astype(np.float32))
    net = network()
    sampler = make("pladies", "mean", [30, 20], [3, 8, 8], history="surveys")
    assert all(block.control is None for block in sampler.sample(TARGETS, 0)[1:])
    inputs = hidden_inputs(net, sampler.graph, x)
    for layer in (0, 1):
        sampler.history.survey(layer, Survey(NOTHING, input=inputs[layer + 1].numpy()))
    blocks = step(net, sampler, x, 1)
    for layer, block in enumerate(blocks[1:]):
        assert not block.keeps_input
        expected = full_aggregate(sampler.graph, block.dst.numpy(), inputs[layer + 1].numpy())
        np.testing.assert_allclose(block.control.baseline, expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(sampler.history.value(layer), inputs[layer + 1])  # unmoved
    other = make("pladies", "mean", [30, 20], [3, 8, 8], history="surveys")
    other.load_state_dict(sampler.state_dict())
    again = other.sample(TARGETS, 1)
    assert torch.equal(again[2].control.baseline, blocks[2].control.baseline)


def test_sums_of_surveys_are_renewed_at_each_survey_and_load():
    random = np.random.default_rng(4)
    inputs = [random.normal(size=(60, 8)).astype(np.float32) for _ in range(3)]

    def surveyed(sampler: Sampler, value: np.ndarray) -> Sampler:
        sampler.history.survey(0, Survey(NOTHING, input=value))
        return sampler

    def check(sampler: Sampler, value: np.ndarray) -> None:
        _, block = sampler.sample(TARGETS, 0)
        expected = full_aggregate(sampler.graph, TARGETS, value)
        np.testing.assert_allclose(block.control.baseline, expected, rtol=1e-4, atol=1e-5)

    sampler, other, fresh = (
        make("pladies", "mean", [30], [3, 8], history="surveys") for _ in range(3)
    )
    for value in inputs[:2]:
        check(surveyed(sampler, value), value)
    sampler.load_state_dict(surveyed(other, inputs[2]).state_dict())
    check(sampler, inputs[2])
    sampler.load_state_dict(fresh.state_dict())
    assert sampler.sample(TARGETS, 0)[1].control is None  # as before the first survey


@pytest.mark.parametrize("kind", ["nodes", "surveys"])
def test_inputs_beyond_the_range_of_float16_are_clamped(kind):
    sampler = make("pladies", "mean", [30], [3, 8], history=kind, history_type="float16")
    inputs = np.random.default_rng(4).normal(0, 1e5, (60, 8)).astype(np.float32)
    assert np.abs(inputs).max() > 65504
    sampler.history.survey(0, Survey(NOTHING, input=inputs))
    np.testing.assert_allclose(sampler.history.value(0), inputs.clip(-65504, 65504), rtol=1e-3)
    _, block = sampler.sample(TARGETS, 0)
    x = torch.from_numpy(inputs)[block.src]
    assert aggregate(block, x).isfinite().all()
    first, block = sampler.sample(TARGETS, 1)
    block.observe(2 * x[:1].abs().max() * torch.ones(block.num_src, 8))
    sampler.update([first, block])
    assert np.isfinite(sampler.history.value(0)).all()


def test_blocks_move_with_their_history():
    _, block = one_layer("vrgcn", HISTORIES["near"]).sample(TARGETS, 0)
    moved = block.to("cpu", non_blocking=True)
    assert moved.keeps_input
    assert torch.equal(moved.control.history, block.control.history)
    assert torch.equal(moved.control.baseline, block.control.baseline)


def test_bad_input_gets_one_sentence():
    with pytest.raises(InputError, match="estimator='hajek' is biased"):
        make("pladies", "mean", [2, 2], [3, 8, 8], estimator="hajek")
    with pytest.raises(InputError, match="reward='thanos'"):
        make("gcn-bs", "mean", [2, 2], [3, 8, 8], reward="thanos")
    with pytest.raises(InputError, match="history='none' turns VR-GCN into neighbour sampling"):
        make("vrgcn", "mean", [2, 2], [3, 8, 8], history="none")
    with pytest.raises(InputError, match=r"widths=\[3, 8\] has 2 entries for 3 layers"):
        make("vrgcn", "mean", [2, 2], [3, 8])
    sampler = make("vrgcn", "mean", [2, 2], [3, 8, 8])
    foreign = Neighbor(sampler.graph, [2, 2, 2]).sample(TARGETS, 0)
    for block in foreign:
        block.observe(torch.ones(block.num_src, 2))
    with pytest.raises(InputError, match="drawn by a sampler without a history"):
        sampler.update(foreign)
    wider = make("vrgcn", "mean", [2, 2], [3, 9, 9]).sample(TARGETS, 0)
    for block in wider:
        block.observe(torch.ones(block.num_src, 9))
    with pytest.raises(InputError, match="width 9, but its history has width 8"):
        sampler.update(wider)
    state = sampler.state_dict()
    with pytest.raises(InputError, match="a history with 2 layers"):
        sampler.load_state_dict({k: v for k, v in state.items() if k != "history.1.value"})
    with pytest.raises(InputError, match=r"history.1.value is float32\[59, 8\]"):
        sampler.load_state_dict(state | {"history.1.value": torch.ones(59, 8)})
