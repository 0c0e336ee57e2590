"""Full-neighbour inference for all or some nodes: layer by layer, in chunks of bounded size."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from bliss import checks
from bliss.arrays import FloatArray, IntArray
from bliss.errors import InputError, ResourceError
from bliss.feedback import encode_attention
from bliss.graph import Graph
from bliss.nn.block import Block
from bliss.nn.blockwise import Blockwise, check_types
from bliss.nn.full_blocks import full_block
from bliss.nn.inputs import check_features
from bliss.nn.layer_calls import LayerCall
from bliss.nn.layers import Layer, OnProgress, layers_of
from bliss.nn.outputs import Outputs
from bliss.nn.projection import is_cheaper, project
from bliss.nn.receptive_field import chunks, needed_nodes
from bliss.nn.typed_inference import TypedInference
from bliss.storage.files import refuse_folder, replacing
from bliss.storage.mapped import RowReader, Watch, release

_KINDS = (torch.float16, torch.float32, torch.float64)  # of features that may be mapped
OUTPUT_BYTES_IN_MEMORY = 2**30
"""Bytes of a layer's outputs above which they are kept in the folder `scratch`."""
_RESIDENT_BYTES = 2**29  # read from mapped files before their pages are released


class LayerSurvey(NamedTuple):
    """Exact quantities of one layer at all nodes, as passed to an observer of `infer`.

    With a map W_r per relation, `norm` is the size of a node's messages, over all its out-edges:
    sqrt(sum_i alpha_ij^2 |W_r h_j|^2 / sum_i alpha_ij^2); |h_j| of nodes without out-edges.
    """

    norm: FloatArray  # float32[V] |h_j|, norm of the layer's input, or size of messages
    attention: npt.NDArray[np.uint8] | None  # [E] alpha_ij, mean of heads, as ATTENTION_TABLE codes
    input: Any  # [V, F] h_j itself, not a copy; {type: [n_t, F_t]} of a model of dictionaries


Observer: TypeAlias = Callable[[int, LayerSurvey], None]
"""Called with the number of a layer and its survey, once per layer, input layer first."""


