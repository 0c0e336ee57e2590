"""Which nodes are for training, validation and test: given, or drawn by a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bliss import checks
from bliss.data.arrays import read_npy, read_npz
from bliss.data.dataset import SPLITS, Ids
from bliss.data.tables import TEXT, read_csv, read_parquet
from bliss.errors import InputError
from bliss.rng import Stream, derive_key, uniforms

SplitSource = Mapping[str, Any] | Sequence[float] | str | PathLike[str]


def shuffled(ids: Ids, seed: int) -> Ids:
    """`ids` in an order that depends on the seed and on nothing else. int64[N]."""
    coins = uniforms(derive_key(seed, Stream.SPLITS), ids)
    order: Ids = ids[np.argsort(coins, kind="stable")]
    return order


def per_class(y: npt.NDArray[Any], train: int, val: int, seed: int) -> dict[str, Ids]:
    """Draw `train` nodes of each class, then `val` of each; the rest is for the test."""
    parts: dict[str, list[Ids]] = {name: [] for name in SPLITS}
    for label in np.unique(y[y >= 0]):
        ids = shuffled(np.flatnonzero(y == label), seed)
        for name, part in zip(SPLITS, np.split(ids, [train, train + val]), strict=True):
            parts[name].append(part)
    return {name: np.sort(np.concatenate(part)) for name, part in parts.items()}


def by_fraction(fractions: Sequence[float], labelled: Ids, seed: int) -> dict[str, Ids]:
    """Draw shares of the labelled nodes: (train, val, test), together at most 1."""
    shares = [float(share) for share in fractions]
    if len(shares) != 3 or not all(0 <= share <= 1 for share in shares):
        raise InputError(
            f"splits={tuple(fractions)} must be three shares from 0 to 1, for train, val and test: "
            "write for instance (0.6, 0.2, 0.2)."
        )
    if sum(shares) > 1 + 1e-9:
        raise InputError(
            f"splits={tuple(fractions)} adds up to {sum(shares):.6g}, but the shares must not "
            "exceed 1 together: lower one of them."
        )
    ends = np.round(np.cumsum(shares) * labelled.size).astype(np.int64)
    ids = shuffled(labelled, seed)
    parts = np.split(ids[: ends[2]], ends[:2])
    return {name: np.sort(part) for name, part in zip(SPLITS, parts, strict=True)}


def read_splits(source: SplitSource, num_nodes: int, labelled: Ids, seed: int) -> dict[str, Ids]:
    """Splits from whatever says them.

    Parameters
    ----------
    source
        Three shares; or a mapping of train, val, test to ids, a mask, or the path of either
        (.npy, .csv, .parquet); or the path of a folder with such files, or of an .npz file with
        such arrays. What is not named is empty, but train must be there.
    num_nodes
        V: ids lie below it and masks have this length.
    labelled
        The nodes that shares are taken of. int64[N].
    seed
        Which nodes a share picks.
    """
    if isinstance(source, (str, PathLike)):
        source = _open(Path(source))
    if not isinstance(source, Mapping):
        return by_fraction(source, labelled, seed)
    for name in source:
        checks.choice("splits", name, SPLITS)
    found = {name: _read(name, source[name], num_nodes) for name in source}
    for name in ("train", *found):
        if name not in found or found[name].size == 0:
            raise InputError(
                f"splits[{name!r}] is empty: put nodes into it"
                + (
                    ", there must be some to learn from."
                    if name == "train"
                    else ", or leave it out."
                )
            )
    nobody = np.empty(0, np.int64)
    return {name: found.get(name, nobody) for name in SPLITS}


def _open(path: Path) -> dict[str, Any]:
    """The parts of a folder or of an .npz file, by name."""
    if path.suffix == ".npz":
        return dict(read_npz(path, ("train",), ("val", "test")))
    if not path.is_dir():
        raise InputError(
            f"splits={str(path)!r} is neither a folder nor an .npz file: pass a folder with "
            "train.npy, val.npy and test.npy, or shares such as (0.6, 0.2, 0.2)."
        )
    suffixes = (".npy", ".parquet", *TEXT)
    files = {name: [path / f"{name}{s}" for s in suffixes] for name in SPLITS}
    return {
        n: next(f for f in c if f.exists()) for n, c in files.items() if any(map(Path.exists, c))
    }


def _read(name: str, source: Any, num_nodes: int) -> Ids:
    """Sorted ids from ids or a mask, or from a file of either. int64[N]."""
    field = f"splits[{name!r}]"
    array = _load(field, Path(source)) if isinstance(source, (str, PathLike)) else source
    array = checks.as_array(field, array)
    if array.ndim == 2 and 1 in array.shape:
        array = array.reshape(-1)
    if array.dtype.kind == "b":
        if array.shape != (num_nodes,):
            raise InputError(
                f"{field} is a mask of shape {array.shape}, but there are {num_nodes} nodes: give "
                "it one entry per node."
            )
        array = np.flatnonzero(array)
    ids = np.sort(checks.node_ids(field, array, num_nodes).astype(np.int64))
    repeated = ids[1:][ids[1:] == ids[:-1]]
    if repeated.size:
        raise InputError(
            f"{field} holds node {repeated[0]} more than once: pass distinct ids, or a mask as "
            "True and False."
        )
    return ids


def _load(field: str, file: Path) -> npt.NDArray[Any]:
    if not file.exists():
        raise InputError(f"{field}={str(file)!r} is not there: check the path.")
    if file.suffix == ".npy":
        return read_npy(file)
    if file.suffix == ".parquet":
        return np.stack(list(read_parquet(field, file).values()), axis=1)
    if file.suffix in TEXT:
        return read_csv(field, file).matrix
    raise InputError(f"{field}={str(file)!r} must be a .npy, .csv or .parquet file: convert it.")
