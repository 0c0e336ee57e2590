"""Features from files of any size, read and checked in chunks of rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bliss.arrays import Array, FloatArray
from bliss.data.chunked_tables import table_blocks
from bliss.data.formats import is_table, reader
from bliss.data.nodes import ID_NAMES, id_column, id_place, named_place
from bliss.data.npy import NpyRows, read_sparse
from bliss.data.problems import raise_problems
from bliss.data.safe_reading import check_unpacked
from bliss.data.table_encoder import MAX_CATEGORIES, TableEncoder
from bliss.data.tables import (
    INDEX,
    column_values,
    open_parquet,
    parquet_values,
    read_parquet,
    read_table,
    reading_parquet,
)
from bliss.errors import InputError
from bliss.storage.files import check_regular
from bliss.text import printable

CHUNK_BYTES = 1 << 25
"""Approximate size of one chunk in memory."""


@dataclass(frozen=True)
class FeatureSource:
    """An open file of features."""

    shape: tuple[int, int]  # V, F
    chunks: Callable[[], Iterator[Array]]  # rows in order, [n, F] each
    ids: Any = None  # pyarrow array [V] of int64 or text; None: 0 to V - 1
    notes: tuple[str, ...] = ()
    encoder: TableEncoder | None = None  # of the columns of a table


@dataclass(frozen=True)
class FeatureColumns:
    """Which columns of a table are features, and how they are encoded."""

    columns: tuple[str, ...] = ()  # empty: all but the ids and `without`
    without: tuple[str, ...] = ()
    id_column: str = ""  # empty: the first column, if it is called id, node, node_id or name
    max_categories: int = MAX_CATEGORIES
    encoder: TableEncoder | None = None  # None: fitted to the table

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that must be there."""
        if self.encoder is None:
            return self.columns
        return tuple(column.name for column in self.encoder.columns)

    def encoded(
        self, names: Sequence[str], batches: Callable[[], Iterable[Sequence[Any]]]
    ) -> tuple[TableEncoder, tuple[str, ...]]:
        """The encoder of a table's columns, and notes about it."""
        if self.encoder is not None:
            return self.encoder, ("Columns are encoded as in the store of `like`.",)
        return TableEncoder.fit(names, batches(), self.max_categories)


def open_features(file: Path, choice: FeatureColumns | None = None) -> FeatureSource:
    """Open a .npy file (dense), .npz file (SciPy sparse), text or .parquet file.

    A table has a column per feature, and optionally the ids of nodes. Text is encoded as categories
    and missing values are replaced, see `TableEncoder`. A parquet file may also hold one column of
    equally long lists.
    """
    choice = choice or FeatureColumns()
    check_regular(file, f"features={str(file)!r}")
    if not is_table(file):
        named = {"feature_columns": list(choice.names), "id_column": choice.id_column}
        for name, value in named.items():
            if value:
                raise InputError(
                    f"{name}={value!r} names columns, but features={str(file)!r} has no names: "
                    "leave it out."
                )
    read = reader("features", file, "features")
    source: FeatureSource = read(file, choice)
    if 0 in source.shape:
        raise InputError(f"features has shape {source.shape}: there must be rows and columns.")
    return source


def read_ids(file: Path, choice: FeatureColumns, may_be_alone: bool = False) -> tuple[Any, int]:
    """Ids of nodes, or None, and the number of nodes, whatever the other columns hold.

    With `may_be_alone`, the only column of a table holds ids.
    """
    if not is_table(file):
        return None, open_features(file).shape[0]
    table = reader("features", file, "table")("features", file, _header(choice))
    place = 0 if may_be_alone else id_place("features", file, table, choice.id_column)
    return None if place is None else id_column("features", table, place), len(table)


def _header(choice: FeatureColumns) -> tuple[str, ...]:
    """Names that make the first line of a text a header."""
    return (*ID_NAMES, *map(str.lower, filter(None, (*choice.names, choice.id_column))))


def npy_features(file: Path, choice: FeatureColumns) -> FeatureSource:
    """Features of a .npy file, [V, F]; it has no names of columns."""
    return dense_features(NpyRows(file))


def npz_features(file: Path, choice: FeatureColumns) -> FeatureSource:
    """Features of a SciPy sparse matrix; it has no names of columns."""
    return _sparse(read_sparse(file))


FEATURE_TYPES = {"float32": np.float32, "float16": np.float16}
"""Types of features in a store, by name."""


def finite_rows(field: str, chunks: Iterable[Array], kind: str = "float32") -> Iterator[FloatArray]:
    """Chunks in float32 or float16, after a check that all values are finite. [n, F] each."""
    start = 0
    for chunk in chunks:
        with np.errstate(over="ignore"):
            rows = chunk.astype(FEATURE_TYPES[kind], copy=False)
        if not np.isfinite(rows).all():
            row, column = (int(place[0]) for place in np.nonzero(~np.isfinite(rows)))
            is_small = kind == "float16" and np.isfinite(chunk[row, column])
            remedy = "scale the features, or use float32" if is_small else "replace it"
            raise InputError(
                f"{field}[{start + row}, {column}] is {chunk[row, column]}, but features must be "
                f"finite in {kind}: {remedy}{'' if is_small else ', for instance by 0'}."
            )
        start += len(rows)
        yield rows


