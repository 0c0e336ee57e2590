"""Inference at some nodes: exact, and only of what these nodes need."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bliss import InputError
from bliss.nn import GNN, ModelConfig, infer, inference
from bliss.nn.receptive_field import chunks, needed_nodes
from tests.statistics import heavy_tailed_graph

NETWORKS = {
    "sage, batch normalisation": {"model": "sage", "normalisation": "batch", "residual": True},
    "gcn": {"model": "gcn", "normalisation": "layer"},
    "gatv2": {"model": "gatv2", "heads": 2, "input_residual": True},
}


def network(name: str) -> GNN:
    torch.manual_seed(0)
    model = GNN(4, 3, ModelConfig(hidden=8, layers=3, **NETWORKS[name]))
    for norm in model.modules():
        if isinstance(norm, torch.nn.BatchNorm1d):  # running statistics of some training
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
    return model


def features() -> torch.Tensor:
    return torch.randn(60, 4, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", NETWORKS)
def test_outputs_at_some_nodes_are_those_of_the_full_pass(name, tmp_path, monkeypatch):
    model, x = network(name), features()
    graph = heavy_tailed_graph().with_norm(model.config.norm)
    full = infer(model, graph, x)
    nodes = torch.tensor([41, 3, 17])
    found = infer(model, graph, x, nodes=nodes, chunk_edges=40)
    torch.testing.assert_close(found, full[nodes], rtol=1e-5, atol=1e-5)
    mask = torch.zeros(60, dtype=torch.bool)
    mask[nodes] = True
    torch.testing.assert_close(infer(model, graph, x, nodes=mask), full[mask])
    monkeypatch.setattr(inference, "OUTPUT_BYTES_IN_MEMORY", 0)
    monkeypatch.setattr(inference, "_RESIDENT_BYTES", 0)
    on_disk = infer(model, graph, x, nodes=nodes, chunk_edges=40, scratch=tmp_path / "new")
    assert torch.equal(on_disk, found)
    assert not list((tmp_path / "new").iterdir())  # the files have no names
    infer(model, graph, x, nodes=nodes, out=tmp_path / "out.npy")
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), full[nodes], rtol=1e-4, atol=1e-5)


def test_each_layer_is_computed_only_where_it_is_needed():
    graph = heavy_tailed_graph()
    nodes = np.array([50, 59])
    sources = np.split(graph.indices, graph.indptr[1:-1])
    two = {*nodes, *(j for i in nodes for j in sources[i])}
    one = {*two, *(j for i in two for j in sources[i])}
    needed = needed_nodes(graph, nodes, 3)
    assert [part.tolist() for part in needed] == [sorted(one), sorted(two), nodes.tolist()]
    assert len(one) < 60
    computed: list[int] = []
    layer = lambda x, block: computed.append(block.num_dst) or x[: block.num_dst]  # noqa: E731
    infer([layer] * 3, graph, features(), nodes=nodes)
    assert computed == [len(one), len(two), 2]


def test_chunks_bound_nodes_and_edges_together():
    graph = heavy_tailed_graph()
    nodes = np.array([5, 2, 40, 41, 42, 59])
    size = np.diff(graph.indptr)[nodes] + 1
    found = list(chunks(graph, 30, nodes))
    assert [stop for _, stop in found[:-1]] == [start for start, _ in found[1:]]
    assert (found[0][0], found[-1][1]) == (0, 6)
    assert all(size[a:b].sum() <= 30 or b == a + 1 for a, b in found)


def test_half_features_are_converted():
    model, graph, x = network("sage, batch normalisation"), heavy_tailed_graph(), features().half()
    assert torch.equal(infer(model, graph, x), infer(model, graph, x.float()))


def test_an_observer_needs_all_nodes_and_ids_are_checked():
    model, graph = network("sage, batch normalisation"), heavy_tailed_graph()
    with pytest.raises(InputError, match="an observer sees all nodes"):
        infer(model, graph, features(), nodes=[1], observer=lambda layer, survey: None)
    with pytest.raises(InputError, match="nodes"):
        infer(model, graph, features(), nodes=[60])
