"""Copies and pickles of samplers, loaders and graphs are independent and draw alike."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from bliss import BlockLoader, InputError
from bliss.samplers import SAMPLERS
from tests.build import make_sampler

SEEDS = np.arange(0, 50, 3)
WAYS = {"deepcopy": copy.deepcopy, "pickle": lambda one: pickle.loads(pickle.dumps(one))}
CASES = {
    **{name: {} for name in SAMPLERS},
    "bliss/history": {"history": "nodes", "layers": 3},
    "bliss/exp3": {"policy": "exp3"},
}


def taught(name: str, graph):
    sampler = make_sampler(name.split("/")[0], graph, width=4, **CASES[name])
    teach(sampler, 0)
    return sampler


def teach(sampler, step: int) -> None:
    if not sampler.learns:
        return
    blocks = sampler.sample(SEEDS, step)
    for block in blocks:
        generator = torch.Generator().manual_seed(step)
        block.observe(torch.randn(block.num_src, 4, generator=generator))
    sampler.update(blocks)


def edges(sampler) -> list[np.ndarray]:
    return [block.edge.numpy() for block in sampler.sample(SEEDS, 5)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CASES)
def test_a_copy_draws_and_learns_alike_and_by_itself(toy_graph, name, way):
    sampler = taught(name, toy_graph)
    other = WAYS[way](sampler)
    np.testing.assert_equal(edges(other), edges(sampler))
    before = {key: value.clone() for key, value in sampler.state_dict().items()}
    teach(other, 1)
    for key, value in sampler.state_dict().items():
        assert torch.equal(value, before[key]), key  # the copy's learning is its own
    teach(sampler, 1)
    for key, value in sampler.state_dict().items():
        assert torch.equal(value, other.state_dict()[key]), key


@pytest.mark.parametrize("way", WAYS)
def test_a_copied_loader_goes_on_alone(toy_graph, way):
    data = Data(x=torch.randn(60, 4), num_nodes=60)
    loader = BlockLoader(data, taught("bliss", toy_graph), batch_size=20, prefetch=1)
    next(iter(loader))
    other = WAYS[way](loader)
    ours, theirs = ([batch.n_id for batch in one] for one in (loader, other))
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_a_pickled_graph_stays_immutable(toy_graph):
    other = pickle.loads(pickle.dumps(toy_graph))
    np.testing.assert_array_equal(other.indices, toy_graph.indices)
    assert not other.indices.flags.writeable
    assert not other.indptr.flags.writeable
    assert copy.deepcopy(toy_graph) is toy_graph


def test_shared_state_is_not_copied(toy_graph):
    sampler = make_sampler("bliss", toy_graph)
    sampler.learning.change_by(lambda change: change())
    for way in WAYS.values():
        with pytest.raises(InputError, match="shares what it has learnt with other processes"):
            way(sampler)


def test_a_second_update_with_the_same_blocks_is_refused(toy_graph):
    sampler = make_sampler("bliss", toy_graph)
    blocks = sampler.sample(SEEDS, 0)
    for block in blocks:
        block.observe(torch.ones(block.num_src, 4))
    sampler.update(blocks)
    before = {key: value.clone() for key, value in sampler.state_dict().items()}
    with pytest.raises(InputError, match="update was called twice with the same blocks"):
        sampler.update(blocks)
    assert all(torch.equal(value, before[key]) for key, value in sampler.state_dict().items())
    for block in blocks:  # shown again: another pass of the network
        block.observe(torch.ones(block.num_src, 4))
    sampler.update(blocks)
