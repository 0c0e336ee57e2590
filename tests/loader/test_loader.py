"""The loader: a PyG loader in its habits, and the same batches every time."""

from __future__ import annotations

import gc
import os
import signal
import threading

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GATv2Conv, GraphConv, SAGEConv

from bliss import PLADIES, Bliss, BlockLoader, Graph, InputError
from tests.conftest import heavy_tailed_pairs

NODES = 200


@pytest.fixture(scope="module")
def data() -> Data:
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.from_numpy(heavy_tailed_pairs(NODES, 1500))
    x = torch.randn(NODES, 8, generator=generator)
    return Data(
        x=x,
        edge_index=edge_index,
        y=(x[:, 0] > 0).long(),
        train_mask=torch.arange(NODES) % 2 == 0,
        name="toy",
    )


def run(data: Data, policy: str = "node", epochs: int = 2, **options) -> list[tuple]:
    """What every batch looked like when its sampler learnt after each."""
    sampler = Bliss(data, [30, 15], policy=policy, seed=3)
    loader = BlockLoader(data, sampler, data.train_mask, batch_size=32, **options)
    seen = []
    for _ in range(epochs):
        for batch in loader:
            for block in batch.blocks:
                block.observe(data.x[block.src] ** 3)
            sampler.update(batch.blocks)
            seen.append(tuple(block.src.tolist() for block in batch.blocks))
    return seen


def test_batches_hold_what_is_promised(data):
    sampler = PLADIES(data, [30, 15])
    loader = BlockLoader(data, sampler, data.train_mask, batch_size=32)
    assert len(loader) == 4
    seeds = []
    for batch in loader:
        assert torch.equal(batch.n_id, batch.blocks[0].src)
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(batch.y, data.y[batch.blocks[-1].dst])
        assert torch.equal(batch.input_id, batch.blocks[-1].dst)
        assert torch.equal(batch.train_mask, data.train_mask[batch.n_id])
        assert batch.name == "toy"
        assert "edge_index" not in batch
        assert batch.batch_size == batch.y.numel()
        moved = batch.to("cpu")
        assert torch.equal(moved.blocks[0].edge_index, batch.blocks[0].edge_index)
        seeds += batch.blocks[-1].dst.tolist()
    assert seeds == data.train_mask.nonzero().view(-1).tolist()


def test_options_of_pyg_hold(data):
    sampler = PLADIES(data, [30])
    marked = BlockLoader(
        data, sampler, torch.arange(50), batch_size=20, drop_last=True, transform=mark
    )
    assert [batch.mark for batch in marked] == [20, 20]
    everything = BlockLoader(data, sampler, batch_size=NODES)
    assert next(iter(everything)).batch_size == NODES
    assert everything([5, 6]).blocks[-1].dst.tolist() == [5, 6]


def mark(batch: Data) -> Data:
    batch.mark = batch.batch_size
    return batch


def test_shuffling_depends_on_seed_and_epoch_alone(data):
    def orders(seed: int) -> list[list[int]]:
        loader = BlockLoader(data, PLADIES(data, [9], seed=seed), batch_size=64, shuffle=True)
        return [[i for b in loader for i in b.blocks[-1].dst.tolist()] for _ in range(2)]

    torch.manual_seed(0)
    first = orders(1)
    torch.manual_seed(1)
    assert orders(1) == first
    assert first[0] != first[1]
    assert sorted(first[0]) == sorted(first[1]) == list(range(NODES))
    assert orders(2) != first


def test_a_frozen_policy_draws_the_same_with_and_without_prefetch(data):
    def sources(prefetch: int) -> list[list[int]]:
        sampler = PLADIES(data, [30, 15])
        loader = BlockLoader(data, sampler, batch_size=32, shuffle=True, prefetch=prefetch)
        return [batch.blocks[0].src.tolist() for _ in range(2) for batch in loader]

    assert sources(0) == sources(1)


@pytest.mark.parametrize("policy", ["node", "exp3-released"])
def test_prefetching_gives_the_same_results_every_time(data, policy):
    runs = [run(data, policy, shuffle=True, prefetch=1) for _ in range(3)]
    assert runs[0] == runs[1] == runs[2]


def test_with_prefetch_the_policy_is_exactly_one_step_old(data):
    sampler = Bliss(data, [30, 15], seed=3)
    waiting, expected = None, []
    plain = BlockLoader(data, PLADIES(data, [5], seed=3), data.train_mask, batch_size=32)
    batches = [b.blocks[-1].dst.numpy() for _ in range(2) for b in plain]
    for step, seeds in enumerate(batches):
        blocks = sampler.sample(seeds, step)
        for block in blocks:
            block.observe(data.x[block.src] ** 3)
        expected.append(tuple(block.src.tolist() for block in blocks))
        if waiting is not None:
            sampler.update(waiting)  # what the step before has taught, one step late
        waiting = blocks
    assert run(data, prefetch=1) == expected
    assert run(data, prefetch=0) != expected


