"""Features in a run: encoded by the statistics of its training nodes, also in later use."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import safetensors.torch
import torch

from bliss import load
from bliss.errors import DamagedError, InputError
from bliss.train import RunFolder, evaluate, open_task, predict
from bliss.train.results import DataSchema
from bliss.train.schema import check_features
from tests.train.runs import settings, trained

IMPORTED = {"reciprocal": 1.0}  # of an import, so that features="auto" applies


@pytest.fixture
def own(dataset):
    """The toy graph with features in other units."""
    units = torch.logspace(-2, 5, dataset.num_features)
    return replace(dataset, x=100 * units + dataset.x * units, imported=IMPORTED)


def test_own_features_are_standardised_and_published_ones_are_not(dataset, own, tmp_path):
    trainer, result = trained(own, tmp_path / "own")
    train = own.splits["train"]
    assert trainer.task.x[train].std(0, correction=0).tolist() == pytest.approx(
        [1.0] * own.num_features, abs=1e-3
    )
    plain, _ = trained(dataset, tmp_path / "plain")
    assert plain.task.x is dataset.x
    _, raw = trained(own, tmp_path / "raw", features="raw")
    assert result.val_score > raw.val_score + 0.2


def test_a_run_keeps_its_statistics(own, tmp_path):
    trainer, result = trained(own, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    task = open_task(folder, lambda config: own)
    assert evaluate(task, ["test"])["test"] == result.test_score
    shifted = replace(own, x=own.x.clone())
    shifted.x[own.splits["train"]] *= 3  # would change the statistics
    again = open_task(folder, lambda config: shifted)
    test = own.splits["test"]
    assert torch.equal(again.x[test], task.x[test])
    assert np.array_equal(again.encoder.shift, trainer.task.encoder.shift)
    few = replace(own, x=own.x[:, :-1])
    with pytest.raises(InputError, match="features, but the run in"):
        predict(tmp_path / "run", few)


def test_damaged_statistics_are_refused(own, tmp_path):
    trained(own, tmp_path / "run", steps=10)
    folder = RunFolder(tmp_path / "run")
    weights = folder.load_best()
    damaged = weights | {"features.scale": torch.zeros(own.num_features)}
    folder.save_best(damaged, folder.schema())
    with pytest.raises(DamagedError, match="features are not finite"):
        open_task(folder, lambda config: own)
    names = safetensors.torch.load_file(tmp_path / "run" / "best.safetensors")
    assert {"features.shift", "features.scale"} <= set(names)


def test_unknown_encodings_are_refused():
    with pytest.raises(InputError, match="features='log'"):
        settings(features="log")


def test_a_loaded_run_has_the_encoder_it_was_trained_with(own, tmp_path):
    trainer, _ = trained(own, tmp_path / "run", steps=10)
    encoder = load(tmp_path / "run").encoder
    assert encoder.method == "standard"
    assert torch.equal(encoder.transform(own.x), trainer.task.encoder.transform(own.x))


def test_features_of_other_names_are_refused(own, tmp_path):
    names = [f"column {n}" for n in range(own.num_features)]
    schema = DataSchema(
        task="classes",
        features=own.num_features,
        feature_names=names,
        outputs=3,
        class_names=[],
        norm="mean",
    )
    check_features(own, schema, tmp_path)  # without names of its own
    same = replace(own, encoder=SimpleNamespace(feature_names=names))
    check_features(same, schema, tmp_path)
    other = replace(own, encoder=SimpleNamespace(feature_names=["age", *names[1:]]))
    with pytest.raises(InputError, match=r"feature 0 of .* is 'age', but 'column 0'"):
        check_features(other, schema, tmp_path)
