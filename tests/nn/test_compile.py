"""torch.compile leaves networks over blocks as they are."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from bliss import Bliss
from bliss.nn import GNN, ModelConfig
from tests.statistics import heavy_tailed_graph

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("model", ["sage", "gatv2"])
def test_a_compiled_network_gives_the_same_bits_and_compiles_no_layer(model):
    torch.manual_seed(0)
    config = ModelConfig(model=model, layers=2, hidden=8, heads=2, dropout=0.5)
    network, sampler = GNN(4, 3, config), Bliss(heavy_tailed_graph(), [20, 15])
    features = torch.randn(60, 4)
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch about itself
        torch._dynamo.reset()
        compiled = torch.compile(network, backend=backend)
        for step in range(3):
            blocks = sampler.sample(np.arange(10 + step), step)
            results = []
            for one in (compiled, network):
                torch.manual_seed(2)
                out = one(features[blocks[0].src], blocks)
                gradients = torch.autograd.grad(out.pow(2).sum(), tuple(network.parameters()))
                seen = [block.observation.norm for block in blocks]
                results.append([out, *gradients, *seen])
            for ours, expected in zip(*results, strict=True):
                assert torch.equal(ours, expected)
            sampler.update(blocks)
    assert graphs == []
