"""`bliss advise` and `bliss train --budgets auto`, as a person would type them."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from typer.testing import CliRunner

from bliss import data
from bliss.cli import app
from bliss.studies.advice import pilot
from tests.build import make_dataset

pytestmark = pytest.mark.slow
CHOOSE = import_module("bliss.train.seconds.choice").choose
SMALL = [
    "--dataset", "toy", "--layers", "2", "--hidden", "8", "--batch-size", "40", "--lr", "0.02",
    "--evaluate-every", "10",
]  # fmt: skip


def bliss(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def toy(monkeypatch):
    dataset = make_dataset()
    monkeypatch.setattr(data, "load_dataset", lambda *_, **__: dataset)
    monkeypatch.setattr(pilot, "BATCHES", 3)
    monkeypatch.setattr(pilot, "SEEDS", 1)
    monkeypatch.setattr(pilot, "TIMED_STEPS", 2)


def test_advise_shows_the_table_the_sign_and_the_command(tmp_path):
    file = tmp_path / "advice.json"
    result = bliss("advise", *SMALL, "--sampler", "bliss", "--pilot-steps", "4", "--json", file)
    assert result.exit_code == 0, result.output
    for word in (
        "pladies",
        "neighbor",
        "full",
        "variance of sampling",
        "to need the least time",
        "Choice: bliss",
    ):
        assert word in result.output
    found = json.loads(file.read_text())
    assert found["kind"] == "advice"
    assert f"Run: {found['command']}" in result.output
    assert found["choice"]["sampler"] == "bliss"
    assert found["fits"]
    assert "Fit of" not in result.output  # the models are in the file


def test_auto_resolves_is_recorded_and_resumes_without_a_second_pilot(tmp_path, monkeypatch):
    out = tmp_path / "run"
    auto = ["train", *SMALL, "--sampler", "pladies", "--budgets", "auto", "--out", out]
    result = bliss(*auto, "--steps", "10")
    assert result.exit_code == 0, result.output
    assert "budgets=auto, after" in result.output
    chosen = json.loads((out / "config.json").read_text())["sampler"]
    assert chosen["name"] == "pladies"
    assert len(chosen["budgets"]) == 2

    def refuse(*_):
        raise AssertionError("a second pilot")

    monkeypatch.setattr(import_module("bliss.cli.train"), "auto_config", refuse)
    again = bliss(*auto, "--steps", "20", "--resume")
    assert again.exit_code == 0, again.output
    assert "Resuming after step 10" in again.output
    budgets = ",".join(map(str, chosen["budgets"]))
    plain = ["train", *SMALL, "--sampler", "pladies", "--budgets", budgets, "--steps", "20"]
    plain += ["--estimator", chosen["config"]["estimator"], "--out", tmp_path / "plain"]
    assert bliss(*plain).exit_code == 0
    ours, theirs = (load_file(folder / "best.safetensors") for folder in (out, tmp_path / "plain"))
    assert list(ours) == list(theirs)
    for name, weights in ours.items():
        np.testing.assert_array_equal(weights, theirs[name])
    assert bliss(*auto, "--steps", "20").exit_code == 2  # the folder holds a run


def test_seconds_choose_train_and_are_shown_by_advise(tmp_path, monkeypatch):
    """With a clock that is a counter: an evaluation and a step take some calls of it."""
    ticks = iter(range(10**9))
    monkeypatch.setattr(import_module("bliss.train.seconds.timed_run"), "choose", counted(ticks))
    out = tmp_path / "run"
    timed = ["train", *SMALL[:-2], "--sampler", "pladies", "--seconds", "60", "--out", out]
    result = bliss(*timed)
    assert result.exit_code == 0, result.output
    assert "Pilot: at most 6 s of 60 s." in result.output
    assert "Choice: pladies" in result.output
    stored = json.loads((out / "config.json").read_text())
    assert f"{stored['training']['steps']:,} steps of " in result.output
    assert stored["training"]["schedule"] == "linear"
    assert bliss(*timed).exit_code == 2  # the folder holds a run
    again = bliss(*timed, "--resume")
    assert again.exit_code == 0
    assert "Pilot" not in again.output
    monkeypatch.setattr(import_module("bliss.train.seconds.choice"), "choose", counted(ticks))
    file = tmp_path / "choice.json"
    shown = bliss("advise", *SMALL, "--sampler", "pladies", "--seconds", 60, "--json", file)
    assert shown.exit_code == 0, shown.output
    found = json.loads(file.read_text())
    assert f"--steps {found['steps']}" in " ".join(shown.output.split())
    assert "time to a loss" in shown.output


def test_seconds_say_why_nothing_is_chosen(tmp_path, monkeypatch):
    random, dataset = torch.Generator().manual_seed(3), make_dataset()
    labels = torch.randint(0, 3, (dataset.graph.num_nodes,), generator=random)
    nothing = replace(dataset, x=torch.ones_like(dataset.x), y=labels)
    monkeypatch.setattr(data, "load_dataset", lambda *_, **__: nothing)
    ticks = iter(range(10**9))
    options = [*SMALL[:-2], "--sampler", "pladies", "--seconds", "40"]
    for module in ("timed_run", "choice"):
        own = import_module(f"bliss.train.seconds.{module}")
        monkeypatch.setattr(own, "choose", counted(ticks))
    for command, cause in (("train", "Likely cause 1: "), ("advise", " 1. ")):
        out = ["--out", tmp_path / "run"] if command == "train" else []
        result = bliss(command, *options, *out)
        assert result.exit_code == 0, result.output
        text = " ".join(result.output.split())
        assert "No choice: after" in text
        assert "not clearly better than a constant prediction" in text
        assert cause in text.partition("No choice")[2]


def counted(ticks):
    """`choose` with a counter for a clock."""

    def choose_by_ticks(settings, dataset, seconds, *, started, say):
        return CHOOSE(settings, dataset, seconds, clock=lambda: next(ticks) / 10, say=say)

    return choose_by_ticks


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["train", "--seconds", "0"], "seconds=0.0 must be a finite number above 0"),
        (["train", "--seconds", "9", "--steps", "5"], "steps=5 was given beside seconds=9"),
        (["train", "--seconds", "9", "--engine", "ray"], "not supported with --engine ray"),
        (["advise", "--seconds", "9", "--limit", "0.3"], "have no effect with --seconds"),
        (["advise", "--budgets", "9,9"], "are what `bliss advise` chooses"),
    ],
)
def test_times_that_cannot_be_are_refused(options, message):
    result = bliss(*options)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_the_short_help_shows_seconds():
    for command in ("train", "advise"):
        assert "--seconds" in bliss(command, "--help").output


def test_studies_refuse_auto():
    result = bliss("variance", "--budgets", "auto")
    assert result.exit_code == 2
    assert "budgets='auto' needs a pilot" in result.output
