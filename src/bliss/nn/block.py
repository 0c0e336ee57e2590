"""`Block`: one sampled layer, its observation and its control variate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from bliss.arrays import Array
from bliss.errors import InputError
from bliss.feedback import Feedback
from bliss.graph import Cutoff, EdgeType, Graph, GraphTypes, Rows
from bliss.kernels import pool
from bliss.nn.control import Control, TypedControl, check_width
from bliss.nn.propagation import propagate
from bliss.nn.relation_edges import edges_by_source, message_sizes
from bliss.nn.squared_errors import squared_errors
from bliss.nn.typed_block import TypedView

# Kernels do not import torch, so its number of threads is passed to them here.
pool.follow(torch.get_num_threads, Path(torch.__file__).parent / "lib" / "libtorch_cpu.so")


Watch = Literal["none", "whole", "centred"]


@dataclass(frozen=True, eq=False)
class Observation:
    """Quantities of one layer observed in the forward pass."""

    norm: Tensor  # float32[S] |h_j|, norm of each source's input; |h_j - h~_j| with a history
    attention: Tensor | None = None  # float32[E'] softmax over the kept edges, mean of heads
    message: Tensor | None = None  # float32[E'] |W_r h_j|, if the layer has a map per relation
    input: Tensor | None = None  # float32[S, F] h_j itself, if the block keeps it
    watched: Tensor | None = None  # int64[N] edges whose errors were measured; see `watch`
    spread: Tensor | None = None  # float32[N] squared errors of these edges


@dataclass(frozen=True, eq=False, repr=False)
class Block:
    """One sampled layer: D targets, S sources, E' kept edges grouped by target.

    A bipartite graph for message passing with the probabilities of its draw. The draw is immutable;
    `observe` sets `observation`, once per forward pass.
    """

    dst: Tensor  # int64[D] graph ids of the targets
    src: Tensor  # int64[S] graph ids of the sources; src[:D] is dst
    indptr: Tensor  # int64[D + 1] kept edges of target t: indptr[t] to indptr[t + 1]
    row: Tensor  # int64[E'] position in src
    edge: Tensor  # int64[E'] graph edge id
    edge_prob: Tensor  # float32[E'] probability that the edge was kept; see below
    edge_weight: Tensor  # float32[E'] the estimator's weight, alpha_ij / edge_prob for "ht"
    prob: Tensor | None = None  # float32[S] inclusion probability p_j, if sources are drawn
    dst_weight: Tensor | None = None  # float32[D] share of each target in the loss; None: 1 / D
    keeps_input: bool = False  # whether `observe` also keeps the layer's input
    watch: Watch = "none"  # errors that `observe` measures; see `squared_errors`
    is_surveyed: bool = False  # whether layers call `observe` in evaluation mode as well
    control: Control | TypedControl | None = None
    observation: Observation | None = None
    origin: Block | None = field(default=None, repr=False)  # the CPU block this is a copy of
    rows: Rows | None = field(default=None, repr=False)  # the edges that the targets could see
    group_indptr: Tensor | None = None  # int64[G + 1] kept edges by group of rows; None: indptr
    cutoff: Cutoff | None = None  # [S] times that each source may see in the layer below; None: all
    edge_type: EdgeType | None = None  # of a block of one relation; see `relations`

    """Layer-wise samplers draw sources and keep every edge of a kept source, so `edge_prob` is p_j.
    Node-wise samplers draw edges: `edge_prob` is the edge's probability or, with replacement, its
    expected number of draws, and `prob` is None. SKETCH's probabilities have no closed form:
    `edge_prob` is the inverse of the debiased correction, and `prob` is None."""

    @classmethod
    def from_arrays(
        cls,
        *draw: Array,
        prob: Array | None = None,
        rows: Rows | None = None,
        graph: Graph | None = None,
    ) -> Block:
        """Build a block from the first seven fields and prob, as NumPy arrays that it shares.

        `rows` are the edges that the targets could see: by default all in-edges in `graph`. If it
        has types, indptr [G + 1] points to the kept edges of each group of rows.
        """
        dst, src, indptr, row, edge, edge_prob, edge_weight = map(torch.from_numpy, draw)
        inclusion = None if prob is None else torch.from_numpy(prob)
        if rows is None and graph is not None:
            rows = graph.rows(draw[0])
        groups = None
        if rows is not None and rows.graph.types is not None:
            groups, indptr = indptr, torch.from_numpy(rows.by_target(draw[2]))
        draws = dst, src, indptr, row, edge, edge_prob, edge_weight
        return cls(*draws, prob=inclusion, rows=rows, group_indptr=groups)

    def __repr__(self) -> str:
        return f"Block({self.num_src} sources -> {self.num_dst} targets, {self.num_edges} edges)"

    @property
    def num_dst(self) -> int:
        """Number of targets, D."""
        return self.dst.numel()

    @property
    def num_src(self) -> int:
        """Number of sources, S; the first D of them are the targets."""
        return self.src.numel()

    @property
    def num_edges(self) -> int:
        """Number of kept edges, E'."""
        return self.row.numel()

    @cached_property
    def col(self) -> Tensor:
        """Position in dst of each edge's target. int64[E']."""
        targets = torch.arange(self.num_dst, device=self.indptr.device)
        return targets.repeat_interleave(self.indptr.diff(), output_size=self.num_edges)

    @cached_property
    def edge_index(self) -> Tensor:
        """(row, col) in the form of PyG's bipartite convolutions. int64[2, E']."""
        return torch.stack([self.row, self.col])

    @property
    def types(self) -> GraphTypes | None:
        """Types of the graph; None if it has none."""
        return None if self.rows is None else self.rows.graph.types

    @cached_property
    def by_type(self) -> TypedView:
        """The block in parts by type, if its graph has types."""
        if self.types is None:
            raise InputError(
                "the block's graph has no types of nodes and edges: build the sampler from a "
                "HeteroData, or use edge_index and num_dst."
            )
        return TypedView(self, self.types, self._visible("types"))

    @property
    def relation(self) -> Tensor:
        """Relation of each kept edge, its position in types.edge_types. int64[E']."""
        return self.by_type.relation

    @cached_property
    def edge_index_dict(self) -> dict[EdgeType, Tensor]:
        """Edges of each relation as positions within the types of their ends. int64[2, E_r].

        Within each type, the targets come first among the sources.
        """
        return self.by_type.edge_index_dict(self)

    @cached_property
    def relations(self) -> Mapping[EdgeType, Block]:
        """The edges of each relation as a block: sources of one type, targets of another.

        Positions are those of `edge_index_dict`. The targets are the first sources only if both
        types are the same. Its degrees, coefficients and control variate are the relation's own.
        """
        return self.by_type.relations(self)

    @property
    def num_dst_dict(self) -> dict[str, int]:
        """Number of targets of each type."""
        view = self.by_type
        return dict(zip(view.types.node_types, view.num_dst_by_type, strict=True))

    @property
    def num_src_dict(self) -> dict[str, int]:
        """Number of sources of each type."""
        view = self.by_type
        sizes = [place.numel() for place in view.src_place]
        return dict(zip(view.types.node_types, sizes, strict=True))

    def split(self, x: Tensor) -> dict[str, Tensor]:
        """Rows of the sources, or of the targets, by type. [S, ...] -> {type: [S_t, ...]}."""
        return self.by_type.split(x)

    def join(self, x: Mapping[str, Tensor]) -> Tensor:
        """The inverse of `split`: the rows of all types, of one width. {type: ...} -> [S, ...]."""
        return self.by_type.join(x)

    @cached_property
    def by_source(self) -> tuple[Tensor, Tensor]:
        """Edges grouped by source, for backward passes: pointers int64[S + 1], order int64[E']."""
        return edges_by_source(self.row, self.col, self.num_src, self.num_dst)

    @cached_property
    def coefficient(self) -> Tensor:
        """alpha_ij of the kept edges, the graph's coefficients. float32[E']."""
        rows, draw = self._visible("coefficients"), self.origin or self
        kept = (_to_numpy(tensor) for tensor in (draw.src, draw._groups, draw.row, draw.edge))
        return torch.from_numpy(rows.coefficients(*kept)).to(self.row.device)

    @cached_property
    def importance(self) -> Tensor:
        """edge_weight / alpha_ij: 1 / edge_prob for "ht", with the estimator's own scale otherwise.

        A sum over kept edges with these factors estimates the sum over all in-edges. float32[E'].
        """
        ratio = self.edge_weight / self.coefficient
        return torch.where(self.coefficient > 0, ratio, 1 / self.edge_prob)

    @cached_property
    def degree(self) -> Tensor:
        """|N_i|, the number of in-edges that each target could see, kept or not. int64[D]."""
        rows = self._visible("degrees")
        degree = rows.degree
        if rows.graph.types is not None:
            degree = np.bincount(rows.owner, degree, rows.dst.size).astype(np.int64)
        return torch.from_numpy(degree).to(self.row.device)

    @cached_property
    def is_full(self) -> bool:
        """Whether every in-edge of every target was kept, each with probability 1."""
        draw = self.origin or self
        whole = draw.num_edges == int(draw.degree.sum())
        return whole and bool((draw.edge_prob == 1).all()) and self.control is None

    @cached_property
    def e_id(self) -> Tensor:
        """Column of each kept edge in the user's edge_index; -1: an added self-loop. int64[E']."""
        graph, draw = self._visible("edge ids").graph, self.origin or self
        if graph.edge_id is None:
            raise InputError(
                "e_id is not known, because the graph was built without edge ids: build it with "
                "Graph.of(data, edge_ids=True). Saved graphs have no edge ids."
            )
        ids = graph.edge_id[_to_numpy(draw.edge)].astype(np.int64)
        return torch.from_numpy(ids).to(self.row.device)

    def select_edges(self, values: Tensor) -> Tensor:
        """Rows of an attribute of the user's edges for the kept edges; zeros for added self-loops.

        values [E, ...], in the order of the user's edge_index -> [E', ...], on the block's device
        """
        ids = self.e_id.to(values.device)
        rows = values.index_select(0, ids.clamp(min=0))
        is_added = (ids < 0).view(-1, *[1] * (values.ndim - 1))
        return rows.masked_fill(is_added, 0).to(self.row.device)

    def propagate(self, conv: Any, x: Any, *, observed: Any = None, **options: Any) -> Any:
        """Run a convolution of PyG on this block with the sampler's weights.

        The result estimates conv(x, graph.edge_index), or conv(x, graph.edge_index,
        graph.edge_weight) if the convolution takes edge_weight, at the targets. Sums and means of
        messages are weighted and attention is corrected by -log p_ij; docs/convolutions.md lists
        every convolution, with its measured bias. Convolutions that cannot be estimated from kept
        edges are refused. A block with a history or an exact first hop serves convolutions that are
        linear in the inputs of their sources. In training, the block observes the input and the
        attention, so that policies learn; a convolution of `bliss.nn` is called as conv(x, block).

        Parameters
        ----------
        conv
            A `MessagePassing` convolution that sees the in-edges of a target; with types also a
            `HeteroConv`.
        x
            The layer's input at the sources, [S, F]. With types, {type: [S_t, F_t]} for HeteroConv
            and HGTConv. On a block of one relation, a pair: inputs of sources [S, F] and of targets
            [D, F'].
        observed
            The input that policies and histories learn from; by default x. Pass the input before
            dropout.
        options
            Other arguments of the convolution. `edge_weight` replaces the graph's coefficients, and
            None leaves them out; `edge_attr` has a row per kept edge (`select_edges`).

        Returns
        -------
        Tensor
            Output of the targets, [D, out], or {type: [D_t, out]}.
        """
        if torch.compiler.is_compiling():  # the graph ends here once, and not at each kernel
            from bliss.nn.eager import eager_propagate

            return eager_propagate(self, conv, x, observed, options)
        return propagate(self, conv, x, observed, options)

    @property
    def _groups(self) -> Tensor:
        """Kept edges by group of rows. int64[G + 1]."""
        return self.indptr if self.group_indptr is None else self.group_indptr

    def _visible(self, quantity: str) -> Rows:
        if self.rows is None:
            raise InputError(
                f"the block has no graph to compute {quantity} from: use the blocks of a sampler "
                "or of bliss.nn.infer, or pass graph=... to Block.from_arrays."
            )
        return self.rows

    def observe(
        self,
        x: Tensor | Mapping[str, Tensor],
        attention: Tensor | tuple[Tensor, Tensor] | None = None,
        maps: Tensor | None = None,
    ) -> None:
        """Record the observation that the policy learns from, in one pass over x, detached.

        Parameters
        ----------
        x
            The layer's input at its sources, [S, F], before dropout; with a history, the input
            without dropout in any layer. With types, it may be {type: [S_t, F_t]}.
        attention
            For attention layers: the softmax of the plain scores over the kept edges of each
            target (without importance correction), [E'] or [E', heads], in the order of
            `edge_index`; or the pair (edge_index, attention) that PyG's convolutions return with
            `return_attention_weights=True`. Build those with `add_self_loops=False`: the block
            already has its self-loops, and PyG would move them to the end.
        maps
            For layers with a linear map W_r per relation: all maps, [R, out, F]. The sizes
            |W_r h_j| of messages are then observed, too.
        """
        x, history = self._padded(x) if isinstance(x, Mapping) else (x, self._history())
        if x.ndim != 2 or x.size(0) != self.num_src or not x.is_floating_point():
            raise InputError(
                f"x is {x.dtype} of shape {tuple(x.shape)}, but the block has {self.num_src} "
                "sources: pass the layer's input, one row of floats per source."
            )
        self.check_device("x", x)
        kind = torch.promote_types(x.dtype, torch.float32)  # half precision would overflow
        inputs = x.detach()
        if history is not None:
            check_width(x, history)
        sampled = inputs if history is None else inputs - history
        observation = Observation(
            norm=torch.linalg.vector_norm(sampled, dim=1, dtype=kind).to(torch.float32),
            attention=None if attention is None else self._mean_attention(attention),
            input=inputs.to(torch.float32) if self.keeps_input else None,
        )
        if maps is not None:
            message = message_sizes(self, sampled, maps.detach())
            observation = replace(observation, message=message)
        if self.watch != "none" and attention is None and history is None:
            watched, spread = squared_errors(self, inputs, observation.norm)
            observation = replace(observation, watched=watched, spread=spread)
        object.__setattr__(self, "observation", observation)

    def _history(self) -> Tensor | None:
        """h~_j of the sources, [S, F]."""
        if isinstance(self.control, TypedControl) and self.control.has_history:
            raise InputError(
                "the history of the block has a width per type: observe inputs by type, as "
                "block.observe(x_dict)."
            )
        return self.control.history if isinstance(self.control, Control) else None

    def _padded(self, x: Mapping[str, Tensor]) -> tuple[Tensor, Tensor | None]:
        """Inputs by type and their history, if there is one, padded to one width. [S, F] each."""
        view, control = self.by_type, self.control
        if not isinstance(control, TypedControl) or not control.has_history:
            return view.padded(x), self._history() if isinstance(control, Control) else None
        known = control.histories(view)
        for name, value in x.items():
            if name in known:
                check_width(value, known[name], f"[{name!r}]")
        history = view.padded(known)
        return view.padded(x, history.size(1)), history

    def check_device(self, field: str, tensor: Tensor) -> None:
        """Raise an error if a tensor is on another device than the block."""
        if tensor.device != self.row.device:
            raise InputError(
                f"{field} is on {tensor.device}, but the block is on {self.row.device}: move both "
                "to the same device, for instance with block.to(device)."
            )

    def _mean_attention(self, attention: Tensor | tuple[Tensor, Tensor]) -> Tensor:
        """Check the shape of attention and average it over heads. [E', ...] -> float32[E']."""
        if isinstance(attention, tuple):
            edge_index, attention = attention
            self.check_device("edge_index", edge_index)
            if not torch.equal(edge_index, self.edge_index):
                raise InputError(
                    "the edge_index of attention differs from the block's, for instance because "
                    "the convolution moves self-loops: build it with add_self_loops=False."
                )
        if attention.ndim == 0 or attention.size(0) != self.num_edges:
            raise InputError(
                f"attention has shape {tuple(attention.shape)}, but the block has "
                f"{self.num_edges} edges: pass one row per edge, in the order of edge_index."
            )
        self.check_device("attention", attention)
        mean = attention.detach().to(torch.float32)
        return mean.flatten(1).mean(dim=1) if mean.ndim > 1 else mean

    def feedback(self) -> Feedback:
        """The observation with its draw, as NumPy arrays on the CPU."""
        seen = self.observation
        if seen is None:
            raise InputError(
                "this block was not observed, so the sampler cannot learn from it: call "
                "block.observe(x) in the forward pass, before sampler.update(blocks)."
            )
        draw, rows = self.origin or self, self._visible("feedback")
        age = None if draw.control is None else draw.control.age
        if not np.array_equal(_to_numpy(draw.dst), rows.dst):
            raise InputError(
                "a block's dst differ from the targets that it was drawn for: update each sampler "
                "with the blocks that it drew."
            )
        feedback = Feedback(
            rows=rows,
            src=_to_numpy(draw.src),
            indptr=_to_numpy(draw._groups),
            row=_to_numpy(draw.row),
            edge=_to_numpy(draw.edge),
            edge_prob=_to_numpy(draw.edge_prob),
            norm=_to_numpy(seen.norm),
            prob=None if draw.prob is None else _to_numpy(draw.prob),
            attention=None if seen.attention is None else _to_numpy(seen.attention),
            message=None if seen.message is None else _to_numpy(seen.message),
            input=None if seen.input is None else _to_numpy(seen.input),
            age=None if age is None else _to_numpy(age),
            watched=None if seen.watched is None else _to_numpy(seen.watched),
            spread=None if seen.spread is None else _to_numpy(seen.spread),
        )
        for name in ("norm", "attention", "message", "input"):
            values = getattr(feedback, name)
            if values is not None and not np.isfinite(values).all():
                raise InputError(
                    f"the observed {name} holds NaN or infinity: check the features, or lower the "
                    "learning rate if the network diverged."
                )
        if feedback.attention is not None and feedback.attention.min(initial=0.0) < 0:
            raise InputError(
                f"attention holds {feedback.attention.min():.3g}, but a softmax is never "
                "negative: pass attention weights, not scores."
            )
        return feedback

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> Block:
        """Copy to a device."""
        return self._apply(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def cpu(self) -> Block:
        """Copy to the CPU."""
        return self.to("cpu")

    def cuda(self, device: int | str | None = None, non_blocking: bool = False) -> Block:
        """Copy to a GPU."""
        return self.to("cuda" if device is None else device, non_blocking)

    def pin_memory(self) -> Block:
        """Copy to page-locked memory."""
        return self._apply(lambda tensor: tensor.pin_memory())

    def _apply(self, move: Callable[[Tensor], Tensor]) -> Block:
        moved: Block = _moved(self, move)
        on_host = self.row.device.type == "cpu"
        return replace(moved, origin=self if on_host and self.origin is None else self.origin)


def _moved(record: Any, move: Callable[[Tensor], Tensor]) -> Any:
    """Copy of a dataclass with every tensor moved, including those of nested dataclasses."""
    values = {entry.name: getattr(record, entry.name) for entry in fields(record)}
    changed = {k: move(v) for k, v in values.items() if isinstance(v, Tensor)}
    kinds = Control, TypedControl, Observation
    nested = {k: _moved(v, move) for k, v in values.items() if isinstance(v, kinds)}
    if parts := values.get("parts"):
        nested["parts"] = tuple(_moved(part, move) for part in parts)
    return replace(record, **changed, **nested)


def _to_numpy(tensor: Tensor) -> Array:
    array: Array = (tensor if tensor.device.type == "cpu" else tensor.cpu()).numpy()
    return array
