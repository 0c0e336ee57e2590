"""Studies of links: gradients are those of the graph without the batch's edges, and studies run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from bliss import Graph
from bliss.samplers import PLADIES, Bliss, Full
from bliss.studies import VarianceStudy, advise, compare
from bliss.studies.advice import pilot
from bliss.studies.gradients import full_gradients, gradient, squared_errors, training_batch
from bliss.train import TrainConfig, build_task
from tests.studies.conftest import SMALL, quiet
from tests.train.test_links import communities

pytestmark = pytest.mark.slow
LINK = SMALL | {"task": "link", "model": "gcn", "dropout": 0.0}
LIGHT = LINK | {"model": "lightgcn", "embedding": 8, "link_loss": "bpr", "self_loops": "remove"}


@pytest.fixture(scope="module")
def graph():
    return communities()


@pytest.mark.parametrize("given", [LINK, LIGHT], ids=["gcn", "lightgcn"])
def test_a_gradient_is_that_of_the_graph_without_the_links_of_the_batch(graph, given):
    """The mutant leaves the links in; the last rows are those of the embedding."""
    task = build_task(TrainConfig.of(**given, sampler="pladies"), graph)
    first, second = (training_batch(task, 0, number) for number in (0, 1))
    assert first.without is not None and not np.array_equal(first.node, second.node)
    (found,) = full_gradients(task, [first])
    keep = np.ones(task.graph.num_edges, bool)
    keep[first.without.edge] = False
    target = np.repeat(np.arange(task.graph.num_nodes), task.graph.degree)[keep]
    pairs = np.stack([task.graph.indices[keep], target])
    less = Graph.from_edge_index(pairs, task.graph.num_nodes, norm="gcn", self_loops="keep")
    seeds = replace(first, without=None)

    def by_hand(own: Graph) -> torch.Tensor:
        blocks = Full(own, layers=2).sample(first.node, 0)
        x = task.x[blocks[0].src].requires_grad_()
        batch = task.seed_loader.draw(seeds, 0, Full(own, layers=2))
        loss = task.objective.loss(task.model.eval()(x, blocks), batch)
        if task.embedding is None:
            parts = torch.autograd.grad(loss, list(task.model.parameters()))
            return torch.cat([part.flatten() for part in parts])
        (rows,) = torch.autograd.grad(loss, [x])
        table = torch.zeros_like(task.embedding.value)
        table[blocks[0].src] = rows[:, -table.size(1) :]
        return table.flatten()

    torch.testing.assert_close(found, by_hand(less))
    assert (found - by_hand(task.graph)).norm() > 0.01 * found.norm()
    everything = Bliss(task.graph, [task.graph.num_nodes] * 2)
    errors = squared_errors(task, everything, [first], found[None], 2)
    assert errors.max() < 1e-9 * found.square().sum()
    few = PLADIES(task.graph, [30, 20])
    assert not torch.equal(gradient(task, few, first, 0), gradient(task, few, first, 1))


def test_samplers_are_compared_on_links(graph, tmp_path):
    settings = LINK | {"dataset": graph, "steps": 10, "batch_size": 100}
    found = compare(settings, ["bliss", "pladies"], ["gcn"], [0, 1], [1.0], tmp_path, say=quiet)
    assert found.metric == "auc"
    assert all(0.4 < row.test_score < 1 for row in found.rows)
    assert not any("equals full" in note for note in found.notes)
    wide = settings | {"budgets": (240, 240), "steps": 1}
    found = compare(wide, ["pladies"], ["gcn"], [0], [1.0], tmp_path / "wide", say=quiet)
    assert any("equals full" in note for note in found.notes)


@pytest.mark.parametrize("given", [LINK, LIGHT], ids=["gcn", "lightgcn"])
def test_the_variance_of_links_is_measured(graph, given):
    config = TrainConfig.of(**given | {"steps": 6, "batch_size": 60}, sampler="pladies")
    study = VarianceStudy(config, graph, ["node"], every=2)
    found = study.run()
    assert [moment.step for moment in found.history] == [2, 4, 6]
    for layer in found.layers:
        assert layer.policies["node"].over_limit > 1 - 1e-5
    assert found.gradient_error["pladies"].mean > 0


@pytest.fixture
def short(monkeypatch):
    for name, value in (("SEEDS", 1), ("BATCHES", 2), ("TIMED_STEPS", 1)):
        monkeypatch.setattr(pilot, name, value)


@pytest.mark.parametrize("given", [LINK, LIGHT], ids=["gcn", "lightgcn"])
def test_links_are_advised_on(graph, given, short):
    own = {name: value for name, value in given.items() if name != "budgets"}
    found = advise(own | {"sampler": "pladies"}, graph, pilot_steps=60)
    assert found.choice is not None, found.causes
    assert "--task link" in found.command
    assert found.config.objective.is_link


def test_timed_steps_leave_the_embedding_of_a_pilot_as_it_was(graph, short):
    made = pilot.Pilot(TrainConfig.of(**LIGHT, sampler="pladies"), graph, 4)
    before = {name: value.clone() for name, value in made.task.embedding.state_dict().items()}
    made.times(made.task.config, [(60, 30), (30, 20)])
    for name, value in made.task.embedding.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_links_that_cannot_be_learnt_are_not_advised_on(graph):
    random = np.random.default_rng(0).integers(0, 240, (2, 800))
    noise = replace(graph, graph=Graph.from_edge_index(random, 240), x=torch.ones(240, 3))
    lost = advise(LINK | {"budgets": None, "steps": 2}, noise, pilot_steps=2)
    assert lost.choice is None
    assert "validation links (ROC-AUC of the constant 0.5)" in lost.reason
