"""Stored results: a part of results.json for each measurement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.results import FILE, parts
from experiments.results import write as write_parts

HERE = Path(__file__).parent


def read(table: str) -> dict[str, Any]:
    """A part by case: "gradients", "scores", "nodewise" or "policies"; empty if not measured."""
    rows: dict[str, Any] = parts(HERE / FILE).get(table, {})
    return rows


def write(table: str, rows: dict[str, Any]) -> None:
    """Replace a part."""
    write_parts(HERE / FILE, {table: rows})
