"""Typed records in JSON files, declared by the module that writes them and shared by readers.

A number that may be absent is `float | None`. NaN and infinity are written as null.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from bliss.errors import DamagedError, ResourceError
from bliss.storage.digests import is_sealed, sealed
from bliss.storage.files import check_regular, replace_file, writing


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Base class of records. Fields without a default are required; unknown ones are ignored.

    Subclasses repeat `frozen=True, kw_only=True`.
    """


R = TypeVar("R", bound=Record)


def to_json(record: Record, indent: int | None = 2) -> str:
    """The record as JSON text; `indent=None` gives one line."""
    return json.dumps(_values(record), indent=indent) + "\n"


def write(path: Path, record: Record) -> Path:
    """Replace a file by the record's JSON."""
    return replace_file(path, to_json(record).encode())


def read(path: Path, kind: type[R], remedy: str) -> R:
    """Read a record; a damaged file gives one sentence with the path, the fault and the remedy."""
    return decode(read_object(path, remedy), kind, path, remedy)


def write_sealed(path: Path, record: Record, owner: str = "") -> Path:
    """Replace a file by the record's JSON with a digest, which also covers the text `owner`."""
    text = json.dumps(sealed(_values(record), after=owner), indent=2) + "\n"
    return replace_file(path, text.encode())


def read_sealed(path: Path, kind: type[R], remedy: str, owner: str = "") -> R:
    """Read a record that must match its digest."""
    return _unseal(read_exactly(path, remedy), kind, path, remedy, owner)


class Log(Generic[R]):
    """A file of records, one line of JSON each, with a digest of the line and all lines before it.

    The first digest continues the text `owner()`. An incomplete last line, left by a killed
    process, is ignored. Only one `Log` of a file may write at a time.
    """

    def __init__(self, path: Path, kind: type[R], owner: Callable[[], str] = str) -> None:
        self.path, self.kind, self.owner = path, kind, owner
        self._last: str | None = None  # digest of the last line; None: not known yet

    def read(self) -> list[R]:
        """All records."""
        return self._read()[0]

    def append(self, record: R) -> None:
        """Add a line, and wait until it is on the disk."""
        if self._last is None:
            self._last = self._read()[1]
        with writing(self.path), open(self.path, "a", encoding="utf-8") as file:
            file.write(self._line(record))
            file.flush()
            os.fsync(file.fileno())

    def rewrite(self, kept: Iterable[R]) -> None:
        """Replace all lines."""
        self._last = self.owner()
        replace_file(self.path, "".join(map(self._line, kept)).encode())

    def _line(self, record: R) -> str:
        """The next line."""
        assert self._last is not None
        values = sealed(_values(record), after=self._last)
        self._last = values["digest"]
        return json.dumps(values) + "\n"

    def _read(self) -> tuple[list[R], str]:
        """All records and the digest of the last line, or the owner if there is none."""
        records: list[R] = []
        last = self.owner()
        lines = _read(self.path).split(b"\n")[:-1] if self.path.exists() else []
        for number, line in enumerate(lines, start=1):
            where, remedy = f"{self.path}, line {number},", "remove it and all lines after it"
            values = _parse(line, where, remedy, is_plain=False)
            records.append(_unseal(values, self.kind, where, remedy, last))
            last = values["digest"]
        return records, last


def read_object(path: Path, remedy: str) -> dict[str, Any]:
    """Read a JSON object; numbers that are not finite become None."""
    values = _parse(_read(path), path, remedy)
    if not isinstance(values, dict):
        raise DamagedError(f"{path} does not hold a JSON object: it is damaged, {remedy}.")
    return values


def read_exactly(path: Path, remedy: str) -> Any:
    """Read JSON with its numbers unchanged."""
    return _parse(_read(path), path, remedy, is_plain=False)


def decode(values: Any, kind: type[R], where: Path | str, remedy: str) -> R:
    """Check JSON values against a record's declaration."""
    try:
        return msgspec.convert(values, kind)
    except (msgspec.ValidationError, OverflowError, UnicodeError) as error:
        raise DamagedError(
            f"{where} does not have the expected format ({error}): it is damaged or comes from "
            f"another version of bliss, {remedy}."
        ) from error


def _unseal(values: Any, kind: type[R], where: Path | str, remedy: str, after: str = "") -> R:
    record = decode(_plain(values), kind, where, remedy)
    if not is_sealed(values, after):
        raise DamagedError(
            f"{where} does not match its digest: it is damaged, was changed or belongs to another "
            f"run, {remedy}."
        )
    return record


def _values(record: Record) -> dict[str, Any]:
    values: dict[str, Any] = _plain(msgspec.to_builtins(record))
    return values


def _read(path: Path) -> bytes:
    check_regular(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise ResourceError(
            f"{path} cannot be read ({error.strerror}): check its permissions and the disk."
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
    """Values that are valid in JSON: numbers that are not finite become None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
