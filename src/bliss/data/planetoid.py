"""Cora, CiteSeer and PubMed, from the files of Planetoid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bliss.data.dataset import Dataset
from bliss.data.unpickle import read_planetoid_pickle
from bliss.errors import InputError
from bliss.graph import Graph

PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")

Array = npt.NDArray[Any]


def read_planetoid(name: str, folder: Path, seed: int) -> Dataset:
    """Read ind.<name>.* of a folder, with the public split: the first rows, the next 500, the test.

    Features are as in the files: row-normalise them if you want what PyG's `NormalizeFeatures`
    gives. The graph is undirected. CiteSeer's test ids have gaps, nodes without edges, features
    or label: they get zeros, the label -1, and no split.
    """
    parts = {part: folder / "raw" / f"ind.{name}.{part}" for part in PARTS}
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
    )
    if not fits:
        raise InputError(
            f"the files ind.{name}.* in {folder / 'raw'} do not belong together: get them again."
        )
    x = np.zeros((num_nodes, known_x.shape[1]), np.float32)
    x[:num_known], x[np.sort(test)] = known_x, test_x
    hot = np.zeros((num_nodes, known_y.shape[1]), np.int64)
    hot[:num_known], hot[np.sort(test)] = known_y, test_y
    # The files hold the test rows in the order of test.index, as if the ids were sorted.
    x[test], hot[test] = x[np.sort(test)], hot[np.sort(test)]
    y = np.where(hot.any(axis=1), hot.argmax(axis=1), -1)
    splits = {
        "train": torch.arange(num_train),
        "val": torch.arange(num_train, num_train + 500),
        "test": torch.from_numpy(np.sort(test)),
    }
    graph = _graph(parts["graph"], num_nodes)
    return Dataset(name, graph, torch.from_numpy(x), torch.from_numpy(y), splits, hot.shape[1])


def undirected(pairs: Array, num_nodes: int) -> Graph:
    """A graph with each edge in both directions, once, and one self-loop a node. pairs [2, E]."""
    both = np.concatenate([pairs, pairs[::-1]], axis=1)
    return Graph.from_edge_index(both, num_nodes, duplicates="coalesce")


def _graph(file: Path, num_nodes: int) -> Graph:
    lists = read_planetoid_pickle(file)
    try:
        sizes = [len(targets) for targets in lists.values()]
        source = np.repeat(np.fromiter(lists, np.int64, len(lists)), sizes)
        target = np.fromiter(
            (t for targets in lists.values() for t in targets), np.int64, sum(sizes)
        )
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{file} is no table of neighbours ({error}): get it again.") from error
    return undirected(np.stack([source, target]), num_nodes)


def _dense(file: Path, dtype: type) -> Array:
    content = read_planetoid_pickle(file)
    if hasattr(content, "toarray"):
        content = content.toarray()
    if not isinstance(content, np.ndarray) or content.ndim != 2:
        raise InputError(f"{file} holds no matrix: get it again.")
    return content.astype(dtype, copy=False)


def _test_ids(file: Path) -> Array:
    try:
        ids = np.array(file.read_text(encoding="ascii").split(), np.int64)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{file} does not hold node ids ({error}): get it again.") from error
    if ids.size == 0 or np.unique(ids).size != ids.size or ids.min() < 0:
        raise InputError(f"{file} must hold distinct node ids, at least one: get it again.")
    return ids
