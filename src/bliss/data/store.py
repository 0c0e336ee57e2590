"""Stores: folders of .npy files that are mapped into memory.

A graph store holds

    graph.json    format, norm, numbers of nodes and edges (optional in a folder written by hand)
    indptr.npy    int64[V + 1]
    indices.npy   int32[E] or int64[E], sources by target
    weight.npy    float32[E], with norm "weights"

A dataset store also holds

    dataset.json                    format, name, sizes
    features.npy                    float32[V, F]
    labels.npy                      int64[V], or float32[V, C]
    train.npy, val.npy, test.npy    int64 ids

Nothing is unpickled. Every pointer and index is checked when a store is opened, because the kernels
do not check them again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from bliss import checks
from bliss.arrays import Array
from bliss.data.dataset import SPLITS, Dataset
from bliss.data.npy import map_npy, map_npy_private, read_npy, write_npy
from bliss.data.reading import reading
from bliss.errors import InputError
from bliss.files import new_folder
from bliss.graph import NORMS, Graph, Norm

GRAPH_FORMAT = "bliss-graph-1"
DATASET_FORMAT = "bliss-dataset-1"
DATASET_HEADER = "dataset.json"

StrPath = str | PathLike[str]


def save_graph(graph: Graph, folder: StrPath) -> None:
    """Write `graph` to a new folder that `open_graph` reads. A failure leaves no folder."""
    with new_folder(checks.path("folder", folder)) as scratch:
        write_graph(graph, scratch)


def open_graph(folder: StrPath, norm: Norm | None = None) -> Graph:
    """Open a graph store: map its arrays into memory and check them.

    Parameters
    ----------
    folder
        A folder that `save_graph` or `import_graph` wrote, or one with indptr.npy and indices.npy.
        Edges are used as they are: self-loops are neither added nor removed.
    norm
        Aggregation coefficients, see `Graph`. Default: the norm in graph.json, otherwise "mean".
    """
    path = checks.path("folder", folder)
    header = _graph_header(path)
    norm = norm or cast("Norm", header.get("norm", "mean"))
    checks.choice("norm", norm, NORMS)
    indptr, indices = _map(path, "indptr"), _map(path, "indices")
    sizes = {"num_nodes": indptr.size - 1, "num_edges": indices.size}
    _compare(path / "graph.json", {name: header[name] for name in sizes if name in header}, sizes)
    weight = _map(path, "weight") if norm == "weights" else None
    return Graph.from_csc(
        indptr, indices, weight=weight, norm=norm, self_loops="keep", duplicates="keep"
    )


def open_store(folder: StrPath) -> Dataset:
    """Open a dataset store that `import_graph` wrote. Features and labels are mapped, not read."""
    path = checks.path("folder", folder)
    file = path / DATASET_HEADER
    if not file.exists():
        raise InputError(
            f"folder={str(path)!r} has no {DATASET_HEADER}: write a store with import_graph, or "
            "with bliss data import."
        )
    header = read_json(file, "import the graph again")
    if not isinstance(header, dict) or header.get("format") != DATASET_FORMAT:
        raise InputError(f"{file} is not of format {DATASET_FORMAT!r}: import the graph again.")
    x = _typed(path / "features.npy", map_npy_private(path / "features.npy"), np.float32)
    y = _typed(path / "labels.npy", map_npy_private(path / "labels.npy"), np.float32, np.int64)
    graph = open_graph(path)
    files = {name: path / f"{name}.npy" for name in SPLITS}
    splits = {name: _typed(part, read_npy(part), np.int64) for name, part in files.items()}
    found = {
        "num_nodes": graph.num_nodes,
        "num_edges": graph.num_edges,
        "num_features": x.shape[-1] if x.ndim else 0,
        "multilabel": y.ndim == 2,
        "splits": {name: ids.size for name, ids in splits.items()},
    }
    _compare(file, {name: header.get(name) for name in found}, found)
    return Dataset(
        str(header.get("name", path.name)),
        graph,
        torch.from_numpy(x),
        torch.from_numpy(y),
        {name: torch.from_numpy(ids) for name, ids in splits.items()},
        checks.whole("num_classes", header.get("num_classes")),
    )


def write_graph(graph: Graph, folder: Path) -> None:
    """Write the files of a graph into an existing folder."""
    write_npy(folder / "indptr.npy", graph.indptr)
    write_npy(folder / "indices.npy", graph.indices)
    if graph.norm == "weights":
        write_npy(folder / "weight.npy", graph.weight)
    header = {
        "format": GRAPH_FORMAT,
        "norm": graph.norm,
        "num_nodes": graph.num_nodes,
        "num_edges": graph.num_edges,
    }
    write_json(folder / "graph.json", header)


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file."""
    file.write_text(json.dumps(content, indent=2), encoding="utf-8")


def read_json(file: Path, remedy: str = "write it again") -> Any:
    """Read a JSON file. An object that repeats a key is refused."""
    with reading(file, "JSON", remedy):
        text = file.read_text(encoding="utf-8")
        return json.loads(text, object_pairs_hook=_distinct)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} is there twice")
        found[key] = value
    return found


def _graph_header(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise InputError(
            f"folder={str(path)!r} is not a folder: pass one that holds indptr.npy and indices.npy."
        )
    file = path / "graph.json"
    if not file.exists():
        return {}
    header = read_json(file, "write the graph again")
    if not isinstance(header, dict) or header.get("format") != GRAPH_FORMAT:
        raise InputError(
            f"{file} is not of format {GRAPH_FORMAT!r}: write the graph with bliss.data.save_graph."
        )
    return header


def _compare(file: Path, stated: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    for name, value in stated.items():
        if value != found[name]:
            raise InputError(
                f"{file} says {name}={value}, but the arrays have {found[name]}: the folder is "
                "damaged, write it again."
            )


def _map(path: Path, name: str) -> Array:
    file = path / f"{name}.npy"
    if not file.exists():
        raise InputError(
            f"{file} is missing: a graph store needs indptr.npy and indices.npy, and weight.npy "
            'for norm="weights".'
        )
    return map_npy(file)


def _typed(file: Path, array: Array, *kinds: type) -> Array:
    if not any(array.dtype == kind for kind in kinds):
        raise InputError(
            f"{file} has type {array.dtype}, but must be {' or '.join(k.__name__ for k in kinds)}: "
            "import the graph again."
        )
    return array
