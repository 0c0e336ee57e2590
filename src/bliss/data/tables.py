"""Tables from text and parquet files, read with pyarrow.

pyarrow is imported inside the functions because its import is slow.
"""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bliss.arrays import Array
from bliss.data.formats import reader
from bliss.data.safe_reading import LimitedStream, check_unpacked, in_one_sentence, reading
from bliss.errors import InputError
from bliss.text import is_number, shorten

INDEX = ("", "__index_level_0__")
"""Names of an index column that pandas writes."""
MOST_COLUMNS = 1 << 15
"""Columns of a table. Arrow takes some 20 kB for each, however few rows there are."""

# A comment is a whole line, or follows nothing but numbers: "Team #1" is a name.
_COMMENT = re.compile(rb"^([\d.,;+ \t-]*)#[^\r\n]*", re.MULTILINE)
_BLANKS = re.compile(rb"[ \t]+")
_MARGIN = re.compile(rb"^[ \t]+|[ \t]+(?=\r?$)", re.MULTILINE)
_LINE_END = re.compile(rb"\r\n|\r|\n")
_PADDED = re.compile(rb"(?:^|[,;\t \"])[+-]?0[0-9xX]", re.MULTILINE)


@dataclass(frozen=True)
class Table:
    """The columns of a file, as pyarrow arrays of one length, in which an empty field is null."""

    names: tuple[str, ...]  # as in the file; empty without a header
    columns: list[Any]
    as_text: Callable[[int], Any]  # a column with its fields as they are in the file
    is_padded: bool = False  # whether there may be numbers such as 007 or 0x10

    def __len__(self) -> int:
        return len(self.columns[0])

    def places(self, *names: str) -> list[int]:
        """Positions of the columns with one of these names, in lower case."""
        return [place for place, name in enumerate(self.names) if name.strip().lower() in names]

    def has_counting_index(self, start: int = 0) -> bool:
        """Whether the first column has no name and counts the rows, as pandas writes its index.

        `start` is the number of the first row.
        """
        if not self.names or self.names[0] not in INDEX or len(self.columns) == 1:
            return False
        first = self.columns[0]
        return str(first.type) == "int64" and bool(
            first.null_count == 0
            and (np.asarray(first) == np.arange(start, start + len(first))).all()
        )


def read_table(field: str, file: Path, header: Collection[str] = (), **options: bool) -> Table:
    """Read a table of any format; options are those of `read_text`."""
    table: Table = reader(field, file, "table")(field, file, header, **options)
    return table


def read_text(
    field: str,
    file: Path,
    header: Collection[str] = (),
    *,
    may_lack_header: bool = False,
    counts: bool = False,
) -> Table:
    """Read a text file. Types of columns are found from their fields.

    Text is separated by commas, semicolons, tabs or blanks, and may be compressed with gzip. A #
    at the start of a line, or after a blank or a digit, starts a comment.

    Parameters
    ----------
    field
        Name of the argument, for messages.
    file
        The file.
    header
        Names in lower case of which one makes the first line a header. Otherwise it is a header if
        a field is text in a column of numbers.
    may_lack_header
        Whether a file of text alone has no header; otherwise it is refused.
    counts
        Whether a first line 0,1,2,... is a header, as pandas writes it.
    """
    import pyarrow as arrow

    border = reading(file, "text", "check that it is complete", field)
    with border, arrow.input_stream(str(file)) as stream:  # decompresses .gz
        content = arrow.BufferOutputStream()  # Arrow's own memory, see `_owned`
        for part in LimitedStream(stream, file):
            content.write(part)
    return parse_text(field, file, content.getvalue(), header, may_lack_header, counts)[0]


