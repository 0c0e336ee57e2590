"""The loop, checkpoints and evaluation; alone holds a run's state."""

from bliss.train.config import TrainConfig, resolve
from bliss.train.folder import RunFolder
from bliss.train.loop import PARTS, Interrupted, Progress, Trainer
from bliss.train.metrics import micro_f1, probabilities

__all__ = [
    "PARTS",
    "Interrupted",
    "Progress",
    "RunFolder",
    "TrainConfig",
    "Trainer",
    "micro_f1",
    "probabilities",
    "resolve",
]
