"""Tables of numbers from .csv and .parquet files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bliss.errors import InputError

Array = npt.NDArray[Any]

TEXT = (".csv", ".tsv", ".txt")


class Csv(NamedTuple):
    """The columns of a text file: all whole numbers, but for weights."""

    names: tuple[str, ...]  # lower case; empty without a header
    columns: list[Array]  # int64[N] each; the third is float64[N] in a file of weighted edges

    @property
    def matrix(self) -> Array:
        """The columns side by side. [N, C]."""
        return np.stack(self.columns, axis=1)


def read_csv(field: str, file: Path, weighted: bool = False) -> Csv:
    """Read whole numbers separated by commas, semicolons, tabs or blanks.

    A first line that is not numbers is the header; lines after a # are left out. With
    `weighted`, a third column may hold any numbers.
    """
    line_number, delimiter, first = _first_fields(field, file)
    has_header = not all(map(_is_number, first))
    count = len(first)
    kind: Any = np.int64
    if weighted and count == 3:
        kind = [("source", np.int64), ("target", np.int64), ("weight", np.float64)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # an empty file, or 1.5 where a whole number stands
            rows = np.loadtxt(
                file,
                kind,
                delimiter=delimiter,
                skiprows=line_number if has_header else 0,
                encoding="utf-8-sig",
                ndmin=1 if isinstance(kind, list) else 2,
            )
    except (ValueError, OverflowError, Warning, OSError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(
            f"{field}={str(file)!r} cannot be read as whole numbers ({reason}): number nodes and "
            "classes from 0, and leave no field empty."
        ) from error
    columns = [rows[name] for name in rows.dtype.names] if rows.dtype.names else list(rows.T)
    return Csv(tuple(name.strip().lower() for name in first) if has_header else (), columns)


def open_parquet(field: str, file: Path) -> Any:
    """Open a pyarrow `ParquetFile`."""
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise InputError(
            f"{field}={str(file)!r} needs the package pyarrow: install it with "
            "pip install 'bliss-gnn[parquet]', or save the table as .npy."
        ) from error
    try:
        return parquet.ParquetFile(file, memory_map=True)
    except (OSError, arrow.ArrowException) as error:
        raise InputError(
            f"{field}={str(file)!r} cannot be read as parquet ({str(error).splitlines()[0]}): it "
            "is cut short or something else, write it again."
        ) from error


def read_parquet(field: str, file: Path) -> dict[str, Array]:
    """Read all columns, by name in lower case. dict of name -> array [N]."""
    table = open_parquet(field, file).read()
    return {
        name.lower(): column_values(field, name, column)
        for name, column in zip(table.column_names, table.columns, strict=True)
    }


def column_values(field: str, name: str, column: Any) -> Array:
    """A pyarrow column of numbers, without gaps, as an array. [N]."""
    if column.null_count:
        raise InputError(
            f"{field} has {column.null_count} empty entries in column {name!r}: fill them or "
            "remove their rows."
        )
    values: Array = column.to_numpy()
    if values.dtype.kind not in "fiub":
        raise InputError(
            f"{field} has column {name!r} of type {column.type}, but must hold numbers: convert "
            "or drop it."
        )
    return values


def _first_fields(field: str, file: Path) -> tuple[int, str | None, list[str]]:
    """Number, separator and fields of the first line that says something."""
    try:
        with open(file, encoding="utf-8-sig") as stream:
            for number, line in enumerate(stream, 1):
                text = line.split("#")[0].strip()
                if text:
                    delimiter = next((mark for mark in ",;\t" if mark in text), None)
                    return number, delimiter, text.split(delimiter)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{field}={str(file)!r} cannot be read as text ({error}): save it as UTF-8."
        ) from error
    raise InputError(f"{field}={str(file)!r} is empty: check that it was written whole.")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
