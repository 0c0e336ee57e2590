"""Samplers that make their own batches, in the loader: what is in them, and where they resume."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from bliss import PLADIES, BlockLoader, InputError
from bliss.samplers import SAMPLERS
from tests.conftest import heavy_tailed_pairs

NODES = 200
MAKERS = [name for name, config in SAMPLERS.items() if config.makes_batches]
every_maker = pytest.mark.parametrize("name", MAKERS)


@pytest.fixture(scope="module")
def data() -> Data:
    return Data(
        x=torch.randn(NODES, 8, generator=torch.Generator().manual_seed(0)),
        edge_index=torch.from_numpy(heavy_tailed_pairs(NODES, 1500)),
        y=torch.arange(NODES) % 7,
        train_mask=torch.arange(NODES) % 2 == 0,
    )


def loader(data: Data, name: str, input_nodes=None, **options) -> BlockLoader:
    sampler = SAMPLERS[name].build(data, layers=2, seed=3)
    return BlockLoader(data, sampler, input_nodes, **({"batch_size": 20} | options))


def test_there_are_some():
    assert set(MAKERS) >= {"random-nodes", "cluster", "saint-node", "saint-edge", "saint-rw"}


@every_maker
def test_batches_hold_the_rows_of_their_targets(data, name):
    made = loader(data, name, data.train_mask)
    batches = list(made)
    assert len(batches) == len(loader(data, name, data.train_mask)) == 5
    for batch in batches:
        targets = batch.blocks[-1].dst
        assert data.train_mask[targets].all()
        assert torch.equal(batch.y, data.y[targets])
        assert torch.equal(batch.input_id, targets)  # of a mask: the node's id
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert batch.batch_size == targets.numel()
        assert torch.equal(batch.n_id, batch.blocks[0].src)


@every_maker
def test_places_are_those_among_the_input_nodes(data, name):
    nodes = torch.tensor([9, 3, 150, 77, 20, 40, 60, 80, 100, 120])
    for batch in loader(data, name, nodes, batch_size=4):
        assert torch.equal(nodes[batch.input_id], batch.blocks[-1].dst)
    chosen = loader(data, name, nodes)([0, 2])  # by place
    assert set(chosen.blocks[-1].dst.tolist()) <= {9, 150}


@every_maker
def test_prefetching_changes_nothing(data, name):
    def nodes(prefetch: int) -> list[list[int]]:
        made = loader(data, name, prefetch=prefetch)
        return [batch.n_id.tolist() for _ in range(2) for batch in made]

    assert nodes(0) == nodes(1)
    assert len(set(map(tuple, nodes(0)))) > 5


@every_maker
@pytest.mark.parametrize("stop", [0, 1, 4, 5, 7])
def test_a_run_resumed_after_any_batch_goes_on_as_if_it_had_not_stopped(data, name, stop):
    def epochs(made: BlockLoader, number: int):
        for _ in range(number):
            yield from made

    whole = [b.n_id.tolist() for b in epochs(loader(data, name, data.train_mask), 3)]
    first = loader(data, name, data.train_mask)
    seen = epochs(first, 3)
    begun = [next(seen).n_id.tolist() for _ in range(stop)]
    second = loader(data, name, data.train_mask)
    second.load_state_dict(first.state_dict())
    assert begun + [b.n_id.tolist() for b in epochs(second, 3)][: 15 - stop] == whole


@every_maker
def test_bad_options_get_one_sentence(data, name):
    with pytest.raises(InputError, match="batch_sampler cannot be combined"):
        loader(data, name, batch_sampler=[[1, 2]], batch_size=1)
    sampler = SAMPLERS[name].build(data, layers=2)
    BlockLoader(data, sampler, data.train_mask, batch_size=20)
    BlockLoader(data, sampler, data.train_mask, batch_size=20)  # the same again
    with pytest.raises(InputError, match="give each loader its own sampler"):
        BlockLoader(data, sampler, ~data.train_mask, batch_size=20)


def test_cluster_batches_have_every_node_once_an_epoch(data):
    made = loader(data, "cluster", data.train_mask)
    for _ in range(2):
        seen = torch.cat([batch.blocks[-1].dst for batch in made])
        np.testing.assert_array_equal(np.sort(seen), np.arange(0, NODES, 2))


def test_a_sampler_that_makes_no_batches_says_how_to_get_some(data):
    sampler = PLADIES(data, [20])
    with pytest.raises(InputError, match="PLADIES does not choose the seeds of batches: pass them"):
        sampler.batches(0)
