"""Write a dataset as a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from bliss import checks
from bliss.arrays import Array, IntArray
from bliss.data.dataset import Dataset
from bliss.data.features import FEATURE_TYPES, row_chunks
from bliss.data.label_edges import LabelEdges
from bliss.data.labels import Labels
from bliss.data.manifest import write_header
from bliss.data.names import NodeNames
from bliss.data.npy import write_npy, write_npy_rows
from bliss.data.store import (
    DATASET_FILES,
    DATASET_FORMAT,
    DATASET_HEADER,
    NODE_TIME,
    StrPath,
    write_graph,
)
from bliss.data.table_encoder import TableEncoder
from bliss.data.typed_nodes import TypedNodes
from bliss.data.typed_store import features_file, names_arrays, nodes_header
from bliss.errors import InputError
from bliss.storage.files import check_space, new_folder

Progress = Callable[[str, float | None], None]
"""Called with what is being done, and with the share that is done, or None if it is not known."""


class WrittenGraph(NamedTuple):
    """What was written of a graph."""

    num_edges: int
    summary: Mapping[str, Any] | None  # what an import did, for dataset.json


class TypedRows(NamedTuple):
    """Features of the nodes of a type."""

    rows: Iterable[Array]  # in chunks, [n, F] each
    shape: tuple[int, int]
    feature_type: str


@dataclass(frozen=True)
class Content:
    """What a store holds."""

    write_graph: Callable[[Path], WrittenGraph]  # into a folder
    rows: Iterable[Array]  # features in chunks, [n, F] each
    shape: tuple[int, int]  # V, F
    feature_type: str  # "float32" or "float16"
    labels: Labels
    splits: Mapping[str, IntArray]
    names: NodeNames | None
    encoder: TableEncoder | None = None  # of the columns of a table of features
    label_edges: LabelEdges | None = None
    node_time: IntArray | None = None  # int64[V]
    time_unit: str = ""
    typed: TypedNodes | None = None  # names and encoders; rows come from `typed_rows`
    typed_rows: Mapping[str, TypedRows] = field(default_factory=dict)


def check_new(out: StrPath) -> Path:
    """A folder that does not exist yet."""
    folder = checks.path("out", out)
    if folder.exists():
        raise InputError(
            f"out={str(folder)!r} already exists: choose another name, or remove it first."
        )
    return folder


def write_store(
    folder: Path, content: Content, name: str = "", progress: Progress = lambda what, share: None
) -> Path:
    """Write a store to a new folder. A failure leaves no folder."""
    labels, (height, width) = content.labels, content.shape
    kind = FEATURE_TYPES[content.feature_type]
    with new_folder(folder) as scratch:
        graph = content.write_graph(scratch)
        rows = _counted(content.rows, height, lambda share: progress("copying features", share))
        write_npy_rows(scratch / "features.npy", rows, content.shape, kind)
        progress("writing digests", None)
        arrays: dict[str, Array] = {"labels.npy": labels.y}
        arrays |= {f"{split}.npy": ids for split, ids in content.splits.items()}
        named = dict(content.names.files) if content.names is not None else {}
        named |= content.label_edges.files if content.label_edges is not None else {}
        named |= {NODE_TIME: content.node_time} if content.node_time is not None else {}
        named |= {} if content.typed is None else names_arrays(content.typed)
        for file, array in (arrays | named).items():
            write_npy(scratch / file, array)
        header: dict[str, Any] = {
            "format": DATASET_FORMAT,
            "name": name or folder.name,
            "num_nodes": height,
            "num_edges": graph.num_edges,
            "num_features": width,
            "num_classes": labels.num_classes,
            "multilabel": labels.task == "labels",
            "splits": {split: ids.size for split, ids in content.splits.items()},
        }
        header |= {} if content.label_edges is None else content.label_edges.header
        if content.time_unit:
            header["time_unit"] = content.time_unit
        if labels.task == "regression":
            header["task"] = labels.task
        if labels.names:
            header["class_names"] = list(labels.names)
        if content.encoder is not None:
            header["features"] = content.encoder.to_dict()
        if graph.summary is not None:
            header["import"] = dict(graph.summary)
        if content.typed is not None:
            header["num_features"] = 0
            header["typed"] = nodes_header(content.typed)
        features = _write_types(scratch, content.typed_rows)
        write_header(scratch / DATASET_HEADER, header, [*DATASET_FILES, *named, *features])
    return folder


def _write_types(folder: Path, types: Mapping[str, TypedRows]) -> list[str]:
    """Write the features of each type that has some, and return the names of their files."""
    written = []
    for number, (rows, shape, kind) in enumerate(types.values()):
        if shape[1]:
            written.append(features_file(number))
            write_npy_rows(folder / written[-1], rows, shape, FEATURE_TYPES[kind])
    return written


def _counted(
    chunks: Iterable[Array], height: int, progress: Callable[[float], None]
) -> Iterator[Array]:
    """Chunks of rows; `progress` is called with the share of the rows that was written."""
    done = 0
    for chunk in chunks:
        yield chunk
        done += len(chunk)
        progress(done / height)


def save_dataset(dataset: Dataset, out: StrPath) -> Path:
    """Write a dataset to a new folder, for `load_dataset` and `bliss train --dataset`."""
    folder = check_new(out)
    labels = Labels(
        dataset.y.numpy(), dataset.task, dataset.num_classes, tuple(dataset.class_names)
    )
    x = dataset.x.numpy()
    check_space(folder, dataset.features_nbytes)

    def write(scratch: Path) -> WrittenGraph:
        write_graph(dataset.graph, scratch)
        return WrittenGraph(dataset.graph.num_edges, dataset.imported)

    content = Content(
        write_graph=write,
        rows=row_chunks(x),
        shape=(dataset.graph.num_nodes, x.shape[1]),
        feature_type=x.dtype.name,
        labels=labels,
        splits={name: ids.numpy() for name, ids in dataset.splits.items()},
        names=dataset.node_names,
        encoder=dataset.encoder,
        label_edges=dataset.label_edges,
        node_time=dataset.node_time,
        time_unit=dataset.time_unit,
        typed=dataset.typed,
        typed_rows={} if dataset.typed is None else _rows_of(dataset.typed),
    )
    return write_store(folder, content, dataset.name)


def _rows_of(typed: TypedNodes) -> dict[str, TypedRows]:
    arrays = {name: x.numpy() for name, x in typed.x.items()}
    return {
        name: TypedRows(row_chunks(x), (len(x), x.shape[1]), x.dtype.name)
        for name, x in arrays.items()
    }
