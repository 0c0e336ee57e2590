"""Networks over blocks under torch.compile: one graph, the same numbers, and blocks observed."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch import Tensor

from bliss import Bliss
from bliss.nn import GNN, ModelConfig, ops
from tests.statistics import heavy_tailed_graph

pytestmark = pytest.mark.slow


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("model", "backend"), [("sage", "aot_eager"), ("gatv2", "eager")])
def test_a_network_compiles_to_one_graph_with_the_same_numbers(model, backend):
    torch.manual_seed(0)
    config = ModelConfig(model=model, layers=2, hidden=8, heads=2, dropout=0.5)
    network, sampler = GNN(4, 3, config), Bliss(heavy_tailed_graph(), [20, 15])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch about itself
        torch._dynamo.reset()
        compiled = torch.compile(network, fullgraph=True, backend=backend, dynamic=True)
        for step in range(2):
            blocks = sampler.sample(np.arange(10), step)
            x, results = random(60, 4)[blocks[0].src], []
            for one in (compiled, network):
                torch.manual_seed(2)
                out = one(x, blocks)
                gradient = torch.autograd.grad(out.pow(2).sum(), tuple(network.parameters()))
                shown = [block.observation.norm for block in blocks]
                results.append([out, *gradient, *shown])
            for ours, expected in zip(*results, strict=True):
                torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)
            sampler.update(blocks)


def test_operators_keep_torchs_rules():
    """Schemas, fake kernels and derivatives, as `torch.library.opcheck` tests them."""
    block = Bliss(heavy_tailed_graph(), [20]).sample(np.arange(10), 0)[0]
    edges = block.indptr, block.row
    x = random(block.num_src, 2, 3).requires_grad_()
    scores, mask = random(block.num_edges, 2).requires_grad_(), torch.empty(0, 1)
    weight = block.edge_weight
    flat = random(block.num_src, 4).requires_grad_()
    vector = random(2, 3).requires_grad_()
    tests = ("test_schema", "test_faketensor", "test_autograd_registration")
    for operator, arguments in (
        (ops.sum_edges, (flat, block.row, block.indptr, block.col, weight)),
        (ops.gatv2_scores, (x[: block.num_dst], x, vector, *edges, 0.2)),
        (ops.attend, (scores, x, mask, *edges)),
        (ops.dropout, (flat, torch.tensor(7), 0.5)),
    ):
        torch.library.opcheck(operator, arguments, test_utils=tests)
