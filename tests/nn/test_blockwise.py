"""Models of PyG over blocks: equal to their plain forward pass, unbiased, or refused."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GCN2Conv, GCNConv, GraphConv, MessagePassing, SAGEConv
from torch_geometric.nn.models import GAT, GCN, GIN, PNA, EdgeCNN, GraphSAGE

from bliss import PLADIES, Bliss, Full, Graph, InputError
from bliss.nn import Blockwise, infer
from tests.conftest import heavy_tailed_pairs
from tests.statistics import normal_limit

NODES, WIDTH, SEEDS = 80, 5, np.arange(7)
PAIRS = heavy_tailed_pairs(NODES, 600)
EDGES = torch.from_numpy(PAIRS)
FALSE_ALARM = 1e-6
PNA_OPTIONS = {"aggregators": ["mean", "max"], "scalers": ["identity"], "deg": torch.arange(40)}
BASIC: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "GCN": (GCN, "gcn", {}),
    "GraphSAGE": (GraphSAGE, "mean", {}),
    "GraphSAGE, max": (GraphSAGE, "mean", {"aggr": "max"}),
    "GIN": (GIN, "mean", {}),
    "GAT": (GAT, "mean", {}),
    "GATv2": (GAT, "mean", {"v2": True, "heads": 2}),
    "PNA": (PNA, "mean", PNA_OPTIONS),
    "EdgeCNN": (EdgeCNN, "mean", {}),
}
KINDS = {
    "plain": {},
    "cat": {"jk": "cat", "norm": "BatchNorm"},
    "lstm": {"jk": "lstm", "norm": "LayerNorm", "norm_kwargs": {"mode": "node"}},
    "max": {"jk": "max", "act_first": True},
}


def graph_for(name: str, norm: str = "mean") -> Graph:
    """The edges as the model sees them: GCN and GAT add self-loops."""
    loops = "add" if name.startswith(("GCN", "GAT")) else "keep"
    return Graph.from_edge_index(PAIRS, NODES, norm=norm, self_loops=loops)


def features() -> Tensor:
    return 0.5 + torch.randn(NODES, WIDTH, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BASIC)
def test_full_blocks_give_the_plain_forward_pass(name, kind):
    torch.manual_seed(0)
    build, norm, options = BASIC[name]
    model = build(WIDTH, 8, 3, out_channels=4, dropout=0.5, **options, **KINDS[kind])
    model = model.double().eval()
    graph, x = graph_for(name, norm), features().double()
    blocks = Full(graph, layers=3).sample(SEEDS, 0)
    assert blocks[0].num_src > blocks[1].num_src > blocks[2].num_src  # rows shrink
    over_blocks = Blockwise(model, full=True)
    plain = model(x, EDGES)
    assert torch.equal(over_blocks(x, EDGES), plain)  # the model itself
    found = over_blocks(x[blocks[0].src], blocks)
    assert (found - plain[SEEDS]).abs().max() <= 1e-6 * plain.abs().max()
    every = infer(over_blocks, graph, x, chunk_edges=100)
    assert (every - plain).abs().max() <= 1e-5 * plain.abs().max()  # layers in float32


class Own(nn.Module):
    """A network of one's own: encoder, dropout, residuals, normalisation and a concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(WIDTH, 6)
        self.first, self.second = SAGEConv(6, 6), GraphConv(6, 6)
        self.norm, self.head = nn.LayerNorm(6), nn.Linear(18, 3)

    def forward(self, x, edge_index):
        start = self.encoder(x)
        h = functional.dropout(start, 0.5, self.training)
        h = self.norm(h + self.first(h, edge_index)).relu()
        last = h * 0.5 + self.second(h, edge_index)
        last += h
        return self.head(torch.cat([start, h, last], dim=-1))


