"""Whole graphs in files of other libraries: PyG's .pt, GraphML and GEXF, and folders of OGB."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bliss.arrays import Array, IntArray
from bliss.data.dataset import SPLITS
from bliss.data.edges import Edges, held
from bliss.data.features import dense_features
from bliss.data.formats import endings, listed, reader, suffix
from bliss.data.from_data import data_node_times, data_parts, data_splits
from bliss.data.import_files import Parts
from bliss.data.labels import Labels, make_labels
from bliss.data.nodes import Nodes
from bliss.data.npy import read_npy, read_npz
from bliss.data.safe_reading import check_unpacked, in_one_sentence, reading
from bliss.data.tables import read_matrix
from bliss.data.timestamps import NUMBER, Times
from bliss.data.typed_parts import TypedParts, hetero_parts
from bliss.errors import InputError
from bliss.graph.conversion import library_of

_PT_REMEDY = "save one torch_geometric Data with torch.save, on the CPU and without other objects"


def read_graph_file(
    file: Path,
    label: str,
    columns: tuple[str, ...],
    task: str,
    time: str,
    node_type: str | None,
) -> Parts | TypedParts:
    """Read a file or folder that holds a whole graph.

    `time` names an attribute of a .pt file, `node_type` the type with labels of a HeteroData.
    """
    for option, name in (("time_column", time), ("node_type", node_type)):
        if name and suffix(file) != ".pt":
            raise InputError(
                f"{option}={name!r} names a part of PyG's data, but graph={str(file)!r} is not a "
                ".pt file: pass edges and features as tables, or leave it out."
            )
    if file.is_dir() or suffix(file) == ".pt":
        if label or columns:
            raise InputError(
                f"graph={str(file)!r} has no named columns: leave label and feature_columns out."
            )
        if file.is_dir():
            return read_ogb_folder(file, task)
        return read_pt(file, task, time, node_type)
    if suffix(file) not in endings("graph"):
        raise InputError(
            f"graph={str(file)!r} must be a {listed(endings('graph'))} file, or a folder of OGB: "
            "convert it, or pass edges and features."
        )
    parts: Parts = reader("graph", file, "graph")(file, label, columns, task)
    return parts


def read_pt(file: Path, task: str, time: str, node_type: str | None) -> Parts | TypedParts:
    """Read a PyG `Data` or `HeteroData` that torch.save wrote, alone, in a tuple, or as a dict.

    The file is loaded with weights_only=True: it can hold tensors, plain values and PyG's classes
    of data, and nothing else.
    """
    content = _load_pt(file)
    with in_one_sentence(f"graph={str(file)!r}", "a PyG Data", _PT_REMEDY):  # of any attributes
        data = _one_data(file, content)
        if library_of(data) == "torch_geometric.HeteroData":
            stores = [*data.node_stores, *data.edge_stores]
            tensors = [t for s in stores for t in s.values() if isinstance(t, torch.Tensor)]
            check_unpacked(file, sum(one.numel() * one.element_size() for one in tensors))
            return hetero_parts(data, node_type, task, time)
        if node_type is not None:
            raise InputError(
                f"node_type={node_type!r} was given, but graph={str(file)!r} holds a Data without "
                "types: leave it out."
            )
        return _data_parts(file, data, task, time)


def _data_parts(file: Path, data: Any, task: str, time: str) -> Parts:
    tensors = [value for value in data.to_dict().values() if isinstance(value, torch.Tensor)]
    check_unpacked(file, sum(tensor.numel() * tensor.element_size() for tensor in tensors))
    has_weights = getattr(data, "edge_weight", None) is not None
    features, edges, labels = data_parts(data, has_weights, task, time)
    node_time = data_node_times(data, time)
    kept = ("x", "y", "edge_index", "adj_t", "edge_weight", *(f"{n}_mask" for n in SPLITS), time)
    ignored = sorted(str(key) for key in data.keys() if str(key) not in kept)  # noqa: SIM118
    notes = (f"Attributes that are not used: {', '.join(ignored[:20])}.",) if ignored else ()
    return Parts(
        Nodes(len(features)),
        held(edges),
        dense_features(features),
        labels,
        data_splits(data),
        notes,
        node_time=None if node_time is None else Times(node_time, NUMBER),
    )


def _load_pt(file: Path) -> Any:
    from torch_geometric.data import Data, HeteroData
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import BaseStorage, EdgeStorage, GlobalStorage, NodeStorage

    classes = [Data, HeteroData, DataEdgeAttr, DataTensorAttr]
    classes += [BaseStorage, EdgeStorage, GlobalStorage, NodeStorage]
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 6):  # CVE-2025-32434
        raise InputError(
            f"graph={str(file)!r} needs torch 2.6 or later to be read safely: install it, or pass "
            "edges and features."
        )
    allowed = torch.serialization.safe_globals
    with reading(file, "a PyG Data", _PT_REMEDY, "graph"):
        with file.open("rb") as start:  # torch goes by the first bytes, zipfile by the last
            is_archive = start.read(4) == b"PK\x03\x04"
        if not is_archive or not zipfile.is_zipfile(file):
            raise ValueError("it is not of the format that torch.save has written since 1.6")
        with zipfile.ZipFile(file) as archive:
            check_unpacked(file, sum(info.file_size for info in archive.infolist()))
        # Sparse tensors with wild indices would write anywhere in memory.
        with allowed(classes), torch.sparse.check_sparse_tensor_invariants():  # type: ignore[no-untyped-call]
            try:
                return torch.load(file, map_location="cpu", weights_only=True)
            except Exception as error:
                raise ValueError(_short(error)) from error


def _short(error: Exception) -> str:
    """What was refused; torch's message also advises to load the file unsafely."""
    text = " ".join(str(error).split())
    if refused := re.search(r"GLOBAL ([\w.]+)", text):
        return f"it holds {refused[1]}, which is not loaded"
    _, is_unsafe, reason = text.partition("WeightsUnpickler error: ")
    if "weights_only" in text:
        text = reason.partition("Check the doc")[0] if is_unsafe else "it holds other objects"
    return text.strip()[:160] or type(error).__name__


