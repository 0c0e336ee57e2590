"""Blocks that keep every visible edge of their targets."""

from __future__ import annotations

import numpy as np

from bliss.arrays import IntArray
from bliss.graph import Rows
from bliss.kernels import nodewise
from bliss.nn.block import Block


def full_block(rows: Rows, number: IntArray) -> Block:
    """Block that keeps every visible edge of the targets: p_j = 1, weights alpha_ij.

    number int[V] is scratch memory, all zero on entry and on return
    """
    indptr, edge = rows.edges()
    source, row = nodewise.relabel(rows.graph.indices, rows.dst, edge, number)
    weight = rows.coefficients(source, indptr, row, edge)
    certain = np.ones(edge.size, np.float32)
    targets = source[: rows.dst.size]
    arrays = (targets, source, indptr, row, edge, certain, weight)
    return Block.from_arrays(*arrays, prob=np.ones(source.size, np.float32), rows=rows)
