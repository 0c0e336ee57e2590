"""RGCNConv and FastRGCNConv on a block: a sum or a mean of messages for each relation.

    out_i = sum_r (1 / |N_i^r|) sum over N_i^r of W_r x_j + W x_i

On the kept edges, the sum of each relation is taken with the sampler's weights, and |N_i^r| is that
of the graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor

from bliss.errors import InputError
from bliss.nn.linear_messages import check_equal_weights, summed_inputs
from bliss.nn.support import pyg_class

Edges: TypeAlias = Any
"""A `Block`. Its module imports `bliss.nn.propagation`, which imports this one."""


def weigh_relations(block: Edges, conv: Any, twin: Any, x: Tensor, options: dict[str, Any]) -> None:
    """Give the twin of a convolution the sampler's weights, and the types of the edges."""
    relation = _edge_types(block, conv, options)
    options["edge_type"] = relation
    factor = block.importance
    if conv.aggr == "mean":
        factor = factor / _degrees(block, conv, relation)
    if pyg_class(conv) == "FastRGCNConv":
        twin.aggr = "add"  # its own division is by kept edges
        message = twin.message
        twin.__dict__["message"] = lambda *arguments, **named: (
            message(*arguments, **named) * factor[:, None].to(x.dtype)
        )
        return
    twin.__dict__["propagate"] = _by_relation(block, twin, relation, factor)


def relation_inputs(
    block: Edges, conv: Any, x: Tensor, mean: Tensor, options: Mapping[str, Any]
) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs z_g that stand for the neighbours of each group, a target and a relation.

        out_i = sum_r W_r z_ir + W x_i,    z_ir the mean, or the sum, of x_j over N_i^r

    so that the convolution itself can be run on one edge per group, from z_g to its target, with
    the control variate of the block.

    x, mean [S, F]: inputs with and without dropout
    returns z [G, F], edges [2, G] and relations [G]
    """
    relation = _edge_types(block, conv, options)  # checked
    check_equal_weights(type(conv).__name__, block.rows.graph.norm)
    view, device = block.by_type, relation.device
    scale = None if conv.aggr == "mean" else torch.from_numpy(block.rows.degree).float().to(device)
    z = summed_inputs(block, x, mean, scale, by_group=True)
    edges = torch.stack([torch.arange(z.size(0), device=device), view.owner])
    return z, edges, torch.from_numpy(block.rows.relation.astype("int64")).to(device)


def _by_relation(block: Edges, twin: Any, relation: Tensor, factor: Tensor) -> Any:
    """The method `propagate` of RGCNConv, which is called once for each relation, in order."""
    row, col = block.edge_index
    number = iter(range(twin.num_relations))

    def total(which: int, x: Tensor) -> Tensor:
        place = (relation == which).nonzero().view(-1)
        messages = x[row[place]] * factor[place, None].to(x.dtype)
        return messages.new_zeros(block.num_dst, x.size(1)).index_add(0, col[place], messages)

    def propagate(
        edge_index: Any, x: Tensor, edge_type_ptr: Any = None, size: Any = None
    ) -> Tensor:
        if edge_type_ptr is None:
            return total(next(number), x)
        parts = [total(which, x) @ twin.weight[which] for which in number]  # by segments of edges
        return torch.stack(parts).sum(0)

    return propagate


def _edge_types(block: Edges, conv: Any, options: Mapping[str, Any]) -> Tensor:
    """Relation of each kept edge. int64[E']."""
    name, given = type(conv).__name__, options.get("edge_type")
    own: Tensor | None = None if block.types is None else block.relation
    if given is None and own is None:
        raise InputError(
            f"{name} needs the relation of each edge, and the graph has no types: build the "
            "sampler from a HeteroData, or pass edge_type."
        )
    if given is None or own is None:
        kind: Tensor = own if given is None else given  # type: ignore[assignment]
        if block.types is not None and len(block.types.edge_types) > conv.num_relations:
            raise InputError(
                f"{name} has num_relations={conv.num_relations}, but the graph has "
                f"{len(block.types.edge_types)} relations: build it with as many."
            )
        return kind
    if not torch.equal(given, own):
        raise InputError(
            f"edge_type of {name} differs from the relations of the graph: leave it out, or build "
            "the graph from a HeteroData with these relations."
        )
    return own


def _degrees(block: Edges, conv: Any, relation: Tensor) -> Tensor:
    """|N_i^r| of the target and the relation of each kept edge. int64[E']."""
    if block.types is not None:
        draw = block.origin or block
        degree = torch.from_numpy(block.rows.degree)
        return degree.repeat_interleave(draw.group_indptr.diff()).to(relation.device)
    if block.is_full:
        code = block.col * conv.num_relations + relation
        return torch.bincount(code, minlength=block.num_dst * conv.num_relations)[code]
    raise InputError(
        f"{type(conv).__name__} takes a mean for each relation, and degrees by relation are known "
        "for heterogeneous graphs alone: build the sampler from a HeteroData, or use aggr='add'."
    )
