"""Models of PyG over blocks of a graph with types: equal to their plain pass, or refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch_geometric
import torch_geometric.nn.conv as convs
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import GAT, GraphSAGE, to_hetero

import bliss
from bliss.errors import InputError
from bliss.graph import Graph
from bliss.nn import Blockwise, infer
from bliss.nn.block import Block
from tests.types.graphs import SIZES, hetero

DATA = hetero()
for edge_type in [("paper", "back", "venue")]:  # every type is a target, as to_hetero needs
    DATA[edge_type].edge_index = DATA["venue", "publishes", "paper"].edge_index.flip(0)
pytestmark = pytest.mark.filterwarnings("ignore:There exist node types")
FIRST = dict(zip(SIZES, (0, 40, 100), strict=True))
SEEDS = np.arange(45, 60)  # papers 5 to 20


def rows_of(x: dict[str, Tensor], block: Block) -> dict[str, Tensor]:
    nodes = block.split(block.src)
    return {name: x[name][nodes[name] - FIRST[name]] for name in x}


class Hetero(nn.Module):
    """Two HeteroConvs, one of them with attention in some relations; a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        kinds = [
            lambda: convs.SAGEConv((-1, -1), 5),
            lambda: convs.GATv2Conv((-1, -1), 5, add_self_loops=False),
        ]
        self.layers = nn.ModuleList(
            convs.HeteroConv({one: kinds[n % 2]() for n, one in enumerate(DATA.edge_types)})
            for _ in range(2)
        )

    def forward(self, x: dict, edges: dict) -> dict:
        x = {name: out.relu() for name, out in self.layers[0](x, edges).items()}
        x = {name: nn.functional.dropout(out, 0.5, self.training) for name, out in x.items()}
        return {name: out + x[name] for name, out in self.layers[1](x, edges).items()}


class HGT(nn.Module):
    """Two HGTConvs, and the output of one type."""

    def __init__(self) -> None:
        super().__init__()
        widths = {name: DATA[name].x.size(1) for name in SIZES}
        self.first = convs.HGTConv(widths, 8, DATA.metadata(), heads=2)
        self.second = convs.HGTConv(8, 8, DATA.metadata(), heads=2)

    def forward(self, x: dict, edges: dict) -> Tensor:
        return self.second(self.first(x, edges), edges)["paper"]


class RGCN(nn.Module):
    """Two RGCNConvs over the rows of all types."""

    def __init__(self, kind: type = convs.RGCNConv) -> None:
        super().__init__()
        self.first = kind(4, 6, 5)
        self.second = kind(6, 3, 5, num_bases=2)

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        return self.second(self.first(x, edge_index, edge_type).relu(), edge_index, edge_type)


def build(name: str) -> nn.Module:
    torch.manual_seed(1)
    if name == "to_hetero SAGE":
        return to_hetero(GraphSAGE((-1, -1), 8, 2, 3, dropout=0.5), DATA.metadata())
    if name == "to_hetero GAT":
        gat = GAT((-1, -1), 8, 2, 3, v2=True, add_self_loops=False, jk="cat")
        return to_hetero(gat, DATA.metadata())
    return {"HeteroConv": Hetero, "HGT": HGT}[name]()


@pytest.fixture(scope="module")
def full() -> list[Block]:
    return bliss.Full(DATA, layers=2).sample(SEEDS, 0)


