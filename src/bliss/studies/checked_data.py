"""Data of `bliss.check`: inputs of the plain forward pass, and rows of its outputs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bliss.arrays import IntArray
from bliss.errors import InputError
from bliss.graph import EdgeType, Graph, GraphTypes
from bliss.nn.block import Block
from bliss.nn.layer_calls import LayerCall
from bliss.nn.typed_propagation import TypedLayer


class CheckedData:
    """A PyG `Data`, or a `HeteroData` whose model takes the rows of all types as one tensor."""

    relations: Sequence[EdgeType] = ()
    title = "model(data.x, data.edge_index)"

    def __init__(self, data: Any, is_typed: bool = False) -> None:
        self.is_typed = is_typed
        self.data = data.to_homogeneous() if is_typed else data
        if getattr(self.data, "x", None) is None or getattr(self.data, "edge_index", None) is None:
            raise InputError(
                f"a {type(data).__name__} without x or edge_index cannot be passed to a model: "
                "pass one that has both."
            )
        self.x: Any = self.data.x

    @staticmethod
    def of(model: nn.Module, data: Any) -> CheckedData:
        """The data in the form that the model takes."""
        if not hasattr(data, "node_types"):
            return CheckedData(data)
        takes_all = "edge_type" in inspect.signature(model.forward).parameters
        return CheckedData(data, is_typed=True) if takes_all else CheckedTypes(data)

    def targets(self, graph: Graph, number: int, seed: int) -> IntArray:
        """Random nodes that have in-edges, if there are any. int64[N]."""
        some: IntArray = np.flatnonzero(graph.degree > 0)
        some = some if some.size else np.arange(graph.num_nodes)
        generator = np.random.default_rng(seed)
        return generator.choice(some, min(number, some.size), replace=False)

    def plain(self, call: LayerCall, has_weights: bool) -> Any:
        """Output of a convolution on all edges."""
        named = {"edge_weight": self.data.edge_weight} if has_weights else {}
        if self.is_typed:
            named["edge_type"] = self.data.edge_type
        return call.plain(self.data.edge_index, **named)

    def at_sources(self, block: Block) -> Any:
        """Features of the sources of a block."""
        return self.x[block.src]

    def of_layer(self, call: LayerCall, block: Block) -> Tensor:
        """Output of a convolution at the targets of a block."""
        out: Tensor = call.on(block, call.x[block.src], block.src)
        return out

    def at(self, out: Any, nodes: IntArray, relations: Sequence[EdgeType] = ()) -> Tensor:
        """Rows of an output of all nodes. nodes int64[N]."""
        rows: Tensor = out[torch.from_numpy(nodes)]
        return rows

    def flat(self, out: Any) -> Tensor:
        """An output of some nodes as one tensor."""
        rows: Tensor = out
        return rows


class CheckedTypes(CheckedData):
    """A `HeteroData` whose model takes dictionaries. Outputs of all types are compared at once."""

    title = "model(data.x_dict, data.edge_index_dict)"

    def __init__(self, data: Any) -> None:
        self.is_typed, self.data = True, data
        missing = [name for name in data.node_types if data[name].get("x") is None]
        if missing:
            raise InputError(
                f"type {missing[0]!r} has no features x, but the model is called with those of "
                "every type: set them, for instance to rows of a learnt embedding."
            )
        self.x = data.x_dict
        self.relations = data.edge_types
        self._types: GraphTypes

    def targets(self, graph: Graph, number: int, seed: int) -> IntArray:
        """Random nodes with in-edges, about as many of each type. int64[N]."""
        assert graph.types is not None
        self._types, generator = graph.types, np.random.default_rng(seed)
        ranges = [self._types.range_of(name) for name in self._types.node_types]
        groups = [one.start + np.flatnonzero(graph.degree[one] > 0) for one in ranges]
        groups = [group for group in groups if group.size] or [np.arange(graph.num_nodes)]
        size = -(-number // len(groups))
        chosen = [generator.choice(one, min(size, one.size), replace=False) for one in groups]
        return np.concatenate(chosen)

    def plain(self, call: LayerCall, has_weights: bool) -> Any:
        """Output of a convolution on all edges of its relations."""
        edges = self.data.edge_index_dict
        if call.is_joint:
            return call.plain({one: edges[one] for one in call.relations})
        (own,) = call.relations
        weight = {"edge_weight": self.data[own].edge_weight} if has_weights else {}
        return call.plain(edges[own], **weight)

    def at_sources(self, block: Block) -> Any:
        """Features of the sources of a block, by type."""
        return self._rows_of(self.x, block)

    def _rows_of(self, x: Mapping[str, Tensor], block: Block) -> dict[str, Tensor]:
        first = dict(zip(self._types.node_types, self._types.node_ptr.tolist(), strict=False))
        nodes = block.split(block.src)
        return {name: x[name][nodes[name] - first[name]] for name in x}

    def of_layer(self, call: LayerCall, block: Block) -> Tensor:
        """Output of a convolution at the targets of a block."""
        if call.is_joint:
            here = call._replace(x=self._rows_of(call.x, block))
            return self.flat(here.on_types(TypedLayer(block)))
        source, _, target = call.relations[0]
        pair = call.x if isinstance(call.x, tuple) else (call.x, call.x)
        if source == target:
            inputs: Any = self._rows_of({source: pair[0]}, block)[source]
        else:
            rows = self._rows_of(dict(zip((source, target), pair, strict=True)), block)
            inputs = rows[source], rows[target]
        out: Tensor = call._replace(x=inputs).on_types(TypedLayer(block))
        return out

    def at(self, out: Any, nodes: IntArray, relations: Sequence[EdgeType] = ()) -> Tensor:
        """Rows of an output of all nodes of one type, or of every type."""
        if isinstance(out, Mapping):
            parts = {name: self._of_type(value, nodes, name) for name, value in out.items()}
            return self.flat(parts)
        if relations:
            return self._of_type(out, nodes, relations[0][2])
        sizes = self._types.num_nodes
        fitting = [name for name, size in sizes.items() if size == out.size(0)]
        if len(fitting) != 1:
            raise InputError(
                f"the model returns {out.size(0)} rows, which are those of no type or of several: "
                "return a dictionary of types."
            )
        return self._of_type(out, nodes, fitting[0])

    def _of_type(self, out: Tensor, nodes: IntArray, name: str) -> Tensor:
        own = self._types.range_of(name)
        here = nodes[(nodes >= own.start) & (nodes < own.stop)]
        return out[torch.from_numpy(here - own.start)]

    def flat(self, out: Any) -> Tensor:
        """An output of some nodes as one tensor: rows, or with several types all numbers."""
        if not isinstance(out, Mapping):
            rows: Tensor = out
            return rows
        return torch.cat([out[name].flatten() for name in sorted(out)])
