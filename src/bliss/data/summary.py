"""Summary of a dataset: sizes, direction, labels, splits, changes by an import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse

from bliss.arrays import IntArray
from bliss.data.dataset import SPLITS, Dataset
from bliss.data.edges import Edges
from bliss.data.names import shown
from bliss.data.timestamps import time_text
from bliss.data.type_summary import describe_relations, describe_types, type_rows
from bliss.graph import Graph
from bliss.kernels.times import ALWAYS
from bliss.text import printable

MOST_CLASSES = 12
"""Number of classes, labels or targets that are listed."""


def import_summary(
    edges: Edges, graph: Graph, directed: bool, notes: Sequence[str]
) -> dict[str, Any]:
    """What an import did to the edges of a file, for dataset.json."""
    is_loop = edges.source == edges.target
    loops, number = int(is_loop.sum()), graph.num_nodes
    kept = graph.num_edges - number  # every node has one self-loop
    pairs = len(edges.source) - loops
    return {
        "edges_read": len(edges.source),
        "undirected": not directed,
        "duplicates_merged": pairs - (kept if directed else kept // 2),
        "self_loops_read": loops,
        "self_loops_added": number - int(np.unique(edges.source[is_loop]).size),
        "reciprocal": 1.0 if not directed else reciprocal_share(graph),
        "notes": list(notes),
    }


def reciprocal_share(graph: Graph) -> float:
    """Share of the edges j -> i, j != i, whose reverse i -> j is an edge, too; 1 without edges."""
    size = graph.num_nodes
    ones = np.ones(graph.num_edges, np.bool_)
    arrays = ones, graph.indices, graph.indptr
    pattern = scipy.sparse.csc_matrix(arrays, shape=(size, size), copy=True)
    pattern.sum_duplicates()  # in place: parallel edges count once
    loops = pattern.diagonal().sum()
    total = pattern.nnz - loops
    both = pattern.multiply(pattern.T.tocsc()).nnz - loops
    return float(both / total) if total else 1.0


def describe(dataset: Dataset) -> dict[str, Any]:
    """Sizes, degrees, labels and splits of a dataset, as plain values that JSON can hold.

    Edges are directed. Edges and in-degrees are counted without self-loops. `reciprocal` is the
    share of edges whose reverse is an edge, too.
    """
    graph = dataset.graph
    loops = self_loops(graph) if dataset.imported is None else 1  # an import adds one per node
    degree = graph.degree - (loops if graph.types is None else 0)
    quantiles = np.quantile(degree, (0, 0.25, 0.5, 0.75, 0.99, 1)) if degree.size else np.zeros(6)
    names = ("min", "25%", "median", "75%", "99%", "max")
    imported = dict(dataset.imported or {})
    weight = graph.weight
    return {
        "name": dataset.name,
        "nodes": graph.num_nodes,
        "edges": int(degree.sum()),
        "self_loops": graph.num_self_loops,
        "reciprocal": imported["reciprocal"] if imported else reciprocal_share(graph),
        "types": describe_types(dataset),
        "relations": describe_relations(graph),
        "norm": graph.norm,
        "weights": [float(weight.min()), float(weight.max())] if weight.size else None,
        "features": dataset.num_features,
        "task": dataset.task,
        "classes": dataset.num_classes,
        "multilabel": dataset.is_multilabel,
        "labels": _labels(dataset),
        "splits": {name: dataset.splits[name].numel() for name in SPLITS},
        "times": _times(dataset),
        "degree": {
            "mean": float(degree.mean()) if degree.size else 0.0,
            **{name: float(value) for name, value in zip(names, quantiles, strict=True)},
        },
        "names": None if dataset.node_names is None else dataset.node_names[0],
        "import": imported,
    }


def size_words(graph: Graph) -> str:
    """Nodes, edges and self-loops in words; edges are counted without self-loops."""
    loops = graph.num_self_loops
    return f"{graph.num_nodes:,} nodes, {graph.num_edges - loops:,} edges and {loops:,} self-loops"


def summary_rows(description: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The result of `describe` as pairs of text to print."""
    imported, splits, degree = description["import"], description["splits"], description["degree"]
    edges = f"{description['edges']:,}, and {description['self_loops']:,} self-loops"
    rows = [("nodes", _nodes(description)), ("edges", edges), *type_rows(description)]
    if imported and not description["types"]:
        twice = ", edges and their reverse counted as one" if imported["undirected"] else ""
        rows += [
            ("edges read", f"{imported['edges_read']:,}"),
            ("duplicates merged", f"{imported['duplicates_merged']:,}{twice}"),
            (
                "self-loops",
                f"one per node: {imported['self_loops_added']:,} added, "
                f"{imported['self_loops_read']:,} read",
            ),
        ]
    if not description["types"]:
        rows.append(("direction", _direction(description["reciprocal"], imported)))
    rows += [
        ("edge weights", _weights(description)),
        ("features", f"{description['features']:,}"),
        *_label_rows(description),
        *description["times"].items(),
        ("splits", ", ".join(f"{name} {number:,}" for name, number in splits.items())),
        (
            "in-degree",
            f"mean {degree['mean']:.1f}, median {degree['median']:,.0f}, 99% {degree['99%']:,.0f}, "
            f"largest {degree['max']:,.0f}",
        ),
    ]
    return rows + [("note", note) for note in imported.get("notes", ())]


