"""The weights that are kept are those of the best validation F1, and patience counts from them."""

from __future__ import annotations

import signal

import pytest
import torch

from bliss.train import Trainer, evaluate, loop
from bliss.train.evaluation import SurveyedScores
from tests.train.runs import make_trainer, quiet, settings, stopped

pytestmark = pytest.mark.slow

TRAIN = {10: 0.9, 20: 0.5, 30: 0.7, 40: 0.95}
VAL = {10: 0.3, 20: 0.8, 30: 0.8, 40: 0.6}  # the best twice; training F1 is best elsewhere


@pytest.fixture
def scripted(monkeypatch):
    """Evaluations during training give scores from a table by step."""

    def install(trainer: Trainer, val: dict[int, float] = VAL) -> None:
        def scores(task, splits, progress=None):
            if "test" in splits:
                return evaluate(task, splits, progress)
            step = trainer.stepper.steps
            return {"train": TRAIN.get(step, 0.9), "val": val[step]}

        def surveyed(task, sampler, *arguments):
            return SurveyedScores(scores(task, *arguments), [])

        monkeypatch.setattr(loop, "evaluate", scores)
        monkeypatch.setattr(loop, "evaluate_and_survey", surveyed)

    return install


def weights_of(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: t.clone() for name, t in trainer.task.model.state_dict().items()}


def are_equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(tensor, other[name]) for name, tensor in one.items())


@pytest.mark.parametrize("stop", [None, 25, 35])
def test_the_first_step_of_the_best_validation_f1_is_kept(dataset, tmp_path, scripted, stop):
    seen = {}

    def keep(now):
        seen[now.step] = weights_of(trainer)

    trainer = make_trainer(dataset, tmp_path, steps=40)
    scripted(trainer)
    if stop is not None:  # the best step so far is part of a checkpoint
        stopped(trainer, stop, signal.SIGTERM, keep)
        trainer = make_trainer(dataset, tmp_path, steps=40)
        scripted(trainer)
    result = trainer.run(resume=stop is not None, on_step=keep)
    assert result.best_step == 20
    best = trainer.folder.load_best()
    assert [step for step in (10, 20, 30, 40) if are_equal(best, seen[step])] == [20]
    assert (
        result.val_score == evaluate(trainer.task, ("val",))["val"]
    )  # of the best weights, measured
    assert are_equal(best, weights_of(trainer))


def test_the_lowest_error_is_the_best_and_patience_counts_from_it(dataset, tmp_path, scripted):
    trainer = make_trainer(dataset, tmp_path, steps=100, patience=2, select="loss")
    scripted(trainer, {10: 0.5, 20: 0.4, 30: 0.6, 40: 0.7, 50: 0.1})
    result = trainer.run()
    assert (result.steps, result.best_step) == (40, 20)
    assert result.test_score == result.scores["test"]["loss"]
    assert result.constant.score == pytest.approx(result.constant.loss, rel=1e-6)


def test_patience_counts_evaluations_since_the_best_and_the_stop_is_announced(
    dataset, tmp_path, scripted
):
    said: list[str] = []
    config = settings(steps=100, patience=2)
    trainer = Trainer(config, dataset, tmp_path, said.append)
    scripted(trainer, {10: 0.5, 20: 0.4, 30: 0.6, 40: 0.6, 50: 0.1})
    result = trainer.run()
    assert (result.steps, result.best_step) == (50, 30)
    assert said == [
        "Stopped early at step 50: no better validation F1 in 2 evaluations (--patience 2)."
    ]


def test_without_patience_a_run_takes_all_its_steps_and_announces_nothing(
    dataset, tmp_path, scripted
):
    said: list[str] = []
    trainer = Trainer(settings(), dataset, tmp_path, said.append)
    scripted(trainer, {10: 0.5, 20: 0.4, 30: 0.3})
    assert trainer.run().steps == 30
    assert said == []


def test_a_standing_tells_the_step_of_its_score(dataset, tmp_path, scripted):
    trainer = Trainer(settings(steps=20), dataset, tmp_path, quiet)
    scripted(trainer)
    seen = {}
    trainer.run(on_step=lambda now: seen.update({now.step: (now.evaluated, now.val_score)}))
    assert [seen[step][0] for step in (1, 9, 10, 11, 19, 20)] == [0, 0, 10, 10, 10, 20]
    assert [seen[step][1] for step in (10, 19, 20)] == [0.3, 0.3, 0.8]
