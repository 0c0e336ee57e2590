"""Typed records in JSON files, declared by the module that writes them and shared by readers.

A number that may be absent is `float | None`. NaN and infinity are written as null.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from bliss.errors import DamagedError, ResourceError
from bliss.files import replace_file


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Base class of records. Fields without a default are required; unknown ones are ignored.

    Subclasses repeat `frozen=True, kw_only=True`.
    """


R = TypeVar("R", bound=Record)


def to_json(record: Record, indent: int | None = 2) -> str:
    """The record as JSON text; `indent=None` gives one line."""
    return json.dumps(_plain(msgspec.to_builtins(record)), indent=indent) + "\n"


def write(path: Path, record: Record) -> Path:
    """Replace a file by the record's JSON."""
    return replace_file(path, to_json(record).encode())


def read(path: Path, kind: type[R], remedy: str) -> R:
    """Read a record; a damaged file gives one sentence with the path, the fault and the remedy."""
    return decode(read_object(path, remedy), kind, path, remedy)


def read_lines(path: Path, kind: type[R], remedy: str) -> list[R]:
    """Read one record per line; an incomplete last line, left by a killed process, is ignored."""
    if not path.exists():
        return []
    lines = _read(path).split(b"\n")[:-1]
    return [
        decode(_parse(line, where, remedy), kind, where, remedy)
        for number, line in enumerate(lines, start=1)
        for where in [f"{path}, line {number},"]
    ]


def read_object(path: Path, remedy: str) -> dict[str, Any]:
    """Read a JSON object for display, with its text made printable."""
    values = _parse(_read(path), path, remedy)
    if not isinstance(values, dict):
        raise DamagedError(f"{path} does not hold a JSON object: it is damaged, {remedy}.")
    return values


def read_exactly(path: Path, remedy: str) -> Any:
    """Read JSON with its text unchanged, for instance file names."""
    return _parse(_read(path), path, remedy, is_plain=False)


def decode(values: Any, kind: type[R], where: Path | str, remedy: str) -> R:
    """Check JSON values against a record's declaration."""
    try:
        return msgspec.convert(values, kind)
    except (msgspec.ValidationError, OverflowError) as error:
        raise DamagedError(
            f"{where} does not have the expected format ({error}): it is damaged or comes from "
            f"another version of bliss, {remedy}."
        ) from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ResourceError(
            f"{path} cannot be read ({error.strerror}): check that it is a file with read "
            "permission."
        ) from error


def _parse(content: bytes, where: Path | str, remedy: str, is_plain: bool = True) -> Any:
    try:
        values = json.loads(content)
        return _plain(values) if is_plain else values
    except (ValueError, RecursionError) as error:  # ValueError: also text that is not UTF-8
        fault = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise DamagedError(
            f"{where} is not valid JSON ({fault}): it is damaged, {remedy}."
        ) from error


def _plain(value: Any) -> Any:
    """Values that are valid in JSON, HTML and terminals.

    Numbers that are not finite become None. Control characters and lone surrogates are replaced.
    """
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {printable(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def printable(text: str) -> str:
    """Text without control characters and lone surrogates."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)
