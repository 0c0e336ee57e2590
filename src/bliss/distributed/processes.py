"""Processes that torchrun started: join their group, and leave it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import NamedTuple

from bliss.distributed.groups import ALONE, Group, TorchGroup
from bliss.errors import InputError, LostError

TIMEOUT = 600.0
"""Seconds that a process waits for the others by default."""


class Launch(NamedTuple):
    """Rank of this process in its job and on its machine, set by torchrun."""

    rank: int
    size: int
    local_rank: int
    restarts: int  # how often torchrun has started the job again


def read_launch(environment: dict[str, str] | None = None) -> Launch:
    """The launch of this process; a single one if no launcher like torchrun has started it."""
    variables = dict(os.environ) if environment is None else environment
    if "RANK" not in variables or "WORLD_SIZE" not in variables:
        return Launch(0, 1, 0, 0)
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RESTART_COUNT")
    numbers = []
    for name in names:
        text = variables.get(name, "0")
        if not text.isdigit():
            raise InputError(
                f"{name}={text!r} in the environment is not a whole number: start with torchrun, "
                "or unset RANK and WORLD_SIZE."
            )
        numbers.append(int(text))
    return Launch(*numbers)


@contextmanager
def process_group(launch: Launch, device: str = "cpu", timeout: float = TIMEOUT) -> Iterator[Group]:
    """Context manager that joins the group of all processes: gloo on the CPU, NCCL on GPUs.

    Parameters
    ----------
    launch
        The launch of this process.
    device
        "cpu" or "cuda"; each process of a machine then uses the GPU of its local rank.
    timeout
        Seconds to wait for the others in each collective operation.
    """
    if not timeout > 0:
        raise InputError(f"timeout={timeout} must be positive: give it in seconds.")
    if launch.size == 1:
        yield ALONE
        return
    import torch
    import torch.distributed as dist

    is_cuda = device.startswith("cuda")
    if is_cuda and torch.cuda.is_available():
        torch.cuda.set_device(launch.local_rank)
    try:
        wait = timedelta(seconds=timeout)
        dist.init_process_group("nccl" if is_cuda else "gloo", timeout=wait)
    except (RuntimeError, ValueError, OSError) as error:
        raise LostError(
            f"rank {launch.rank} cannot join the other {launch.size - 1} processes "
            f"({str(error).splitlines()[0]}): check that all were started, MASTER_ADDR and the "
            "network."
        ) from error
    is_lost = False
    try:
        yield TorchGroup()
    except LostError:
        is_lost = True
        raise
    finally:
        if not is_lost:  # to leave a broken group may wait for those who are lost
            with suppress(RuntimeError):
                dist.destroy_process_group()
