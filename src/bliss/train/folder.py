"""A run's folder: settings, metrics, checkpoints and result. Killing the process is safe.

config.json                 the settings
metrics.jsonl               one line per evaluation
times.jsonl                 seconds spent in steps until each evaluation
checkpoints/000100.*        the two newest: tensors (safetensors) and counters (JSON)
best.safetensors            weights of the best validation score
result.json                 written at the end

All but config.json hold a digest that also covers the settings, so that files of another run, or a
changed config.json, are noticed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from bliss import records
from bliss.digests import json_digest, new_digest
from bliss.errors import DamagedError, InputError
from bliss.files import check_regular, remove_scratch, replace_file, writing
from bliss.train.config import TrainConfig
from bliss.train.records import Evaluation, RunResult, RunSettings, StepTime

L = TypeVar("L", Evaluation, StepTime)
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
        self._metrics = records.Log(path / "metrics.jsonl", Evaluation, self._owner)
        self._times = records.Log(path / "times.jsonl", StepTime, self._owner)

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

    @property
    def last_step(self) -> int:
        """Step of the newest checkpoint; 0 if there is none."""
        return max(self._steps(), default=0)

    def refuse_strays(self) -> None:
        """Raise an error if there are files of a run without its settings."""
        if self.is_started:
            return
        names = ("metrics.jsonl", "times.jsonl", "best.safetensors", "result.json")
        strays = ["checkpoints"] if self._steps() else []
        strays += [name for name in names if (self.path / name).exists()]
        if strays:
            raise InputError(
                f"out={str(self.path)!r} holds {', '.join(strays)} of another run but no "
                "config.json: choose another folder, or remove this one."
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
        except Exception as error:  # values of any type, in any combination
            raise DamagedError(
                f"{path} does not hold the settings of a run ({error}): it is damaged or comes "
                f"from another version of bliss, {REMEDY}."
            ) from error

    def _owner(self) -> str:
        """Digest of the settings in config.json, or "" if there are none."""
        path = self.path / "config.json"
        return settings_digest(records.read_object(path, REMEDY)) if path.exists() else ""

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
        records.write_sealed(self.path / "result.json", result, self._owner())

    def result(self) -> RunResult | None:
        """Result of the run, or None if it is unfinished."""
        path = self.path / "result.json"
        if not path.exists():
            return None
        return records.read_sealed(path, RunResult, REMEDY, self._owner())

    def add_metrics(self, evaluation: Evaluation) -> None:
        """Append a line to metrics.jsonl."""
        self._metrics.append(evaluation)

    def add_times(self, time: StepTime) -> None:
        """Append a line to times.jsonl."""
        self._times.append(time)

    def metrics(self) -> list[Evaluation]:
        """All complete lines of metrics.jsonl; of a finished run, up to the last step."""
        return self._checked(self._metrics)

    def times(self) -> list[StepTime]:
        """All complete lines of times.jsonl; of a finished run, up to the last step."""
        return self._checked(self._times)

    def _checked(self, log: records.Log[L]) -> list[L]:
        found, result = log.read(), self.result()
        if result is not None and (not found or found[-1].step != result.steps):
            raise DamagedError(
                f"{log.path} ends before the last step ({result.steps}): it is damaged, {REMEDY}."
            )
        return found

    def forget_after(self, step: int) -> None:
        """Drop the metrics and times of later steps, which a resumed run repeats."""
        metrics, times = self.metrics(), self.times()  # both are intact before one is replaced
        self._metrics.rewrite(line for line in metrics if line.step <= step)
        self._times.rewrite(line for line in times if line.step <= step)

    def save_best(self, weights: Mapping[str, Tensor]) -> None:
        """Replace the best weights."""
        tensors = _contiguous(weights)
        marks = {"settings": self._owner(), "digest": _tensor_digest(tensors)}
        data = safetensors.torch.save(tensors, metadata=marks)
        replace_file(self.path / "best.safetensors", data)

    def load_best(self) -> dict[str, Tensor]:
        """Weights of the best step."""
        path = self.path / "best.safetensors"
        if not path.exists():
            raise InputError(
                f"{path} is missing, because the run has not been evaluated yet: train until the "
                "first evaluation."
            )
        check_regular(path)
        try:
            with safetensors.safe_open(path, framework="pt") as file:
                marks = file.metadata() or {}
                weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except Exception as error:  # a damaged file can raise almost anything
            raise DamagedError(
                f"{path} cannot be read ({error}), because it is damaged: train again."
            ) from error
        if marks.get("digest") != _tensor_digest(weights):
            raise DamagedError(f"{path} does not match its digest: it is damaged, train again.")
        if marks.get("settings") != self._owner():
            raise DamagedError(
                f"{path} was written with other settings than those in config.json: restore the "
                "files of one run, or train again."
            )
        return weights

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
                check_regular(stem.with_suffix(".json"))
                counters = json.loads(stem.with_suffix(".json").read_text(encoding="utf-8"))
                data = stem.with_suffix(".safetensors").read_bytes()
                if counters.pop("sha256") != _digest(data, counters):
                    raise ValueError("its digest does not match")
                return Checkpoint(safetensors.torch.load(data), counters)
            except Exception as error:  # a damaged file can raise almost anything
                say(f"The checkpoint of step {step} is damaged ({error}); trying the previous one.")
        if self._steps():
            raise DamagedError(
                f"{self.checkpoints} has no intact checkpoint of this version of bliss: {REMEDY}."
            )
        return None

    def _steps(self) -> list[int]:
        return sorted(int(p.stem) for p in self.checkpoints.glob("*.json") if p.stem.isdigit())


def settings_digest(settings: Mapping[str, Any]) -> str:
    """Digest of the settings that results depend on.

    Left out are the number of steps, which may grow, and the place of the data and the device.
    """
    left_out = ("dataset", "device", "steps")
    return json_digest({k: v for k, v in settings.items() if k not in left_out})


def _digest(data: bytes, counters: Mapping[str, Any]) -> str:
    """SHA-256 of tensors and counters."""
    digest = hashlib.sha256(data)
    digest.update(json.dumps(counters, sort_keys=True).encode())
    return digest.hexdigest()


def _tensor_digest(tensors: Mapping[str, Tensor]) -> str:
    """Digest of names, types, shapes and values."""
    digest = new_digest()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return str(digest.hexdigest())


def _contiguous(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
