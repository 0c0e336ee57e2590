"""Paths -> records: the files in a folder determine its kind, and all are checked when read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bliss.errors import DamagedError, InputError
from bliss.storage import records
from bliss.studies.registry import Study, imported, studies
from bliss.text import shorten
from bliss.train.folder import RunFolder
from bliss.train.results import Evaluation, RunResult, RunSettings, StepTime


@dataclass(frozen=True)
class Run:
    """A run's folder; `result` is None while the run is unfinished."""

    path: Path
    settings: RunSettings
    every_setting: dict[str, Any]
    metrics: list[Evaluation]
    times: list[StepTime]
    result: RunResult | None

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.resolve().name


@dataclass(frozen=True)
class StudyFile:
    """A study's file, and its record."""

    path: Path
    study: Study
    record: Any


Source = Run | StudyFile


def shown_studies() -> dict[str, Study]:
    """Studies that a report can show, by the kind of their record."""
    return {study.kind: study for study in studies() if study.section}


def load(paths: Sequence[Path]) -> list[Source]:
    """Read everything that the paths hold, in order, each file once."""
    if not paths:
        raise InputError("there is nothing to report on: name at least one folder of results.")
    sources = [source for path in paths for source in _load(Path(path))]
    return list({source.path.resolve(): source for source in sources}.values())


def _load(path: Path) -> list[Source]:
    if not path.exists():
        raise InputError(f"{path} does not exist: name a folder of results or a file of a study.")
    if path.is_file():
        return [_study(path)]
    held: list[Source] = []
    if (path / "config.json").exists():
        held.append(_run(path))
    known = shown_studies().values()
    held += [_study(path / s.file, s) for s in known if (path / s.file).exists()]
    windows = path.glob("window-*/config.json")  # of a rolling evaluation
    held += [_run(file.parent) for file in sorted(windows, key=_window_number)]
    if not held:
        raise InputError(
            f"{path} holds no results: name a folder with config.json (a run), "
            f"{' or '.join(study.file for study in known)}."
        )
    return held


def _window_number(file: Path) -> int:
    number = file.parent.name.removeprefix("window-")
    return int(number) if number.isdecimal() else 0


def _study(path: Path, expected: Study | None = None) -> StudyFile:
    remedy = "write it again"
    if expected:
        remedy += f" with `bliss {expected.command_name}`"
    values = records.read_object(path, remedy)
    kind, known = values.get("kind"), shown_studies()
    shown = shorten(repr(kind))
    if expected and kind != expected.kind:
        raise DamagedError(f"{path} is of kind {shown}, not {expected.kind!r}: {remedy}.")
    if not isinstance(kind, str) or kind not in known:
        raise InputError(
            f"{path} is of kind {shown}, which a report cannot show: name a file of kind "
            f"{', '.join(known)}."
        )
    study = known[kind]
    return StudyFile(path, study, records.decode(values, imported(study.record), path, remedy))


def _run(path: Path) -> Run:
    folder = RunFolder(path)
    every, identity = folder.settings().flat(), folder.identity()
    result = folder.result()  # before the metrics: a run may end meanwhile
    times = folder.times() if (path / "times.jsonl").exists() else []
    return Run(path, identity, every, folder.metrics(), times, result)
