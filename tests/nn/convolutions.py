# ruff: noqa: E501 (sentences of a page)
"""Every convolution of PyG on sampled blocks: how it is built, and its bias against the full graph.

`python -m tests.nn.convolutions` writes docs/convolutions.md anew.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch_geometric.nn.conv as convs
from torch import Tensor, nn

from bliss import PLADIES, Block, Graph, InputError
from bliss.nn.propagation import linear_in_messages
from bliss.nn.support import support
from tests.statistics import normal_limit

PAGE = Path(__file__).resolve().parents[2] / "docs" / "convolutions.md"
NODES, EDGES, TARGETS, BUDGET, DRAWS, WIDTH = 200, 2400, 30, 100, 150, 4
FALSE_ALARM = 1e-6  # chance that an unbiased convolution is called biased, all outputs together


def mlp(inputs: int, outputs: int = WIDTH) -> nn.Module:
    return nn.Linear(inputs, outputs)


Build = Callable[[], Any]


def plain(name: str) -> Build:
    return lambda: getattr(convs, name)(WIDTH, WIDTH)


F = WIDTH
PLAIN = "GCNConv SAGEConv GraphConv ResGatedGraphConv ARMAConv"
PLAIN += " SGConv MFConv LEConv ClusterGCNConv FeaStConv FiLMConv MixHopConv GENConv TAGConv"
PLAIN += " GeneralConv SuperGATConv EGConv"
BUILD: dict[str, Build] = {
    **{name: plain(name) for name in PLAIN.split()},
    "SimpleConv": convs.SimpleConv,
    "GATConv": lambda: convs.GATConv(F, F, heads=2),
    "GATv2Conv": lambda: convs.GATv2Conv(F, F, heads=2),
    "TransformerConv": lambda: convs.TransformerConv(F, F, heads=2),
    "EGConv": lambda: convs.EGConv(F, F, num_heads=2),
    "ChebConv": lambda: convs.ChebConv(F, F, K=2),
    "GatedGraphConv": lambda: convs.GatedGraphConv(F, num_layers=1),
    "AGNNConv": convs.AGNNConv,
    "GINConv": lambda: convs.GINConv(mlp(F)),
    "GINEConv": lambda: convs.GINEConv(mlp(F), edge_dim=2),
    "SSGConv": lambda: convs.SSGConv(F, F, alpha=0.1),
    "APPNP": lambda: convs.APPNP(K=1, alpha=0.1),
    "RGATConv": lambda: convs.RGATConv(F, F, num_relations=2),
    "DNAConv": lambda: convs.DNAConv(F),
    "PointNetConv": convs.PointNetConv,
    "GMMConv": lambda: convs.GMMConv(F, F, dim=2, kernel_size=2),
    "NNConv": lambda: convs.NNConv(F, F, mlp(2, F * F)),
    "CGConv": lambda: convs.CGConv(F, dim=2),
    "EdgeConv": lambda: convs.EdgeConv(mlp(2 * F)),
    "PPFConv": convs.PPFConv,
    "PointTransformerConv": lambda: convs.PointTransformerConv(F, F),
    "PNAConv": lambda: convs.PNAConv(F, F, ["mean", "max"], ["identity"], torch.ones(9).long()),
    "GCN2Conv": lambda: convs.GCN2Conv(F, alpha=0.1),
    "PANConv": lambda: convs.PANConv(F, F, filter_size=1),
    "WLConvContinuous": convs.WLConvContinuous,
    "FAConv": lambda: convs.FAConv(F),
    "PDNConv": lambda: convs.PDNConv(F, F, edge_dim=2, hidden_channels=3, normalize=False),
    "HEATConv": lambda: convs.HEATConv(F, F, 1, 2, 2, 2, 2),
    "LGConv": convs.LGConv,
    "PointGNNConv": lambda: convs.PointGNNConv(mlp(F, 3), mlp(F + 3), mlp(F)),
    "GPSConv": lambda: convs.GPSConv(F, convs.SAGEConv(F, F)),
    "AntiSymmetricConv": lambda: convs.AntiSymmetricConv(F),
    "DirGNNConv": lambda: convs.DirGNNConv(convs.SAGEConv(F, F)),
}
BUILD |= {
    "SAGEConv, aggr=add": lambda: convs.SAGEConv(F, F, aggr="add"),
    "SAGEConv, aggr=max": lambda: convs.SAGEConv(F, F, aggr="max"),
    "GraphConv, aggr=mean": lambda: convs.GraphConv(F, F, aggr="mean"),
    "EdgeConv, aggr=add": lambda: convs.EdgeConv(mlp(2 * F), aggr="add"),
    "GENConv, aggr=add": lambda: convs.GENConv(F, F, aggr="add", num_layers=1),
    "GATv2Conv, edge_dim": lambda: convs.GATv2Conv(F, F, heads=2, edge_dim=2),
    "TAGConv, K=1": lambda: convs.TAGConv(F, F, K=1),
    "GeneralConv, attention": lambda: convs.GeneralConv(F, F, attention=True),
}
"""How each convolution is built: with as few options as it needs."""

ELSEWHERE = {
    "positive and negative edges": "SignedConv",
    "hypergraphs, meshes or colours": "HypergraphConv MeshCNNConv WLConv",
    "points, whose edges they find themselves": "DynamicEdgeConv GravNetConv XConv",
    "libraries that were not installed": "SplineConv CuGraphGATConv CuGraphRGCNConv CuGraphSAGEConv FusedGATConv",
}
"""Convolutions that take no edge_index of a homogeneous graph, or need another library."""
NORMALISED = ("GCNConv", "LGConv", "TAGConv", "APPNP", "GCN2Conv", "FAConv", "DNAConv")


class Row(NamedTuple):
    """One line of the table."""

    name: str
    status: str  # exact, weighted or refused
    how: str  # way of the weights, or the reason of the refusal
    bias: float | None = None  # share of the exact output, noise taken off
    worst_z: float | None = None  # largest |mean - exact| over its standard error
    naive: float | None = None  # bias without propagate
    linear: bool = False  # whether it can use a history or an exact first hop


@cache
def graph(norm: str) -> Graph:
    generator = np.random.default_rng(3)
    chance = np.arange(1, NODES + 1) ** -0.6
    sender, receiver = generator.choice(NODES, size=(2, EDGES), p=chance / chance.sum())
    pairs = np.unique(np.stack([generator.permutation(NODES)[sender], receiver]), axis=1)
    return Graph.from_edge_index(pairs, NODES, norm=norm)


@cache
def draws(norm: str) -> Block:
    """Many draws for the same targets as one block: draw d has targets d D to (d + 1) D."""
    sampler = PLADIES(graph(norm), [BUDGET])
    blocks = [sampler.sample(np.arange(TARGETS), step)[0] for step in range(DRAWS)]
    first = DRAWS * TARGETS
    rows, others = [], []
    for number, block in enumerate(blocks):
        own = number * TARGETS + block.row
        rows.append(torch.where(block.row < TARGETS, own, first + block.row - TARGETS))
        others.append(block.src[TARGETS:])
        first += block.num_src - TARGETS
    dst = torch.cat([block.dst for block in blocks])
    counts = torch.cat([block.indptr.diff() for block in blocks])
    return Block(
        dst=dst,
        src=torch.cat([dst, *others]),
        indptr=pointers(counts),
        row=torch.cat(rows),
        edge=torch.cat([block.edge for block in blocks]),
        edge_prob=torch.cat([block.edge_prob for block in blocks]),
        edge_weight=torch.cat([block.edge_weight for block in blocks]),
        rows=graph(norm).rows(dst.numpy()),
    )


def pointers(counts: Tensor) -> Tensor:
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def attributes(
    name: str, edge: Tensor, node: Tensor, num_dst: int, is_pair: bool
) -> dict[str, Any]:
    """Arguments of a convolution besides x and edge_index, for some edges and nodes."""
    generator = torch.Generator().manual_seed(5)
    count = graph("mean").num_edges
    values = torch.rand(count, 2, generator=generator)
    kind = torch.randint(2, (count,), generator=generator)
    place = torch.randn(NODES, 3, generator=generator)[node]
    first = features(node)
    known = {
        "edge_attr": values[edge],
        "edge_type": kind[edge],
        "node_type": torch.zeros(node.numel(), dtype=torch.long),
        "pos": (place, place[:num_dst]) if is_pair else place,
        "normal": (place, place[:num_dst]) if is_pair else place,
        "x_0": first,
    }
    base = name.split(",")[0]
    wanted = {
        "edge_attr": ["GINEConv", "GMMConv", "NNConv", "CGConv", "PDNConv", "HEATConv"],
        "edge_type": ["RGATConv", "HEATConv"],
        "node_type": ["HEATConv"],
        "pos": ["PointNetConv", "PPFConv", "PointTransformerConv", "PointGNNConv"],
        "normal": ["PPFConv"],
        "x_0": ["GCN2Conv", "FAConv"],
    }
    found = {key: known[key] for key, names in wanted.items() if base in names}
    return found | ({"edge_attr": known["edge_attr"]} if name.endswith("edge_dim") else {})


def features(node: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(6)
    size = torch.randn(NODES, 1, generator=generator).mul(0.3).exp()
    return ((0.7 + 0.5 * torch.randn(NODES, WIDTH, generator=generator)) * size)[node]


@torch.no_grad()
def measure(name: str) -> Row:
    """Mean of many draws against conv(x, graph.edge_index[, graph.edge_weight])."""
    torch.manual_seed(0)
    conv = BUILD[name]().eval()
    base = name.split(",")[0]
    norm = "gcn" if base in NORMALISED else "mean"
    block, whole = draws(norm), graph(norm)
    is_pair = base in ("PointNetConv", "PPFConv", "PointTransformerConv")
    shape = (lambda x: x[:, None]) if base == "DNAConv" else (lambda x: x)
    options = attributes(name, block.edge, block.src, block.num_dst, is_pair)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = block.propagate(conv, shape(features(block.src)), **options)
        except InputError as error:
            return Row(name, "refused", str(error).split(": ")[0].removeprefix(f"{base} "))
        every = torch.arange(NODES)
        full = attributes(name, torch.arange(whole.num_edges), every, NODES, is_pair)
        takes_weight = "edge_weight" in conv.forward.__code__.co_varnames and norm == "mean"
        weight = {"edge_weight": whole.edge_weight} if takes_weight else {}
        exact = conv(shape(features(every)), edge_index=whole.edge_index, **full, **weight)
        weight = {"edge_weight": block.coefficient} if takes_weight else {}
        x = shape(features(block.src))
        plain = conv(x, edge_index=block.edge_index, **options, **weight)[: block.num_dst]
    exact = exact[:TARGETS].double()
    bias, worst = deviation(found, exact)
    naive, _ = deviation(plain, exact)
    kind = support(conv).kind
    how = {"edge_weight": "edge_weight", "messages": "messages", "attention": "attention"}
    status = "exact" if kind in ("edge_weight", "messages") else "weighted"
    is_by_node = options.keys() <= {"x_0"}
    linear = is_by_node and linear_in_messages(conv, norm, x, x, options)
    return Row(name, status, how.get(kind, "ratio of sums"), bias, worst, naive, linear)


def deviation(found: Tensor, exact: Tensor) -> tuple[float, float]:
    """Bias as a share of the exact output, with the noise of the mean taken off; and worst |z|."""
    samples = found.double().view(DRAWS, TARGETS, -1)
    error = samples.std(0) / DRAWS**0.5
    gap = samples.mean(0) - exact.view(TARGETS, -1)
    squared = float(gap.square().sum() - error.square().sum())
    share = max(squared, 0.0) ** 0.5 / float(exact.norm())
    return share, float((gap.abs() / (error + 1e-6 * exact.abs().mean())).max())


def limit() -> float:
    return normal_limit(FALSE_ALARM, len(BUILD) * TARGETS * WIDTH)


def percent(share: float) -> str:
    return f"{100 * share:.0f}%" if share >= 0.005 else "below 1%"


def line(row: Row) -> str:
    if row.bias is None or row.naive is None or row.worst_z is None:
        return f"| `{row.name}` | refused | {row.how} | | | |"
    is_exact = row.status == "exact" and row.worst_z < limit()
    bias = "within noise" if is_exact else percent(row.bias)
    cells = (f"`{row.name}`", row.status, row.how, bias, percent(row.naive))
    return f"| {' | '.join(cells)} | {'yes' if row.linear else ''} |"


def page(rows: list[Row], typed: list[Row]) -> str:
    """The page of the documentation."""
    order = ("exact", "weighted", "refused")
    ordered = sorted(rows, key=lambda row: (order.index(row.status), row.name))
    of_types = [line(row) for row in typed]
    others = [
        f"- {kind}: {', '.join(f'`{name}`' for name in names.split())}"
        for kind, names in ELSEWHERE.items()
    ]
    lines = [INTRODUCTION, *map(line, ordered), "", TYPES, *of_types, "", OUTLOOK, *others, ""]
    return "\n".join(lines)


INTRODUCTION = f"""# Convolutions of PyG on blocks

