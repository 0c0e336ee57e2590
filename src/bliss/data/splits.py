"""Training, validation and test nodes: read from files, or drawn with a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bliss import checks
from bliss.arrays import Array, IntArray
from bliss.data.dataset import SPLITS, labelled
from bliss.data.formats import endings, is_table, reader
from bliss.data.labels import Labels
from bliss.data.nodes import ID_NAMES, Nodes, id_column
from bliss.data.npy import read_npz
from bliss.data.tables import Table, column_values
from bliss.errors import InputError
from bliss.rng import Stream, derive_key, uniforms
from bliss.storage.files import check_regular

SHARES = (0.6, 0.2, 0.2)
"""Default shares of train, validation and test nodes."""
SplitSource = Mapping[str, Any] | Sequence[float] | str | PathLike[str]


def shuffled(ids: IntArray, seed: int) -> IntArray:
    """`ids` in an order that depends only on the ids and the seed. int64[N]."""
    coins = uniforms(derive_key(seed, Stream.SPLITS), ids)
    order: IntArray = ids[np.argsort(coins, kind="stable")]
    return order


def per_class(y: Array, train: int, val: int, seed: int) -> dict[str, IntArray]:
    """Draw `train` and `val` nodes of each class. The rest is for testing."""
    parts: dict[str, list[IntArray]] = {name: [] for name in SPLITS}
    for label in np.unique(y[y >= 0]):
        ids = shuffled(np.flatnonzero(y == label), seed)
        for name, part in zip(SPLITS, np.split(ids, [train, train + val]), strict=True):
            parts[name].append(part)
    return {name: np.sort(np.concatenate(part)) for name, part in parts.items()}


def by_fraction(fractions: Sequence[float], labelled: IntArray, seed: int) -> dict[str, IntArray]:
    """Draw fractions (train, val, test) of the labelled nodes. Their sum is at most 1."""
    shares = [float(share) for share in fractions]
    if len(shares) != 3 or not all(0 <= share <= 1 for share in shares):
        raise InputError(
            f"splits={tuple(fractions)} must be three fractions from 0 to 1, for train, val and "
            "test: write for instance (0.6, 0.2, 0.2)."
        )
    if sum(shares) > 1 + 1e-9:
        raise InputError(
            f"splits={tuple(fractions)} adds up to {sum(shares):.6g}, but the fractions must "
            "not exceed 1 together: lower one of them."
        )
    ends = np.round(np.cumsum(shares) * labelled.size).astype(np.int64)
    ids = shuffled(labelled, seed)
    parts = np.split(ids[: ends[2]], ends[:2])
    return {name: np.sort(part) for name, part in zip(SPLITS, parts, strict=True)}


def read_splits(
    source: SplitSource | None, nodes: Nodes, labels: Labels, seed: int
) -> dict[str, IntArray]:
    """Read or draw the splits, as sorted numbers of nodes.

    Parameters
    ----------
    source
        Three fractions; or a mapping from train, val and test to ids, masks, or paths of either
        (.npy, .csv, .parquet); or the path of a folder with such files, or of an .npz file with
        such arrays. Only train is required. None: SHARES.
    nodes
        The nodes: ids are theirs, and masks have one entry for each.
    labels
        Labels of the nodes; fractions are taken of the labelled ones.
    seed
        Seed of the draw of fractions.
    """
    if isinstance(source, (str, PathLike)):
        source = _open(checks.path("splits", source))
    if not isinstance(source, Mapping):
        known = np.flatnonzero(labelled(labels.y, labels.task, labels.num_classes))
        return by_fraction(SHARES if source is None else source, known, seed)
    for name in source:
        checks.choice("splits", name, SPLITS)
    splits = {name: _read(name, source[name], nodes) for name in source}
    for name in ("train", *splits):
        if name not in splits or splits[name].size == 0:
            remedy = "training needs some" if name == "train" else "or leave it out"
            raise InputError(f"splits[{name!r}] is empty: add nodes, {remedy}.")
    return {name: splits.get(name, np.empty(0, np.int64)) for name in SPLITS}


def _open(path: Path) -> dict[str, Any]:
    """Splits in an .npz file, or the paths of splits in a folder, by name."""
    if path.suffix == ".npz":
        return read_npz(path, ("train",), ("val", "test"))
    if not path.is_dir():
        raise InputError(
            f"splits={str(path)!r} is neither a folder nor an .npz file: pass a folder with "
            "train.npy, val.npy and test.npy, or fractions such as (0.6, 0.2, 0.2)."
        )
    files: dict[str, Any] = {}
    for name in SPLITS:
        for ending in endings("values", "table"):
            if name not in files and (path / f"{name}{ending}").exists():
                files[name] = path / f"{name}{ending}"
    return files


def _read(name: str, source: Any, nodes: Nodes) -> IntArray:
    """Sorted numbers of nodes, from ids or a mask or a file of either. int64[N]."""
    field = f"splits[{name!r}]"
    if isinstance(source, (str, PathLike)):
        source = _load(field, checks.path(field, source))
    ids = source if hasattr(source, "null_count") else _flat(field, source, nodes)
    if isinstance(ids, np.ndarray) and ids.dtype.kind == "b":
        if ids.shape != (nodes.number,):
            raise InputError(
                f"{field} is a mask of shape {ids.shape}, but there are {nodes.number} nodes: give "
                "it one entry per node."
            )
        return np.flatnonzero(ids)
    numbers = np.sort(nodes.find(field, ids))
    repeated = numbers[1:][numbers[1:] == numbers[:-1]]
    if repeated.size:
        raise InputError(
            f"{field} holds node {repeated[0]} more than once: pass distinct ids, or a mask as "
            "True and False."
        )
    return numbers


def _flat(field: str, source: Any, nodes: Nodes) -> Any:
    """Ids or a mask as a flat NumPy array, or names as a pyarrow array."""
    array = checks.as_array(field, source)
    if array.ndim == 2 and 1 in array.shape:
        array = array.reshape(-1)
    if array.dtype.kind in "UO" and array.ndim == 1 and array.size:
        import pyarrow as arrow

        return arrow.array([str(name) for name in array.tolist()], arrow.large_string())
    if array.size == 0 and array.dtype.kind == "f":
        array = array.astype(np.int64)  # numpy gives an empty list the type float64
    if nodes.names is not None and array.dtype.kind != "b":
        return array
    return array if array.dtype.kind == "b" else checks.node_ids(field, array, nodes.number)


def _load(field: str, file: Path) -> Any:
    """Ids or a mask, as a NumPy array, or as a pyarrow array from a table."""
    check_regular(file, f"{field}={str(file)!r}")
    read = reader(field, file, "table", "values")
    if not is_table(file):
        return read(file)
    table: Table = read(field, file, (*ID_NAMES, *SPLITS, "mask"), may_lack_header=True)
    place = int(table.has_counting_index())
    if len(table.columns) != place + 1:
        raise InputError(
            f"{field}={str(file)!r} has {len(table.columns)} columns, but must have one, of ids or "
            "of a mask: remove the others."
        )
    if str(table.columns[place].type) == "bool":
        return column_values(field, "mask", table.columns[place])
    return id_column(field, table, place)