def _one_data(file: Path, content: Any) -> Any:
    from torch_geometric.data import Data, HeteroData

    if isinstance(content, (tuple, list)):
        graphs = [part for part in content if isinstance(part, (Data, HeteroData))]
        tables = [part for part in content if isinstance(part, dict) and "edge_index" in part]
        if not graphs and isinstance(content, tuple) and tables and content[0] is tables[0]:
            slices = content[1] if len(content) > 1 else None
            several = isinstance(slices, dict) and any(len(ends) > 2 for ends in slices.values())
            graphs = [] if several else tables[:1]
        if len(graphs) != 1:
            raise InputError(
                f"graph={str(file)!r} holds {len(graphs) or 'no or several'} graphs, but must hold "
                "one: save one Data."
            )
        content = graphs[0]
    if isinstance(content, dict):
        tensors = {str(k): v for k, v in content.items() if isinstance(v, torch.Tensor)}
        content = Data(**tensors)
    if isinstance(content, (Data, HeteroData)):
        return content
    raise InputError(
        f"graph={str(file)!r} holds a {type(content).__name__}, but must hold a torch_geometric "
        "Data: save one with torch.save."
    )


def read_ogb_folder(folder: Path, task: str) -> Parts:
    """Read the folder of a node property data set in OGB's form.

    As text: raw/edge.csv.gz, raw/node-feat.csv.gz, raw/node-label.csv.gz and optionally
    raw/num-node-list.csv.gz. In binary form: raw/data.npz with edge_index and node_feat, and
    raw/node-label.npz; or raw/edge_index.npy, raw/node_feat.npy and raw/node_label.npy. Splits are
    in split/NAME/train.csv.gz, valid.csv.gz and test.csv.gz.
    """
    raw = folder / "raw"
    pairs, x, y = _ogb_arrays(folder, raw)
    notes = []
    if pairs.ndim != 2 or 2 not in pairs.shape or x.ndim != 2 or len(y) != len(x):
        raise InputError(
            f"the files in {raw} have edges of shape {pairs.shape}, features of shape {x.shape} "
            f"and labels of shape {y.shape}, which do not fit together: write them again."
        )
    counted = raw / "num-node-list.csv.gz"
    if counted.exists() and (counts := read_matrix(counted, np.int64).reshape(-1)).tolist() != [
        len(x)
    ]:
        raise InputError(
            f"{counted} has {counts[:3].tolist()} nodes, but there are {len(x)} rows of features: "
            "pass a data set of one graph, whose files belong together."
        )
    if (raw / "edge-feat.csv.gz").exists():
        notes.append("Features of edges (edge-feat) are not used.")
    ends = pairs if pairs.shape[0] == 2 and pairs.shape != (2, 2) else pairs.T
    labels = _ogb_labels(y, len(x), task)
    splits = _ogb_splits(folder)
    return Parts(
        Nodes(len(x)),
        held(Edges(np.array(ends[0]), np.array(ends[1]), None)),
        dense_features(x),
        labels,
        splits,
        tuple(notes),
    )


def _ogb_arrays(folder: Path, raw: Path) -> tuple[Array, Array, Array]:
    """Edges, features and labels."""
    if (raw / "edge.csv.gz").exists():
        _needed(folder, raw / "node-feat.csv.gz", raw / "node-label.csv.gz")
        return (
            read_matrix(raw / "edge.csv.gz", np.int64),
            read_matrix(raw / "node-feat.csv.gz", np.float32),
            read_matrix(raw / "node-label.csv.gz", np.float64),
        )
    if (raw / "data.npz").exists():
        _needed(folder, raw / "node-label.npz")
        arrays = read_npz(raw / "data.npz", ("edge_index", "node_feat"))
        label = read_npz(raw / "node-label.npz", ("node_label",))["node_label"]
        return arrays["edge_index"], arrays["node_feat"], label
    files = [raw / f"{name}.npy" for name in ("edge_index", "node_feat", "node_label")]
    _needed(folder, *files)
    pairs, x, y = (read_npy(file) for file in files)
    return pairs, x, y


def _needed(folder: Path, *files: Path) -> None:
    for file in files:
        if not file.exists():
            raise InputError(
                f"graph={str(folder)!r} has no {file.relative_to(folder)}, which a folder of OGB "
                "holds: check the folder, or pass edges and features."
            )


def _ogb_labels(y: Array, number: int, task: str) -> Labels:
    """OGB writes classes as whole numbers, sometimes in floats, with NaN for none."""
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    known = y[np.isfinite(y)] if y.dtype.kind == "f" else y
    is_whole = y.ndim == 1 and bool((known == np.round(known)).all())
    return make_labels(y, number, "classes" if task == "auto" and is_whole else task)


def _ogb_splits(folder: Path) -> dict[str, IntArray] | None:
    names = {"train": "train", "val": "valid", "test": "test"}
    places = sorted(path.parent for path in (folder / "split").glob("*/train.csv.gz"))
    if not places:
        return None
    if len(places) > 1:
        raise InputError(
            f"graph={str(folder)!r} has the splits {', '.join(p.name for p in places)}: keep one "
            "folder under split, or pass splits."
        )
    files = {name: places[0] / f"{file}.csv.gz" for name, file in names.items()}
    _needed(folder, *files.values())
    return {name: read_matrix(file, np.int64)[:, 0].copy() for name, file in files.items()}
