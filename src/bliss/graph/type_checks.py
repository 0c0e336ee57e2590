"""Checks of the types of a graph that comes from files."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bliss.arrays import IntArray
from bliss.errors import InputError
from bliss.graph.graph_types import GraphTypes

_CHUNK = 2**22  # groups, or edges, that are looked at together


def check_types(types: GraphTypes, indptr: IntArray, indices: IntArray) -> None:
    """Raise an error unless every group has edges of one relation between its types, in order.

    The groups of node i are the ranges of its edges indptr[i] to indptr[i + 1], none of them empty,
    with ascending relations whose target type is that of i; sources are of the source type.
    """
    types.check(indptr.size - 1, indices.size)
    for problem in _problems(types, indptr, indices):
        raise InputError(f"the types of the graph are damaged, {problem}: import the graph again.")


def _problems(types: GraphTypes, indptr: IntArray, indices: IntArray) -> Iterator[str]:
    """Problems, of which the later ones are looked for only if there is none before."""
    pointer, start, relation = types.arrays
    if pointer[0] != 0 or start[0] != 0 or (np.diff(pointer) < 0).any():
        yield "its pointers to groups decrease"
    if (np.diff(start) <= 0).any():
        yield "a group has no edges"
    if not np.array_equal(start[pointer], indptr):
        yield "the groups of a node are not its edges"
    number = len(types.edge_types)
    if relation.size and not 0 <= relation.min() <= relation.max() < number:
        yield f"a relation is not one of {number}"
    node = np.repeat(np.arange(indptr.size - 1), np.diff(pointer))
    if (types.ends[1][relation] != types.type_of(node)).any():
        yield "a relation leads to nodes of another type"
    is_same = node[1:] == node[:-1]
    if (relation[1:][is_same] <= relation[:-1][is_same]).any():
        yield "the relations of a node are not in order"
    low = types.node_ptr[types.ends[0]][relation]
    high = types.node_ptr[types.ends[0] + 1][relation]
    for first in range(0, relation.size, _CHUNK):
        some = slice(first, min(first + _CHUNK, relation.size))
        begin = start[some]
        source = indices[begin[0] : start[some.stop]]
        least = np.minimum.reduceat(source, begin - begin[0])
        most = np.maximum.reduceat(source, begin - begin[0])
        if (least < low[some]).any() or (most >= high[some]).any():
            yield "a source is of another type than its relation says"