@torch.no_grad()
def infer(
    model: Iterable[Layer] | Layer,
    graph: Graph,
    x: Any,
    *,
    chunk_edges: int = 500_000,
    chunk_bytes: int = 2**29,
    device: torch.device | str = "cpu",
    progress: OnProgress = None,
    observer: Observer | None = None,
    out: str | os.PathLike[str] | None = None,
    nodes: Any = None,
    scratch: str | os.PathLike[str] | None = None,
) -> Any:
    """Outputs of a network from full neighbourhoods, at all nodes or at those given.

    Memory holds the inputs and outputs of one layer at all nodes that need them, unless they go to
    disk (`out`, `scratch`), and the inputs of one chunk; with an observer, also 4 bytes per node
    and, with attention, a byte per edge. A `ProjectingLayer`, such as a layer of `GNN` or a
    convolution of `bliss.nn`, whose projections are narrower than its inputs, projects every node
    once; memory, or `scratch`, then also holds the projections of all its inputs.

    Parameters
    ----------
    model
        A layer, a sequence of layers, input layer first, or a model whose `__iter__` returns them,
        such as `GNN`; on `device`. A layer is a function layer(x [S, F], block) -> [D, F'], or a
        convolution of PyG, which is run with `Block.propagate`. Of a `Blockwise` model, each
        message passing layer is computed in chunks, and what lies between them for all nodes at
        once. Modules are set to evaluation mode, and their modes are restored at the end.
    graph
        The graph, with V nodes.
    x
        Features [V, F]; may be memory-mapped, and in float16 or bfloat16, which are converted to
        float32. For a `Blockwise` model of a heterogeneous graph, {type: [n_t, F_t]}.
    chunk_edges, chunk_bytes
        Maximum number of edges of a chunk, and of bytes of its inputs. A chunk has at least one
        node.
    device
        Device on which chunks are computed.
    progress
        Called after every chunk with the share of the work that is done, in [0, 1]. An exception
        that it raises stops the inference and reaches the caller.
    observer
        Called with each layer's number and `LayerSurvey`. Blocks are then marked as surveyed, and
        layers report what they would report in training (`Block.observe`). The input is observed
        if a layer reports nothing.
    out
        An .npy file to write the outputs to, chunk by chunk; it appears when it is complete. The
        outputs of other layers are then on disk, too, in files without a name beside it.
    nodes
        Distinct ids [N], or a mask [V], of the nodes to infer; by default all. Each layer is then
        computed only where a later one needs it. Cannot be combined with an observer.
    scratch
        Folder in which outputs or projections of a layer that take more than 1 GiB are kept, in
        files without a name; None: in memory. Not for `Blockwise`.

    Returns
    -------
    Tensor
        Outputs, float32[V, out] or float32[N, out] in the order of `nodes`, on the CPU;
        memory-mapped if `out` is given. Of a model of dictionaries, what it returns: {type:
        float32[n_t, out]}.
    """
    if isinstance(x, Mapping):
        return _infer_types(model, graph, x, chunk_edges, device, progress, observer, nodes, out)
    _check_inputs(graph, x, chunk_edges, chunk_bytes, device)
    for name, function in (("progress", progress), ("observer", observer)):
        if function is not None and not callable(function):
            raise InputError(f"{name}={function!r} must be a function: pass one, or leave it out.")
    path = None if out is None else _npy_path(out)
    chosen: IntArray | None = None
    if nodes is not None:
        if observer is not None:
            raise InputError("an observer sees all nodes, but nodes=... was given: leave one out.")
        chosen = checks.seeds(nodes, graph.num_nodes, "nodes")
    folder = None if scratch is None else checks.path("scratch", scratch)
    if isinstance(model, Blockwise):
        if folder is not None:
            raise InputError(
                f"scratch={str(folder)!r} would have no effect, because what lies between the "
                "layers of a Blockwise model is in memory: leave it out."
            )
        result = _infer_whole(model, graph, x, chunk_edges, chunk_bytes, device, progress, observer)
        return _keep(result if chosen is None else result[torch.from_numpy(chosen)], path)
    modules, layers = layers_of(model)
    needed: list[IntArray | None] = [None] * len(layers)
    if chosen is not None:
        needed = [*needed_nodes(graph, chosen, len(layers), progress)]
    with (
        evaluating(*modules),
        nullcontext() if path is None else replacing(path) as written,
    ):
        rows: RowReader | None = None
        for number, layer in enumerate(layers):
            is_last = number == len(layers) - 1
            scratch_of = folder if path is None else path.parent
            place = written if path is not None and is_last else scratch_of

            def share(done: float, number: int = number) -> None:
                if progress:
                    progress((number + done) / len(layers))

            seen = None if observer is None else _Survey(graph, number)
            sizes = chunk_edges, chunk_bytes
            below = None if number == 0 else needed[number - 1]
            room = OUTPUT_BYTES_IN_MEMORY if path is None else 0
            where = Where(needed[number], below, place, scratch_of, room, rows)
            outputs = _infer(layer, graph, x, *sizes, device, share, seen, where)
            if observer is not None and seen is not None:
                observer(number, seen.result(x))
            x, rows = outputs.tensor, outputs.rows
    if path is None:
        return x
    return torch.from_numpy(np.load(path, mmap_mode="c"))  # changes do not reach the file


def _infer_types(
    model: Any,
    graph: Graph,
    x: Mapping[str, Tensor],
    chunk_edges: int,
    device: torch.device | str,
    progress: OnProgress,
    observer: Observer | None,
    nodes: Any,
    out: Any,
) -> Any:
    """A model of dictionaries of types at all nodes."""
    if not isinstance(model, Blockwise):
        raise InputError(
            "x is a dictionary of types, but the model takes blocks with rows of all types: pass "
            "bliss.nn.Blockwise(model) of a model that takes (x_dict, edge_index_dict)."
        )
    if not isinstance(graph, Graph) or graph.types is None:
        raise InputError(
            "x is a dictionary of types, but the graph has no types: pass Graph.of(hetero_data)."
        )
    if nodes is not None or out is not None:
        raise InputError(
            "nodes and out have no effect on a model of dictionaries: leave them out, and select "
            "rows of its result."
        )
    ends = {end for source, _, target in graph.types.edge_types for end in (source, target)}
    counts = graph.types.num_nodes  # a type without relations needs no features
    check_types(x, {n: own if n in ends or n in x else 0 for n, own in counts.items()}, "nodes")
    checks.whole("chunk_edges", chunk_edges, least=1)

    def observe(number: int, *survey: Any) -> None:
        if observer is not None:
            observer(number, LayerSurvey(*survey))

    seen = None if observer is None else observe
    with evaluating(model):
        result = TypedInference(model, graph, chunk_edges, device, progress, seen)(x)
    if isinstance(result, Mapping):
        return {name: value.to("cpu", torch.float32) for name, value in result.items()}
    return result.to("cpu", torch.float32)


