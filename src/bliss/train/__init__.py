"""Runs: settings, steps, evaluation, checkpoints and the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bliss.lazy import lazy_names
from bliss.train.config import TrainConfig, resolve

if TYPE_CHECKING:
    from bliss.train.evaluation import evaluate, full_logits
    from bliss.train.folder import RunFolder
    from bliss.train.loop import Standing, Trainer, open_task
    from bliss.train.metrics import micro_f1, probabilities
    from bliss.train.records import Evaluation, RunResult
    from bliss.train.signals import Interrupted
    from bliss.train.step import PARTS, Learner
    from bliss.train.task import Task, build_task

_MODULES = {
    "evaluation": ("evaluate", "full_logits"),
    "folder": ("RunFolder",),
    "loop": ("Standing", "Trainer", "open_task"),
    "metrics": ("micro_f1", "probabilities"),
    "records": ("Evaluation", "RunResult"),
    "signals": ("Interrupted",),
    "step": ("PARTS", "Learner"),
    "task": ("Task", "build_task"),
}

__all__ = [
    "PARTS",
    "Evaluation",
    "Interrupted",
    "Learner",
    "RunFolder",
    "RunResult",
    "Standing",
    "Task",
    "TrainConfig",
    "Trainer",
    "build_task",
    "evaluate",
    "full_logits",
    "micro_f1",
    "open_task",
    "probabilities",
    "resolve",
]

__getattr__ = lazy_names(
    __name__, {name: f"bliss.train.{file}" for file, names in _MODULES.items() for name in names}
)
