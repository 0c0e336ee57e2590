"""Features from files of any size, read and checked in chunks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bliss.arrays import Array, FloatArray
from bliss.data.formats import is_table, reader
from bliss.data.nodes import ID_NAMES, id_column, id_place
from bliss.data.npy import NpyRows, read_sparse
from bliss.data.safe_reading import check_unpacked
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


def open_features(
    file: Path, columns: Sequence[str] = (), without: Sequence[str] = ()
) -> FeatureSource:
    """Open a .npy file (dense), .npz file (SciPy sparse), text or .parquet file.

    A table has a column per feature, and optionally the ids of nodes in a first column called node,
    id, node_id or name. A parquet file may also hold one column of equally long lists. `columns`
    chooses columns by name, `without` leaves some out.
    """
    check_regular(file, f"features={str(file)!r}")
    if columns and not is_table(file):
        raise InputError(
            f"feature_columns={list(columns)} names columns, but features={str(file)!r} has no "
            "names: leave it out."
        )
    read = reader("features", file, "features")
    source: FeatureSource = read(file, columns, without)
    if 0 in source.shape:
        raise InputError(f"features has shape {source.shape}: there must be rows and columns.")
    return source


def npy_features(file: Path, columns: Sequence[str], without: Sequence[str]) -> FeatureSource:
    """Features of a .npy file, [V, F]; it has no names of columns."""
    return _dense(NpyRows(file))


def npz_features(file: Path, columns: Sequence[str], without: Sequence[str]) -> FeatureSource:
    """Features of a SciPy sparse matrix; it has no names of columns."""
    return _sparse(read_sparse(file))


def dense_features(matrix: Array, ids: Any = None, notes: tuple[str, ...] = ()) -> FeatureSource:
    """Features in memory. [V, F]."""
    return replace(_dense(matrix), ids=ids, notes=notes)


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


def _dense(array: Array | NpyRows) -> FeatureSource:
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


def text_features(file: Path, columns: Sequence[str], without: Sequence[str]) -> FeatureSource:
    """Features of a text file, a column each."""
    table = read_table("features", file, (*ID_NAMES, *map(str.lower, columns)), counts=True)
    place = id_place(table)
    skipped = 0 if table.has_counting_index() else place
    names = list(table.names) or [str(n + 1) for n in range(len(table.columns))]
    chosen = _chosen(file, names, skipped, columns, without)
    kinds = [table.columns[n].type for n in chosen]
    _refuse_text([names[n] for n in chosen], kinds)
    matrix = np.stack(
        [column_values("features", names[n], table.columns[n]) for n in chosen], axis=1
    )
    counting = "The first column of the features counts the rows and is not used."
    return dense_features(
        matrix,
        None if place is None else id_column("features", table, place),
        (counting,) if table.has_counting_index() else (),
    )


def _chosen(
    file: Path,
    names: Sequence[str],
    skipped: int | None,
    columns: Sequence[str],
    without: Sequence[str],
) -> list[int]:
    """Positions of the columns of features."""
    for name in columns:
        if list(names).count(name) != 1:
            raise InputError(
                f"feature_columns holds {name!r}, which must name one column of "
                f"features={str(file)!r}: choose among {', '.join(map(printable, names[:20]))}."
            )
    if columns:
        return [list(names).index(name) for name in columns]
    return [n for n, name in enumerate(names) if n != skipped and name not in without]


def _refuse_text(names: Sequence[str], kinds: Sequence[Any]) -> None:
    from pyarrow import types

    for name, kind in zip(names, kinds, strict=True):
        if types.is_string(kind) or types.is_large_string(kind):
            raise InputError(
                f"features has text in column {printable(name)!r}: leave it out with "
                "feature_columns=... (--feature-columns), or turn it into numbers."
            )


def parquet_features(file: Path, columns: Sequence[str], without: Sequence[str]) -> FeatureSource:
    """Features of a parquet file: a column each, or one column of lists."""
    with reading_parquet("features", file), open_parquet(file) as table:
        schema, height = table.schema_arrow, table.metadata.num_rows
        first_name = schema.names[0].lower() if len(schema.names) > 1 else "-"
        place = 0 if first_name in (*ID_NAMES, *INDEX) else None
        chosen = _chosen(file, schema.names, place, columns, without)
        names = [schema.names[n] for n in chosen]
        _refuse_text(names, [schema.field(n).type for n in chosen])
        only = None if len(names) == len(schema.names) else names
        count = parquet_values(table, only)
        check_unpacked(file, 8 * count // max(height, 1), "a row of it takes")
        first = next(table.iter_batches(batch_size=1, columns=only), None) if height else None
        width = len(names) if first is None else _matrix(names, first).shape[1]
        if count != height * width:  # seen before a batch with a long list is read
            raise InputError("features has empty lists or different lengths: make them equal.")
    ids = None
    if place is not None:
        ids = id_column("features", read_parquet("features", file, schema.names[:1]), 0)

    def chunks() -> Iterator[Array]:
        with reading_parquet("features", file), open_parquet(file) as table:
            for batch in table.iter_batches(batch_size=rows_per_chunk(width), columns=only):
                rows = _matrix(names, batch)
                if rows.shape[1] != width:
                    raise InputError(
                        f"features has lists of {width} and of {rows.shape[1]} numbers: make them "
                        "equally long."
                    )
                yield rows

    return FeatureSource((height, width), chunks, ids)


def _matrix(names: list[str], batch: Any) -> Array:
    """Convert a pyarrow batch, of one column of lists or of columns of numbers. [n, F]."""
    from pyarrow import compute, types

    lists = batch.column(0) if len(names) == 1 else None
    if lists is None or not (
        types.is_list(lists.type)
        or types.is_large_list(lists.type)
        or types.is_fixed_size_list(lists.type)
    ):
        pairs = zip(names, batch.columns, strict=True)
        return np.stack([column_values("features", name, column) for name, column in pairs], axis=1)
    if lists.null_count:
        raise InputError(f"features has {lists.null_count} empty lists: fill them.")
    values = column_values("features", names[0], lists.flatten())
    if len(compute.unique(compute.list_value_length(lists))) != 1:
        raise InputError("features has lists of different lengths: make them equally long.")
    return values.reshape(len(lists), -1)
