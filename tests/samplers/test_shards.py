"""Learning in two halves: digest is local and changes nothing, apply is one step of time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor
from torch_geometric.data import Data

from bliss import BlockLoader, Graph
from bliss.feedback import News
from bliss.nn.block import Block
from bliss.samplers import Sampler
from tests.build import make_sampler, softmax
from tests.conftest import heavy_tailed_pairs

LEARNERS = {
    "node": ("bliss", {}),
    "exp3": ("bliss", {"policy": "exp3"}),
    "exp3-released": ("bliss", {"policy": "exp3-released"}),
    "exp3-scale-free": ("bliss", {"policy": "exp3-scale-free"}),
    "sketch": ("sketch", {"policy": "node"}),
    "asgcn": ("asgcn", {}),
    "gcn-bs": ("gcn-bs", {}),
    "gcn-bs-single": ("gcn-bs", {"policy": "exp3-single"}),
    "gcn-bs-thanos": ("gcn-bs", {"reward": "thanos", "restart": 3}),
    "gat-bs": ("gat-bs", {}),
    "vrgcn": ("vrgcn", {"layers": 3}),  # the first is not sampled
    "history": ("bliss", {"history": "nodes", "layers": 3}),
}
every_learner = pytest.mark.parametrize("name", LEARNERS)
SHARDS = (np.arange(12), np.arange(8, 20))  # seeds; 8 to 11 are in both


def made(name: str, graph: Graph, **more) -> Sampler:
    kind, options = LEARNERS[name]
    return make_sampler(kind, graph, **(options | more))


def observed(sampler: Sampler, seeds: np.ndarray, step: int) -> list[Block]:
    """Blocks with embeddings that differ between batches, and attention."""
    random = np.random.default_rng([step, int(seeds[0])])
    blocks = sampler.sample(seeds, step)
    for block in blocks:
        size = torch.from_numpy(random.lognormal(1, 1, (block.num_src, 5)))
        block.observe(size.float(), softmax(block, random.lognormal(0, 1, 60)))
    return blocks


def copied(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in state.items()}


def are_equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return set(one) == set(other) and all(torch.equal(one[key], other[key]) for key in one)


def sent(news: Sequence[News]) -> list[News]:
    """The news as another process receives it."""
    return [{name: array.copy() for name, array in layer.items()} for layer in news]


@every_learner
def test_an_update_is_the_application_of_its_digest(name, toy_graph):
    updated, applied = made(name, toy_graph), made(name, toy_graph)
    for step in range(6):
        updated.update(observed(updated, SHARDS[0], step))
        applied.apply([sent(applied.digest(observed(applied, SHARDS[0], step)))])
        assert are_equal(updated.state_dict(), applied.state_dict())
    assert not are_equal(updated.state_dict(), made(name, toy_graph).state_dict())


@every_learner
def test_all_rows_that_the_shards_of_a_step_change_are_dirty(name, toy_graph):
    """An incremental checkpoint leaves out the others. None: any row may have changed."""
    sampler, shards = made(name, toy_graph), [np.arange(n, n + 4) for n in (0, 20, 40)]
    dirty, is_tracked, changes = sampler.learning.track_changes(), False, 0
    for step in range(6):
        dirty.clear()
        assert not any(ids.size for ids in sampler.learning.changed_rows().values())
        before = copied(sampler.state_dict())
        sampler.apply([sampler.digest(observed(sampler, seeds, step)) for seeds in shards])
        rows, after = sampler.learning.changed_rows(), sampler.state_dict()
        is_tracked |= rows is not None
        for array, ids in (rows or {}).items():
            differs = (after[array] != before[array]).view(len(before[array]), -1).any(1)
            changed = differs.nonzero().view(-1).tolist()
            assert set(changed) <= set(ids.tolist()), array
            changes += len(changed)
    assert is_tracked == (changes > 0)
    assert is_tracked or name in ("exp3-scale-free", "asgcn")


@every_learner
def test_a_digest_changes_nothing(name, toy_graph):
    sampler = made(name, toy_graph)
    for step in range(3):
        before = copied(sampler.state_dict())
        blocks = observed(sampler, SHARDS[0], step)
        first, again = sampler.digest(blocks), sampler.digest(blocks)
        assert are_equal(sampler.state_dict(), before)
        for one, other in zip(first, again, strict=True):
            assert set(one) == set(other)
            assert all(np.array_equal(one[key], other[key], equal_nan=True) for key in one)
        sampler.update(blocks)


@every_learner
def test_samplers_that_apply_the_same_news_in_the_same_order_are_equal(name, toy_graph):
    workers = [made(name, toy_graph) for _ in SHARDS]
    for step in range(6):
        news = [w.digest(observed(w, s, step)) for w, s in zip(workers, SHARDS, strict=True)]
        for worker in workers:
            worker.apply([sent(shard) for shard in news])
        assert are_equal(workers[0].state_dict(), workers[1].state_dict())
    blocks = [worker.sample(np.arange(30), 99) for worker in workers]
    for one, other in zip(*blocks, strict=True):
        assert torch.equal(one.edge, other.edge)
        assert torch.equal(one.edge_weight, other.edge_weight)


COUNTERS = {
    "node": ["node.size.steps", "node.score.steps"],
    "sketch": ["node.size.steps", "node.score.steps"],
    "exp3-scale-free": ["exp3.steps"],
    "asgcn": ["linear.steps"],
    "gcn-bs": ["neighbour.steps"],
    "gat-bs": ["neighbour.steps"],
}


@pytest.mark.parametrize("name", COUNTERS)
def test_two_shards_are_one_step_of_time(name, toy_graph):
    together, apart = made(name, toy_graph), made(name, toy_graph)
    news = [together.digest(observed(together, seeds, 0)) for seeds in SHARDS]
    together.apply(news)
    for shard in news:
        apart.apply([shard])
    for counter in COUNTERS[name]:
        assert together.state_dict()[counter].tolist() == [1, 1]
        assert apart.state_dict()[counter].tolist() == [2, 2]


def test_restarts_are_counted_in_steps_not_in_shards(toy_graph):
    sampler = made("gcn-bs-thanos", toy_graph)
    for step in range(1, 7):
        sampler.apply([sampler.digest(observed(sampler, seeds, step)) for seeds in SHARDS])
        is_forgotten = not sampler.state_dict()["exp3.0.excess"].any()
        assert is_forgotten == (step % 3 == 0)


# What an order of shards can change, by entry: nodes or edges that several shards have seen.
ORDERED = {
    "node": ({"memory": 0.9}, "source", ["node.size.1.arm", "node.1.code"]),
    "exp3-scale-free": ({}, "edge", ["exp3.1.weight"]),
    "vrgcn": ({}, "history.source", ["history.1.value"]),
    "exp3-released": ({}, None, ["exp3.1.excess"]),
    "gcn-bs": ({}, None, ["exp3.1.excess"]),
    "asgcn": ({}, None, ["linear.weight"]),
}


@pytest.mark.parametrize("name", ORDERED)
def test_the_order_of_shards_matters_only_where_both_saw_the_same(name, toy_graph):
    options, ids, arrays = ORDERED[name]
    forward, backward = (made(name, toy_graph, **options) for _ in range(2))
    news = [forward.digest(observed(forward, seeds, 0)) for seeds in SHARDS]
    forward.apply(news)
    backward.apply(news[::-1])
    shared = np.intersect1d(*(shard[1][ids] for shard in news)) if ids else np.empty(0, int)
    for key in arrays:
        one, other = (s.state_dict()[key].double().numpy() for s in (forward, backward))
        assert one.any()
        differs = np.abs(one - other).reshape(len(one), -1).max(1) > 1e-5 * np.abs(one).max()
        assert set(np.flatnonzero(differs)) <= set(shared.tolist())
        assert differs.any() == bool(ids)


def loaded(name: str) -> tuple[BlockLoader, Sampler, Data]:
    """A loader whose blocks keep every node: D = S in each layer."""
    random = torch.Generator().manual_seed(0)
    edge_index = torch.from_numpy(heavy_tailed_pairs(60, 400))
    data = Data(x=torch.randn(60, 5, generator=random), edge_index=edge_index)
    kind, options = LEARNERS[name]
    sampler = make_sampler(kind, Graph.of(data), budgets=[60, 60], **options)
    return BlockLoader(data, sampler, batch_size=60, prefetch=1), sampler, data


@pytest.mark.parametrize("name", ["node", "exp3", "vrgcn", "history"])
def test_a_state_saved_between_batches_shares_no_memory_and_can_be_written(name):
    loader, sampler, data = loaded(name)
    for _ in range(2):
        for batch in loader:
            for block in batch.blocks:
                assert block.num_dst == block.num_src
                block.observe(data.x[block.src])
            sampler.update(batch.blocks)
            state = sampler.state_dict()
            assert any(key.startswith("pending.") for key in state)
            places = [tensor.untyped_storage().data_ptr() for tensor in state.values()]
            assert len(set(places)) == len(places)
            written = safetensors.torch.save(state)
    other = loaded(name)[1]
    other.load_state_dict(safetensors.torch.load(written))
    for one in (sampler, other):
        one.learning.settle()
    assert are_equal(sampler.state_dict(), other.state_dict())
