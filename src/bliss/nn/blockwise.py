"""`Blockwise`: a model of PyG, unchanged, over blocks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn, TypeAlias

import torch
from torch import Tensor, nn

from bliss.errors import InputError
from bliss.graph import WEIGHTED
from bliss.nn.block import Block
from bliss.nn.first_rows import FirstRows
from bliss.nn.inputs import check_features
from bliss.nn.support import divides_by_degrees, support


class Blockwise(nn.Module):
    """A PyG model, called as model(x, edge_index), over blocks: blockwise(x, blocks).

    Each `MessagePassing` layer of the model, in the order of calls, takes the next block and runs
    through `Block.propagate`. Rows shrink from the sources of a block to its targets, which come
    first; where tensors of several layers meet (JumpingKnowledge, residuals, concatenations), the
    rows of the targets of the last one are used. The result estimates model(x, graph.edge_index)
    at the seeds, or model(x, graph.edge_index, edge_weight=graph.edge_weight) if the graph has
    weights. `bliss.nn.infer` and `Sampler.survey` compute the whole model exactly for all nodes,
    and `bliss.check` compares the two.

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
        Arguments of the model with a row for each of the user's edges, such as edge_attr [E, F];
        the graph needs edge ids.

    Examples
    --------
    >>> from torch_geometric.nn import GraphSAGE
    >>> Blockwise(GraphSAGE(16, 32, num_layers=2, out_channels=4))
    Blockwise(GraphSAGE(16, 4, num_layers=2), layers=['convs.0', 'convs.1'])
    """

    def __init__(self, model: nn.Module, *, full: bool = False, **edge_values: Tensor) -> None:
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
        if not self.layers:
            raise InputError(
                f"{type(model).__name__} has no MessagePassing layers of PyG: pass a network that "
                "has some, or write layers of (x, block)."
            )
        _refuse_norms(model)
        for name, conv in self.layers.items():
            how = support(conv)
            if how.kind == "full" and not full:
                raise InputError(
                    f"layer {name} ({type(conv).__name__}) cannot be estimated from sampled edges, "
                    f"because {how.reason}: use a sum or a mean, or bliss.Full with "
                    "Blockwise(model, full=True)."
                )

    @property
    def layers(self) -> dict[str, nn.Module]:
        """The message passing layers by name, each of which takes a block."""
        return dict(message_passing_layers(self.model))

    def __repr__(self) -> str:
        return f"Blockwise({self.model!r}, layers={list(self.layers)})"

    def forward(self, x: Tensor, blocks: Any) -> Tensor:
        """Output of the seeds. x [S, F], of the sources of the first block -> [B, out].

        With the edges of a whole graph in place of a sequence of blocks, this is the model itself.
        """
        if torch.compiler.is_compiling():  # graphs cannot hold layers that differ from call to call
            from bliss.nn.eager import eager_blockwise

            return eager_blockwise(self, x, blocks)
        if not isinstance(blocks, Sequence):
            plain: Tensor = self.model(x, blocks, **self.edge_values)
            return plain
        if len(blocks) != (number := len(self.layers)):
            layers = f"{number} message passing layer{'s' if number > 1 else ''}"
            raise InputError(
                f"there are {len(blocks)} blocks, but {type(self.model).__name__} has {layers}: "
                "build the sampler for as many layers, and the model with a layer of its own for "
                "each call."
            )
        check_features(x, blocks[0].num_src, "sources of the first block")
        rows = FirstRows({blocks[0].num_src, *(block.num_dst for block in blocks)})
        remaining = iter(blocks)

        def take(call: LayerCall) -> Any:
            block = next(remaining)
            if call.x.size(0) != block.num_src:
                raise InputError(
                    f"layer {call.name} gets {call.x.size(0)} rows, but its block has "
                    f"{block.num_src} sources: each layer must use the output of the one before, "
                    "so message passing in a branch is not possible."
                )
            return call.on(block, call.x, observed=rows.before_dropout(call.x))

        with rows:
            return self.run(x, take)

    def run(self, x: Tensor, take: Callable[[LayerCall], Any]) -> Tensor:
        """Call the model with layers computed by `take`, once each."""
        edges = _Placeholder("edge_index")
        values = {name: _Placeholder(name, value) for name, value in self.edge_values.items()}
        layers = self.layers
        called: list[str] = []

        def of_layer(name: str, conv: nn.Module, *arguments: Any, **options: Any) -> Any:
            if name in called:
                raise InputError(
                    f"layer {name} is called twice, but each layer has one block: use a layer of "
                    "its own for each call."
                )
            called.append(name)
            return take(LayerCall.of(name, conv, edges, arguments, options))

        with _replaced(layers, of_layer):
            out: Tensor = self.model(x, edges, **values)
        if len(called) < len(layers):
            missing = ", ".join(name for name in layers if name not in called)
            raise InputError(
                f"{type(self.model).__name__} did not call {missing}: remove layers that are not "
                "used, so that each block has its layer."
            )
        return out


class LayerCall(NamedTuple):
    """A call of a message passing layer by its model."""

    name: str
    conv: nn.Module
    x: Tensor  # [rows, F]
    options: Mapping[str, Any]  # other arguments, with placeholders of edge values
    edges: str  # name of the argument that takes the edges

    @classmethod
    def of(
        cls, name: str, conv: nn.Module, edges: _Placeholder, arguments: Any, options: Any
    ) -> LayerCall:
        """A call with these arguments."""
        given = _signature(type(conv).forward).bind(conv, *arguments, **options).arguments
        named = {key: value for key, value in list(given.items())[2:] if value is not None}
        named |= named.pop("kwargs", {})
        x = next(iter(list(given.values())[1:]))
        if not isinstance(x, Tensor):
            raise InputError(
                f"layer {name} is called with a {type(x).__name__} in place of x: pass a tensor, "
                "since the rows of the targets are taken by bliss."
            )
        places = [key for key, value in named.items() if value is edges]
        if len(places) != 1:
            raise InputError(
                f"layer {name} is called with other edges than the model's edge_index: pass "
                "edge_index on to each layer as it is."
            )
        return cls(name, conv, x, {k: v for k, v in named.items() if v is not edges}, places[0])

    def plain(self, edge_index: Any, **weight: Tensor) -> Any:
        """Output of the convolution itself, on all edges and nodes."""
        named = {
            name: value.values if isinstance(value, _Placeholder) else value
            for name, value in self.options.items()
        }
        taken = _signature(type(self.conv).forward).parameters
        given = {name: value for name, value in weight.items() if name in taken}
        return self.conv(self.x, **{self.edges: edge_index}, **(given | named))

    def on(
        self, block: Block, x: Tensor, rows: Tensor | None = None, observed: Tensor | None = None
    ) -> Any:
        """Output at the targets of a block. x [S, F] -> [D, out].

        rows int64[S] are the sources' rows in tensors of all nodes; None: sources come first.
        """
        options = {name: self._at(block, value, rows) for name, value in self.options.items()}
        takes_weight = "edge_weight" in _signature(type(self.conv).forward).parameters
        has_weights = block.rows is not None and block.rows.graph.norm in WEIGHTED
        if takes_weight and not has_weights and not divides_by_degrees(self.conv):
            options.setdefault("edge_weight", None)  # the model has no weights
        return block.propagate(self.conv, x, observed=observed, **options)

    def _at(self, block: Block, value: Any, rows: Tensor | None) -> Any:
        """An argument for the edges or the sources of a block."""
        if isinstance(value, _Placeholder):
            return block.select_edges(value.values)
        if isinstance(value, Tensor) and value.ndim and value.size(0) == self.x.size(0):
            return value[: block.num_src] if rows is None else value[rows.to(value.device)]
        return value


@lru_cache(maxsize=256)
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def message_passing_layers(
    module: nn.Module, prefix: str = "", known: set[int] | None = None
) -> Iterator[tuple[str, nn.Module]]:
    """Names and modules of the MessagePassing layers of a model, without those inside another."""
    from torch_geometric.nn import MessagePassing

    known = set() if known is None else known
    if id(module) in known:
        return
    known.add(id(module))
    if isinstance(module, MessagePassing):
        yield prefix or type(module).__name__, module
        return
    for name, child in module.named_children():
        yield from message_passing_layers(child, f"{prefix}.{name}" if prefix else name, known)


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


_Forward: TypeAlias = Callable[..., Any]


@contextmanager
def _replaced(layers: Mapping[str, nn.Module], forward: _Forward) -> Iterator[None]:
    """Let calls of layers reach forward(name, layer, ...), in which they have their own forward."""
    own = {name: conv.__dict__.get("forward") for name, conv in layers.items()}

    def restore(name: str) -> None:
        layers[name].__dict__.pop("forward", None)
        if own[name] is not None:
            layers[name].__dict__["forward"] = own[name]

    def replace(name: str) -> None:
        def called(*arguments: Any, **options: Any) -> Any:
            restore(name)
            try:
                return forward(name, layers[name], *arguments, **options)
            finally:
                replace(name)

        layers[name].__dict__["forward"] = called

    try:
        for name in layers:
            replace(name)
        yield
    finally:
        for name in layers:
            restore(name)


class _Placeholder:
    """Stands for the edges, or for values of edges, in a model; only layers can use it."""

    def __init__(self, name: str, values: Any = None) -> None:
        self.name, self.values = name, values

    def _refuse(self, use: str) -> NoReturn:
        raise InputError(
            f"the model uses {self.name} outside of its message passing layers ({use}), but each "
            "layer has edges of its own: move this into a layer, or compute it before training and "
            "pass it as a feature."
        )

    def __getattr__(self, name: str) -> Any:
        self._refuse(f".{name}")

    def __getitem__(self, key: Any) -> Any:
        self._refuse(f"[{key}]")

    def __iter__(self) -> Any:
        self._refuse("iteration")

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", str(func))
        used = next((one for one in args if isinstance(one, cls)), cls("edge_index"))
        used._refuse(name)
