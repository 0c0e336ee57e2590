"""torch.compile leaves layers over blocks as they are, and compiles what lies between them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch_geometric.nn import GraphSAGE, SAGEConv

from bliss import Bliss, InputError
from bliss.nn import GNN, Blockwise, ModelConfig
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


class Own(torch.nn.Module):
    """Two layers of propagate, with a function between them."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList([SAGEConv(4, 8), SAGEConv(8, 3)])
        self.norm = torch.nn.LayerNorm(8)

    def forward(self, x, blocks):
        x = blocks[0].propagate(self.convs[0], x)
        x = self.norm(x).relu()
        return blocks[1].propagate(self.convs[1], x)


@pytest.mark.filterwarnings("ignore")  # of torch about itself
@pytest.mark.parametrize("history", ["none", "nodes"])
@pytest.mark.parametrize("build", [Own, lambda: Blockwise(GraphSAGE(4, 8, 2, 3))])
def test_other_batches_compile_nothing_new_and_outputs_are_the_same(build, history):
    torch.manual_seed(0)
    network, features = build(), torch.randn(60, 4)
    options = {"layers": 2, "widths": [4, 8], "x": features.numpy(), "history": history}
    sampler = Bliss(heavy_tailed_graph(), [20] if history == "nodes" else [30, 20], **options)
    counts = []

    def backend(graph, _):
        counts[-1] += 1
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(network, backend=backend)
    for step in range(5):
        counts.append(0)
        blocks = sampler.sample(np.arange(9 + step), step)
        results = []
        for one in (compiled, network):
            out = one(features[blocks[0].src], blocks)
            results.append([out, *torch.autograd.grad(out.square().sum(), network.parameters())])
        for ours, expected in zip(*results, strict=True):
            torch.testing.assert_close(ours, expected)
        sampler.update(blocks)
    assert counts[2:] == [0, 0, 0]  # one graph for the first shape, and one for all others
    assert sum(counts) == (2 if build is Own else 0)


def test_a_graph_without_breaks_is_refused_with_the_reason():
    blocks = Bliss(heavy_tailed_graph(), [30, 20]).sample(np.arange(9), 0)
    torch._dynamo.reset()
    compiled = torch.compile(Own(), backend="eager", fullgraph=True)
    with pytest.raises(Exception, match="are computed by compiled kernels on NumPy arrays"):
        compiled(torch.ones(blocks[0].num_src, 4), blocks)
    with pytest.raises(InputError, match=r"the model is compiled by torch\.compile"):
        Blockwise(torch.compile(GraphSAGE(4, 8, 2)))
