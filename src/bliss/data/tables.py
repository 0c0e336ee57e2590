"""Tables of numbers from text and parquet files, read with pyarrow.

pyarrow is imported inside the functions because its import is slow.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bliss.arrays import Array
from bliss.data.reading import LimitedStream, check_unpacked, reading
from bliss.errors import InputError

TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")

_COMMENT = re.compile(rb"[ \t]*#[^\r\n]*")
_BLANKS = re.compile(rb"[ \t]+")
_MARGIN = re.compile(rb"^[ \t]+|[ \t]+(?=\r?$)", re.MULTILINE)


class Csv(NamedTuple):
    """The columns of a text file."""

    names: tuple[str, ...]  # lower case; empty without a header
    columns: list[Array]  # int64[N]; in a file of weighted edges the third is float64[N]

    @property
    def matrix(self) -> Array:
        """The columns side by side. [N, C]."""
        return np.stack(self.columns, axis=1)


def suffix(file: Path) -> str:
    """The ending that names the format: ".npy", ".csv", ".csv.gz" and so on."""
    return "".join(file.suffixes[-2:] if file.suffix == ".gz" else file.suffixes[-1:])


def read_csv(field: str, file: Path, weighted: bool = False) -> Csv:
    """Read integers separated by commas, semicolons, tabs or blanks.

    A first line that is not all numbers is the header. Text after a # is a comment. With
    `weighted`, the third of three columns may hold any numbers. Files may be compressed with gzip.
    """
    import pyarrow as arrow

    border = reading(file, "text", "check that it is complete", field)
    with border, arrow.input_stream(str(file)) as stream:  # decompresses .gz
        content = LimitedStream(stream, file).read_all()
    first = _first_line(field, file, content)
    delimiter = next((mark for mark in ",;\t" if mark in first.text), " ")
    parts = first.text.split(None if delimiter == " " else delimiter)
    fields = [part.strip().strip('"').strip() for part in parts]
    has_header = not all(map(_is_number, fields))
    body: Any = memoryview(content)[first.end if has_header else first.start :]
    if content.find(b"#", first.start) >= 0:
        body = _COMMENT.sub(b"", body)
    if delimiter == " ":
        body = _BLANKS.sub(b" ", _MARGIN.sub(b"", body))
    if not re.search(rb"\S", body):
        raise InputError(f"{field}={str(file)!r} has a header but no rows: add the rows.")
    kinds = [arrow.int64()] * len(fields)
    if weighted and len(fields) == 3:
        kinds[2] = arrow.float64()
    remedy = "number nodes and classes from 0, and leave no field empty"
    with reading(file, "whole numbers", remedy, field):
        table = _parse(arrow.BufferReader(body), kinds, delimiter)
    columns = [column.to_numpy() for column in table.columns]
    return Csv(tuple(name.lower() for name in fields) if has_header else (), columns)


def read_matrix(file: Path, dtype: type) -> Array:
    """Read comma-separated numbers without a header, as OGB publishes them. [N, C]."""
    import pyarrow as arrow

    with reading(file, "numbers", "download it again"):
        with arrow.input_stream(str(file)) as stream:
            width = len(stream.read(1 << 16).split(b"\n", 1)[0].split(b","))
        with arrow.input_stream(str(file)) as stream:
            table = _parse(
                LimitedStream(stream, file), [arrow.from_numpy_dtype(dtype)] * width, ","
            )
        matrix = np.empty((table.num_rows, width), dtype)
        for place, column in enumerate(table.columns):
            matrix[:, place] = column.to_numpy()
    return matrix


def open_parquet(file: Path) -> Any:
    """Open a pyarrow `ParquetFile`; call it and its methods within `reading_parquet`."""
    import pyarrow.parquet as parquet

    return parquet.ParquetFile(file, memory_map=True)


def reading_parquet(field: str, file: Path) -> AbstractContextManager[None]:
    """`reading` for a parquet file."""
    return reading(file, "parquet", "it is truncated or damaged, write it again", field)


def parquet_values(opened: Any) -> int:
    """Number of values that an open parquet file declares, in all rows and columns."""
    groups = [opened.metadata.row_group(place) for place in range(opened.num_row_groups)]
    return sum(one.column(place).num_values for one in groups for place in range(one.num_columns))


def read_parquet(field: str, file: Path) -> dict[str, Array]:
    """Read all columns of a parquet file, by name in lower case. [N] each."""
    found: dict[str, Array] = {}
    with reading_parquet(field, file):
        with open_parquet(file) as opened:
            check_unpacked(file, 8 * parquet_values(opened))
            table = opened.read()
        for name, column in zip(table.column_names, table.columns, strict=True):
            if name.lower() in found:
                raise InputError(f"{field} has two columns called {name.lower()!r}: remove one.")
            found[name.lower()] = column_values(field, name, column)
    if not found:
        raise InputError(f"{field}={str(file)!r} has no columns: write it again.")
    return found


def column_values(field: str, name: str, column: Any) -> Array:
    """A pyarrow array of numbers, without gaps, as a NumPy array. [N]."""
    from pyarrow import types

    kind = column.type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        raise InputError(
            f"{field} has column {name!r} of type {kind}, but must hold numbers: convert or drop "
            "it."
        )
    if column.null_count:
        raise InputError(
            f"{field} has {column.null_count} empty entries in column {name!r}: fill them or "
            "remove their rows."
        )
    values: Array = np.asarray(column)
    return values


class _Line(NamedTuple):
    text: str
    start: int  # byte where the line starts
    end: int  # byte after its last


def _first_line(field: str, file: Path, content: bytes) -> _Line:
    """The first line that is not empty or a comment."""
    mark = b"\xef\xbb\xbf"  # of UTF-8, as some spreadsheets write it
    for line in re.compile(rb"[^\r\n]+").finditer(content, len(mark) * content.startswith(mark)):
        try:
            text = line[0].decode("utf-8").split("#")[0].strip()
        except UnicodeDecodeError as error:
            raise InputError(
                f"{field}={str(file)!r} cannot be read as text ({error}): save it as UTF-8."
            ) from error
        if text:
            return _Line(text, *line.span())
    raise InputError(f"{field}={str(file)!r} is empty: check that it was written completely.")


def _parse(source: Any, kinds: Sequence[Any], delimiter: str) -> Any:
    """Read a headerless text as a pyarrow table with columns of the given types."""
    from pyarrow import csv

    names = [str(place) for place in range(len(kinds))]
    return csv.read_csv(
        source,
        read_options=csv.ReadOptions(column_names=names),
        parse_options=csv.ParseOptions(delimiter=delimiter),
        convert_options=csv.ConvertOptions(
            column_types=dict(zip(names, kinds, strict=True)), null_values=[]
        ),
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
