"""Inference that projects all nodes first, where projections are narrower than inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

import numpy as np
import torch
from torch import Tensor

from bliss.arrays import IntArray
from bliss.graph import Graph
from bliss.nn.block import Block
from bliss.nn.layers import Layer, ProjectingLayer
from bliss.nn.outputs import Outputs
from bliss.storage.mapped import RowReader, Watch, release

KINDS = (torch.float16, torch.float32)
"""Types of inputs that are projected first: projections are in float32."""
_MOST_PRODUCTS = 10**10  # of a chunk, so that `progress` is called about every second


@dataclass(frozen=True)
class Projected:
    """A layer over the projections of its inputs: [S, K], block -> [D, F']."""

    layer: ProjectingLayer
    projections: Outputs  # [N, K], in memory or on disk
    norm: Tensor | None  # float32[N] of the inputs, for a survey

    def __call__(self, projected: Tensor, block: Block) -> Tensor:
        """Output of the targets."""
        if self.norm is None:
            return self.layer.combine(projected, block)
        observed = self.norm[block.src.cpu(), None].to(projected.device)
        out = self.layer.combine(projected, block, observed)
        if block.observation is None:
            block.observe(observed)
        return out


def is_cheaper(
    layer: Layer, graph: Graph, x: Tensor, nodes: IntArray | None
) -> TypeGuard[ProjectingLayer]:
    """Whether to project the inputs x [N, F] of a layer before its outputs at `nodes` are computed.

    Without projections, a row of x is gathered for every source of every chunk, at most one per
    edge. Projections are kept on the CPU, so inputs on another device are not projected.
    """
    if not isinstance(layer, ProjectingLayer) or layer.projected_width is None:
        return False
    if x.device.type != "cpu" or x.dtype not in KINDS:
        return False
    if 4 * layer.projected_width >= x.size(1) * x.element_size():
        return False
    if nodes is None:
        return True
    return int((graph.indptr[nodes + 1] - graph.indptr[nodes]).sum()) >= x.size(0)


def project(
    layer: ProjectingLayer,
    x: Tensor,
    rows: RowReader | None,
    place: Path | None,
    room: int,
    chunk_bytes: int,
    device: torch.device | str,
    is_surveyed: bool,
    progress: Callable[[], None],
) -> Projected:
    """Project all inputs x [N, F] of a layer for which this `is_cheaper`, chunk by chunk.

    rows: reads x from a file, if it is in one.
    place, room: of the projections, as in `Outputs`.
    progress: called after every chunk.
    """
    width = layer.projected_width or 0
    out = Outputs((x.size(0), width), place, room)
    held = [x.detach().numpy()] if type(x) is Tensor else []
    watch, touched = Watch(held), 0
    norm = torch.empty(x.size(0)) if is_surveyed else None
    most = max(min(chunk_bytes // 4, _MOST_PRODUCTS // max(width, 1)) // x.size(1), 1)
    for start in range(0, x.size(0), most):
        watch.check()
        stop = min(start + most, x.size(0))
        part = x[start:stop] if rows is None else torch.from_numpy(rows(np.arange(start, stop)))
        part = part.to(device, torch.float32)
        out.write(start, layer.project(part).to("cpu", torch.float32))
        if norm is not None:
            norm[start:stop] = torch.linalg.vector_norm(part, dim=1).cpu()
        touched += part.nbytes
        if touched > chunk_bytes:
            release(held)
            touched = 0
        progress()
    return Projected(layer, out, norm)