`block.propagate(conv, x)` runs a convolution of `torch_geometric.nn` on the kept edges of a block, so
that it estimates what the convolution computes on the whole graph. This page is generated:
`python -m tests.nn.convolutions` writes it, and a test compares it with what it measures.

The estimated quantity is `conv(x, graph.edge_index)`, or `conv(x, graph.edge_index, graph.edge_weight)` for
convolutions that take `edge_weight`, where `graph` is `sampler.graph`; see
[own-models.md](own-models.md). Status:

- **exact**: a sum or a mean of messages. Each message is weighted by $1 / p_{{ij}}$ (`messages`), or the
  convolution's own `edge_weight` is. For fixed inputs the expected sum is the full one.
- **weighted**: a softmax over the kept edges with $-\\log p_{{ij}}$ added to the scores (`attention`), or a
  ratio of two such sums. The bias falls with the number of kept edges of a target.
- **refused**: `propagate` raises an error with the reason. A message or an aggregation that
  depends on the other kept edges, such as a maximum, cannot be corrected edge by edge. Reasons that begin with
  "cannot be estimated from sampled edges" do not apply to `bliss.Full` and `bliss.nn.infer`, where
  nothing is sampled.

Convolutions that divide by roots of degrees (`GCNConv`, ...) take the degrees from a graph with
`norm="gcn"`. `GCNConv` and others without a form for bipartite graphs are run on all sources, and the
rows of the targets are returned.