def _infer_whole(
    model: Blockwise,
    graph: Graph,
    x: Tensor,
    chunk_edges: int,
    chunk_bytes: int,
    device: torch.device | str,
    progress: OnProgress,
    observer: Observer | None,
) -> Tensor:
    """A whole model at all nodes: its layers in chunks, the rest at once. float32[V, out]."""
    numbers = itertools.count()

    def take(call: LayerCall) -> Tensor:
        number = next(numbers)
        check_features(call.x, graph.num_nodes, "nodes")

        def share(done: float) -> None:
            if progress:
                progress((number + done) / len(model.layers))

        def layer(inputs: Tensor, block: Block) -> Tensor:
            out: Tensor = call.on(block, inputs, block.src)
            return out

        seen = None if observer is None else _Survey(graph, number)
        outputs = _infer(layer, graph, call.x, chunk_edges, chunk_bytes, device, share, seen)
        if observer is not None and seen is not None:
            observer(number, seen.result(call.x.cpu()))
        return outputs.tensor.to(device, call.x.dtype)

    with evaluating(model):
        result: Tensor = model.run(x.to(device), take)
        return result.to("cpu", torch.float32)


def _keep(result: Tensor, path: Path | None) -> Tensor:
    """Outputs [N, out] in memory, or written to a file and mapped."""
    if path is None:
        return result
    with replacing(path) as written:
        Outputs((result.size(0), result.size(1)), written).write(0, result)
    return torch.from_numpy(np.load(path, mmap_mode="c"))


class Where(NamedTuple):
    """Nodes of a layer's outputs and inputs, and the place of the outputs."""

    nodes: IntArray | None = None  # int64[N] nodes of the outputs; None: all
    below: IntArray | None = None  # int64[M] nodes of the inputs; None: all
    place: Path | None = None  # .npy file, or folder of a file without a name; None: in memory
    scratch: Path | None = None  # folder of projected inputs
    room: int = 0  # bytes of outputs or projections that stay in memory if there is a folder
    rows: RowReader | None = None  # reads the inputs from a file, if they are in one


EVERYWHERE = Where()
"""All nodes, in memory."""


@torch.no_grad()
def infer_layer(
    layer: Layer,
    graph: Graph,
    x: Tensor,
    chunk_edges: int = 500_000,
    chunk_bytes: int = 2**29,
    device: torch.device | str = "cpu",
) -> Tensor:
    """One layer's outputs at all nodes, from its inputs at all nodes. [V, in] -> [V, out].

    The mode of the layer is not changed.
    """
    _check_inputs(graph, x, chunk_edges, chunk_bytes, device)
    return _infer(layer, graph, x, chunk_edges, chunk_bytes, device).tensor


def _check_inputs(
    graph: Any, x: Any, chunk_edges: Any, chunk_bytes: Any, device: torch.device | str
) -> None:
    """Refuse what would fail in the middle of an inference."""
    if not isinstance(graph, Graph):
        raise InputError(
            f"graph is a {type(graph).__name__}, but must be a bliss.Graph: pass Graph.of(data)."
        )
    check_features(x, graph.num_nodes, "nodes")
    checks.whole("chunk_edges", chunk_edges, least=1)
    checks.whole("chunk_bytes", chunk_bytes, least=1)
    try:
        place = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise InputError(f"device={device!r} is not a device of torch: pass 'cpu'.") from error
    if x.is_meta and place.type != "meta":
        raise InputError("x is on the device meta, without values: pass a tensor that has them.")
    if place.type == "cuda" and not torch.cuda.is_available():
        raise ResourceError(
            f"device={str(place)!r} is not available, because torch sees no GPU: pass 'cpu'."
        )


