"""Groups of processes that train together, and their collective operations.

All processes of a group call the same operations in the same order. Nothing is pickled.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from bliss.arrays import Bytes
from bliss.errors import InputError, LostError

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_SPACES = ("/proc/self/ns/mnt", "/proc/self/ns/pid")


class Group(Protocol):
    """R processes, numbered by their rank from 0 to R - 1."""

    @property
    def rank(self) -> int:
        """Number of this process."""

    @property
    def size(self) -> int:
        """Number of processes, R."""

    def all_gather(self, tensor: Tensor) -> list[Tensor]:
        """Tensors of all processes, by rank. They must have equal types and shapes."""

    def all_reduce(self, tensor: Tensor) -> Tensor:
        """Sum of the tensors of all processes, in an order that the backend chooses."""

    def all_gather_bytes(self, content: Bytes, sizes: Sequence[int] = ()) -> list[Bytes]:
        """Bytes of all processes, by rank, of any length. uint8[N] -> R arrays uint8[N_r].

        `sizes` are the lengths by rank, if they are known.
        """

    def broadcast_bytes(self, content: Bytes) -> Bytes:
        """Bytes of rank 0. What the others pass is ignored."""


class Alone:
    """The group of a single process."""

    rank = 0
    size = 1

    def all_gather(self, tensor: Tensor) -> list[Tensor]:
        """The tensor itself."""
        return [tensor]

    def all_reduce(self, tensor: Tensor) -> Tensor:
        """The tensor itself."""
        return tensor

    def all_gather_bytes(self, content: Bytes, sizes: Sequence[int] = ()) -> list[Bytes]:
        """The bytes themselves."""
        return [content]

    def broadcast_bytes(self, content: Bytes) -> Bytes:
        """The bytes themselves."""
        return content


ALONE = Alone()


class TorchGroup:
    """Processes of `torch.distributed`, with gloo or NCCL."""

    def __init__(self, group: Any = None) -> None:
        import torch.distributed as dist

        if not dist.is_available() or not dist.is_initialized():
            raise InputError(
                "there is no group of processes yet: call "
                "torch.distributed.init_process_group(...) first, or start with torchrun."
            )
        self._dist, self._group = dist, group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        is_nccl = dist.get_backend(group) == "nccl"
        self.device = torch.device("cuda", torch.cuda.current_device()) if is_nccl else None
        self.seconds = 0.0  # spent in collective operations, waiting for others included

    def all_gather(self, tensor: Tensor) -> list[Tensor]:
        """Tensors of all processes, by rank. They must have equal types and shapes."""
        own = self._placed(tensor)
        gathered = [torch.empty_like(own) for _ in range(self.size)]
        with self._timed():
            self._dist.all_gather(gathered, own, group=self._group)
        return [received.to(tensor.device) for received in gathered]

    def all_reduce(self, tensor: Tensor) -> Tensor:
        """Sum of the tensors of all processes; all get the same bits."""
        total = self._placed(tensor.clone())
        with self._timed():
            self._dist.all_reduce(total, group=self._group)
        return total.to(tensor.device)

    def all_gather_bytes(self, content: Bytes, sizes: Sequence[int] = ()) -> list[Bytes]:
        """Bytes of all processes, by rank, of any length."""
        sizes = sizes or [int(size) for size in self.all_gather(torch.tensor([content.size]))]
        padded = torch.zeros(max(sizes), dtype=torch.uint8)
        padded[: content.size] = torch.from_numpy(content)
        gathered = self.all_gather(padded) if max(sizes) else [padded] * self.size
        return [own.numpy()[:size] for own, size in zip(gathered, sizes, strict=True)]

    def broadcast_bytes(self, content: Bytes) -> Bytes:
        """Bytes of rank 0. What the others pass is ignored."""
        size = int(self.all_gather(torch.tensor([content.size]))[0])
        buffer = torch.empty(size, dtype=torch.uint8)
        if self.rank == 0:
            buffer.copy_(torch.from_numpy(content))
        if size == 0:
            return buffer.numpy()
        buffer = self._placed(buffer)
        with self._timed():
            self._dist.broadcast(buffer, group=self._group, group_src=0)
        return buffer.cpu().numpy()

    def _placed(self, tensor: Tensor) -> Tensor:
        """The tensor on the device that the backend takes."""
        moved = tensor.cpu() if self.device is None else tensor.to(self.device)
        return moved.contiguous()

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """Count the time; a process that does not answer becomes a `LostError`."""
        started = perf_counter()
        try:
            yield
            if self.device is not None:
                torch.cuda.synchronize(self.device)
        except RuntimeError as error:
            raise LostError(
                f"rank {self.rank} gets no answer from another process of the run, which has ended "
                "or is slower than the timeout: start all of them again."
            ) from error
        self.seconds += perf_counter() - started


def first_ranks(group: Group) -> list[int]:
    """For each process, the lowest rank on its machine."""
    machines = all_gather_text(group, machine_name())
    return [machines.index(name) for name in machines]


def machine_name() -> str:
    """Name of this machine, for processes that can open each other's memory and temporary files.

    A container, with name spaces of its own for files and processes, counts as another machine.
    """
    boot = _BOOT.read_text(encoding="ascii").strip() if _BOOT.exists() else ""
    spaces = [os.readlink(path) for path in _SPACES if os.path.islink(path)]
    return " ".join([socket.gethostname(), boot, *spaces])


def all_gather_text(group: Group, text: str) -> list[str]:
    """Texts of all processes, by rank."""
    return [content.tobytes().decode() for content in group.all_gather_bytes(as_bytes(text))]


def as_bytes(text: str | bytes) -> Bytes:
    """Text in UTF-8, or bytes, as an array that can be written to. uint8[N]."""
    content = text.encode() if isinstance(text, str) else text
    return np.frombuffer(content, np.uint8).copy()


def as_group(group: Any) -> Group:
    """A `Group` from what users pass: True, a process group of torch.distributed, or a `Group`."""
    if group is True:
        return TorchGroup()
    if hasattr(group, "all_gather_bytes"):
        own: Group = group
        return own
    if type(group).__module__.startswith("torch") or isinstance(group, _process_groups()):
        return TorchGroup(group)
    raise InputError(
        f"group is a {type(group).__name__}: pass True for the default group of torch.distributed, "
        "or a process group."
    )


def _process_groups() -> tuple[type, ...]:
    import torch.distributed as dist

    return (dist.ProcessGroup,) if dist.is_available() else ()
