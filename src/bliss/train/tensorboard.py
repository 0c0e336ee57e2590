"""Logging for TensorBoard, if it is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bliss.errors import InputError
from bliss.storage.files import writing
from bliss.train.results import Evaluation


@contextmanager
def tensorboard_writer(
    folder: Path | None,
) -> Iterator[Callable[[Evaluation], None] | None]:
    """Callback for `Trainer.run` that logs each evaluation; None if no folder is given."""
    if folder is None:
        yield None
        return
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise InputError(
            "tensorboard=True needs TensorBoard: install it with pip install "
            "'bliss-gnn[tensorboard]', or leave the option out."
        ) from error
    place = folder / "tensorboard"
    with writing(place):
        writer = SummaryWriter(str(place))

    def log(evaluation: Evaluation) -> None:
        score = evaluation.metric
        with writing(place):
            for name in ("loss", "train_score", "val_score", "train_mse", "val_mse"):
                if (value := getattr(evaluation, name)) is not None:
                    writer.add_scalar(name.replace("score", score), value, evaluation.step)
            writer.flush()

    try:
        yield log
    finally:
        with writing(place):
            writer.close()
