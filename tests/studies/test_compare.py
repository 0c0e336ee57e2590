"""Comparisons: the numbers of the rows, what is skipped, and that no run is repeated."""

from __future__ import annotations

import json
from dataclasses import replace
from statistics import mean, stdev

import numpy as np
import pytest
import scipy.stats
import torch

from bliss import Graph
from bliss.errors import InputError
from bliss.studies import compare
from bliss.studies.comparison import runs
from bliss.studies.comparison.plan import Request, covers_everything, plan, sized
from bliss.studies.curves import mean_and_deviation
from bliss.train import TrainConfig
from tests.build import make_dataset
from tests.studies.conftest import SMALL, quiet

pytestmark = pytest.mark.slow


def results(out, sampler, share):
    paths = [out / "runs" / f"sage-{sampler}-{share}-{seed}" / "result.json" for seed in range(3)]
    return [json.loads(path.read_text()) for path in paths]


def planned(samplers, shares=(1.0,), **options):
    """Rows of a plan without matching: keys with settings, and the plan."""
    request = Request.of(SMALL, samplers, ["sage"], [0], shares, match="none", **options)
    made = plan(request, 240)
    return sized(request, made.starts, None), made


def test_each_row_has_the_means_of_its_runs(compared):
    out, found = compared
    keys = [(row.sampler, row.budget_share) for row in found.rows]
    assert keys == [("bliss", 1), ("bliss", 0.5), ("pladies", 1), ("pladies", 0.5)]
    for row in found.rows:
        group = results(out, row.sampler, f"{row.budget_share:g}")
        scores = [one["test_score"] for one in group]
        assert row.test_score == pytest.approx(mean(scores))
        assert row.test_score_std == pytest.approx(stdev(scores))
        assert row.step_ms["total"] == pytest.approx(mean(r["step_ms"]["total"] for r in group))
        assert row.nodes == pytest.approx(mean(r["sampled"]["nodes"] for r in group))
        assert row.peak_mb > 0
        assert row.curve.step == [10, 20]


def test_runs_that_learn_nothing_are_a_note(dataset, tmp_path):
    order = torch.randperm(240, generator=torch.Generator().manual_seed(0))
    shuffled = replace(dataset, y=dataset.y[order])
    said: list[str] = []
    given = SMALL | {"dataset": shuffled}
    found = compare(given, ["pladies"], ["sage"], [0], [1.0], tmp_path, say=said.append)
    note = "1 of 1 runs of pladies with sage at share 1 are no better than a constant prediction."
    assert note in found.notes
    assert f"Warning: {note}" in said
    assert any(other.startswith("Likely causes of this") for other in found.notes)


def test_one_value_has_no_deviation():
    assert mean_and_deviation([0.5]) == (0.5, None)
    assert mean_and_deviation([0.0, 1.0]) == (0.5, pytest.approx(0.5**0.5))


def test_half_the_budget_samples_fewer_nodes(compared):
    _, found = compared
    whole, half = found.rows[:2]
    assert half.budgets == [30, 15]
    assert half.nodes < whole.nodes


@pytest.mark.parametrize(("number", "share"), [(2, "1"), (3, "0.5")])
def test_differences_are_paired_and_at_the_same_share(compared, number, share):
    out, found = compared
    first, other = (results(out, name, share) for name in ("bliss", "pladies"))
    ours, theirs = ([r["test_score"] for r in group] for group in (other, first))
    row = found.rows[number]
    assert found.rows[0].difference is None
    assert row.difference == pytest.approx(mean(ours) - mean(theirs))
    differences = {round(a - b, 12) for a, b in zip(ours, theirs, strict=True)}
    if len(differences) > 1:
        assert row.p_value == pytest.approx(scipy.stats.ttest_rel(ours, theirs).pvalue)


def test_shares_may_come_in_any_order_and_without_the_whole(compared, run_comparison):
    out, found = compared
    again = run_comparison(out, shares=(0.5,))  # its runs are finished
    assert again.rows == [row for row in found.rows if row.budget_share == 0.5]
    swapped = run_comparison(out, shares=(0.5, 1.0))
    assert sorted(swapped.rows, key=lambda row: (row.sampler, -row.budget_share)) == found.rows


def test_a_sampler_without_budgets_runs_at_the_largest_share():
    rows, _ = planned(["full", "bliss"], (0.25, 0.5))
    assert [key.share for key, _ in rows] == [0.5, 0.25, 0.5]


def test_a_budgetless_first_sampler_is_compared_at_every_share(run_comparison, tmp_path):
    found = run_comparison(
        tmp_path, ("full", "pladies"), (0.5, 0.25), settings={"budgets": (), "steps": 2}
    )
    assert [row.sampler for row in found.rows] == ["full", "pladies", "pladies"]
    full = found.rows[0].test_score
    for row in found.rows[1:]:
        assert row.difference == pytest.approx(row.test_score - full)


def test_every_run_reaches_the_default_target_and_none_an_impossible_one(compared, run_comparison):
    out, found = compared
    assert all(row.reached == 3 and row.seconds_to_target > 0 for row in found.rows)
    strict = run_comparison(out, target_score=1.01)
    assert all(row.reached == 0 and row.seconds_to_target is None for row in strict.rows)


