"""Expected squared error V of a layer's aggregates in closed form, and its least possible value.

The sources j of a layer are kept independently, with probabilities p_j. From exact embeddings h_j
and coefficients alpha_ij,

    V(p) = sum_j (1 / p_j - 1) c_j,    c_j = |h_j|^2 sum_i g_i^2 alpha_ij^2

with g_i = 1, or the influence of target i on the loss (`bliss.samplers.influence`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bliss.arrays import NOTHING, FloatArray, IntArray
from bliss.graph import Cutoff, Graph, HiddenEdges
from bliss.kernels import frontier
from bliss.nn import GNN, infer_layer
from bliss.nn.block import Block
from bliss.samplers import PLADIES, Full, LayerSampler
from bliss.samplers.history import History


class Stake(NamedTuple):
    """c_j of each candidate of a layer, targets first. float64[C] each."""

    absolute: FloatArray  # all targets alike
    weighted: FloatArray  # each target by its influence


class Targets(NamedTuple):
    """The targets of one layer of one batch."""

    node: IntArray  # int64[D]
    influence: FloatArray  # float64[D] g_i^2
    without: HiddenEdges | None = None  # edges that the batch does not see
    cutoff: Cutoff | None = None  # [D] times that each target may see; None: all


@dataclass(frozen=True)
class Frontier:
    """The targets of one layer of one batch, and c_j of their candidates."""

    layer: int
    targets: IntArray  # int64[D]
    influence: FloatArray  # float64[D] g_i^2
    stake: Stake
    changed: Mapping[str, Stake] = field(default_factory=dict)  # by the name of a history
    without: HiddenEdges | None = None
    cutoff: Cutoff | None = None

    @property
    def num_targets(self) -> int:
        """Candidates that are targets: a node at several times is one."""
        return self.targets.size if self.cutoff is None else np.unique(self.targets).size


def stakes(block: Block, alpha: Tensor, size: Tensor, influence: FloatArray) -> Stake:
    """c_j of a layer whose block holds every in-edge of its targets.

        absolute  c_j = s_j^2 sum_i alpha_ij^2
        weighted  c_j = s_j^2 sum_i g_i^2 alpha_ij^2

    s_j is the size of what is sampled: |h_j| or, with a history, |h_j - h~_j|. They belong to the
    errors sum_i |mu_hat_i - mu_i|^2 and sum_i g_i^2 |mu_hat_i - mu_i|^2.

    alpha [E'], size s_j [S], influence g_i^2 [D] -> float64[S] each
    """
    return _stakes(block.row, block.col, alpha, size, influence)


def _stakes(row: Tensor, col: Tensor, alpha: Tensor, size: Tensor, influence: FloatArray) -> Stake:
    """The same for edges from sources `row` to targets `col` [E']."""
    squared = alpha.double().square()
    sums = torch.zeros(2, size.numel(), dtype=torch.float64)
    sums[0].index_add_(0, row, squared)
    sums[1].index_add_(0, row, squared * torch.from_numpy(influence)[col])
    absolute, weighted = (size.double().square() * sums).numpy()
    return Stake(absolute, weighted)


def error(prob: FloatArray, stake: FloatArray) -> float:
    """V(p) = sum_j (1 / p_j - 1) c_j, the expected squared error of the aggregates."""
    at_stake = stake > 0
    return float(((1 / prob[at_stake] - 1) * stake[at_stake]).sum())


def least_error(prob: FloatArray, num_dst: int, stake: FloatArray) -> float:
    """The limit: the least V of any probabilities that keep as many sources on average.

    The first num_dst candidates are targets and always kept. For the others the limit is reached
    by p_j = min(1, c sqrt(c_j)) with the same sum as `prob`.
    """
    mass, number = np.sqrt(stake[num_dst:]), float(prob[num_dst:].sum())
    if (mass > 0).sum() <= number:
        return 0.0
    best = np.minimum(mass * frontier.fit_scale(mass, number), 1.0)
    return error(best, stake[num_dst:])


def exact_frontiers(
    model: GNN,
    graph: Graph,
    x: Tensor,
    targets: Sequence[Sequence[Targets]],
    histories: Mapping[str, History] | None = None,
) -> list[Frontier]:
    """Stakes from the embeddings and the attention of full neighbourhoods.

    targets holds, for each layer, the targets of some batches. x is [V, F], on the CPU; the model
    may be on any device. With times, embeddings are those of sources shared in time (`timed`).
    For each history, the frontiers of its layers also hold the stakes of the changes |h_j - h~_j|.
    Edges that a batch hides are missing among those of its targets; the embeddings h_j are those of
    the whole graph.
    """
    sampler, layers, frontiers, device = Full(graph, layers=1), list(model), [], model.device
    features, known = x, histories or {}
    for layer, batches in enumerate(targets):
        size = torch.linalg.vector_norm(model.messages(x), dim=1)
        for dst, influence, without, cutoff in batches:
            if cutoff is not None:
                given = Targets(dst, influence, without, cutoff)
                frontiers.append(timed(model, graph, features, layer, given))
                continue
            (block,) = sampler.sample(dst, 0, without=without)
            alpha = block.edge_weight
            if model.config.is_attention:
                inputs = x.index_select(0, block.src).to(device)
                alpha = model.attention(layer, inputs, block.to(device)).cpu()
            own = size[block.src]
            above = {n: (one, layer - len(targets) + one.layers) for n, one in known.items()}
            changes = {n: _change(x, *at, block) for n, at in above.items() if at[1] >= 0}
            stake = stakes(block, alpha, own, influence)
            changed = {
                name: stakes(block, alpha, change, influence) for name, change in changes.items()
            }
            frontiers.append(Frontier(layer, dst, influence, stake, changed, without))
        if layer + 1 < len(targets) and not graph.has_times:
            x = infer_layer(layers[layer], graph, x, device=device)
    return frontiers


def shared_full(graph: Graph, layers: int) -> LayerSampler:
    """All neighbours, p_j = 1, with sources that a layer-wise sampler shares in time."""
    return PLADIES(graph, [-1] * layers, estimator="ht")


def timed(model: GNN, graph: Graph, x: Tensor, layer: int, targets: Targets) -> Frontier:
    """Stakes of targets with times, from exact embeddings of the sources that they share.

    A source that a layer-wise sampler shares sees no later than any of its targets. Its embedding
    is that of the network over all sources below, shared in the same way. Parallel edges j -> i are
    drawn together: alpha_ij is their sum. A node that is a target is kept with certainty; any other
    node is one source.

        c_j = |h_j|^2 sum_i g_i^2 (sum of alpha over the edges j -> i)^2
    """
    dst, influence, without, cutoff = targets
    full, device = shared_full(graph, layer + 1), model.device
    blocks = full.sample(dst, 0, without=without, time=cutoff)
    inputs = x.index_select(0, blocks[0].src).to(device)
    for own, block in zip(list(model)[:layer], blocks, strict=False):
        inputs = own(inputs, block.to(device))
    block = blocks[-1]
    alpha = block.edge_weight
    if model.config.is_attention:
        alpha = model.attention(layer, inputs, block.to(device)).cpu()
    size = torch.linalg.vector_norm(model.messages(inputs), dim=1).cpu()
    pair, place = torch.unique(block.col * block.num_src + block.row, return_inverse=True)
    total = torch.zeros(pair.numel(), dtype=torch.float64).index_add_(0, place, alpha.double())
    row, col = pair % block.num_src, pair // block.num_src
    of_source, node = _stakes(row, col, total, size, influence), block.src.numpy()
    candidate = full.inclusion(dst, layer, NOTHING, without, cutoff).candidate
    sums = [np.bincount(node, one, graph.num_nodes).astype(float) for one in of_source]
    stake = Stake(*(one[candidate] for one in sums))
    return Frontier(layer, dst, influence, stake, {}, without, cutoff)


def _change(x: Tensor, history: History, layer: int, block: Block) -> Tensor:
    """|h_j - h~_j| of a block's sources, from the inputs x [V, F] of a sampled layer. [S]."""
    known = torch.from_numpy(history.value(layer)[block.src.numpy()])
    size: Tensor = torch.linalg.vector_norm(x[block.src] - known, dim=1)
    return size