def _infer(
    layer: Layer,
    graph: Graph,
    x: Tensor,
    chunk_edges: int,
    chunk_bytes: int,
    device: torch.device | str,
    progress: OnProgress = None,
    survey: _Survey | None = None,
    where: Where = EVERYWHERE,
) -> Outputs:
    """One layer's outputs at all or some nodes."""
    if is_cheaper(layer, graph, x, where.nodes):
        projected = project(
            layer,
            x,
            where.rows,
            where.scratch,
            where.room,
            chunk_bytes,
            device,
            survey is not None,
            lambda: progress(0.0) if progress else None,
        )
        layer, x = projected, projected.projections.tensor
        where = where._replace(rows=projected.projections.rows)
    if x.nbytes > chunk_bytes:
        chunk_edges = min(chunk_edges, chunk_bytes // x[:1].nbytes)
    ranges = list(chunks(graph, chunk_edges, where.nodes))
    number = np.zeros(graph.num_nodes, graph.indices.dtype)  # scratch memory
    position = None
    if where.below is not None:
        position = np.zeros(graph.num_nodes, graph.indices.dtype)
        position[where.below] = np.arange(where.below.size, dtype=position.dtype)
    number_type = x.dtype if x.element_size() >= 4 else torch.float32
    rows = graph.num_nodes if where.nodes is None else where.nodes.size
    out, touched = Outputs((rows, 0)), 0
    is_plain = type(x) is Tensor and x.device.type == "cpu" and x.dtype in _KINDS
    on_disk = [x.detach().numpy()] if is_plain else []
    watch = Watch([graph.indptr, graph.indices, graph.weight, *on_disk])
    for start, stop in ranges:
        watch.check()
        nodes = np.arange(start, stop) if where.nodes is None else where.nodes[start:stop]
        block = replace(full_block(graph.rows(nodes), number), is_surveyed=survey is not None)
        row = block.src if position is None else torch.from_numpy(position[block.src.numpy()])
        if where.rows is None:
            inputs = x.index_select(0, row.to(x.device)).to(device, number_type)
        else:
            inputs = torch.from_numpy(where.rows(row.numpy())).to(device)
        moved = block.to(device)
        result = layer(inputs, moved)
        _check_output(result, block.num_dst, None if start == 0 else out.tensor.size(1))
        if start == 0:
            out = Outputs((rows, result.size(1)), where.place, where.room)
        out.write(start, result.to("cpu", torch.float32))
        if survey is not None:
            survey.add(moved, inputs, nodes)
        touched += inputs.nbytes + 4 * block.num_edges
        del inputs  # free them before the next chunk is gathered
        if touched > _RESIDENT_BYTES:
            release([graph.indices, *on_disk])
            touched = 0
        if progress:
            progress(stop / rows)
    return out


class _Survey:
    """Collects the observations of a layer by chunk. A chunk's edges are a slice of the graph's."""

    def __init__(self, graph: Graph, layer: int) -> None:
        self.graph, self.layer = graph, layer
        self.norm: FloatArray = np.zeros(graph.num_nodes, np.float32)
        self.attention: npt.NDArray[np.uint8] | None = None
        self.messages: tuple[FloatArray, FloatArray] | None = None  # `Feedback.squared_messages`
        self.chunks = 0

    def add(self, block: Block, inputs: Tensor, nodes: IntArray) -> None:
        """Record a chunk of targets, consecutive nodes."""
        if block.observation is None:
            block.observe(inputs)
        shown = block.feedback()
        self.norm[nodes] = shown.norm[: nodes.size]
        if shown.message is not None:
            if self.messages is None:
                self.messages = np.zeros(self.graph.num_nodes), np.zeros(self.graph.num_nodes)
            for total, own in zip(self.messages, shown.squared_messages(), strict=True):
                total[shown.src] += own
        has_attention = shown.attention is not None
        if has_attention and self.chunks == 0:
            self.attention = np.empty(self.graph.num_edges, np.uint8)
        if has_attention != (self.attention is not None):
            raise InputError(
                f"layer {self.layer} reports attention in some calls and not in others: call "
                "block.observe(x, attention) in the same way for every block."
            )
        if self.attention is not None and shown.attention is not None:
            first, last = self.graph.indptr[nodes[0]], self.graph.indptr[nodes[-1] + 1]
            self.attention[first:last] = encode_attention(shown.attention)
        self.chunks += 1

    def result(self, x: Tensor) -> LayerSurvey:
        """The layer's survey, with its input [V, F]."""
        if self.messages is not None:
            squares, weight = self.messages
            is_source = weight > 0
            self.norm[is_source] = np.sqrt(squares[is_source] / weight[is_source])
        return LayerSurvey(self.norm, self.attention, x)


def _npy_path(out: str | os.PathLike[str]) -> Path:
    path = checks.path("out", out)
    refuse_folder("out", path, "outputs.npy")
    if path.suffix != ".npy":
        raise InputError(f"out={str(path)!r} must end in .npy, the format written: rename it.")
    return path


@contextmanager
def evaluating(*modules: nn.Module) -> Iterator[None]:
    """Context manager that sets modules to evaluation mode and restores their modes."""
    modes = {part: part.training for module in modules for part in module.modules()}
    try:
        for module in modules:
            module.eval()
        yield
    finally:
        for part, mode in modes.items():  # a part may have another mode than its module
            part.training = mode


def _check_output(result: Any, targets: int, width: int | None) -> None:
    if not isinstance(result, Tensor) or result.ndim != 2 or result.size(0) != targets:
        shown = tuple(result.shape) if isinstance(result, Tensor) else type(result).__name__
        raise InputError(
            f"a layer returned {shown}, but the block has {targets} targets: return a tensor with "
            "one row per target."
        )
    if width is not None and result.size(1) != width:
        raise InputError(
            f"a layer returned {width} columns for one chunk of nodes and {result.size(1)} for "
            "another: return equally many for all."
        )
