"""Runs on links: no leaks, exact losses, the same bits after a resume, scores and predictions."""

from __future__ import annotations

import csv
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import logsigmoid
from typer.testing import CliRunner

from bliss import Graph, InputError
from bliss.cli import app
from bliss.data import Dataset, save_dataset
from bliss.links import LinkSplits
from bliss.nn.decoders import Decoder
from bliss.train import TrainConfig, assess, full_logits, load, open_task, predict, resolve
from bliss.train.batch import NodeData
from bliss.train.link_losses import constant_loss, link_loss
from bliss.train.task import build_task
from tests.build import make_dataset
from tests.train.runs import (
    BUDGETS,
    SETTINGS,
    assert_same_run,
    make_trainer,
    settings,
    stopped,
    trained,
)

LINK = {"task": "link", "steps": 20, "dropout": 0.0}


def communities(nodes: int = 240, unlabelled: bool = True) -> Dataset:
    """An undirected graph of three groups, which features show; without labels by default."""
    data = make_dataset(nodes=nodes)
    pairs = np.stack([data.graph.indices, np.repeat(np.arange(nodes), data.graph.degree)])
    both = np.unique(np.concatenate([pairs, pairs[::-1]], 1), axis=1)
    graph = Graph.from_edge_index(both, nodes, self_loops="keep")
    if not unlabelled:
        return replace(data, graph=graph)
    return replace(data, graph=graph, y=torch.full((nodes,), -1), num_classes=0, task="classes")


@pytest.fixture(scope="module")
def graph() -> Dataset:
    return communities()


@pytest.fixture(scope="module")
def run(graph, tmp_path_factory):
    """A finished run on links of communities."""
    out = tmp_path_factory.mktemp("links") / "run"
    trainer, result = trained(graph, out, **LINK | {"steps": 60})
    return out, trainer, result


def test_a_run_learns_links_and_writes_all_scores(run):
    _, trainer, result = run
    assert result.metric == "auc"
    assert result.has_learnt
    ranked = {"mrr", "hits", "recall", "ndcg"}
    assert set(result.scores["test"]) == {"auc", "average_precision"} | ranked
    assert result.test_score == result.scores["test"]["auc"] > 0.65
    assert result.constant.score == 0.5
    assert assess(trainer.task).splits["test"].scores == result.scores["test"]


@pytest.mark.parametrize("messages", ["train", "train+val"])
def test_held_out_links_are_no_messages(graph, messages):
    task = build_task(settings(task="link", test_messages=messages), graph)
    own = LinkSplits.random(graph.graph, seed=0)
    hidden = np.concatenate([own.val, own.test], axis=1)
    for ends in (hidden, hidden[::-1]):
        assert task.graph.edges_between(*ends)[1].size == 0
    assert task.graph_of("train") is task.graph_of("val") is task.graph
    tested = task.graph_of("test")
    seen = [tested.edges_between(*own.links(name))[1].size for name in ("train", "val", "test")]
    assert seen == [own.train.shape[1], own.val.shape[1] if "val" in messages else 0, 0]
    assert task.graph_of("all").num_edges == graph.graph.num_edges


def test_nothing_that_is_learnt_depends_on_held_out_links(graph, tmp_path):
    """The weights are those of a run on the graph of training links alone."""
    task = build_task(settings(**LINK), graph)
    train = LinkSplits.random(graph.graph, seed=0)
    trainer = make_trainer(graph, tmp_path / "a", **LINK)
    fewer = replace(graph, graph=train.messages("train"))
    other = make_trainer(fewer, tmp_path / "b", **LINK)
    objective = replace(other.task.objective, splits=train)
    object.__setattr__(other.task, "objective", objective)
    object.__setattr__(other.task, "graph", task.graph)
    other.stepper = type(other.stepper)(other.task)
    for one in (trainer, other):
        for step, batches in enumerate(one.stepper.batches()):
            one.stepper.step(batches)
            if step == 5:
                break
    for name, tensor in trainer.task.model.state_dict().items():
        assert torch.equal(tensor, other.task.model.state_dict()[name]), name


def make_batch(z: torch.Tensor) -> NodeData:
    return NodeData(
        edge_label_index=torch.tensor([[0, 1, 2], [3, 4, 0]]),
        edge_label=torch.tensor([1.0, 1.0, 0.0]),
        src_index=torch.tensor([0, 1]),
        dst_pos_index=torch.tensor([3, 4]),
        dst_neg_index=torch.tensor([[2, 4], [3, 0]]),
    )


