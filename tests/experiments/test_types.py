"""The experiment on types: its networks, its triples, and how its settings were chosen."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bliss import Graph
from bliss.train import Stepper
from bliss.train.evaluation import full_logits
from experiments.types import knowledge_run
from experiments.types.cases import CASES
from experiments.types.knowledge import Batch, DistMult, Knowledge, scores
from experiments.types.messages import message_squares, source_sizes
from experiments.types.networks import task_of
from experiments.types.results import STORED, size_of
from tests.types.graphs import hetero, typed_dataset


@pytest.fixture(scope="module")
def knowledge() -> Knowledge:
    """Some triples of 12 entities and 3 relations, one of them from an entity to itself."""
    random = np.random.default_rng(0)
    codes = random.permutation(12 * 3 * 12)[:80]
    triples = np.stack(np.unravel_index(codes, (12, 3, 12)), axis=1)
    triples[0] = [11, 2, 11]
    triples = np.unique(triples, axis=0)[random.permutation(len(np.unique(triples, axis=0)))]
    return Knowledge({"train": triples[:50], "valid": triples[50:60], "test": triples[60:]})


def model_of(knowledge: Knowledge) -> DistMult:
    torch.manual_seed(0)
    return DistMult(knowledge, 4, layers=2, block=2, dropout=0.0).eval()


def test_hgt_over_full_blocks_is_hgt_over_the_graph():
    settings = {"sampler": "full", "layers": 2, "hidden": 8, "heads": 2, "embedding": 4}
    task = task_of(typed_dataset(), "hgt", **settings, dataset="toy", dropout=0.0, batch_size=10)
    stepper = Stepper(task)
    (batch,) = next(stepper.batches())
    x, _ = task.inputs(batch)
    seeds = batch.blocks[-1].dst
    torch.testing.assert_close(task.model(x, batch.blocks), full_logits(task)[seeds])


def test_the_size_of_a_source_is_that_of_its_messages_under_all_relations():
    data = hetero(width=4)
    graph = Graph.of(data)
    number, types = graph.num_nodes, graph.types
    maps = torch.randn(len(types.edge_types), 3, 4, generator=torch.Generator().manual_seed(1))
    x = torch.cat([data[name].x for name in types.node_types])
    row, relation = graph.indices, graph.relation_of(np.arange(graph.num_edges))
    squares = message_squares(graph, maps, x, np.arange(number), row, relation)
    sizes = source_sizes(row, graph.edge_weight.numpy(), squares, number)
    for author, node in enumerate(range(number)[types.range_of("author")]):
        above = below = 0.0
        for name in ("writes", "reviews"):
            edge_type = ("author", name, "paper")
            source, target = data[edge_type].edge_index
            alpha = 1 / torch.bincount(target)[target[source == author]]
            message = maps[types.edge_types.index(edge_type)] @ data["author"].x[author]
            above += float(alpha.square().sum() * message.square().sum())
            below += float(alpha.square().sum())
        assert (
            np.isnan(sizes[node])
            if below == 0
            else sizes[node] == pytest.approx((above / below) ** 0.5)
        )


@pytest.mark.parametrize("filtered", [True, False])
def test_ranks_are_among_entities_that_make_no_known_triple(knowledge, filtered):
    model = model_of(knowledge)
    graph = knowledge.graph
    edges = graph.edge_index, torch.from_numpy(knowledge.edge_type)
    z = model.encoder.model(model.embedding, *edges).detach()
    known = {tuple(triple) for triple in knowledge.triples.tolist()} if filtered else set()
    ranks = []
    for head, relation, tail in knowledge.splits["test"].tolist():
        weight = model.relation[relation].detach()
        for own, other, is_tail in ((head, tail, True), (tail, head, False)):
            value = z @ (z[own] * weight)
            rivals = [
                one
                for one in range(12)
                if one != other
                and ((own, relation, one) if is_tail else (one, relation, own)) not in known
            ]
            ranks.append(1 + sum(bool(value[one] > value[other]) for one in rivals))
    found = scores(model, knowledge, "test")
    expected = {"mrr": np.mean(1 / np.array(ranks)), "hits@3": np.mean(np.array(ranks) <= 3)}
    is_same = all(found[name] == pytest.approx(value) for name, value in expected.items())
    assert is_same == filtered


def test_a_batch_hides_its_triples_and_their_reverse(knowledge):
    graph, size = knowledge.graph, 8
    batch = Batch.draw(knowledge, size, others=2, seed=0, step=1)
    relation = knowledge.edge_type[batch.without]
    source, target = graph.edge_index.numpy()[:, batch.without]
    head, tail = batch.seeds[batch.head], batch.seeds[batch.tail]
    own = batch.relation.numpy()
    names = np.array([int(name.removeprefix("rev_")) for _, name, _ in graph.types.edge_types])
    is_reverse = np.array(["rev" in name for _, name, _ in graph.types.edge_types])
    assert np.array_equal(names[relation], np.tile(own, 2))
    assert np.array_equal(is_reverse[relation], np.repeat([False, True], size))
    assert np.array_equal(source, np.concatenate([head, tail]))
    assert np.array_equal(target, np.concatenate([tail, head]))


def test_settings_of_accuracy_are_chosen_by_validation_scores_of_one_seed():
    found = STORED.read()
    for run in found.runs:
        choice, case = found.chosen(run.graph, run.model, run.sampler), CASES[run.graph]
        assert size_of(run) == size_of(choice)
        recipe, recipes = (run.lr, run.weight_decay, run.dropout), case.recipes[run.model]
        assert recipe in recipes
        own = [one for one in found.tried if size_of(one)[:3] == size_of(run)[:3]]
        assert len(own) == len(recipes) * len(case.sizes[run.sampler])
        assert recipe == (choice.lr, choice.weight_decay, choice.dropout)
        assert choice.val_score == max(one.val_score for one in own)
        time = found.time(run)
        assert run.steps == time.steps(case.seconds)
        assert choice.steps == time.steps(case.grid_seconds)


@pytest.mark.parametrize("graph", knowledge_run.CASES)
def test_settings_of_triples_are_chosen_by_validation_scores_of_one_seed(graph):
    found, case = knowledge_run.STORED[graph].read(), knowledge_run.CASES[graph]
    assert {one.recipe for one in found.sizes} == {found.recipe}
    for run in found.runs:
        choice = found.chosen(run.sampler)
        assert knowledge_run.size_of(run) == knowledge_run.size_of(choice)
        assert run.steps == int(1e3 * case.seconds / found.step_ms(run))
        assert run.seed != knowledge_run.GRID_SEED