@pytest.mark.parametrize(
    ("sampler", "budgets", "expected"),
    [
        ("bliss", (240, 240), True),
        ("bliss", (240, 60), False),
        ("neighbor", (60, 60), True),
        ("neighbor", (60, 1), False),
        ("fastgcn", (240, 240), False),  # it draws nodes of the whole graph with replacement
    ],
)
def test_budgets_that_cover_every_neighbour_are_noticed(dataset, sampler, budgets, expected):
    config = TrainConfig.of(**SMALL | {"budgets": budgets}, sampler=sampler)
    assert covers_everything(config, dataset) is expected


@pytest.mark.parametrize(("budgets", "expected"), [((12, 11), True), ((11, 12), False)])
def test_budgets_are_read_from_the_output_layer_down(dataset, budgets, expected):
    """Ten neighbours on a path see one node more in each layer: 11 in the output layer, then 12."""
    node = np.arange(240)
    graph = Graph.from_edge_index(np.stack([node[:-1], node[1:]]), 240)
    starts = {"train": 100, "val": 0, "test": 20}
    splits = {name: torch.arange(start, start + 10) for name, start in starts.items()}
    config = TrainConfig.of(**SMALL | {"budgets": budgets, "batch_size": 10}, sampler="bliss")
    assert covers_everything(config, replace(dataset, graph=graph, splits=splits)) is expected


def test_the_batch_that_is_looked_at_is_not_of_the_lowest_ids(dataset):
    """Ids may follow components, as in PPI: the first ones see less than a random batch."""
    node = np.arange(240)
    pairs = np.stack([node, np.where(node < 60, node, (node * 7) % 180 + 60)])  # 0 to 59 are alone
    graph = Graph.from_edge_index(pairs, 240)
    splits = {name: ids.sort().values for name, ids in dataset.splits.items()}
    config = TrainConfig.of(**SMALL | {"budgets": (20, 20), "batch_size": 20}, sampler="bliss")
    assert not covers_everything(config, replace(dataset, graph=graph, splits=splits))


def test_a_covering_budget_is_a_warning_and_a_note(run_comparison, tmp_path):
    said, settings = [], {"budgets": (240, 240), "steps": 2}
    found = run_comparison(
        tmp_path, ("bliss", "pladies"), (1.0, 0.1), settings=settings, say=said.append
    )
    assert sum("equals full" in note for note in found.notes) == 2
    assert (
        "bliss with sage at share 1 keeps every neighbour of a batch (budgets 240, 240)"
        in (found.notes[0])
    )
    assert f"Warning: {found.notes[0]}" in said


def test_finished_runs_are_not_repeated_and_other_settings_are_refused(
    compared, run_comparison, monkeypatch
):
    out, found = compared

    def never(*_):
        raise AssertionError("a finished run was run again")

    monkeypatch.setattr(runs.Trainer, "run", never)
    assert run_comparison(out).rows == found.rows
    with pytest.raises(InputError, match="lr"):
        run_comparison(out, settings={"lr": 0.5})


def test_finished_runs_of_other_data_are_refused(compared):
    out, _ = compared
    other = make_dataset(nodes=241)
    with pytest.raises(InputError, match="dataset='toy' has changed since the run in"):
        compare(
            SMALL | {"dataset": other},
            ["bliss"],
            ["sage"],
            [0],
            [1.0],
            out,
            match="none",
            say=quiet,
        )


def test_a_stopped_study_goes_on(run_comparison, tmp_path, monkeypatch):
    real, calls = runs.Trainer.run, []

    def stop_at_third(self, *arguments):
        calls.append(self.config.sampler.name)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(self, *arguments)

    monkeypatch.setattr(runs.Trainer, "run", stop_at_third)
    with pytest.raises(KeyboardInterrupt):
        run_comparison(tmp_path, shares=(1.0,))
    assert len(run_comparison(tmp_path, shares=(1.0,)).rows) == 2
    assert len(calls) == 3 + 4  # two were finished


def test_a_policy_can_be_named_with_its_sampler():
    rows, _ = planned(["bliss:exp3", "pladies"])
    assert [config.sampler.config.policy_name for _, config in rows] == ["exp3", "static"]


def test_impossible_combinations_are_listed_with_the_reason():
    rows, made = planned(["pladies:mab", "bliss"])
    assert [key.sampler for key, _ in rows] == ["bliss"]
    assert made.skipped[0].sampler == "pladies:mab"
    assert "mab" in made.skipped[0].why


@pytest.mark.parametrize(
    ("samplers", "models", "shares", "word"),
    [
        (["blis"], ["sage"], [1.0], "samplers='blis'"),
        (["bliss"], ["gin"], [1.0], "models='gin'"),
        (["bliss"], ["sage"], [], "shares"),
        (["bliss"], ["sage"], [0.5, 0.5], "shares"),
        (["bliss"], ["sage"], [1.0, 2.0], "shares"),
        (["bliss"], ["sage"], [0.0], "shares"),
    ],
)
def test_bad_input_gets_one_sentence(tmp_path, samplers, models, shares, word):
    with pytest.raises(InputError, match=word):
        compare(SMALL, samplers, models, [0], shares, tmp_path / "study", say=quiet)
    assert not (tmp_path / "study").exists()
