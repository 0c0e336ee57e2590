"""Regression: standardised targets, R2 and MSE in the user's units, and no F1 anywhere."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torchmetrics.functional.regression import mean_absolute_error as reference_mae
from torchmetrics.functional.regression import mean_squared_error as reference_mse
from torchmetrics.functional.regression import r2_score
from typer.testing import CliRunner

from bliss import InputError
from bliss.cli import app
from bliss.data import Dataset, save_dataset
from bliss.report import write_report
from bliss.studies import compare
from bliss.train import evaluate, predict, r2, resolve, train
from bliss.train.losses import TargetScale, criterion
from bliss.train.metrics import mean_absolute_error, mean_squared_error
from tests.train.runs import SETTINGS, make_trainer, quiet, stopped, trained

pytestmark = pytest.mark.slow

MINE = {k: v for k, v in SETTINGS.items() if k != "dataset"}


def make_data(targets: int = 1, nodes: int = 240) -> Data:
    """Incomes of about 40,000 that depend on the features of a node and its neighbours."""
    random = np.random.default_rng(0)
    x = random.normal(size=(nodes, 3))
    pairs = random.integers(0, nodes, (2, 6 * nodes))
    mean = np.zeros((nodes, 3))
    np.add.at(mean, pairs[1], x[pairs[0]] / 6)
    signal = x @ random.normal(size=(3, targets)) + mean @ random.normal(size=(3, targets))
    y = torch.from_numpy(40_000 + 5_000 * signal).float()
    return Data(
        x=torch.from_numpy(x).float(),
        edge_index=torch.from_numpy(pairs),
        y=y[:, 0] if targets == 1 else y,
    )


@pytest.fixture(scope="module")
def incomes() -> Dataset:
    return Dataset.from_data(make_data(), name="incomes")


@pytest.fixture(scope="module")
def run(incomes, tmp_path_factory):
    """A finished run and its result."""
    folder = tmp_path_factory.mktemp("run")
    return folder, train(incomes, folder, say=quiet, **MINE | {"steps": 60, "dropout": 0.0})


def test_scores_are_torchmetrics():
    generator = torch.Generator().manual_seed(0)
    y, predicted = torch.randn(2, 50, 3, generator=generator)
    assert r2(predicted, y) == pytest.approx(r2_score(predicted, y).item(), rel=1e-5)
    expected = reference_mse(predicted, y).item()
    assert mean_squared_error(predicted, y) == pytest.approx(expected, rel=1e-5)
    expected = reference_mae(predicted, y).item()
    assert mean_absolute_error(predicted, y) == pytest.approx(expected, rel=1e-5)
    assert r2(y, y) == 1
    assert r2(y[:, :1] * 0 + 1, y[:, :1] * 0 + 1) == 1  # a constant target, predicted exactly
    assert r2(y[:, :1], y[:, :1] * 0 + 1) == 0
    assert np.isnan(r2(y[:0], y[:0]))


def test_targets_are_standardised_and_come_back_in_their_units():
    y = torch.tensor([[1000.0, 5.0], [3000.0, 5.0]])
    scale = TargetScale.of(y)
    assert scale.standardise(y).tolist() == [[-1, 0], [1, 0]]
    assert torch.equal(scale.restore(scale.standardise(y)), y)


def test_the_loss_with_weights_estimates_the_mean_over_all_nodes():
    generator = torch.Generator().manual_seed(0)
    outputs, targets = torch.randn(2, 8, 2, generator=generator)
    whole = criterion(outputs, targets, is_regression=True)
    torch.testing.assert_close(whole, ((outputs - targets) ** 2).mean())
    even = criterion(outputs, targets, torch.full((8,), 1 / 8), is_regression=True)
    torch.testing.assert_close(even, whole)
    half = torch.tensor([1 / 4] * 4)  # every second node, drawn with chance 1/2
    parts = [criterion(outputs[i::2], targets[i::2], half, is_regression=True) for i in (0, 1)]
    torch.testing.assert_close(sum(parts) / 2, whole)


def test_a_network_learns_targets_far_from_zero(incomes, run):
    _, result = run
    assert result.metric == "r2"
    assert result.val_score > 0.5  # the mean of the training nodes gives at most 0
    spread = float(incomes.y[incomes.splits["test"]].double().var(correction=0))
    assert result.scores["test"]["mse"] == pytest.approx((1 - result.test_score) * spread, rel=1e-4)


def test_predictions_are_in_the_units_of_the_targets(incomes, run):
    folder, result = run
    found = predict(folder, incomes)
    assert list(found) == ["node", "prediction"]
    test = incomes.splits["test"]
    predicted = torch.tensor(found["prediction"])[test]
    error = float((predicted - incomes.y[test, 0]).square().mean())
    assert error == pytest.approx(result.scores["test"]["mse"], rel=1e-4)


def test_the_scale_is_that_of_the_run_and_not_of_the_data_at_hand(incomes, run):
    folder, _ = run
    data = make_data()
    other = Dataset.from_data(Data(x=data.x, edge_index=data.edge_index, y=data.y * 7))
    assert predict(folder, other) == predict(folder, incomes)


def test_a_resumed_regression_ends_as_an_uninterrupted_one(incomes, tmp_path):
    _, whole = trained(incomes, tmp_path / "whole")
    stopped(make_trainer(incomes, tmp_path / "again"), 15, 15)
    _, again = trained(incomes, tmp_path / "again", resume=True)
    for name in ("val_score", "test_score", "scores", "best_step"):
        assert getattr(whole, name) == getattr(again, name)


@pytest.mark.parametrize("sampler", ["full", "neighbor", "saint-rw", "cluster"])
def test_samplers_of_every_kind_train_several_targets(tmp_path, sampler):
    dataset = Dataset.from_data(make_data(targets=2), task="regression")
    budgets = {"neighbor": (5, 5)}.get(sampler, ())
    _, result = trained(dataset, tmp_path, sampler=sampler, budgets=budgets, steps=10)
    assert np.isfinite(result.scores["test"]["mse"])


def test_sampled_validation_scores_targets_too(incomes, tmp_path):
    trainer, _ = trained(incomes, tmp_path, evaluate="sampled")
    assert {"val", "val_mse"} <= set(evaluate(trainer.task, ("val",)))
    assert all(line.val_mse is not None for line in trainer.folder.metrics())


def test_nothing_calls_an_r2_an_f1(incomes, run, tmp_path):
    folder, _ = run
    store = save_dataset(incomes, tmp_path / "store")
    short = ["--steps", "4", "--evaluate-every", "2", "--hidden", "8"]
    compared = compare(
        {"dataset": incomes} | MINE | {"steps": 4, "evaluate_every": 2},
        ["bliss", "pladies"],
        ["sage"],
        [0, 1],
        [1.0, 0.5],
        tmp_path / "compared",
        say=quiet,
    )
    assert compared.metric == "r2"
    assert compared.dataset == "incomes"
    commands = [
        ["train", "--dataset", store, "--out", tmp_path / "run", *short],
        ["evaluate", tmp_path / "run"],
        ["predict", tmp_path / "run", "--out", tmp_path / "p.csv"],
        ["data", "info", store],
    ]
    for command in commands:
        shown = CliRunner().invoke(app, [str(part) for part in command])
        assert shown.exit_code == 0, shown.output
        assert "F1" not in shown.output
        if command[0] in ("train", "evaluate"):
            assert "R2" in shown.output
    page = write_report([folder, tmp_path / "compared"], tmp_path / "report.html").read_text()
    assert "F1" not in page
    assert "Test R2" in page
    assert "Test MSE" in page
    rows = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    assert len(rows) == 240
    assert 10_000 < float(rows[0]["prediction"]) < 70_000


def test_the_files_of_a_run_name_the_metric(run):
    folder, _ = run
    assert json.loads((folder / "result.json").read_text())["metric"] == "r2"
    first = json.loads((folder / "metrics.jsonl").read_text().splitlines()[0])
    assert first["metric"] == "r2"
    assert first["val_mse"] > 0


def test_class_weights_are_refused(incomes, tmp_path):
    with pytest.raises(InputError, match="has targets of a regression and no classes"):
        make_trainer(incomes, tmp_path, class_weights="balanced")


def test_missing_targets_are_refused_in_splits_only():
    data = make_data()
    data.y[7] = float("nan")
    assert Dataset.from_data(data).is_labelled.sum() == 239
    with pytest.raises(InputError, match=r"node 7 of splits\['train'\] has no target \(NaN\)"):
        Dataset.from_data(data, splits={"train": [6, 7]})


def test_a_recipe_of_the_same_name_gives_settings():
    assert resolve(dataset="cora").training.steps != resolve(dataset="incomes").training.steps
