"""Inference that projects nodes before it gathers them gives what the layers themselves give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from bliss import Graph, InputError
from bliss.errors import TruncatedError
from bliss.nn import (
    GNN,
    GATConv,
    GATv2Conv,
    GCNConv,
    ModelConfig,
    ProjectingLayer,
    SAGEConv,
    infer,
    infer_layer,
    inference,
    projection,
)
from bliss.nn.aggregate import aggregate
from bliss.nn.control import Control
from bliss.samplers import Full
from tests.conftest import heavy_tailed_pairs

NODES, WIDE = 80, 90
KINDS = ["sage", "gcn", "gat", "gatv2"]


@pytest.fixture(scope="module")
def graph() -> Graph:
    return Graph.from_edge_index(np.unique(heavy_tailed_pairs(NODES, 500), axis=1), NODES)


def features(width: int = WIDE) -> torch.Tensor:
    return torch.randn(NODES, width, generator=torch.Generator().manual_seed(1))


def network(model: str, **options) -> GNN:
    torch.manual_seed(0)
    config = ModelConfig(model=model, layers=3, hidden=16, heads=2, **options)
    return GNN(WIDE, 4, config).eval()


def gathering(model: GNN) -> list:
    """The same layers as plain functions, which cannot be projected."""
    return [lambda x, block, layer=layer: layer(x, block) for layer in model]


@pytest.fixture
def projected(monkeypatch):
    """Rows of each table that was projected."""
    found = []

    def recording(layer, x, *others):
        found.append(tuple(x.shape))
        return projection.project(layer, x, *others)

    monkeypatch.setattr(inference, "project", recording)
    return found


@torch.no_grad()
@pytest.mark.parametrize("options", [{}, {"residual": True, "input_residual": True}])
@pytest.mark.parametrize("normalisation", ["none", "batch"])
@pytest.mark.parametrize("model", KINDS)
def test_a_layer_is_its_projection_and_then_its_combination(graph, model, normalisation, options):
    whole = network(model, normalisation=normalisation, **options)
    (block,) = Full(graph, layers=1).sample(torch.arange(10, 40), 0)
    x = features()[block.src]
    for layer in whole:
        assert isinstance(layer, ProjectingLayer)
        table = layer.project(x)
        assert table.shape == (block.num_src, layer.projected_width)
        expected = layer(x, block)
        torch.testing.assert_close(layer.combine(table, block), expected, rtol=1e-4, atol=1e-5)
        assert expected.std() > 0.01
        x = torch.randn(block.num_src, expected.size(1))


@torch.no_grad()
def test_attention_with_a_matrix_of_its_own_for_targets(graph):
    conv = GATv2Conv(WIDE, 8, heads=2, shared=False).eval()
    (block,) = Full(graph, layers=1).sample(torch.arange(10, 40), 0)
    x = features()[block.src]
    found = conv.combine(conv.project(x), block)
    torch.testing.assert_close(found, conv(x, block), rtol=1e-4, atol=1e-5)
    assert conv.project(x).size(1) == conv.projected_width == 16


@pytest.mark.parametrize("kind", [torch.float32, torch.float16])
@pytest.mark.parametrize("model", KINDS)
def test_wide_inputs_are_projected_once(graph, projected, model, kind, tmp_path):
    whole, x = network(model), features().to(kind)
    expected = infer(gathering(whole), graph, x, chunk_edges=50)
    assert not projected
    found = infer(whole, graph, x, chunk_edges=50, chunk_bytes=4 * WIDE * 7)
    assert projected[0] == (NODES, WIDE)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    on_disk = infer(whole, graph, x, chunk_edges=50, out=tmp_path / "out.npy")
    torch.testing.assert_close(on_disk, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        infer_layer(next(iter(whole)), graph, x),
        infer_layer(gathering(whole)[0], graph, x),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize("kind", [SAGEConv, GCNConv, GATConv, GATv2Conv])
def test_single_convolutions_are_projected_too(graph, projected, kind):
    conv, x = kind(WIDE, 8).eval(), features()
    expected = infer(lambda x, block: conv(x, block), graph, x)
    torch.testing.assert_close(infer(conv, graph, x), expected, rtol=1e-4, atol=1e-5)
    assert projected == [(NODES, WIDE)]


def test_projections_on_disk_are_those_in_memory(graph, projected, tmp_path, monkeypatch):
    whole, x = network("sage"), features()
    expected = infer(whole, graph, x, chunk_edges=50)
    monkeypatch.setattr(inference, "OUTPUT_BYTES_IN_MEMORY", 0)
    monkeypatch.setattr(inference, "_RESIDENT_BYTES", 0)
    assert torch.equal(infer(whole, graph, x, chunk_edges=50, scratch=tmp_path), expected)
    assert len(projected) == 4  # the first and the last layer, twice
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("model", KINDS)
def test_a_survey_sees_the_same_norms_and_attention(graph, projected, model):
    whole, x, found = network(model), features(), {}
    sizes = {"chunk_edges": 50, "chunk_bytes": 4 * WIDE * 7}
    for name, layers in (("gathered", gathering(whole)), ("projected", whole)):
        seen = found.setdefault(name, [])
        infer(layers, graph, x, **sizes, observer=lambda *one, to=seen: to.append(one))
        assert bool(projected) == (name == "projected")
    for (_, one), (_, other) in zip(*found.values(), strict=True):
        np.testing.assert_allclose(one.norm, other.norm, rtol=1e-4)
        assert (one.attention is None) == (other.attention is None) == (model in ("sage", "gcn"))
        if one.attention is not None and other.attention is not None:
            difference = one.attention.astype(int) - other.attention
            assert abs(difference).max() <= 1 and (difference == 0).mean() > 0.99


@torch.no_grad()
def test_nodes_are_projected_only_if_they_have_many_in_edges(graph, projected):
    whole, x = network("sage"), features()
    expected = infer(gathering(whole), graph, x)
    degree = np.diff(graph.indptr)
    few, many = np.argsort(degree, kind="stable")[:1], np.argsort(-degree)[:40]
    assert degree[many].sum() >= NODES
    layer = next(iter(whole))
    assert not projection.is_cheaper(layer, graph, x, few)
    assert projection.is_cheaper(layer, graph, x, many)
    for nodes in (few, many):
        torch.testing.assert_close(
            infer(whole, graph, x, nodes=nodes), expected[nodes], rtol=1e-4, atol=1e-5
        )
    assert projected


class Doubled(SAGEConv):
    def forward(self, x, block, observed=None):
        return 2 * super().forward(x, block, observed)


class Shifted(GNN):
    def layer(self, number, x, block):
        return super().layer(number, x, block) + 1


@torch.no_grad()
def test_what_changes_a_call_is_not_bypassed(graph, projected):
    x, called = features(), []
    conv = Doubled(WIDE, 8).eval()
    torch.testing.assert_close(
        infer(conv, graph, x), 2 * infer(lambda x, b: SAGEConv.forward(conv, x, b), graph, x)
    )
    model = Shifted(WIDE, 4, ModelConfig(hidden=16)).eval()
    torch.testing.assert_close(infer(model, graph, x), infer(gathering(model), graph, x))
    for register in ("register_forward_hook", "register_forward_pre_hook"):
        hooked = SAGEConv(WIDE, 8)
        getattr(hooked, register)(lambda *_: called.append(1))
        infer(hooked, graph, x)
    assert len(called) == 2
    whole = network("sage")
    whole.convs[0] = Other(WIDE, 16)  # has no projections
    torch.testing.assert_close(infer(whole, graph, x), infer(gathering(whole), graph, x))
    assert projected == [(NODES, 16)]  # the last layer of `whole` alone


class Other(nn.Linear):
    def forward(self, x, block, observed=None):
        return super().forward(x[: block.num_dst])


class OwnLayer:
    """As the documentation asks, without calling `block.observe`."""

    projected_width = 5

    def __init__(self) -> None:
        self.weight = torch.randn(WIDE, 5, generator=torch.Generator().manual_seed(0))

    def __call__(self, x, block):
        return self.combine(self.project(x), block)

    def project(self, x):
        return x @ self.weight

    def combine(self, projected, block, observed=None):
        return aggregate(block, projected)


def test_a_layer_of_ones_own_is_projected_and_its_input_observed(graph, projected):
    layer, x, seen = OwnLayer(), features(), []
    expected = infer(lambda x, block: layer(x, block), graph, x)
    assert not projected
    found = infer(layer, graph, x, observer=lambda number, survey: seen.append(survey))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert projected == [(NODES, WIDE)]
    np.testing.assert_allclose(seen[0].norm, x.norm(dim=1), rtol=1e-5)


def test_projections_have_no_history(graph):
    (block,) = Full(graph, layers=1).sample(torch.arange(4), 0)
    controlled = replace(block, control=Control(torch.zeros(4, WIDE)))
    conv = SAGEConv(WIDE, 8)
    with pytest.raises(InputError, match="has a control variate"):
        conv.combine(conv.project(features()[block.src]), controlled)


def test_what_is_not_narrower_or_dropped_or_double_is_gathered(graph):
    whole = network("sage", dropout=0.5)
    first, second, _ = whole
    assert projection.is_cheaper(first, graph, features(), None)
    assert not projection.is_cheaper(first, graph, features().double(), None)
    assert not projection.is_cheaper(second, graph, features(16), None)  # 32 columns from 16
    half = features(60).half()  # 120 bytes; projections take 128
    assert projection.is_cheaper(first, graph, half.float(), None)
    assert not projection.is_cheaper(first, graph, half, None)
    assert not projection.is_cheaper(nn.Linear(WIDE, 2), graph, features(), None)
    whole.train()
    assert not projection.is_cheaper(first, graph, features(), None)


def test_a_map_cut_short_while_it_is_projected_is_noticed(graph, tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, features().numpy())
    x = torch.from_numpy(np.load(path, mmap_mode="r+"))

    def cut() -> None:
        with path.open("r+b") as file:
            file.truncate(200)

    layer = next(iter(network("sage")))
    with pytest.raises(TruncatedError, match=r"x\.npy"):
        projection.project(layer, x, None, None, 0, 4 * WIDE * 7, "cpu", False, cut)
