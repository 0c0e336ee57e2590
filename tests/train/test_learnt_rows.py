"""Learnt embeddings of nodes, and LightGCN over them: formulas, resumption, other graphs."""

from __future__ import annotations

import itertools
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch

from bliss import Graph, InputError
from bliss.nn import ModelConfig, infer
from bliss.nn.decoders import LightGCN
from bliss.samplers import Full
from bliss.train import (
    RunFolder,
    Stepper,
    TrainConfig,
    checkpoints,
    full_logits,
    load,
    predict,
    resolve,
)
from bliss.train.adam import Adam
from bliss.train.learnt_rows import LearntRows
from bliss.train.task import build_task
from tests.build import make_dataset
from tests.train.runs import SETTINGS, assert_same_run, make_trainer, settings, stopped, trained
from tests.train.test_incremental import kinds
from tests.train.test_links import LINK, communities

LIGHT = LINK | {"model": "lightgcn", "embedding": 12}


@pytest.fixture(scope="module")
def bare():
    """A graph without features."""
    graph = communities()
    return replace(graph, x=torch.empty(graph.graph.num_nodes, 0))


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_each_row_takes_the_steps_of_adam_in_which_it_was_drawn(decay):
    generator = torch.Generator().manual_seed(0)
    table = LearntRows(torch.randn(5, 3, generator=generator))
    rows = [torch.nn.Parameter(row.clone()) for row in table.value]
    adams = [Adam([row], lr=0.1, weight_decay=decay) for row in rows]
    for step in range(12):
        drawn = torch.randperm(5, generator=generator)[: 1 + step % 3]
        if 4 in drawn:  # one row is never drawn
            continue
        shards = [(drawn, torch.randn(len(drawn), 3, generator=generator)) for _ in range(2)]
        news = []
        for ids, gradient in shards:
            own = table.rows(ids, torch.device("cpu"))
            own.grad = gradient
            news.append(table.digest(ids, own))
        table.apply(news, 0.1, decay)
        for place, row in enumerate(drawn.tolist()):
            rows[row].grad = (shards[0][1][place] + shards[1][1][place]) / 2
            adams[row].step()
    for row, expected in zip(table.value, rows, strict=True):
        torch.testing.assert_close(row, expected.data)
    assert table.count[4] == 0 < table.count[:4].min()


def test_shards_may_draw_different_rows():
    table = LearntRows(torch.zeros(4, 1))
    one = {"learnt.row": np.array([2, 0]), "learnt.gradient": np.array([[1.0], [4.0]], np.float32)}
    two = {"learnt.row": np.array([2]), "learnt.gradient": np.array([[3.0]], np.float32)}
    table.apply([one, two], lr=1.0)
    assert table.first[:, 0].tolist() == pytest.approx([0.2, 0, 0.2, 0])  # (1 - b1) g
    assert table.count.tolist() == [1, 0, 1, 0]


def test_learnt_rows_have_a_history_in_every_layer(bare):
    options = LINK | {"embedding": 4, "layers": 2, "hidden": 8, "history": "nodes", "budgets": ()}
    config = TrainConfig.of(**options)
    task = build_task(config, bare)
    assert task.config.sampler.config.first_hop == "history"
    stepper = Stepper(task)
    for batch in itertools.islice(stepper.batches(), 2):
        stepper.step(batch)
    drawn = batch[0].blocks[0].src
    history = stepper.sampler.history
    assert [history.value(layer).shape[1] for layer in (0, 1)] == [4, 8]
    assert (history.ages(0, drawn.numpy()) == 1).all()


