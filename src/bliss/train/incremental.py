"""Checkpoint files: whole ones, and ones that hold what has changed since the one before.

000000100.safetensors    tensors; or, of those kept from the checkpoint before, changed rows
000000100.json           counters, and a digest of both files

A checkpoint exists once its JSON file does. In one that holds changes, "after" has the step and the
digest of the checkpoint that it continues, and "kept" the tensors that it takes from there. Rows of
a tensor NAME are in "rows.NAME" (ids) and "values.NAME". A chain starts with a whole checkpoint and
is replaced by a new one when its changes are as large as that. The chain before it is kept.
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
"""Checkpoints of a chain."""
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
    changed: Mapping[str, IntArray] | None = None
    """Rows that changed since the last checkpoint, of each tensor that need not be written whole;
    None: write all tensors."""


class _Chain(NamedTuple):
    step: int  # of the newest checkpoint
    digest: str
    length: int
    whole: int  # bytes of the first one
    changes: int  # bytes of the others

    def grown(self, step: int, digest: str, size: int) -> _Chain:
        """The chain with one checkpoint more, of `size` bytes."""
        return _Chain(step, digest, self.length + 1, self.whole, self.changes + size)


class CheckpointFiles:
    """The checkpoints in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._chain: _Chain | None = None  # that the next checkpoint may continue

    def steps(self) -> list[int]:
        """Steps with a checkpoint, intact or not, in order."""
        return sorted(int(p.stem) for p in self.folder.glob("*.json") if p.stem.isdigit())

    def remove_leftovers(self) -> None:
        """Delete tensors without counters, left by a killed run."""
        for tensors in self.folder.glob("*.safetensors"):
            if not tensors.with_suffix(".json").exists():
                tensors.unlink()

    def save(self, step: int, checkpoint: Checkpoint) -> None:
        """Write a checkpoint; keep the previous one, or the chain before this one."""
        tensors, counters, chain = checkpoint.tensors, checkpoint.counters, self._chain
        if checkpoint.changed is not None and chain and self._may_grow(chain, step):
            changes = _changes(tensors, checkpoint.changed)
            if chain.changes + _size(changes) <= chain.whole:
                tensors = changes
        is_whole = tensors is checkpoint.tensors
        if chain and not is_whole:
            counters = counters | {
                "after": {"step": chain.step, "digest": chain.digest},
                "kept": sorted(checkpoint.changed or {}),
            }
        stem = self.folder / f"{step:09d}"
        with replacing(stem.with_suffix(".safetensors")) as scratch:
            digest = _write(scratch, tensors)
            size = scratch.stat().st_size
        digest.update(json.dumps(counters, sort_keys=True).encode())
        marked = counters | {"digest": digest.hexdigest()}
        replace_file(stem.with_suffix(".json"), json.dumps(marked, indent=2).encode())
        if chain and not is_whole:
            self._chain = chain.grown(step, marked["digest"], size)
        else:
            self._chain = _Chain(step, marked["digest"], 1, size, 0)
        self._prune(step)

    def _may_grow(self, chain: _Chain, step: int) -> bool:
        return chain.length < LONGEST and chain.step < step

    def load(self, say: Callable[[str], None]) -> Checkpoint | None:
        """The latest intact checkpoint; reports each damaged one. None: there is none."""
        for step in reversed(self.steps()):
            try:
                checkpoint, self._chain = self._load(step)
                return checkpoint
            except Exception as error:  # a damaged file can raise almost anything
                say(f"The checkpoint of step {step} is damaged ({error}); trying the previous one.")
        return None

    def _load(self, step: int, wanted: str = "") -> tuple[Checkpoint, _Chain]:
        """A checkpoint, and the chain that it ends; `wanted` is its digest, if known."""
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
        if stated != digest.hexdigest() or (wanted and stated != wanted):
            raise ValueError("its digest does not match")
        size, after = file.stat().st_size, counters.pop("after", None)
        with safetensors.safe_open(file, framework="pt") as opened:
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        if after is None:
            return Checkpoint(tensors, counters), _Chain(step, stated, 1, size, 0)
        if after["step"] >= step:
            raise ValueError("it continues a later checkpoint")
        before, chain = self._load(after["step"], after["digest"])
        for name in counters.pop("kept"):
            tensor = before.tensors[name]
            if f"rows.{name}" in tensors:
                tensor[tensors.pop(f"rows.{name}").long()] = tensors.pop(f"values.{name}")
            tensors[name] = tensor
        return Checkpoint(tensors, counters), chain.grown(step, stated, size)

    def _links(self, step: int) -> list[int]:
        """Steps of the chain that ends with a checkpoint, newest first."""
        found = [step]
        while True:
            try:
                text = (self.folder / f"{found[-1]:09d}.json").read_text(encoding="utf-8")
                after = int(json.loads(text)["after"]["step"])
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                return found
            if after >= found[-1]:
                return found
            found.append(after)

    def _prune(self, newest: int) -> None:
        """Delete the checkpoints before `newest`, except its chain and the one before."""
        kept = self._links(newest)
        earlier = [step for step in self.steps() if step < kept[-1]]
        kept += self._links(earlier[-1]) if earlier else []
        for step in self.steps():
            if step < newest and step not in kept:
                for suffix in (".json", ".safetensors"):
                    (self.folder / f"{step:09d}").with_suffix(suffix).unlink(missing_ok=True)


def _changes(tensors: Mapping[str, Tensor], changed: Mapping[str, IntArray]) -> dict[str, Tensor]:
    """Tensors of a checkpoint that holds changes."""
    found = {name: one for name, one in tensors.items() if name not in changed}
    for name, ids in changed.items():
        if ids.size:
            row = torch.from_numpy(ids)
            found[f"rows.{name}"] = row.int() if ids[-1] < 2**31 else row
            found[f"values.{name}"] = tensors[name][row]
    return found


def _size(tensors: Mapping[str, Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors.values())


def _write(path: Path, tensors: Mapping[str, Tensor]) -> Any:
    """Write tensors in the safetensors format, one after the other; returns a running digest.

    Unlike `safetensors.torch.save`, this makes no copy of all tensors.
    """
    place, header, digest = 0, {}, new_digest()
    # Offsets of wide types must be multiples of 8, so these come first.
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    for name in names:
        one = tensors[name]
        ends = [place, place := place + one.nbytes]
        header[name] = {"dtype": _TYPES[one.dtype], "shape": [*one.shape], "data_offsets": ends}
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
