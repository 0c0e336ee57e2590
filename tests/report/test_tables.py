"""Tables hold the exact numbers of the files and show them rounded."""

from __future__ import annotations

import json
import math

import pytest

from bliss.report import cells as tables
from bliss.report.build import build
from bliss.report.significance import holm
from bliss.train.folder import RunFolder
from bliss.train.results import StepTime
from tests.report import factory

pytestmark = pytest.mark.slow


def table(sections, caption, part=0):
    own = sections[0].parts[part]
    (found,) = [t for t in (*own.lead, *own.tables) if t.caption == caption]
    return found


def column(found, name):
    return [row[list(found.columns).index(name)] for row in found.rows]


def read(path):
    return json.loads(path.read_text())


def test_a_run(results, sections_of):
    result = read(results["run"][0] / "result.json")
    found = table(sections_of("run"), "Results")
    for name, value in {
        "Test F1": result["test_score"],
        "Validation F1": result["val_score"],
        "Training F1": result["train_score"],
        "Best step": result["best_step"],
        "Training, s": result["seconds"],
        "Step, ms": result["step_ms"]["total"],
        "Nodes per step": result["sampled"]["nodes"],
        "Edges per step": result["sampled"]["edges"],
        "Peak, MB": result["peak_mb"],
    }.items():
        (cell,) = column(found, name)
        assert float(cell.key) == value
    assert column(found, "Test F1")[0].text == "0.8977"


def test_a_comparison_separates_the_largest_share_from_the_others(results, sections_of):
    sections, rows = (
        sections_of("comparison"),
        read(results["comparison"][0] / "compare.json")["rows"],
    )
    for part, model in enumerate(("sage", "gatv2")):
        own = [row for row in rows if row["model"] == model]
        whole = [row for row in own if row["budget_share"] == 1]
        scores, cost = (table(sections, name, part) for name in ("Scores", "Cost"))
        assert [float(c.key) for c in column(scores, "Test F1")] == [r["test_score"] for r in whole]
        assert [c.key for c in column(scores, "p")] == [
            "" if r["p_value"] is None else repr(r["p_value"]) for r in whole
        ]
        assert [c.text for c in column(scores, "p, Holm")] == [
            tables.DASH,
            "0.210",
            "0.068",
            "0.001",
        ]
        assert [float(c.key) for c in column(cost, "Nodes per step")] == [r["nodes"] for r in whole]
        shares = table(sections, "As the budget shrinks", part)
        assert [float(c.key) for c in column(shares, "Test F1")] == [r["test_score"] for r in own]
        step = table(sections, "Time of a step, in milliseconds", part)
        assert [float(c.key) for c in column(step, "Sample")] == [
            r["step_ms"]["sample"] for r in whole
        ]


def test_scores_start_with_rank_test_f1_and_difference(sections_of):
    found = table(sections_of("comparison"), "Scores")
    assert found.columns[:5] == ["Sampler", "Rank", "Test F1", "Difference", "p, Holm"]
    assert [cell.text for cell in column(found, "Rank")] == ["3=", "3=", "1=", "1="]
    assert column(found, "Test F1")[0].text == "0.8840 ± 0.0040"
    settings = table(sections_of("comparison"), "Sizes and settings")
    assert column(settings, "Size")[0].text == "layer 2,048 / 1,024 / 512"
    assert [cell.text for cell in column(settings, "Match")] == ["1.00", "1.01", "1.02", "1.03"]
    assert column(settings, "Search, runs")[0].value == 1
    words = sections_of("comparison")[0].summary[0]
    assert "bliss (exp3) and bliss (node) share the first rank" in words


def test_sections_follow_the_order_of_the_paths(results):
    kinds = ("variance", "comparison", "run")
    paths = [results[kind][0] for kind in kinds]
    found = [section.kind for section in build(paths)]
    assert found == ["Variance", "Comparison", "Run"]
    assert [section.kind for section in build(paths[::-1])] == found[::-1]


def test_a_comparison_without_the_full_budget_uses_its_largest_share(tmp_path):
    rows = read(factory.comparison(tmp_path, models=("sage",)) / "compare.json")["rows"]
    small = [row for row in rows if row["budget_share"] in (0.25, 0.5)]
    small.sort(key=lambda row: row["budget_share"])  # smallest first
    sections = build([factory.comparison(tmp_path, rows=small)])
    half = [row["test_score"] for row in small if row["budget_share"] == 0.5]
    assert [float(c.key) for c in column(table(sections, "Scores"), "Test F1")] == half


