"""Samplers side by side: the table's numbers, what is skipped, and that nothing runs twice."""

from __future__ import annotations

import json
from statistics import mean, stdev

import pytest
import scipy.stats

from bliss.errors import InputError
from bliss.studies import compare
from bliss.studies import runs as cells_module
from bliss.studies.compare import plan
from tests.studies.conftest import SMALL


def quiet(_: str) -> None:
    pass


@pytest.fixture(autouse=True)
def toy_data(monkeypatch, dataset):
    monkeypatch.setattr(cells_module, "load_dataset", lambda *_, **__: dataset)


def run(out, samplers=("bliss", "pladies"), shares=(1.0, 0.5), **options):
    settings = SMALL | options.pop("settings", {})
    return compare(settings, samplers, ["sage"], [0, 1, 2], shares, out, say=quiet, **options)


@pytest.fixture(scope="module")
def finished(tmp_path_factory, dataset):
    out = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells_module, "load_dataset", lambda *_, **__: dataset)
        return out, run(out)


def results(out, sampler, share):
    paths = [out / "runs" / f"sage-{sampler}-{share}-{seed}" / "result.json" for seed in range(3)]
    return [json.loads(path.read_text()) for path in paths]


def test_there_is_a_row_for_each_with_means_of_its_runs(finished):
    out, found = finished
    assert json.loads((out / "compare.json").read_text())["rows"] == found["rows"]
    keys = [(row["sampler"], row["budget_share"]) for row in found["rows"]]
    assert keys == [("bliss", 1), ("bliss", 0.5), ("pladies", 1), ("pladies", 0.5)]
    for row in found["rows"]:
        runs = results(out, row["sampler"], f"{row['budget_share']:g}")
        scores = [one["test_f1"] for one in runs]
        assert row["test_f1"] == pytest.approx(mean(scores))
        assert row["test_f1_std"] == pytest.approx(stdev(scores))
        assert row["step_ms"]["total"] == pytest.approx(mean(r["step_ms"]["total"] for r in runs))
        assert row["nodes"] == pytest.approx(mean(r["sampled"]["nodes"] for r in runs))
        assert row["peak_mb"] > 0
        assert row["curve"]["step"] == [10, 20]


def test_half_the_budget_samples_fewer_nodes(finished):
    _, found = finished
    whole, half = found["rows"][:2]
    assert half["budgets"] == [30, 15]
    assert half["nodes"] < whole["nodes"]


def test_the_paired_test_is_scipys(finished):
    out, found = finished
    first, other = (results(out, name, "1") for name in ("bliss", "pladies"))
    ours, theirs = ([r["test_f1"] for r in group] for group in (other, first))
    row = found["rows"][2]
    assert found["rows"][0]["difference"] is None
    assert row["difference"] == pytest.approx(mean(ours) - mean(theirs))
    differences = {round(a - b, 12) for a, b in zip(ours, theirs, strict=True)}
    if len(differences) > 1:
        assert row["p_value"] == pytest.approx(scipy.stats.ttest_rel(ours, theirs).pvalue)


def test_every_run_reaches_the_default_target_and_none_an_impossible_one(finished, tmp_path):
    out, found = finished
    assert all(row["reached"] == 3 and row["seconds_to_target"] > 0 for row in found["rows"])
    strict = run(out, target_f1=1.01)
    assert all(row["reached"] == 0 and row["seconds_to_target"] is None for row in strict["rows"])


def test_finished_runs_are_not_run_again_and_other_settings_are_refused(finished, monkeypatch):
    out, found = finished

    def never(*_):
        raise AssertionError("a finished run was run again")

    monkeypatch.setattr(cells_module.Trainer, "run", never)
    again = run(out)
    assert again["rows"] == found["rows"]
    with pytest.raises(InputError, match="lr"):
        run(out, settings={"lr": 0.5})


def test_a_stopped_study_goes_on(tmp_path, monkeypatch):
    real, calls = cells_module.Trainer.run, []

    def stop_at_third(self, *arguments):
        calls.append(self.config.sampler)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(self, *arguments)

    monkeypatch.setattr(cells_module.Trainer, "run", stop_at_third)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, shares=(1.0,))
    assert len(run(tmp_path, shares=(1.0,))["rows"]) == 2
    assert len(calls) == 3 + 4  # two were finished


def test_a_policy_can_be_named_with_its_sampler():
    cells, _ = plan(SMALL, ["bliss:exp3", "pladies"], ["sage"], [0], [1.0])
    assert [cell.config.policy for _, cell in cells] == ["exp3", "static"]


def test_pairs_that_do_not_go_together_are_said():
    cells, skipped = plan(SMALL, ["pladies:mab", "bliss"], ["sage"], [0], [1.0])
    assert len(cells) == 1
    assert skipped[0]["sampler"] == "pladies:mab"
    assert "mab" in skipped[0]["why"]


@pytest.mark.parametrize(
    ("samplers", "models", "shares", "word"),
    [
        (["blis"], ["sage"], [1.0], "samplers='blis'"),
        (["bliss"], ["gin"], [1.0], "models='gin'"),
        (["bliss"], ["sage"], [0.5], "shares"),
        (["bliss"], ["sage"], [1.0, 2.0], "shares"),
    ],
)
def test_bad_input_gets_one_sentence(tmp_path, samplers, models, shares, word):
    with pytest.raises(InputError, match=word):
        compare(SMALL, samplers, models, [0], shares, tmp_path / "study", say=quiet)
    assert not (tmp_path / "study").exists()
