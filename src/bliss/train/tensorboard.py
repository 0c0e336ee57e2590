"""Logging for TensorBoard, where it is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bliss.errors import InputError


@contextmanager
def tensorboard_writer(
    folder: Path | None,
) -> Iterator[Callable[[Mapping[str, Any]], None] | None]:
    """What `Trainer.run` calls at each evaluation; None where no folder is given."""
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
    writer = SummaryWriter(str(folder / "tensorboard"))

    def log(metrics: Mapping[str, Any]) -> None:
        for name, value in metrics.items():
            if name != "step":
                writer.add_scalar(name, value, metrics["step"])
        writer.flush()

    try:
        yield log
    finally:
        writer.close()
