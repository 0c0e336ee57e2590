"""A run's folder: settings, metrics, checkpoints, result; written so that a kill harms nothing.

config.json                 the settings
metrics.jsonl               one line per evaluation
times.jsonl                 seconds spent in steps until each evaluation
checkpoints/000100.*        the two newest: tensors (safetensors), counters (JSON, with a digest)
best.safetensors            weights of the best validation F1
result.json                 written at the end
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import safetensors
import safetensors.torch
from torch import Tensor

from bliss.errors import DamagedError, InputError
from bliss.files import replace_file, writing
from bliss.train.config import TrainConfig


class Checkpoint(NamedTuple):
    """All that a resumed run needs."""

    tensors: dict[str, Tensor]
    counters: dict[str, Any]


class RunFolder:
    """One run's files. Use `with folder.locked():` around all writing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for one process: a second one is refused."""
        with writing(self.path):
            self.checkpoints.mkdir(parents=True, exist_ok=True)
            lock = open(self.path / ".lock", "a", encoding="utf-8")  # noqa: SIM115
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise InputError(
                    f"out={str(self.path)!r} is in use by another run: choose another folder or "
                    "wait for it to end."
                ) from error
            yield

    @property
    def is_started(self) -> bool:
        """Whether a run has left its settings here."""
        return (self.path / "config.json").exists()

    def settings(self) -> TrainConfig:
        """What the run was started with."""
        values = self.read_json("config.json")
        try:
            return TrainConfig.from_dict(values)
        except (InputError, TypeError, AttributeError) as error:
            raise DamagedError(
                f"{self.path / 'config.json'} does not hold the settings of a run ({error}): it "
                "was damaged, or written by another version of bliss."
            ) from error

    def check_settings(self, config: TrainConfig) -> None:
        """Refuse a run that was started with other settings, and show where they part."""
        differences = config.differences(self.settings())
        if differences:
            raise InputError(
                f"the settings are not those the run in {str(self.path)!r} was started with (now, "
                f"then): {'; '.join(differences)}. Resume with the same, or choose another folder."
            )

    def write_json(self, name: str, values: Mapping[str, Any]) -> None:
        """Replace a JSON file as a whole."""
        replace_file(self.path / name, (json.dumps(values, indent=2) + "\n").encode())

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a JSON file of the run."""
        path = self.path / name
        if not path.exists():
            raise InputError(f"{path} is missing: {str(self.path)!r} is not the folder of a run.")
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise DamagedError(f"{path} is not valid JSON ({error}): it was damaged.") from error
        if not isinstance(values, dict):
            raise DamagedError(f"{path} does not hold settings: it was damaged.")
        return values

    def add_metrics(self, values: Mapping[str, Any]) -> None:
        """Append a line to metrics.jsonl."""
        self._append("metrics.jsonl", values)

    def add_times(self, values: Mapping[str, Any]) -> None:
        """Append a line to times.jsonl: apart, because no two runs take the same time."""
        self._append("times.jsonl", values)

    def metrics(self) -> list[dict[str, Any]]:
        """Every whole line of metrics.jsonl."""
        return self._lines("metrics.jsonl")

    def times(self) -> list[dict[str, Any]]:
        """Every whole line of times.jsonl."""
        return self._lines("times.jsonl")

    def _append(self, name: str, values: Mapping[str, Any]) -> None:
        path = self.path / name
        with writing(path), open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")

    def _lines(self, name: str) -> list[dict[str, Any]]:
        path = self.path / name
        if not path.exists():
            return []
        lines: list[dict[str, Any]] = []
        for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
            if not line.endswith(b"\n"):
                break  # a kill can cut the last line short
            try:
                values = json.loads(line)
            except ValueError:
                values = None
            if not isinstance(values, dict) or not isinstance(values.get("step"), int):
                raise DamagedError(
                    f"{path} cannot be read at line {number}: it was damaged, remove that line."
                )
            lines.append(values)
        return lines

    def forget_metrics_after(self, step: int) -> None:
        """Drop lines of steps that a resumed run will take again."""
        for name in ("metrics.jsonl", "times.jsonl"):
            kept = [line for line in self._lines(name) if line["step"] <= step]
            text = "".join(json.dumps(line) + "\n" for line in kept)
            replace_file(self.path / name, text.encode())

    def save_best(self, weights: Mapping[str, Tensor]) -> None:
        """Replace the best weights."""
        data = safetensors.torch.save(_contiguous(weights))
        replace_file(self.path / "best.safetensors", data)

    def load_best(self) -> dict[str, Tensor]:
        """The best weights."""
        path = self.path / "best.safetensors"
        if not path.exists():
            raise InputError(f"{path} is missing: the run has not been evaluated yet.")
        try:
            return safetensors.torch.load_file(path)
        except (safetensors.SafetensorError, OSError) as error:
            raise DamagedError(f"{path} cannot be read ({error}): it was damaged.") from error

    def save_checkpoint(self, step: int, checkpoint: Checkpoint) -> None:
        """Write a checkpoint; it counts once its JSON is there. Keeps the one before."""
        data = safetensors.torch.save(_contiguous(checkpoint.tensors))
        stem = self.checkpoints / f"{step:09d}"
        replace_file(stem.with_suffix(".safetensors"), data)
        counters = checkpoint.counters | {"sha256": _digest(data, checkpoint.counters)}
        replace_file(stem.with_suffix(".json"), json.dumps(counters, indent=2).encode())
        for old in self._steps()[:-2]:
            for suffix in (".json", ".safetensors"):
                (self.checkpoints / f"{old:09d}").with_suffix(suffix).unlink(missing_ok=True)

    def load_checkpoint(self, say: Callable[[str], None]) -> Checkpoint | None:
        """The newest whole checkpoint; says so where a newer one was damaged."""
        for step in reversed(self._steps()):
            stem = self.checkpoints / f"{step:09d}"
            try:
                counters = json.loads(stem.with_suffix(".json").read_text(encoding="utf-8"))
                data = stem.with_suffix(".safetensors").read_bytes()
                if counters.pop("sha256") != _digest(data, counters):
                    raise ValueError("its digest does not fit")
                return Checkpoint(safetensors.torch.load(data), counters)
            except (
                OSError,
                ValueError,
                KeyError,
                TypeError,
                AttributeError,
                safetensors.SafetensorError,
            ) as error:
                say(f"The checkpoint of step {step} is damaged ({error}); trying the one before.")
        if self._steps():
            raise DamagedError(
                f"{self.checkpoints} has no whole checkpoint, or none of this version of bliss: "
                "start the run anew."
            )
        return None

    def _steps(self) -> list[int]:
        return sorted(int(p.stem) for p in self.checkpoints.glob("*.json") if p.stem.isdigit())


def _digest(data: bytes, counters: Mapping[str, Any]) -> str:
    """Of tensors and counters together."""
    digest = hashlib.sha256(data)
    digest.update(json.dumps(counters, sort_keys=True).encode())
    return digest.hexdigest()


def _contiguous(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
