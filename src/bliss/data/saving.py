"""Write a dataset as a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bliss import checks
from bliss.arrays import Array, IntArray
from bliss.data.dataset import Dataset
from bliss.data.features import row_chunks
from bliss.data.labels import Labels
from bliss.data.manifest import write_header
from bliss.data.names import NodeNames
from bliss.data.npy import write_npy, write_npy_rows
from bliss.data.store import DATASET_FILES, DATASET_FORMAT, DATASET_HEADER, StrPath, write_graph
from bliss.errors import InputError
from bliss.files import check_space, new_folder
from bliss.graph import Graph


@dataclass(frozen=True)
class Content:
    """What a store holds."""

    graph: Graph
    rows: Iterable[Array]  # features in chunks, float32[n, F] each
    shape: tuple[int, int]  # V, F
    labels: Labels
    splits: Mapping[str, IntArray]
    names: NodeNames | None
    summary: Mapping[str, Any] | None  # what an import did, for dataset.json


def check_new(out: StrPath) -> Path:
    """A folder that does not exist yet."""
    folder = checks.path("out", out)
    if folder.exists():
        raise InputError(
            f"out={str(folder)!r} already exists: choose another name, or remove it first."
        )
    return folder


def write_store(folder: Path, content: Content, name: str = "") -> Path:
    """Write a store to a new folder. A failure leaves no folder."""
    graph, labels = content.graph, content.labels
    check_space(folder, 4 * content.shape[0] * content.shape[1])
    with new_folder(folder) as scratch:
        write_npy_rows(scratch / "features.npy", content.rows, content.shape, np.float32)
        write_graph(graph, scratch)
        arrays: dict[str, Array] = {"labels.npy": labels.y}
        arrays |= {f"{split}.npy": ids for split, ids in content.splits.items()}
        named = content.names.files if content.names is not None else {}
        for file, array in (arrays | dict(named)).items():
            write_npy(scratch / file, array)
        header: dict[str, Any] = {
            "format": DATASET_FORMAT,
            "name": name or folder.name,
            "num_nodes": graph.num_nodes,
            "num_edges": graph.num_edges,
            "num_features": content.shape[1],
            "num_classes": labels.num_classes,
            "multilabel": labels.task == "labels",
            "splits": {split: ids.size for split, ids in content.splits.items()},
        }
        if labels.task == "regression":
            header["task"] = labels.task
        if labels.names:
            header["class_names"] = list(labels.names)
        if content.summary is not None:
            header["import"] = dict(content.summary)
        write_header(scratch / DATASET_HEADER, header, [*DATASET_FILES, *named])
    return folder


def save_dataset(dataset: Dataset, out: StrPath) -> Path:
    """Write a dataset to a new folder, for `load_dataset` and `bliss train --dataset`."""
    folder = check_new(out)
    labels = Labels(
        dataset.y.numpy(), dataset.task, dataset.num_classes, tuple(dataset.class_names)
    )
    content = Content(
        graph=dataset.graph,
        rows=row_chunks(dataset.x.numpy()),
        shape=(dataset.graph.num_nodes, dataset.num_features),
        labels=labels,
        splits={name: ids.numpy() for name, ids in dataset.splits.items()},
        names=dataset.node_names,
        summary=dataset.imported,
    )
    return write_store(folder, content, dataset.name)
