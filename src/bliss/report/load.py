"""Paths -> records: what a folder holds says what it is, and everything is checked on the way."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bliss.errors import DamagedError, InputError, ResourceError
from bliss.report.decode import decode
from bliss.report.records import (
    ComparisonFile,
    Metric,
    ReproductionFile,
    RunConfig,
    RunResult,
    VarianceFile,
)


@dataclass(frozen=True)
class Run:
    """A run's folder; `result` is None while the run is unfinished."""

    path: Path
    config: RunConfig
    settings: dict[str, Any]
    metrics: list[Metric]
    result: RunResult | None


@dataclass(frozen=True)
class Comparison:
    """A comparison's folder."""

    path: Path
    file: ComparisonFile


@dataclass(frozen=True)
class Reproduction:
    """A reproduction's folder."""

    path: Path
    file: ReproductionFile


@dataclass(frozen=True)
class Variance:
    """A variance file."""

    path: Path
    file: VarianceFile


Source = Run | Comparison | Reproduction | Variance

KINDS = {
    "comparison": "compare.json",
    "reproduction": "reproduce.json",
    "variance": "variance.json",
}
COMMANDS = {"comparison": "compare", "reproduction": "reproduce", "variance": "variance"}


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
        return [_read_kind(path)]
    held: list[Source] = []
    if (path / "config.json").exists():
        held.append(_run(path))
    for kind, name in KINDS.items():
        if (path / name).exists():
            held.append(_read_kind(path / name, kind))
    if not held:
        raise InputError(
            f"{path} holds no results: name a folder with config.json (a run), "
            f"{', '.join(KINDS.values())}."
        )
    return held


def _read_kind(path: Path, kind: str | None = None) -> Source:
    values = _read_json(path)
    found = values.get("kind")
    if kind is None and found not in KINDS:
        raise InputError(
            f"{path} is of kind {found!r}, which a report cannot show: name a file of kind "
            f"{', '.join(KINDS)}."
        )
    if kind is not None and found != kind:
        raise DamagedError(f"{path} is of kind {found!r}, not {kind!r}: write it {_anew(kind)}.")
    if found == "comparison":
        return Comparison(path, _decode(ComparisonFile, values, path, _anew(found)))
    if found == "reproduction":
        return Reproduction(path, _decode(ReproductionFile, values, path, _anew(found)))
    return Variance(path, _decode(VarianceFile, values, path, _anew("variance")))


def _run(path: Path) -> Run:
    remedy = "anew with `bliss train`"
    settings = _read_json(path / "config.json")
    config = _decode(RunConfig, settings, path / "config.json", remedy)
    result = None
    if (path / "result.json").exists():
        values = _read_json(path / "result.json")
        result = _decode(RunResult, values, path / "result.json", remedy)
    return Run(path, config, settings, _metrics(path / "metrics.jsonl"), result)


def _metrics(path: Path) -> list[Metric]:
    """Every line; the last may be cut short, as a kill can leave it."""
    lines = _read(path).splitlines() if path.exists() else []
    metrics = []
    for number, line in enumerate(lines, start=1):
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                break
            raise DamagedError(
                f"{path}, line {number}, is not valid JSON ({error}): remove the line, or train "
                "anew."
            ) from error
        metrics.append(_decode(Metric, values, path, "by training anew", f"line {number}"))
    return metrics


def _decode(kind: Any, values: Any, path: Path, remedy: str, where: str = "it") -> Any:
    try:
        return decode(kind, values, where)
    except ValueError as error:
        reason = str(error).replace("it.", "", 1)
        raise DamagedError(
            f"{path} does not hold what it should ({reason}): write it {remedy}."
        ) from error


def _anew(kind: str) -> str:
    return f"anew with `bliss {COMMANDS[kind]}`"


def _read_json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise DamagedError(
            f"{path} is not valid JSON ({error}): it was damaged, write it anew."
        ) from error
    if not isinstance(values, dict):
        raise DamagedError(f"{path} does not hold a JSON object: it was damaged, write it anew.")
    return values


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ResourceError(
            f"{path} cannot be read ({error.strerror}): make it readable."
        ) from error
    except ValueError as error:
        raise DamagedError(f"{path} is not text ({error}): it was damaged.") from error
