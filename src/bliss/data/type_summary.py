"""Summary of the types of a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bliss.data.dataset import Dataset
from bliss.data.names import shown
from bliss.graph import Graph
from bliss.text import printable


def describe_types(dataset: Dataset) -> dict[str, dict[str, Any]]:
    """Nodes, features and names of each type of nodes; empty without types."""
    typed, types = dataset.typed, dataset.graph.types
    if typed is None or types is None:
        return {}
    return {
        name: {
            "nodes": number,
            "features": typed.x[name].size(1),
            "feature_type": str(typed.x[name].dtype).removeprefix("torch."),
            "labels": name == typed.node_type and dataset.num_outputs > 0,
            "names": typed.names[name][0] if name in typed.names else None,
        }
        for name, number in types.num_nodes.items()
    }


def describe_relations(graph: Graph) -> list[dict[str, Any]]:
    """Edges of each relation, and the largest in-degree under it; empty without types."""
    types = graph.types
    if types is None:
        return []
    number, size = len(types.edge_types), np.diff(types.group_start)
    edges = np.bincount(types.group_relation, size, number).astype(np.int64)
    groups = np.bincount(types.group_relation, minlength=number)
    largest = np.zeros(number, np.int64)
    np.maximum.at(largest, types.group_relation, size)
    return [
        {
            "relation": list(edge_type),
            "edges": int(edges[r]),
            "targets": int(groups[r]),
            "degree": float(edges[r] / max(groups[r], 1)),
            "largest": int(largest[r]),
        }
        for r, edge_type in enumerate(types.edge_types)
    ]


def type_rows_of(dataset: Dataset) -> list[tuple[str, str]]:
    """Types and relations of a dataset as pairs of text to print; empty without types."""
    relations = describe_relations(dataset.graph)
    return type_rows({"types": describe_types(dataset), "relations": relations})


def type_rows(description: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Types and relations of a description as pairs of text to print."""
    rows = []
    for name, one in description["types"].items():
        features = f"{one['features']:,} features" if one["features"] else "no features"
        half = ", float16" if one["feature_type"] == "float16" and one["features"] else ""
        labels = ", labels" if one["labels"] else ""
        names = "" if one["names"] is None else f", ids such as {shown(one['names'])}"
        rows.append(
            (f"type {printable(name)}", f"{one['nodes']:,} nodes, {features}{half}{labels}{names}")
        )
    for number, one in enumerate(description["relations"], 1):
        parts = ", ".join(map(printable, one["relation"]))
        words = (
            f"({parts}): {one['edges']:,} edges to {one['targets']:,} targets, in-degree mean "
            f"{one['degree']:.1f}, largest {one['largest']:,}"
        )
        rows.append((f"relation {number}", words))
    return rows