@pytest.mark.parametrize("self_loops", ["remove", "add"])
def test_lightgcn_is_the_mean_over_powers_of_the_matrix(bare, self_loops):
    plain = bare.graph
    graph = Graph.from_csc(plain.indptr, plain.indices, norm="gcn", self_loops=self_loops)
    number = graph.num_nodes
    target = np.repeat(np.arange(number), np.diff(graph.indptr))
    dense = torch.zeros(number, number, dtype=torch.float64)
    degree = np.diff(graph.indptr)
    alpha = 1 / np.sqrt(degree[target] * degree[graph.indices])
    dense.numpy()[target, graph.indices] = alpha
    x = torch.randn(number, 5, generator=torch.Generator().manual_seed(0))
    powers = [x.double()]
    for _ in range(3):
        powers.append(dense @ powers[-1])
    expected = (sum(powers) / 4).float()
    model = LightGCN(5, ModelConfig(model="lightgcn", layers=3, dropout=0.0), "dot")
    assert not list(model.parameters())
    torch.testing.assert_close(infer(model, graph, x), expected, rtol=1e-4, atol=1e-5)
    blocks = Full(graph, layers=3).sample(np.arange(0, number, 7), 0)
    seeds = blocks[-1].dst
    torch.testing.assert_close(
        model(x[blocks[0].src], blocks), expected[seeds], rtol=1e-4, atol=1e-5
    )


def test_a_graph_without_features_is_learnt(bare, tmp_path):
    trainer, result = trained(bare, tmp_path, **LIGHT | {"steps": 60})
    assert result.has_learnt
    assert result.test_score > 0.6
    run = load(tmp_path)
    z = full_logits(trainer.task, graph=trainer.task.graph_of("all"))
    torch.testing.assert_close(run.embedding, trainer.task.embedding.value)
    score = predict(tmp_path, bare, pairs=[[3], [8]])["score"]
    assert score == pytest.approx([float(z[3] @ z[8])], rel=1e-4)
    few = communities(120)
    with pytest.raises(
        InputError, match=r"has 120 nodes, but the run in .* embeddings of 240 nodes"
    ):
        run.predict(replace(few, x=torch.empty(120, 0)), pairs=[[0], [1]])


def test_only_drawn_rows_change(bare, tmp_path):
    trainer = make_trainer(bare, tmp_path, **LIGHT | {"budgets": (6, 6), "batch_size": 4})
    stepper, table = trainer.stepper, trainer.task.embedding
    for batches in stepper.batches():
        before, (batch,) = table.value.clone(), list(batches)
        stepper.step([batch])
        changed = (table.value != before).any(1).nonzero()[:, 0]
        assert set(changed.tolist()) <= set(batch.n_id.tolist())
        assert 0 < len(batch.n_id) < 60
        if stepper.steps == 3:
            break


def test_a_resumed_run_is_the_same_run(bare, tmp_path, monkeypatch):
    changes = LIGHT | {"steps": 12, "evaluate_every": 3, "survey": False, "shards": 2}
    changes |= {"prefetch": 1, "budgets": (8, 8), "batch_size": 4}
    trained(bare, tmp_path / "whole", **changes)
    monkeypatch.setattr(checkpoints, "WHOLE_STATE_BYTES", 0)  # of changed rows alone
    stopped(make_trainer(bare, tmp_path / "parts", **changes), 7, signal.SIGTERM)
    assert True in kinds(RunFolder(tmp_path / "parts")).values()
    trained(bare, tmp_path / "parts", resume=True, **changes)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_an_embedding_lies_beside_the_features_of_nodes_with_labels(tmp_path):
    dataset = make_dataset()
    trainer, _ = trained(dataset, tmp_path, embedding=4, steps=10)
    task, width = trainer.task, dataset.num_features
    assert task.model.widths[0] == width + 4 == task.x.size(1)
    torch.testing.assert_close(task.features, dataset.x)
    assert load(tmp_path).predict(dataset)["label"] == predict(tmp_path, dataset)["label"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"model": "lightgcn"}, "pass task='link'"),
        ({"model": "lightgcn", "task": "link", "normalisation": "batch"}, "has no effect"),
        ({"model": "lightgcn", "task": "link", "history": "nodes", "budgets": (9,)}, "no history"),
        ({"embedding": 8, "first_hop": "exact", "budgets": (9,)}, "features that do not change"),
        ({"embedding": -1}, "embedding=-1"),
    ],
)
def test_bad_settings_get_one_sentence(given, words):
    with pytest.raises(InputError, match=words):
        resolve(**SETTINGS | given)


def test_no_features_and_no_embedding_get_one_sentence(bare):
    with pytest.raises(InputError, match="the graph has no features: pass a width"):
        build_task(settings(task="link"), bare)
