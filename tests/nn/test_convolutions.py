"""The page of convolutions says what is measured: status and bias of every convolution of PyG."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch_geometric.nn.conv as convs
from torch import Tensor
from torch_geometric.nn import MessagePassing

from bliss import PLADIES, Bliss, Full, Graph, InputError
from bliss.nn import SAGEConv as OurSAGEConv
from bliss.nn.block import Block
from tests.nn import convolutions, typed_convolutions
from tests.statistics import heavy_tailed_graph, normal_limit, weight_matrix

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rows() -> dict[str, convolutions.Row]:
    return {name: convolutions.measure(name) for name in convolutions.BUILD}


def test_every_convolution_of_pyg_is_listed():
    listed = {name.split(",")[0] for name in (*convolutions.BUILD, *typed_convolutions.BUILD)}
    listed |= set(" ".join(convolutions.ELSEWHERE.values()).split())
    assert listed == set(convs.classes) - {"MessagePassing"}


@pytest.fixture(scope="module")
def typed() -> dict[str, convolutions.Row]:
    return {name: typed_convolutions.measure(name) for name in typed_convolutions.BUILD}


def test_the_page_is_what_is_measured(rows, typed):
    page = convolutions.page(list(rows.values()), list(typed.values()))
    assert convolutions.PAGE.read_text(encoding="utf-8") == page


def test_sums_over_relations_are_unbiased_and_a_joint_softmax_is_corrected(typed):
    for row in typed.values():
        if row.status == "exact":
            assert row.worst_z < convolutions.limit(), row.name
        if row.status == "weighted":
            assert row.bias < row.naive, row.name
    assert typed["RGCNConv"].status == typed["HeteroConv, SAGEConv"].status == "exact"
    assert typed["RGCNConv, aggr=add"].naive > 0.2  # without the weights


def test_sums_are_unbiased_and_the_test_would_notice(rows):
    exact = [row for row in rows.values() if row.status == "exact"]
    assert len(exact) > 20
    for row in exact:
        assert row.worst_z < convolutions.limit(), row.name
    plain = convolutions.measure("GINConv")
    assert plain.naive > 0.2  # without the weights


def test_attention_is_less_biased_than_without_correction(rows):
    weighted = [row for row in rows.values() if row.status == "weighted"]
    assert len(weighted) > 3
    for row in weighted:
        assert row.bias < row.naive, row.name


def test_convolutions_that_were_biased_for_users_are_not_refused(rows):
    for name in ("SAGEConv", "GINConv", "GATConv", "GATv2Conv", "TransformerConv", "GCNConv"):
        assert rows[name].status != "refused"


@pytest.fixture(scope="module")
def graph() -> Graph:
    return heavy_tailed_graph()


def block_of(graph: Graph, step: int = 0, **options) -> Block:
    return PLADIES(graph, [20], **options).sample(np.arange(15), step)[0]


def random(rows: int, width: int = 4) -> Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", ["hajek", "ht"])
def test_means_use_the_weights_of_the_estimator(graph, name):
    block = block_of(graph, estimator=name)
    conv, x = convs.SAGEConv(4, 3), random(block.num_src)
    found = block.propagate(conv, x)
    expected = conv.lin_l(weight_matrix(block) @ x) + conv.lin_r(x[: block.num_dst])
    torch.testing.assert_close(found, expected)


def test_on_full_neighbourhoods_every_aggregation_is_that_of_the_graph(graph):
    (block,) = Full(graph, layers=1).sample(np.arange(15), 0)
    every = random(60)
    for conv in (
        convs.SAGEConv(4, 3, aggr="max"),
        convs.PNAConv(4, 3, ["std", "max"], ["identity"], torch.ones(9).long()),
        convs.AGNNConv(),
        convs.GATConv(4, 3, heads=2),
    ):
        expected = conv.eval()(every, graph.edge_index)[:15]
        torch.testing.assert_close(block.propagate(conv, every[block.src]), expected)


def test_the_convolution_is_left_as_it_was(graph):
    block = block_of(graph)
    conv = convs.GATv2Conv(4, 3, dropout=0.5)
    block.propagate(conv, random(block.num_src)).sum().backward()
    assert conv.add_self_loops
    assert conv.dropout == 0.5
    assert not {"message", "edge_update", "propagate"} & vars(conv).keys()
    assert all(one.grad is not None for one in conv.parameters())
    mean = convs.SAGEConv(4, 3)
    block.propagate(mean, random(block.num_src))
    assert isinstance(mean.aggr_module, type(convs.SAGEConv(4, 3).aggr_module))


def test_edge_weights_of_ones_own_replace_the_coefficients(graph):
    block, conv = block_of(graph), convs.GraphConv(4, 3)
    x, weight = random(block.num_src), torch.rand(graph.num_edges)
    pair = (x, x[: block.num_dst])
    found = block.propagate(conv, x, edge_weight=weight[block.edge])
    expected = conv(pair, block.edge_index, weight[block.edge] / block.edge_prob)
    torch.testing.assert_close(found, expected)
    found = block.propagate(conv, x, edge_weight=None)
    torch.testing.assert_close(found, conv(pair, block.edge_index, 1 / block.edge_prob))
    with pytest.raises(InputError, match=r"edge_weight has shape \(3,\), but the block has"):
        block.propagate(conv, x, edge_weight=torch.ones(3))


def test_in_training_the_block_observes_input_and_attention(graph):
    sampler = Bliss(graph, [20])
    block = sampler.sample(np.arange(15), 0)[0]
    x = random(block.num_src)
    conv = convs.GATv2Conv(4, 3, heads=2, add_self_loops=False)
    block.propagate(conv.eval(), x)
    assert block.observation is None
    pair = (x, x[: block.num_dst])
    block.propagate(conv.train(), x)
    _, (_, plain) = conv(pair, block.edge_index, return_attention_weights=True)
    torch.testing.assert_close(block.observation.norm, x.norm(dim=1))
    torch.testing.assert_close(block.observation.attention, plain.mean(1).detach())
    block.propagate(convs.TransformerConv(4, 3, heads=2), x, observed=2 * x)
    torch.testing.assert_close(block.observation.norm, 2 * x.norm(dim=1))
    assert block.observation.attention is not None
    sampler.update([block])


def test_attention_equals_that_of_the_library(graph):
    """The softmax of scores - log p_ij, in a convolution of PyG and in ours."""
    block, x = block_of(graph), random(60)
    theirs = convs.GATConv(4, 3, bias=False)
    values = theirs.lin(x)
    scores = (values * theirs.att_dst[0]).sum(1)[block.dst][block.col]
    scores = scores + (values * theirs.att_src[0]).sum(1)[block.src][block.row]
    scores = torch.nn.functional.leaky_relu(scores, 0.2) - block.edge_prob.log()
    raised = scores.exp()
    total = torch.zeros(block.num_dst).index_add(0, block.col, raised)[block.col]
    weighted = (raised / total)[:, None] * values[block.src][block.row]
    expected = torch.zeros(block.num_dst, 3).index_add(0, block.col, weighted)
    torch.testing.assert_close(block.propagate(theirs, x[block.src]), expected)


@pytest.mark.parametrize("kind", [convs.GATConv, convs.GATv2Conv, convs.TransformerConv])
def test_dropout_of_attention_comes_after_the_correction(graph, kind):
    """The mean over masks is then the output without dropout; before it, a sum would be rescaled.

    False-alarm rate 1e-6. The mutant divides what dropout left by its sum.
    """
    block, x = block_of(graph), random(60)
    torch.manual_seed(0)
    conv = kind(4, 3, dropout=0.5)
    with torch.no_grad():
        exact = block.propagate(conv.eval(), x[block.src])
        found = torch.stack([block.propagate(conv.train(), x[block.src]) for _ in range(600)])
    error = found.std(0) / len(found) ** 0.5 + 1e-6
    assert ((found.mean(0) - exact).abs() < normal_limit(1e-6, exact.numel()) * error).all()


class OwnConv(MessagePassing):
    """A person's own convolution, without annotations: a mean of gated messages."""

    def __init__(self, **options) -> None:
        super().__init__(**options)
        self.gate = torch.nn.Linear(4, 1)
        self.last = None

    def forward(self, x, edge_index):
        self.last = x
        return self.propagate(edge_index, x=x)

    def message(self, x_i, x_j):
        return self.gate(x_i + x_j).sigmoid() * x_j


