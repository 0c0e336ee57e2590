"""A worker of Ray that is killed once, for tests/engines/test_ray.py."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from bliss.engines.ray_worker import work
from bliss.train.step import Stepper

STEP = 7
"""The step in which it is killed: the last checkpoint is that of step 5."""


def die_once(values: dict[str, Any]) -> dict[str, Any]:
    """`work`, but rank 1 is killed in its first life."""
    from ray import train

    mark, step = Path(values["out"]).parent / "died", Stepper.step

    def until_death(self: Stepper, *given: Any) -> float:
        if self.steps == STEP and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return step(self, *given)

    if train.get_context().get_world_rank() == 1:
        Stepper.step = until_death
    return work(values)
