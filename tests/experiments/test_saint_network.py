"""GraphSAINT's network over blocks computes what its formula says."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from bliss import Graph
from bliss.nn.model_config import ModelConfig
from bliss.samplers import Full
from experiments.seconds.saint_network import SaintGNN

NODES, INPUTS, WIDTH, OUTPUTS = 30, 5, 8, 3


@pytest.fixture
def graph():
    pairs = np.random.default_rng(0).integers(0, NODES, (2, 120))
    return Graph.from_edge_index(torch.from_numpy(pairs), NODES)


@pytest.fixture
def network():
    torch.manual_seed(0)
    config = ModelConfig(model="sage", layers=2, hidden=WIDTH, dropout=0.4, normalisation="none")
    return SaintGNN(INPUTS, OUTPUTS, config)


def matrix(graph):
    """alpha_ij. [V, V]."""
    (block,) = Full(graph, layers=1).sample(np.arange(NODES), 0)
    dense = torch.zeros(NODES, NODES)
    dense.index_put_((block.col, block.src[block.row]), block.edge_weight, accumulate=True)
    return dense


def test_outputs_are_those_of_the_formula(graph, network):
    x, alpha = torch.randn(NODES, INPUTS), matrix(graph)
    h = x
    for layer in network.convs:
        h = layer.dense(torch.cat([layer.own(h), layer.others(alpha @ h)], dim=1))
    expected = network.classifier(normalize(h))
    blocks = Full(graph, layers=2).sample(np.arange(7), 0)
    out = network.eval()(x[blocks[0].src], blocks)
    torch.testing.assert_close(out, expected[:7])


def test_the_stream_without_dropout_is_the_output_of_evaluation(graph, network):
    (block,) = Full(graph, layers=1).sample(np.arange(7), 0)
    x = torch.randn(block.num_src, INPUTS)
    dropped, mean = network.train()._streams(0, x, x, block)
    torch.testing.assert_close(mean, network.eval().layer(0, x, block))
    assert not torch.allclose(dropped, mean)
