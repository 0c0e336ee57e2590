"""The loop, checkpoints and evaluation; alone holds a run's state."""

from bliss.train.config import TrainConfig, resolve
from bliss.train.folder import RunFolder
from bliss.train.loop import PARTS, Interrupted, Progress, Trainer
from bliss.train.metrics import micro_f1, probabilities
from bliss.train.records import Evaluation, RunResult

__all__ = [
    "PARTS",
    "Evaluation",
    "Interrupted",
    "Progress",
    "RunFolder",
    "RunResult",
    "TrainConfig",
    "Trainer",
    "micro_f1",
    "probabilities",
    "resolve",
]
