"""Commands on a graph with types: one run from training to a report, studies, and budgets."""

from __future__ import annotations

import csv
import json
from importlib import import_module
from itertools import count

import pytest
from typer.testing import CliRunner

from bliss.cli import app
from bliss.cli.options import parse
from bliss.data import save_dataset
from bliss.data.type_summary import type_rows_of
from bliss.errors import InputError
from bliss.studies.comparison.plan import covers_everything
from bliss.studies.comparison.sizes import parse_budgets, scaled, size_text
from bliss.train import TrainConfig
from bliss.train.budget_text import budgets_text
from tests.cli.test_cli_advise import counted
from tests.types.graphs import typed_dataset

DATA = typed_dataset()
NAMES = [",".join(one) for one in DATA.graph.types.edge_types]
BY_TYPE = "author=20,paper=15,venue=3/20"
NETWORK = ["--layers", 2, "--hidden", 8, "--embedding", 4, "--batch-size", 24]
STEPS = ["--steps", 4, "--evaluate-every", 2]

TEXTS = {
    "512,256": (512, 256),
    "author=64,paper=-1/32": ({"author": 64, "paper": -1}, 32),
    "32/author=64": (32, {"author": 64}),
    "author,writes,paper=5,cites=2": ({"author,writes,paper": 5, "cites": 2},),
    "/people/person=5,a=b=3/x y=2": ({"/people/person": 5, "a=b": 3}, {"x y": 2}),
}


@pytest.mark.parametrize("text", TEXTS)
def test_budgets_are_read_and_written_as_text(text):
    assert parse("budgets", text) == TEXTS[text]
    assert budgets_text(TEXTS[text]) == text


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("author=64;32", "author=64;32"),
        ("author=64,", ""),
        ("author=64/", ""),
        ("author=", "author="),
        ("author=6.5/3", "author=6.5/3"),
        ("a=1,a=2", "a=2"),
        ("a=1,32/5", "32/5"),
    ],
)
def test_malformed_budgets_get_one_sentence(text, rest):
    with pytest.raises(InputError) as error:
        parse("budgets", text)
    assert f"budgets={text!r}: {rest!r} does not start with" in str(error.value)
    assert "author=64,paper=128/32" in str(error.value)


def test_sizes_of_a_comparison_may_be_by_type():
    found, has_units = parse_budgets("layer=layer=30,node=9/8 node=writes=5,cites=2/4")
    assert found == {"layer": ({"layer": 30, "node": 9}, 8), "node": ({"writes": 5, "cites": 2}, 4)}
    assert has_units
    assert scaled(found["layer"], 0.5, "layer") == ({"layer": 15, "node": 4}, 4)
    assert scaled(found["node"], 0.5, "node") == ({"writes": 3, "cites": 1}, 2)
    assert size_text("node", found["node"]) == "node=writes=5,cites=2/4"
    for text in ("layer=author=0/3", "author=30/8"):
        with pytest.raises(InputError, match="is not a unit"):
            parse_budgets(text)


@pytest.mark.parametrize(
    ("sampler", "whole", "lowered"),
    [
        ("pladies", dict.fromkeys(DATA.graph.types.node_types, 120), {"author": 3}),
        ("neighbor", dict.fromkeys(NAMES, 240), {"author,writes,paper": 1}),
    ],
)
def test_budgets_by_type_cover_everything_if_each_does(sampler, whole, lowered):
    given = {"model": "rsage", "layers": 2, "embedding": 4, "batch_size": 24, "sampler": sampler}
    for own, expected in ((whole, True), (whole | lowered, False)):
        assert covers_everything(TrainConfig.of(**given, budgets=(own, 240)), DATA) is expected


