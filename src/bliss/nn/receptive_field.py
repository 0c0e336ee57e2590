"""Nodes whose outputs a network needs, layer by layer, for its outputs at some nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from bliss.arrays import IntArray
from bliss.graph import Graph
from bliss.graph.csc import ranges
from bliss.kernels import nodewise

_MARKED = 2**18  # nodes marked between two calls of `progress`


def needed_nodes(
    graph: Graph, nodes: IntArray, layers: int, progress: Callable[[float], None] | None = None
) -> list[IntArray]:
    """Nodes at which the output of each layer is needed, input layer first. int64[N_l] each.

        N_L = nodes,    N_{l-1} = N_l and every source of an in-edge of N_l

    `nodes` keep their order, other layers are sorted by id. `progress` is called with 0 about
    every second, and may raise to stop.
    """
    needed = [nodes]
    for _ in range(layers - 1):
        above = needed[-1]
        mark = np.zeros(graph.num_nodes, np.bool_)
        mark[above] = True
        for start in range(0, above.size, _MARKED):
            some = graph.rows(above[start : start + _MARKED])
            nodewise.mark_sources(some.start, some.stop, graph.indices, mark)
            if progress:
                progress(0.0)
        needed.append(np.flatnonzero(mark))
    return needed[::-1]


def chunks(graph: Graph, most: int, nodes: IntArray | None = None) -> Iterator[tuple[int, int]]:
    """Ranges of positions in `nodes`, by default all nodes: start and stop.

    The nodes of a range plus their in-edges are at most `most`, unless the range is one node.
    `most` is then also a bound on the number of sources.
    """
    if nodes is None:
        size = graph.indptr + np.arange(graph.num_nodes + 1)
    else:
        size = np.zeros(nodes.size + 1, np.int64)
        np.cumsum(graph.indptr[nodes + 1] - graph.indptr[nodes] + 1, out=size[1:])
    return ranges(size, most)
