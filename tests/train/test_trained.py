"""A run serves other graphs that fit it, and refuses those that do not."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import bliss
from bliss import Full, Graph, InputError
from bliss.cli import app
from bliss.data import Dataset, save_dataset
from bliss.train import full_logits, predict
from tests.build import make_dataset
from tests.train.runs import trained

KINDS = ("classes", "labels", "regression")


def make(kind: str) -> Dataset:
    dataset = make_dataset(multilabel=kind == "labels")
    names = ("red", "green", "blue")
    if kind != "regression":
        return replace(dataset, class_names=names)
    y = 40_000 + 5_000 * dataset.x.sum(1, keepdim=True)
    return replace(dataset, y=y, num_classes=0, task="regression")


def unlabelled(dataset: Dataset) -> Dataset:
    """Half of the nodes, with the edges between them, without labels."""
    nodes = dataset.graph.num_nodes // 2
    pairs = dataset.graph.edge_index
    kept = pairs[:, (pairs < nodes).all(0)]
    return Dataset(
        name="half",
        graph=Graph.from_edge_index(kept, nodes),
        x=dataset.x[:nodes],
        y=torch.full((nodes,), -1),
        splits={
            "train": torch.arange(9),
            **{name: torch.arange(0) for name in ("val", "test")},
        },
        num_classes=0,
    )


@pytest.fixture(scope="module", params=KINDS)
def run(request, tmp_path_factory) -> tuple[Path, Dataset]:
    folder, dataset = tmp_path_factory.mktemp("run"), make(request.param)
    trained(dataset, folder, steps=10)
    return folder, dataset


def test_another_graph_is_predicted_without_labels(run):
    folder, dataset = run
    other = unlabelled(dataset)
    found = predict(folder, other)
    assert len(found["node"]) == 120
    if dataset.task == "classes":
        assert set(found["label"]) <= {"red", "green", "blue"}
    # as if the labels were those of the run
    same = replace(
        other, y=dataset.y[:120], task=dataset.task, num_classes=dataset.num_classes,
        class_names=dataset.class_names,
    )  # fmt: skip
    assert predict(folder, same) == found
    assert bliss.load(folder).predict(other) == found


def test_the_network_of_a_run_can_be_called(run):
    folder, dataset = run
    loaded = bliss.load(folder)
    assert isinstance(loaded.model, nn.Module)
    assert not loaded.model.training
    assert loaded.settings.network.hidden == 16
    assert len(repr(loaded)) < 300
    assert repr(loaded).startswith(f"TrainedRun({str(folder)!r}, model='sage', dataset=")
    assert (loaded.data.task, loaded.data.features) == (dataset.task, 3)
    task = loaded.task(unlabelled(dataset))
    blocks = Full(task.graph, layers=2).sample(np.array([5, 3]), 0)
    with torch.no_grad():
        logits = loaded.model(task.x[blocks[0].src], blocks)
    torch.testing.assert_close(logits, full_logits(task)[[5, 3]])


def test_what_does_not_fit_is_refused(run):
    folder, dataset = run
    other = unlabelled(dataset)
    wide = replace(other, x=torch.cat([other.x, other.x], dim=1))
    graph = other.graph
    weight = np.ones(graph.num_edges, np.float32)
    weighted = replace(other, graph=Graph(graph.indptr, graph.indices, "weights", weight))
    for given, words in (
        (wide, "dataset='half' has 6 features, but the run in .* trained with 3: pass a graph"),
        (weighted, "norm='weights', but the run in .* trained with norm='mean': import the graph"),
    ):
        with pytest.raises(InputError, match=words):
            predict(folder, given)
        with pytest.raises(InputError, match=words):
            bliss.load(folder).task(given)


def test_a_run_with_weights_refuses_a_graph_without(tmp_path):
    dataset = make_dataset()
    graph = dataset.graph
    weight = np.full(graph.num_edges, 0.1, np.float32)
    weighted = replace(dataset, graph=Graph(graph.indptr, graph.indices, "weights", weight))
    trained(weighted, tmp_path, steps=10)
    with pytest.raises(InputError, match=r"norm='mean', but the run in .* norm='weights'"):
        predict(tmp_path, dataset)


@pytest.mark.slow
def test_the_command_predicts_another_graph(tmp_path, run):
    folder, dataset = run
    store, out = save_dataset(unlabelled(dataset), tmp_path / "other"), tmp_path / "p.csv"
    command = ["predict", str(folder), "--dataset", str(store), "--out", str(out)]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, shown.output
    assert "120 predictions written" in shown.output
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["node"] for row in rows] == [str(node) for node in range(120)]
    assert predict(folder, store)["node"] == list(range(120))