def bliss(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def done(*arguments: object) -> str:
    result = bliss(*arguments)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return save_dataset(DATA, tmp_path_factory.mktemp("typed") / "store")


@pytest.mark.slow
def test_a_run_on_types_is_trained_evaluated_predicted_and_reported(store, tmp_path):
    run, data = tmp_path / "run", ["--dataset", store]
    options = ["--model", "rsage", *data, *NETWORK, "--budgets", BY_TYPE, "--out", run]
    done("train", *options, *STEPS)
    stored = json.loads((run / "config.json").read_text())["sampler"]["budgets"]
    assert stored == [{"author": 20, "paper": 15, "venue": 3}, 20]
    done("train", *options, *STEPS, "--resume")
    scores = tmp_path / "scores.json"
    done("evaluate", run, "--json", scores)
    result = json.loads((run / "result.json").read_text())
    found = json.loads(scores.read_text())["splits"]["test"]["scores"]
    assert found["f1"] == pytest.approx(result["test_score"])
    done("predict", run, "--out", tmp_path / "papers.csv")
    with open(tmp_path / "papers.csv", encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == 120  # papers alone
    done("report", run, "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    rows = type_rows_of(DATA)
    assert result["types"] == [list(row) for row in rows]
    for words in ("Types and relations of", "author=20, paper=15, venue=3", *sum(rows, ())):
        assert words in page
    refused = bliss("train", *options[:-1], tmp_path / "no", "--budgets", "author=3/4")
    assert refused.exit_code == 2
    assert "no entry for type" in " ".join(refused.output.split())
    assert not (tmp_path / "no").exists()


@pytest.mark.slow
def test_studies_on_types_take_budgets_by_type(store, tmp_path):
    given = ["--dataset", store, *NETWORK, *STEPS]
    sizes = [f"layer={BY_TYPE}", f"node={','.join(f'{name}=2' for name in NAMES)}/3"]
    study = ["--models", "rsage,rgat", "--samplers", "pladies,neighbor,fastgcn", "--seeds", 1]
    shown = done(
        "compare", *given, *study, "--shares", "1,0.5", "--budgets", *sizes, "--out", tmp_path / "c"
    )
    assert "FastGCN has one budget for all types" in shown
    rows = json.loads((tmp_path / "c" / "compare.json").read_text())["rows"]
    kept = {(row["model"], row["sampler"], row["budget_share"]): row["budgets"] for row in rows}
    assert len(kept) == 8
    for model in ("rsage", "rgat"):
        assert kept[model, "pladies", 0.5] == [{"author": 10, "paper": 8, "venue": 2}, 10]
        assert kept[model, "neighbor", 1] == [dict.fromkeys(NAMES, 2), 3]
    done("report", tmp_path / "c", "--out", tmp_path / "page.html")
    assert "layer author 20, paper 15, venue 3 / 20" in (tmp_path / "page.html").read_text("utf-8")
    matched = bliss(
        "compare", *given, *study, "--match", "nodes", "--budgets", *sizes, "--out", "x"
    )
    assert matched.exit_code == 2
    assert "match='nodes' changes one number per layer" in " ".join(matched.output.split())
    file = tmp_path / "v.json"
    done(
        "variance", *given, "--model", "rsage", "--policies", "static", "--budgets", BY_TYPE,
        "--json", file,
    )  # fmt: skip
    assert [layer["budget"] for layer in json.loads(file.read_text())["layers"]] == [38, 20]
    advised = bliss("advise", *given[:-4], "--model", "rsage", "--seconds", 9, "--budgets", BY_TYPE)
    assert advised.exit_code == 2
    assert "a pilot chooses one number per layer" in " ".join(advised.output.split())


@pytest.mark.slow
def test_a_run_on_types_takes_a_given_time(store, tmp_path, monkeypatch):
    """With a clock that is a counter."""
    timed_run = import_module("bliss.train.seconds.timed_run")
    monkeypatch.setattr(timed_run, "choose", counted(count()))
    options = ["--model", "rsage", "--sampler", "pladies", "--dataset", store, *NETWORK]
    shown = done("train", *options, "--lr", 0.02, "--seconds", 60, "--out", tmp_path / "run")
    assert "Choice: pladies" in shown
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["test_score"] > 0.5  # chance is 1/3
