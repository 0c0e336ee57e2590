"""`check`: whether a model over blocks computes what its plain forward pass computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bliss import checks
from bliss.arrays import IntArray
from bliss.errors import InputError
from bliss.graph import Graph
from bliss.nn.block import Block
from bliss.nn.blockwise import Blockwise
from bliss.nn.layer_calls import LayerCall
from bliss.nn.support import divides_by_degrees, support, uses_self_loops
from bliss.samplers import PLADIES, Full, Sampler
from bliss.studies.checked_data import CheckedData

FALSE_ALARM = 1e-6  # chance that an unbiased layer is called biased
ROUNDING = 1e-4  # relative to the largest output; sums are in float32


@dataclass(frozen=True)
class Verdict:
    """A layer or a model over blocks, compared with its plain forward pass.

    `status` is

    * "exact": equal over full neighbourhoods, and over samples within the noise of the mean
    * "estimated": equal over full neighbourhoods, and biased over samples (`bias`), as softmax and
      nonlinear functions of sums are; the bias falls with the budgets
    * "wrong": different over full neighbourhoods, or refused, for the reason given
    """

    name: str
    status: str  # exact, estimated or wrong
    bias: float | None = None  # |mean over draws - plain| / |plain|, without the noise of the mean
    reason: str = ""  # of "wrong"

    def __str__(self) -> str:
        shown = "" if self.bias is None else f", bias {100 * self.bias:.2g}%"
        return f"{self.name}: {self.status}{shown}{self.reason and f', because {self.reason}'}"


@dataclass(frozen=True)
class ModelCheck:
    """Result of `check`: the model's verdict, and one for each message passing layer."""

    model: Verdict
    layers: tuple[Verdict, ...]
    norm: str  # of the graph that was checked; pass both to the sampler
    self_loops: str  # empty for a heterogeneous graph
    draws: int

    @property
    def status(self) -> str:
        """exact, estimated or wrong."""
        return self.model.status

    def __str__(self) -> str:
        lines = [str(self.model), *(f"  {layer}" for layer in self.layers)]
        if self.status != "wrong":
            settings = f"norm={self.norm!r}"
            settings += f", self_loops={self.self_loops!r}" if self.self_loops else ""
            lines += [
                f"Samples: {self.draws} draws of PLADIES with half of the sources of each layer.",
                f"Build its sampler as Bliss(data, ..., {settings}).",
            ]
        return "\n".join(lines)


@torch.no_grad()
def check(
    model: nn.Module,
    data: Any,
    *,
    norm: Any = None,
    self_loops: Any = None,
    draws: int = 200,
    targets: int = 32,
    seed: int = 0,
    **edge_values: Any,
) -> ModelCheck:
    """Compare a model over blocks with its plain forward pass, model(data.x, data.edge_index).

    With types, the plain forward pass is model(data.x_dict, data.edge_index_dict), or for a model
    with an argument edge_type that of data.to_homogeneous().

    First over full neighbourhoods, where nothing may differ; then the mean of many draws of PLADIES
    with half of the sources of each layer, which shows the bias. Layer by layer on the inputs of
    the plain pass, and the model as a whole. An unbiased layer is called biased with probability
    1e-6.

    Parameters
    ----------
    model
        A model that takes (x, edge_index) or (x_dict, edge_index_dict), or a convolution of PyG.
    data
        PyG `Data` with x, or `HeteroData` with x of every type. The plain pass covers all of it:
        pass a part of a large graph.
    norm, self_loops
        Options of `Graph.of`; by default those that the model's layers need.
    draws
        Number of draws.
    targets
        Number of random nodes whose outputs are compared.
    seed
        Seed of nodes and draws.
    edge_values
        Arguments with a row for each of the user's edges, as in `Blockwise`.

    Examples
    --------
    >>> from torch_geometric.datasets import FakeDataset
    >>> from torch_geometric.nn import SAGEConv
    >>> data = FakeDataset(1, avg_num_nodes=100)[0]
    >>> print(check(SAGEConv(data.num_features, 3), data))
    SAGEConv: exact
      SAGEConv: exact
    Samples: 200 draws of PLADIES with half of the sources of each layer.
    Build its sampler as Bliss(data, ..., norm='mean', self_loops='keep').
    """
    name = type(model).__name__
    if norm == "weighted-mean":
        raise InputError(
            f"norm={norm!r} normalises data.edge_weight, which the plain forward pass uses as it "
            'is: pass norm="weights".'
        )
    checks.whole("draws", draws, least=2)
    modes = {part: part.training for part in model.modules()}
    own = CheckedData.of(model, data)
    settings: dict[str, Any] = {"norm": norm or _norm(model)}
    if not own.is_typed:
        settings["self_loops"] = self_loops or _loops(model)
    graph = Graph.of(data, **settings, edge_ids=bool(edge_values))
    nodes = own.targets(graph, checks.whole("targets", targets, least=1), seed)
    layers: list[Verdict] = []
    try:
        model.eval()
        over_blocks = Blockwise(model, full=True, **edge_values)
        calls, outputs, plain = _plain(over_blocks, graph, own)
        for call, output in zip(calls, outputs, strict=True):
            layers.append(_layer(own, call, output, graph, nodes, draws, seed))
        wrong = [layer for layer in layers if layer.status == "wrong"]
        if wrong:
            verdict = Verdict(name, "wrong", reason=f"of layer {wrong[0].name}")
        else:
            verdict = _model(own, over_blocks, plain, graph, nodes, draws, seed)
    except InputError as error:
        verdict = Verdict(name, "wrong", reason=str(error))
    finally:
        for part, mode in modes.items():
            part.training = mode
    self_loops = settings.get("self_loops", "")
    return ModelCheck(verdict, tuple(layers), settings["norm"], self_loops, draws)