@pytest.mark.parametrize("prefetch", [0, 1])
@pytest.mark.parametrize("stop", [0, 2, 3, 4, 6])
def test_a_run_resumed_after_any_batch_goes_on_as_if_it_had_not_stopped(data, prefetch, stop):
    def make() -> tuple[Bliss, BlockLoader]:
        sampler = Bliss(data, [30, 15], seed=3)
        options = {"batch_size": 32, "shuffle": True, "prefetch": prefetch}
        return sampler, BlockLoader(data, sampler, data.train_mask, **options)

    sampler, loader = make()
    seen: list[tuple] = []
    saved = None
    while len(seen) < 8:
        before = len(seen)
        for batch in loader:
            for block in batch.blocks:
                block.observe(data.x[block.src] ** 3)
            sampler.update(batch.blocks)
            seen.append(tuple(block.src.tolist() for block in batch.blocks))
            if len(seen) == stop + 1 and saved is None:
                saved = {k: v.clone() for k, v in sampler.state_dict().items()}, loader.state_dict()
                sampler, loader = make()  # all that was in memory is gone
                sampler.load_state_dict(saved[0])
                loader.load_state_dict(saved[1])
                break
        assert len(seen) > before  # no epoch is empty
    assert seen == run(data, shuffle=True, prefetch=prefetch)


@pytest.mark.parametrize("prefetch", [0, 1])
@pytest.mark.parametrize(("batches", "left"), [(1, 3), (3, 1), (4, 4), (5, 3), (8, 4)])
def test_a_loaded_position_yields_the_rest_of_its_epoch_or_a_whole_one(
    data, prefetch, batches, left
):
    def make() -> BlockLoader:
        return BlockLoader(data, PLADIES(data, [9]), batch_size=50, prefetch=prefetch)

    saved, other = make(), make()
    steps = (batch for _ in range(3) for batch in saved)
    for _ in range(batches):
        next(steps)
    other.load_state_dict(saved.state_dict())
    assert len(list(other)) == left
    assert len(list(other)) == len(other) == 4


def test_leaving_an_epoch_early_starts_the_next_one(data):
    sampler = PLADIES(data, [30])
    loader = BlockLoader(data, sampler, batch_size=50, shuffle=True, prefetch=1)
    for batch in loader:
        first = batch.blocks[-1].dst.tolist()
        break
    again = next(iter(loader)).blocks[-1].dst.tolist()
    assert first != again
    assert loader.step == 2


@pytest.mark.parametrize("prefetch", [0, 1])
def test_after_an_exception_the_loader_still_knows_where_it_stood(data, prefetch):
    loader = BlockLoader(data, PLADIES(data, [30]), batch_size=50, prefetch=prefetch)
    with pytest.raises(KeyboardInterrupt):
        for _ in loader:
            if loader.step == 3:
                raise KeyboardInterrupt
    assert loader.state_dict() == {"epoch": 0, "batch": 3, "step": 3}


def test_a_second_loader_does_not_disturb_the_first(data):
    def run_with(prefetch: int | None) -> list[list[int]]:
        sampler = Bliss(data, [30, 15], seed=3)
        loader = BlockLoader(data, sampler, data.train_mask, batch_size=32, prefetch=1)
        seen = []
        for batch in loader:
            for block in batch.blocks:
                block.observe(data.x[block.src] ** 3)
            sampler.update(batch.blocks)
            seen.append(batch.blocks[0].src.tolist())
            if prefetch is not None:
                list(BlockLoader(data, sampler, ~data.train_mask, batch_size=50, prefetch=prefetch))
        return seen

    assert run_with(0) == run_with(None)
    with pytest.raises(InputError, match="two loaders with prefetch=1"):
        run_with(1)


def test_learning_by_hand_goes_on_after_a_prefetching_loader(data):
    sampler = Bliss(data, [30])
    list(BlockLoader(data, sampler, batch_size=50, prefetch=1))
    blocks = sampler.sample([1, 2, 3], 0)
    blocks[0].observe(data.x[blocks[0].src])
    sampler.update(blocks)
    assert sampler.state_dict()["node.size.steps"].tolist() == [1]


def test_an_error_while_drawing_ahead_reaches_the_caller(data):
    loader = BlockLoader(data, PLADIES(data, [30]), batch_size=50, prefetch=1, transform=fail)
    with pytest.raises(RuntimeError, match="no such luck"):
        next(iter(loader))


def fail(_: Data) -> Data:
    raise RuntimeError("no such luck")


