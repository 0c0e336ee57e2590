"""Studies from the command line, as a person would type them."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from bliss.cli import app

pytestmark = pytest.mark.slow

SMALL = ["--steps", "20", "--hidden", "16", "--budgets", "200,100,50"]


def bliss(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    out = tmp_path_factory.mktemp("studies") / "comparison"
    result = bliss(
        "compare", "--samplers", "bliss,pladies,full", "--seeds", "2", "--shares", "1,0.5", "--out",
        out, "--evaluate-every", "10", *SMALL[:4],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    return out, result.output


def test_variance_shows_a_table_and_writes_what_was_promised(tmp_path):
    file = tmp_path / "new" / "v.json"
    result = bliss("variance", "--policies", "static,node", "--json", file, *SMALL)
    assert result.exit_code == 0, result.output
    for word in ("limit", "static", "node", "over PLADIES"):
        assert word in result.output
    found = json.loads(file.read_text())
    assert [layer["budget"] for layer in found["layers"]] == [200, 100, 50]
    for layer in found["layers"]:
        assert layer["limit_over_pladies"] <= 1
        for name in ("static", "node"):
            assert set(layer["policies"][name]) == {
                "over_pladies", "over_limit", "weighted_over_pladies", "weighted_over_limit",
            }  # fmt: skip


def test_variance_with_surveys_shows_surveyed_policies_and_their_ages(tmp_path):
    file, page = tmp_path / "v.json", tmp_path / "report.html"
    surveys = ["--survey-every", "5", "--every", "4", "--model", "gatv2", "--json", file]
    result = bliss("variance", "--policies", "static,node", *surveys, *SMALL)
    assert result.exit_code == 0, result.output
    assert "node+survey" in result.output
    found = json.loads(file.read_text())
    assert found["survey_every"] == 5
    assert [one["age"] for one in found["ages"]] == [0, 1, 2, 3]
    assert bliss("report", file, "--out", page).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert "V over limit by age of the survey" in text
    assert "A survey every 5 steps" in text


def test_variance_says_where_nothing_was_sampled(tmp_path):
    file = tmp_path / "variance.json"
    budgets = ["--budgets", "100000,100000,50", "--steps", "2", "--hidden", "16"]
    result = bliss("variance", "--policies", "node", "--json", file, *budgets)
    assert result.exit_code == 0, result.output
    assert (
        "Nothing was sampled in layer 1, 2, because the budget covers every candidate"
        in result.output
    )
    assert "Little to gain in layer 1" not in result.output
    layers = json.loads(file.read_text())["layers"]
    assert [layer["limit_over_pladies"] is None for layer in layers] == [True, True, False]
    page = tmp_path / "report.html"
    assert bliss("report", file, "--out", page).exit_code == 0
    assert "nothing was sampled, because the budget covers" in page.read_text(encoding="utf-8")


def test_comparison_shows_every_sampler_and_how_long_it_will_take(compared):
    out, text = compared
    found = json.loads((out / "compare.json").read_text())
    names = [(row["sampler"], row["budget_share"]) for row in found["rows"]]
    # full has no budget to shrink
    assert names == [("bliss", 1), ("bliss", 0.5), ("pladies", 1), ("pladies", 0.5), ("full", 1)]
    assert found["seeds"] == [0, 1]
    assert "left)" in text
    for word in ("bliss", "pladies", "full", "test F1", "peak MB", "s to F1"):
        assert word in text


def test_budgets_have_units_on_the_command_line(tmp_path):
    out = tmp_path / "compared"
    sizes = ["--budgets", "layer=200,100,50", "node=3,2,2", "subgraph=100"]
    result = bliss(
        "compare", "--samplers", "bliss,neighbor,saint-rw", "--seeds", "1", "--steps", "2",
        "--hidden", "8", "--out", out, *sizes,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    found = json.loads((out / "compare.json").read_text())
    given = [(row["unit"], row["budgets"] or [row["batch_size"]]) for row in found["rows"]]
    assert given == [("layer", [200, 100, 50]), ("node", [3, 2, 2]), ("subgraph", [100])]
    assert found["match"] == ""
    assert "estimator own" in result.output


def test_reports_take_comparisons_runs_and_variance(compared, tmp_path):
    out, _ = compared
    run = next((out / "runs").iterdir())
    page = tmp_path / "report.html"
    result = bliss("report", out, run, "--out", page, "--figures", tmp_path / "figures")
    assert result.exit_code == 0, result.output
    assert "<svg" in page.read_text(encoding="utf-8")
    assert list((tmp_path / "figures").glob("*.png"))
    assert list((tmp_path / "figures").glob("*.svg"))


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["variance", "--policies", "mab"], "policies='mab'"),
        (["variance", "--policies", ","], "policies"),
        (["variance", "--policies", "exp3", "--survey-every", "5"], "survey_every=5"),
        (["compare", "--seeds", "one", "--out", "x"], "seeds='one'"),
        (["compare", "--seeds", "1,1", "--out", "x"], "seeds='1,1'"),
        (["compare", "--shares", "half", "--out", "x"], "shares='half'"),
        (["compare", "--samplers", "blis", "--out", "x"], "samplers='blis'"),
        (["compare", "--samplers", "bliss+steps=2", "--out", "x"], "'steps' is not an option"),
        (["compare", "--out", "x", "--budgets", "edge=5"], "budgets='edge=5'"),
        (["compare", "--match", "bytes", "--out", "x"], "match='bytes'"),
        (["compare", "--estimator", "best", "--out", "x"], "estimator='best'"),
        (["compare", "--sizes", "ours", "--out", "x"], "sizes='ours'"),
        (["compare", "--search", "99", "--out", "x"], "search=99"),
        (["report", "nowhere"], "nowhere"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_two(arguments, word, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = bliss(*arguments)
    assert result.exit_code == 2, result.output
    assert word in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "x").exists()
