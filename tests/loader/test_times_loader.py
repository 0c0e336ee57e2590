"""Loaders with times: seeds see what had happened, in any order, thread, shard or resumption."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from bliss import BlockLoader, Graph, InputError, LinkLoader, Neighbor
from tests.build import make_sampler
from tests.samplers.test_times import violations

NODES, EDGES = 40, 400


@pytest.fixture(scope="module")
def data() -> Data:
    random = np.random.default_rng(0)
    pairs = random.integers(0, NODES, (2, EDGES))
    pairs = np.concatenate([pairs, pairs[::-1]], axis=1)  # with reverse edges, of equal time
    time = np.tile(random.integers(0, 50, EDGES), 2)
    x = torch.from_numpy(random.normal(size=(NODES, 3))).float()
    y = torch.arange(NODES)
    return Data(x=x, y=y, edge_index=torch.from_numpy(pairs), time=torch.from_numpy(time))


@pytest.fixture(scope="module")
def graph(data) -> Graph:
    return Graph.of(data, time_attr="time")


def seeds_of(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = np.random.default_rng(1)
    ids, time = random.integers(0, NODES, size), random.integers(0, 50, size)
    return torch.from_numpy(ids), torch.from_numpy(time)


@pytest.mark.parametrize("name", ["bliss", "neighbor"])
@pytest.mark.parametrize("options", [{}, {"prefetch": 1}, {"time_strict": True, "time_window": 9}])
def test_batches_of_nodes_see_their_past_alone(data, graph, name, options):
    nodes, time = seeds_of(60)
    loader = BlockLoader(
        data, make_sampler(name, graph), nodes, input_time=time, batch_size=16, shuffle=True,
        **options,
    )  # fmt: skip
    seen = []
    for batch in loader:
        rule = loader.seeds.times.cutoff(batch.input_id.numpy())
        assert violations(graph, batch.blocks, rule) == 0
        torch.testing.assert_close(batch.seed_time, time[batch.input_id])
        torch.testing.assert_close(batch.blocks[-1].dst, nodes[batch.input_id])
        torch.testing.assert_close(batch.y, nodes[batch.input_id])
        torch.testing.assert_close(batch.x, data.x[batch.n_id])
        seen.append(batch.input_id)
    assert torch.cat(seen).sort().values.tolist() == list(range(60))  # a node at several times


def test_order_of_time_makes_batches_of_neighbours_in_time(data, graph):
    nodes, time = seeds_of(50)
    options = {"input_time": time, "batch_size": 8, "order": "time"}
    sampler = make_sampler("bliss", graph)
    inorder = [batch.seed_time for batch in BlockLoader(data, sampler, nodes, **options)]
    assert (torch.cat(inorder).diff() >= 0).all()
    loader = BlockLoader(data, sampler, nodes, **options, shuffle=True)
    epochs = [[batch.seed_time.tolist() for batch in loader] for _ in range(2)]
    for epoch in epochs:
        assert sorted(epoch) == sorted(one.tolist() for one in inorder)  # whole batches
    assert epochs[0] != epochs[1]
    dropped = BlockLoader(data, sampler, nodes, **options, shuffle=True, drop_last=True)
    left = [{int(i) for batch in dropped for i in batch.input_id} for _ in range(8)]
    assert all(len(one) == 48 for one in left) and len({frozenset(one) for one in left}) > 1


@pytest.mark.parametrize("mode", [None, "binary", "triplet"])
@pytest.mark.parametrize("name", ["bliss", "neighbor"])
def test_batches_of_links_see_earlier_edges_alone(data, graph, name, mode):
    """Neither the link, nor its reverse edge, nor anything later is seen from any of its ends."""
    links, time = data.edge_index[:, :EDGES], data.time[:EDGES]
    options = {"edge_label_time": time, "batch_size": 32, "neg_sampling": mode}
    for batch in LinkLoader(data, make_sampler(name, graph), links, **options, shuffle=True):
        own = time[batch.input_id]
        ends = torch.full((batch.batch_size,), -1)  # time of each row of the output
        if mode == "triplet":
            torch.testing.assert_close(batch.seed_time, own)
            for rows in (batch.src_index, batch.dst_pos_index, batch.dst_neg_index):
                ends[rows] = own
            target = batch.blocks[-1].dst[batch.dst_pos_index]
        else:
            copies = batch.edge_label_index.size(1) // own.numel()
            torch.testing.assert_close(batch.edge_label_time, own.repeat(copies))
            for rows in batch.edge_label_index:
                ends[rows] = own.repeat(copies)
            target = batch.blocks[-1].dst[batch.edge_label_index[1, : own.numel()]]
        torch.testing.assert_close(target, links[1, batch.input_id])
        before = ends.numpy()
        assert (before >= 0).all()
        rule = batch.blocks[-1].rows.cutoff
        np.testing.assert_array_equal(rule.before, before)  # strict: nothing of the link's time
        assert violations(graph, batch.blocks, rule) == 0


def test_negatives_may_be_later_links_and_never_earlier_ones():
    """P(later link among 2,000 negatives) = 1 - (1 - 1/3)^2000 with 4 nodes: no false alarm."""
    pairs, time = torch.tensor([[0, 0], [1, 2]]), torch.tensor([1, 9])
    data = Data(edge_index=pairs, time=time, num_nodes=4, x=torch.ones(4, 1))
    sampler = make_sampler("bliss", Graph.of(data, time_attr="time"))
    links = torch.zeros(2, 2000, dtype=torch.long)
    links[1] = 3
    sampling = {"mode": "triplet", "amount": 1}
    drawn = {}
    for now in (0, 5, 9):
        loader = LinkLoader(
            data, sampler, links, batch_size=2000, neg_sampling=sampling,
            edge_label_time=torch.full((2000,), now),
        )  # fmt: skip
        (batch,) = loader
        drawn[now] = set(batch.blocks[-1].dst[batch.dst_neg_index].tolist())
    assert drawn == {0: {1, 2, 3}, 5: {2, 3}, 9: {3}}


@pytest.mark.parametrize("name", ["bliss", "neighbor"])
def test_draws_do_not_depend_on_prefetch_or_resumption(data, graph, name):
    nodes, time = seeds_of(48)
    options = {"input_time": time, "batch_size": 8, "shuffle": True, "order": "time"}

    def loader(**more):
        return BlockLoader(data, make_sampler(name, graph), nodes, **options, **more)

    whole = list(loader())
    ahead = list(loader(prefetch=1))
    resumed = loader()
    resumed.load_state_dict({"epoch": 0, "batch": 3, "step": 3})
    for one, other in zip(whole, ahead, strict=True):
        assert_equal(one, other)
    for one, other in zip(whole[3:], resumed, strict=True):
        assert_equal(one, other)


def assert_equal(one: Data, other: Data) -> None:
    for name in ("n_id", "seed_time", "input_id"):
        torch.testing.assert_close(one[name], other[name])
    for block, same in zip(one.blocks, other.blocks, strict=True):
        torch.testing.assert_close(block.edge_weight, same.edge_weight, rtol=0, atol=0)


def test_shards_see_their_past_alone(data, graph):
    nodes, time = seeds_of(64)
    options = {"batch_size": 8, "shuffle": True, "drop_last": True, "input_time": time}
    loader = BlockLoader(
        data, make_sampler("bliss", graph), nodes, **options, shards=2, shard=(0, 1)
    )
    seen = []
    for batches in loader.steps():
        for batch in batches:
            rule = loader.seeds.times.cutoff(batch.input_id.numpy())
            assert violations(graph, batch.blocks, rule) == 0
            seen += batch.input_id.tolist()
    assert sorted(seen) == list(range(64))


def test_node_times_are_the_default_times_of_seeds():
    random = np.random.default_rng(0)
    pairs = torch.from_numpy(random.integers(0, 9, (2, 60)))
    data = Data(edge_index=pairs, time=torch.arange(9), x=torch.ones(9, 1))
    sampler = Neighbor(data, [60, 60], time_attr="time")
    np.testing.assert_array_equal(sampler.graph.time, sampler.graph.indices)  # as old as the source
    (batch,) = BlockLoader(data, sampler, torch.tensor([4, 7]), time_attr="time", batch_size=2)
    assert batch.seed_time.tolist() == [4, 7]
    for block in batch.blocks[1:]:
        assert (block.src[block.row] <= batch.seed_time[block.col]).all()
    other = BlockLoader(data, sampler, torch.tensor([4, 4]), input_time=torch.tensor([1, 2]))
    assert [batch.input_id.tolist() for batch in other] == [[0], [1]]


IDS, TIME = torch.tensor([1, 2]), torch.tensor([3, 4])
BAD = {
    "without times": ({}, "graph has times, but input_time is missing, so seeds would see"),
    "floats": ({"input_time": TIME.float()}, "input_time is float32 .*convert it to int64"),
    "too few": ({"input_time": TIME[:1]}, r"input_time is int64 of shape \(1,\).*one per seed"),
    "empty window": ({"input_time": TIME, "time_window": 0}, "time_window=0 must be a whole"),
    "edge times": ({"time_attr": "time"}, "holds times of edges, .*: pass input_time"),
    "no attribute": ({"time_attr": "when"}, "data has no attribute 'when': pass input_time"),
    "strategy": ({"input_time": TIME, "temporal_strategy": "last"}, "draws belong to the sampler"),
    "sorted": ({"input_time": TIME, "is_sorted": True}, "the graph is sorted when it is built"),
    "order": ({"input_time": TIME, "order": "age"}, "order='age'"),
    "given batches": (
        {"input_time": TIME, "order": "time", "batch_sampler": [[0]]},
        "cannot be combined with batch_sampler",
    ),
}


@pytest.mark.parametrize(("options", "message"), BAD.values(), ids=BAD)
def test_bad_input_gets_one_sentence(data, graph, options, message):
    with pytest.raises(InputError, match=message) as caught:
        BlockLoader(data, make_sampler("bliss", graph), IDS, **options)
    assert str(caught.value).count("\n") == 0


def test_options_of_times_need_times(data):
    sampler = make_sampler("bliss", Graph.of(data.edge_index.numpy()))
    for options, message in (
        ({"order": "time"}, "needs times of seeds"),
        ({"time_window": 3}, "time_window=3 has no effect without times of seeds"),
        ({"time_strict": True}, "time_strict=True has no effect without times of seeds"),
    ):
        with pytest.raises(InputError, match=message):
            BlockLoader(data, sampler, IDS, **options)
    with pytest.raises(InputError, match="time_attr='time' has no effect on links that are given"):
        LinkLoader(data, sampler, data.edge_index[:, :9], time_attr="time")
    sampling = {"mode": "triplet", "dst_weight": 0.75}
    with pytest.raises(InputError, match="by in-degrees that count future edges"):
        LinkLoader(
            data, make_sampler("bliss", Graph.of(data, time_attr="time")),
            edge_label_time=data.time, neg_sampling=sampling,
        )  # fmt: skip
    with pytest.raises(InputError, match="times are not possible with SaintWalk"):
        saint = make_sampler("saint-rw", Graph.of(data, time_attr="time"))
        BlockLoader(data, saint, IDS, input_time=TIME)
