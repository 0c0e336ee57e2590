"""Blocks and networks have the same bits on one, two and three threads, with prefetch, too."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from bliss.kernels import pool
from bliss.loader import BlockLoader
from bliss.loader import seed_loader as loading
from bliss.samplers import SAMPLERS
from bliss.train import Stepper, TrainConfig, build_task
from tests.build import make_dataset, make_sampler
from tests.statistics import heavy_tailed_graph

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def eager(monkeypatch):
    """Split even the smallest input."""
    monkeypatch.setattr(pool, "LEAST", 1)


def drawn(sampler, step):
    blocks = sampler.sample(np.arange(30), step)
    fields = ("src", "indptr", "row", "edge", "edge_prob", "edge_weight")
    return [getattr(block, name).clone() for block in blocks for name in fields]


@pytest.mark.parametrize("name", SAMPLERS)
def test_blocks_of_every_sampler_have_the_same_bits(name):
    graph = heavy_tailed_graph("mean")
    found = []
    for count in (1, 2, 3):
        sampler = make_sampler(name, graph)
        with pool.limited(count):
            found.append([drawn(sampler, step) for step in range(2)])
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            assert all(map(torch.equal, one, two))


def weights(model, **options):
    """Weights and policy after a few steps."""
    own = {"budgets": (40, 20), "layers": 2, "hidden": 32, "batch_size": 16, "steps": 4}
    config = TrainConfig.of(model=model, dataset="x", **(own | options))
    stepper = Stepper(build_task(config, make_dataset()))
    for batch in stepper.batches():
        stepper.step(batch)
    return [*stepper.task.model.state_dict().values(), *stepper.sampler.state_dict().values()]


@pytest.mark.parametrize("options", [{"model": "sage", "history": "nodes", "budgets": (20,)}, {}])
def test_training_has_the_same_weights(options):
    options = {"model": "gatv2"} | options
    found = []
    for count in (1, 2, 3):
        with pool.limited(count):
            found.append(weights(**options))
    for other in found[1:]:
        assert all(map(torch.equal, found[0], other))


@pytest.mark.parametrize("is_crowded", [False, True])
def test_prefetch_draws_the_same_batches_in_a_thread_and_in_turn(monkeypatch, is_crowded):
    expected = weights("gatv2", prefetch=1)
    monkeypatch.setattr(loading, "_is_crowded", lambda: is_crowded)
    with pool.limited(2):
        assert all(map(torch.equal, weights("gatv2", prefetch=1), expected))


def test_the_drawing_thread_uses_one_thread_and_the_caller_all(monkeypatch):
    graph = heavy_tailed_graph("mean")
    sampler = make_sampler("bliss", graph)
    counts = []
    sample = sampler.sample
    monkeypatch.setattr(
        sampler, "sample", lambda *given: (counts.append(pool.threads()), sample(*given))[1]
    )
    data = Data(x=torch.zeros(graph.num_nodes, 1), num_nodes=graph.num_nodes)
    for is_crowded in (False, True):
        monkeypatch.setattr(loading, "_is_crowded", lambda answer=is_crowded: answer)
        loader = BlockLoader(data, sampler, np.arange(20), batch_size=10, prefetch=1)
        with pool.limited(3):
            assert len(list(loader)) == 2
    assert counts == [1, 1, 3, 3]


def test_a_draw_that_fails_is_raised_in_its_turn(monkeypatch):
    monkeypatch.setattr(loading, "_is_crowded", lambda: True)
    graph = heavy_tailed_graph("mean")
    sampler = make_sampler("bliss", graph)
    sample = sampler.sample

    def failing(seeds, step):
        if step == 1:
            raise ValueError("step 1")
        return sample(seeds, step)

    monkeypatch.setattr(sampler, "sample", failing)
    data = Data(x=torch.zeros(graph.num_nodes, 1), num_nodes=graph.num_nodes)
    batches = iter(BlockLoader(data, sampler, np.arange(20), batch_size=10, prefetch=1))
    assert next(batches).batch_size == 10
    with pytest.raises(ValueError, match="step 1"):
        next(batches)
