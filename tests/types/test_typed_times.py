"""Graphs with types and times: each relation is cut at the time of the seed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
import torch
from torch_geometric.data import HeteroData

from bliss import BlockLoader, Graph, InputError
from bliss.data import Dataset, import_graph, open_store, save_dataset
from bliss.data.from_hetero import hetero_graph
from bliss.graph import Cutoff
from bliss.kernels.times import ALWAYS
from bliss.train import build_task, full_logits, predict, resolve, train
from bliss.train.evaluation import own_time_outputs
from tests.build import make_sampler
from tests.samplers.test_times import violations
from tests.train.runs import quiet
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


SEEN, WITNESSES = 300, 40


def foretold() -> HeteroData:
    """Item i appears at 10 i; its label is the kind of the witness that it meets a moment later."""
    random = np.random.default_rng(0)
    number, y = np.arange(SEEN), random.integers(0, 2, SEEN)
    data = HeteroData()
    data["item"].x = torch.from_numpy(random.normal(size=(SEEN, 4))).float()
    data["item"].y, data["item"].time = torch.from_numpy(y), torch.from_numpy(10 * number)
    data["witness"].x = torch.eye(2).repeat(WITNESSES // 2, 1) * 3
    witness = 2 * random.integers(0, WITNESSES // 2, SEEN) + y
    data["item", "meets", "witness"].edge_index = torch.from_numpy(np.stack([number, witness]))
    data["item", "meets", "witness"].time = torch.from_numpy(10 * number + 1)
    earlier = random.integers(0, np.maximum(number, 1))
    data["item", "knows", "item"].edge_index = torch.from_numpy(np.stack([earlier, number]))
    data["item", "knows", "item"].time = torch.from_numpy(10 * number)
    return data


RUN = {"model": "rsage", "layers": 2, "hidden": 16, "batch_size": 40, "lr": 0.02, "steps": 40}


@pytest.mark.slow
def test_labels_that_only_the_future_shows_are_not_learnt_with_types(tmp_path):
    dataset = Dataset.from_data(foretold(), time_attr="time", undirected=True)
    torch.save(foretold(), tmp_path / "data.pt")
    folder = import_graph(tmp_path / "store", graph=tmp_path / "data.pt", time_column="time")
    store = open_store(folder)
    for found in (store, open_store(save_dataset(store, tmp_path / "copy"))):
        np.testing.assert_array_equal(found.node_time, dataset.node_time)
        np.testing.assert_array_equal(found.graph.time, dataset.graph.time)
        np.testing.assert_array_equal(found.graph.indices, dataset.graph.indices)
        assert found.graph.types.edge_types == dataset.graph.types.edge_types
    options = {**RUN, "budgets": (60, 60), "evaluate_every": 20, "say": quiet}
    limit = scipy.stats.binom.isf(1e-6, 60, 0.5) / 60  # false alarms of guesses
    result = train(store, tmp_path / "run", **options)
    assert result.test_score <= limit
    assert (result.window.start, result.window.end) == ("2400", "2990")
    late = replace(dataset, node_time=dataset.node_time + 1)
    for name, mutant, more in (("late", late, {}), ("untimed", dataset, {"split": "given"})):
        leaking = train(mutant, tmp_path / name, **options, **more)
        assert leaking.test_score > limit, name
    own, later = (predict(tmp_path / "run", store, nodes="test", at=at) for at in (None, 5000))
    assert own["node"] == list(range(240, 300)) and own["probability"] != later["probability"]


def test_outputs_of_typed_nodes_are_those_of_the_graph_at_their_times():
    dataset = Dataset.from_data(foretold(), time_attr="time", undirected=True)
    task = build_task(resolve(**RUN, dataset="foretold", time_window=500), dataset)
    nodes = torch.tensor([7, 200, 45, 199])
    outputs = own_time_outputs(task, nodes)
    for place, node in enumerate(nodes.tolist()):
        exact = full_logits(task, graph=task.graph.at(10 * node, window=500))[node]
        torch.testing.assert_close(outputs[place], exact, rtol=1e-4, atol=1e-5)
        later = full_logits(task, graph=task.graph.at(10 * node + 1, window=500))[node]
        assert not torch.allclose(outputs[place], later, rtol=1e-4, atol=1e-5)


def test_a_reverse_edge_is_as_old_as_its_edge_or_its_own_source(data):
    plain = data.clone()
    for key in data.edge_types:
        if key[2] == "author":
            del plain[key]
    graph = hetero_graph(plain, "mean", True, "time")
    relation = graph.relation_of(np.arange(graph.num_edges))
    for source, name, target in plain.edge_types:
        pairs, own = plain[source, name, target].edge_index, plain[source, name, target].get("time")
        of_source = plain[target].get("time")  # of the reverse
        wanted = own if own is not None else None if of_source is None else of_source[pairs[1]]
        number = graph.types.relation((target, f"rev_{name}", source))
        found = np.sort(graph.time[relation == number])
        always = np.full(pairs.size(1), ALWAYS)
        np.testing.assert_array_equal(found, always if wanted is None else np.sort(wanted))
