"""Checkpoints: convert the state of a run to tensors and counters, and restore it."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from bliss.distributed.groups import Group
from bliss.errors import DamagedError
from bliss.train.folder import settings_digest
from bliss.train.incremental import Checkpoint
from bliss.train.step import PARTS, TIMED, Learner

LARGE = 2**26
"""Bytes of a sampler's state above which checkpoints write only its changed rows."""


@dataclass
class Progress:
    """Progress of a run, except the state of its learner."""

    best_step: int = 0
    best_val_score: float = float("-inf")
    evaluated: int = 0
    """Step of the last evaluation."""
    val_score: float = float("nan")
    """Validation F1 of the last evaluation."""
    stale: int = 0
    """Evaluations since the best one."""
    seconds: float = 0.0
    """Duration of the run, including evaluations."""


def capture(learner: Learner, progress: Progress) -> Checkpoint:
    """Complete state of a run, for resuming."""
    model, optimizer = learner.task.model, learner.optimizer
    tensors = {f"model.{name}": t for name, t in model.state_dict().items()}
    for number, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": t for name, t in state.items()}
    tensors |= {f"sampler.{name}": t for name, t in learner.sampler.state_dict().items()}
    tensors |= {f"times.{part}": torch.tensor(list(t)) for part, t in learner.times.items()}
    counters = {
        "data": learner.task.dataset.fingerprint,
        "settings": settings_digest(learner.task.config),
        "loader": learner.loader.state_dict(),
        "losses": learner.losses,
        "step_seconds": learner.step_seconds,
        "sampled": learner.sampled,
        "progress": asdict(progress),
    }
    rows = learner.sampler.changed_rows()
    changed = None if rows is None else {f"sampler.{name}": ids for name, ids in rows.items()}
    return Checkpoint(tensors, counters, changed)


def track_if_large(learner: Learner) -> None:
    """Track changes of a sampler's state that takes more than LARGE bytes.

    Call it for a new learner, and after each checkpoint was written or loaded.
    """
    sampler = learner.sampler
    if sum(one.nbytes for one in sampler.state_dict().values()) > LARGE:
        sampler.track_changes().clear()


def restore(checkpoint: Checkpoint, learner: Learner) -> Progress:
    """Load a checkpoint into the learner; returns the progress of the run."""
    parts: dict[str, dict[str, Tensor]] = defaultdict(dict)
    for name, tensor in checkpoint.tensors.items():
        part, rest = name.split(".", 1)
        parts[part][rest] = tensor
    counters = checkpoint.counters
    try:
        learner.task.model.load_state_dict(parts["model"])
        learner.optimizer.load_state_dict(_optimizer_state(learner, parts["optimizer"]))
        learner.sampler.load_state_dict(parts["sampler"])
        learner.times = {part: deque(parts["times"][part].tolist(), TIMED) for part in PARTS}
        learner.loader.load_state_dict(counters["loader"])
        learner.losses = list(msgspec.convert(counters["losses"], tuple[float, float]))
        learner.sampled = list(msgspec.convert(counters["sampled"], tuple[int, int]))
        learner.step_seconds = msgspec.convert(counters["step_seconds"], float)
        progress: dict[str, Any] = msgspec.convert(counters["progress"], dict[str, int | float])
        return Progress(**progress)
    except (RuntimeError, KeyError, ValueError, TypeError, msgspec.ValidationError) as error:
        raise DamagedError(
            f"the checkpoint does not fit the settings ({in_short(error)}), because another "
            "version of bliss wrote it: start the run again in another folder."
        ) from error


def shared_checkpoint(group: Group, checkpoint: Checkpoint | None) -> Checkpoint | None:
    """Checkpoint of rank 0, in all processes; what the others pass is ignored."""
    if group.size == 1:
        return checkpoint
    text, data = b"", b""
    if group.rank == 0 and checkpoint is not None:
        text = json.dumps(checkpoint.counters).encode()
        data = safetensors.torch.save(checkpoint.tensors)
    counters = group.broadcast_bytes(np.frombuffer(text, np.uint8).copy())
    tensors = group.broadcast_bytes(np.frombuffer(data, np.uint8).copy())
    if group.rank == 0 or not counters.size:
        return checkpoint
    loaded = safetensors.torch.load(tensors.tobytes())
    return Checkpoint(loaded, json.loads(counters.tobytes()))


def in_short(error: Exception) -> str:
    """First problem in a torch error message, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[min(1, len(lines) - 1)].rstrip(".:") if lines else type(error).__name__


def _optimizer_state(learner: Learner, tensors: dict[str, Tensor]) -> dict[str, Any]:
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        number, key = name.split(".")
        state.setdefault(int(number), {})[key] = tensor
    return {"state": state, "param_groups": learner.optimizer.state_dict()["param_groups"]}
