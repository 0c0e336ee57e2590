"""Full-neighbour inference of a `Blockwise` model of a heterogeneous graph, for all nodes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bliss.arrays import NO_IDS, FloatArray, IntArray
from bliss.feedback import encode_attention
from bliss.graph import EdgeType, Graph, GraphTypes
from bliss.kernels import nodewise
from bliss.nn.block import Block
from bliss.nn.blockwise import Blockwise
from bliss.nn.full_blocks import full_block
from bliss.nn.layer_calls import LayerCall
from bliss.nn.layers import OnProgress
from bliss.nn.receptive_field import chunks
from bliss.nn.typed_propagation import TypedLayer


class TypedInference:
    """Computes the convolutions of a model in chunks of targets, and the rest at once.

    `observer` is called with the number of each layer, the norms of its inputs, its attention or
    None, and its inputs by type.
    """

    def __init__(
        self,
        model: Blockwise,
        graph: Graph,
        chunk_edges: int,
        device: torch.device | str = "cpu",
        progress: OnProgress = None,
        observer: Callable[..., None] | None = None,
    ) -> None:
        assert graph.types is not None
        self.model, self.graph, self.chunk_edges = model, graph, chunk_edges
        self.types: GraphTypes = graph.types
        self.device, self.progress, self.observer = device, progress, observer
        self._layer_of = {part.name: part.layer for part in model.parts}
        self._number = np.zeros(graph.num_nodes, graph.indices.dtype)  # scratch memory
        self._surveys: dict[str, _TypedSurvey] = {}
        self._done = itertools.count(1)

    def __call__(self, x: Mapping[str, Tensor]) -> Any:
        """What the model returns for all nodes, on the device."""
        inputs = {name: value.to(self.device).float() for name, value in x.items()}
        out = self.model.run(inputs, self._take, self.types.edge_types)
        for number, survey in enumerate(self._surveys.values()):
            assert self.observer is not None
            self.observer(number, *survey.result())
        return out

    def _take(self, call: LayerCall) -> Any:
        survey = self._survey_of(call)
        out = self._joint(call, survey) if call.is_joint else self._relation(call, survey)
        if self.progress:
            self.progress(next(self._done) / len(self._layer_of))
        return out

    def _survey_of(self, call: LayerCall) -> _TypedSurvey | None:
        if self.observer is None:
            return None
        layer = self._layer_of[call.name]
        survey = self._surveys.setdefault(layer, _TypedSurvey(self.graph))
        for name, value in TypedLayer.sources(call.x, call.relations):
            survey.inputs.setdefault(name, value)
        return survey

    def _chunks(self, nodes: IntArray) -> Iterator[IntArray]:
        for start, stop in chunks(self.graph, self.chunk_edges, nodes):
            yield nodes[start:stop]
            if self.progress:
                self.progress(0.0)

    def _relation(self, call: LayerCall, survey: _TypedSurvey | None) -> Tensor:
        """Output of the convolution of one relation at all nodes of its target type."""
        (edge_type,) = call.relations
        source, target = call.x if isinstance(call.x, tuple) else (call.x, call.x)
        number, own = self.types.relation(edge_type), self.types.range_of(edge_type[2])
        first = self.types.range_of(edge_type[0]).start
        parts = []
        for nodes in self._chunks(np.arange(own.start, own.stop)):
            block = self._block(number, edge_type, nodes).to(self.device)
            layer = _OneRelation(block)
            inputs = source[block.src - first], target[block.dst - own.start]
            options = call.options_of(block, block.src - first)
            parts.append(layer.run(call.conv, edge_type, inputs, options))
            if survey is not None and edge_type in layer.attention:
                survey.add(block.edge, layer.attention[edge_type])
        return torch.cat(parts)

    def _block(self, number: int, edge_type: EdgeType, nodes: IntArray) -> Block:
        """All edges of a relation into some nodes."""
        rows = self.graph.rows(nodes).of_relation(number, np.arange(nodes.size))
        indptr, edge = rows.edges()
        targets = nodes if edge_type[0] == edge_type[2] else NO_IDS
        source, row = nodewise.relabel(self.graph.indices, targets, edge, self._number)
        weight = rows.coefficients(source, indptr, row, edge)
        arrays = nodes, source, indptr, row, edge, np.ones(edge.size, np.float32), weight
        return replace(Block.from_arrays(*arrays, rows=rows), edge_type=edge_type)

    def _joint(self, call: LayerCall, survey: _TypedSurvey | None) -> dict[str, Tensor]:
        """Output of a convolution over all relations, such as HGTConv, at all nodes."""
        parts: dict[str, list[Tensor]] = {name: [] for name in self.types.node_types}
        for nodes in self._chunks(np.arange(self.graph.num_nodes)):
            block = full_block(self.graph.rows(nodes), self._number).to(self.device)
            layer, first = TypedLayer(block), self.types.node_ptr
            sources = zip(block.split(block.src).items(), first, strict=False)
            inputs = {
                name: call.x[name][ids - int(start)]
                for (name, ids), start in sources
                if name in call.x
            }
            for name, out in layer.joint(call.conv, inputs, call.relations).items():
                parts[name].append(out)
            if survey is not None:
                for edge_type, shown in layer.attention.items():
                    survey.add(layer.relation(edge_type).edge, shown)
        return {name: torch.cat(outs) for name, outs in parts.items() if outs}


class _OneRelation(TypedLayer):
    """A layer on the block of one relation alone."""

    def relation(self, edge_type: EdgeType) -> Block:
        """The block itself."""
        block: Block = self.block
        return block


class _TypedSurvey:
    """Inputs of a layer at all nodes, and attention at all edges."""

    def __init__(self, graph: Graph) -> None:
        assert graph.types is not None
        self.graph, self.types = graph, graph.types
        self.inputs: dict[str, Tensor] = {}
        self.attention: npt.NDArray[np.uint8] | None = None

    def add(self, edge: Tensor, attention: Tensor) -> None:
        """Attention of some edges. Other edges have the coefficients of the graph."""
        if self.attention is None:
            self.attention = encode_attention(self.graph.edge_weight.numpy())
        self.attention[edge.cpu().numpy()] = encode_attention(attention.float().cpu().numpy())

    def result(self) -> tuple[FloatArray, Any, dict[str, Tensor]]:
        """Norms float32[V], attention [E] or None, and inputs by type."""
        norm = np.zeros(self.graph.num_nodes, np.float32)
        for name, value in self.inputs.items():
            size = torch.linalg.vector_norm(value, dim=1, dtype=torch.float32)
            norm[self.types.range_of(name)] = size.cpu().numpy()
        inputs = {name: value.cpu() for name, value in self.inputs.items()}
        return norm, self.attention, inputs
