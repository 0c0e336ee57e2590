"""Pairs of nodes, and lists of nodes, from a user's files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bliss.arrays import IntArray
from bliss.data.edges import end_names, header_names
from bliss.data.nodes import ID_NAMES, Nodes, id_column
from bliss.data.tables import Table, read_table
from bliss.errors import InputError
from bliss.graph import EdgeType
from bliss.storage.files import check_regular


def read_pairs(
    file: Path, sources: Nodes, targets: Nodes, edge_type: EdgeType | None = None
) -> IntArray:
    """Pairs from a table with the columns src and dst, or two columns. int64[2, P].

    Columns may also be called as the types of a relation.
    """
    table = _table("pairs", file, header_names(edge_type), 2)
    first = int(table.has_counting_index())
    known = end_names(table.names, edge_type)
    places = [place for names in known for place in table.places(*names)] or [first, first + 1]
    if len(places) != 2:
        raise InputError(
            f"pairs={str(file)!r} must have one column of sources and one of targets: call them "
            "src and dst."
        )
    ends = zip((sources, targets), places, strict=True)
    return np.stack([nodes.find("pairs", id_column("pairs", table, at)) for nodes, at in ends])


def read_nodes(file: Path, nodes: Nodes) -> IntArray:
    """Nodes from a table with a column of ids, in its order. int64[N]."""
    table = _table("nodes", file, ID_NAMES, 1)
    places = table.places(*ID_NAMES) or [int(table.has_counting_index())]
    return nodes.find("nodes", id_column("nodes", table, places[0]))


def _table(field: str, file: Path, header: tuple[str, ...], columns: int) -> Table:
    check_regular(file, f"{field}={str(file)!r}")
    table = read_table(field, file, header, may_lack_header=True)
    if len(table.columns) < columns + int(table.has_counting_index()):
        raise InputError(
            f"{field}={str(file)!r} has {len(table.columns)} columns, but {columns} of ids are "
            "needed: add them."
        )
    return table
