"""Calls of the message passing layers of a model, taken over by `Blockwise`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn, TypeAlias

from torch import Tensor, nn

from bliss.errors import InputError
from bliss.graph import WEIGHTED, EdgeType
from bliss.nn.block import Block
from bliss.nn.support import divides_by_degrees
from bliss.nn.typed_propagation import TypedLayer


class LayerCall(NamedTuple):
    """A call of a message passing layer by its model."""

    name: str
    conv: nn.Module
    x: Any  # [rows, F]; with types, a pair (sources, targets), or {type: [rows, F]}
    options: Mapping[str, Any]  # other arguments, with placeholders of edge values
    edges: str  # name of the argument that takes the edges
    relations: tuple[EdgeType, ...] = ()  # with types: those of the edges

    @classmethod
    def of(cls, name: str, conv: nn.Module, arguments: Any, options: Any) -> LayerCall:
        """A call with these arguments."""
        given = _signature(type(conv).forward).bind(conv, *arguments, **options).arguments
        named = {key: value for key, value in list(given.items())[2:] if value is not None}
        named |= named.pop("kwargs", {})
        x = next(iter(list(given.values())[1:]))
        places = {key: found for key, value in named.items() if (found := _edges_of(value))}
        if len(places) != 1:
            raise InputError(
                f"layer {name} is called with other edges than the model's edge_index: pass "
                "edge_index on to each layer as it is."
            )
        (edges, relations), *_ = places.items()
        takes = Mapping if isinstance(named[edges], Mapping) else (Tensor, tuple)
        if not isinstance(x, takes if any(relations) else Tensor):
            raise InputError(
                f"layer {name} is called with a {type(x).__name__} in place of x: pass a tensor, "
                "since the rows of the targets are taken by bliss."
            )
        rest = {key: value for key, value in named.items() if key != edges}
        return cls(name, conv, x, rest, edges, tuple(one for one in relations if one))

    @property
    def is_joint(self) -> bool:
        """Whether a layer takes the inputs of all types and the edges of all relations."""
        return isinstance(self.x, Mapping)

    def plain(self, edge_index: Any, **weight: Tensor) -> Any:
        """Output of the convolution itself, on all edges and nodes."""
        named = {
            name: value.values if isinstance(value, Placeholder) else value
            for name, value in self.options.items()
            if not (isinstance(value, Placeholder) and value.values is None)
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
        options = self.options_of(block, rows)
        return block.propagate(self.conv, x, observed=observed, **options)

    def on_types(self, layer: TypedLayer, shown: Any = None) -> Any:
        """Output at the targets of a layer of a heterogeneous graph."""
        if self.is_joint:
            return layer.joint(self.conv, self.x, self.relations, shown)
        (edge_type,) = self.relations
        block = layer.relation(edge_type)
        return layer.run(self.conv, edge_type, self.x, self.options_of(block), shown)

    def options_of(self, block: Block, rows: Tensor | None = None) -> dict[str, Any]:
        """The other arguments, for the edges and the sources of a block."""
        options = {name: self._at(block, value, rows) for name, value in self.options.items()}
        takes_weight = "edge_weight" in _signature(type(self.conv).forward).parameters
        has_weights = block.rows is not None and block.rows.graph.norm in WEIGHTED
        if takes_weight and not has_weights and not divides_by_degrees(self.conv):
            options.setdefault("edge_weight", None)  # the model has no weights
        return options

    def _at(self, block: Block, value: Any, rows: Tensor | None) -> Any:
        """An argument for the edges or the sources of a block."""
        if isinstance(value, Placeholder):
            return block.relation if value.values is None else block.select_edges(value.values)
        if not isinstance(self.x, Tensor):
            return value
        if isinstance(value, Tensor) and value.ndim and value.size(0) == self.x.size(0):
            return value[: block.num_src] if rows is None else value[rows.to(value.device)]
        if isinstance(value, Tensor) and value.ndim and value.size(0) > block.num_src:
            return value[: block.num_src]  # of an earlier layer, such as an initial residual
        return value


@lru_cache(maxsize=256)
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


class LayerPart(NamedTuple):
    """A convolution of a model, and the layer that it belongs to."""

    name: str
    conv: nn.Module
    layer: str  # with types, a layer may have a convolution for each relation


def message_passing_parts(model: nn.Module) -> list[LayerPart]:
    """The MessagePassing convolutions of a model, without those inside another.

    The convolutions of a HeteroConv, or of a ModuleDict whose keys name relations, as in models of
    `to_hetero`, are one layer.
    """
    return list(_parts(model, "", "", set()))


def _parts(module: nn.Module, name: str, layer: str, known: set[int]) -> Iterator[LayerPart]:
    from torch_geometric.nn import HeteroConv, MessagePassing

    if id(module) in known:
        return
    known.add(id(module))
    if isinstance(module, MessagePassing):
        own = name or type(module).__name__
        yield LayerPart(own, module, layer or own)
        return
    if not layer and (isinstance(module, HeteroConv) or _is_by_relation(module)):
        layer = name or type(module).__name__
    for key, child in module.named_children():
        yield from _parts(child, f"{name}.{key}" if name else key, layer, known)


def _is_by_relation(module: nn.Module) -> bool:
    """Whether a module holds a convolution for each relation, under keys such as a__to__b."""
    from torch_geometric.nn import MessagePassing

    if not isinstance(module, nn.ModuleDict) or not len(module):
        return False
    are_convs = all(isinstance(one, MessagePassing) for one in module.values())
    return are_convs and all(isinstance(k, tuple) or k.count("__") >= 2 for k in module)


_Forward: TypeAlias = Callable[..., Any]


@contextmanager
def replaced(layers: Mapping[str, nn.Module], forward: _Forward) -> Iterator[None]:
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


class Placeholder:
    """Stands for the edges, or for values of edges, in a model; only layers can use it.

    `relation` is that of the edges, if the model takes a dictionary of relations. Values that are
    None are the relations of the edges of a block, as numbers.
    """

    def __init__(self, name: str, values: Any = None, relation: EdgeType | None = None) -> None:
        self.name, self.values, self.relation = name, values, relation

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


def _edges_of(value: Any) -> tuple[EdgeType | None, ...]:
    """Relations of edges given as a placeholder or a dictionary of them; (): no edges."""
    if isinstance(value, Placeholder) and value.name == "edge_index":
        return (value.relation,)
    is_dictionary = isinstance(value, Mapping) and bool(value)
    if is_dictionary and all(_edges_of(one) for one in value.values()):
        return tuple(one.relation for one in value.values())
    return ()
