"""PyG convolutions on a block, with the sampler's weights: what `Block.propagate` does.

A convolution that sums messages m_ij over the in-edges of a target is run on the kept edges with

    sum over kept edges of r_ij m_ij,    r_ij = edge_weight_ij / alpha_ij  (1 / p_ij for "ht")

which estimates the sum over all in-edges; a mean is that sum over |N_i|, the degree in the graph.
An attention a_ij, a softmax over the kept edges, becomes r_ij a_ij / sum_k r_ik a_ik. The
convolution itself is not changed: its twin, which shares its parameters, has methods of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from bliss.errors import InputError
from bliss.nn.linear_messages import is_linear, summed_inputs, target_scale
from bliss.nn.relation_means import relation_inputs, weigh_relations
from bliss.nn.support import (
    Support,
    divides_by_degrees,
    edges_argument,
    is_of_pyg,
    parameters_of,
    pyg_class,
    support,
    takes_pair,
    uses_self_loops,
)
from bliss.nn.watched_edges import watched

Edges: TypeAlias = Any
"""A `Block`. Its module imports this one."""


def propagate(
    block: Edges, conv: Any, x: Any, observed: Any = None, options: Mapping[str, Any] | None = None
) -> Any:
    """Output of a convolution at the targets of a block. x [S, F] -> [D, out].

    With types, x may be {type: [S_t, F]}, and the output is {type: [D_t, out]}.
    """
    given = dict(options or {})
    if "block" in parameters_of(conv):
        block.check_device("x", x)
        return conv(x, block=block, **given)
    if isinstance(x, Mapping):
        from bliss.nn.typed_propagation import propagate_types

        return propagate_types(block, conv, x, observed, given)
    source = x[0] if isinstance(x, tuple) else x
    shown = source if observed is None else observed
    out, attention = run(block, conv, x, shown, given)
    if conv.training or block.is_surveyed:
        block.observe(shown.flatten(1), attention)
    return out


def run(
    block: Edges, conv: Any, x: Any, shown: Tensor, options: dict[str, Any]
) -> tuple[Any, Tensor | None]:
    """Output at the targets, and the attention that policies learn from, if there is any.

    x is [S, F], or a pair: inputs of sources [S, F] and of targets [D, F'].
    """
    x, target = _pair(block, conv, x)
    block.check_device("x", x)
    how = _check(block, conv)
    if "edge_weight" in options and options["edge_weight"] is None and divides_by_degrees(conv):
        options = {name: value for name, value in options.items() if name != "edge_weight"}
    is_controlled = block.control is not None
    if is_controlled and how.kind == "relations":
        z, edges, relation = relation_inputs(block, conv, x, shown, options)
        twin = twin_of(conv)
        return run_twin(conv, twin, (z, target), edges, {"edge_type": relation}), None
    if is_controlled:
        _check_linear(block, conv, x, target, options)
    if is_controlled or _is_faster_on_sums(block, how, conv, x, target, options):
        return _on_sums(block, conv, x, target, shown, options), None
    call = _Call(conv, block)
    return _on_edges(block, how, conv, call, x, target, options), call.attention


def _pair(block: Edges, conv: Any, x: Any) -> tuple[Tensor, Tensor]:
    """Inputs of the sources and of the targets, which are the first sources if x is a tensor."""
    if not isinstance(x, tuple):
        if block.edge_type is not None and block.edge_type[0] != block.edge_type[2]:
            raise InputError(
                f"{type(conv).__name__} gets one tensor for the relation {block.edge_type}, whose "
                "sources and targets are of two types: pass a pair of inputs."
            )
        return x, x[: block.num_dst]
    source, target = x
    if target is None:
        raise InputError(
            f"{type(conv).__name__} gets no inputs of its targets: pass a pair of inputs."
        )
    ends = block.edge_type or ("", "", "")
    if not takes_pair(conv) and ends[0] != ends[2]:
        raise InputError(
            f"{type(conv).__name__} takes no pair of inputs, but the sources and targets of {ends} "
            "are of two types: use a convolution that does, such as SAGEConv."
        )
    return source, target[: block.num_dst]


def _on_edges(
    block: Edges,
    how: Support,
    conv: Any,
    call: _Call,
    x: Tensor,
    target: Tensor,
    options: Mapping[str, Any],
) -> Any:
    """Output from the messages of the kept edges."""
    twin, options = twin_of(conv), dict(options)
    _take_over_norms(block, conv, twin, options)
    if how.kind == "relations":
        weigh_relations(block, conv, twin, x, options)
        return run_twin(conv, twin, (x, target), call.edges, options)
    _name_relations(block, conv, options)
    twin.__dict__["propagate"] = call.on_edges(twin.propagate)
    _weigh(block, how.kind, twin, call, options)
    is_pair = takes_pair(conv)
    out = run_twin(conv, twin, (x, target) if is_pair else x, call.edges, options)
    return out if is_pair else _of_targets(out, block)


def _name_relations(block: Edges, conv: Any, options: dict[str, Any]) -> None:
    """Give a convolution that takes edge_type the relations of the block, if it has types."""
    takes_types = "edge_type" in parameters_of(conv) and "edge_type" not in options
    if takes_types and block.types is not None:
        options["edge_type"] = block.relation


def _on_sums(
    block: Edges, conv: Any, x: Tensor, target: Tensor, mean: Tensor, options: Mapping[str, Any]
) -> Any:
    """Output from the aggregated inputs of the targets, z_i, on one edge z_i -> x_i per target."""
    twin, targets = twin_of(conv), block.num_dst
    z = summed_inputs(block, x, mean, _scale(block, conv, options))
    given = {
        name: value[:targets] if isinstance(value, Tensor) else value
        for name, value in options.items()
    }
    _take_over_norms(block, conv, twin, given)
    if "edge_weight" in parameters_of(conv):
        given["edge_weight"] = z.new_ones(targets)
    twin.__dict__["aggregate"] = lambda messages, *_, **__: (
        messages
    )  # one for each target, in order
    edges = torch.arange(targets, device=x.device).expand(2, -1)
    return run_twin(conv, twin, (z, target) if takes_pair(conv) else z, edges, given)


def _scale(block: Edges, conv: Any, options: Mapping[str, Any]) -> Tensor | None:
    from torch_geometric.nn.aggr import MeanAggregation

    uses_coefficients = "edge_weight" in parameters_of(conv) and "edge_weight" not in options
    is_mean = isinstance(conv.aggr_module, MeanAggregation)
    return target_scale(block, type(conv).__name__, is_mean, uses_coefficients)


def run_twin(
    conv: Any, twin: Any, inputs: Any, edges: Any, options: Mapping[str, Any], name: str = ""
) -> Any:
    """Call a twin; what it keeps of the call, such as an attention, is kept by the convolution."""
    before = dict(twin.__dict__)
    out = twin(inputs, **{name or edges_argument(conv): edges}, **options)
    for kept, value in twin.__dict__.items():
        if before.get(kept, before) is not value:
            object.__setattr__(conv, kept, value)
    return out


def linear_in_messages(
    conv: Any, norm: str, x: Tensor, target: Tensor, options: Mapping[str, Any]
) -> bool:
    """Whether a convolution can use histories and an exact first hop (`nn.linear_messages`)."""
    how = support(conv)

    def run(block: Edges, trial: Any, inputs: Tensor, own: Tensor, given: dict[str, Any]) -> Any:
        if block.control is not None:
            return _on_sums(block, trial, inputs, own, inputs, given)
        return _on_edges(block, how, trial, _Call(trial, block), inputs, own, given)

    if how.kind not in ("edge_weight", "messages"):
        return False
    return is_linear(conv, norm, x, target, dict(options), run)


def _check(block: Edges, conv: Any) -> Support:
    """Refuse what cannot be estimated from the edges of this block."""
    how = support(conv)
    if how.kind == "full" and not block.is_full:
        raise InputError(
            f"{type(conv).__name__} cannot be estimated from sampled edges, because {how.reason}: "
            "use bliss.Full, or a convolution that sums messages (docs/convolutions.md)."
        )
    return how


def _check_linear(
    block: Edges, conv: Any, x: Tensor, target: Tensor, options: Mapping[str, Any]
) -> None:
    """Refuse what a block with a history or an exact first hop cannot compute."""
    name = type(conv).__name__
    by_edge = [key for key, value in options.items() if _is_by_edge(key, value, block)]
    if by_edge:
        raise InputError(
            f"{by_edge[0]} of {name} has a value per edge, but the history or first hop of the "
            "block is a sum with the coefficients of the graph: leave it out, build the graph with "
            'norm="weights", or use a sampler without history and first_hop.'
        )
    _scale(block, conv, options)
    if not linear_in_messages(conv, block.rows.graph.norm, x, target, options):
        raise InputError(
            f"{name} is not linear in the inputs of its sources, so that it cannot use the history "
            "or exact first hop of the block: use a convolution that can (docs/convolutions.md), "
            "or a sampler without history and first_hop."
        )
    if block.types is not None and block.edge_type is None:
        raise InputError(
            f"{name} sums over all relations at once, but the history or first hop of the block "
            "has a sum for each: use RGCNConv, or a HeteroConv with a convolution per relation."
        )


def _is_faster_on_sums(
    block: Edges, how: Support, conv: Any, x: Tensor, target: Tensor, options: Mapping[str, Any]
) -> bool:
    """Whether sums of inputs can replace messages in a block without a control variate."""
    if how.kind not in ("edge_weight", "messages") or x.dtype != torch.float32 or x.ndim != 2:
        return False  # sums are in float32
    if block.types is not None and block.edge_type is None:
        return False  # coefficients are those of each relation, and the convolution sees all
    if any(_is_by_edge(name, value, block) for name, value in options.items()):
        return False
    weighs_equally = "edge_weight" not in parameters_of(conv) or "edge_weight" in options
    if (weighs_equally and block.rows.graph.norm != "mean") or _has_hooks(conv):
        return False
    return linear_in_messages(conv, block.rows.graph.norm, x, target, options)


def _has_hooks(conv: Any) -> bool:
    """Whether hooks of a convolution want to see its messages."""
    return any(value for name, value in vars(conv).items() if name.endswith("_hooks") and value)


def _is_by_edge(name: str, value: Any, block: Edges) -> bool:
    return value is not None and (name.startswith("edge") or _rows(value) != block.num_src)


def _rows(value: Any) -> int:
    return value.size(0) if isinstance(value, Tensor) and value.ndim else -1


def _take_over_norms(block: Edges, conv: Any, twin: Any, options: Mapping[str, Any]) -> None:
    """Turn off self-loops and normalisation that the graph already has."""
    name, graph = type(conv).__name__, block.rows.graph
    if divides_by_degrees(conv):
        _check_norm(name, conv, graph, options)
        twin.normalize = False
    if getattr(conv, "add_self_loops", False):
        if uses_self_loops(conv) and not graph.has_self_loops:
            remedy = ', or the graph with self_loops="add"' if graph.types is None else ""
            raise InputError(
                f"{name} adds self-loops, and the graph was built without them: build {name} with "
                f"add_self_loops=False{remedy}."
            )
        twin.add_self_loops = False


def _check_norm(name: str, conv: Any, graph: Any, options: Mapping[str, Any]) -> None:
    """Refuse a normalisation by degrees that the graph does not have."""
    if pyg_class(conv) == "PDNConv" or getattr(conv, "improved", False):
        raise InputError(
            f"{name} normalises by weights that only it knows, of edges that were not kept: build "
            "it with normalize=False, or without improved=True."
        )
    if "edge_weight" in options:
        raise InputError(
            f"{name} normalises edge_weight by sums over edges that were not kept: build it with "
            "normalize=False, or leave edge_weight out."
        )
    if graph.types is not None:
        raise InputError(
            f"{name} divides by roots of degrees, which have no meaning for relations between two "
            "types: build it with normalize=False, or use SAGEConv or GraphConv."
        )
    if graph.norm != "gcn":
        raise InputError(
            f"{name} divides by roots of degrees in the whole graph, and the graph has "
            f'norm={graph.norm!r}: build the sampler with norm="gcn", or {name} with '
            "normalize=False."
        )


def _weigh(block: Edges, kind: str, twin: Any, call: _Call, options: dict[str, Any]) -> None:
    """Give the twin the sampler's weights."""
    from torch_geometric.nn.aggr import MeanAggregation, SumAggregation

    takes_weight = "edge_weight" in parameters_of(twin)
    if takes_weight and "edge_weight" not in options:
        options["edge_weight"] = block.coefficient
    if kind == "full":
        return
    if kind == "attention":
        _weigh_attention(twin, call)
        return
    factor = block.importance
    if kind != "ratio" and isinstance(twin.aggr_module, MeanAggregation):
        factor = factor / block.degree[block.col]
        twin.__dict__["_modules"] = dict(twin._modules)
        twin.aggr_module = SumAggregation()
    if kind == "messages":
        _follow(twin, "message", after=lambda out: out * _along(factor, twin, out))
        return
    given = options["edge_weight"]
    options["edge_weight"] = factor if given is None else _edge_values(block, given) * factor


def _weigh_attention(twin: Any, call: _Call) -> None:
    if twin.inspector.implements("edge_update"):  # the softmax, then dropout
        rate, twin.dropout = twin.dropout, 0.0

        def correct(out: Tensor) -> Tensor:
            return functional.dropout(call.correct(out), rate, twin.training)

        _follow(twin, "edge_update", after=correct)
        return

    def rescale(out: Tensor) -> Tensor:
        plain = twin._alpha
        if not isinstance(plain, Tensor):
            raise InputError(
                f"{call.name} of this version of PyG does not return its attention: use GATv2Conv, "
                "or bliss.nn.GATv2Conv."
            )
        twin._alpha = call.correct(plain)
        ratio: Tensor = call.block.importance[:, None] / call.total[call.block.col]  # [E', H]
        return out * ratio.view(*ratio.shape, *[1] * (out.ndim - ratio.ndim)).to(out.dtype)

    _follow(twin, "message", after=rescale)


class _Call:
    """One run of a convolution on a block, and its observations."""

    def __init__(self, conv: Any, block: Edges) -> None:
        self.name, self.block = type(conv).__name__, block
        self.attention: Tensor | None = None  # [E', H] softmax of the plain scores
        self.total: Tensor = torch.empty(0)  # [D, H] sum of r_ij a_ij
        self.calls = 0
        self.edges: Tensor = block.edge_index
        if not is_of_pyg(conv, "forward") and not block.is_full:  # those of PyG are known
            self.edges = watched(self.edges, self.name)

    def on_edges(self, propagate: Callable[..., Any]) -> Callable[..., Any]:
        """The method `propagate` on the block's edges; a second hop and other edges are refused."""

        def once(edge_index: Any, *arguments: Any, **options: Any) -> Any:
            self.calls += 1
            if self.calls > 1:
                raise InputError(
                    f"{self.name} propagates more than once, but a block holds the in-edges of its "
                    "targets alone: build it with one hop and one relation, and use a block per "
                    "hop."
                )
            if edge_index is not self.edges:
                raise InputError(
                    f"{self.name} changes the edges before it propagates, so the sampler's weights "
                    "would not fit: build it without self-loops of its own and with one relation."
                )
            return propagate(self.block.edge_index, *arguments, **options)

        return once

    def correct(self, plain: Tensor) -> Tensor:
        """Softmax over the kept edges -> estimate of the softmax over all. [E', H] -> [E', H]."""
        self.attention = plain.detach()
        weighted: Tensor = plain * self.block.importance[:, None].to(plain.dtype)
        total = weighted.new_zeros(self.block.num_dst, weighted.size(1))
        self.total = total.index_add(0, self.block.col, weighted)
        return weighted / self.total[self.block.col]


def _along(factor: Tensor, conv: Any, out: Tensor) -> Tensor:
    """The factors [E'] in a shape that multiplies messages [..., E', ...]."""
    shape = [1] * out.ndim
    shape[conv.node_dim] = -1
    return factor.view(shape).to(out.dtype)


def _edge_values(block: Edges, weight: Tensor) -> Tensor:
    if weight.numel() != block.num_edges:
        raise InputError(
            f"edge_weight has shape {tuple(weight.shape)}, but the block has {block.num_edges} "
            "edges: pass one weight per kept edge, for instance block.select_edges(weight)."
        )
    return weight.view(-1)


def _of_targets(out: Any, block: Edges) -> Any:
    """The rows of the targets, which come first, of a convolution over all sources."""
    if isinstance(out, tuple):
        return (_of_targets(out[0], block), *out[1:])
    return out[: block.num_dst]


def twin_of(conv: Any) -> Any:
    """A convolution that shares the parameters and submodules of another, with its own methods."""
    twin = object.__new__(type(conv))
    for name, value in conv.__dict__.items():
        if getattr(value, "__self__", None) is conv:
            value = value.__func__.__get__(twin)
        twin.__dict__[name] = value
    return twin


def _follow(twin: Any, name: str, after: Callable[[Tensor], Tensor]) -> None:
    """Call a function after a method of a twin: PyG's hooks are off in torch.compile."""
    method = getattr(twin, name)
    twin.__dict__[name] = lambda *arguments, **options: after(method(*arguments, **options))