@pytest.mark.parametrize("kind", ["dot", "distmult", "mlp"])
def test_losses_are_their_formulas(kind):
    torch.manual_seed(0)
    z, decoder = torch.randn(5, 4, dtype=torch.float64), Decoder(kind, 4).double()
    if kind == "distmult":
        torch.nn.init.normal_(decoder.relation)

    def s(u: int, v: int) -> torch.Tensor:
        product = z[u] * z[v]
        if kind == "mlp":
            hidden = torch.relu(decoder.hidden.weight @ product + decoder.hidden.bias)
            return (decoder.last.weight @ hidden + decoder.last.bias)[0]
        return (product * (decoder.relation if kind == "distmult" else 1)).sum()

    torch.testing.assert_close(
        decoder.matrix(z[:2], z),
        torch.stack([torch.stack([s(u, v) for v in range(5)]) for u in (0, 1)]),
    )
    batch = make_batch(z)
    batch.edge_label = batch.edge_label.double()
    bce = -(logsigmoid(s(0, 3)) + logsigmoid(s(1, 4)) + logsigmoid(-s(2, 0))) / 3
    pairs = [(0, 3, 2), (0, 3, 4), (1, 4, 3), (1, 4, 0)]
    bpr = -sum(logsigmoid(s(j, i) - s(j, n)) for j, i, n in pairs) / 4
    rows = [torch.stack([s(0, v) for v in (3, 2, 4)]), torch.stack([s(1, v) for v in (4, 3, 0)])]
    softmax = -sum(row.log_softmax(0)[0] for row in rows) / 2
    for name, expected in (("bce", bce), ("bpr", bpr), ("softmax", softmax)):
        torch.testing.assert_close(link_loss(name, decoder, (z, z), batch), expected)
        flat = link_loss(name, Decoder("dot", 4), (torch.zeros_like(z),) * 2, batch)
        least = constant_loss(name, 2)
        assert float(flat) == pytest.approx(least) if name != "bce" else least < float(flat)


@pytest.mark.parametrize(
    "changes",
    [
        {"decoder": "mlp", "link_loss": "softmax", "negatives": 3},
        {"decoder": "distmult", "link_loss": "bpr", "prefetch": 1, "select": "mrr"},
        {"shards": 2, "history": "nodes", "budgets": (30,)},
    ],
)
def test_a_resumed_run_is_the_same_run(graph, tmp_path, changes):
    changes = LINK | changes
    trained(graph, tmp_path / "whole", **changes)
    stopped(make_trainer(graph, tmp_path / "parts", **changes), 7, signal.SIGTERM)
    trained(graph, tmp_path / "parts", resume=True, **changes)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.parametrize("sampler", ["pladies", "neighbor", "fastgcn", "full"])
def test_every_kind_of_sampler_trains(graph, tmp_path, sampler):
    unit = settings(sampler=sampler, budgets=()).sampler.config.unit
    changes = {"sampler": sampler, "budgets": BUDGETS[unit], "steps": 2}
    _, result = trained(graph, tmp_path, **LINK | changes)
    assert np.isfinite(result.test_score)


def test_negatives_of_evaluations_are_fixed_and_no_edges(graph):
    objective = build_task(settings(task="link"), graph).objective.link_scores
    index, source = np.arange(9), objective.splits.test[0, :9]
    one, same = (objective._targets.draw(index, source, objective._stream("test")) for _ in "ab")
    assert np.array_equal(one, same)
    assert graph.graph.edges_between(*one)[1].size == 0
    z = torch.randn(240, 16, generator=torch.Generator().manual_seed(0))
    whole = objective.values("test", z, ["mrr", "hits"])
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr("bliss.train.link_scores._NUMBERS", 16 * 100 * 3)  # three links at a time
        assert objective.values("test", z, ["mrr", "hits"]) == whole