def _norm(model: nn.Module) -> str:
    return "gcn" if any(map(divides_by_degrees, model.modules())) else "mean"


def _loops(model: nn.Module) -> str:
    return "add" if any(map(uses_self_loops, model.modules())) else "keep"


def _plain(
    model: Blockwise, graph: Graph, data: CheckedData
) -> tuple[list[LayerCall], list[Any], Any]:
    """The layers' calls and outputs in the plain forward pass, and its result."""
    calls: list[LayerCall] = []
    outputs: list[Any] = []

    def take(call: LayerCall) -> Any:
        calls.append(call)
        outputs.append(data.plain(call, graph.norm == "weights"))
        return outputs[-1]

    try:
        return calls, outputs, model.run(data.x, take, data.relations)
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"the plain forward pass, {data.title}, fails with "
            f"{type(error).__name__}: {error}. Pass data that fit the model, and other arguments "
            "with a value per edge by name, for instance edge_attr=data.edge_attr."
        ) from error


def _layer(
    data: CheckedData,
    call: LayerCall,
    output: Any,
    graph: Graph,
    nodes: IntArray,
    draws: int,
    seed: int,
) -> Verdict:
    """Verdict of a layer on its inputs in the plain forward pass."""
    name = call.name if call.name == type(call.conv).__name__ else _named(call)

    def run(blocks: list[Block]) -> Tensor:
        return data.of_layer(call, blocks[0])

    try:
        how = support(call.conv)
        if how.kind == "full":
            return Verdict(name, "wrong", reason=f"no sample can estimate it: {how.reason}")
        exact = data.at(output, nodes, call.relations)
        return _compare(name, run, 1, exact, graph, nodes, draws, seed)
    except InputError as error:
        return Verdict(name, "wrong", reason=str(error))


def _named(call: LayerCall) -> str:
    return f"{call.name} ({type(call.conv).__name__})"


def _model(
    data: CheckedData,
    model: Blockwise,
    plain: Any,
    graph: Graph,
    nodes: IntArray,
    draws: int,
    seed: int,
) -> Verdict:
    def run(blocks: list[Block]) -> Tensor:
        return data.flat(model(data.at_sources(blocks[0]), blocks))

    name, depth = type(model.model).__name__, len(model.layers)
    exact = data.at(plain, nodes)
    return _compare(name, run, depth, exact, graph, nodes, draws, seed)


def _compare(
    name: str,
    run: Callable[[list[Block]], Tensor],
    depth: int,
    exact: Tensor,
    graph: Graph,
    nodes: IntArray,
    draws: int,
    seed: int,
) -> Verdict:
    """Outputs over full neighbourhoods and over many draws, against exact ones [D, out]."""
    full = Full(graph, layers=depth).sample(nodes, 0)
    size = float(exact.abs().max()) or 1.0
    gap = float((run(full) - exact).abs().max()) / size
    if not gap <= ROUNDING:
        return Verdict(
            name,
            "wrong",
            reason=f"over full neighbourhoods it differs from the plain forward pass by {gap:.2g} "
            "times the largest output, so it uses more than the in-edges of its targets, such as "
            "degrees of sources, other nodes or self-loops of its own",
        )
    budgets = [max(1, block.num_src // 2) for block in full]
    sampler: Sampler = PLADIES(graph, budgets, seed=seed)
    samples = torch.stack([run(sampler.sample(nodes, step)) for step in range(draws)]).double()
    return _verdict(name, samples, exact.double())


def _verdict(name: str, samples: Tensor, exact: Tensor) -> Verdict:
    """Exact, or estimated with the bias of the mean of N samples [N, D, out]."""
    import scipy.stats

    error = samples.std(0) / len(samples) ** 0.5
    gap = samples.mean(0) - exact
    noise = error + ROUNDING * exact.abs().max()
    limit = scipy.stats.norm.isf(FALSE_ALARM / (2 * exact.numel()))
    if float((gap.abs() / noise.clamp(min=1e-30)).max()) < limit:
        return Verdict(name, "exact")
    squared = float(gap.square().sum() - error.square().sum())
    return Verdict(name, "estimated", max(squared, 0.0) ** 0.5 / float(exact.norm()))
