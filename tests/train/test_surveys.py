"""Evaluations during training teach the policy, and runs with surveys resume bit for bit."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from torch import Tensor

from bliss.samplers.base import Sampler
from bliss.train import RunFolder, loop
from tests.train.runs import assert_same_run, make_trainer, quiet, same, stopped, trained

pytestmark = pytest.mark.slow

ATTENTION = {"model": "gatv2", "heads": 2}


@pytest.mark.parametrize(
    ("stop", "prefetch", "kept"),  # after a survey, and before the next
    [(10, 0, "edge"), (10, 1, "edge"), (11, 1, "edge"), (10, 1, "node"), (19, 0, "node")],
)
def test_a_run_with_surveys_that_was_stopped_ends_as_if_it_had_not(
    dataset, tmp_path, whole, stop, prefetch, kept
):
    options = ATTENTION | {"prefetch": prefetch, "survey_attention": kept}
    stopped(make_trainer(dataset, tmp_path, **options), stop, signal.SIGTERM)
    trained(dataset, tmp_path, resume=True, **options)
    assert_same_run(tmp_path, whole(**options))


def test_each_full_evaluation_is_one_pass_that_teaches(dataset, tmp_path, monkeypatch):
    passes, survey = [], Sampler.surveyed

    def counted(self, *arguments, **options):
        passes.append(trainer.stepper.steps)
        return survey(self, *arguments, **options)

    monkeypatch.setattr(Sampler, "surveyed", counted)
    full = []
    for name, infer in (("evaluate", loop.evaluate), ("assess", loop.assess)):

        def evaluated(*arguments, infer=infer, **options):
            full.append(trainer.stepper.steps)
            return infer(*arguments, **options)

        monkeypatch.setattr(loop, name, evaluated)
    trainer = make_trainer(dataset, tmp_path / "a", steps=25, **ATTENTION)
    trainer.run()
    assert passes == [10, 20]  # the last evaluation teaches nothing: no step follows
    assert full == [25, 25]  # of the last weights, and of the best


def weights(out: Path) -> dict[str, Tensor]:
    """Weights, optimiser and sampler at the end of a run."""
    found = RunFolder(out).load_checkpoint(quiet)
    assert found is not None
    return {name: tensor for name, tensor in found.tensors.items() if not name.startswith("times")}


def test_without_surveys_the_policy_learns_from_samples_alone(dataset, whole):
    runs = {
        "with": weights(whole(**ATTENTION)),
        "without": weights(whole(**ATTENTION, survey=False)),
        "sampled": weights(whole(**ATTENTION, evaluate="sampled")),
    }
    assert any("base" in name for name in runs["with"])
    assert set(runs["without"]) == set(runs["sampled"])
    for name, plain in runs["without"].items():
        assert "base" not in name
        assert same(plain, runs["sampled"][name])
    assert not all(same(plain, runs["with"][name]) for name, plain in runs["without"].items())


@pytest.mark.parametrize("prefetch", [0, 1])
def test_a_run_extended_from_between_two_surveys_ends_with_the_same_weights(
    dataset, tmp_path, whole, prefetch
):
    options = ATTENTION | {"prefetch": prefetch}
    trained(dataset, tmp_path, steps=25, **options)
    trained(dataset, tmp_path, steps=30, resume=True, **options)
    ours, theirs = weights(tmp_path), weights(whole(**options))
    assert set(ours) == set(theirs)
    assert all(same(ours[name], theirs[name]) for name in ours)