def _times(dataset: Dataset) -> dict[str, str]:
    """First and last time of edges, nodes and links, by what they belong to."""
    edges, links, unit = dataset.graph.time, dataset.label_edges, dataset.time_unit
    given = {
        "times of edges": edges[edges != ALWAYS],
        "times of nodes": dataset.node_time,
        "times of links": None if links is None else links.time,
    }
    return {
        name: f"{time_text(time.min(), unit)} to {time_text(time.max(), unit)}"
        for name, time in given.items()
        if time is not None and time.size
    }


def _nodes(description: Mapping[str, Any]) -> str:
    number, name = description["nodes"], description["names"]
    return f"{number:,}" + ("" if name is None else f", with ids such as {shown(name)}")


def _weights(description: Mapping[str, Any]) -> str:
    if not description["weights"]:
        return "none"
    how = "a weighted mean" if description["norm"] == "weighted-mean" else "a weighted sum"
    return f"{_span(*description['weights'])}, used for {how}"


def _direction(share: float, imported: Mapping[str, Any]) -> str:
    if imported.get("undirected"):
        return "both ways: the reverse of each edge was added"
    if share == 1:
        return "both ways: every edge has its reverse"
    hint = "; import with --undirected to add the others" if imported else ""
    return f"one way: {share:.1%} of the edges have their reverse{hint}"


def _label_rows(description: Mapping[str, Any]) -> list[tuple[str, str]]:
    labels = description["labels"]
    if description["task"] == "regression":
        few = [
            f"{name}: mean {target['mean']:.4g}, deviation {target['deviation']:.4g}, "
            f"{_span(target['min'], target['max'])}, {target['known']:,} known"
            for name, target in list(labels.items())[:MOST_CLASSES]
        ]
        return [("targets", _listed(few, len(labels), "; "))]
    if not description["classes"]:
        return [("labels", "none")]
    sizes = [f"{name}: {size:,}" for name, size in list(labels.items())[:MOST_CLASSES]]
    word = "labels" if description["multilabel"] else "classes"
    empty = sum(size == 0 for size in labels.values())
    rows = [(word, f"{description['classes']:,} ({_listed(sizes, len(labels))})")]
    return rows + ([(f"{word} without nodes", f"{empty:,}")] if empty else [])


def _listed(few: Sequence[str], total: int, mark: str = ", ") -> str:
    return mark.join(few) + (f"{mark}..." if total > len(few) else "")


def _span(low: float, high: float) -> str:
    return f"{low:.4g} to {high:.4g}"


def _labels(dataset: Dataset) -> dict[str, Any]:
    """Sizes of classes or labels, or statistics of targets, by name."""
    names = [printable(name) for name in dataset.class_names]
    names = names or [str(number) for number in range(dataset.num_outputs)]
    y = dataset.y.numpy()
    if dataset.is_regression:
        columns = [column[np.isfinite(column)].astype(np.float64) for column in y.T]
        return {
            name: {
                "mean": float(column.mean()),
                "deviation": float(column.std()),
                "min": float(column.min()),
                "max": float(column.max()),
                "known": int(column.size),
            }
            for name, column in zip(names, columns, strict=True)
        }
    if dataset.is_multilabel:
        sizes = y.sum(axis=0).astype(np.int64)
    else:
        sizes = np.bincount(y[y >= 0], minlength=dataset.num_classes)
    return dict(zip(names, sizes.tolist(), strict=True))


def self_loops(graph: Graph) -> IntArray:
    """Number of self-loops of each node, counted in chunks of nodes. int64[V]."""
    loops = np.zeros(graph.num_nodes, np.int64)
    chunk = 1 << 16
    for start in range(0, graph.num_nodes, chunk):
        stop = min(start + chunk, graph.num_nodes)
        target = np.repeat(np.arange(start, stop), graph.degree[start:stop])
        source = graph.indices[graph.indptr[start] : graph.indptr[stop]]
        own = target[source == target] - start
        loops[start:stop] = np.bincount(own, minlength=stop - start)
    return loops
