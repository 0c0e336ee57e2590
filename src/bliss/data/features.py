"""Features from files of any size, read and checked in chunks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bliss.arrays import Array, FloatArray
from bliss.data.npy import map_npy, read_sparse
from bliss.data.reading import check_unpacked
from bliss.data.tables import column_values, open_parquet, parquet_values, reading_parquet
from bliss.errors import InputError
from bliss.files import check_regular

CHUNK_BYTES = 1 << 25
"""Approximate size of one chunk in memory."""


@dataclass(frozen=True)
class FeatureSource:
    """An open file of features."""

    shape: tuple[int, int]  # V, F
    chunks: Callable[[], Iterator[Array]]  # rows in order, [n, F] each


def open_features(file: Path) -> FeatureSource:
    """Open a .npy file (dense), .npz file (SciPy sparse) or .parquet file (a column per feature).

    A parquet file may also hold one column of equally long lists.
    """
    check_regular(file, f"features={str(file)!r}")
    if file.suffix == ".npy":
        source = _dense(map_npy(file))
    elif file.suffix == ".npz":
        source = _sparse(read_sparse(file))
    elif file.suffix == ".parquet":
        source = _parquet(file)
    else:
        raise InputError(
            f"features={str(file)!r} must be a .npy, .npz or .parquet file: convert it."
        )
    if 0 in source.shape:
        raise InputError(f"features has shape {source.shape}: there must be rows and columns.")
    return source


def finite_rows(field: str, chunks: Iterable[Array]) -> Iterator[FloatArray]:
    """Chunks in float32, after a check that all values are finite. [n, F] each."""
    start = 0
    for chunk in chunks:
        with np.errstate(over="ignore"):
            rows = chunk.astype(np.float32, copy=False)
        if not np.isfinite(rows).all():
            row, column = (int(place[0]) for place in np.nonzero(~np.isfinite(rows)))
            raise InputError(
                f"{field}[{start + row}, {column}] is {chunk[row, column]}, but features must be "
                "finite in float32: replace it, for instance by 0."
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


def _dense(array: Array) -> FeatureSource:
    if array.ndim != 2:
        raise InputError(
            f"features has shape {array.shape}, but must have a row per node and a column per "
            "feature: reshape it to [V, F]."
        )
    return FeatureSource((array.shape[0], array.shape[1]), lambda: row_chunks(array))


def _sparse(matrix: Any) -> FeatureSource:
    rows = matrix.tocsr()
    return FeatureSource(rows.shape, lambda: (part.toarray() for part in row_chunks(rows)))


def _parquet(file: Path) -> FeatureSource:
    with reading_parquet("features", file), open_parquet(file) as table:
        names = table.schema_arrow.names
        height, count = table.metadata.num_rows, parquet_values(table)
        check_unpacked(file, 8 * count // max(height, 1), "a row of it takes")
        first = next(table.iter_batches(batch_size=1), None) if height else None
        width = len(names) if first is None else _matrix(names, first).shape[1]
        if count != height * width:  # seen before a batch with a long list is read
            raise InputError("features has empty lists or different lengths: make them equal.")

    def chunks() -> Iterator[Array]:
        with reading_parquet("features", file), open_parquet(file) as table:
            for batch in table.iter_batches(batch_size=rows_per_chunk(width)):
                rows = _matrix(names, batch)
                if rows.shape[1] != width:
                    raise InputError(
                        f"features has lists of {width} and of {rows.shape[1]} numbers: make them "
                        "equally long."
                    )
                yield rows

    return FeatureSource((height, width), chunks)


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
