"""The contracts at which the parts meet: arrays, the mass of edges, a block, its feedback."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bliss.arrays import FloatArray, IntArray
from bliss.errors import InputError

# torch says once per process that CSR is in beta; `Block.matrix` uses only what is settled.
warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")


NOTHING: FloatArray = np.empty(0, np.float64)
"""An absent array, for kernels that take an optional one."""


class EdgeMass(NamedTuple):
    """What a policy says of the in-edges of D targets: c_ij = offset_i + slope_i value_ij.

    This form covers coefficients that are constant in a row (slope 0, nothing read per edge),
    given edge weights, and a bandit's lazily normalised distribution.
    """

    offset: FloatArray  # float64[D]
    slope: FloatArray  # float64[D]
    value: FloatArray  # [E], or empty where every slope is 0


class NodeCodes(NamedTuple):
    """A factor per node, kept as one byte: that of node j is table[code[j]]."""

    code: npt.NDArray[np.uint8]  # [V], or empty where every factor is 1
    table: npt.NDArray[np.float32]  # [256]


NO_CODES = NodeCodes(np.empty(0, np.uint8), np.empty(0, np.float32))


class Feedback(NamedTuple):
    """What one sampled layer has taught: all that a policy learns from, and plain arrays only.

    Processes exchange these, never state.
    """

    dst: IntArray  # [D] graph ids
    src: IntArray  # [S] graph ids; src[:D] is dst
    indptr: IntArray  # [D + 1] kept edges by target
    row: IntArray  # [E'] position in src
    edge: IntArray  # [E'] graph edge id
    prob: FloatArray  # [S] inclusion probability p_j
    norm: FloatArray  # [S] |h_j|, the size of the layer's input at each source
    attention: FloatArray  # [E'] softmax over the kept edges, mean of heads; empty without
    edge_chance: FloatArray = NOTHING  # [E'] as in `Block`; empty where sources are drawn
    input: FloatArray = NOTHING  # float32[S, F] h_j itself; empty unless the block keeps it


@dataclass(eq=False)
class Block:
    """One sampled layer: D targets, S sources, E' kept edges grouped by target.

    A bipartite graph for message passing, and all that is known of its draw.
    """

    dst: Tensor  # int64[D] graph ids of the targets
    src: Tensor  # int64[S] graph ids of the sources; src[:D] is dst
    indptr: Tensor  # int64[D + 1] kept edges of target t: indptr[t] to indptr[t + 1]
    row: Tensor  # int64[E'] position in src
    edge: Tensor  # int64[E'] graph edge id: where feedback is written back
    prob: Tensor  # float32[S] chance that the source was kept (p_j), in (0, 1]; see edge_prob
    edge_weight: Tensor  # float32[E'] the estimator's weight, alpha_ij / p_j for "ht"
    norm: Tensor | None = field(default=None, repr=False)  # [S] |h_j|, once observed
    attention: Tensor | None = field(default=None, repr=False)  # [E'] mean of heads
    edge_chance: Tensor | None = field(default=None, repr=False)  # float32[E'], see edge_prob
    dst_weight: Tensor | None = None  # float32[D] share of each target in the loss; None: 1 / D
    history: Tensor | None = field(default=None, repr=False)  # float32[S, F] control variate
    baseline: Tensor | None = field(default=None, repr=False)  # float32[D, F], see aggregate
    input: Tensor | None = field(default=None, repr=False)  # float32[S, F], see remember

    @property
    def num_dst(self) -> int:
        """The number of targets, D."""
        return self.dst.numel()

    @property
    def num_src(self) -> int:
        """The number of sources, S; the first D of them are the targets."""
        return self.src.numel()

    @property
    def num_edges(self) -> int:
        """The number of kept edges, E'."""
        return self.row.numel()

    @cached_property
    def col(self) -> Tensor:
        """Position in dst of each edge's target. int64[E']."""
        targets = torch.arange(self.num_dst, device=self.indptr.device)
        return targets.repeat_interleave(self.indptr.diff(), output_size=self.num_edges)

    @cached_property
    def edge_prob(self) -> Tensor:
        """The chance that an edge was kept; with "ht" its weight is alpha_ij over it. float32[E'].

        Layer-wise samplers draw sources, and all edges of a kept source are kept: the chance is
        p_j. Node-wise samplers draw edges, each target its own, so that an edge has a chance of its
        own, `edge_chance`, and p_j is not what weights or attention are corrected by; `prob` is
        then 1. With replacement an edge can be there several times, and this is the expected
        number of times.
        """
        return self.prob[self.row] if self.edge_chance is None else self.edge_chance

    @cached_property
    def edge_index(self) -> Tensor:
        """(row, col) as PyG's bipartite convolutions take it. int64[2, E']."""
        return torch.stack([self.row, self.col])

    @property
    def matrix(self) -> Tensor:
        """The weights as a sparse CSR matrix [D, S]: `block.matrix @ x` aggregates."""
        return torch.sparse_csr_tensor(
            self.indptr,
            self.row,
            self.edge_weight,
            size=(self.num_dst, self.num_src),
            check_invariants=False,  # columns are neither sorted nor, with duplicates, distinct
        )

    def observe(self, x: Tensor, attention: Tensor | tuple[Tensor, Tensor] | None = None) -> None:
        """Note what the policy learns from; costs one pass over x and keeps no graph of it.

        Parameters
        ----------
        x
            The layer's input at its sources, [S, F].
        attention
            For attention layers: the softmax of the plain scores over the kept edges of each
            target (without importance correction), [E'] or [E', heads], in the order of
            `edge_index`; or the pair (edge_index, attention) that PyG's convolutions return with
            `return_attention_weights=True`. Build those with `add_self_loops=False`: a block has
            its self-loops already, and PyG would move them to the end.
        """
        if x.ndim != 2 or x.size(0) != self.num_src or not x.is_floating_point():
            raise InputError(
                f"x is {x.dtype} of shape {tuple(x.shape)}, but the block has {self.num_src} "
                "sources: observe the layer's input, one row of numbers per source."
            )
        if not self.is_remembered:
            self.remember(x)
        kind = torch.promote_types(x.dtype, torch.float32)  # half precision would overflow
        self.norm = torch.linalg.vector_norm(x.detach(), dim=1, dtype=kind).to(torch.float32)
        self.attention = None if attention is None else self._mean_attention(attention)

    def remember(self, x: Tensor) -> None:
        """Keep the layer's input for a sampler that asks for it, by an empty `input`. x [S, F].

        Call it before dropout: what is remembered is then the mean of what the layer gets, and
        gradients flow through it (see `nn.aggregate`). `observe` does it for those who do not.
        """
        if self.input is not None:
            self.input = x.to(torch.float32)

    @property
    def is_remembered(self) -> bool:
        """Whether the layer's input was kept."""
        return self.input is not None and self.input.ndim == 2

    def _mean_attention(self, attention: Tensor | tuple[Tensor, Tensor]) -> Tensor:
        """Check attention and average it over heads. [E'] or [E', heads] -> float32[E']."""
        if isinstance(attention, tuple):
            edge_index, attention = attention
            if not torch.equal(edge_index, self.edge_index):
                raise InputError(
                    "attention is for other edges than the block's, as when a convolution moves "
                    "self-loops: build it with add_self_loops=False."
                )
        if attention.ndim == 0 or attention.size(0) != self.num_edges:
            raise InputError(
                f"attention has shape {tuple(attention.shape)}, but the block has "
                f"{self.num_edges} edges: pass one row per edge, in the order of edge_index."
            )
        mean = attention.detach().to(torch.float32)
        if mean.ndim > 1:
            mean = mean.flatten(1).mean(dim=1)
        if (mean < 0).any():
            raise InputError(
                f"attention holds {mean.min().item():.3g}, but a softmax is never negative: pass "
                "weights, not scores."
            )
        return mean

    def feedback(self) -> Feedback:
        """What was observed, as plain arrays."""
        if self.norm is None:
            raise InputError(
                "this block was not observed, so there is nothing to learn from: call "
                "block.observe(x) in the forward pass, before sampler.update(blocks)."
            )
        feedback = Feedback(
            dst=_to_numpy(self.dst),
            src=_to_numpy(self.src),
            indptr=_to_numpy(self.indptr),
            row=_to_numpy(self.row),
            edge=_to_numpy(self.edge),
            prob=_to_numpy(self.prob),
            norm=_to_numpy(self.norm),
            attention=NOTHING if self.attention is None else _to_numpy(self.attention),
            edge_chance=NOTHING if self.edge_chance is None else _to_numpy(self.edge_chance),
            input=NOTHING if self.input is None else _to_numpy(self.input.detach()),
        )
        for name in ("norm", "attention", "input"):
            if not np.isfinite(getattr(feedback, name)).all():
                raise InputError(
                    f"the observed {name} holds NaN or infinity, so there is nothing to learn from "
                    "it: the network has diverged, lower the learning rate."
                )
        return feedback

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Block:
        """Copy to a device."""
        return self._apply(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def cpu(self) -> Block:
        """Copy to the CPU."""
        return self.to("cpu")

    def cuda(self, device: int | str | None = None, non_blocking: bool = False) -> Block:
        """Copy to a GPU."""
        return self._apply(lambda tensor: tensor.cuda(device, non_blocking=non_blocking))

    def pin_memory(self) -> Block:
        """Copy to page-locked memory."""
        return self._apply(lambda tensor: tensor.pin_memory())

    def _apply(self, move: Callable[[Tensor], Tensor]) -> Block:
        tensors = {member.name: getattr(self, member.name) for member in fields(self)}
        return replace(self, **{k: move(v) for k, v in tensors.items() if v is not None})


def _to_numpy(tensor: Tensor) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = (tensor if tensor.device.type == "cpu" else tensor.cpu()).numpy()
    return array
