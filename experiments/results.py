"""Results of an experiment: named parts of one file, results.json, in its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic

from bliss.storage import records
from bliss.storage.files import replace_file
from bliss.storage.records import R

FILE = "results.json"
REMEDY = "run the experiment again"


class Part(Generic[R]):
    """A part of a folder's results.json that is a record."""

    def __init__(self, folder: Path, name: str, kind: type[R]) -> None:
        self.path, self.name, self.kind = folder / FILE, name, kind

    def exists(self) -> bool:
        """Whether the part was stored."""
        return self.name in parts(self.path)

    def read(self) -> R:
        """The stored part."""
        where = f"{self.path}, {self.name}"
        return records.decode(parts(self.path).get(self.name), self.kind, where, REMEDY)

    def write(self, record: R) -> None:
        """Store the part; the others stay."""
        write(self.path, {self.name: json.loads(records.to_json(record))})


def parts(path: Path) -> dict[str, Any]:
    """All parts of a file; none if it is not there."""
    return records.read_object(path, REMEDY) if path.exists() else {}


def write(path: Path, changed: Mapping[str, Any]) -> None:
    """Replace some parts of a file, with the rows of tables on a line each."""
    fields = [
        f"{json.dumps(name)}: {_text(part)}" for name, part in (parts(path) | changed).items()
    ]
    replace_file(path, f"{{\n{_joined(fields)}\n}}\n".encode())


def _text(part: Any) -> str:
    """JSON with a line for each field, and for each row of a field."""
    if not isinstance(part, dict):
        return json.dumps(part)
    fields = [f"{json.dumps(name)}: {_field(value)}" for name, value in part.items()]
    return f"{{\n{_joined(fields)}\n}}"


def _field(value: Any) -> str:
    is_table = isinstance(value, list) and any(isinstance(row, (dict, list)) for row in value)
    return f"[\n{_joined([json.dumps(row) for row in value])}\n]" if is_table else json.dumps(value)


def _joined(lines: list[str]) -> str:
    return ",\n".join(lines)