def test_abandoned_iterations_leave_one_thread(data):
    before = set(threading.enumerate())
    loader = BlockLoader(data, PLADIES(data, [30]), batch_size=50, prefetch=1)
    for _ in range(200):
        next(iter(loader))
    assert len(set(threading.enumerate()) - before) == 1


def test_the_thread_ends_with_its_loader(data):
    before = set(threading.enumerate())
    loader = BlockLoader(data, PLADIES(data, [30]), batch_size=50, prefetch=1)
    list(loader)
    next(iter(loader))
    (thread,) = set(threading.enumerate()) - before
    assert thread.is_alive()
    del loader
    gc.collect()
    thread.join(timeout=60)
    assert not thread.is_alive()


def test_one_thread_and_one_workspace_serve_all_epochs(data, monkeypatch):
    sampler = PLADIES(data, [30, 15])
    find, seen = sampler._workspace, []

    def watched():
        workspace = find()
        seen.append((threading.current_thread(), workspace))
        return workspace

    monkeypatch.setattr(sampler, "_workspace", watched)
    loader = BlockLoader(data, sampler, batch_size=50, prefetch=1)
    for _ in range(3):
        list(loader)
    threads, workspaces = zip(*seen, strict=True)
    assert len(threads) >= 3 * 4 * 2
    assert set(threads) == {threads[0]} != {threading.current_thread()}
    assert all(workspace is workspaces[0] for workspace in workspaces)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Python 3.12: forks among threads
def test_a_child_does_not_wait_for_the_thread_of_its_parent(data):
    loader = BlockLoader(data, PLADIES(data, [30]), batch_size=50, prefetch=1)
    batches = iter(loader)
    next(batches)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(20)  # a child that hangs is killed
            with pytest.raises(InputError, match="does not survive a fork"):
                next(batches)
            assert len(list(loader)) == 4  # the next epoch, with a thread of its own
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert len(list(batches)) == 3  # the parent goes on


def test_without_prefetch_there_is_no_thread(data):
    before = set(threading.enumerate())
    list(BlockLoader(data, PLADIES(data, [30]), batch_size=50))
    assert set(threading.enumerate()) <= before


def test_batches_can_be_given_by_hand(data):
    positions = [[3, 1], [0, 2, 4]]
    nodes = torch.tensor([10, 20, 30, 40, 50])
    loader = BlockLoader(data, PLADIES(data, [30]), nodes, batch_sampler=positions)
    assert len(loader) == 2
    assert [batch.input_id.tolist() for batch in loader] == positions
    assert [batch.blocks[-1].dst.tolist() for batch in loader] == [[40, 20], [10, 30, 50]]


