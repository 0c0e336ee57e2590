"""`import_graph`: check a user's own graph files and write them as a store, in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bliss import checks
from bliss.arrays import NOTHING
from bliss.data.dataset import check_splits, labelled
from bliss.data.edges import EdgeSource, check_some, find_nodes, open_edges
from bliss.data.features import FEATURE_TYPES, FeatureSource, finite_rows, open_features
from bliss.data.labels import AUTO, Labels, no_labels, read_labels
from bliss.data.nodes import Nodes, nodes_of
from bliss.data.saving import Content, Progress, WrittenGraph, check_new, write_store
from bliss.data.sorting import LEAST_MEMORY, EdgeSorter, SortedEdges, chunk_rows, disk_bytes
from bliss.data.splits import SplitSource, read_splits
from bliss.data.store import StrPath, write_graph_header
from bliss.errors import InputError
from bliss.graph import Norm
from bliss.storage.files import check_space
from bliss.storage.limits import memory_limit

SHARES = (0.6, 0.2, 0.2)
"""Default shares of train, validation and test nodes."""


@dataclass(frozen=True)
class Parts:
    """What a reader of files found."""

    nodes: Nodes
    edges: EdgeSource
    features: FeatureSource
    labels: Labels
    splits: SplitSource | None = None  # None: the files have no splits
    notes: tuple[str, ...] = ()
    is_undirected: bool = False  # whether the file says that its edges have no direction


def import_graph(
    out: StrPath,
    *,
    edges: StrPath | None = None,
    features: StrPath | None = None,
    labels: StrPath | None = None,
    graph: StrPath | None = None,
    splits: SplitSource | None = None,
    weight: StrPath | None = None,
    directed: bool = True,
    label: str = "",
    feature_columns: Sequence[str] = (),
    task: str = "auto",
    seed: int = 0,
    num_nodes: int | None = None,
    memory: int | str | None = None,
    feature_type: str = "float32",
    progress: Progress = lambda what, share: None,
) -> Path:
    """Check a graph and write it to the new folder `out`. A failure leaves no folder.

    Edges in .npy, text or .parquet files are read in chunks and sorted on disk, and features in
    .npy or .parquet files are copied in chunks, so they may be larger than memory. Everything else
    must fit in memory. docs/graphs.md describes all formats.

    Parameters
    ----------
    out
        A folder that does not exist yet.
    edges
        .npy: [2, E] or [E, 2]. .npz: a SciPy matrix (entry [j, i] is the edge j -> i; values other
        than 1 are weights), or arrays src, dst and optionally weight. .csv and .parquet: columns
        src, dst and optionally weight; others are ignored. Parallel edges are merged, and each node
        gets one self-loop.
    features
        .npy, .npz (SciPy sparse), .csv or .parquet, one row per node: [V, F]. A table may have the
        ids of nodes in a first column called id. They can be any numbers or names; edges, labels
        and splits then use them.
    labels
        .npy, .csv or .parquet: a class per node (a number, -1 for none, or text), a matrix of 0
        and 1, or numbers to predict.
    graph
        A file or folder with all of these, in the place of edges, features and labels: .pt of a PyG
        `Data`, .graphml, .gexf, or a folder of an OGB node property data set.
    splits
        Three fractions of the labelled nodes, or ids or masks; see `bliss.data.splits`. Default:
        those of `graph`, otherwise (0.6, 0.2, 0.2).
    weight
        .npy: one number per edge, if the file of edges has no weights.
    directed
        With False, every edge is used in both directions.
    label
        Column of the labels, or node attribute of `graph`. Default: every column but the ids.
    feature_columns
        Columns of the features, or node attributes of `graph`. Default: every column but the ids
        and the label.
    task
        "classes", "labels" (several per node), "regression", or "auto": by the type of the labels.
    seed
        Seed of the draw of fractions.
    num_nodes
        Expected number of nodes. Default: the number of rows of the features.
    memory
        Bytes of working memory for the edges, such as 2**32 or "4GiB". Labels, splits, names of
        nodes and a byte per node come on top. Default: a quarter of the memory that
        this process may use, of the machine or of its control group.
    feature_type
        Type of the features in the store: "float32", or "float16", which halves their size. Rows
        are converted to float32 when they are read for training.
    progress
        Called with what is being done, and with the share in [0, 1] that is done, or None.

    Returns
    -------
    Path
        The folder, for `open_store` or `load_dataset`.
    """
    folder = check_new(out)
    checks.whole("seed", seed)
    checks.choice("task", task, AUTO)
    checks.choice("feature_type", feature_type, list(FEATURE_TYPES))
    most = memory_limit() // 4 if memory is None else checks.byte_count("memory", memory)
    given = {"edges": edges, "features": features, "labels": labels, "weight": weight}
    if graph is not None:
        beside = [name for name, value in given.items() if value is not None]
        if beside:
            raise InputError(
                f"{', '.join(beside)} was given beside graph={str(graph)!r}, which holds "
                "everything: leave it out."
            )
        from bliss.data.foreign import read_graph_file

        parts = read_graph_file(checks.path("graph", graph), label, tuple(feature_columns), task)
    elif edges is None or features is None:
        missing = "edges" if edges is None else "features"
        raise InputError(
            f"{missing}=None must be the path of a file: pass edges and features, or graph alone."
        )
    else:
        parts = _read_parts(edges, features, labels, weight, label, tuple(feature_columns), task)
    if num_nodes is not None and checks.whole("num_nodes", num_nodes) != parts.nodes.number:
        raise InputError(
            f"features has {parts.nodes.number} rows, but num_nodes={num_nodes}: give each node "
            "one row."
        )
    if splits is not None:
        parts = replace(parts, splits=splits)
    directed = directed and not parts.is_undirected
    _check_space(folder, parts, feature_type)
    plan = _Plan(parts, directed, max(most, LEAST_MEMORY), progress)
    return write_store(folder, _content(plan, seed, feature_type), progress=progress)


def _read_parts(
    edges: StrPath,
    features: StrPath,
    labels: StrPath | None,
    weight: StrPath | None,
    label: str,
    columns: tuple[str, ...],
    task: str,
) -> Parts:
    """Read the files of edges, features and labels."""
    place = checks.path("features", features)
    target = None if labels is None else checks.path("labels", labels)
    if label and target is None:
        raise InputError(f"label={label!r} was given without labels: pass the file of the labels.")
    is_shared = bool(label) and target is not None and target.resolve() == place.resolve()
    source = open_features(place, columns, (label,) if is_shared else ())
    nodes = nodes_of(source.ids, source.shape[0])
    pairs = open_edges(
        checks.path("edges", edges), None if weight is None else checks.path("weight", weight)
    )
    if target is None:
        return Parts(nodes, pairs, source, no_labels(nodes.number))
    return Parts(nodes, pairs, source, read_labels(target, nodes, label, task))


def _check_space(folder: Path, parts: Parts, feature_type: str) -> None:
    """Raise if the disk cannot hold the store, or what is needed to sort its edges."""
    height, width = parts.features.shape
    features = height * width * np.dtype(FEATURE_TYPES[feature_type]).itemsize
    edges = parts.edges.number or 0  # of a text, what it has is not known
    runs, graph = disk_bytes(edges, height, parts.edges.is_weighted)
    check_space(folder, graph + max(runs, features))  # the runs are gone before features come


@dataclass(frozen=True)
class _Plan:
    """How to sort the edges of a graph."""

    parts: Parts
    directed: bool
    memory: int  # bytes
    progress: Progress

    def write(self, folder: Path) -> WrittenGraph:
        """Write the files of the graph into a folder, and say what was done to its edges."""
        nodes, source = self.parts.nodes, self.parts.edges
        rows = chunk_rows(self.memory)
        if nodes.names is not None:
            rows = max(rows, nodes.number)  # each chunk is compared with all names
        sorter = EdgeSorter(folder, nodes.number, source.is_weighted, self.directed, self.memory)
        with sorter:
            for chunk in source.chunks(rows):
                edges = find_nodes(chunk, nodes)
                weight = NOTHING
                if edges.weight is not None:
                    size = edges.source.size
                    weight = checks.weights("weight", edges.weight, size, sorter.read)
                sorter.add(edges.source, edges.target, weight)
                share = None if source.number is None else sorter.read / source.number
                self.progress(f"reading edges: {sorter.read:,}", share)
            check_some(sorter.read)
            merged = sorter.write(lambda share: self.progress("sorting edges", share))
        self.progress("writing digests", None)
        norm: Norm = "weights" if source.is_weighted else "mean"
        write_graph_header(folder, norm, nodes.number, merged.num_edges, self_loops=True)
        return WrittenGraph(merged.num_edges, self._summary(merged))

    def _summary(self, edges: SortedEdges) -> dict[str, Any]:
        """What was done to the edges, for dataset.json."""
        parts = self.parts
        kept = edges.num_edges - parts.nodes.number  # every node has one self-loop
        given = edges.read - edges.loops_read
        notes = [*parts.notes, *parts.edges.notes, *parts.features.notes, *parts.labels.notes]
        is_reciprocal = not self.directed or kept == 0
        return {
            "edges_read": edges.read,
            "undirected": not self.directed,
            "duplicates_merged": given - (kept if self.directed else kept // 2),
            "self_loops_read": edges.loops_read,
            "self_loops_added": edges.loops_added,
            "reciprocal": 1.0 if is_reciprocal else edges.reciprocal / kept,
            "notes": notes,
        }


def _content(plan: _Plan, seed: int, feature_type: str) -> Content:
    """Graph, labels and splits, checked."""
    parts = plan.parts
    nodes, labels = parts.nodes, parts.labels
    is_labelled = labelled(labels.y, labels.task, labels.num_classes)
    source = SHARES if parts.splits is None else parts.splits
    splits = read_splits(source, nodes, np.flatnonzero(is_labelled), seed)
    missing = "target (NaN)" if labels.task == "regression" else "label (-1)"
    check_splits(splits, is_labelled, nodes.number, missing)
    return Content(
        write_graph=plan.write,
        rows=finite_rows("features", parts.features.chunks(), feature_type),
        shape=parts.features.shape,
        feature_type=feature_type,
        labels=labels,
        splits=splits,
        names=nodes.names,
    )