def test_predictions_of_pairs_and_top_targets(run, graph, tmp_path):
    out, trainer, _ = run
    pairs = np.array([[0, 5, 7], [3, 9, 2]])
    columns = predict(out, graph, pairs=pairs)
    task = trainer.task
    z = full_logits(task, graph=task.graph_of("all"))
    expected = (z[pairs[0]] * z[pairs[1]]).sum(1)
    np.testing.assert_allclose(columns["score"], expected.tolist(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(columns["probability"], expected.sigmoid().tolist(), rtol=1e-4)
    top = predict(out, graph, top=4, nodes=[11, 2])
    assert top["source"] == [11] * 4 + [2] * 4
    score = z @ z.T
    for node in (11, 2):
        own = [t for s, t in zip(top["source"], top["target"], strict=True) if s == node]
        known = {
            node,
            *graph.graph.indices[graph.graph.indptr[node] : graph.graph.indptr[node + 1]],
        }
        ranked = [v for v in score[node].argsort(descending=True).tolist() if v not in known]
        assert own == ranked[:4]
    with pytest.raises(InputError, match="top=240 exceeds the 239 other nodes"):
        predict(out, graph, top=240)
    with pytest.raises(InputError, match=r"pass pairs \(--pairs FILE\) or top"):
        predict(out, graph)
    with pytest.raises(InputError, match="pairs holds 999"):
        predict(out, graph, pairs=[[0], [999]])
    with pytest.raises(InputError, match="pass one of them"):
        predict(out, graph, pairs=pairs, top=3)


def test_the_command_line_trains_evaluates_and_predicts_links(graph, tmp_path):
    store, out = tmp_path / "store", tmp_path / "run"
    save_dataset(graph, store)
    small = [
        f"--{k.replace('_', '-')}={v}"
        for k, v in SETTINGS.items()
        if k not in ("dataset", "budgets")
    ]
    runner = CliRunner()

    def call(*words: object) -> str:
        shown = runner.invoke(app, list(map(str, words)))
        assert shown.exit_code == 0, shown.output
        return shown.output

    place = ["--dataset", store, "--out", out, "--task", "link", "--edge-split", "0.8,0.1,0.1"]
    text = call("train", *place, *small, "--budgets", "60,30", "--select", "average_precision")
    assert "average precision of the best step" in text
    assert "hits@10" in text and "recall@20" in text
    text = call("evaluate", out)
    assert "links" in text and "@K" not in text
    (tmp_path / "pairs.csv").write_text("src,dst\n1,2\n3,4\n")
    (tmp_path / "nodes.csv").write_text("node\n6\n")
    call("predict", out, "--out", tmp_path / "a.csv", "--pairs", tmp_path / "pairs.csv")
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert [(row["source"], row["target"]) for row in rows] == [("1", "2"), ("3", "4")]
    top = ["--top", 3, "--nodes", tmp_path / "nodes.csv"]
    call("predict", out, "--out", tmp_path / "b.csv", *top)
    rows = list(csv.DictReader((tmp_path / "b.csv").read_text().splitlines()))
    assert [row["source"] for row in rows] == ["6"] * 3
    call("report", out, "--out", tmp_path / "report.html")
    assert "AUC" in (tmp_path / "report.html").read_text()


def test_runs_of_links_take_another_graph_but_no_labels_of_nodes(run, tmp_path):
    out, trainer, _ = run
    few = replace(other := communities(120), graph=Graph.from_edge_index([[0, 1], [1, 0]], 120))
    assert len(load(out).predict(few, pairs=[[0], [2]])["score"]) == 1  # too few links to split
    assert len(predict(out, other, pairs=[[0, 1], [2, 3]])["score"]) == 2
    task = open_task(trainer.folder, lambda _: other)
    with pytest.raises(InputError, match="task='link' is not supported here"):
        _ = task.labels


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"task": "edge"}, "task='edge'"),
        ({"decoder": "mlp"}, "pass task='link'"),
        ({"task": "link", "sampler": "cluster", "budgets": ()}, "makes its own batches"),
        ({"task": "link", "evaluate": "sampled"}, "choose evaluate='full'"),
        ({"task": "link", "hits": 200}, "exceeds the 101 candidates"),
        ({"task": "link", "edge_split": (0.5, 0.5)}, "three shares"),
        ({"task": "link", "class_weights": "balanced"}, "has no classes"),
        ({"task": "link", "link_loss": "hinge"}, "link_loss='hinge'"),
    ],
)
def test_bad_settings_get_one_sentence(given, words):
    with pytest.raises(InputError, match=words):
        resolve(**SETTINGS | given)


def test_bad_input_gets_one_sentence(graph, tmp_path):
    with pytest.raises(InputError, match="does not fit the task 'link'"):
        build_task(settings(task="link", select="f1"), graph)
    with pytest.raises(InputError, match="no labels, but training needs them"):
        make_trainer(graph, tmp_path)
    labelled = communities(unlabelled=False)
    trained(labelled, tmp_path / "nodes", steps=2)
    with pytest.raises(InputError, match="trained on labels of nodes"):
        predict(tmp_path / "nodes", labelled, top=3)


def test_recipes_of_labels_do_not_apply_to_links():
    assert resolve(dataset="cora").training.weight_decay > 0
    assert resolve(dataset="cora", task="link") == TrainConfig.of(dataset="cora", task="link")
