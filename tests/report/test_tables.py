"""The numbers of the tables are those of the files, exactly, and shown rounded."""

from __future__ import annotations

import json
import math

import pytest

from bliss.report import tables
from bliss.report.build import build
from tests.report import factory


def table(sections, caption, part=0):
    (found,) = [t for t in sections[0].parts[part].tables if t.caption == caption]
    return found


def column(found, name):
    return [row[list(found.columns).index(name)] for row in found.rows]


def test_a_run(tmp_path):
    sections = build([factory.run(tmp_path)])
    result = json.loads((tmp_path / "result.json").read_text())
    found = table(sections, "Results")
    for name, value in {
        "Test F1": result["test_f1"],
        "Validation F1": result["val_f1"],
        "Training F1": result["train_f1"],
        "Best step": result["best_step"],
        "Training, s": result["seconds"],
        "Step, ms": result["step_ms"]["total"],
        "Nodes a step": result["sampled"]["nodes"],
        "Edges a step": result["sampled"]["edges"],
        "Peak, MB": result["peak_mb"],
    }.items():
        (cell,) = column(found, name)
        assert float(cell.key) == value
    assert column(found, "Test F1")[0].text == "0.8977"


def test_a_comparison_tells_the_full_budget_and_shares_apart(tmp_path):
    sections = build([factory.comparison(tmp_path)])
    rows = json.loads((tmp_path / "compare.json").read_text())["rows"]
    for part, model in enumerate(("sage", "gatv2")):
        own = [row for row in rows if row["model"] == model]
        whole = [row for row in own if row["budget_share"] == 1]
        scores, cost = (table(sections, name, part) for name in ("Scores", "Cost"))
        assert [float(c.key) for c in column(scores, "Test F1")] == [r["test_f1"] for r in whole]
        assert [c.key for c in column(scores, "p")] == [
            "" if r["p_value"] is None else repr(r["p_value"]) for r in whole
        ]
        assert [float(c.key) for c in column(cost, "Nodes a step")] == [r["nodes"] for r in whole]
        shares = table(sections, "As the budget shrinks", part)
        assert [float(c.key) for c in column(shares, "Test F1")] == [r["test_f1"] for r in own]
        step = table(sections, "Time of a step, in milliseconds", part)
        assert [float(c.key) for c in column(step, "Sample")] == [
            r["step_ms"]["sample"] for r in whole
        ]


def test_a_reproduction(tmp_path):
    sections = build([factory.reproduction(tmp_path)])
    tables_of = json.loads((tmp_path / "reproduce.json").read_text())["tables"]
    for part, preset in enumerate(("paper", "ours")):
        for caption, key, names in (
            ("F1", "f1", {"Ours": "ours", "Published": "published", "Difference": "difference"}),
            ("Time", "time", {"Ours, s": "ours", "Published, s": "published", "Ratio": "ratio"}),
        ):
            rows = [row for row in tables_of[key] if row["preset"] == preset]
            for name, field in names.items():
                cells = column(table(sections, caption, part), name)
                assert [float(cell.key) for cell in cells] == [row[field] for row in rows]
    exponents = column(table(sections, "Growth", 2), "Exponent")
    assert [float(cell.key) for cell in exponents] == [
        row["exponent"] for row in tables_of["variance"]
    ]


def test_a_reproduction_without_tables_still_tells_what_is_missing(tmp_path):
    (section,) = build([factory.reproduction(tmp_path, tables={}, figures=[])])
    assert section.parts == []
    assert section.remarks[0].startswith("reddit is missing. Run")


def test_a_variance(tmp_path):
    sections = build([factory.variance(tmp_path)])
    layers = json.loads((tmp_path / "variance.json").read_text())["layers"]
    found = table(sections, "Variance of each policy")
    told = [p for layer in layers for p in layer["policies"].values()]
    assert [float(c.key) for c in column(found, "V over PLADIES")] == [
        p["over_pladies"] for p in told
    ]
    assert [float(c.key) for c in column(found, "Layer")] == [1, 1, 2, 2, 3, 3]


def test_runs_that_differ_by_seed_share_a_line_with_its_deviation(tmp_path):
    runs = [factory.run(tmp_path / str(seed), seed=seed) for seed in (0, 1, 2)]
    other = factory.run(tmp_path / "other", lr=0.01)
    (section,) = build([*runs, other])
    lines = section.charts[0].figure.axes[0].get_legend_handles_labels()[1]
    assert lines == ["bliss, lr 0.002", "bliss, lr 0.01"]
    finals = [
        json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["val_f1"] for run in runs
    ]
    mean = sum(finals) / 3
    deviation = math.sqrt(sum((f - mean) ** 2 for f in finals) / 2)
    shown = f"{mean:.3f} (deviation {tables.significant(deviation, 2)}) at step 300"
    assert shown in section.charts[0].alt


def test_headlines_name_the_best_and_whether_it_may_be_chance(tmp_path):
    rows = json.loads((factory.comparison(tmp_path) / "compare.json").read_text())["rows"]
    rows = [r for r in rows if r["model"] == "sage" and r["policy"] in ("static", "node")]

    def words(p):
        changed = [row | {"p_value": p} if row["policy"] == "node" else row for row in rows]
        return build([factory.comparison(tmp_path, rows=changed)])[0].summary[0]

    assert "bliss has the highest mean test F1, 0.896 ± 0.003 over 5 seeds, +0.012" in words(0.01)
    assert "chance" not in words(0.01)
    assert "(p = 0.210, which may be chance)" in words(0.21)


def test_an_unfinished_run_is_said_to_be(tmp_path):
    (section,) = build([factory.run(tmp_path / "cut", finished=False)])
    assert "The run “cut” is unfinished: step 180 of 300." in section.remarks[0]
    (tmp_path / "cut" / "metrics.jsonl").unlink()
    (section,) = build([tmp_path / "cut"])
    assert "not been evaluated yet" in section.remarks[0]
    assert section.charts == []


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (tables.f1(0.98765, 0.00123).text, "0.9877 ± 0.0012"),
        (tables.f1(math.nan, 0.1).text, "\u2013"),
        (tables.f1(0.5).text, "0.5000"),
        (tables.number(math.inf).text, "\u2013"),
        (tables.number(12345.6).text, "12,346"),
        (tables.signed(-0.00123).text, "\u22120.0012"),
        (tables.chance(0.0004).text, "< 0.001"),
        (tables.chance(math.nan).text, "\u2013"),
        (tables.significant(0.012345), "0.0123"),
        (tables.significant(12345.6), "12,346"),
        (tables.significant(0.0), "0"),
        (tables.significant(1.234e-12), "1.23e\u221212"),
        (tables.sentence_list(["a", "b", "c"]), "a, b and c"),
    ],
)
def test_numbers_are_shown(shown, expected):
    assert shown == expected
