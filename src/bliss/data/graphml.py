"""Graphs in GraphML and GEXF files, read with networkx.

A document type can define entities that expand to any size, so files with one are refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np

from bliss.arrays import Array
from bliss.data.edges import WEIGHT, Edges, held
from bliss.data.features import dense_features
from bliss.data.import_files import Parts
from bliss.data.labels import Labels, label_columns, no_labels
from bliss.data.names import LONGEST, shown
from bliss.data.nodes import Nodes, nodes_of
from bliss.data.safe_reading import reading
from bliss.errors import InputError
from bliss.text import printable


def read_xml(file: Path, label: str, columns: tuple[str, ...], task: str) -> Parts:
    """Read a .graphml or .gexf file: names of nodes, attributes, and the edge attribute weight.

    Features are the node attributes `columns`, or all that are numbers at every node but the label.
    `label` is the node attribute to predict; without it there are no labels.
    """
    graph = _load(file)
    records = [values for _, values in graph.nodes(data=True)]
    if not records:
        raise InputError(f"graph={str(file)!r} has no nodes: check the file.")
    ids = _ids(file, [str(name) for name in graph.nodes])
    nodes = nodes_of(ids, len(records))
    attributes = sorted({str(name) for values in records for name in values})
    for name in (*columns, *((label,) if label else ())):
        if name not in attributes:
            raise InputError(
                f"graph={str(file)!r} has no node attribute {name!r}: choose among "
                f"{', '.join(map(printable, attributes[:20])) or 'none'}."
            )
    numeric = [n for n in attributes if n != label and all(_is_number(r.get(n)) for r in records)]
    chosen = list(columns) or numeric
    if not chosen:
        raise InputError(
            f"graph={str(file)!r} has no numbers at every node, but features are needed: add node "
            "attributes, or pass edges and features."
        )
    matrix = np.stack([_column(file, name, records, ids) for name in chosen], axis=1)
    left = [printable(name) for name in attributes if name not in (*chosen, label)]
    notes = [f"Features: {', '.join(map(printable, chosen[:20]))}."]
    if left:
        notes.append(f"Node attributes that are not used: {', '.join(left[:20])}.")
    edges, more = _edges(graph)
    labels = _labels(records, label, nodes, task) if label else no_labels(len(records))
    return Parts(
        nodes,
        held(edges),
        dense_features(matrix),
        labels,
        notes=(*notes, *more),
        is_undirected=not graph.is_directed(),
    )


def _load(file: Path) -> Any:
    try:
        import networkx
    except ImportError as error:
        raise InputError(
            f"graph={str(file)!r} needs networkx: install it with pip install "
            "'bliss-gnn[networkx]'."
        ) from error
    form = "GraphML" if file.suffix == ".graphml" else "GEXF"
    with reading(file, form, "write it again", "graph"):
        _check_xml(file)
        graph = networkx.read_graphml(file) if form == "GraphML" else networkx.read_gexf(file)
        if not isinstance(graph, networkx.Graph):
            raise ValueError("it holds no graph")
    return graph


def _check_xml(file: Path) -> None:
    """Raise if the file has a document type, or a node twice, which networkx would merge."""
    ids: set[str] = set()

    def refuse(*_: Any) -> None:
        raise ValueError("it has a document type, which can hide a file of any size")

    def start(element: str, attributes: dict[str, str]) -> None:
        if element.rpartition(":")[2] != "node" or (name := attributes.get("id")) is None:
            return
        if name in ids:
            raise InputError(
                f"graph={str(file)!r} has the node id {shown(name)} more than once: keep one node "
                "with this id."
            )
        ids.add(name)

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler, parser.StartElementHandler = refuse, start
    with open(file, "rb") as stream:
        parser.ParseFile(stream)


def _ids(file: Path, names: list[str]) -> Any:
    """Ids as a pyarrow array, int64 if all are plain numbers."""
    import pyarrow as arrow

    longest = max(names, key=len)
    if len(longest.encode()) > LONGEST or "" in names:
        raise InputError(
            f"graph={str(file)!r} has the node id {shown(longest if '' not in names else '')}, but "
            f"ids have 1 to {LONGEST:,} bytes: rename the node."
        )
    if all(name.isascii() and name.isdigit() and str(int(name[:19])) == name for name in names):
        numbers = [int(name) for name in names]
        if max(numbers) < 2**63:
            return arrow.array(numbers, arrow.int64())
    return arrow.array(names, arrow.large_string())


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float))


def _column(file: Path, name: str, records: list[dict[str, Any]], ids: Any) -> Array:
    values = [values.get(name) for values in records]
    for place, value in enumerate(values):
        if not _is_number(value):
            raise InputError(
                f"graph={str(file)!r} has no number in attribute {name!r} of node "
                f"{shown(ids[place].as_py())}: add it, or choose other feature_columns."
            )
    with np.errstate(over="ignore"):
        return np.array([float(value) for value in values if value is not None])


def _edges(graph: Any) -> tuple[Edges, list[str]]:
    """Edges by the numbers of their nodes, and notes."""
    place = {node: number for number, node in enumerate(graph.nodes)}
    listed = list(graph.edges(data=WEIGHT))
    pairs = np.array([(place[u], place[v]) for u, v, _ in listed], np.int64).reshape(-1, 2)
    weights, notes = [w for *_, w in listed], []
    weight = None
    if any(value is not None for value in weights):
        wrong = next((w for w in weights if w is not None and not _is_number(w)), None)
        if wrong is not None:
            raise InputError(f"an edge has the weight {shown(str(wrong))}: weights are numbers.")
        if (missing := weights.count(None)) > 0:
            notes.append(f"{missing:,} edges without a weight have weight 1.")
        weight = np.array([1.0 if w is None else float(w) for w in weights])
        if (weight == 1).all():
            weight = None
    return Edges(pairs[:, 0], pairs[:, 1], weight, is_numbered=True), notes


def _labels(records: list[dict[str, Any]], label: str, nodes: Nodes, task: str) -> Labels:
    import pyarrow as arrow

    values = [values.get(label) for values in records]
    if any(isinstance(value, str) for value in values):
        column = arrow.array([None if v is None else str(v) for v in values], arrow.large_string())
    else:
        column = arrow.array(values)
    return label_columns([column], [label], nodes, None, task)