def rows_per_chunk(columns: int) -> int:
    """Number of float64 rows in a chunk."""
    return max(1, CHUNK_BYTES // (8 * max(1, columns)))


def row_chunks(array: Any) -> Iterator[Any]:
    """Consecutive rows of an array or a sparse matrix. [n, F] each."""
    step = rows_per_chunk(array.shape[1])
    for start in range(0, array.shape[0], step):
        yield array[start : start + step]


def dense_features(array: Array | NpyRows) -> FeatureSource:
    """Features in memory, or in a .npy file. [V, F]."""
    if len(array.shape) != 2:
        raise InputError(
            f"features has shape {array.shape}, but must have a row per node and a column per "
            "feature: reshape it to [V, F]."
        )
    height, width = array.shape
    if isinstance(array, np.ndarray):
        return FeatureSource((height, width), lambda: row_chunks(array))
    step = rows_per_chunk(width)
    starts = range(0, height, step)
    return FeatureSource(
        (height, width), lambda: (array.read(start, start + step) for start in starts)
    )


def _sparse(matrix: Any) -> FeatureSource:
    rows = matrix.tocsr()
    return FeatureSource(rows.shape, lambda: (part.toarray() for part in row_chunks(rows)))


def text_features(file: Path, choice: FeatureColumns) -> FeatureSource:
    """Features of a text file."""
    table = read_table("features", file, _header(choice), counts=True)
    place = id_place("features", file, table, choice.id_column)
    names = list(table.names) or [str(n + 1) for n in range(len(table.columns))]
    skipped = {place} | ({0} if table.has_counting_index() else set())
    chosen = _chosen(file, names, skipped, choice)
    columns = [table.columns[n] for n in chosen]
    encoder, notes = choice.encoded([names[n] for n in chosen], lambda: [columns])
    height, width = len(table), len(encoder.feature_names)
    step = rows_per_chunk(width)

    def chunks() -> Iterator[Array]:
        for start in range(0, height, step):
            yield encoder.transform([column.slice(start, step) for column in columns])

    if table.has_counting_index():
        notes = ("The first column of the features counts the rows and is not used.", *notes)
    ids = None if place is None else id_column("features", table, place)
    return FeatureSource((height, width), chunks, ids, notes, encoder)


def _chosen(
    file: Path, names: Sequence[str], skipped: Collection[int | None], choice: FeatureColumns
) -> list[int]:
    """Positions of the columns of features."""
    wrong = [name for name in choice.names if list(names).count(name) != 1]
    named_by = "feature_columns" if choice.encoder is None else "the store of `like`"
    remedy = "choose among" if choice.encoder is None else "rename a column of"
    raise_problems(
        [
            f"{named_by} has {name!r}, which must name one column of features={str(file)!r}: "
            f"{remedy} {', '.join(map(printable, names[:20]))}."
            for name in wrong
        ]
    )
    if choice.names:
        return [list(names).index(name) for name in choice.names]
    return [n for n, name in enumerate(names) if n not in skipped and name not in choice.without]


def parquet_features(file: Path, choice: FeatureColumns) -> FeatureSource:
    """Features of a parquet file: columns, or one column of lists."""
    with reading_parquet("features", file), open_parquet(file) as table:
        schema, height = table.schema_arrow, table.metadata.num_rows
        place = _parquet_id(file, schema.names, choice.id_column)
        chosen = _chosen(file, schema.names, {place}, choice)
        names = [schema.names[n] for n in chosen]
        kinds = [schema.field(n).type for n in chosen]
        count = parquet_values(table, names)
        check_unpacked(file, 8 * count // max(height, 1), "a row of it takes")
        is_list = len(names) == 1 and _is_list(kinds[0])
        first = next(table.iter_batches(batch_size=1, columns=names), None) if height else None
        width = _lists(names[0], first).shape[1] if is_list and first is not None else len(names)
        if is_list and count != height * width:  # seen before a batch with a long list is read
            raise InputError("features has empty lists or different lengths: make them equal.")
    ids = None
    if place is not None:
        own = read_parquet("features", file, [schema.names[place]])
        ids = id_column("features", own, 0)
    if is_list:
        return FeatureSource((height, width), lambda: _list_chunks(file, names[0], width), ids)

    def batches() -> Iterator[list[Any]]:
        for block in table_blocks("features", file, rows_per_chunk(width), only=names):
            place = {name: n for n, name in enumerate(block.names)}
            yield [block.columns[place[name]] for name in names]

    encoder, notes = choice.encoded(names, batches)
    shape = height, len(encoder.feature_names)
    return FeatureSource(shape, lambda: map(encoder.transform, batches()), ids, notes, encoder)


def _parquet_id(file: Path, names: Sequence[str], given: str) -> int | None:
    """Position of the column of ids."""
    if given:
        return named_place("id_column", given, "features", file, names)
    first = names[0].lower() if len(names) > 1 else "-"
    return 0 if first in (*ID_NAMES, *INDEX) else None


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _list_chunks(file: Path, name: str, width: int) -> Iterator[Array]:
    """Rows of a parquet column of lists. [n, F] each."""
    with reading_parquet("features", file), open_parquet(file) as table:
        for batch in table.iter_batches(batch_size=rows_per_chunk(width), columns=[name]):
            rows = _lists(name, batch)
            if rows.shape[1] != width:
                raise InputError(
                    f"features has lists of {width} and of {rows.shape[1]} numbers: make them "
                    "equally long."
                )
            yield rows


def _lists(name: str, batch: Any) -> Array:
    """Convert a pyarrow batch of one column of lists. [n, F]."""
    from pyarrow import compute

    lists = batch.column(0)
    if lists.null_count:
        raise InputError(f"features has {lists.null_count} empty lists: fill them.")
    values = column_values("features", name, lists.flatten())
    if len(compute.unique(compute.list_value_length(lists))) != 1:
        raise InputError("features has lists of different lengths: make them equally long.")
    return values.reshape(len(lists), -1)
