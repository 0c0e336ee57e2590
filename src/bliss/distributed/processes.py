"""Processes that torchrun started: join their group, and leave it.

Processes of one machine talk over the loopback interface, which other machines cannot reach.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, NamedTuple

from bliss.distributed.groups import ALONE, Group, TorchGroup
from bliss.errors import InputError, LostError

TIMEOUT = 600.0
"""Seconds that a process waits for the others by default."""
LOOPBACK = "127.0.0.1"
_INTERFACE = "lo" if sys.platform == "linux" else "lo0"


class Launch(NamedTuple):
    """Rank of this process in its job and on its machine, set by torchrun."""

    rank: int
    size: int
    local_rank: int
    restarts: int  # how often torchrun has started the job again
    is_local: bool = True  # whether all processes are on this machine


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
    rank, size, local_rank, restarts = numbers
    is_local = variables.get("LOCAL_WORLD_SIZE") == variables["WORLD_SIZE"]
    is_local = is_local or variables.get("MASTER_ADDR") in (LOOPBACK, "::1", "localhost")
    return Launch(rank, size, local_rank, restarts, is_local)


@contextmanager
def process_group(
    launch: Launch, device: str = "cpu", timeout: float = TIMEOUT, store: Any = None
) -> Iterator[Group]:
    """Context manager that joins the group of all processes: gloo on the CPU, NCCL on GPUs.

    device   "cpu" or "cuda"; each process of a machine then uses the GPU of its local rank
    timeout  seconds to wait for the others in each collective operation
    store    of `make_store`; default: the one at MASTER_ADDR and MASTER_PORT
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
        store = store or _store_of_environment(launch, timeout)
        if launch.is_local:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", _INTERFACE)
        dist.init_process_group(
            "nccl" if is_cuda else "gloo",
            timeout=timedelta(seconds=timeout),
            store=store,
            rank=launch.rank,
            world_size=launch.size,
        )
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


def listen(address: str, port: int = 0) -> socket.socket:
    """Listen on one address of this machine, not on all of them; port 0: any free port."""
    family, *_, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    return socket.create_server(place[:2], family=family)


def make_store(
    launch: Launch, timeout: float, address: str, port: int, server: socket.socket | None = None
) -> Any:
    """The store by which processes find each other, held by rank 0, which listens at `server`."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    return TCPStore(
        address,
        port,
        launch.size,
        launch.rank == 0,
        timedelta(seconds=timeout),
        master_listen_fd=None if server is None else server.detach(),  # None: on all addresses
    )


def _store_of_environment(launch: Launch, timeout: float) -> Any:
    """Store at MASTER_ADDR; None if torchrun holds it, or if there is no such address."""
    address, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" or not (address and port):
        return None
    server = None
    if launch.rank == 0:
        with suppress(OSError):  # a name that others know this machine by, but not itself
            server = listen(address, int(port))
    return make_store(launch, timeout, address, int(port), server)
