"""`Blockwise`: a model of PyG, unchanged, over blocks."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bliss.errors import InputError
from bliss.graph import EdgeType
from bliss.nn.block import Block
from bliss.nn.first_rows import FirstRows
from bliss.nn.inputs import check_features
from bliss.nn.layer_calls import LayerCall, LayerPart, Placeholder, message_passing_parts, replaced
from bliss.nn.support import support
from bliss.nn.typed_propagation import TypedLayer

NOISY = (
    "the model has dropout below a layer with a history, where its noise is divided by the "
    "sampling probabilities: train without dropout or history, or with the networks of bliss.nn."
)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Blockwise(nn.Module):
    """A PyG model, called as model(x, edge_index), over blocks: blockwise(x, blocks).

    Each `MessagePassing` layer of the model, in the order of calls, takes the next block and runs
    through `Block.propagate`. Rows shrink from the sources of a block to its targets, which come
    first. Where tensors of several layers are combined (JumpingKnowledge, residuals,
    concatenations), the rows of the last one's targets are used. The result estimates model(x,
    graph.edge_index) at the seeds, or model(x, graph.edge_index, edge_weight=graph.edge_weight) if
    the graph has weights. `bliss.nn.infer` and `Sampler.survey` compute the whole model exactly for
    all nodes, and `bliss.check` compares the two.

    A model of a heterogeneous graph is called as model(x_dict, edge_index_dict), such as a network
    of `HeteroConv` or `HGTConv`, or one made by `to_hetero`; blockwise(x_dict, blocks) takes
    features by type, {type: [S_t, F_t]}. A layer is then a HeteroConv, or a ModuleDict with a
    convolution for each relation. A model of `RGCNConv`, called as model(x, edge_index, edge_type),
    takes the rows of all types as one tensor, in the order of `Block.src`.

    The model keeps its parameters and its methods. It is refused if a layer cannot be estimated
    from sampled edges, is called twice, or is called on the rows of an earlier layer (message
    passing in a branch), and if it normalises over all nodes of a graph.

    Parameters
    ----------
    model
        A module whose forward takes (x, edge_index), such as `torch_geometric.nn.GraphSAGE`.
    full
        Whether blocks hold full neighbourhoods (`bliss.Full`). Aggregations that a sample cannot
        estimate, such as a maximum, are then accepted.
    edge_values
        Arguments of the model with a row for each of the user's edges, such as edge_attr [E, F], or
        with types edge_attr_dict {edge type: [E_r, F]}; the graph needs edge ids.

    Examples
    --------
    >>> from torch_geometric.nn import GraphSAGE
    >>> Blockwise(GraphSAGE(16, 32, num_layers=2, out_channels=4))
    Blockwise(GraphSAGE(16, 4, num_layers=2), layers=['convs.0', 'convs.1'])
    """

    def __init__(self, model: nn.Module, *, full: bool = False, **edge_values: Any) -> None:
        super().__init__()
        if not isinstance(model, nn.Module) or len(inspect.signature(model.forward).parameters) < 2:
            raise InputError(
                f"{type(model).__name__} cannot be called as model(x, edge_index): pass a module "
                "whose forward takes the features and the edges."
            )
        if hasattr(model, "_orig_mod"):
            raise InputError(
                "the model is compiled by torch.compile, in which its layers cannot take blocks: "
                "pass the model itself, and compile what lies between its layers."
            )
        self.model, self.full, self.edge_values = model, full, edge_values
        self._check_arguments()
        if not self.layers:
            raise InputError(
                f"{type(model).__name__} has no MessagePassing layers of PyG: pass a network that "
                "has some, or write layers of (x, block)."
            )
        _refuse_norms(model)
        for part in self.parts:
            how, kind = support(part.conv), type(part.conv).__name__
            if how.kind == "full" and not full:
                raise InputError(
                    f"layer {part.name} ({kind}) cannot be estimated from sampled edges, because "
                    f"{how.reason}: use a sum or a mean, or bliss.Full with "
                    "Blockwise(model, full=True)."
                )

    def _check_arguments(self) -> None:
        """Refuse a model with further arguments that nobody passes."""
        arguments = list(inspect.signature(self.model.forward).parameters.values())[2:]
        for one in arguments:
            is_passed = one.name == "edge_type" or one.name in self.edge_values
            if one.default is one.empty and one.kind not in _VARIADIC and not is_passed:
                raise InputError(
                    f"{type(self.model).__name__}.forward needs {one.name!r}, which is not passed: "
                    f"pass Blockwise(model, {one.name}=...) with a row for each edge, call it "
                    "edge_type if it is the relation of each edge, or give it a default."
                )

    @property
    def parts(self) -> list[LayerPart]:
        """The convolutions of the model."""
        return message_passing_parts(self.model)

    @property
    def layers(self) -> list[str]:
        """Names of the message passing layers, each of which takes a block."""
        return list(dict.fromkeys(part.layer for part in self.parts))

    def __repr__(self) -> str:
        return f"Blockwise({self.model!r}, layers={self.layers})"

    def forward(self, x: Any, blocks: Any) -> Any:
        """Output of the seeds. x [S, F], of the sources of the first block -> [B, out].

        With types, {type: [S_t, F_t]} -> {type: [B_t, out]}, or what else the model returns. With
        the edges of a whole graph in place of a sequence of blocks, this is the model itself.
        """
        if torch.compiler.is_compiling():  # graphs cannot hold layers that differ from call to call
            from bliss.nn.eager import eager_blockwise

            return eager_blockwise(self, x, blocks)
        if not isinstance(blocks, Sequence):
            return self.model(x, blocks, **self.edge_values)
        if len(blocks) != (number := len(self.layers)):
            layers = f"{number} message passing layer{'s' if number > 1 else ''}"
            raise InputError(
                f"there are {len(blocks)} blocks, but {type(self.model).__name__} has {layers}: "
                "build the sampler for as many layers, and the model with a layer of its own for "
                "each call."
            )
        if isinstance(x, Mapping):
            return self._on_types(x, blocks)
        check_features(x, blocks[0].num_src, "sources of the first block")
        rows = FirstRows({blocks[0].num_src, *(block.num_dst for block in blocks)})
        remaining, is_noisy = iter(blocks), False  # whether a layer below had dropout

        def take(call: LayerCall) -> Any:
            nonlocal is_noisy
            block = next(remaining)
            _check_rows(call.name, call.x, block.num_src)
            if is_noisy and block.control is not None and block.control.has_history:
                warnings.warn(NOISY, stacklevel=2)
            before = rows.before_dropout(call.x)
            is_noisy = is_noisy or before is not None
            with rows.paused():
                return call.on(block, call.x, observed=before)

        with rows:
            return self.run(x, take)

    def _on_types(self, x: Mapping[str, Tensor], blocks: Sequence[Block]) -> Any:
        """Output of the seeds of a heterogeneous graph."""
        check_types(x, blocks[0].num_src_dict, "sources of the first block")
        counts = [count for one in blocks for count in one.num_src_dict.values()]
        rows = FirstRows({*counts, *blocks[-1].num_dst_dict.values()})
        layer_of = {part.name: part.layer for part in self.parts}
        layers: dict[str, TypedLayer] = {}

        def take(call: LayerCall) -> Any:
            name = layer_of[call.name]
            if name not in layers:
                layers[name] = TypedLayer(blocks[len(layers)])
            layer = layers[name]
            counts = layer.block.num_src_dict
            for kind, value in layer.sources(call.x, call.relations):
                _check_rows(call.name, value, counts[kind], f" of type {kind!r}")
            with rows.paused():
                return call.on_types(layer, layer.shown(call.x, rows.before_dropout))

        with rows:
            out = self.run(x, take, blocks[0].by_type.types.edge_types)
        for layer in layers.values():
            if self.model.training or layer.block.is_surveyed:
                layer.observe(layer.inputs)
        return out

    def run(
        self, x: Any, take: Callable[[LayerCall], Any], relations: Sequence[EdgeType] = ()
    ) -> Any:
        """Call the model with convolutions computed by `take`, once each."""
        edges: Any = Placeholder("edge_index")
        values: dict[str, Any] = {}
        for name, value in self.edge_values.items():
            if isinstance(value, Mapping):
                values[name] = {key: Placeholder(name, one) for key, one in value.items()}
            else:
                values[name] = Placeholder(name, value)
        if isinstance(x, Mapping):
            edges = {one: Placeholder("edge_index", relation=one) for one in relations}
        elif "edge_type" in inspect.signature(self.model.forward).parameters:
            values.setdefault("edge_type", Placeholder("edge_type"))
        convs = {part.name: part.conv for part in self.parts}
        called: list[str] = []

        def of_layer(name: str, conv: nn.Module, *arguments: Any, **options: Any) -> Any:
            if name in called:
                raise InputError(
                    f"layer {name} is called twice, but each layer has one block: use a layer of "
                    "its own for each call."
                )
            called.append(name)
            return take(LayerCall.of(name, conv, arguments, options))

        with replaced(convs, of_layer):
            out = self.model(x, edges, **values)
        missing = [part for part in self.parts if part.name not in called]
        used = {part.layer for part in self.parts if part.name in called}
        if unused := [part.name for part in missing if part.layer not in used]:
            raise InputError(
                f"{type(self.model).__name__} did not call {', '.join(unused)}: remove layers that "
                "are not used, so that each block has its layer."
            )
        return out


def _check_rows(name: str, x: Tensor, rows: int, kind: str = "") -> None:
    """Refuse a layer that is not called on the output of the layer before."""
    if x.size(0) != rows:
        raise InputError(
            f"layer {name} gets {x.size(0)} rows{kind}, but its block has {rows} sources{kind}: "
            "each layer must use the output of the one before, so message passing in a branch is "
            "not possible."
        )


def check_types(x: Mapping[str, Any], counts: Mapping[str, int], what: str) -> None:
    """Raise an error unless x has a tensor of floats for every type, with its number of rows."""
    missing = [name for name, count in counts.items() if name not in x and count]
    if missing:
        raise InputError(
            f"x has no entry for type {missing[0]!r}, which has {counts[missing[0]]} {what}: pass "
            "features, or rows of a learnt embedding, for every type."
        )
    for name, value in x.items():
        if name not in counts:
            raise InputError(f"x[{name!r}] is of no type of the graph: remove it.")
        check_features(value, counts[name], what, f"x[{name!r}]")


def _refuse_norms(model: nn.Module) -> None:
    """Refuse PyG's normalisations over all nodes of a graph; a batch holds some of them."""
    for name, module in model.named_modules():
        is_norm = type(module).__module__.startswith("torch_geometric.nn.norm.")
        if not is_norm or "batch" not in inspect.signature(module.forward).parameters:
            continue
        if getattr(module, "mode", "graph") != "node":
            kind = type(module).__name__
            remedy = 'mode="node"' if kind == "LayerNorm" else "BatchNorm"
            raise InputError(
                f"{name} ({kind}) normalises over all nodes of a graph, and a batch holds some of "
                f"them: use {remedy}."
            )
