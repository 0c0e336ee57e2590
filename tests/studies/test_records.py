"""Writers and readers share one declaration: what is written is read back equal, or refused."""

from __future__ import annotations

import json
import math

import pytest

from bliss.errors import DamagedError
from bliss.report.load import load
from bliss.storage import records
from bliss.studies.curves import average_curve
from bliss.studies.variance.variance_record import PolicyRatios
from bliss.train import Evaluation, RunFolder, TrainConfig, Trainer
from tests.studies.conftest import SMALL, quiet

pytestmark = pytest.mark.slow


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


@pytest.mark.parametrize("name", ["result.json", "metrics.jsonl", "compare.json"])
def test_scores_are_written_with_the_name_of_their_metric(trained, compared, name):
    folder = compared[0] if name == "compare.json" else trained[0]
    text = (folder / name).read_text()
    values = json.loads(text.splitlines()[0] if name == "metrics.jsonl" else text)
    assert values["metric"] == "f1"


def test_a_comparison_is_read_as_it_was_returned(compared):
    out, found = compared
    (study,) = load([out])
    assert study.record.rows == found.rows
    assert (study.record.machine, study.record.seeds) == (found.machine, found.seeds)


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


def test_numbers_that_are_not_finite_are_written_as_null():
    ratios = PolicyRatios(
        over_pladies=math.nan,
        over_limit=math.inf,
        weighted_over_pladies=None,
        weighted_over_limit=1.5,
    )
    assert list(json.loads(records.to_json(ratios)).values()) == [None, None, None, 1.5]


def test_a_curve_averages_the_runs_that_got_to_a_step():
    def line(step, value):
        scores = {"train_score": 0.0, "val_score": value}
        return Evaluation(step=step, loss=2 * value, metric="f1", **scores)

    curve = average_curve([[line(10, 0.25), line(20, 0.5)], [line(10, 0.75)]])
    assert curve.step == [10, 20]
    assert curve.val_score == [0.5, 0.5]
    assert curve.loss == [1.0, 1.0]
    assert curve.val_score_std == [pytest.approx(0.125**0.5), None]