def parse_text(
    field: str,
    file: Path,
    content: Any,
    header: Collection[str] = (),
    may_lack_header: bool = False,
    counts: bool = False,
) -> tuple[Table, str]:
    """Table of the text of a file, or of its beginning, and the delimiter; see `read_table`.

    content is an object with bytes, such as an Arrow buffer
    """
    first = _first_line(field, file, content)
    is_one = len(first.text.split(None, 1)) == 1  # column, whose names may hold blanks
    delimiter = next((mark for mark in ",;\t" if mark in first.text), "," if is_one else " ")
    fields = _split(field, file, first.text, delimiter)
    whole = _cleaned(memoryview(content)[first.start :], delimiter)
    line = _LINE_END.search(whole)
    end = line.end() if line else len(whole)
    body = _Body(field, file, _owned(whole), end, delimiter, len(fields))
    has_header = _has_header(fields, header, counts)
    if has_header is None:
        has_header = _is_over_numbers(fields, body.columns(skip=True)) if body.has_rows else True
        if not has_header and not may_lack_header:
            raise InputError(
                f"{field}={str(file)!r} starts with the line {first.text[:80]!r}, which may be a "
                f"header or a row: give it a header, such as {', '.join(list(header)[:3])}."
            )
    if has_header and not body.has_rows:
        raise NoRowsError(f"{field}={str(file)!r} has a header but no rows: add the rows.")
    return body.table(tuple(fields) if has_header else (), skip=has_header), delimiter


def parse_rows(
    field: str, file: Path, content: bytes, names: tuple[str, ...], width: int, delimiter: str
) -> Table | None:
    """Table of a later part of a text, which starts with a row; None if it has no rows."""
    whole = _owned(_cleaned(memoryview(content), delimiter))
    body = _Body(field, file, whole, 0, delimiter, width)
    return body.table(names, skip=False) if body.has_rows else None


def read_matrix(file: Path, dtype: type) -> Array:
    """Read comma-separated numbers without a header, as OGB publishes them. [N, C]."""
    import pyarrow as arrow

    with reading(file, "numbers", "download it again"):
        with arrow.input_stream(str(file)) as stream:
            parts = iter(LimitedStream(stream, file))
            width = next(parts, b"").split(b"\n", 1)[0].count(b",") + 1
            _check_columns(str(file), width)
            deque(parts, maxlen=0)  # raises if the file unpacks to too much
        kinds = [arrow.from_numpy_dtype(dtype)] * width
        table = _parse(arrow.input_stream(str(file)), kinds, ",")
        matrix = np.empty((table.num_rows, width), dtype)
        for place, column in enumerate(table.columns):
            matrix[:, place] = column.to_numpy()
    return matrix


def open_parquet(file: Path, text: Sequence[str] = ()) -> Any:
    """Open a pyarrow `ParquetFile`; call it and its methods within `reading_parquet`.

    Columns named in `text` stay encoded by a dictionary, in which a repeated text is held once.
    """
    import pyarrow.parquet as parquet

    opened = parquet.ParquetFile(file, memory_map=True, read_dictionary=list(text))
    _check_columns(str(file), opened.metadata.num_columns)
    return opened


def reading_parquet(field: str, file: Path) -> AbstractContextManager[None]:
    """`reading` for a parquet file."""
    return reading(file, "parquet", "it is truncated or damaged, write it again", field)


def parquet_values(opened: Any, names: Collection[str] | None = None) -> int:
    """Number of values that an open parquet file declares, in all rows of all or some columns."""
    groups = [opened.metadata.row_group(place) for place in range(opened.num_row_groups)]
    leaves = (group.column(place) for group in groups for place in range(group.num_columns))
    return sum(
        leaf.num_values
        for leaf in leaves
        if names is None or any(f"{leaf.path_in_schema}.".startswith(f"{name}.") for name in names)
    )


def column_values(field: str, name: str, column: Any) -> Array:
    """A pyarrow array of numbers, without gaps, as a NumPy array. [N]."""
    from pyarrow import types

    kind = column.type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        is_text = types.is_string(kind) or types.is_large_string(kind)
        first = f" ({_first_word(column)})" if is_text else ""
        raise InputError(
            f"{field} has column {name!r} of type {kind}{first}, but must hold numbers: convert or "
            "drop it."
        )
    if column.null_count:
        raise InputError(
            f"{field} has {column.null_count} empty entries in column {name!r}: fill them or "
            "remove their rows."
        )
    values: Array = np.asarray(column)
    return values


