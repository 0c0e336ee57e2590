"""Short runs on the toy graph, and what two runs must share to be the same run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from bliss.data import Dataset
from bliss.errors import Interrupted
from bliss.train import RunFolder, RunResult, StepProgress, TrainConfig, Trainer, resolve

SETTINGS: dict[str, Any] = {
    "dataset": "toy",
    "layers": 2,
    "hidden": 16,
    "budgets": (60, 30),
    "batch_size": 40,  # of 120 training nodes: three steps an epoch
    "steps": 30,
    "lr": 0.02,
    "evaluate_every": 10,
}
BUDGETS: dict[str, tuple[int, ...]] = {"sources": (60, 30), "neighbours": (5, 5), "none": ()}


def quiet(_: str) -> None:
    pass


def settings(**changes: Any) -> TrainConfig:
    return resolve(**(SETTINGS | changes))


def make_trainer(dataset: Dataset, out: Path, **changes: Any) -> Trainer:
    return Trainer(settings(**changes), dataset, out, quiet)


def trained(
    dataset: Dataset, out: Path, resume: bool = False, **changes: Any
) -> tuple[Trainer, RunResult]:
    trainer = make_trainer(dataset, out, **changes)
    return trainer, trainer.run(resume)


def state(trainer: Trainer) -> dict[str, torch.Tensor]:
    """Weights of the network and what the sampler has learnt."""
    sampler = trainer.stepper.sampler.state_dict()
    return {
        **{f"model.{k}": v for k, v in trainer.task.model.state_dict().items()},
        **{f"sampler.{k}": v.clone() for k, v in sampler.items()},
    }


def stopped(
    trainer: Trainer,
    step: int,
    number: int,
    on_step: Callable[[StepProgress], None] | None = None,
    resume: bool = False,
) -> None:
    """Run until a signal, sent after a step, stops it; the step is in a checkpoint."""

    def interrupt(now: StepProgress) -> None:
        if on_step:
            on_step(now)
        if now.step == step:
            os.kill(os.getpid(), number)

    with pytest.raises(Interrupted):
        trainer.run(resume, interrupt)
    assert (trainer.folder.checkpoints / f"{step:09d}.json").exists()


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors agree bit for bit, also where they are NaN."""
    return one.dtype == other.dtype and one.numpy().tobytes() == other.numpy().tobytes()


def assert_same_run(one: Path, other: Path) -> None:
    """Two finished runs agree bit for bit: checkpoint, best weights, metrics and scores."""
    first, second = RunFolder(one), RunFolder(other)
    ours, theirs = (folder.load_checkpoint(quiet) for folder in (first, second))
    assert ours is not None
    assert theirs is not None
    assert set(ours.tensors) == set(theirs.tensors)
    for name, tensor in ours.tensors.items():
        if name.startswith("times."):  # no two runs take the same time
            assert tensor.shape == theirs.tensors[name].shape
        else:
            assert same(tensor, theirs.tensors[name]), name
    best = second.load_best()
    assert {k: v.tolist() for k, v in first.load_best().items()} == {
        k: v.tolist() for k, v in best.items()
    }
    assert first.metrics() == second.metrics()
    assert [line.step for line in first.times()] == [line.step for line in second.times()]
    results = first.result(), second.result()
    for name in ("train_score", "val_score", "test_score", "best_step", "steps", "sampled"):
        assert getattr(results[0], name) == getattr(results[1], name)
