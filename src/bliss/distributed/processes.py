"""Processes that torchrun started: join their group, and leave it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import NamedTuple

from bliss.distributed.groups import Group, TorchGroup
from bliss.distributed.rounds import ALONE
from bliss.errors import InputError, LostError

TIMEOUT = 600.0
"""Seconds that a process waits for the others by default."""


class Place(NamedTuple):
    """Number of this process in its job, and on its machine, as torchrun tells it."""

    rank: int
    size: int
    local_rank: int
    restarts: int  # how often torchrun has started the job again


def place_of(environment: dict[str, str] | None = None) -> Place:
    """Place of this process; alone if torchrun, or another launcher like it, did not start it."""
    found = dict(os.environ) if environment is None else environment
    if "RANK" not in found or "WORLD_SIZE" not in found:
        return Place(0, 1, 0, 0)
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RESTART_COUNT")
    numbers = []
    for name in names:
        text = found.get(name, "0")
        if not text.isdigit():
            raise InputError(
                f"{name}={text!r} in the environment is not a whole number: start with torchrun, "
                "or unset RANK and WORLD_SIZE."
            )
        numbers.append(int(text))
    return Place(*numbers)


@contextmanager
def joined(place: Place, device: str = "cpu", timeout: float = TIMEOUT) -> Iterator[Group]:
    """Context manager that joins the group of all processes: gloo on the CPU, NCCL on GPUs.

    Parameters
    ----------
    place
        Place of this process.
    device
        "cpu" or "cuda"; each process of a machine then uses the GPU of its local rank.
    timeout
        Seconds to wait for the others in each exchange.
    """
    if not timeout > 0:
        raise InputError(f"timeout={timeout} must be positive: give it in seconds.")
    if place.size == 1:
        yield ALONE
        return
    import torch
    import torch.distributed as dist

    is_cuda = device.startswith("cuda")
    if is_cuda and torch.cuda.is_available():
        torch.cuda.set_device(place.local_rank)
    try:
        wait = timedelta(seconds=timeout)
        dist.init_process_group("nccl" if is_cuda else "gloo", timeout=wait)
    except (RuntimeError, ValueError, OSError) as error:
        raise LostError(
            f"rank {place.rank} cannot join the other {place.size - 1} processes "
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
