"""Checkpoints: the state of a run as tensors and counters, and as bytes for other processes."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import safetensors.torch
import torch
from torch import Tensor

from bliss.arrays import Bytes
from bliss.distributed.groups import as_bytes
from bliss.errors import DamagedError
from bliss.train.folder import read_metadata, settings_digest
from bliss.train.incremental import Checkpoint
from bliss.train.step import PARTS, TIMED, Stepper

WHOLE_STATE_BYTES = 2**26
"""Bytes of a sampler's state above which checkpoints write only its changed rows."""


@dataclass
class Progress:
    """Progress of a run, beside the state of its `Stepper`."""

    best_step: int = 0
    best_gain: float = float("-inf")
    """Validation score of the best step, or minus its error."""
    evaluated: int = 0
    """Step of the last evaluation."""
    val_score: float = float("nan")
    """Validation score of the last evaluation."""
    stale: int = 0
    """Evaluations since the best one."""
    seconds: float = 0.0
    """Duration of the run, including evaluations."""


def capture(stepper: Stepper, progress: Progress) -> Checkpoint:
    """Complete state of a run, for resuming."""
    model, optimizer = stepper.task.model, stepper.optimizer
    tensors = {f"model.{name}": t for name, t in model.state_dict().items()}
    for number, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": t for name, t in state.items()}
    tensors |= {f"sampler.{name}": t for name, t in stepper.sampler.state_dict().items()}
    tensors |= {f"times.{part}": torch.tensor(list(t)) for part, t in stepper.times.items()}
    counters = {
        "data": stepper.task.dataset.fingerprint,
        "settings": settings_digest(stepper.task.config),
        "loader": stepper.loader.state_dict(),
        "losses": stepper.losses,
        "step_seconds": stepper.step_seconds,
        "sampled": stepper.sampled,
        "progress": asdict(progress),
    }
    rows = stepper.sampler.learning.changed_rows() or {}
    dirty = {f"sampler.{name}": ids for name, ids in rows.items()}
    if (embedding := stepper.task.embedding) is not None:
        tensors |= {f"embedding.{name}": t for name, t in embedding.state_dict().items()}
        dirty |= {f"embedding.{name}": ids for name, ids in embedding.changed_rows().items()}
    return Checkpoint(tensors, counters, dirty or None)


def track_if_large(stepper: Stepper) -> None:
    """Track the dirty rows of what takes more than WHOLE_STATE_BYTES: sampler, embedding.

    Call it for a new stepper, and after each checkpoint was written or loaded.
    """
    sampler, embedding = stepper.sampler, stepper.task.embedding
    if embedding is not None and embedding.nbytes > WHOLE_STATE_BYTES:
        embedding.track_changes()
    if sum(tensor.nbytes for tensor in sampler.state_dict().values()) > WHOLE_STATE_BYTES:
        sampler.learning.track_changes().clear()


def restore(checkpoint: Checkpoint, stepper: Stepper) -> Progress:
    """Load a checkpoint into the stepper; returns the progress of the run."""
    parts: dict[str, dict[str, Tensor]] = defaultdict(dict)
    for name, tensor in checkpoint.tensors.items():
        part, rest = name.split(".", 1)
        parts[part][rest] = tensor
    counters = checkpoint.counters
    try:
        stepper.task.model.load_state_dict(parts["model"])
        stepper.optimizer.load_state_dict(_optimizer_state(stepper, parts["optimizer"]))
        stepper.sampler.load_state_dict(parts["sampler"])
        if stepper.task.embedding is not None:
            stepper.task.embedding.load_state_dict(parts["embedding"])
        stepper.times = {part: deque(parts["times"][part].tolist(), TIMED) for part in PARTS}
        stepper.loader.load_state_dict(counters["loader"])
        stepper.losses = list(msgspec.convert(counters["losses"], tuple[float, float]))
        stepper.sampled = list(msgspec.convert(counters["sampled"], tuple[int, int]))
        stepper.step_seconds = msgspec.convert(counters["step_seconds"], float)
        progress: dict[str, Any] = msgspec.convert(counters["progress"], dict[str, int | float])
        return Progress(**progress)
    except (RuntimeError, KeyError, ValueError, TypeError, msgspec.ValidationError) as error:
        raise DamagedError(
            f"the checkpoint does not fit the settings ({in_short(error)}), because another "
            "version of bliss wrote it: start the run again in another folder."
        ) from error


def pack_checkpoint(checkpoint: Checkpoint | None) -> Bytes:
    """A checkpoint as bytes, for other processes; no bytes if there is none."""
    if checkpoint is None:
        return as_bytes("")
    counters = {"counters": json.dumps(checkpoint.counters)}
    return as_bytes(safetensors.torch.save(checkpoint.tensors, metadata=counters))


def unpack_checkpoint(content: Bytes) -> Checkpoint | None:
    """The inverse of `pack_checkpoint`."""
    if not content.size:
        return None
    data = content.tobytes()
    counters = json.loads(read_metadata(data)["counters"])
    return Checkpoint(safetensors.torch.load(data), counters)


def in_short(error: Exception) -> str:
    """First problem in a torch error message, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[min(1, len(lines) - 1)].rstrip(".:") if lines else type(error).__name__


def _optimizer_state(stepper: Stepper, tensors: dict[str, Tensor]) -> dict[str, Any]:
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        number, key = name.split(".")
        state.setdefault(int(number), {})[key] = tensor
    return {"state": state, "param_groups": stepper.optimizer.state_dict()["param_groups"]}
