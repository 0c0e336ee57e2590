"""Graphs with types and times: each relation is cut at the time of the seed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bliss import BlockLoader, Graph, InputError
from bliss.graph import Cutoff
from bliss.kernels.times import ALWAYS
from tests.build import make_sampler
from tests.samplers.test_times import violations
from tests.types.graphs import SIZES, hetero

CITES = ("paper", "cites", "paper")


@pytest.fixture(scope="module")
def data():
    """Times of all edges but those of venues; papers have times, too."""
    data, random = hetero(), np.random.default_rng(7)
    for key in data.edge_types:
        if key[0] == "author":
            time = random.integers(0, 50, data[key].edge_index.size(1))
            data[key].time = torch.from_numpy(time)
    data["paper"].time = torch.from_numpy(random.integers(0, 50, SIZES["paper"]))
    return data


@pytest.fixture(scope="module")
def graph(data) -> Graph:
    return Graph.of(data, time_attr="time")


def test_times_come_from_edges_or_else_from_sources(data, graph):
    relation, types = graph.relation_of(np.arange(graph.num_edges)), graph.types
    column = graph.edge_id
    for key in data.edge_types:
        own = relation == types.relation(key)
        pairs = data[key].edge_index.numpy()[:, column[own]]
        if key[0] == "author":
            wanted = data[key].time.numpy()[column[own]]
        elif key[0] == "paper":
            wanted = data["paper"].time.numpy()[pairs[0]]
        else:
            wanted = np.full(pairs.shape[1], ALWAYS)  # venues have no times
        np.testing.assert_array_equal(graph.time[own], wanted)
    assert not graph.without_times().has_times


@pytest.mark.parametrize("name", ["bliss", "pladies", "neighbor", "labor-0", "full"])
def test_a_draw_at_one_time_is_that_of_the_graph_at_that_time(name, graph):
    papers = np.arange(40, 100)[::3]
    old = graph.at(25)
    assert old.types.edge_types == graph.types.edge_types
    ours = make_sampler(name, graph).sample(papers, 3, time=np.full(papers.size, 25))
    theirs = make_sampler(name, old).sample(papers, 3)
    late = make_sampler(name, graph).sample(papers, 3, time=np.full(papers.size, 30))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.src, other.src, rtol=0, atol=0)
        torch.testing.assert_close(one.edge_weight, other.edge_weight)
        torch.testing.assert_close(one.by_type.relation, other.by_type.relation, rtol=0, atol=0)
    assert late[0].num_edges != ours[0].num_edges  # would be noticed


@pytest.mark.parametrize("name", ["bliss", "neighbor"])
def test_batches_of_one_type_see_their_past_alone(name, data, graph):
    """Seeds have the times of papers by default; a node may be a seed at several times."""
    sampler = make_sampler(name, graph)
    loader = BlockLoader(data, sampler, "paper", time_attr="time", batch_size=16, order="time")
    for batch in loader:
        own = batch["paper"]
        torch.testing.assert_close(own.seed_time, data["paper"].time[own.input_id])
        rule = Cutoff.of(own.seed_time.numpy())
        assert violations(graph, batch.blocks, rule) == 0
        late = sampler.sample(batch.blocks[-1].dst, 0, time=own.seed_time.numpy() + 9)
        assert violations(graph, late, rule) > 0  # a mutant
        for kind in SIZES:
            torch.testing.assert_close(batch[kind].x, data[kind].x[batch[kind].n_id])
    ids, time = torch.tensor([3, 3, 5]), torch.tensor([10, 40, 20])
    (batch,) = BlockLoader(data, sampler, ("paper", ids), input_time=time, batch_size=3)
    assert batch["paper"].seed_time.tolist() == [10, 40, 20]
    assert batch["paper"].y.tolist() == data["paper"].y[ids].tolist()


def test_missing_and_wrong_times_are_refused(data):
    with pytest.raises(InputError, match="no relation and no type of sources has an attribute"):
        Graph.of(data, time_attr="when")
    other = hetero()
    other[CITES].time = torch.rand(150)
    with pytest.raises(InputError, match=r"cites.*time is float32 .*convert it to int64"):
        Graph.of(other, time_attr="time")
    with pytest.raises(InputError, match=r"data\['author'\] has no attribute 'time': pass input_t"):
        sampler = make_sampler("bliss", Graph.of(data, time_attr="time"))
        BlockLoader(data, sampler, "author", time_attr="time")