@pytest.mark.parametrize("name", ["HeteroConv", "HGT", "to_hetero SAGE", "to_hetero GAT"])
@torch.no_grad()
def test_models_of_dictionaries_are_exact_over_full_blocks_and_in_inference(name, full):
    model = build(name).eval()
    plain = model(DATA.x_dict, DATA.edge_index_dict)
    over_blocks = Blockwise(model)
    assert len(over_blocks.layers) == 2
    found = over_blocks(rows_of(DATA.x_dict, full[0]), full)
    whole = infer(over_blocks, Graph.of(DATA), DATA.x_dict, chunk_edges=60)
    if isinstance(plain, dict):
        assert {key: out.size(0) for key, out in found.items()} == {
            "author": 0,
            "paper": 15,
            "venue": 0,
        }
        torch.testing.assert_close(whole, plain, atol=2e-6, rtol=1e-5)
        found, plain = found["paper"], plain["paper"]
    else:
        torch.testing.assert_close(whole, plain, atol=2e-6, rtol=1e-5)
    torch.testing.assert_close(found, plain[5:20], atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("name", ["HeteroConv", "HGT", "to_hetero SAGE"])
def test_policies_learn_from_models_of_dictionaries(name):
    """Inputs before dropout are observed, by type, and attention by edge."""
    model = build(name).train()
    sampler = bliss.Bliss(DATA, [20, 10])
    sampler.survey(Blockwise(model), DATA.x_dict)
    blocks = sampler.sample(SEEDS, 0)
    x = rows_of(DATA.x_dict, blocks[0])
    out = Blockwise(model)(x, blocks)
    (out["paper"] if isinstance(out, dict) else out).sum().backward()
    observed = blocks[0].observation
    torch.testing.assert_close(blocks[0].split(observed.norm)["venue"], x["venue"].norm(dim=1))
    assert (observed.attention is None) == (name == "to_hetero SAGE")
    if name == "HGT":  # one softmax for all relations into a target
        total = torch.zeros(blocks[0].num_dst).index_add(0, blocks[0].col, observed.attention)
        torch.testing.assert_close(total[total > 0], torch.ones(int((total > 0).sum())))
    if name == "HeteroConv":  # relations without attention weigh their edges equally
        writes = blocks[0].relations["author", "writes", "paper"]
        place = blocks[0].by_type.edge_place[0]
        kept = writes.indptr.diff()
        torch.testing.assert_close(
            observed.attention[place], 1 / kept[kept > 0].repeat_interleave(kept[kept > 0])
        )
    sampler.update(blocks)
    sampler.sample(SEEDS, 1)


@pytest.mark.parametrize("kind", [convs.RGCNConv, convs.FastRGCNConv])
@torch.no_grad()
def test_a_mean_for_each_relation_is_that_of_the_whole_graph(kind, monkeypatch):
    data = hetero(4)
    whole, model = data.to_homogeneous(), RGCN(kind).eval()
    plain = model(whole.x, whole.edge_index, whole.edge_type)
    blocks = bliss.Full(data, layers=2).sample(SEEDS, 0)
    found = Blockwise(model)(whole.x[blocks[0].src], blocks)
    torch.testing.assert_close(found, plain[SEEDS], atol=2e-6, rtol=1e-5)
    torch.testing.assert_close(infer(Blockwise(model), Graph.of(data), whole.x), plain)
    monkeypatch.setattr(torch_geometric.typing, "WITH_SEGMM", True)  # as with pyg-lib
    monkeypatch.setattr(torch_geometric.backend, "use_segment_matmul", True)
    sample = blocks[1].propagate(model.first, whole.x[blocks[1].src])
    monkeypatch.undo()
    torch.testing.assert_close(sample, blocks[1].propagate(model.first, whole.x[blocks[1].src]))


def test_relations_of_a_plain_graph_are_summed_or_taken_whole():
    whole = hetero(4).to_homogeneous()
    conv, x = convs.RGCNConv(4, 3, 5), whole.x
    (block,) = bliss.Full(whole, layers=1, norm="mean").sample(SEEDS, 0)
    kinds = block.select_edges(whole.edge_type)
    found = block.propagate(conv, x[block.src], edge_type=kinds)
    torch.testing.assert_close(found, conv(x, whole.edge_index, whole.edge_type)[SEEDS])
    (block,) = bliss.PLADIES(whole, [20], norm="mean").sample(SEEDS, 0)
    kinds = block.select_edges(whole.edge_type)
    with pytest.raises(InputError, match="takes a mean for each relation, and degrees by relation"):
        block.propagate(conv, x[block.src], edge_type=kinds)
    block.propagate(convs.RGCNConv(4, 3, 5, aggr="add"), x[block.src], edge_type=kinds)
    with pytest.raises(InputError, match="needs the relation of each edge"):
        block.propagate(conv, x[block.src])


def test_edge_attributes_of_relations_reach_their_convolutions(full):
    relations = [one for one in DATA.edge_types if "edge_attr" in DATA[one]]
    layer = convs.HeteroConv(
        {one: convs.GATv2Conv((-1, -1), 3, edge_dim=2, add_self_loops=False) for one in relations}
    )

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x, edges, edge_attr_dict):
            return self.layer(x, edges, edge_attr_dict=edge_attr_dict)["paper"]

    values = {one: DATA[one].edge_attr for one in relations}
    expected = Model()(DATA.x_dict, DATA.edge_index_dict, values)
    found = Blockwise(Model(), edge_attr_dict=values)(rows_of(DATA.x_dict, full[1]), full[1:])
    torch.testing.assert_close(found, expected[5:20])
    own = {
        f"{one}_dict": {
            key: part.select_edges(values[key])
            for key, part in full[1].relations.items()
            if key in values
        }
        for one in ("edge_attr",)
    }
    found = full[1].propagate(layer, rows_of(DATA.x_dict, full[1]), **own)["paper"]
    torch.testing.assert_close(found, expected[5:20])


