"""Evaluation of a split alone, of all nodes, and of samples with an interval."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from bliss.errors import InputError
from bliss.train import RunFolder, Stepper, build_task, config, evaluate, evaluation
from bliss.train.evaluation import evaluate_sampled, scored_nodes
from tests.build import make_dataset
from tests.train.runs import make_trainer, settings, trained

pytestmark = pytest.mark.slow

ALL = ("train", "val", "test")
NETWORKS = {
    "sage, batch normalisation": {"normalisation": "batch"},
    "gatv2": {"model": "gatv2", "heads": 2},
    "exact first hop": {"sampler": "pladies", "first_hop": "exact", "budgets": (30,)},
    "histories": {"history": "nodes", "budgets": (30,)},
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_split_is_scored_as_in_a_full_pass(dataset, tmp_path, name):
    options = {"steps": 10, **NETWORKS[name], "survey": False}
    by_split, found = trained(dataset, tmp_path / "split", evaluate="split", **options)
    full, exact = trained(dataset, tmp_path / "full", evaluate="full", **options)
    for split in ALL:
        own = dataset.splits[split]
        np.testing.assert_allclose(
            evaluation.full_logits(by_split.task, nodes=own),
            evaluation.full_logits(full.task)[own],
            rtol=1e-4,
            atol=1e-5,
        )
    assert (found.train_score, found.val_score, found.test_score) == (
        exact.train_score,
        exact.val_score,
        exact.test_score,
    )
    assert by_split.folder.metrics() == full.folder.metrics()


def test_size_decides_and_config_json_tells(dataset, tmp_path, monkeypatch):
    assert build_task(settings(), dataset).config.training.evaluate == "full"
    monkeypatch.setattr(config, "LARGE_BYTES", 4 * 240 * 16)
    assert build_task(settings(), dataset).config.training.evaluate == "full"
    monkeypatch.setattr(config, "LARGE_BYTES", 4 * 240 * 16 - 1)
    trainer, _ = trained(dataset, tmp_path, steps=10)
    assert trainer.folder.settings().training.evaluate == "split"
    surveys = {"history": "surveys", "budgets": (30,)}
    assert build_task(settings(**surveys), dataset).config.training.evaluate == "full"
    with pytest.raises(InputError, match="history='surveys' is written by evaluations of all"):
        settings(evaluate="split", **surveys)


def test_surveys_come_from_full_evaluations_alone(dataset, tmp_path, monkeypatch):
    surveyed = []
    for mode in ("full", "split", "sampled"):
        trainer = make_trainer(dataset, tmp_path / mode, evaluate=mode, steps=10)
        original = trainer.stepper.sampler.surveyed

        def survey(*arguments, mode=mode, original=original, **options):
            surveyed.append(mode)
            return original(*arguments, **options)

        monkeypatch.setattr(trainer.stepper.sampler, "surveyed", survey)
        trainer.run()
    assert surveyed == ["full"]


def test_as_many_training_nodes_as_validation_nodes_are_scored(dataset, monkeypatch):
    task = build_task(settings(evaluate="split"), dataset)
    assert scored_nodes(task, "train") is dataset.splits["train"]  # few enough
    monkeypatch.setattr(evaluation, "FEW", 10)
    found = scored_nodes(task, "train").tolist()
    assert found == dataset.splits["train"][::2].tolist()  # 60 of 120
    assert scored_nodes(task, "test") is dataset.splits["test"]


FALSE_ALARM = 1e-6  # chance that a correct interval fails
REPEATS, DRAWS = 200, 4


def intervals() -> tuple[np.ndarray, np.ndarray]:
    """Scores of validation nodes and their errors, from so many independent seeds. [N] each."""
    dataset, found = make_dataset(), []
    options = {"budgets": (4, 4), "evaluate": "sampled", "evaluate_draws": DRAWS, "batch_size": 60}
    stepper = Stepper(build_task(settings(**options), dataset))
    for batch in stepper.batches(lambda: stepper.steps >= 10):
        stepper.step(batch)
    for seed in range(REPEATS):
        stepper.sampler.seed = seed
        found.append(evaluate_sampled(stepper.task, stepper.sampler, ("val",)))
    return np.array([f["val"] for f in found]), np.array([f["val_error"] for f in found])


@pytest.fixture(scope="module")
def drawn() -> tuple[np.ndarray, np.ndarray]:
    return intervals()


@pytest.mark.parametrize("shrunk", [1.0, 0.5])
def test_an_interval_of_draws_covers_the_mean_over_draws(drawn, shrunk):
    score, error = drawn
    half = shrunk * error * scipy.stats.t.isf(0.025, DRAWS - 1)  # the mutant halves the error
    misses = int((np.abs(score - score.mean()) > half).sum())
    limit = scipy.stats.binom.isf(FALSE_ALARM, REPEATS, 0.05)
    assert (misses <= limit) == (shrunk == 1)


def test_errors_are_those_of_independent_draws(dataset, tmp_path):
    trainer, _ = trained(dataset, tmp_path, evaluate="sampled", budgets=(12, 6), steps=10)
    (line,) = trainer.folder.metrics()
    assert line.val_error > 0
    assert line.train_error > 0
    one, _ = trained(
        dataset, tmp_path / "one", evaluate="sampled", evaluate_draws=1, budgets=(12, 6), steps=10
    )
    (alone,) = one.folder.metrics()
    assert alone.val_error is None
    assert "val_error" not in (tmp_path / "one" / "metrics.jsonl").read_text()
    everything = make_trainer(dataset, tmp_path / "all", evaluate="sampled", budgets=(240, 240))
    found = evaluate_sampled(everything.task, everything.stepper.sampler, ("val",))
    assert found == {**evaluate(everything.task, ("val",)), "val_error": 0.0}


def test_the_cache_of_features_may_change_on_resuming(dataset, tmp_path):
    trained(dataset, tmp_path, steps=10)
    trained(dataset, tmp_path, steps=20, resume=True, feature_cache=1000)
    assert RunFolder(tmp_path).settings().data.feature_cache == 1000


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_predictions_of_a_split_are_those_of_all_nodes(dataset, tmp_path, monkeypatch, suffix):
    import pyarrow.csv
    import pyarrow.parquet

    from bliss.train import predict, predictions

    trainer, _ = trained(dataset, tmp_path / "run", steps=10)
    every = predict(tmp_path / "run", dataset)
    assert every["node"] == list(range(240))
    own = dataset.splits["test"].tolist()
    found = predict(tmp_path / "run", dataset, nodes="test")
    assert found["node"] == own
    assert found["label"] == [every["label"][node] for node in own]
    np.testing.assert_allclose(
        found["probability"], [every["probability"][node] for node in own], rtol=1e-5
    )
    monkeypatch.setattr(predictions, "_PART", 25)  # of 60
    parts = predictions.prediction_parts(trainer.task, "test")
    file = tmp_path / f"out{suffix}"
    assert predictions.write_predictions(file, parts) == 60
    read = pyarrow.csv.read_csv if suffix == ".csv" else pyarrow.parquet.read_table
    assert read(file).to_pydict()["node"] == own
    with pytest.raises(InputError, match="nodes='some' is not known"):
        predict(tmp_path / "run", dataset, nodes="some")
