"""Stored results: one table of each measurement, in one file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bliss.storage.files import replace_file

HERE = Path(__file__).parent
PATH = HERE / "results.json"


def read(table: str) -> dict[str, Any]:
    """A table by case: "gradients", "scores", "nodewise" or "policies"; empty if not measured."""
    if not PATH.exists():
        return {}
    rows: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8")).get(table, {})
    return rows


def write(table: str, rows: dict[str, Any]) -> None:
    """Replace a table."""
    tables = json.loads(PATH.read_text(encoding="utf-8")) if PATH.exists() else {}
    text = json.dumps(tables | {table: rows}, indent=1) + "\n"
    replace_file(PATH, text.encode())