def test_a_variance(results, sections_of):
    layers = read(results["variance"][0])["layers"]
    found = table(sections_of("variance"), "Variance of each policy")
    policies = [p for layer in layers for p in layer["policies"].values()]
    assert [float(c.key) for c in column(found, "V over PLADIES")] == [
        p["over_pladies"] for p in policies
    ]
    assert [float(c.key) for c in column(found, "Layer")] == [1, 1, 2, 2, 3, 3]
    errors = table(sections_of("variance"), "Error of the gradient")
    assert [float(c.key) for c in column(errors, "r")] == [0.4, 0.38, 0.2]
    assert [float(c.key) for c in column(errors, "Over PLADIES")] == pytest.approx([1, 0.95, 0.5])


def test_ages_of_surveys_have_a_table_of_their_own(tmp_path, sections_of):
    ages = [{"age": a, "layers": [{"node": 1 + a / 100 + n} for n in range(3)]} for a in (0, 20)]
    (section,) = build([factory.variance(tmp_path, survey_every=50, ages=ages)])
    found = table([section], "V over limit by age of the survey")
    assert [float(c.key) for c in column(found, "Layer")] == [1, 1, 2, 2, 3, 3]
    assert [float(c.key) for c in column(found, "Steps since the survey")] == [0, 20] * 3
    ratios = [float(c.key) for c in column(found, "V over limit")]
    assert ratios == pytest.approx([1, 1.2, 2, 2.2, 3, 3.2])
    titles = [one.caption for s in sections_of("variance") for p in s.parts for one in p.tables]
    assert "V over limit by age of the survey" not in titles


def test_a_layer_whose_budget_covers_everything_is_said_to_be(tmp_path):
    values = read(factory.variance(tmp_path) / "variance.json")
    first = values["layers"][0]
    first["limit_over_pladies"] = first["weighted_limit_over_pladies"] = None
    for ratios in first["policies"].values():
        ratios.update(dict.fromkeys(ratios))
    for moment in values["history"]:
        layer = moment["layers"][0]
        layer.update(pladies=0.0, limit=0.0, policies=dict.fromkeys(layer["policies"], 0.0))
    (section,) = build([factory.variance(tmp_path, **values)])
    assert "Layer 1 (input): nothing was sampled, because the budget covers" in section.summary[0]
    policies = [cell.text for cell in column(table([section], "Variance of each policy"), "Policy")]
    assert policies == ["nothing sampled", "exp3", "node", "exp3", "node"]
    assert [chart.title for chart in section.charts] == ["Layer 2", "Layer 3 (output)"]
    assert all("layer 2" in tile.label for tile in section.tiles)


def test_the_distance_from_the_limit_is_for_a_policys_own_number_of_sources(tmp_path):
    values = read(factory.variance(tmp_path) / "variance.json")
    layer = values["layers"][0]
    layer["policies"]["node"] |= {"over_pladies": 0.473, "over_limit": 1.001}
    (section,) = build([factory.variance(tmp_path, **values)])
    assert "node 0.473 (1.00)" in section.summary[0]
    assert [tile.value for tile in section.tiles] == ["0.473", "1.00"]


def test_runs_that_differ_by_seed_share_a_line_with_its_deviation(tmp_path):
    runs = [factory.run(tmp_path / str(seed), seed=seed) for seed in (0, 1, 2)]
    other = factory.run(tmp_path / "other", lr=0.01)
    (section,) = build([*runs, other])
    lines = section.charts[0].figure.axes[0].get_legend_handles_labels()[1]
    assert lines == ["bliss (lr 0.002)", "bliss (lr 0.01)"]
    finals = [
        json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["val_score"]
        for run in runs
    ]
    mean = sum(finals) / 3
    deviation = math.sqrt(sum((f - mean) ** 2 for f in finals) / 2)
    shown = f"{mean:.3f} (deviation {tables.significant(deviation, 2)}) at step 300"
    assert shown in section.charts[0].alt


def test_scores_of_runs_with_other_settings_are_not_averaged(tmp_path):
    same = [factory.run(tmp_path / str(seed), seed=seed) for seed in (0, 1)]
    short = factory.run(tmp_path / "short", budgets=(64, 32, 16), steps=400)
    (section,) = build([*same, short])
    full, small = "bliss (budgets 2048,1024,512)", "bliss (budgets 64,32,16)"
    assert section.summary[0].endswith(
        f"Test F1: 0.898 with {full}, mean of 2 runs and 0.898 with {small}."
    )
    labels = [f"test F1, {full}, 2 runs", f"test F1, {small}"]
    assert [tile.label for tile in section.tiles] == labels


def test_lengths_of_runs_are_in_labels_if_nothing_else_differs(tmp_path):
    runs = [factory.run(tmp_path / str(steps), steps=steps) for steps in (300, 400)]
    (section,) = build(runs)
    lines = section.charts[0].figure.axes[0].get_legend_handles_labels()[1]
    assert lines == ["bliss (steps 300)", "bliss (steps 400)"]


