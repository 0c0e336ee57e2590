"""Scores agree with torchmetrics and with their definitions, and select the best step."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace

import pytest
import torch
import torchmetrics.functional.classification as reference
from torch import Tensor
from typer.testing import CliRunner

from bliss import InputError
from bliss.cli import app
from bliss.data import save_dataset
from bliss.report import write_report
from bliss.train import RunFolder, Trainer, build_task, evaluate
from bliss.train.assessment import assess
from bliss.train.metrics import (
    FUNCTIONS,
    all_scores,
    average_precision,
    class_scores,
    confusion_matrix,
    cross_entropy,
    macro_f1,
    metrics_of,
    roc_auc,
)
from bliss.train.results import METRICS
from tests.build import make_dataset
from tests.train.runs import quiet, settings, trained

CLOSE = {"abs": 1e-6}


def drawn(classes: int, nodes: int = 200, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Logits with ties, and classes that depend on them."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(nodes, classes, generator=generator).mul(4).round().div(4)
    labels = (logits + torch.randn(nodes, classes, generator=generator)).argmax(1)
    return logits, labels


def drawn_labels(labels: int = 4) -> tuple[Tensor, Tensor]:
    logits, _ = drawn(labels)
    noise = torch.randn(logits.shape, generator=torch.Generator().manual_seed(1))
    return logits, (logits + noise > 0.3).float()


@pytest.mark.parametrize("seed", range(3))
def test_scores_of_classes_are_torchmetrics(seed):
    logits, y = drawn(4, seed=seed)
    count = {"num_classes": 4}
    assert macro_f1(logits, y) == pytest.approx(
        reference.multiclass_f1_score(logits, y, **count, average="macro").item(), **CLOSE
    )
    matrix = reference.multiclass_confusion_matrix(logits, y, **count)
    assert torch.equal(confusion_matrix(logits, y), matrix)
    found = class_scores(logits, y)
    for name in ("precision", "recall"):
        wanted = getattr(reference, f"multiclass_{name}")(logits, y, **count, average="none")
        assert [getattr(one, name) for one in found] == pytest.approx(wanted.tolist(), **CLOSE)


@pytest.mark.parametrize("seed", range(3))
def test_ranking_scores_of_two_classes_are_torchmetrics(seed):
    logits, y = drawn(2, seed=seed)
    score = (logits[:, 1] - logits[:, 0]).sigmoid()
    assert score.unique().numel() < len(score)  # ties
    assert roc_auc(logits, y) == pytest.approx(reference.binary_auroc(score, y).item(), **CLOSE)
    wanted = reference.binary_average_precision(score, y).item()
    assert average_precision(logits, y) == pytest.approx(wanted, **CLOSE)


def test_scores_of_labels_are_torchmetrics():
    logits, y = drawn_labels()
    found, chances = all_scores(logits, y, "labels"), logits.sigmoid()
    whole = y.long()
    expected = {
        "accuracy": reference.multilabel_accuracy(chances, whole, 4, average="micro"),
        "f1": reference.multilabel_f1_score(chances, whole, 4, average="micro"),
        "macro_f1": reference.multilabel_f1_score(chances, whole, 4, average="macro"),
        "auc": reference.multilabel_auroc(chances, whole, 4),
        "average_precision": reference.multilabel_average_precision(chances, whole, 4),
        "loss": torch.nn.functional.binary_cross_entropy(chances, y),
    }
    assert found == pytest.approx({k: v.item() for k, v in expected.items()}, **CLOSE)


def test_the_area_is_the_chance_that_a_positive_node_ranks_above_a_negative_one():
    logits, y = drawn(2, nodes=40)
    score = logits[:, 1] - logits[:, 0]
    pairs = list(itertools.product(score[y == 1].tolist(), score[y == 0].tolist()))
    wanted = sum((p > n) + (p == n) / 2 for p, n in pairs) / len(pairs)
    assert roc_auc(logits, y) == pytest.approx(wanted)
    assert roc_auc(torch.zeros(40, 2), y) == 0.5
    assert average_precision(torch.zeros(40, 2), y) == pytest.approx(y.float().mean().item())


def test_unknown_and_empty_classes_are_left_out():
    logits, y = drawn(3)
    some = torch.where(torch.arange(200) < 150, y, -1)
    for name in metrics_of("classes", 3):
        assert FUNCTIONS[name](logits, some) == FUNCTIONS[name](logits[:150], y[:150])
    wide = torch.cat([logits, torch.full((200, 1), -9.0)], dim=1)  # a class that nobody has
    assert macro_f1(wide, y) == macro_f1(logits, y)
    assert class_scores(wide, y)[3].precision is None
    labels = torch.stack([y == 0, y < 0], dim=1).float()  # a label that nobody has
    assert roc_auc(logits[:, :2], labels) == roc_auc(logits[:, :1], labels[:, :1])
    nothing = logits[:0], y[:0]
    assert all_scores(*nothing, "classes") == {}


def test_ranking_scores_exist_for_two_classes_and_for_labels():
    assert metrics_of("classes", 3) == ["f1", "accuracy", "macro_f1", "loss"]
    assert metrics_of("classes", 2) == metrics_of("labels", 3)
    assert metrics_of("regression", 1) == ["r2", "mse", "mae"]
    assert metrics_of("link", 16) == ["auc", "average_precision", "mrr", "hits", "recall", "ndcg"]
    assert set(FUNCTIONS) == set(METRICS) - {"mrr", "hits", "recall", "ndcg"}


def test_cross_entropy_is_that_of_torch():
    logits, y = drawn(4)
    expected = torch.stack([-row.log_softmax(0)[c] for row, c in zip(logits, y, strict=True)])
    assert cross_entropy(logits, y) == pytest.approx(expected.mean().item(), **CLOSE)
    logits, y = drawn_labels()
    probability = torch.where(y > 0, logits.sigmoid(), 1 - logits.sigmoid())
    assert cross_entropy(logits, y) == pytest.approx(-probability.log().mean().item(), **CLOSE)


@pytest.mark.parametrize(("select", "best"), [("macro_f1", max), ("auc", max), ("loss", min)])
def test_select_chooses_what_the_best_step_is_best_at(tmp_path, select, best):
    dataset = make_dataset(multilabel=True)
    trainer, result = trained(dataset, tmp_path, select=select)
    lines = trainer.folder.metrics()
    assert {line.metric for line in lines} == {result.metric} == {select}
    assert best(lines, key=lambda line: line.val_score).step == result.best_step
    assert result.val_score == result.scores["val"][select] == best(x.val_score for x in lines)
    assert evaluate(trainer.task, ("val",))["val"] == result.val_score
    assert RunFolder(tmp_path).result() == result
    read = json.loads((tmp_path / "result.json").read_text())
    assert read["scores"]["test"]["auc"] == result.scores["test"]["auc"]


@pytest.mark.parametrize("select", ["auc", "r2", "mse"])
def test_a_metric_that_does_not_fit_is_refused(select):
    with pytest.raises(InputError, match=f"select='{select}'.*choose"):
        build_task(settings(select=select), make_dataset())


def test_a_metric_that_a_split_does_not_define_is_refused_before_training():
    dataset = make_dataset()
    y = (dataset.y > 0).long()
    y[dataset.splits["val"]] = 1
    single = replace(dataset, y=y, num_classes=2)
    with pytest.raises(InputError, match="select='auc' is not defined for the val split of 'toy'"):
        build_task(settings(select="auc"), single)
    assert build_task(settings(select="macro_f1"), single).metric == "macro_f1"


def test_evaluate_and_report_show_all_scores(tmp_path):
    dataset, run = make_dataset(), tmp_path / "run"
    store = str(save_dataset(dataset, tmp_path / "store"))
    result = Trainer(settings(dataset=store), dataset, run, quiet).run()
    matrix = torch.tensor(result.confusion)
    assert matrix.sum() == 60
    assert matrix.diagonal().sum() / 60 == pytest.approx(result.test_score)
    assert matrix.sum(1).tolist() == [one.nodes for one in result.classes]
    command = ["evaluate", str(run), "--json", str(tmp_path / "scores.json")]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, shown.output
    other = CliRunner().invoke(app, ["evaluate", str(run), "--split", "train"])
    sizes = [str(int((dataset.y[dataset.splits[split]] == 0).sum())) for split in ("train", "test")]
    for output, size in ((other.output, sizes[0]), (shown.output, sizes[1])):
        assert re.search(rf"^\W+0\W+{size}\W", output, re.MULTILINE)
    for word in ("micro-F1", "accuracy", "macro-F1", "precision", "recall", "as 2"):
        assert word in shown.output
    assert f"{result.scores['test']['macro_f1']:.4f}" in shown.output
    written = json.loads((tmp_path / "scores.json").read_text())
    assert written["splits"]["test"]["confusion"] == result.confusion
    page = write_report([run], tmp_path / "report.html").read_text()
    for word in ("All scores", "macro-F1", "Classes, on test nodes", "Confusion matrix"):
        assert word in page


def test_more_classes_than_fit_have_no_matrix(monkeypatch):
    task = build_task(settings(), make_dataset())
    assert assess(task, ("val",)).splits["val"].confusion
    monkeypatch.setattr("bliss.train.node_objective.MOST_CLASSES", 2)
    assert assess(task, ("val",)).splits["val"].confusion == []
