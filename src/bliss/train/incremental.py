"""Checkpoint files: full checkpoints, and incremental ones that hold dirty rows.

000000100.safetensors    tensors; in an incremental checkpoint, of some only the dirty rows
000000100.json           counters, and a digest of both files

A checkpoint exists once its JSON file does. An incremental one has a parent, the checkpoint before
it: "parent" has its step and digest, and "inherited" lists the tensors that are those of the parent
but for their dirty rows, of which "rows.NAME" holds the ids and "values.NAME" the values.

A full checkpoint and the incremental ones that follow it are a chain. It ends when its increments
are as large as the full checkpoint; the next one is full. The chain before the newest is kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors
import torch
from torch import Tensor

from bliss.arrays import IntArray
from bliss.storage.digests import new_digest
from bliss.storage.files import check_regular, replace_file, replacing

LONGEST = 100
"""Checkpoints of a chain at most."""
_CHUNK = 1 << 24  # bytes
_TYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


class Checkpoint(NamedTuple):
    """Complete state of a run, for resuming."""

    tensors: dict[str, Tensor]
    counters: dict[str, Any]
    dirty_rows: Mapping[str, IntArray] | None = None
    """Rows that changed since the last checkpoint, of each tensor that need not be written in full;
    None: write all tensors."""


class _Chain(NamedTuple):
    """A full checkpoint and the incremental ones that follow it."""

    step: int  # of the newest checkpoint
    digest: str  # of the newest checkpoint
    length: int  # number of checkpoints
    full: int  # bytes of the full checkpoint
    increments: int = 0  # bytes of the others

    def extended(self, step: int, digest: str, size: int) -> _Chain:
        """The chain with another incremental checkpoint, of `size` bytes."""
        return _Chain(step, digest, self.length + 1, self.full, self.increments + size)


class CheckpointFiles:
    """Full and incremental checkpoints in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._chain: _Chain | None = None  # that the next checkpoint may extend

    def steps(self) -> list[int]:
        """Steps with a checkpoint, intact or not, in order."""
        return sorted(int(p.stem) for p in self.folder.glob("*.json") if p.stem.isdigit())

    def remove_leftovers(self) -> None:
        """Delete tensors without counters, left by a killed run."""
        for tensors in self.folder.glob("*.safetensors"):
            if not tensors.with_suffix(".json").exists():
                tensors.unlink()

    def save(self, step: int, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, incremental if that is possible and smaller; delete old chains."""
        tensors, counters = checkpoint.tensors, checkpoint.counters
        increment = self._increment(step, checkpoint)
        chain = self._chain if increment else None
        if chain and increment:
            tensors = increment
            counters = counters | {
                "parent": {"step": chain.step, "digest": chain.digest},
                "inherited": sorted(checkpoint.dirty_rows or {}),
            }
        stem = self.folder / f"{step:09d}"
        with replacing(stem.with_suffix(".safetensors")) as scratch:
            running = _write(scratch, tensors)
            size = scratch.stat().st_size
        running.update(json.dumps(counters, sort_keys=True).encode())
        digest = running.hexdigest()
        text = json.dumps(counters | {"digest": digest}, indent=2)
        replace_file(stem.with_suffix(".json"), text.encode())
        new = _Chain(step, digest, 1, size)
        self._chain = chain.extended(step, digest, size) if chain else new
        self._prune(step)

    def _increment(self, step: int, checkpoint: Checkpoint) -> dict[str, Tensor] | None:
        """Tensors of an incremental checkpoint; None if a full one must be written."""
        chain, dirty = self._chain, checkpoint.dirty_rows
        if dirty is None or chain is None or chain.length >= LONGEST or chain.step >= step:
            return None
        increment = {name: t for name, t in checkpoint.tensors.items() if name not in dirty}
        for name, ids in dirty.items():
            if ids.size:
                rows = torch.from_numpy(ids)
                increment[f"rows.{name}"] = rows.int() if ids[-1] < 2**31 else rows
                increment[f"values.{name}"] = checkpoint.tensors[name][rows]
        size = sum(tensor.nbytes for tensor in increment.values())
        return increment if chain.increments + size <= chain.full else None

    def load(self, say: Callable[[str], None]) -> Checkpoint | None:
        """The latest intact checkpoint; reports each damaged one. None: there is none."""
        for step in reversed(self.steps()):
            try:
                checkpoint, self._chain = self._load(step)
                return checkpoint
            except Exception as error:  # a damaged file can raise almost anything
                say(f"The checkpoint of step {step} is damaged ({error}); trying the previous one.")
        return None

    def _load(self, step: int, expected: str = "") -> tuple[Checkpoint, _Chain]:
        """A checkpoint, and the chain that it ends; `expected` is its digest, if known."""
        stem = self.folder / f"{step:09d}"
        check_regular(stem.with_suffix(".json"))
        counters = json.loads(stem.with_suffix(".json").read_text(encoding="utf-8"))
        digest, file = new_digest(), stem.with_suffix(".safetensors")
        check_regular(file)
        with open(file, "rb", buffering=0) as stream:
            while part := stream.read(_CHUNK):
                digest.update(part)
        stated = counters.pop("digest")
        digest.update(json.dumps(counters, sort_keys=True).encode())
        if stated != digest.hexdigest() or (expected and stated != expected):
            raise ValueError("its digest does not match")
        size, parent = file.stat().st_size, counters.pop("parent", None)
        with safetensors.safe_open(file, framework="pt") as opened:
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        if parent is None:
            return Checkpoint(tensors, counters), _Chain(step, stated, 1, size)
        if parent["step"] >= step:
            raise ValueError("it continues a later checkpoint")
        before, chain = self._load(parent["step"], parent["digest"])
        for name in counters.pop("inherited"):
            tensor = before.tensors[name]
            if f"rows.{name}" in tensors:
                tensor[tensors.pop(f"rows.{name}").long()] = tensors.pop(f"values.{name}")
            tensors[name] = tensor
        return Checkpoint(tensors, counters), chain.extended(step, stated, size)

    def _chain_steps(self, newest: int) -> list[int]:
        """Steps of the chain that ends with a checkpoint, newest first."""
        steps = [newest]
        while True:
            try:
                text = (self.folder / f"{steps[-1]:09d}.json").read_text(encoding="utf-8")
                parent = int(json.loads(text)["parent"]["step"])
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                return steps
            if parent >= steps[-1]:
                return steps
            steps.append(parent)

    def _prune(self, newest: int) -> None:
        """Delete the checkpoints before `newest`, except its chain and the one before."""
        kept = self._chain_steps(newest)
        earlier = [step for step in self.steps() if step < kept[-1]]
        kept += self._chain_steps(earlier[-1]) if earlier else []
        for step in self.steps():
            if step < newest and step not in kept:
                for suffix in (".json", ".safetensors"):
                    (self.folder / f"{step:09d}").with_suffix(suffix).unlink(missing_ok=True)


def _write(path: Path, tensors: Mapping[str, Tensor]) -> Any:
    """Write tensors in the safetensors format, one after the other; returns a running digest.

    Unlike `safetensors.torch.save`, this makes no copy of all tensors.
    """
    place, header, digest = 0, {}, new_digest()
    # Offsets of wide types must be multiples of 8, so these come first.
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    for name in names:
        tensor = tensors[name]
        ends = [place, place := place + tensor.nbytes]
        kind, shape = _TYPES[tensor.dtype], [*tensor.shape]
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": ends}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as stream:

        def write(part: Any) -> None:
            stream.write(part)
            digest.update(part)

        write(len(text).to_bytes(8, "little"))
        write(text)
        for name in names:
            flat = tensors[name].detach().cpu().contiguous().reshape(-1).view(torch.uint8)
            content = np.asarray(flat.numpy()).data
            for start in range(0, len(content), _CHUNK):
                write(content[start : start + _CHUNK])
    return digest
