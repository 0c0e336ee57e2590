"""A loader of one shard draws its part of every step, and all shards have equally many."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from bliss import Bliss, BlockLoader, ClusterGCN, InputError
from tests.conftest import heavy_tailed_pairs

NODES, SHARDS = 200, 3


@pytest.fixture(scope="module")
def data() -> Data:
    edge_index = torch.from_numpy(heavy_tailed_pairs(NODES, 1500))
    return Data(x=torch.randn(NODES, 4), edge_index=edge_index)


def loader(data: Data, **options) -> BlockLoader:
    given = {"batch_size": 16, "shuffle": True, "drop_last": True, "shards": SHARDS}
    return BlockLoader(data, Bliss(data, [30, 15], seed=3), **given | options)


def seeds(batches) -> list[list[int]]:
    return [batch.input_id.tolist() for batch in batches]


@pytest.mark.parametrize("prefetch", [0, 1])
def test_the_seeds_of_an_epoch_are_divided_among_the_shards(data, prefetch):
    parts = [seeds(loader(data, shard=shard, prefetch=prefetch)) for shard in range(SHARDS)]
    whole = seeds(loader(data, shards=1, batch_size=16 * SHARDS))
    assert len(whole) == NODES // (16 * SHARDS) == len(parts[0])
    joined = [[seed for part in step for seed in part] for step in zip(*parts, strict=True)]
    assert joined == whole  # one permutation for any number of shards


@pytest.mark.parametrize("prefetch", [0, 1])
def test_one_process_with_several_shards_draws_what_several_processes_draw(data, prefetch):
    apart = [
        [batch.n_id.tolist() for batch in loader(data, shard=shard)] for shard in range(SHARDS)
    ]
    together = [
        [batch.n_id.tolist() for batch in step]
        for step in loader(data, shard=range(SHARDS), prefetch=prefetch).steps()
    ]
    assert together == [list(step) for step in zip(*apart, strict=True)]


def test_batches_that_a_sampler_makes_are_divided_among_the_shards(data):
    def drawn(**options) -> list[list[int]]:
        sampler = ClusterGCN(data, layers=2, parts=14, seed=3)
        batches = BlockLoader(data, sampler, batch_size=29, **options)
        return [batch.blocks[-1].dst.tolist() for batch in batches]

    whole = drawn()
    assert len(whole) == 7
    parts = [drawn(shards=2, shard=shard) for shard in range(2)]
    assert [one for step in zip(*parts, strict=True) for one in step] == whole[:6]


def test_a_loader_of_several_shards_is_iterated_by_steps(data):
    with pytest.raises(InputError, match=r"those of the shards 0, 1: iterate over loader.steps"):
        next(iter(loader(data, shard=[0, 1])))


BAD = {
    "shard=3 must be a number from 0 to 2": {"shard": 3},
    r"shard=\[1, 1\] must be": {"shard": [1, 1]},
    "shards=3 needs drop_last=True": {"drop_last": False},
    "shards=3 exceeds the 200 input nodes in batches of 90: lower": {"batch_size": 90},
    "batch_sampler cannot be combined with shards": {
        "batch_sampler": [np.arange(3)],
        "shuffle": False,
        "drop_last": False,
    },
}


@pytest.mark.parametrize("message", BAD)
def test_shards_that_would_be_unequal_are_refused(data, message):
    with pytest.raises(InputError, match=message):
        loader(data, **BAD[message])
