"""Customers from raw CSV files to a network that has learnt them, with the default commands."""

from __future__ import annotations

import json

import pytest

from tests.cli.test_cli import bliss
from tests.data.customers import write_customers


@pytest.fixture(scope="module")
def customers(tmp_path_factory):
    """The arguments of an import, and its store."""
    folder = tmp_path_factory.mktemp("customers")
    files = write_customers(folder)
    table, edges = files["customers"], [files["payments0"], files["payments1"]]
    given = [word for file in edges for word in ("--edges", file)]
    given += ["--features", table, "--labels", table, "--label", "segment", "--undirected"]
    columns = {"id": "customer", "source": "payer", "target": "payee", "weight": "amount"}
    given += [word for name, column in columns.items() for word in (f"--{name}-column", column)]
    result = bliss("data", "import", folder / "store", *given)
    assert result.exit_code == 0, result.output
    return given, folder / "store", result.output


def score(out, *options):
    result = bliss("train", *options, "--out", out)
    assert result.exit_code == 0, result.output
    return json.loads((out / "result.json").read_text())["test_score"], result.output


def test_the_default_commands_learn_the_customers(customers, tmp_path):
    _, store, summary = customers
    test_score, output = score(tmp_path / "run", "--dataset", store, "--steps", 100)
    assert test_score >= 0.98
    plain = ("--features", "raw", "--normalisation", "none", "--steps", 50)
    raw, _ = score(tmp_path / "raw", "--dataset", store, *plain)
    assert raw < 0.5  # so that the encoding is what helps
    assert "76,768 edges and 3,000 self-loops" in output
    for note in (
        "76,768, and 3,000 self-loops",
        "Column city has 5 categories",
        "missing values, set to the mean",
        "used for a weighted mean",
    ):
        assert note in summary
    predicted = bliss("predict", tmp_path / "run", "--out", tmp_path / "p.csv")
    assert predicted.exit_code == 0, predicted.output
    assert (tmp_path / "p.csv").read_text().splitlines()[1].startswith("C-")


def test_a_dry_run_shows_the_summary_and_writes_nothing(customers, tmp_path):
    given, _, summary = customers
    result = bliss("data", "import", tmp_path / "store", *given, "--dry-run")
    assert result.exit_code == 0, result.output
    table = result.output.partition("Nothing was written")[0]
    assert table and summary.startswith(table)
    assert not (tmp_path / "store").exists()


def test_problems_are_listed_one_per_line(customers, tmp_path):
    given, _, _ = customers
    words = ["nowhere" if word in ("payer", "segment") else word for word in given]
    result = bliss("data", "import", tmp_path / "store", *words)
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert lines[0] == "Error: 3 problems"
    assert [line[:2] for line in lines[1:]] == ["1.", "2.", "3."]
    assert not (tmp_path / "store").exists()
