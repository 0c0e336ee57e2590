"""Start a few processes that run a function as one group, and return what each of them returns."""

from __future__ import annotations

import multiprocessing
import tempfile
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from bliss.distributed.groups import TorchGroup

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.distributed.preloaded"])
PATIENCE = 120.0
"""Seconds after which a group that does not end has failed."""


def run_group(size: int, work: Callable[..., Any], *given: Any, timeout: float = 60.0) -> list[Any]:
    """Results of work(group, *given) in each of `size` processes, by rank.

    A process that raises an error returns its traceback, and a killed one None.
    """
    with tempfile.TemporaryDirectory() as folder:
        answers = [PROCESSES.Pipe(duplex=False) for _ in range(size)]
        started = [
            PROCESSES.Process(
                target=member,
                args=(rank, size, Path(folder) / "store", timeout, answer, work, given),
                daemon=True,
            )
            for rank, (_, answer) in enumerate(answers)
        ]
        for process in started:
            process.start()
        for _, answer in answers:
            answer.close()  # the end of a process closes the pipe
        found = []
        for receiver, _ in answers:
            assert receiver.poll(PATIENCE), "a process does not end"
            try:
                found.append(receiver.recv())
            except EOFError:  # it was killed
                found.append(None)
        for process in started:
            process.join(10)
        return found


def member(
    rank: int, size: int, store: Path, timeout: float, answer: Any, work: Any, given: tuple
) -> None:
    """Join the group, work, and send the result."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=store.as_uri(),
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=timeout),
    )
    try:
        result = work(TorchGroup(), *given)
    except Exception:
        result = traceback.format_exc()
    answer.send(result)
    answer.close()
