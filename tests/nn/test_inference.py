"""Inference of single layers, convolutions of PyG and own models, in memory or on disk."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GINConv, GraphConv, GraphSAGE, SAGEConv

from bliss import InputError
from bliss.errors import ResourceError
from bliss.nn import GNN, ModelConfig, infer, infer_layer
from tests.statistics import heavy_tailed_graph


class OwnModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList([SAGEConv(4, 8), SAGEConv(8, 3)])

    def __iter__(self):
        assert isinstance(self.convs[0], SAGEConv)
        yield lambda x, block: block.propagate(self.convs[0], x).relu()
        yield lambda x, block: block.propagate(self.convs[1], x)

    def forward(self, x: Tensor, blocks) -> Tensor:
        for layer, block in zip(self, blocks, strict=True):
            x = layer(x, block)
        return x


def features() -> Tensor:
    return torch.randn(60, 4, generator=torch.Generator().manual_seed(0))


@torch.no_grad()
def test_a_layer_a_list_and_a_model_give_what_the_whole_graph_gives():
    graph, x = heavy_tailed_graph(), features()
    one, two = GraphConv(4, 8), GINConv(nn.Linear(8, 3))
    hidden = one(x, graph.edge_index, graph.edge_weight)
    torch.testing.assert_close(infer(one, graph, x, chunk_edges=50), hidden)
    expected = two(hidden, graph.edge_index)
    for model in ([one, two], nn.ModuleList([one, two]), nn.Sequential(one, two)):
        torch.testing.assert_close(infer(model, graph, x, chunk_edges=50), expected)
    assert one.training
    model = OwnModel()
    hidden = model.convs[0](x, graph.edge_index).relu()
    expected = model.convs[1](hidden, graph.edge_index)
    torch.testing.assert_close(infer(model, graph, x), expected)
    assert model.training


def test_outputs_on_disk_are_those_in_memory(tmp_path):
    graph, x, model = heavy_tailed_graph(), features(), OwnModel()
    expected = infer(model, graph, x, chunk_edges=50)
    path = tmp_path / "new" / "out.npy"
    found = infer(model, graph, x, chunk_edges=50, out=path)
    assert torch.equal(found, expected)
    assert np.array_equal(np.load(path), expected.numpy())
    assert [one.name for one in path.parent.iterdir()] == ["out.npy"]
    found[:] = 0  # a private copy of the pages
    assert np.array_equal(np.load(path), expected.numpy())


def test_outputs_without_columns_are_written_like_others(tmp_path):
    path = tmp_path / "new" / "out.npy"
    found = infer(
        [lambda x, block: x[: block.num_dst, :0]], heavy_tailed_graph(), features(), out=path
    )
    assert found.shape == np.load(path).shape == (60, 0)
    assert [one.name for one in path.parent.iterdir()] == ["out.npy"]


def test_a_stopped_inference_leaves_no_file(tmp_path):
    def stop(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        infer(OwnModel(), heavy_tailed_graph(), features(), out=tmp_path / "a.npy", progress=stop)
    assert not list(tmp_path.iterdir())


def test_what_is_no_layer_or_no_file_is_refused(tmp_path):
    graph, x = heavy_tailed_graph(), features()

    class Whole(nn.Module):
        def forward(self, x, blocks): ...

    with pytest.raises(InputError, match=r"Whole.forward takes all blocks at once.*__iter__"):
        infer(Whole(), graph, x)
    with pytest.raises(InputError, match=r"GraphSAGE.forward takes edge_index.*Blockwise\(model"):
        infer(GraphSAGE(4, 4, 2, jk="cat"), graph, x)
    with pytest.raises(InputError, match="ReLU takes no block"):
        infer(nn.Sequential(SAGEConv(4, 4), nn.ReLU()), graph, x)
    for out, sentence in ((tmp_path, "is a folder"), (tmp_path / "a.csv", "must end in .npy")):
        with pytest.raises(InputError, match=sentence):
            infer(OwnModel(), graph, x, out=out)


BAD_FEATURES = {
    "too few rows": (lambda x: x[:20], r"shape \(20, 4\), but there are 60 nodes: pass one row"),
    "too many rows": (lambda x: torch.cat([x, x]), r"shape \(120, 4\), but there are 60 nodes"),
    "no rows": (lambda x: x[:0], r"shape \(0, 4\), but there are 60 nodes"),
    "one axis": (lambda x: x[:, 0], r"shape \(60,\), but there are 60 nodes"),
    "three axes": (lambda x: x[..., None], r"shape \(60, 4, 1\)"),
    "whole numbers": (lambda x: x.long(), r"x is torch.int64, but must hold floats: pass x.float"),
    "complex": (lambda x: x.cfloat(), r"x is torch.complex64, but must hold floats"),
    "sparse": (lambda x: x.to_sparse(), r"x is torch.sparse_coo, but must be dense"),
    "sparse rows": (lambda x: x.to_sparse_csr(), r"x is torch.sparse_csr, but must be dense"),
    "meta": (lambda x: x.to("meta"), "x is on the device meta, without values"),
    "NumPy": (lambda x: x.numpy(), "x is a ndarray, but must be a tensor: pass torch.as_tensor"),
    "nothing": (lambda x: None, "x is a NoneType"),
    "another width": (lambda x: x[:, :3], "but the layer takes 4 features"),
    "double": (lambda x: x.double(), "x is torch.float64, but the layer's weights are torch.float"),
}


@pytest.mark.parametrize("model", ["sage", "gcn", "gat", "gatv2"])
@pytest.mark.parametrize("case", BAD_FEATURES)
def test_features_that_do_not_fit_are_refused(case, model):
    change, sentence = BAD_FEATURES[case]
    graph, x = heavy_tailed_graph(), change(features())
    network = GNN(4, 3, ModelConfig(model=model, layers=2, hidden=8))
    for options in ({}, {"nodes": [1, 2]}, {"observer": lambda *_: None}):
        with pytest.raises(InputError, match=sentence) as caught:
            infer(network, graph, x, **options)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=sentence):
        infer_layer(next(iter(network)), graph, x)


@pytest.mark.parametrize("model", ["sage", "gatv2"])
def test_features_of_half_precision_are_converted(model):
    graph, network = heavy_tailed_graph(), GNN(4, 3, ModelConfig(model=model, layers=2, hidden=8))
    for kind in (torch.float16, torch.bfloat16):
        x = features().to(kind)
        assert torch.equal(infer(network, graph, x), infer(network, graph, x.float()))


WRONG = {
    "chunk_edges": [0, -1, "a", 1.5, None],
    "chunk_bytes": [0, "a", None],
    "device": ["nowhere", [], 1.5],
    "progress": [3],
    "observer": [3],
    "nodes": ["a", [60], [1, 1], [], [0.5]],
    "out": [3, "", "a.csv"],
    "scratch": [3, ""],
    "graph": [None, 3],
    "model": [None, 3, [], "ab", [None]],
}


@pytest.mark.parametrize("field", WRONG)
def test_wrong_arguments_of_inference_get_one_sentence(field):
    for value in WRONG[field]:
        given = {"model": OwnModel(), "graph": heavy_tailed_graph(), "x": features()}
        with pytest.raises(InputError, match=field) as caught:
            infer(**given | {field: value})
        assert "\n" not in str(caught.value)


def test_a_layer_returns_equally_many_columns_for_all_nodes():
    def layer(x, block):
        return x.new_zeros(block.num_dst, block.num_dst)

    with pytest.raises(InputError, match=r"\d+ columns for one chunk of nodes and \d+ for"):
        infer(layer, heavy_tailed_graph(), features(), chunk_edges=40)


def test_a_gpu_that_is_not_there_is_a_matter_of_resources(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ResourceError, match="device='cuda:0' is not available"):
        infer(OwnModel(), heavy_tailed_graph(), features(), device="cuda:0")


def test_parts_of_a_model_keep_their_own_modes():
    model = OwnModel().train()
    model.convs[1].eval()  # such as a frozen batch normalisation
    infer(model, heavy_tailed_graph(), features())
    assert model.training and model.convs[0].training
    assert not model.convs[1].training
