"""What users of PyG's NeighborLoader expect of BlockLoader, or are told."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

from bliss import PLADIES, Bliss, BlockLoader, Graph, InputError, LinkLoader, Neighbor
from bliss.loader import seed_loader as loader_module
from bliss.loader.pyg_options import REFUSED
from bliss.samplers import SAMPLERS
from tests.build import make_sampler
from tests.conftest import heavy_tailed_pairs


@pytest.fixture(scope="module")
def data() -> Data:
    pairs = torch.from_numpy(heavy_tailed_pairs(60, 400))
    return Data(x=torch.randn(60, 3), y=torch.arange(60), edge_index=pairs)


@pytest.mark.parametrize("name", REFUSED)
def test_options_without_a_meaning_are_refused_with_a_reason_unless_they_are_off(data, name):
    sampler = PLADIES(data, [10])
    with pytest.raises(InputError, match=f"{name}=3 is not an option of BlockLoader: .*: "):
        BlockLoader(data, sampler, **{name: 3})
    for off in (None, False):
        BlockLoader(data, sampler, **{name: off})


def test_other_subgraphs_and_unknown_options_are_refused(data):
    sampler = PLADIES(data, [10])
    BlockLoader(data, sampler, subgraph_type="directional")
    with pytest.raises(InputError, match=r"subgraph_type='induced': .*SaintWalk"):
        BlockLoader(data, sampler, subgraph_type="induced")
    with pytest.raises(InputError, match="subgraph_type='sideways'"):
        BlockLoader(data, sampler, subgraph_type="sideways")
    with pytest.raises(TypeError, match="unexpected keyword argument 'batchsize'"):
        BlockLoader(data, sampler, batchsize=3)


def test_other_data_than_one_homogeneous_graph_are_refused(data):
    sampler = PLADIES(data, [10])
    for loader in (BlockLoader, LinkLoader):
        with pytest.raises(InputError, match=r"data is a tuple, .* FeatureStore and GraphStore"):
            loader((data.x, data.edge_index), sampler)
        with pytest.raises(
            InputError, match="data has types of nodes and edges, but the graph has none"
        ):
            loader(HeteroData(), sampler)
    with pytest.raises(InputError, match=r"^edge_label_index is not an option of BlockLoader"):
        BlockLoader(data, sampler, edge_label_index=data.edge_index)  # not all of its values


def test_a_batch_says_its_sizes_on_one_line(data):
    batch = next(iter(BlockLoader(data, PLADIES(data, [10, 5]), batch_size=4)))
    assert batch.num_edges == sum(block.num_edges for block in batch.blocks)
    assert batch.num_nodes == batch.x.size(0) == batch.blocks[0].num_src
    assert batch.y.tolist() == batch.blocks[-1].dst.tolist()
    assert "\n" not in repr(batch)
    assert batch.seconds.sample > 0


def fanout_names() -> list[str]:
    return [name for name, config in SAMPLERS.items() if config.unit != "none"]


@pytest.mark.parametrize("name", fanout_names())
def test_a_budget_of_minus_one_keeps_everything(data, name):
    graph = Graph.of(data)
    options = {"replace": False} if name in ("ladies", "fastgcn", "neighbor") else {}
    sampler = make_sampler(name, graph, budgets=[-1], layers=2 if name == "vrgcn" else 1, **options)
    block = sampler.sample(np.arange(9), 0)[-1]
    assert block.num_edges == graph.degree[:9].sum()
    assert torch.allclose(block.edge_weight, block.coefficient, rtol=1e-5)
    with pytest.raises(InputError, match=r"budgets\[0\]=-2 must be at least 1"):
        Neighbor(graph, [-2])


def iterate(loader: BlockLoader, sampler: Bliss, updates: bool) -> int:
    """Number of warnings in two epochs."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(2):
            for batch in loader:
                for block in batch.blocks:
                    block.observe(torch.ones(block.num_src, 2))
                if updates:
                    sampler.update(batch.blocks)
    return sum("learnt from none: call sampler.update" in str(one.message) for one in told)


def test_a_forgotten_update_is_told_once(data, monkeypatch):
    monkeypatch.setattr(loader_module, "PATIENCE", 20)
    for sampler, updates, expected in (
        (Bliss(data, [10]), False, 1),
        (Bliss(data, [10]), True, 0),
        (PLADIES(data, [10]), False, 0),  # has nothing to learn
    ):
        assert iterate(BlockLoader(data, sampler, batch_size=2), sampler, updates) == expected
    with torch.no_grad():  # evaluation
        loader = BlockLoader(data, Bliss(data, [10]), batch_size=2)
        assert iterate(loader, loader.node_sampler, False) == 0
