"""Writers and readers share one declaration: what is written is read back equal, or refused."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from bliss.errors import DamagedError
from bliss.report.load import KINDS, load
from bliss.storage import records
from bliss.studies.records import PolicyRatios, average_curve
from bliss.train import Evaluation, RunFolder, TrainConfig, Trainer
from tests.studies.conftest import SMALL, quiet

EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments"


@pytest.fixture(scope="module")
def trained(dataset, tmp_path_factory):
    """The folder of a run, the result that was returned and the evaluations that were told."""
    out, told = tmp_path_factory.mktemp("run"), []
    trainer = Trainer(TrainConfig.of(**SMALL), dataset, out, quiet)
    return out, trainer.run(on_evaluation=told.append), told


def test_a_run_is_read_as_it_was_returned(trained):
    out, result, told = trained
    (run,) = load([out])
    assert run.result == result
    assert run.metrics == told
    assert [line.step for line in RunFolder(out).times()] == [line.step for line in told]
    assert run.settings.dataset == "toy"
    assert run.settings.steps == SMALL["steps"]


def test_a_comparison_is_read_as_it_was_returned(compared):
    out, found = compared
    (study,) = load([out])
    assert study.record.rows == found.rows
    assert (study.record.machine, study.record.seeds) == (found.machine, found.seeds)


def test_a_reproduction_is_read_as_it_was_returned(reproduced):
    out, found = reproduced
    (study,) = load([out])
    assert study.record.tables.f1 == found.tables.f1
    assert study.record.figures == found.figures
    assert study.record.missing == found.missing


def test_a_variance_is_read_as_it_was_returned(measured, surveyed, tmp_path):
    for number, found in enumerate((measured, surveyed)):
        file = records.write(tmp_path / str(number) / "variance.json", found)
        (study,) = load([file])
        assert study.record == found
        assert ("ages" in json.loads(file.read_text())) == (found is surveyed)


@pytest.mark.parametrize("name", ["result.json", "config.json", "metrics.jsonl"])
def test_a_renamed_field_of_a_run_is_refused(trained, tmp_path, name):
    out, _, _ = trained
    olds = {"result.json": "test_score", "config.json": "sampler", "metrics.jsonl": "val_score"}
    old = olds[name]
    for file in ("config.json", "metrics.jsonl", "result.json"):
        text = (out / file).read_text()
        (tmp_path / file).write_text(text.replace(f'"{old}"', '"score"') if file == name else text)
    fault = "score=.* is not a setting" if name == "config.json" else f"required field `{old}`"
    with pytest.raises(DamagedError, match=rf"{name}.*{fault}"):
        load([tmp_path])


def test_a_renamed_field_of_a_comparison_is_refused(compared, tmp_path):
    text = (compared[0] / "compare.json").read_text()
    (tmp_path / "compare.json").write_text(
        text.replace('"test_score_std"', '"test_score_deviation"')
    )
    with pytest.raises(DamagedError, match=r"`test_score_std` - at `\$.rows\[0\]`"):
        load([tmp_path])


def test_every_recorded_study_can_be_read():
    files = sorted(EXPERIMENTS.glob("*/*.json")) + sorted(EXPERIMENTS.glob("*/results/*.json"))
    studies = [file for file in files if json.loads(file.read_text()).get("kind") in KINDS]
    assert len(studies) >= 15
    assert len(load(studies)) == len(studies)


def test_numbers_that_are_not_finite_are_written_as_null():
    ratios = PolicyRatios(
        over_pladies=math.nan,
        over_limit=math.inf,
        relative_over_pladies=None,
        relative_over_limit=1.5,
    )
    assert list(json.loads(records.to_json(ratios)).values()) == [None, None, None, 1.5]


def test_a_curve_averages_the_runs_that_got_to_a_step():
    def line(step, value):
        return Evaluation(step=step, loss=2 * value, train_score=0.0, val_score=value)

    curve = average_curve([[line(10, 0.25), line(20, 0.5)], [line(10, 0.75)]])
    assert curve.step == [10, 20]
    assert curve.val_score == [0.5, 0.5]
    assert curve.loss == [1.0, 1.0]
    assert curve.val_score_std == [pytest.approx(0.125**0.5), None]
