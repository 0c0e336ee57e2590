"""The exact first hop: features aggregated once, so that the input layer is not sampled."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from bliss.arrays import FloatArray
from bliss.graph import Graph, Rows
from bliss.nn.block import Block, Control
from bliss.storage.cached import cached_npy
from bliss.storage.digests import array_digest
from bliss.storage.mapped import RowReader

SUM_BYTES_IN_MEMORY = 2**28
"""Bytes above which aggregated features are memory-mapped, if there is a folder for them."""
_CHUNK = 2**25  # bytes computed at a time


class FirstHop:
    """Aggregated features of every node, and blocks that hold them in place of edges.

        z_i = sum over all in-edges of alpha_ij x_j

    Features do not change in training, so this sum is computed once. A layer that aggregates them
    needs no sources other than its targets and has no sampling error.

    Parameters
    ----------
    graph
        The graph, with V nodes.
    features
        float32[V, F].
    folder
        Where to keep aggregated features of more than SUM_BYTES_IN_MEMORY, as a memory-mapped file.
        The file is named by a digest of graph and features, so another run with the same data uses
        it again.
    """

    def __init__(self, graph: Graph, features: FloatArray, folder: Path | None = None) -> None:
        self.sums: FloatArray
        self._features = features
        self._reader: RowReader | None = None  # reads sums that are mapped
        if folder is None or features.nbytes <= SUM_BYTES_IN_MEMORY:
            self.sums = np.empty(features.shape, np.float32)
            _fill(self.sums, graph, features)
            return
        path = folder / f"first-hop-{_key(graph, features)}.npy"
        fill = partial(_fill, graph=graph, features=features)
        self.sums = cached_npy(path, features.shape, np.float32, fill, "aggregated features")
        self._reader = RowReader.of(self.sums)

    def block(self, rows: Rows) -> Block:
        """Block of the targets of `rows`: no edges, and the exact aggregate as its baseline."""
        dst = rows.dst
        none, nothing = np.empty(0, np.int64), np.empty(0, np.float32)
        pointers = np.zeros(dst.size + 1, np.int64)
        block = Block.from_arrays(dst, dst, pointers, none, none, nothing, nothing, rows=rows)
        sums = self.sums[dst] if self._reader is None else self._reader(dst)
        baseline = rows.visible_sums(sums, self._features)
        return replace(block, control=Control(torch.from_numpy(baseline)))


def _fill(sums: FloatArray, graph: Graph, features: FloatArray) -> None:
    """Compute all sums, a chunk of nodes at a time."""
    size = max(1, _CHUNK // max(4 * features.shape[1], 1))
    for start in range(0, graph.num_nodes, size):
        nodes = np.arange(start, min(start + size, graph.num_nodes))
        sums[nodes[0] : nodes[-1] + 1] = graph.rows(nodes).full_sums(features)


def _key(graph: Graph, features: FloatArray) -> str:
    """Name of the sums of a graph and its features."""
    content = array_digest(graph.indptr, graph.indices, graph.weight, features)
    return f"{graph.norm}-{content}"
