"""An observer of full inference is shown the exact norms, attention and inputs of every layer."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bliss import Graph, InputError
from bliss.feedback import ATTENTION_TABLE, encode_attention
from bliss.nn import GNN, LayerSurvey, ModelConfig, infer
from bliss.nn.convs import GATConv, GATv2Conv, SAGEConv
from tests.conftest import heavy_tailed_pairs

NODES = 80
ROUNDING = 1 / 32  # half a step of a code, in logarithms


@pytest.fixture(scope="module")
def graph() -> Graph:
    return Graph.from_edge_index(np.unique(heavy_tailed_pairs(NODES, 500), axis=1), NODES)


def network(model: str) -> GNN:
    torch.manual_seed(0)
    return GNN(6, 4, ModelConfig(model=model, layers=3, hidden=8, heads=2)).eval()


def features() -> torch.Tensor:
    return torch.randn(NODES, 6, generator=torch.Generator().manual_seed(1))


def surveyed(model, graph: Graph, x: torch.Tensor, **options) -> list[LayerSurvey]:
    found: list[LayerSurvey] = []

    def observer(layer: int, survey: LayerSurvey) -> None:
        assert layer == len(found)
        found.append(survey)

    infer(model, graph, x, observer=observer, **options)
    return found


def dense_attention(conv: torch.nn.Module, x: torch.Tensor, graph: Graph) -> np.ndarray:
    """alpha_ij from its definition, with matrices of all pairs, mean over heads. [E]."""
    heads, width = conv.heads, conv.width
    if isinstance(conv, GATv2Conv):
        values = conv.source(x).view(-1, heads, width)
        both = values[:, None] + values[None, :]  # [target, source, H, C]
        score = (torch.nn.functional.leaky_relu(both, 0.2) * conv.vector).sum(-1)
    else:
        values = conv.linear(x).view(-1, heads, width)
        target, source = (values * conv.target).sum(-1), (values * conv.source).sum(-1)
        score = torch.nn.functional.leaky_relu(target[:, None] + source[None, :], 0.2)
    col = np.repeat(np.arange(NODES), np.diff(graph.indptr))
    raised = score.double().exp().detach().numpy()[col, graph.indices]  # [E, H]
    total = np.stack([np.bincount(col, raised[:, h], NODES) for h in range(heads)], axis=1)
    return (raised / total[col]).mean(1)


@pytest.mark.parametrize("chunk_edges", [1, 97, 10**9])
@pytest.mark.parametrize("model", ["gat", "gatv2"])
def test_norms_and_attention_are_those_of_a_dense_computation(graph, model, chunk_edges):
    gnn, x = network(model), features()
    found = surveyed(gnn, graph, x, chunk_edges=chunk_edges)
    alphas = []
    for conv, layer in zip(gnn.convs, found, strict=True):
        assert isinstance(conv, (GATConv, GATv2Conv))
        np.testing.assert_allclose(layer.norm, layer.input.norm(dim=1), rtol=1e-6)
        alphas.append(dense_attention(conv, layer.input, graph))
        assert layer.attention.dtype == np.uint8
        logs = np.log(ATTENTION_TABLE[layer.attention])
        np.testing.assert_allclose(logs, np.log(alphas[-1]), rtol=0, atol=ROUNDING + 1e-5)
    # the test would notice the wrong layer, and codes in another order
    for wrong in (alphas[1], np.roll(alphas[0], 1)):
        seen = np.log(ATTENTION_TABLE[found[0].attention])
        assert np.abs(seen - np.log(wrong)).max() > 2 * ROUNDING
    hidden = infer(list(gnn)[:1], graph, x)
    assert found[0].input is x
    torch.testing.assert_close(found[1].input, hidden)


@pytest.mark.parametrize("chunk_edges", [1, 97, 10**9])
def test_networks_without_attention_show_norms_alone(graph, chunk_edges):
    gnn, x = network("sage"), features()
    found = surveyed(gnn, graph, x, chunk_edges=chunk_edges)
    assert [layer.attention for layer in found] == [None] * 3
    for number, layer in enumerate(found):
        inputs = infer(list(gnn)[:number], graph, x) if number else x
        np.testing.assert_allclose(layer.norm, inputs.norm(dim=1), rtol=1e-5)


def test_observing_changes_neither_the_outputs_nor_the_mode(graph):
    gnn, x = network("gatv2").train(), features()
    plain = infer(gnn, graph, x)
    watched = infer(gnn, graph, x, observer=lambda layer, survey: None)
    assert torch.equal(plain, watched)
    assert gnn.training


def test_raw_scores_as_feedback_do_not_change_what_a_survey_shows(graph):
    config = ModelConfig(model="gatv2", layers=1, hidden=8, feedback="scores")
    torch.manual_seed(0)
    gnn, x = GNN(6, 4, config), features()
    (found,) = surveyed(gnn, graph, x)
    exact = dense_attention(gnn.convs[0], x, graph)
    np.testing.assert_allclose(np.log(ATTENTION_TABLE[found.attention]), np.log(exact), atol=0.032)


class OwnLayer(torch.nn.Module):
    """A person's own layer: attention by feature 0 of the source; shown if asked to."""

    def __init__(self, shows: bool) -> None:
        super().__init__()
        self.conv, self.shows = SAGEConv(6, 6), shows

    def forward(self, x: torch.Tensor, block) -> torch.Tensor:
        assert not self.training
        score = x[block.row, 0].exp()
        total = torch.zeros(block.num_dst).index_add(0, block.col, score)
        out = self.conv(x, block)
        if self.shows:
            block.observe(2 * x, score / total[block.col])
        return torch.tanh(out)


