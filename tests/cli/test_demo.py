"""The demonstration compares samplers in equal time, and its numbers are those of its runs."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from bliss.cli import app
from bliss.cli.demo import BAR
from bliss.data import synthetic
from bliss.studies import demonstration

pytestmark = pytest.mark.slow

MS = {"bliss": 40.0, "neighbor": 100.0}  # of a step, in place of measured ones


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Output and folder of a demonstration with 0.2 s for each network, run twice."""
    folder = tmp_path_factory.mktemp("demo")
    (folder / "mine.txt").write_text("kept")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demonstration, "step_ms", lambda config, _: MS[config.sampler.name])
        patch.setattr(synthetic, "NUM_NODES", 2_000)
        patch.setattr(synthetic, "NUM_PAIRS", 10_000)
        exercises = demonstration.EXERCISES
        for chosen in (exercises[1:2], exercises):
            patch.setattr(demonstration, "EXERCISES", chosen)
            done = CliRunner().invoke(app, ["demo", "--seconds", "0.2", "--out", str(folder)])
            assert done.exit_code == 0, done.output
    return done.output, folder


def test_samplers_have_the_same_time(shown):
    output, _ = shown
    steps = re.findall(r"^  (\w+).*?(\d+) steps", output, re.MULTILINE)
    exercises = len(demonstration.EXERCISES)
    assert steps == [("bliss", "5"), *2 * [("neighbour", "3")]] * exercises  # three at least


def test_scores_are_those_of_the_runs(shown):
    output, folder = shown
    runs = sorted(folder.glob("*/result.json"), key=lambda path: path.stat().st_mtime)
    scores = [json.loads(run.read_text())["test_score"] for run in runs]
    assert re.findall(r"steps  (\d\.\d+)$", output, re.MULTILINE) == [f"{s:.3f}" for s in scores]
    assert len(set(scores)) > 3
    assert (folder / "mine.txt").exists()
    best = [(own, max(others)) for own, *others in zip(*[iter(scores)] * 3, strict=True)]
    bars = re.findall(r"^  (\w.*?) +(█+) (\d\.\d{3})$", output, re.MULTILINE)
    names = ("bliss", "neighbour sampling") * len(best)
    values = [score for pair in best for score in pair]
    assert bars == [
        (name, "█" * round(BAR * score), f"{score:.3f}")
        for name, score in zip(names, values, strict=True)
    ]
    page = (folder / "report.html").read_text(encoding="utf-8")
    pairs = re.findall(r": bliss (\d\.\d{3}), neighbour sampling (\d\.\d{3})\.", page)
    assert pairs[: len(best)] == [(f"{own:.3f}", f"{other:.3f}") for own, other in best]


def test_a_pilot_measures_the_time_of_a_step():
    exercise = demonstration.EXERCISES[1]
    config = demonstration.resolve(dataset="synthetic", **exercise.network)
    assert 0.1 < demonstration.step_ms(config, exercise.graph()) < 60_000


def test_seconds_that_are_no_time_are_refused(tmp_path):
    done = CliRunner().invoke(app, ["demo", "--seconds", "0", "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert "seconds=0" in done.output