class OwnSoftmax(OwnConv):
    def message(self, x_i, x_j, index):
        return x_j * torch.ones(index.numel(), 1)


def test_ones_own_convolution_is_weighted_or_refused(graph):
    block, conv, x = block_of(graph), OwnConv(aggr="mean"), random(60)
    found = block.propagate(conv, x[block.src])
    at = x[block.src]
    messages = conv.message(at[: block.num_dst][block.col], at[block.row])
    weighted = messages * block.edge_weight[:, None]
    expected = torch.zeros(block.num_dst, 4).index_add(0, block.col, weighted)
    torch.testing.assert_close(found, expected)
    assert conv.last is not None  # what forward keeps is kept
    with pytest.raises(InputError, match=r"OwnSoftmax cannot be estimated.*depends on the other"):
        block.propagate(OwnSoftmax(), at)


def test_a_convolution_of_the_library_is_called_with_the_block(graph):
    block, conv = block_of(graph), OurSAGEConv(4, 3)
    x = random(block.num_src)
    assert torch.equal(block.propagate(conv, x), conv(x, block))


def test_what_cannot_be_made_right_is_refused_with_a_remedy(graph):
    block, x = block_of(graph), random(60)
    inputs = x[block.src]
    for conv, sentence in (
        (convs.GCNConv(4, 3), 'GCNConv divides by roots.*norm="gcn"'),
        (convs.GCNConv(4, 3, improved=True), "improved"),
        (convs.TAGConv(4, 3, normalize=False), "propagates more than once"),
        (convs.GraphConv(4, 3, flow="target_to_source"), "flow='target_to_source'"),
        (convs.SimpleConv(combine_root="self_loop"), "bipartite|changes the edges"),
        (torch.nn.Linear(4, 3), "Linear is not a MessagePassing convolution"),
    ):
        with pytest.raises((InputError, ValueError), match=sentence):
            block.propagate(conv, inputs)
    bare = Graph.from_edge_index(graph.edge_index, 60, self_loops="remove")
    block = block_of(bare)
    with pytest.raises(InputError, match="adds self-loops, and the graph was built without"):
        block.propagate(convs.GATConv(4, 3), x[block.src])
    block.propagate(convs.GATConv(4, 3, add_self_loops=False), x[block.src])
    block = block_of(graph.with_norm("gcn"))
    weight = torch.ones(block.num_edges)
    with pytest.raises(InputError, match="GCNConv normalises edge_weight by sums over edges"):
        block.propagate(convs.GCNConv(4, 3), x[block.src], edge_weight=weight)
    block.propagate(convs.GCNConv(4, 3, normalize=False), x[block.src], edge_weight=weight)
