"""Inference of single layers, convolutions of PyG and own models, in memory or on disk."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GINConv, GraphConv, SAGEConv

from bliss import InputError
from bliss.nn import infer
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
    with pytest.raises(InputError, match="ReLU takes no block"):
        infer(nn.Sequential(SAGEConv(4, 4), nn.ReLU()), graph, x)
    for out, sentence in ((tmp_path, "is a folder"), (tmp_path / "a.csv", "must end in .npy")):
        with pytest.raises(InputError, match=sentence):
            infer(OwnModel(), graph, x, out=out)


def test_parts_of_a_model_keep_their_own_modes():
    model = OwnModel().train()
    model.convs[1].eval()  # such as a frozen batch normalisation
    infer(model, heavy_tailed_graph(), features())
    assert model.training and model.convs[0].training
    assert not model.convs[1].training
