"""Gradients of the library's own autograd functions, and gradients of those gradients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from bliss import PLADIES, Graph
from bliss.nn import GNN, ModelConfig
from bliss.nn import attention as attention_module
from bliss.nn.aggregate import _Sum, aggregate
from bliss.nn.attention import attend, gatv2_scores
from bliss.nn.block import Block
from bliss.nn.dropout import dropout
from tests.conftest import heavy_tailed_pairs


@pytest.fixture(scope="module")
def block() -> Block:
    graph = Graph.from_edge_index(heavy_tailed_pairs(80, 500), 80)
    return PLADIES(graph, [25]).sample(np.arange(12), 0)[0]


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_()


def derivatives(function, x: Tensor) -> list[Tensor]:
    """Value, gradient of a nonlinear loss, and gradient of the squared norm of that gradient."""
    out = function(x)
    gradient = torch.autograd.grad(out.pow(3).sum(), x, create_graph=True)[0]
    return [out, gradient, torch.autograd.grad(gradient.pow(2).sum(), x)[0]]


def dense(block: Block) -> Tensor:
    """The matrix [D, S] that a block multiplies with."""
    matrix = torch.zeros(block.num_dst, block.num_src)
    return matrix.index_put((block.col, block.row), block.edge_weight, accumulate=True)


def test_aggregation_has_the_two_derivatives_of_the_dense_product(block):
    matrix, x = dense(block), random(block.num_src, 5)
    ours = derivatives(lambda x: aggregate(block, x), x)
    for mine, expected in zip(ours, derivatives(lambda x: matrix @ x, x), strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-4, atol=1e-4)


def test_aggregation_passes_torchs_check_of_first_and_second_derivatives(block):
    weight = block.edge_weight.double()
    x = random(block.num_src, 2, dtype=torch.float64)

    def function(x: Tensor) -> Tensor:
        return _Sum.apply(x, block, weight, False)

    assert torch.autograd.gradcheck(function, (x,))
    assert torch.autograd.gradgradcheck(lambda x: function(x).pow(2), (x,))


def test_aggregation_over_no_edges_is_zero_in_value_and_gradient(block):
    none = torch.empty(0, dtype=torch.int64)
    empty = replace(
        block,
        indptr=torch.zeros_like(block.indptr),
        row=none,
        edge=none,
        edge_prob=torch.empty(0),
        edge_weight=torch.empty(0),
    )
    x = random(block.num_src, 5)
    out = aggregate(empty, x)
    out.sum().backward()
    assert out.shape == (block.num_dst, 5)
    assert not out.any()
    assert not x.grad.any()


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_dropout_has_the_two_derivatives_of_a_product_with_its_mask(rate):
    x = random(37, 11)

    def seeded(x: Tensor) -> Tensor:
        torch.manual_seed(0)
        return dropout(x, rate, training=True)

    mask = seeded(torch.ones(37, 11))
    for mine, expected in zip(
        derivatives(seeded, x), derivatives(lambda x: x * mask, x), strict=True
    ):
        torch.testing.assert_close(mine, expected)


@pytest.mark.parametrize("model", ["sage", "gcn"])
def test_a_gradient_penalty_trains_a_network_as_in_plain_torch(block, model):
    torch.manual_seed(0)
    network = GNN(6, 4, ModelConfig(model=model, layers=1, dropout=0.5))
    x, results = random(block.num_src, 6), []
    matrix = dense(block)
    torch.manual_seed(1)
    mask = dropout(torch.ones(block.num_src, 6), 0.5, training=True)
    conv = network.convs[0]

    def plain(x: Tensor) -> Tensor:
        x = x * mask
        if model == "gcn":
            return conv.linear(matrix @ x) + conv.bias
        return conv.own(x[: block.num_dst]) + conv.others(matrix @ x)

    for function in (lambda x: network(x, [block]), plain):
        torch.manual_seed(1)
        loss = function(x).pow(2).sum()
        penalty = torch.autograd.grad(loss, x, create_graph=True)[0].pow(2).sum()
        results.append(torch.autograd.grad(penalty, tuple(network.parameters())))
    for mine, expected in zip(*results, strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_compiled_attention_has_the_two_derivatives_of_plain_torch(block, rate, monkeypatch):
    vector = random(2, 3, seed=1)

    def function(x: Tensor) -> Tensor:
        torch.manual_seed(0)
        x = x.view(-1, 2, 3)
        # the targets' part is a slice of the sources', as in a network
        scores = gatv2_scores(block, x[: block.num_dst], x, vector, 0.2)
        return attend(block, scores, x, rate)[0] + x[: block.num_dst]

    x = random(block.num_src, 6)
    ours = derivatives(function, x)
    monkeypatch.setattr(attention_module, "_is_compiled", lambda _: False)
    for mine, expected in zip(ours, derivatives(function, x), strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-4, atol=1e-3)


def test_compiled_attention_differentiates_twice_by_what_needs_it_alone(block):
    values = random(block.num_src, 2, 3)
    scores = random(block.num_edges, 2, seed=1).detach()
    gradient = torch.autograd.grad(
        attend(block, scores, values)[0].pow(3).sum(), values, create_graph=True
    )[0]
    assert torch.autograd.grad(gradient.sum(), values)[0].any()