def _first_word(column: Any) -> str:
    """The first entry of a column of text that is not a number, for a message."""
    words = ((row, str(word)) for row, word in enumerate(column.to_pylist()) if word is not None)
    row, word = next((pair for pair in words if not is_number(pair[1])), (0, ""))
    return f"row {row}: {shorten(word, 60)!r}" if word else "numbers in quotes"


def _check_columns(shown: str, number: int) -> None:
    """Raise if a table has too many columns."""
    if number > MOST_COLUMNS:
        raise InputError(
            f"{shown} has more than {MOST_COLUMNS:,} columns, which take too much memory as a "
            "table: keep those that are needed, or save features as .npy or .npz."
        )


class NoRowsError(InputError):
    """A table has a header and no rows."""


class _Line(NamedTuple):
    text: str
    start: int  # byte where the line starts


@dataclass(frozen=True)
class _Body:
    """The text of a file, from its first line on, with comments removed."""

    field: str
    file: Path
    content: Any  # an Arrow buffer that Arrow owns
    end: int  # byte after the first line
    delimiter: str
    width: int

    @property
    def has_rows(self) -> bool:
        return re.search(rb"\S", memoryview(self.content)[self.end :]) is not None

    def table(self, names: tuple[str, ...], skip: bool) -> Table:
        """All columns, without the first line (`skip`)."""
        return Table(
            names,
            self.columns(skip),
            lambda place: self.columns(skip, text=True)[place],
            _PADDED.search(self.content) is not None,
        )

    def columns(self, skip: bool, text: bool = False) -> list[Any]:
        """Columns without the first line (`skip`), of found types or as text."""
        import pyarrow as arrow

        body = self.content.slice(self.end if skip else 0)
        remedy = "give each row as many fields as the first, and check the quotes"
        with reading(self.file, "a table", remedy, self.field):
            if not text:
                try:
                    table = _parse(arrow.BufferReader(body), [None] * self.width, self.delimiter)
                    return [column.combine_chunks() for column in table.columns]
                except arrow.ArrowInvalid as error:
                    if "conversion error" not in str(error):
                        raise
            kinds = [arrow.string()] * self.width  # types are found from the first block alone
            table = _parse(arrow.BufferReader(body), kinds, self.delimiter)
            columns = [column.combine_chunks() for column in table.columns]
            return columns if text else [_typed(column) for column in columns]


def _typed(column: Any) -> Any:
    """A column of text as numbers, if all of its fields are numbers or empty."""
    import pyarrow as arrow
    from pyarrow import compute

    filled = compute.if_else(compute.equal(column, ""), arrow.scalar(None, column.type), column)
    for kind in (arrow.int64(), arrow.float64()):
        try:
            return filled.cast(kind)
        except arrow.ArrowInvalid:
            continue
    return column


def _owned(content: Any) -> Any:
    """The same bytes in memory that Arrow owns, as an Arrow buffer.

    After an error, a thread of Arrow may be the last to hold what it was parsing. To free memory of
    Python it would need the interpreter's lock, and if the interpreter is ending at that moment,
    the process is aborted. So neither memory nor streams of Python are passed to Arrow's readers.
    """
    import pyarrow as arrow

    owner = content.obj if isinstance(content, memoryview) else content
    if isinstance(owner, arrow.Buffer):
        return owner.slice(len(owner) - len(content))  # `content` is its end
    buffer = arrow.allocate_buffer(len(content))
    memoryview(buffer).cast("B")[:] = content
    return buffer


def _split(field: str, file: Path, line: str, delimiter: str) -> list[str]:
    """Fields of the first line."""
    shown = f"{field}={str(file)!r}"
    if delimiter == " ":
        parts = line.split(None, MOST_COLUMNS)
        _check_columns(shown, len(parts))
    else:
        _check_columns(shown, line.count(delimiter) + 1)
        with in_one_sentence(shown, "a table", "check the quotes in its first line"):
            parts = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [""])
    return [part.strip().strip('"').strip() for part in parts]


def _has_header(fields: Sequence[str], header: Collection[str], counts: bool) -> bool | None:
    """Whether the first line is a header; None if it depends on the other lines."""
    if counts and len(fields) > 2 and fields == [str(place) for place in range(len(fields))]:
        return True
    if all(map(is_number, fields)):
        return False
    if fields[0] == "" or any(text.lower() in header for text in fields):
        return True
    return None