class Network(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        if kind == "gatv2":
            options = {"add_self_loops": False}
            self.convs = nn.ModuleList(
                [GATv2Conv(8, 8, heads=2, **options), GATv2Conv(16, 2, **options)]
            )
        else:
            conv = GraphConv if kind == "graphconv" else SAGEConv
            self.convs = nn.ModuleList([conv(8, 16), conv(16, 2)])

    def forward(self, x: Tensor, blocks) -> Tensor:
        for conv, block in zip(self.convs, blocks, strict=True):
            pair = x, x[: block.num_dst]
            if self.kind == "gatv2":
                out, (_, attention) = conv(pair, block.edge_index, return_attention_weights=True)
                block.observe(x, attention)
            else:
                block.observe(x)
                weight = (block.edge_weight,) if self.kind == "graphconv" else ()
                out = conv(pair, block.edge_index, *weight)
            x = out.relu() if conv is not self.convs[-1] else out
        return x


@pytest.mark.parametrize("kind", ["graphconv", "sage", "gatv2"])
@pytest.mark.parametrize("policy", ["node", "exp3-released", "static"])
def test_pygs_own_convolutions_train_on_blocks(data, kind, policy):
    torch.manual_seed(0)
    sampler = Bliss(data, [60, 30], policy=policy, self_loops="add")
    loader = BlockLoader(data, sampler, data.train_mask, batch_size=50, shuffle=True, prefetch=1)
    network = Network(kind)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    losses = []
    for _ in range(15):
        for batch in loader:
            loss = nn.functional.cross_entropy(network(batch.x, batch.blocks), batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            sampler.update(batch.blocks)
            losses.append(loss.item())
    assert np.mean(losses[-6:]) < 0.75 * np.mean(losses[:3])


REFUSED = {
    "workers": ({"num_workers": 2}, "num_workers=2 must be 0"),
    "far ahead": ({"prefetch": 2}, "prefetch=2 must be 0 or 1"),
    "batch sampler and shuffle": (
        {"batch_sampler": [[0]], "shuffle": True},
        "batch_sampler cannot be combined with shuffle",
    ),
    "no batch size": ({"batch_size": None}, "batch_size=None"),
    "no flag, drop_last": ({"drop_last": "a"}, "drop_last='a' must be True or False"),
    "no flag, shuffle": ({"shuffle": 1}, "shuffle=1 must be True or False"),
    "no flag, pin_memory": ({"pin_memory": "a"}, "pin_memory='a' must be True or False"),
    "no function": ({"transform": 3}, "transform=3 must be a function"),
    "no batches": ({"batch_sampler": 3}, "batch_sampler=3 must be an iterable"),
    "short mask": ({"input_nodes": torch.ones(3, dtype=torch.bool)}, r"mask of shape \(3,\)"),
    "no nodes": ({"input_nodes": torch.zeros(NODES, dtype=torch.bool)}, "input_nodes is empty"),
    "a node twice": ({"input_nodes": [4, 4]}, "input_nodes holds node 4 more than once"),
    "unknown node": ({"input_nodes": [NODES]}, f"input_nodes holds {NODES}"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_gets_one_sentence(case, data):
    options, message = REFUSED[case]
    with pytest.raises(InputError, match=message) as caught:
        BlockLoader(data, PLADIES(data, [30]), **options)
    assert "\n" not in str(caught.value)


BAD_BATCHES = {
    "too far": ([0, NODES], "from 0 to 200, "),
    "negative": ([-1, 3], "from -1 to 3, "),
    "fractions": ([0.5], "float64, "),
    "text": (["a"], "<U1, "),
    "nested": ([[1, 2]], "of shape (1, 2), "),
}


@pytest.mark.parametrize("case", BAD_BATCHES)
def test_positions_outside_the_input_nodes_are_refused(case, data):
    batch, words = BAD_BATCHES[case]
    loader = BlockLoader(data, PLADIES(data, [30]), batch_sampler=[[0], batch])
    for draw in (lambda: list(loader), lambda: loader(batch)):
        with pytest.raises(InputError, match="the positions of a batch are") as caught:
            draw()
        assert words in str(caught.value)


@pytest.mark.parametrize("prefetch", [0, 1])
@pytest.mark.parametrize("name", ["x", "y", "edge_attr"])
def test_attributes_that_lose_rows_after_the_loader_was_built_are_refused(data, name, prefetch):
    own = Data(**data.to_dict(), edge_attr=torch.ones(data.num_edges, 2))
    loader = BlockLoader(own, PLADIES(Graph.of(own), [30]), batch_size=50, prefetch=prefetch)
    own[name] = own[name][:20]
    with pytest.raises(InputError, match=rf"data.{name} had \d+ rows when .* now has shape \(20"):
        next(iter(loader))


def test_features_that_replace_those_of_a_file_are_used(data, tmp_path):
    np.save(tmp_path / "x.npy", data.x.numpy())
    own = data.clone()
    own.x = torch.from_numpy(np.load(tmp_path / "x.npy", mmap_mode="c"))
    sampler = PLADIES(data, [30])
    loader = BlockLoader(own, sampler, batch_size=50, feature_cache=1000)
    assert "x" in loader._gather.readers
    own.x = own.x + 1
    batch = next(iter(loader))
    assert torch.equal(batch.x, data.x[batch.n_id] + 1)


def test_sparse_rows_that_cannot_be_selected_are_refused(data):
    own = data.clone()
    own.x = data.x.to_sparse_csr()
    with pytest.raises(InputError, match=r"data.x is torch.sparse_csr, whose rows cannot be"):
        BlockLoader(own, PLADIES(data, [30]))
    own.x = data.x.to_sparse_coo()
    batch = next(iter(BlockLoader(own, PLADIES(data, [30]), batch_size=50)))
    assert torch.equal(batch.x.to_dense(), data.x[batch.n_id])


@pytest.mark.parametrize("option", [{"history": "nodes", "widths": [8, 8]}, {"first_hop": "exact"}])
def test_features_of_a_history_are_dense_and_hold_values(data, option):
    for x, sentence in (
        (data.x.to_sparse(), "x is torch.sparse_coo: pass a dense tensor"),
        (data.x.to_sparse_csr(), "x is torch.sparse_csr: pass a dense tensor"),
        (data.x.to("meta"), "x is on the device meta, without values"),
    ):
        with pytest.raises(InputError, match=sentence):
            Bliss(Graph.of(data), [30], x=x, **option)
    half = Bliss(Graph.of(data), [30], x=data.x.bfloat16(), **option)
    assert np.array_equal(half.features, data.x.bfloat16().float().numpy())


def test_data_of_another_graph_is_refused(data, toy_graph):
    with pytest.raises(InputError, match="data has 200 nodes"):
        BlockLoader(data, PLADIES(toy_graph, [30]))
