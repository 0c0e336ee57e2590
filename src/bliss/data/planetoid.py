"""Cora, CiteSeer and PubMed, from the published files of Planetoid."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from bliss.arrays import Array, IntArray
from bliss.data.dataset import Dataset
from bliss.data.edges import undirected
from bliss.data.safe_reading import check_unpacked
from bliss.data.sources import PLANETOID_PARTS
from bliss.data.unpickle import read_planetoid_pickle
from bliss.errors import InputError
from bliss.graph import Graph


def read_planetoid(name: str, folder: Path, seed: int) -> Dataset:
    """Read raw/ind.<name>.* with the public split, and make the graph undirected.

    Features are not normalised; PyG's `NormalizeFeatures` divides each row by its sum. The test ids
    of CiteSeer have gaps. The nodes in the gaps have zero features, the label -1 and no split.
    """
    parts = {part: folder / "raw" / f"ind.{name}.{part}" for part in PLANETOID_PARTS}
    test = _test_ids(parts["test.index"])
    known_x, test_x = (_dense(parts[part], np.float32) for part in ("allx", "tx"))
    known_y, test_y = (_dense(parts[part], np.int64) for part in ("ally", "ty"))
    num_train, num_known = len(_dense(parts["y"], np.int64)), len(known_x)
    num_nodes = max(int(test.max()) + 1, num_known)
    fits = (
        len(known_y) == num_known
        and len(test_x) == len(test_y) == test.size
        and test.min() >= num_known
        and known_x.shape[1] == test_x.shape[1]
        and known_y.shape[1] == test_y.shape[1]
        and num_train + 500 <= num_known
        and num_nodes <= 2 * (num_known + test.size)  # a wild id would take all memory
    )
    if not fits:
        raise InputError(
            f"the files ind.{name}.* in {folder / 'raw'} do not fit together: download them again."
        )
    x = np.zeros((num_nodes, known_x.shape[1]), np.float32)
    x[:num_known], x[np.sort(test)] = known_x, test_x
    hot = np.zeros((num_nodes, known_y.shape[1]), np.int64)
    hot[:num_known], hot[np.sort(test)] = known_y, test_y
    # Test rows are stored in the order of test.index, not in the order of ids.
    x[test], hot[test] = x[np.sort(test)], hot[np.sort(test)]
    y = np.where(hot.any(axis=1), hot.argmax(axis=1), -1)
    splits = {
        "train": np.arange(num_train),
        "val": np.arange(num_train, num_train + 500),
        "test": np.sort(test),
    }
    return Dataset.of_arrays(name, _graph(parts["graph"], num_nodes), x, y, splits, hot.shape[1])


def _graph(file: Path, num_nodes: int) -> Graph:
    lists = read_planetoid_pickle(file)
    try:
        sizes = [len(targets) for targets in lists.values()]
        check_unpacked(file, 16 * sum(sizes))  # lists may be the same one, many times over
        source = np.repeat(_integers(lists), sizes)
        target = _integers([node for targets in lists.values() for node in targets])
    except InputError:
        raise
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"{file} is not a table of neighbours ({error}): download it again."
        ) from error
    return undirected(np.stack([source, target]), num_nodes)


def _integers(nodes: Iterable[Any]) -> IntArray:
    return np.array([operator.index(node) for node in nodes], np.int64)


def _dense(file: Path, dtype: type) -> Array:
    content = read_planetoid_pickle(file)
    if hasattr(content, "toarray"):
        check_unpacked(file, math.prod(content.shape) * content.dtype.itemsize)
        content = content.toarray()
    if not isinstance(content, np.ndarray) or content.ndim != 2:
        raise InputError(f"{file} holds no matrix: download it again.")
    return content.astype(dtype, copy=False)


def _test_ids(file: Path) -> IntArray:
    try:
        ids = np.array(file.read_text(encoding="ascii").split(), np.int64)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{file} does not hold node ids ({error}): download it again.") from error
    if ids.size == 0 or np.unique(ids).size != ids.size or ids.min() < 0:
        raise InputError(f"{file} must hold distinct node ids, at least one: download it again.")
    return ids
