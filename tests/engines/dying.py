"""A worker of Ray that is killed once, for tests/engines/test_ray.py."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

from bliss.engines.ray_worker import work
from bliss.train.step import Stepper
from tests.distributed.listening import own_listeners

STEP = 7
"""The step in which it is killed: the last checkpoint is that of step 5."""


def die_once(values: dict[str, Any]) -> dict[str, Any]:
    """`work`, but rank 1 is killed in its first life.

    Each rank writes the addresses that it listens on, except those of Ray.
    """
    from ray import train

    folder, rank = Path(values["out"]).parent, train.get_context().get_world_rank()
    mark, step, of_ray = folder / "died", Stepper.step, Counter(own_listeners())

    def until_death(self: Stepper, *given: Any) -> float:
        opened = Counter(own_listeners()) - of_ray
        (folder / f"listening-{rank}").write_text(" ".join(opened.elements()))
        if rank == 1 and self.steps == STEP and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return step(self, *given)

    Stepper.step = until_death
    return work(values)
