"""A run's folder: settings, metrics, checkpoints and result. Killing the process is safe.

config.json                 the settings
metrics.jsonl               one line per evaluation
times.jsonl                 seconds spent in steps until each evaluation
checkpoints/000000100.*     the newest: tensors (safetensors) and counters (JSON), see `incremental`
best.safetensors            weights of the best validation score
result.json                 written at the end

All but config.json hold a digest that also covers the settings, so that files of another run, or a
changed config.json, are noticed.
"""

from __future__ import annotations

import errno
import fcntl
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import safetensors.torch
from torch import Tensor

from bliss.errors import DamagedError, InputError, ResourceError
from bliss.storage import records
from bliss.storage.digests import json_digest, tensor_digest
from bliss.storage.files import check_regular, make_folder, remove_scratch, replace_file, writing
from bliss.text import shorten
from bliss.train.config import TrainConfig
from bliss.train.incremental import Checkpoint, CheckpointFiles
from bliss.train.results import DataSchema, Evaluation, RunResult, RunSettings, StepTime

L = TypeVar("L", Evaluation, StepTime)
REMEDY = "start the run again in another folder"


class RunFolder:
    """Files of one run. Write only inside `with folder.locked():`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self._files = CheckpointFiles(self.checkpoints)
        self._metrics = records.Log(path / "metrics.jsonl", Evaluation, self._owner)
        self._times = records.Log(path / "times.jsonl", StepTime, self._owner)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder; raises an error if another process holds the lock.

        Scratch files that a killed process left directly in it are deleted.
        """
        with writing(self.path):
            make_folder(self.checkpoints)
            lock = open(self.path / ".lock", "a", encoding="utf-8")  # noqa: SIM115
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    raise ResourceError(
                        f"out={str(self.path)!r} cannot be locked ({error.strerror}), so that two "
                        "runs could mix their files: choose a folder on a file system with locks."
                    ) from error
                raise InputError(
                    f"out={str(self.path)!r} is in use by another run: choose another folder or "
                    "wait for it to end."
                ) from error
            with writing(self.path):
                remove_scratch(self.path)
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
                f"{path} does not hold the settings of a run ({shorten(str(error))}): it is "
                f"damaged or comes from another version of bliss, {REMEDY}."
            ) from error

    def _owner(self) -> str:
        """Digest of the settings in config.json, or "" if there are none."""
        return settings_digest(self.settings()) if self.is_started else ""

    def check_settings(self, config: TrainConfig, may_extend: bool = False) -> None:
        """Raise an error that lists the differences if the settings are not those of the run.

        With `may_extend`, more steps are allowed, unless the learning rate depends on their number.
        """
        then = self.settings().with_settings(feature_cache=config.data.feature_cache)
        now, before = config.training, then.training
        if may_extend and now.steps > before.steps:
            if now.schedule != "constant":
                raise InputError(
                    f"steps={now.steps} exceeds the run's {before.steps}, but with "
                    f"schedule={now.schedule!r} the learning rate depends on the number of "
                    "steps: start a run in another folder."
                )
            then = then.with_settings(steps=now.steps)
        differences = config.differences(then)
        if differences:
            raise InputError(
                f"the settings differ from those of the run in {str(self.path)!r} (now, then): "
                f"{'; '.join(differences)}. Resume with the same settings, or choose another "
                "folder."
            )

    def write_settings(self, config: TrainConfig) -> None:
        """Write config.json; delete the result of a run with fewer steps."""
        if self.is_started and self.settings().training.steps < config.training.steps:
            with writing(self.path / "result.json"):
                (self.path / "result.json").unlink(missing_ok=True)
        text = json.dumps(config.to_dict(), indent=2) + "\n"
        replace_file(self.path / "config.json", text.encode())

    def _check_there(self) -> None:
        """Raise an error if the folder is gone; writing would make a new one without settings."""
        if not self.is_started:
            raise ResourceError(
                f"{self.path} was removed or moved while the run wrote to it: bring it back and "
                "resume the run, or start the run again."
            )

    def remove_leftovers(self) -> None:
        """Delete leftovers of a killed run among checkpoints, also tensors without counters."""
        with writing(self.checkpoints):
            remove_scratch(self.checkpoints)
            self._files.remove_leftovers()

    def identity(self) -> RunSettings:
        """Settings that identify the run."""
        config = self.settings()
        return RunSettings(
            dataset=config.data.dataset,
            model=config.network.model,
            sampler=config.sampler.name,
            policy=config.sampler.config.policy_name,
            seed=config.seed,
            steps=config.training.steps,
        )

    def write_result(self, result: RunResult) -> None:
        """Write result.json."""
        records.write_sealed(self.path / "result.json", result, self._owner())

    def result(self) -> RunResult | None:
        """Result of the run, or None if it is unfinished."""
        path = self.path / "result.json"
        if not path.exists():
            return None
        try:
            return records.read_sealed(path, RunResult, REMEDY, self._owner())
        except (InputError, ResourceError):
            if path.exists():
                raise
            return None  # deleted meanwhile, because the run was extended

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
        """All complete lines. The run may end or be extended while they are read."""
        while True:
            result, lines = self.result(), log.read()  # the last line is there before the result
            if result is None or (lines and lines[-1].step == result.steps):
                return lines
            now = self.result()
            if now is not None and now.steps == result.steps:  # nobody has extended the run
                raise DamagedError(
                    f"{log.path} ends before the last step ({result.steps}): it is damaged, "
                    f"{REMEDY}."
                )

    def forget_after(self, step: int, evaluated: int | None = None) -> None:
        """Drop the metrics and times of later steps, which a resumed run repeats.

        With `evaluated`, the step of the last evaluation that a checkpoint counts, the lines that
        are kept must end with it.
        """
        last = step if evaluated is None else evaluated
        metrics = [line for line in self.metrics() if line.step <= last]
        times = [line for line in self.times() if line.step <= last]
        for log, kept in ((self._metrics, metrics), (self._times, times)):
            if evaluated is not None and (kept[-1].step if kept else 0) != evaluated:
                raise DamagedError(
                    f"{log.path} does not hold the evaluation after step {evaluated}, which the "
                    f"checkpoint counts: it is damaged, {REMEDY}."
                )
        self._metrics.rewrite(metrics)  # both are intact before one is replaced
        self._times.rewrite(times)

    def save_best(self, weights: Mapping[str, Tensor], schema: DataSchema) -> None:
        """Replace the best weights, and what their network needs of a graph."""
        self._check_there()
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
        needs = records.to_json(schema, indent=None)
        marks = {
            "settings": self._owner(),
            "data": needs,
            "digest": json_digest(needs, tensor_digest(tensors)),
        }
        data = safetensors.torch.save(tensors, metadata=marks)
        replace_file(self.path / "best.safetensors", data)

    def load_best(self) -> dict[str, Tensor]:
        """Weights of the best step."""
        return self._read_best()[0]

    def schema(self) -> DataSchema:
        """What the network of the best step needs of a graph."""
        return self._read_best()[1]

    def _read_best(self) -> tuple[dict[str, Tensor], DataSchema]:
        """Weights of the best step, and what their network needs of a graph."""
        path = self.path / "best.safetensors"
        if not path.exists():
            raise InputError(
                f"{path} is missing, because the run has not been evaluated yet: train until the "
                "first evaluation."
            )
        check_regular(path)
        try:
            content = path.read_bytes()  # at once: a training run may replace the file meanwhile
            weights = safetensors.torch.load(content)
            marks = read_metadata(content)
        except Exception as error:  # a damaged file can raise almost anything
            raise DamagedError(
                f"{path} cannot be read ({error}), because it is damaged: train again."
            ) from error
        data = marks.get("data", "")
        if marks.get("digest") != json_digest(data, tensor_digest(weights)):
            raise DamagedError(f"{path} does not match its digest: it is damaged, train again.")
        if marks.get("settings") != self._owner():
            raise DamagedError(
                f"{path} was written with other settings than those in config.json: restore the "
                "files of one run, or train again."
            )
        return weights, records.decode(json.loads(data), DataSchema, path, "train again")

    def save_checkpoint(self, step: int, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, valid once its JSON file exists; keep the previous one."""
        self._check_there()
        with writing(self.checkpoints):
            self._files.save(step, checkpoint)

    def load_checkpoint(self, say: Callable[[str], None]) -> Checkpoint | None:
        """Load the latest intact checkpoint; reports each damaged one."""
        checkpoint = self._files.load(say)
        if checkpoint is None and self._steps():
            raise DamagedError(
                f"{self.checkpoints} has no intact checkpoint of this version of bliss: {REMEDY}."
            )
        return checkpoint

    def _steps(self) -> list[int]:
        return self._files.steps()


def settings_digest(config: TrainConfig) -> str:
    """Digest of the settings that results depend on.

    Left out are the number of steps, which may grow, the place of the data, the device and the
    cache of features.
    """
    left_out = ("dataset", "device", "steps", "feature_cache")
    return json_digest({k: v for k, v in config.flat().items() if k not in left_out})


def read_metadata(data: bytes) -> dict[str, str]:
    """Metadata of a safetensors file: a JSON header follows its length, 8 bytes."""
    end = 8 + int.from_bytes(data[:8], "little")
    metadata: dict[str, str] = json.loads(data[8:end]).get("__metadata__", {})
    return metadata
