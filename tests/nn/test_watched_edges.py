"""A convolution that looks at the kept edges behind propagate's back is refused, another is not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.nn import GraphConv, MessagePassing, SAGEConv
from torch_geometric.utils import add_self_loops, degree

from bliss import PLADIES, Full, InputError
from tests.statistics import heavy_tailed_graph


class ByDegree(MessagePassing):
    def forward(self, x, edge_index):
        count = degree(edge_index[1], x.size(0))
        return self.propagate(edge_index, x=x) / count.clamp(min=1)[:, None]


class Transposed(MessagePassing):
    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x) / len(edge_index.T)


class OwnLoops(MessagePassing):
    def forward(self, x, edge_index):
        edges, _ = add_self_loops(edge_index)
        return self.propagate(edges, x=x)


class OwnSum(MessagePassing):
    def forward(self, x, edge_index):
        return torch.zeros_like(x).index_add(0, edge_index[1], x[edge_index[0]])


class UpdateByIndex(MessagePassing):
    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x)

    def update(self, inputs, index):
        return inputs / torch.bincount(index, minlength=len(inputs)).clamp(min=1)[:, None]


class Derived(SAGEConv):
    """A convolution of PyG with a forward of one's own."""

    def __init__(self):
        super().__init__(4, 4)

    def forward(self, x, edge_index):
        return super().forward(x, edge_index) * degree(edge_index[1], x.size(0))[:, None]


class Unweighted(GraphConv):
    """Takes edge_weight in forward, and does not use it in message."""

    def message(self, x_j):
        return x_j


class OtherName(MessagePassing):
    def forward(self, x, edges):
        return self.propagate(edges, x=x)


class Gated(MessagePassing):
    """Gates of the two ends of an edge, computed in forward."""

    def forward(self, x, edge_index):
        row, col = edge_index
        gate = (x[row] * x.index_select(0, col)).sum(1, keepdim=True).sigmoid()
        assert gate.size(0) == edge_index.size(1)
        return self.propagate(edge_index, x=x, gate=gate)

    def message(self, x_j, gate):
        return x_j * gate


@pytest.mark.parametrize("kind", [ByDegree, Transposed, OwnLoops, OwnSum, Derived])
def test_what_only_the_kept_edges_know_is_refused_on_a_sample(kind):
    graph = heavy_tailed_graph()
    (block,) = PLADIES(graph, [20]).sample(np.arange(15), 0)
    with pytest.raises(InputError, match=f"{kind.__name__} uses edge_index in its forward"):
        block.propagate(kind(), torch.ones(block.num_src, 4))
    if kind is ByDegree:  # full neighbourhoods have the degrees of their targets
        (block,) = Full(graph, layers=1).sample(np.arange(15), 0)
        torch.testing.assert_close(
            block.propagate(kind(), torch.ones(block.num_src, 4)), torch.ones(15, 4)
        )


def test_an_update_that_sees_all_edges_is_refused():
    (block,) = PLADIES(heavy_tailed_graph(), [20]).sample(np.arange(15), 0)
    with pytest.raises(InputError, match="UpdateByIndex cannot be estimated from sampled edges"):
        block.propagate(UpdateByIndex(), torch.ones(block.num_src, 4))


def test_messages_are_weighted_whatever_message_and_forward_are_called_with():
    (block,) = PLADIES(heavy_tailed_graph(), [20]).sample(np.arange(15), 0)
    x = torch.randn(block.num_src, 4)
    weighted = x[block.row] / block.edge_prob[:, None]
    expected = torch.zeros(block.num_dst, 4).index_add(0, block.col, weighted)
    torch.testing.assert_close(block.propagate(OtherName(), x), expected)
    conv = Unweighted(4, 4)
    linear = conv.lin_rel(expected) + conv.lin_root(x[: block.num_dst])
    torch.testing.assert_close(block.propagate(conv, x), linear)


def test_values_of_the_two_nodes_may_be_read():
    graph, x = heavy_tailed_graph(), torch.randn(60, 4)
    (block,) = PLADIES(graph, [20]).sample(np.arange(15), 0)
    at = x[block.src]
    ends = at[block.row], at[block.col]
    messages = ends[0] * (ends[0] * ends[1]).sum(1, keepdim=True).sigmoid()
    weighted = messages / block.edge_prob[:, None]
    expected = torch.zeros(block.num_dst, 4).index_add(0, block.col, weighted)
    torch.testing.assert_close(block.propagate(Gated(), at), expected)
