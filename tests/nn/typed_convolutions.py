"""Convolutions of PyG on blocks of a graph with types: their bias against the full graph."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
import torch_geometric.nn.conv as convs
from torch import Tensor
from torch_geometric.data import HeteroData

from bliss import PLADIES, Block, Graph, InputError
from tests.nn.convolutions import BUDGET, DRAWS, EDGES, NODES, TARGETS, Build, F, Row, deviation

SIZES = {"a": NODES // 2, "b": NODES // 2}
RELATIONS = [("a", "to", "a"), ("b", "to", "a"), ("b", "also", "a"), ("a", "to", "b")]


def hetero(**options: Any) -> Build:
    """A HeteroConv with a convolution for each relation."""

    def build() -> Any:
        kind = options["kind"]
        return convs.HeteroConv({one: kind() for one in RELATIONS}, aggr=options["aggr"])

    return build


def gat() -> Any:
    return convs.GATv2Conv((F, F), F, heads=2, add_self_loops=False)


BUILD: dict[str, Build] = {
    "FastRGCNConv": lambda: convs.FastRGCNConv(F, F, num_relations=4),
    "HeteroConv, GraphConv": hetero(kind=lambda: convs.GraphConv((F, F), F), aggr="mean"),
    "HeteroConv, SAGEConv": hetero(kind=lambda: convs.SAGEConv((F, F), F), aggr="sum"),
    "RGCNConv": lambda: convs.RGCNConv(F, F, num_relations=4),
    "RGCNConv, aggr=add": lambda: convs.RGCNConv(F, F, num_relations=4, aggr="add"),
    "RGCNConv, num_bases": lambda: convs.RGCNConv(F, F, num_relations=4, num_bases=2),
    "HGTConv": lambda: convs.HGTConv(F, F, (list(SIZES), RELATIONS), heads=2),
    "HeteroConv, GATv2Conv": hetero(kind=gat, aggr="sum"),
    "RGATConv": lambda: convs.RGATConv(F, F, num_relations=4),
    "HANConv": lambda: convs.HANConv(F, F, (list(SIZES), RELATIONS)),
    "RGCNConv, aggr=max": lambda: convs.RGCNConv(F, F, num_relations=4, aggr="max"),
}


@cache
def data() -> HeteroData:
    generator = np.random.default_rng(3)
    found = HeteroData()
    for name, size in SIZES.items():
        found[name].x = torch.from_numpy(generator.normal(0.5, 1, (size, F)).astype(np.float32))
    for one in RELATIONS:
        size = SIZES[one[0]]
        chance = np.arange(1, size + 1) ** -0.6
        pairs = generator.choice(size, size=(2, EDGES // 4), p=chance / chance.sum())
        pairs = np.unique(np.stack([generator.permutation(size)[pairs[0]], pairs[1]]), axis=1)
        found[one].edge_index = torch.from_numpy(pairs)
    return found


@cache
def draws() -> list[Block]:
    sampler = PLADIES(Graph.of(data()), [BUDGET])
    return [sampler.sample(np.arange(TARGETS), step)[0] for step in range(DRAWS)]


def inputs(conv: Any, block: Block) -> Any:
    """Rows of the sources: by type for convolutions that take dictionaries."""
    every = torch.cat([data()[name].x for name in SIZES])[block.src]
    return block.split(every) if takes_types(conv) else every


def takes_types(conv: Any) -> bool:
    return type(conv).__name__ in ("HeteroConv", "HGTConv", "HANConv")


def exact(conv: Any) -> Tensor:
    """Output of the convolution itself at the targets, which are of type a."""
    if takes_types(conv):
        named = dict(zip(RELATIONS, map(weight, RELATIONS), strict=True))
        more = {"edge_weight_dict": named} if takes_weights(conv) else {}
        return conv(data().x_dict, data().edge_index_dict, **more)["a"][:TARGETS]
    whole = data().to_homogeneous()
    return conv(whole.x, whole.edge_index, whole.edge_type)[:TARGETS]


def takes_weights(conv: Any) -> bool:
    return isinstance(conv, convs.HeteroConv) and "edge_weight" in str(
        [one.forward.__code__.co_varnames for one in conv.convs.values()]
    )


def weight(one: Any) -> Tensor:
    """alpha_ij of a relation: 1 / |N_i^r|."""
    target = data()[one].edge_index[1]
    return 1 / torch.bincount(target)[target]


def naive(conv: Any, block: Block) -> Tensor:
    """The convolution on the kept edges without the sampler's weights."""
    x = inputs(conv, block)
    if takes_types(conv):
        kept = {one: own.coefficient for one, own in block.relations.items()}
        more = {"edge_weight_dict": kept} if takes_weights(conv) else {}
        return conv(x, block.edge_index_dict, **more)["a"][: block.num_dst]
    return conv((x, x[: block.num_dst]), block.edge_index, edge_type=block.relation)


@torch.no_grad()
def measure(name: str) -> Row:
    """Mean of many draws against the convolution on the whole graph."""
    torch.manual_seed(0)
    conv = BUILD[name]().eval()
    try:
        found = [block.propagate(conv, inputs(conv, block)) for block in draws()]
    except InputError as error:
        base = name.split(",")[0]
        return Row(name, "refused", str(error).split(": ")[0].removeprefix(f"{base} "))
    outs = torch.stack([out["a"] if isinstance(out, dict) else out for out in found])
    plain = torch.stack([naive(conv, block) for block in draws()])
    target = exact(conv).double()
    bias, worst = deviation(outs, target)
    is_softmax = any(part in name for part in ("GAT", "HGT"))
    how = {"HGTConv": "joint attention", "RGATConv": "attention"}.get(name, "messages")
    how = "attention" if name.endswith("GATv2Conv") else how
    status = "weighted" if is_softmax else "exact"
    return Row(name, status, how, bias, worst, deviation(plain, target)[0], takes_first_hop(conv))


def takes_first_hop(conv: Any) -> bool:
    """Whether a convolution takes an exact first hop; its output is then the exact one."""
    sampler = PLADIES(Graph.of(data()), [BUDGET], x=data().x_dict, first_hop="exact")
    block = sampler.first_hop.block(sampler.graph.rows(np.arange(TARGETS)))
    try:
        out = block.propagate(conv, inputs(conv, block))
    except InputError as error:
        assert "not linear in the inputs" in str(error)
        return False
    torch.testing.assert_close(
        out["a"] if isinstance(out, dict) else out, exact(conv), rtol=1e-4, atol=1e-4
    )
    return True
