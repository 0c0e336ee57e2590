"""A run's folder: settings, metrics, checkpoints and result. Killing the process is safe.

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
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import safetensors
import safetensors.torch
from torch import Tensor

from bliss import records
from bliss.errors import DamagedError, InputError
from bliss.files import remove_scratch, replace_file, writing
from bliss.train.config import TrainConfig
from bliss.train.records import Evaluation, RunResult, RunSettings, StepTime

REMEDY = "start the run again in another folder"


class Checkpoint(NamedTuple):
    """Complete state of a run, for resuming."""

    tensors: dict[str, Tensor]
    counters: dict[str, Any]


class RunFolder:
    """Files of one run. Write only inside `with folder.locked():`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder; raises an error if another process holds the lock."""
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
        """Whether a run was started here."""
        return (self.path / "config.json").exists()

    def refuse_strays(self) -> None:
        """Raise an error if there are checkpoints without settings, from an unknown run."""
        if self._steps() and not self.is_started:
            raise InputError(
                f"out={str(self.path)!r} holds checkpoints but no config.json: choose another "
                "folder, or remove this one."
            )

    def settings(self) -> TrainConfig:
        """Settings that the run was started with."""
        path = self.path / "config.json"
        if not path.exists():
            raise InputError(
                f"{path} is missing, so {str(self.path)!r} is not the folder of a run: pass a "
                "folder that `bliss train` wrote."
            )
        values = records.read_exactly(path, REMEDY)
        try:
            return TrainConfig.from_dict(values)
        except (InputError, TypeError, AttributeError) as error:
            raise DamagedError(
                f"{path} does not hold the settings of a run ({error}): it is damaged or comes "
                f"from another version of bliss, {REMEDY}."
            ) from error

    def check_settings(self, config: TrainConfig, may_extend: bool = False) -> None:
        """Raise an error that lists the differences if the settings are not those of the run.

        With `may_extend`, more steps are allowed, unless the learning rate depends on their number.
        """
        then = self.settings()
        if may_extend and config.steps > then.steps:
            if config.schedule != "constant":
                raise InputError(
                    f"steps={config.steps} exceeds the run's {then.steps}, but with "
                    f"schedule={config.schedule!r} the learning rate depends on the number of "
                    "steps: start a run in another folder."
                )
            then = replace(then, steps=config.steps)
        differences = config.differences(then)
        if differences:
            raise InputError(
                f"the settings differ from those of the run in {str(self.path)!r} (now, then): "
                f"{'; '.join(differences)}. Resume with the same settings, or choose another "
                "folder."
            )

    def write_settings(self, config: TrainConfig) -> None:
        """Write config.json; delete the result of a run with fewer steps."""
        if self.is_started and self.settings().steps < config.steps:
            (self.path / "result.json").unlink(missing_ok=True)
        text = json.dumps(config.to_dict(), indent=2) + "\n"
        replace_file(self.path / "config.json", text.encode())

    def remove_leftovers(self) -> None:
        """Delete leftovers of a killed run: scratch files, and tensors without counters."""
        for folder in (self.path, self.checkpoints):
            remove_scratch(folder)
        for tensors in self.checkpoints.glob("*.safetensors"):
            if not tensors.with_suffix(".json").exists():
                tensors.unlink()

    def identity(self) -> RunSettings:
        """Settings that identify the run, also of runs by other versions of bliss."""
        path = self.path / "config.json"
        values = records.read_object(path, REMEDY)
        options = values.get("sampler_options")
        policy = options.get("policy", "") if isinstance(options, dict) else ""
        return records.decode({"policy": policy} | values, RunSettings, path, REMEDY)

    def write_result(self, result: RunResult) -> None:
        """Write result.json."""
        records.write(self.path / "result.json", result)

    def result(self) -> RunResult | None:
        """Result of the run, or None if it is unfinished."""
        path = self.path / "result.json"
        return records.read(path, RunResult, REMEDY) if path.exists() else None

    def add_metrics(self, evaluation: Evaluation) -> None:
        """Append a line to metrics.jsonl."""
        self._append("metrics.jsonl", evaluation)

    def add_times(self, time: StepTime) -> None:
        """Append a line to times.jsonl."""
        self._append("times.jsonl", time)

    def metrics(self) -> list[Evaluation]:
        """All complete lines of metrics.jsonl."""
        return records.read_lines(self.path / "metrics.jsonl", Evaluation, "remove that line")

    def times(self) -> list[StepTime]:
        """All complete lines of times.jsonl."""
        return records.read_lines(self.path / "times.jsonl", StepTime, "remove that line")

    def _append(self, name: str, record: records.Record) -> None:
        path = self.path / name
        with writing(path), open(path, "a", encoding="utf-8") as file:
            file.write(records.to_json(record, indent=None))

    def forget_after(self, step: int) -> None:
        """Drop the metrics and times of later steps, which a resumed run repeats."""
        for name, lines in (("metrics.jsonl", self.metrics()), ("times.jsonl", self.times())):
            kept = [records.to_json(line, indent=None) for line in lines if line.step <= step]
            replace_file(self.path / name, "".join(kept).encode())

    def save_best(self, weights: Mapping[str, Tensor]) -> None:
        """Replace the best weights."""
        data = safetensors.torch.save(_contiguous(weights))
        replace_file(self.path / "best.safetensors", data)

    def load_best(self) -> dict[str, Tensor]:
        """Weights of the best step."""
        path = self.path / "best.safetensors"
        if not path.exists():
            raise InputError(
                f"{path} is missing, because the run has not been evaluated yet: train until the "
                "first evaluation."
            )
        try:
            return safetensors.torch.load_file(path)
        except (safetensors.SafetensorError, OSError) as error:
            raise DamagedError(
                f"{path} cannot be read ({error}), because it is damaged: train again."
            ) from error

    def save_checkpoint(self, step: int, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, valid once its JSON file exists; keep the previous one."""
        data = safetensors.torch.save(_contiguous(checkpoint.tensors))
        stem = self.checkpoints / f"{step:09d}"
        replace_file(stem.with_suffix(".safetensors"), data)
        counters = checkpoint.counters | {"sha256": _digest(data, checkpoint.counters)}
        replace_file(stem.with_suffix(".json"), json.dumps(counters, indent=2).encode())
        for old in self._steps()[:-2]:
            for suffix in (".json", ".safetensors"):
                (self.checkpoints / f"{old:09d}").with_suffix(suffix).unlink(missing_ok=True)

    def load_checkpoint(self, say: Callable[[str], None]) -> Checkpoint | None:
        """Load the latest intact checkpoint; reports each damaged one."""
        for step in reversed(self._steps()):
            stem = self.checkpoints / f"{step:09d}"
            try:
                counters = json.loads(stem.with_suffix(".json").read_text(encoding="utf-8"))
                data = stem.with_suffix(".safetensors").read_bytes()
                if counters.pop("sha256") != _digest(data, counters):
                    raise ValueError("its digest does not match")
                return Checkpoint(safetensors.torch.load(data), counters)
            except (
                OSError,
                ValueError,
                KeyError,
                TypeError,
                AttributeError,
                safetensors.SafetensorError,
            ) as error:
                say(f"The checkpoint of step {step} is damaged ({error}); trying the previous one.")
        if self._steps():
            raise DamagedError(
                f"{self.checkpoints} has no intact checkpoint of this version of bliss: {REMEDY}."
            )
        return None

    def _steps(self) -> list[int]:
        return sorted(int(p.stem) for p in self.checkpoints.glob("*.json") if p.stem.isdigit())


def _digest(data: bytes, counters: Mapping[str, Any]) -> str:
    """SHA-256 of tensors and counters."""
    digest = hashlib.sha256(data)
    digest.update(json.dumps(counters, sort_keys=True).encode())
    return digest.hexdigest()


def _contiguous(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
