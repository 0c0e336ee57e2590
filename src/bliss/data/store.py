"""Stores: folders of .npy files that are mapped into memory.

A graph store holds

    graph.json    format, norm, sizes, digests (optional in a folder written by hand)
    indptr.npy    int64[V + 1]
    indices.npy   int32[E] or int64[E], sources by target
    weight.npy    float32[E], with norm "weights" or "weighted-mean"
    time.npy      int64[E], if edges have times; not decreasing within the in-edges of a node

A dataset store also holds

    dataset.json                    format, name, sizes, digests
    features.npy                    float32[V, F] or float16[V, F]
    labels.npy                      int64[V], float32[V, C] or float32[V, T]
    train.npy, val.npy, test.npy    int64 ids
    names.npy, name_ends.npy        the user's ids of nodes, if they are not 0 to V - 1
    node_time.npy                   int64[V] times of nodes, if given
    label_edges.npy, label_*.npy    int64[2, P] links to learn, and their splits and times, if given

The features and names of a heterogeneous graph are in files of their own, see
`bliss.data.typed_store`; features.npy is then [V, 0].

Nothing is unpickled. Every pointer and index is checked when a store is opened for the first time,
because the kernels do not check them again. `bliss.data.manifest` says when digests are compared
and when large arrays are checked again.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from bliss import checks
from bliss.arrays import NO_IDS, NOTHING, Array
from bliss.data.dataset import SPLITS, Dataset
from bliss.data.label_edges import LabelEdges
from bliss.data.manifest import check_files, checking_values, read_header, write_header
from bliss.data.names import ENDS, NAMES, NodeNames
from bliss.data.npy import map_npy, map_npy_private, read_npy, write_npy
from bliss.data.safe_reading import in_one_sentence
from bliss.data.table_encoder import TableEncoder
from bliss.data.typed_store import GROUPS, open_nodes, open_types, types_header, write_groups
from bliss.errors import InputError
from bliss.graph import NORMS, WEIGHTED, Graph, GraphTypes, Norm
from bliss.graph.type_checks import check_types
from bliss.storage.digests import json_digest
from bliss.storage.files import new_folder

GRAPH_FORMAT = "bliss-graph-2"
GRAPH_HEADER = "graph.json"
NODE_TIME = "node_time.npy"
DATASET_FORMAT = "bliss-dataset-2"
DATASET_HEADER = "dataset.json"
DATASET_FILES = ("features.npy", "labels.npy", *(f"{name}.npy" for name in SPLITS), GRAPH_HEADER)

StrPath = str | PathLike[str]
_TIME = "time.npy"


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
    return _open_graph(checks.path("folder", folder), norm)


def _open_graph(path: Path, norm: Norm | None = None, verify: bool = False) -> Graph:
    """Open a graph; its values are checked unless they were, or with `verify`."""
    header = _graph_header(path)
    own = header.get("norm", "mean")
    norm = norm or cast("Norm", own)
    checks.choice("norm", norm, NORMS)
    is_weighted = norm in WEIGHTED
    has_times = _TIME in header["files"] if header else (path / _TIME).exists()
    arrays = ["indices.npy"] + ["weight.npy"] * (is_weighted or own in WEIGHTED)
    arrays += [_TIME] * has_times
    with checking_values(path, GRAPH_HEADER, header, arrays, verify) as must_check:
        indptr, indices = _map(path, "indptr"), _map(path, "indices")
        sizes = {"num_nodes": indptr.size - 1, "num_edges": indices.size}
        stated = {name: header[name] for name in sizes if name in header}
        _compare(path / GRAPH_HEADER, stated, sizes)
        weight = _map(path, "weight") if is_weighted else NOTHING
        if must_check and own in WEIGHTED and not is_weighted:  # the header's mark covers them
            checks.weights("weight", _map(path, "weight"), indices.size)
        time = _typed(path / _TIME, _map(path, "time"), np.int64) if has_times else NO_IDS
        types = open_types(path, header)
        make = Graph if must_check else Graph.trusted
        graph = make(indptr, indices, norm, weight, time=time, types=types)
        if must_check and types is not None:
            check_types(types, graph.indptr, graph.indices)
    if header.get("self_loops") is True:
        graph.note_self_loops()
    return graph


def open_store(folder: StrPath) -> Dataset:
    """Open a dataset store that `import_graph` wrote. Features and labels are mapped, not read."""
    path = checks.path("folder", folder)
    header = _dataset_header(path)
    check_files(path, header["files"])
    file = path / "features.npy"
    x = _typed(file, map_npy_private(file), np.float32, np.float16)
    y = _typed(path / "labels.npy", map_npy_private(path / "labels.npy"), np.float32, np.int64)
    graph = open_graph(path)
    files = {name: path / f"{name}.npy" for name in SPLITS}
    splits = {name: _typed(part, read_npy(part), np.int64) for name, part in files.items()}
    sizes = {
        "num_nodes": graph.num_nodes,
        "num_edges": graph.num_edges,
        "num_features": x.shape[-1] if x.ndim else 0,
        "multilabel": y.ndim == 2 and header.get("task") != "regression",
        "splits": {name: ids.size for name, ids in splits.items()},
    }
    _compare(path / DATASET_HEADER, {name: header.get(name) for name in sizes}, sizes)
    return Dataset(
        str(header.get("name", path.name)),
        graph,
        torch.from_numpy(x),
        torch.from_numpy(y),
        {name: torch.from_numpy(ids) for name, ids in splits.items()},
        checks.whole("num_classes", header.get("num_classes")),
        digest=json_digest(header["files"]),
        task=str(header.get("task", "")),
        node_names=_names(path, header["files"], graph.num_nodes),
        class_names=_class_names(path / DATASET_HEADER, header),
        encoder=_encoder(path / DATASET_HEADER, header, x.shape[-1]),
        imported=_imported(path / DATASET_HEADER, header),
        label_edges=LabelEdges.open(path, header),
        typed=open_nodes(path, header, graph.types),
        node_time=_typed(path / NODE_TIME, read_npy(path / NODE_TIME), np.int64)
        if NODE_TIME in header["files"]
        else None,
        time_unit=str(header.get("time_unit", "")),
    )


def verify_store(folder: Path) -> list[str]:
    """Compare every file of a dataset store with its digest, and check the graph's values.

    Returns the names of the files.
    """
    checked = {DATASET_HEADER: _dataset_header(folder), GRAPH_HEADER: _graph_header(folder)}
    check_files(folder, checked[DATASET_HEADER]["files"], verify=True)
    _open_graph(folder, verify=True)
    return sorted({*checked, *(name for header in checked.values() for name in header["files"])})


def write_graph(graph: Graph, folder: Path) -> None:
    """Write the files of a graph into an existing folder."""
    names = ["indptr", "indices", *["weight"] * (graph.norm in WEIGHTED)]
    names += ["time"] * graph.has_times
    for name in names:
        write_npy(folder / f"{name}.npy", getattr(graph, name))
    if graph.types is not None:
        write_groups(folder, graph.types)
    sizes = graph.norm, graph.num_nodes, graph.num_edges
    write_graph_header(folder, *sizes, has_times=graph.has_times, types=graph.types)


def write_graph_header(
    folder: Path,
    norm: Norm,
    num_nodes: int,
    num_edges: int,
    self_loops: bool = False,
    has_times: bool = False,
    types: GraphTypes | None = None,
) -> None:
    """Write graph.json beside the arrays; `self_loops` says that every node has exactly one."""
    header: dict[str, Any] = {
        "format": GRAPH_FORMAT,
        "norm": norm,
        "num_nodes": num_nodes,
        "num_edges": num_edges,
    }
    if self_loops:
        header["self_loops"] = True
    names = ["indptr", "indices", *["weight"] * (norm in WEIGHTED), *["time"] * has_times]
    if types is not None:
        header["types"] = types_header(types)
        names += GROUPS
    write_header(folder / GRAPH_HEADER, header, [f"{name}.npy" for name in names])


def _graph_header(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise InputError(
            f"folder={str(path)!r} is not a folder: pass one that holds indptr.npy and indices.npy."
        )
    file = path / GRAPH_HEADER
    if not file.exists():
        return {}
    names = ("indptr.npy", "indices.npy")
    return read_header(file, GRAPH_FORMAT, names, "write the graph again with save_graph")


def _dataset_header(path: Path) -> dict[str, Any]:
    file = path / DATASET_HEADER
    if not file.exists():
        raise InputError(
            f"folder={str(path)!r} has no {DATASET_HEADER}: write a store with import_graph, or "
            "with bliss data import."
        )
    return read_header(file, DATASET_FORMAT, DATASET_FILES, "import the graph again")


def _names(path: Path, files: Mapping[str, str], number: int) -> NodeNames | None:
    """Names of the nodes; None if the store has none."""
    if NAMES not in files:
        return None
    with in_one_sentence(str(path / NAMES), "names of nodes", "import the graph again"):
        ends = map_npy(path / ENDS) if ENDS in files else None
        names = NodeNames.check(map_npy(path / NAMES), ends)
        if len(names) != number:
            raise ValueError(f"it has {len(names)} names for {number} nodes")
    return names


def _class_names(file: Path, header: Mapping[str, Any]) -> tuple[str, ...]:
    names = header.get("class_names", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{file} has class_names that are not texts: import the graph again.")
    return tuple(names)


def _encoder(file: Path, header: Mapping[str, Any], width: int) -> TableEncoder | None:
    """Encoder of the columns of a table of features; None if there was no table."""
    if "features" not in header:
        return None
    with in_one_sentence(str(file), "the columns of features", "import the graph again"):
        encoder = TableEncoder.from_dict(header["features"])
        if len(encoder.feature_names) != width:
            raise ValueError(f"they make {len(encoder.feature_names)} features of {width}")
    return encoder


def _imported(file: Path, header: Mapping[str, Any]) -> dict[str, Any] | None:
    """What an import did to the edges; None in a store that does not say."""
    summary = header.get("import")
    if summary is None:
        return None
    wanted = {
        "edges_read": int,
        "undirected": bool,
        "duplicates_merged": int,
        "self_loops_read": int,
        "self_loops_added": int,
        "reciprocal": float,
        "notes": list,
    }
    if not isinstance(summary, dict) or any(
        type(summary.get(name)) is not kind for name, kind in wanted.items()
    ):
        raise InputError(f"{file} has a damaged summary of the import: import the graph again.")
    return {name: summary[name] for name in wanted} | {"notes": [str(n) for n in summary["notes"]]}


def _compare(file: Path, stated: Mapping[str, Any], actual: Mapping[str, Any]) -> None:
    for name, value in stated.items():
        if value != actual[name]:
            raise InputError(
                f"{file} says {name}={value}, but the arrays have {actual[name]}: the folder is "
                "damaged, write it again."
            )


def _map(path: Path, name: str) -> Array:
    file = path / f"{name}.npy"
    if not file.exists():
        raise InputError(
            f"{file} is missing: a graph store needs indptr.npy and indices.npy, and weight.npy "
            'for norm="weights" and norm="weighted-mean".'
        )
    return map_npy(file)


def _typed(file: Path, array: Array, *kinds: type) -> Array:
    if not any(array.dtype == kind for kind in kinds):
        raise InputError(
            f"{file} has type {array.dtype}, but must be {' or '.join(k.__name__ for k in kinds)}: "
            "import the graph again."
        )
    return array
