"""`bliss.check` tells exact, estimated and wrong models apart, with the layer's name."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import degree

import bliss
from bliss import Graph, InputError
from bliss.studies import model_check
from bliss.studies.checked_data import CheckedData
from tests.conftest import heavy_tailed_pairs

WIDTH, DRAWS = 5, 60


def make_data() -> Data:
    x = 0.5 + torch.randn(80, WIDTH, generator=torch.Generator().manual_seed(0))
    return Data(x=x, edge_index=torch.from_numpy(heavy_tailed_pairs(80, 600)))


def checked(model: nn.Module, **options) -> model_check.ModelCheck:
    torch.manual_seed(0)
    for part in model.modules():
        if hasattr(part, "reset_parameters"):
            part.reset_parameters()
    return bliss.check(model, make_data(), **({"draws": DRAWS, "targets": 20} | options))


def test_linear_models_are_exact_and_others_have_a_bias():
    linear = checked(pyg.GraphSAGE(WIDTH, 8, 2, 3, act=None, jk="cat"))
    assert linear.status == "exact"
    assert [layer.name for layer in linear.layers] == ["convs.0 (SAGEConv)", "convs.1 (SAGEConv)"]
    attention = checked(pyg.GAT(WIDTH, 8, 1, 3))
    assert attention.status == attention.layers[0].status == "estimated"
    assert 0 < attention.model.bias < 0.5
    assert attention.self_loops == "add"
    assert "bias" in str(attention)


def test_the_settings_that_a_model_needs_are_found():
    found = checked(pyg.GCN(WIDTH, 8, 1, 3))
    assert (found.status, found.norm, found.self_loops) == ("exact", "gcn", "add")
    assert "Bliss(data, ..., norm='gcn', self_loops='add')" in str(found)
    wrong = checked(pyg.GCN(WIDTH, 8, 1, 3), self_loops="keep")
    assert wrong.status == "wrong"
    assert "adds self-loops" in wrong.layers[0].reason


class ByDegree(MessagePassing):
    def forward(self, x, edge_index):
        count = degree(edge_index[1], x.size(0)).clamp(min=1)
        return self.propagate(edge_index, x=x) / count[:, None]


class Centred(MessagePassing):
    """Uses nodes other than the sources of its edges."""

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x - x.mean(0))


class Squared(MessagePassing):
    """A nonlinear function of a sum: E[z^2] is larger than E[z]^2."""

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x).square()


class Two(nn.Module):
    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index), edge_index)


class Shared(Two):
    def forward(self, x, edge_index):
        return self.first(self.first(x, edge_index), edge_index)


class Centring(Two):
    def forward(self, x, edge_index):
        x = self.first(x, edge_index)
        return self.second(x - x.mean(0), edge_index)


def sage() -> nn.Module:
    return pyg.SAGEConv(WIDTH, WIDTH)


@pytest.mark.parametrize(
    ("model", "layer", "reason"),
    [
        (Two(sage(), ByDegree()), "second (ByDegree)", "uses edge_index in its forward"),
        (Two(sage(), Centred()), "second (Centred)", "uses more than the in-edges"),
        (Two(sage(), pyg.SAGEConv(WIDTH, 3, aggr="max")), "second (SAGEConv)", "'max' is not a"),
        (pyg.MFConv(WIDTH, 3), None, "needs more than one pass"),
        (Shared(sage(), sage()), None, "layer first is called twice"),
        (Centring(sage(), sage()), None, "over full neighbourhoods it differs"),
    ],
)
def test_a_wrong_model_has_a_reason_and_the_name_of_its_layer(model, layer, reason):
    found = checked(model)
    assert found.status == "wrong"
    wrong = [one for one in found.layers if one.status == "wrong"]
    assert [one.name for one in wrong] == ([layer] if layer else [])
    assert reason in (wrong[0] if wrong else found.model).reason
    assert (layer or reason) in str(found)
    assert all(one.status == "exact" for one in found.layers if one not in wrong)
    assert model.training  # its mode is restored


def test_a_nonlinear_function_of_a_sum_is_estimated_with_its_bias():
    found = checked(Squared(), draws=600)
    assert found.status == "estimated"
    assert 0 < found.model.bias < 0.5


def test_weights_of_edges_are_those_of_the_data():
    data = make_data()
    data.edge_weight = torch.rand(data.num_edges) + 0.1
    conv = pyg.GraphConv(WIDTH, 3)
    assert bliss.check(conv, data, norm="weights", draws=DRAWS).status == "exact"
    with pytest.raises(InputError, match='pass norm="weights"'):
        bliss.check(conv, data, norm="weighted-mean")


def test_a_plain_pass_that_fails_is_named():
    found = checked(pyg.SAGEConv(WIDTH + 1, 3))
    assert found.status == "wrong"
    assert "the plain forward pass, model(data.x, data.edge_index), fails" in found.model.reason
    assert "by name, for instance edge_attr" in checked(pyg.FastRGCNConv(WIDTH, 3, 2)).model.reason


def test_data_without_features_are_refused():
    with pytest.raises(InputError, match="without x or edge_index"):
        bliss.check(sage(), Data(edge_index=make_data().edge_index))


def test_only_nodes_with_in_edges_are_compared():
    graph = Graph.from_edge_index(np.array([[0, 1, 2], [5, 5, 7]]), 40, self_loops="keep")
    assert sorted(CheckedData(make_data()).targets(graph, 8, seed=0)) == [5, 7]


def test_the_bias_is_told_without_the_noise_of_the_mean():
    exact = torch.ones(1, 2000, dtype=torch.float64)
    noise = torch.randn(200, 1, 2000, generator=torch.Generator().manual_seed(0)).double()
    samples = exact + 2 * noise
    samples[:, 0, 0] += 5  # |bias| 5; the noise of the mean has a norm of 6.3
    verdict = model_check._verdict("m", samples, exact)
    assert verdict.status == "estimated"
    assert verdict.bias == pytest.approx(5 / 2000**0.5, rel=0.1)
