"""Full-neighbour inference: layer by layer, in chunks of bounded size, for all nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bliss.block import Block
from bliss.graph import Graph
from bliss.nn.model import GNN
from bliss.samplers import Full


def full_sampler(graph: Graph, layers: int) -> Full:
    """A sampler that keeps everything."""
    return Full(graph, layers=layers)


@torch.no_grad()
def infer(
    model: GNN,
    graph: Graph,
    x: Tensor,
    *,
    chunk_edges: int = 500_000,
    chunk_bytes: int = 2**29,
    device: torch.device | str = "cpu",
    progress: Callable[[float], None] | None = None,
) -> Tensor:
    """Logits of all nodes from full neighbourhoods.

    A chunk has at most `chunk_edges` edges, and inputs of at most `chunk_bytes` (those of one node
    at least), so memory holds one layer's outputs for all nodes, and the inputs of one chunk.

    x        [V, F], may be memory-mapped
    returns  float32[V, out] on the CPU
    """
    for number in range(model.config.layers):

        def share(done: float, number: int = number) -> None:
            if progress:
                progress((number + done) / model.config.layers)

        x = infer_layer(model, number, graph, x, chunk_edges, chunk_bytes, device, share)
    return x


@torch.no_grad()
def infer_layer(
    model: GNN,
    number: int,
    graph: Graph,
    x: Tensor,
    chunk_edges: int = 500_000,
    chunk_bytes: int = 2**29,
    device: torch.device | str = "cpu",
    progress: Callable[[float], None] | None = None,
) -> Tensor:
    """One layer's outputs for all nodes from its inputs at all nodes. [V, in] -> [V, out]."""
    was_training = model.training
    model.eval()
    try:
        sampler = full_sampler(graph, 1)
        if x.nbytes > chunk_bytes:
            chunk_edges = min(chunk_edges, chunk_bytes // x[:1].nbytes)
        chunks = list(_chunks(graph, chunk_edges))
        out = torch.empty(graph.num_nodes, model.widths[number + 1])
        for position, nodes in enumerate(chunks):
            block: Block = sampler.sample(nodes, 0)[0]
            inputs = x.index_select(0, block.src).to(device)
            out[block.dst] = model.layer(number, inputs, block.to(device)).to("cpu", torch.float32)
            del inputs  # before the next chunk's are there
            if progress:
                progress((position + 1) / len(chunks))
    finally:
        model.train(was_training)
    return out


def _chunks(graph: Graph, most: int) -> Iterator[npt.NDArray[Any]]:
    """Runs of nodes which, with their in-edges, are at most `most`, or single nodes.

    That is also the largest number of sources that a run can have.
    """
    start, size = 0, graph.indptr + np.arange(graph.num_nodes + 1)
    while start < graph.num_nodes:
        stop = int(np.searchsorted(size, size[start] + most, side="right")) - 1
        stop = min(max(stop, start + 1), graph.num_nodes)
        yield np.arange(start, stop)
        start = stop
