"""Full-neighbour inference for all nodes: layer by layer, in chunks of bounded size."""

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
    """Sampler that keeps all in-edges."""
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

    Memory holds one layer's outputs for all nodes and the inputs of one chunk.

    Parameters
    ----------
    model
        A network on `device`. It is set to evaluation mode, and its mode is restored at the end.
    graph
        The graph, with V nodes.
    x
        Features [V, F]; may be memory-mapped.
    chunk_edges, chunk_bytes
        Maximum number of edges of a chunk, and of bytes of its inputs. A chunk has at least one
        node.
    device
        Device on which chunks are computed.
    progress
        Called after every chunk with the share of the work that is done, in (0, 1]. An exception
        that it raises stops the inference and reaches the caller.

    Returns
    -------
    Tensor
        Logits, float32[V, out], on the CPU.
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
    """One layer's outputs at all nodes, from its inputs at all nodes. [V, in] -> [V, out]."""
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
            inputs = x.index_select(0, block.src.to(x.device)).to(device)
            out[block.dst] = model.layer(number, inputs, block.to(device)).to("cpu", torch.float32)
            del inputs  # free them before the next chunk is gathered
            if progress:
                progress((position + 1) / len(chunks))
    finally:
        model.train(was_training)
    return out


def _chunks(graph: Graph, most: int) -> Iterator[npt.NDArray[Any]]:
    """Ranges of nodes: nodes plus in-edges are at most `most`, unless the range is one node.

    `most` is then also a bound on the number of sources.
    """
    start, size = 0, graph.indptr + np.arange(graph.num_nodes + 1)
    while start < graph.num_nodes:
        stop = int(np.searchsorted(size, size[start] + most, side="right")) - 1
        stop = min(max(stop, start + 1), graph.num_nodes)
        yield np.arange(start, stop)
        start = stop
