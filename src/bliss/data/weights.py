"""Weights of the edges of a store: those of self-loops, and warnings about the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bliss.data.npy import map_npy
from bliss.graph import Norm
from bliss.graph.csc import mean_self_loops, ranges

_CHUNK = 1 << 22  # edges


def weigh_self_loops(folder: Path, norm: Norm) -> list[str]:
    """Set the weights of self-loops for a norm, chunk by chunk; returns notes about weights.

    The folder holds indptr.npy, indices.npy and weight.npy, with one self-loop of weight 1 per
    node. With norm="weighted-mean", it gets the mean weight of the node's other in-edges.
    """
    indptr, indices = map_npy(folder / "indptr.npy"), map_npy(folder / "indices.npy")
    weight = np.load(folder / "weight.npy", mmap_mode="r+")
    zeros = 0
    for start, stop in ranges(indptr, _CHUNK):
        own = slice(int(indptr[start]), int(indptr[stop]))
        pointers = indptr[start : stop + 1] - indptr[start]
        mean, others = mean_self_loops(pointers, indices[own], weight[own], start)
        zeros += int(np.count_nonzero((others == 0) & (np.diff(pointers) > 1)))
        if norm == "weighted-mean":
            weight[own] = mean
    weight.flush()
    if not zeros:
        return []
    return [f"Nodes whose in-edges all have weight 0, so that they see only themselves: {zeros:,}."]
