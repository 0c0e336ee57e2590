"""Convolutions of PyG that take dictionaries of types, on a block of a heterogeneous graph.

`HeteroConv` has a convolution for each relation, which is run on the block of its relation. The
attention of `HGTConv` is one softmax over all relations into a target, so that its correction

    a_ij = r_ij a_ij / sum over kept edges of all relations of r_ik a_ik

is joint, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from bliss.errors import InputError
from bliss.graph import EdgeType
from bliss.nn.propagation import run, run_twin, twin_of
from bliss.nn.support import support

Edges: TypeAlias = Any
"""A `Block`."""
Inputs: TypeAlias = Mapping[str, Tensor]


def propagate_types(
    block: Edges, conv: Any, x: Inputs, observed: Inputs | None, options: Mapping[str, Any]
) -> dict[str, Tensor]:
    """Output of a HeteroConv or HGTConv. {type: [S_t, F_t]} -> {type: [D_t, out]}."""
    from torch_geometric.nn import HeteroConv

    _check_inputs(block, x)
    layer = TypedLayer(block)
    is_sum = isinstance(conv, HeteroConv)
    out = _hetero(layer, conv, x, options) if is_sum else layer.joint(conv, x)
    if conv.training or block.is_surveyed:
        layer.observe(x if observed is None else observed)
    return out


def _check_inputs(block: Edges, x: Inputs) -> None:
    counts = block.num_src_dict
    for name, value in x.items():
        if name not in counts:
            raise InputError(
                f"x[{name!r}] is of no type of the graph: pass {', '.join(counts)} alone."
            )
        if value.size(0) != counts[name]:
            raise InputError(
                f"x[{name!r}] has {value.size(0)} rows, but the block has {counts[name]} sources "
                "of this type: pass one row for each."
            )


def _hetero(
    layer: TypedLayer, conv: Any, x: Inputs, options: Mapping[str, Any]
) -> dict[str, Tensor]:
    from torch_geometric.nn.conv.hetero_conv import group

    by_target: dict[str, list[Tensor]] = {}
    for edge_type, own in conv.convs.items():
        source, _, target = edge_type
        if source not in x or target not in x or edge_type not in layer.block.relations:
            continue  # as HeteroConv does
        given = {
            name.removesuffix("_dict"): values[edge_type]
            for name, values in options.items()
            if edge_type in values
        }
        out = layer.run(own, edge_type, (x[source], x[target]), given)
        by_target.setdefault(target, []).append(out)
    return {name: group(parts, conv.aggr) for name, parts in by_target.items()}


class TypedLayer:
    """One layer of a network on a block with types: its relations, and its observations."""

    def __init__(self, block: Edges) -> None:
        self.block = block
        self.attention: dict[EdgeType, Tensor] = {}  # [E_r] of the relations that have some
        self.inputs: dict[str, Tensor] = {}  # [S_t, F_t] by type, as they are observed

    @staticmethod
    def sources(x: Any, relations: Sequence[EdgeType]) -> list[tuple[str, Tensor]]:
        """Types and inputs of the sources of a call: a tensor, a pair, or a dictionary."""
        if isinstance(x, Mapping):
            return list(x.items())
        return [(relations[0][0], x[0] if isinstance(x, tuple) else x)]

    @staticmethod
    def shown(x: Any, before: Callable[[Tensor], Tensor | None]) -> Any:
        """Inputs before dropout, in the form of x."""

        def of(value: Tensor) -> Tensor:
            earlier = before(value)
            return value if earlier is None else earlier

        if isinstance(x, Mapping):
            return {name: of(value) for name, value in x.items()}
        return of(x[0] if isinstance(x, tuple) else x)

    def relation(self, edge_type: EdgeType) -> Edges:
        """The block of a relation."""
        block = self.block.relations.get(edge_type)
        if block is None:
            listed = ", ".join(map(str, self.block.relations))
            raise InputError(f"{edge_type} is not a relation of the graph: choose one of {listed}.")
        return block

    def run(
        self,
        conv: Any,
        edge_type: EdgeType,
        x: Any,
        options: dict[str, Any],
        shown: Tensor | None = None,
    ) -> Any:
        """Output of a convolution on one relation. x [S_s, F], or a pair with [D_t, F']."""
        block = self.relation(edge_type)
        source = x[0] if isinstance(x, tuple) else x
        seen = source if shown is None else shown
        self.inputs.setdefault(edge_type[0], seen)
        out, attention = run(block, conv, x, seen, options)
        if attention is not None:
            self.attention[edge_type] = attention.flatten(1).mean(1)
        return out

    def joint(
        self,
        conv: Any,
        x: Inputs,
        relations: Sequence[EdgeType] | None = None,
        shown: Inputs | None = None,
    ) -> dict[str, Tensor]:
        """Output of a convolution whose softmax is over all relations, such as HGTConv."""
        block = self.block
        self.inputs = dict(x if shown is None else shown)
        if support(conv).kind != "types":
            raise InputError(
                f"{type(conv).__name__} takes no dictionary of types: pass the rows of all types "
                "as one tensor, or a HeteroConv."
            )
        if block.control is not None:
            raise InputError(
                f"{type(conv).__name__} is not linear in the inputs of its sources, so that it "
                "cannot use the history or exact first hop of the block: use a sampler without "
                "history and first_hop."
            )
        chosen = list(block.relations) if relations is None else list(relations)
        missing = [one for one in chosen if one not in conv.edge_types_map]
        if missing:
            raise InputError(
                f"{type(conv).__name__} was built without the relation {missing[0]}: build it with "
                "data.metadata(), or remove the relation from the data."
            )
        absent = [end for one in chosen for end in one[::2] if end not in x]
        if absent:
            raise InputError(
                f"x has no entry for type {absent[0]!r}, but {type(conv).__name__} takes all types "
                "together: pass features, or rows of a learnt embedding, for every type."
            )
        edges = {edge_type: block.edge_index_dict[edge_type] for edge_type in chosen}
        numbers = dict(zip(block.types.edge_types, block.by_type.edge_place, strict=True))
        place = torch.cat([numbers[edge_type] for edge_type in chosen])
        twin, factor = twin_of(conv), block.importance[place]
        twin.__dict__["message"] = self._message(twin, factor, block.col[place], chosen, edges)
        x = {name: value for name, value in x.items() if name in conv.in_channels}
        out = run_twin(conv, twin, x, edges, {}, name="edge_index_dict")
        counts = block.num_dst_dict
        return {name: value[: counts[name]] for name, value in out.items() if value is not None}

    def _message(
        self,
        twin: Any,
        factor: Tensor,
        target: Tensor,
        relations: Sequence[EdgeType],
        edges: Mapping[EdgeType, Tensor],
    ) -> Callable[..., Tensor]:
        """The method `message` with a corrected softmax. factor r_ij [E], target [E]."""
        plain, heads = twin.message, twin.heads

        def message(v_j: Tensor, **named: Any) -> Tensor:
            shares: Tensor = plain(v_j=torch.ones_like(v_j), **named)  # a_ij, repeated
            softmax = shares.view(shares.size(0), heads, -1)[..., 0]  # [E, H]
            sizes = [edges[edge_type].size(1) for edge_type in relations]
            seen = torch.split(softmax.detach().mean(1), sizes)
            self.attention = dict(zip(relations, seen, strict=True))
            weighted = softmax * factor[:, None].to(softmax.dtype)
            total = weighted.new_zeros(self.block.num_dst, heads).index_add(0, target, weighted)
            corrected = weighted / total[target]
            return (v_j * corrected[..., None]).flatten(1)

        return message

    def observe(self, x: Inputs) -> None:
        """Show the block its inputs and the attention of its edges.

        Relations without attention, beside others that have some, weigh their kept edges equally.
        """
        block = self.block
        if not self.attention:
            block.observe(x)
            return
        draw = block.origin or block
        count = draw.group_indptr.diff()
        shown = (1.0 / count.repeat_interleave(count)).to(block.row.device)
        for edge_type, place in zip(block.types.edge_types, block.by_type.edge_place, strict=True):
            if edge_type in self.attention:
                shown[place] = self.attention[edge_type].to(shown.dtype)
        block.observe(x, shown)