def _is_over_numbers(fields: Sequence[str], columns: Sequence[Any]) -> bool:
    """Whether a field that is text stands over a column that is not."""
    return any(
        not is_number(text) and "string" not in str(column.type)
        for text, column in zip(fields, columns, strict=True)
    )


def _first_line(field: str, file: Path, content: Any) -> _Line:
    """The first line that is not empty or a comment."""
    start = 3 if bytes(content[:3]) == b"\xef\xbb\xbf" else 0  # as some spreadsheets mark UTF-8
    for line in re.compile(rb"[^\r\n]+").finditer(content, start):
        try:
            text = _without_comments(line[0]).decode("utf-8").strip(" ")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{field}={str(file)!r} cannot be read as text ({error}): save it as UTF-8."
            ) from error
        if text.strip():
            return _Line(text, line.start())
    raise InputError(f"{field}={str(file)!r} is empty: check that it was written completely.")


def _cleaned(text: memoryview, delimiter: str) -> Any:
    """Text without comments and needless blanks; the text itself if it has none."""
    whole = _without_comments(text) if re.search(b"#", text) else text
    return _BLANKS.sub(b" ", _MARGIN.sub(b"", whole)) if delimiter == " " else whole


def _without_comments(text: Any) -> bytes:
    return _COMMENT.sub(lambda line: bytes(line[1]).rstrip(b" \t"), text)


def _parse(source: Any, kinds: Sequence[Any], delimiter: str) -> Any:
    """Read a headerless text as a pyarrow table; a type of None is found from the fields."""
    from pyarrow import csv as arrow_csv

    names = [str(place) for place in range(len(kinds))]
    size = max(1 << 20, len(kinds) << 10)  # bytes: blocks of a few rows would take much memory
    return arrow_csv.read_csv(
        source,
        read_options=arrow_csv.ReadOptions(column_names=names, block_size=size),
        parse_options=arrow_csv.ParseOptions(delimiter=delimiter),
        convert_options=arrow_csv.ConvertOptions(
            column_types={n: kind for n, kind in zip(names, kinds, strict=True) if kind is not None}
        ),
    )


def parquet_table(field: str, file: Path, header: Collection[str] = (), **options: bool) -> Table:
    """Read a parquet file. Its columns have names, so the options of text have no effect."""
    return read_parquet(field, file)


def read_parquet(field: str, file: Path, only: Sequence[str] | None = None) -> Table:
    """Read all or some columns of a parquet file."""
    with encoded_parquet(field, file, only) as opened:
        return decoded_table(field, file, opened.read(columns=only))


@contextmanager
def encoded_parquet(field: str, file: Path, only: Sequence[str] | None) -> Iterator[Any]:
    """Context manager that opens a parquet file; pass what it reads to `decoded_table`."""
    from pyarrow import types

    with reading_parquet(field, file):
        with open_parquet(file) as opened:
            schema = opened.schema_arrow
            check_unpacked(file, 8 * parquet_values(opened, only))
        text = [column.name for column in schema if types.is_string(column.type)]
        with open_parquet(file, text) as opened:
            yield opened


def decoded_table(field: str, file: Path, table: Any) -> Table:
    """A pyarrow table of a parquet file, or a part of it, with its text decoded."""
    columns = [_decoded(file, column) for column in table.columns]
    if not columns:
        raise InputError(f"{field}={str(file)!r} has no columns: write it again.")
    return Table(tuple(table.column_names), columns, lambda place: columns[place])


def _decoded(file: Path, column: Any) -> Any:
    """A column in one piece; text is decoded once its size is known."""
    import pyarrow as arrow
    from pyarrow import compute, types

    if types.is_dictionary(column.type) and types.is_string(column.type.value_type):
        size = 0
        for part in column.chunks:
            sizes = compute.binary_length(part.dictionary).take(part.indices)
            size += compute.sum(sizes).as_py() or 0
        check_unpacked(file, size)
        column = column.cast(arrow.large_string())
    return column.combine_chunks()
