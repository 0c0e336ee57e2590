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


def read_pairs(file: Path, sources: Nodes, targets: Nodes, edge_type: EdgeType | None) -> IntArray:
    """Pairs from a table with the columns src and dst, or two columns. int64[2, P].

    Columns may also be called as the types of a relation.
    """
    return table_pairs("pairs", file, sources, targets, edge_type)[0]


def table_pairs(
    field: str, file: Path, sources: Nodes, targets: Nodes, edge_type: EdgeType | None
) -> tuple[IntArray, Table]:
    """Pairs of a table, see `read_pairs`, and the table."""
    table = _table(field, file, header_names(edge_type), 2)
    first = int(table.has_counting_index())
    known = end_names(table.names, edge_type)
    places = [place for names in known for place in table.places(*names)] or [first, first + 1]
    if len(places) != 2:
        raise InputError(
            f"{field}={str(file)!r} must have one column of sources and one of targets: call them "
            "src and dst."
        )
    ends = zip((sources, targets), places, strict=True)
    pairs = [nodes.find(field, id_column(field, table, place)) for nodes, place in ends]
    return np.stack(pairs), table


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