def test_check_of_typed_models():
    result = bliss.check(build("to_hetero SAGE"), DATA, draws=100, targets=9)
    assert result.status == "exact"
    assert {layer.status for layer in result.layers} == {"exact"}
    assert str(result).endswith("Build its sampler as Bliss(data, ..., norm='mean').")
    result = bliss.check(RGCN(), hetero(4), draws=200, targets=9)
    assert [layer.status for layer in result.layers] == ["exact", "exact"]
    assert "fails with" in str(bliss.check(RGCN(), DATA))  # it has six relations
    bare = hetero()
    del bare["venue"].x
    bare["venue"].num_nodes = 5
    with pytest.raises(InputError, match="type 'venue' has no features x"):
        bliss.check(Hetero(), bare)


class Branch(Hetero):
    """A second layer that is called on the rows of the first."""

    def forward(self, x: dict, edges: dict) -> dict:
        width = {name: value[:, :3] for name, value in x.items()}
        self.layers[0](width, edges)
        return self.layers[1](width, edges)


class Single(nn.Module):
    def __init__(self, conv: nn.Module) -> None:
        super().__init__()
        self.conv = conv

    def forward(self, x: dict, edges: dict) -> dict:
        return self.conv(x, edges)


def test_typed_models_that_cannot_be_estimated_are_refused(full):
    x = rows_of(DATA.x_dict, full[0])
    with pytest.raises(InputError, match="HANConv weighs its relations by means over all nodes"):
        Blockwise(Single(convs.HANConv(4, 8, DATA.metadata())))
    with pytest.raises(InputError, match=r"gets \d+ rows of type.*message passing in a branch"):
        Blockwise(Branch())(x, full)
    with pytest.raises(InputError, match="x has no entry for type 'venue'"):
        Blockwise(Hetero())({name: x[name] for name in ("author", "paper")}, full)
    with pytest.raises(InputError, match=r"x\['editor'\] is of no type of the graph"):
        Blockwise(Hetero())({**x, "editor": x["venue"]}, full)
    isolated = DATA.clone()
    isolated["editor"].num_nodes = 3  # of no relation: PyG's models do not ask for its features
    model = Blockwise(Hetero())
    found = infer(model, Graph.of(isolated), DATA.x_dict)
    torch.testing.assert_close(found, infer(model, Graph.of(DATA), DATA.x_dict))
    with pytest.raises(InputError, match="x has no entry for type 'venue'"):
        infer(model, Graph.of(isolated), {name: x[name] for name in ("author", "paper")})
    fewer = HeteroData({"author": {"num_nodes": 40}, "paper": {"num_nodes": 60}})
    fewer["author", "writes", "paper"].edge_index = DATA["author", "writes", "paper"].edge_index
    conv = convs.HGTConv({"author": 4, "paper": 6}, 8, fewer.metadata())
    with pytest.raises(InputError, match="HGTConv was built without the relation"):
        full[0].propagate(conv, x)
    conv = convs.HGTConv({"author": 4, "paper": 6, "venue": 3}, 8, DATA.metadata())
    with pytest.raises(InputError, match="x has no entry for type 'venue', but HGTConv takes all"):
        full[0].propagate(conv, {name: x[name] for name in ("author", "paper")})
    conv = convs.HeteroConv({("author", "writes", "paper"): convs.GCNConv(-1, 3, normalize=False)})
    with pytest.raises(InputError, match="GCNConv takes no pair of inputs"):
        full[0].propagate(conv, x)
    conv = convs.HeteroConv({("paper", "cites", "paper"): convs.GCNConv(-1, 3)})
    with pytest.raises(InputError, match="GCNConv divides by roots of degrees, which have no"):
        full[0].propagate(conv, x)
    with pytest.raises(InputError, match="SAGEConv takes no dictionary of types"):
        full[0].propagate(convs.SAGEConv(-1, 3), x)
    with pytest.raises(InputError, match="the graph has no types"):
        infer(Blockwise(Hetero()), Graph.of(DATA.to_homogeneous(), "mean"), DATA.x_dict)


def test_one_seed_does_not_cut_parameters_of_one_row():
    """[1, H, C] of an attention meets rows of nodes, of which a block may have one."""
    data = hetero(4).to_homogeneous()
    model = GAT(4, 8, 2, 3, add_self_loops=False).eval()
    blocks = bliss.Full(data, layers=2, norm="mean").sample(SEEDS[:1], 0)
    found = Blockwise(model)(data.x[blocks[0].src], blocks)
    torch.testing.assert_close(found, model(data.x, data.edge_index)[SEEDS[:1]])
