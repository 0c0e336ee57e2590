"""Features from files of any size: opened at once, read in pieces, each piece checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bliss.data.arrays import map_npy, read_sparse
from bliss.data.tables import column_values, open_parquet
from bliss.errors import InputError

Array = npt.NDArray[Any]
FloatRows = npt.NDArray[np.float32]

CHUNK_BYTES = 1 << 25
"""About how much of the features is in memory at a time."""


@dataclass(frozen=True)
class FeatureSource:
    """Features that are read when they are asked for."""

    shape: tuple[int, int]  # V, F
    chunks: Callable[[], Iterator[Array]]  # rows in order, [n, F] each


def open_features(file: Path) -> FeatureSource:
    """Open a .npy file (dense), .npz file (SciPy sparse) or .parquet file (a column per feature).

    A parquet file may also hold one column of equally long lists.
    """
    if not file.exists():
        raise InputError(f"features={str(file)!r} is not there: check the path.")
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


def finite_rows(field: str, chunks: Iterable[Array]) -> Iterator[FloatRows]:
    """Chunks as float32, each checked for NaN and infinity. [n, F] each."""
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
    """How many rows of float64 make up a chunk."""
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
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"features has type {array.dtype}, but must be numbers: convert it to float32."
        )
    return FeatureSource((array.shape[0], array.shape[1]), lambda: row_chunks(array))


def _sparse(matrix: Any) -> FeatureSource:
    rows = matrix.tocsr()
    return FeatureSource(rows.shape, lambda: (part.toarray() for part in row_chunks(rows)))


def _parquet(file: Path) -> FeatureSource:
    table = open_parquet("features", file)
    names = table.schema_arrow.names
    height = table.metadata.num_rows
    first = next(table.iter_batches(batch_size=1), None) if height else None
    if first is None:
        return FeatureSource((0, len(names)), lambda: iter(()))
    width = _batch_rows(names, first).shape[1]

    def chunks() -> Iterator[Array]:
        for batch in table.iter_batches(batch_size=rows_per_chunk(width)):
            rows = _batch_rows(names, batch)
            if rows.shape[1] != width:
                raise InputError(
                    f"features has lists of {width} and of {rows.shape[1]} numbers: make them "
                    "equally long."
                )
            yield rows

    return FeatureSource((height, width), chunks)


def _batch_rows(names: list[str], batch: Any) -> Array:
    """A pyarrow batch as a matrix. [n, F]."""
    if (
        len(names) == 1
        and hasattr(batch.column(0), "flatten")
        and hasattr(batch.column(0), "values")
    ):
        lists = batch.column(0)
        if lists.null_count:
            raise InputError(f"features has {lists.null_count} empty lists: fill them.")
        values = _column(names[0], lists.flatten())
        if values.size % len(lists) or set(lists.value_lengths().to_pylist()) != {
            values.size // len(lists)
        }:
            raise InputError("features has lists of different lengths: make them equally long.")
        return values.reshape(len(lists), -1)
    columns = [_column(name, batch.column(name)) for name in names]
    return np.stack(columns, axis=1)


def _column(name: str, column: Any) -> Array:
    import pyarrow as arrow

    return column_values("features", name, arrow.chunked_array([column]))