def test_layers_of_ones_own_are_surveyed_and_restored_to_their_modes(graph):
    torch.manual_seed(0)
    x = features()
    layers = [OwnLayer(True).train(), OwnLayer(False).eval(), lambda x, block: x[: block.num_dst]]
    first, second, third = surveyed(layers, graph, x, chunk_edges=97)
    assert [layers[0].training, layers[1].training] == [True, False]
    np.testing.assert_allclose(first.norm, 2 * x.norm(dim=1), rtol=1e-6)
    score = x[:, 0].double().exp().numpy()[graph.indices]
    col = np.repeat(np.arange(NODES), np.diff(graph.indptr))
    alpha = score / np.bincount(col, score)[col]
    np.testing.assert_allclose(
        np.log(ATTENTION_TABLE[first.attention]), np.log(alpha), atol=ROUNDING + 1e-5
    )
    assert second.attention is third.attention is None
    np.testing.assert_allclose(third.norm, infer(layers, graph, x).norm(dim=1), rtol=1e-6)


def test_codes_round_logarithms_and_stay_in_range():
    alpha = np.float32([0, 1e-30, 1.2e-7, 1e-3, 0.5, 1.0])
    codes = encode_attention(alpha)
    assert codes[[0, 1, -1]].tolist() == [0, 0, 255]
    np.testing.assert_allclose(np.log(ATTENTION_TABLE[codes[2:]]), np.log(alpha[2:]), atol=0.032)


def test_layers_that_break_the_contract_are_refused(graph):
    x = features()
    with pytest.raises(InputError, match=r"a layer returned \(\d+, 6\), but the block has"):
        infer([lambda x, block: x], graph, x, chunk_edges=97)
    with pytest.raises(InputError, match="model has no layers"):
        infer(iter([]), graph, x)
    with pytest.raises(InputError, match="a layer returned NoneType"):
        infer([lambda x, block: None], graph, x)
    calls = []

    def moody(x, block):
        calls.append(block)
        if len(calls) == 2:
            block.observe(x, torch.ones(block.num_edges))
        return x[: block.num_dst]

    with pytest.raises(InputError, match="reports attention in some calls and not in others"):
        surveyed([moody], graph, x, chunk_edges=97)
    with pytest.raises(InputError, match="the observed norm holds NaN"):
        surveyed([lambda x, block: x[: block.num_dst]], graph, x * torch.nan)
