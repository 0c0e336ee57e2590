"""Tables that are read block by block, so that they may be larger than memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from bliss.data.formats import suffix
from bliss.data.safe_reading import LimitedStream, reading
from bliss.data.tables import (
    Table,
    decoded_table,
    encoded_parquet,
    open_parquet,
    parse_rows,
    parse_text,
    reading_parquet,
)

_ROW_BYTES = 16  # about as long as a line of two ids
_LEAST_BYTES = 1 << 12


def table_blocks(
    field: str,
    file: Path,
    rows: int,
    header: Collection[str] = (),
    only: Sequence[str] | None = None,
) -> Iterator[Table]:
    """Consecutive parts of a text or parquet file, of about `rows` rows each; at least one part.

    Header and delimiter are found in the first part, types of columns in each part. `header` is as
    in `read_table`. `only` names the columns of a parquet file to read.
    """
    if suffix(file) == ".parquet":
        return _parquet_blocks(field, file, rows, only)
    return _text_blocks(field, file, max(_ROW_BYTES * rows, _LEAST_BYTES), header)


def parquet_rows(field: str, file: Path) -> int:
    """Number of rows of a parquet file."""
    with reading_parquet(field, file), open_parquet(file) as opened:
        return int(opened.metadata.num_rows)


def _text_blocks(field: str, file: Path, size: int, header: Collection[str]) -> Iterator[Table]:
    import pyarrow as arrow

    layout: tuple[tuple[str, ...], int, str] | None = None
    rest, is_end = b"", False
    border = reading(file, "text", "check that it is complete", field)
    with border, arrow.input_stream(str(file)) as opened:  # decompresses .gz
        stream = LimitedStream(opened, file)
        while not is_end:
            part = stream.read(size)
            is_end, content = not part, rest + part
            cut = len(content) if is_end else content.rfind(b"\n") + 1
            block, rest = content[:cut], content[cut:]
            if layout is not None:
                table = parse_rows(field, file, block, *layout)
            elif block or is_end:
                table, delimiter = parse_text(field, file, block, header)
                layout = table.names, len(table.columns), delimiter
            else:
                continue
            if table is not None:
                yield table


def _parquet_blocks(
    field: str, file: Path, rows: int, only: Sequence[str] | None
) -> Iterator[Table]:
    import pyarrow as arrow

    with encoded_parquet(field, file, only) as opened:
        is_empty = True
        for batch in opened.iter_batches(batch_size=rows, columns=only):
            is_empty = False
            yield decoded_table(field, file, arrow.Table.from_batches([batch]))
        if is_empty:
            yield decoded_table(field, file, opened.read(columns=only))