def test_a_run_with_times_has_its_score_over_time(tmp_path):
    folder = factory.run(tmp_path / "run")
    (section,) = build([folder])
    assert "Validation F1 over time" not in [chart.title for chart in section.charts]
    run = RunFolder(folder)
    for line in run.metrics():
        run.add_times(StepTime(step=line.step, seconds=line.step / 50))
    (section,) = build([folder])
    (chart,) = (c for c in section.charts if c.title == "Validation F1 over time")
    (line,) = chart.figure.axes[0].lines
    assert line.get_xdata().tolist() == [step / 50 for step in range(20, 301, 20)]


def two_samplers(tmp_path, **changes):
    """A comparison of pladies (first), and of bliss with these changes."""
    rows = read(factory.comparison(tmp_path) / "compare.json")["rows"]
    rows = [
        row | changes if row["policy"] == "node" else row
        for row in rows
        if row["model"] == "sage"
        and row["budget_share"] == 1
        and row["policy"] in ("static", "node")
    ]
    return build([factory.comparison(tmp_path, rows=rows)])[0]


def test_headlines_name_only_significant_differences(tmp_path):
    clear, chance = (two_samplers(tmp_path / str(p), p_value=p) for p in (0.01, 0.21))
    test = "(paired t-test over equal seeds, Holm's correction for 1 comparison, 5% level)"
    assert clear.summary[0].startswith(
        "sage on synthetic: mean test F1 over 5 seeds is pladies 0.884 ± 0.004 and bliss 0.896 ± "
        "0.004. bliss (+0.012, p = 0.010) differs significantly from pladies in test F1 " + test
    )
    assert f"No sampler differs significantly from pladies in test F1 {test}" in chance.summary[0]
    assert [tile.value for tile in clear.tiles][:2] == ["0.884", "+0.012"]
    assert [tile.value for tile in chance.tiles][:2] == ["0.884", "21.4 ms"]


def test_a_difference_that_is_significant_alone_may_not_be_among_many(tmp_path):
    (section,) = build([factory.comparison(tmp_path, models=("sage",))])
    assert "bliss (node) (+0.012, p = 0.001) differs" in section.summary[0]  # 3 x 0.0004
    assert "Holm's correction for 3 comparisons" in section.summary[0]
    assert "bliss (exp3) (" not in section.summary[0]  # 2 x 0.034


def test_one_seed_has_no_deviation_and_no_test(tmp_path):
    deviations = ("test_score_std", "test_score_interval", "val_score_std")
    section = two_samplers(tmp_path, seeds=1, p_value=None, **dict.fromkeys(deviations))
    found = table([section], "Scores")
    assert column(found, "Test F1")[1].text == f"0.8960 ± {tables.DASH}"
    assert "bliss 0.896." in section.summary[0]
    assert "were not tested" in section.summary[0]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),
        ([0.5, 0.9], [1.0, 1.0]),
        ([0.02], [0.02]),
        ([], []),
    ],
)
def test_holms_correction(given, expected):
    assert holm(given) == pytest.approx(expected)


def test_notes_and_skipped_samplers_are_remarks(tmp_path):
    skipped = [{"model": "gat", "sampler": "vrgcn", "why": "it has no attention."}]
    (section,) = build([factory.comparison(tmp_path, notes=["Beware."], skipped=skipped)])
    assert section.remarks == ["Beware.", "vrgcn with gat was left out: it has no attention."]


def test_an_unfinished_run_is_a_remark(tmp_path):
    (section,) = build([factory.run(tmp_path / "cut", finished=False)])
    assert "The run “cut” is unfinished: step 180 of 300." in section.remarks[0]
    (tmp_path / "cut" / "metrics.jsonl").unlink()
    (section,) = build([tmp_path / "cut"])
    assert "not been evaluated yet" in section.remarks[0]
    assert section.charts == []


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (tables.score_spread(0.98765, 0.00123).text, "0.9877 ± 0.0012"),
        (tables.score_spread(0.5, None).text, "0.5000 ± \u2013"),
        (tables.score_cell(None).text, "\u2013"),
        (tables.score_cell(0.5).text, "0.5000"),
        (tables.number(math.inf).text, "\u2013"),
        (tables.number(12345.6).text, "12,346"),
        (tables.signed(-0.00123).text, "\u22120.0012"),
        (tables.signed(None).text, "\u2013"),
        (tables.chance(0.0004).text, "< 0.001"),
        (tables.chance(None).text, "\u2013"),
        (tables.significant(0.012345), "0.0123"),
        (tables.significant(12345.6), "12,346"),
        (tables.significant(0.0), "0"),
        (tables.significant(1.234e-12), "1.23e\u221212"),
        (tables.sentence_list(["a", "b", "c"]), "a, b and c"),
    ],
)
def test_numbers_are_shown(shown, expected):
    assert shown == expected
