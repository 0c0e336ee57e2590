"""Which convolutions of PyG can be run on a block, and how."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from bliss.errors import InputError


class Support(NamedTuple):
    """How a convolution is run on a block."""

    kind: str  # edge_weight, messages, attention, ratio, relations or types; or full: on complete
    # neighbourhoods alone
    reason: str = ""  # why complete neighbourhoods alone; empty otherwise


_SUMS = {
    *("AGNNConv", "CGConv", "EdgeConv", "FastRGCNConv", "FeaStConv", "FiLMConv", "GATConv"),
    *("RGCNConv",),
    *("GATv2Conv", "GENConv", "GINConv", "GINEConv", "GMMConv", "GatedGraphConv", "GeneralConv"),
    *("GraphConv", "HEATConv", "LEConv", "NNConv", "PNAConv", "PPFConv", "PointGNNConv"),
    *("PointNetConv", "PointTransformerConv", "RGATConv", "ResGatedGraphConv", "SAGEConv"),
    *("SimpleConv", "SplineConv", "TransformerConv", "WLConvContinuous"),
}
"""Convolutions of PyG whose output at a target depends on its in-edges alone."""
_NORMALISED = {
    *("APPNP", "DNAConv", "FAConv", "GCN2Conv", "GCNConv", "LGConv", "PDNConv", "TAGConv"),
}
"""Convolutions of PyG that divide by roots of degrees, and whose `normalize` turns this off."""
_SEES_OTHERS = {"index", "ptr", "size_i", "dim_size", "edge_index", "edge_index_i", "adj_t"}


def support(conv: Any) -> Support:
    """How a convolution is run on a block; raises an error if it cannot be."""
    from torch_geometric.nn import MessagePassing
    from torch_geometric.nn.aggr import MeanAggregation, SumAggregation

    name, own = type(conv).__name__, pyg_class(conv)
    if not isinstance(conv, MessagePassing):
        raise InputError(
            f"{name} is not a MessagePassing convolution of PyG, so its messages cannot be "
            "weighted: pass a single convolution, or a layer called as layer(x, block)."
        )
    if conv.flow != "source_to_target":
        raise InputError(
            f"{name} has flow={conv.flow!r}, but blocks hold the in-edges of their targets: build "
            'it with flow="source_to_target".'
        )
    if own == "HANConv":
        raise InputError(
            f"{name} weighs its relations by means over all nodes of a type, and a block holds "
            "some of them: use HGTConv, or HeteroConv with a GATConv for each relation."
        )
    if own == "HGTConv":
        return Support("types")
    if own in ("RGCNConv", "FastRGCNConv") and conv.aggr in ("add", "sum", "mean"):
        return Support("relations")
    if own and own not in _SUMS | _NORMALISED:
        raise InputError(
            f"{name} needs more than one pass over the in-edges of its targets, such as degrees of "
            "other nodes, several hops, a pass per relation, or edges of its own making: use a "
            "convolution of one hop, listed in docs/convolutions.md."
        )
    if own == "WLConvContinuous":
        return Support("ratio")
    if own in ("GATConv", "GATv2Conv", "TransformerConv") or _is_plain_rgat(conv):
        return Support("attention")
    if not isinstance(conv.aggr_module, (SumAggregation, MeanAggregation)):
        return Support("full", f"its aggregation {conv.aggr!r} is not a sum of messages")
    if type(conv).aggregate is not MessagePassing.aggregate:
        return Support("full", "it has an aggregation of its own")
    seen = set(conv.inspector.get_param_names("message"))
    for method in ("edge_update", "update"):
        if conv.inspector.implements(method):
            seen |= set(conv.inspector.get_param_names(method))
    if seen & _SEES_OTHERS and not (own == "GeneralConv" and not conv.attention):
        return Support("full", "a message depends on the other kept edges, as in a softmax")
    has_own_message = own and not is_of_pyg(conv, "message")
    takes_weight = own and not has_own_message and "edge_weight" in parameters_of(conv)
    return Support("edge_weight" if takes_weight else "messages")


def uses_self_loops(conv: Any) -> bool:
    """Whether a convolution adds self-loops, which the graph must have in its place."""
    is_added = bool(getattr(conv, "add_self_loops", False))
    return is_added and (divides_by_degrees(conv) or pyg_class(conv) not in _NORMALISED)


def divides_by_degrees(conv: Any) -> bool:
    """Whether a convolution divides by roots of degrees."""
    return pyg_class(conv) in _NORMALISED and bool(conv.normalize)


def pyg_class(conv: Any) -> str:
    """Name of the convolution of PyG that this is, or is derived from; otherwise empty."""
    for kind in type(conv).__mro__:
        if kind.__module__.startswith("torch_geometric.") and kind.__name__ != "MessagePassing":
            return kind.__name__ if "MessagePassing" in {k.__name__ for k in kind.__mro__} else ""
    return ""


def is_of_pyg(conv: Any, method: str) -> bool:
    """Whether a convolution has this method from a class of PyG, and not from one of the user."""
    return bool(getattr(type(conv), method).__module__.startswith("torch_geometric."))


def _is_plain_rgat(conv: Any) -> bool:
    """Whether this is an RGATConv whose messages are its softmax times a value."""
    return (
        pyg_class(conv) == "RGATConv"
        and conv.mod not in ("additive", "scaled", "f-additive", "f-scaled")
        and conv.attention_mechanism == "across-relation"
        and conv.attention_mode == "additive-self-attention"
    )


def parameters_of(conv: Any) -> typing.Mapping[str, inspect.Parameter]:
    """Parameters of a convolution's forward."""
    return _signature(getattr(type(conv), "forward", conv))


@lru_cache(maxsize=256)
def _signature(function: Callable[..., Any]) -> typing.Mapping[str, inspect.Parameter]:
    return inspect.signature(function).parameters


def edges_argument(conv: Any) -> str:
    """Name of the argument of a convolution's forward that takes the edges."""
    names = list(parameters_of(conv))[1:]  # without self
    return names[1] if "edge_index" not in names and len(names) > 1 else "edge_index"


def takes_pair(conv: Any) -> bool:
    """Whether x may be a pair (sources, targets), by the annotation of the first argument."""
    note = list(parameters_of(conv).values())[1].annotation
    if isinstance(note, str):
        return "Pair" in note or "Tuple" in note or "tuple" in note
    return any(typing.get_origin(part) is tuple for part in (note, *typing.get_args(note)))