class Initial(nn.Module):
    """GCNII: every layer sees the first one's input."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([GCN2Conv(WIDTH, alpha=0.2) for _ in range(3)])

    def forward(self, x, edge_index):
        first = x
        for layer in self.layers:
            x = layer(x, first, edge_index).relu()
        return x


@pytest.mark.parametrize("build", [Own, Initial])
def test_ones_own_class_over_full_blocks_and_in_inference(build):
    torch.manual_seed(0)
    model, norm = build().eval(), "gcn" if build is Initial else "mean"
    graph, x = graph_for("GCN" if build is Initial else "", norm), features()
    blocks = Full(graph, layers=len(Blockwise(model).layers)).sample(SEEDS, 0)
    plain, over_blocks = model(x, EDGES), Blockwise(model)
    found = over_blocks(x[blocks[0].src], blocks)
    torch.testing.assert_close(found, plain[SEEDS], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(infer(over_blocks, graph, x), plain, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["GCN", "GraphSAGE"])
@pytest.mark.parametrize("history", ["none", "nodes"])
def test_linear_networks_are_unbiased(name, history):
    """Without activations, the tower property makes two unbiased layers unbiased.

    The mutant has no weights of the sampler: convolutions of the same model on the kept edges.
    """
    torch.manual_seed(0)
    build, norm, _ = BASIC[name]
    model = build(WIDTH, 6, 2, out_channels=3, act=None).eval()
    graph, x = graph_for(name, norm), features()
    options = {"layers": 2, "widths": [WIDTH, 6], "x": x.numpy(), "history": history}
    sampler = PLADIES(graph, [20] if history == "nodes" else [40, 20], **options)
    over_blocks = Blockwise(model)
    if history == "nodes":
        sampler.history.value(0)[:] = np.random.default_rng(0).normal(size=(NODES, 6))
    with torch.no_grad():
        exact, samples, mutants = model(x, EDGES)[SEEDS], [], []
        for step in range(150):
            blocks = sampler.sample(SEEDS, step)
            samples.append(over_blocks(x[blocks[0].src], blocks))
            if history == "none":
                mutants.append(unweighted(model, blocks, x))
    limit = normal_limit(FALSE_ALARM, exact.numel())
    assert worst_z(torch.stack(samples), exact) < limit
    assert not mutants or worst_z(torch.stack(mutants), exact) > limit


def unweighted(model: nn.Module, blocks: list[Any], x: Tensor) -> Tensor:
    h = x[blocks[0].src]
    for conv, block in zip(model.convs, blocks, strict=True):
        h = conv(h, block.edge_index)[: block.num_dst]
    return h


def worst_z(samples: Tensor, exact: Tensor) -> float:
    error = samples.std(0) / len(samples) ** 0.5 + 1e-5 * exact.abs().max()
    return float(((samples.mean(0) - exact).abs() / error).max())


def test_training_with_a_history_learns_and_a_survey_writes_the_history():
    torch.manual_seed(0)
    model, x = GraphSAGE(WIDTH, 6, 2, out_channels=3, dropout=0.5), features()
    over_blocks, graph = Blockwise(model), graph_for("GraphSAGE")
    sampler = Bliss(graph, [20], history="nodes", layers=2, widths=[WIDTH, 6], x=x.numpy())
    optimizer = torch.optim.Adam(over_blocks.parameters(), lr=0.05)
    losses = []
    for step in range(20):
        blocks = sampler.sample(SEEDS, step)
        loss = functional.cross_entropy(over_blocks(x[blocks[0].src], blocks), EDGES[0, :7] % 3)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        sampler.update(blocks)
        losses.append(loss.item())
    assert np.mean(losses[-5:]) < np.mean(losses[:5])
    out = sampler.survey(over_blocks, x)
    torch.testing.assert_close(out, model.eval()(x, EDGES), rtol=1e-4, atol=1e-5)
    hidden = model.convs[0](x, EDGES).relu().detach()
    np.testing.assert_allclose(sampler.history.value(0), hidden.numpy(), atol=1e-5)


@pytest.mark.parametrize(
    ("layers", "history", "dropout", "warns"),
    [(3, "nodes", 0.5, 1), (2, "nodes", 0.5, 0), (3, "nodes", 0.0, 0), (3, "none", 0.5, 0)],
)
def test_dropout_below_a_layer_with_a_history_is_warned_of(
    layers, history, dropout, warns, recwarn
):
    x, graph = features(), graph_for("GraphSAGE")
    model = Blockwise(GraphSAGE(WIDTH, 6, layers, out_channels=3, dropout=dropout))
    options = {"layers": layers, "widths": [WIDTH, 6, 6][:layers], "x": x.numpy()}
    budgets = [20] * (layers - 1)
    blocks = Bliss(graph, budgets, history=history, first_hop="exact", **options).sample(SEEDS, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        model(x[blocks[0].src], blocks)
    assert ["dropout below a layer" in str(one.message) for one in recwarn] == [True] * warns


def test_the_block_observes_the_input_before_dropout():
    torch.manual_seed(0)
    model, graph, x = Own(), graph_for(""), features()
    blocks = Bliss(graph, [40, 20]).sample(SEEDS, 0)
    Blockwise(model)(x[blocks[0].src], blocks)
    expected = model.encoder(x[blocks[0].src]).norm(dim=1)
    torch.testing.assert_close(blocks[0].observation.norm, expected)


class WithEdges(MessagePassing):
    def forward(self, x, edge_index, edge_attr):
        return self.propagate(edge_index, x=x, edge_attr=edge_attr)

    def message(self, x_j, edge_attr):
        return x_j * edge_attr


class EdgeModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList([WithEdges(), WithEdges()])

    def forward(self, x, edge_index, edge_attr):
        for conv in self.convs:
            x = conv(x, edge_index, edge_attr)
        return x


def test_values_of_edges_are_taken_for_each_block():
    graph = Graph.from_edge_index(PAIRS, NODES, self_loops="keep", edge_ids=True)
    model, x, values = EdgeModel(), features(), torch.rand(EDGES.size(1), 1)
    over_blocks = Blockwise(model, edge_attr=values)
    blocks = Full(graph, layers=2).sample(SEEDS, 0)
    expected = model(x, EDGES, values)
    found = over_blocks(x[blocks[0].src], blocks)
    torch.testing.assert_close(found, expected[SEEDS], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(infer(over_blocks, graph, x), expected, rtol=1e-4, atol=1e-4)


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.other = SAGEConv(WIDTH, WIDTH), SAGEConv(WIDTH, WIDTH)

    def forward(self, x, edge_index):
        return self.conv(self.conv(x, edge_index), edge_index)


class Branch(Twice):
    def forward(self, x, edge_index):
        return self.conv(x, edge_index) + self.other(x, edge_index)


class Unused(Twice):
    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


class Degrees(Twice):
    def forward(self, x, edge_index):
        return self.other(self.conv(x, edge_index), edge_index) / edge_index[1].bincount()[:, None]


class OtherEdges(Twice):
    def forward(self, x, edge_index):
        return self.other(self.conv(x, EDGES), edge_index)


class Required(Twice):
    def forward(self, x, edge_index, kind):
        return self.conv(x, edge_index)


def test_what_cannot_be_routed_is_refused_with_the_name_of_the_layer():
    graph, x = graph_for(""), features()
    blocks = PLADIES(graph, [40, 20]).sample(SEEDS, 0)
    for model, sentence in (
        (Twice(), "layer conv is called twice"),
        (Branch(), "layer other gets .* message passing in a branch"),
        (Unused(), "did not call other"),
        (Degrees(), r"uses edge_index outside of its message passing layers \(\[1\]\)"),
        (OtherEdges(), "layer conv is called with other edges"),
    ):
        over_blocks = Blockwise(model)
        with pytest.raises(InputError, match=sentence):
            over_blocks(x[blocks[0].src], blocks)
        assert "forward" not in vars(model.conv)  # the model is left as it was
    with pytest.raises(InputError, match="there are 2 blocks, but GraphSAGE has 3 message passing"):
        Blockwise(GraphSAGE(WIDTH, 4, 3))(x[blocks[0].src], blocks)
    with pytest.raises(InputError, match=r'GCNConv divides by roots of degrees .* norm="gcn"'):
        Blockwise(GCN(WIDTH, 4, 2))(x[blocks[0].src], blocks)  # not self_loops first, norm then


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (GraphSAGE(WIDTH, 4, 2, aggr="max"), r"layer convs\.0 \(SAGEConv\) .* aggregation 'max'"),
        (GraphSAGE(WIDTH, 4, 2, norm="GraphNorm"), r"norms\.0 \(GraphNorm\) normalises over all"),
        (nn.Sequential(nn.Linear(2, 3)), "cannot be called as model"),
        (nn.Bilinear(2, 3, 4), "Bilinear has no MessagePassing layers"),
        (GCNConv(3, 4, flow="target_to_source"), "flow="),
        (Required(), "Required.forward needs 'kind', which is not passed: pass Blockwise"),
    ],
)
def test_what_no_sample_can_estimate_is_refused_at_construction(model, sentence):
    with pytest.raises(InputError, match=sentence):
        Blockwise(model)


def test_outputs_go_to_a_file_and_scratch_has_no_effect(tmp_path):
    model, graph, x = Blockwise(GraphSAGE(WIDTH, 4, 2)), graph_for(""), features()
    written = infer(model, graph, x, out=tmp_path / "out.npy")
    every = infer(model, graph, x)
    assert torch.equal(written, every)
    assert torch.equal(infer(model, graph, x, nodes=[5, 2]), every[[5, 2]])
    with pytest.raises(InputError, match=r"scratch=.* would have no effect"):
        infer(model, graph, x, scratch=tmp_path)


@pytest.mark.parametrize("way", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_has_the_same_outputs_and_its_own_parameters(way):
    model, x = Blockwise(GraphSAGE(WIDTH, 4, 2)), features()
    other, blocks = way(model), PLADIES(graph_for(""), [40, 20]).sample(SEEDS, 0)
    assert torch.equal(other(x[blocks[0].src], blocks), model(x[blocks[0].src], blocks))
    other.model.convs[0].lin_l.weight.data.zero_()
    assert not torch.equal(other(x[blocks[0].src], blocks), model(x[blocks[0].src], blocks))


def test_a_forward_that_was_set_on_a_layer_is_used_and_stays():
    model = BASIC["GraphSAGE"][0](WIDTH, 6, 2, out_channels=3).eval()
    conv, calls = model.convs[0], []

    def counted(*arguments, **options):
        calls.append(1)
        return type(conv).forward(conv, *arguments, **options)

    conv.forward = counted
    graph, x = graph_for("GraphSAGE"), features()
    blocks = Full(graph, layers=2).sample(SEEDS, 0)
    found = Blockwise(model)(x[blocks[0].src], blocks)
    torch.testing.assert_close(found, model(x, EDGES)[SEEDS], rtol=1e-5, atol=1e-5)
    assert conv.forward is counted
    assert calls