The bias is that of one layer on a heavy-tailed graph of {NODES} nodes, for {TARGETS} targets with
PLADIES at a budget of {BUDGET} sources, over {DRAWS} draws, as a share of the exact output. The noise
of the mean is taken off. "Within noise" means that no output differs from the exact one by more than
{limit():.1f} standard errors, which an unbiased convolution exceeds with probability {FALSE_ALARM:g}.
"Without" is the same convolution called on `block.edge_index` without the sampler's weights.

"History" says whether a convolution can use a history and an exact first hop
([histories.md](histories.md)): whether it is linear in the inputs of its sources, which is tried with
random inputs and parameters, and has no values per edge other than the graph's coefficients.

| convolution | status | weights, or reason | bias | without | history |
|---|---|---|---|---|---|"""
TYPES = f"""## Heterogeneous graphs

On blocks of a heterogeneous graph ([types.md](types.md)), `block.propagate` also takes a `HeteroConv` and
`HGTConv`, with inputs by type, and `RGCNConv` and others that take `edge_type`, with the rows of all
types as one tensor. `HeteroConv` is as exact as the convolutions of its relations; these take their
degrees and softmaxes from one relation each. The bias is that of one layer on a graph of {NODES} nodes
of two types and four relations, for {TARGETS} targets with PLADIES at a budget of {BUDGET} sources
among {NODES}, over {DRAWS} draws. "History" is tried with the exact first hop of each relation, whose
output is then the exact one.

| convolution | status | weights, or reason | bias | without | history |
|---|---|---|---|---|---|"""
OUTLOOK = """Other convolutions of PyG take no `edge_index` of a homogeneous graph:
"""


if __name__ == "__main__":
    from tests.nn import typed_convolutions as typed

    of_types = [typed.measure(name) for name in typed.BUILD]
    PAGE.write_text(page([measure(name) for name in BUILD], of_types), encoding="utf-8")
