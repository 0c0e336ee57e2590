"""Paths -> records: the files in a folder determine its kind, and all are checked when read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from bliss.errors import DamagedError, InputError
from bliss.storage import records
from bliss.studies.records import Comparison, Reproduction, Variance
from bliss.text import shorten
from bliss.train.folder import RunFolder
from bliss.train.results import Evaluation, RunResult, RunSettings

S = TypeVar("S", Comparison, Reproduction, Variance)


@dataclass(frozen=True)
class Run:
    """A run's folder; `result` is None while the run is unfinished."""

    path: Path
    settings: RunSettings
    every_setting: dict[str, Any]
    metrics: list[Evaluation]
    result: RunResult | None

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.resolve().name


@dataclass(frozen=True)
class Study(Generic[S]):
    """A study's file."""

    path: Path
    record: S


Source = Run | Study[Comparison] | Study[Reproduction] | Study[Variance]


@dataclass(frozen=True)
class Kind:
    """A kind of study: its record, its file and the command that writes it."""

    record: Any
    file: str
    command: str


KINDS = {
    "comparison": Kind(Comparison, "compare.json", "compare"),
    "reproduction": Kind(Reproduction, "reproduce.json", "reproduce"),
    "variance": Kind(Variance, "variance.json", "variance"),
}


def load(paths: Sequence[Path]) -> list[Source]:
    """Read everything that the paths hold, in order, each file once."""
    if not paths:
        raise InputError("there is nothing to report on: name at least one folder of results.")
    sources = [source for path in paths for source in _load(Path(path))]
    return list({source.path.resolve(): source for source in sources}.values())


def _load(path: Path) -> list[Source]:
    if not path.exists():
        raise InputError(f"{path} does not exist: name a folder of results, or a variance file.")
    if path.is_file():
        return [_study(path)]
    held: list[Source] = []
    if (path / "config.json").exists():
        held.append(_run(path))
    held += [_study(path / k.file, name) for name, k in KINDS.items() if (path / k.file).exists()]
    if not held:
        raise InputError(
            f"{path} holds no results: name a folder with config.json (a run), "
            f"{', '.join(kind.file for kind in KINDS.values())}."
        )
    return held


def _study(path: Path, expected: str | None = None) -> Source:
    remedy = (
        f"write it again with `bliss {KINDS[expected].command}`" if expected else "write it again"
    )
    values = records.read_object(path, remedy)
    found = values.get("kind")
    shown = shorten(repr(found))
    if expected and found != expected:
        raise DamagedError(f"{path} is of kind {shown}, not {expected!r}: {remedy}.")
    if not isinstance(found, str) or found not in KINDS:
        raise InputError(
            f"{path} is of kind {shown}, which a report cannot show: name a file of kind "
            f"{', '.join(KINDS)}."
        )
    return Study(path, records.decode(values, KINDS[found].record, path, remedy))


def _run(path: Path) -> Run:
    folder = RunFolder(path)
    every, identity = folder.settings().flat(), folder.identity()
    result = folder.result()  # before the metrics: a run may end meanwhile
    return Run(path, identity, every, folder.metrics(), result)
