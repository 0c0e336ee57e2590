"""Splits of links: shares, both directions together, and messages without held-out links."""

from __future__ import annotations

import numpy as np
import pytest

from bliss import Graph, InputError
from bliss.links import LinkSplits
from bliss.links.fractions import SPLITS
from tests.conftest import heavy_tailed_pairs

NODES = 60


def make(symmetric: bool, norm: str = "mean") -> Graph:
    pairs = heavy_tailed_pairs(NODES, 600)
    pairs = np.unique(pairs[:, pairs[0] != pairs[1]], axis=1)
    if symmetric:
        pairs = np.unique(np.concatenate([pairs, pairs[::-1]], axis=1), axis=1)
    weight = None if norm == "mean" else pairs[0] * NODES + pairs[1] + 1.0
    return Graph.from_edge_index(pairs, NODES, weight=weight, norm=norm)


def edges(graph: Graph) -> list[tuple[int, int]]:
    target = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    return list(zip(graph.indices.tolist(), target.tolist(), strict=True))


@pytest.mark.parametrize("symmetric", [True, False])
def test_each_link_is_in_one_split_with_its_reverse(symmetric):
    graph = make(symmetric)
    splits = LinkSplits.random(graph, (0.7, 0.1, 0.2), seed=3)
    assert splits.is_symmetric == symmetric
    parts = [
        set(zip(*splits.links(name).tolist(), strict=True)) for name in ("train", "val", "test")
    ]
    pairs = {frozenset(one) for one in edges(graph) if one[0] != one[1]}
    as_pairs = [{frozenset(one) for one in part} for part in parts]
    assert sum(map(len, as_pairs)) == len(set.union(*as_pairs)) == len(pairs)
    for own, share in zip(as_pairs, (0.7, 0.1, 0.2), strict=True):
        assert abs(len(own) - share * len(pairs)) <= 1
    links = {one for one in edges(graph) if one[0] != one[1]}
    if symmetric:  # once each, and not always from the lower to the higher
        assert sum(map(len, parts)) == len(pairs)
        source, target = splits.train
        assert 0.3 < (source < target).mean() < 0.7
    else:
        assert set.union(*parts) == links


@pytest.mark.parametrize("norm", ["mean", "weights"])
def test_messages_are_the_edges_of_the_given_splits(norm):
    graph = make(True, norm)
    splits = LinkSplits.random(graph, seed=1)
    train = splits.messages("train")
    hidden = {frozenset(one) for n in ("val", "test") for one in splits.links(n).T.tolist()}
    assert sorted(edges(train)) == sorted(e for e in edges(graph) if frozenset(e) not in hidden)
    assert train.num_self_loops == graph.num_self_loops
    if norm == "weights":
        expected = dict(zip(edges(graph), graph.weight.tolist(), strict=True))
        assert [expected[e] for e in edges(train)] == train.weight.tolist()
    both = splits.messages("train", "val")
    assert both.num_edges == train.num_edges + 2 * splits.val.shape[1]
    assert splits.messages("train", "val", "test") is graph


def test_self_loops_know_no_weight_of_a_link_left_out():
    graph = make(True, "weighted-mean")
    train = LinkSplits.random(graph, seed=1).messages("train")
    source, target = np.array(edges(train)).T
    others = source != target
    alone = Graph.from_edge_index(
        np.stack([source, target])[:, others],
        NODES,
        weight=train.weight[others],
        norm="weighted-mean",
    )
    np.testing.assert_allclose(train.weight, alone.weight, rtol=1e-6)
    # self-loops that are no means stay as they were given
    weight = np.where(np.arange(graph.num_edges) % 7 == 0, 7, graph.weight)
    given = Graph.from_csc(
        graph.indptr, graph.indices, weight, norm="weighted-mean", self_loops="keep"
    )
    kept = LinkSplits.random(given, seed=1).messages("train")
    expected = dict(zip(edges(given), given.weight.tolist(), strict=True))
    assert [expected[e] for e in edges(kept)] == kept.weight.tolist()


def test_a_split_depends_on_seed_and_pairs_alone():
    graph = make(True)
    one, same, other = (LinkSplits.random(graph, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(one.test, same.test)
    assert not np.array_equal(one.test, other.test)


@pytest.mark.parametrize(
    ("fractions", "words"),
    [
        ((0.9, 0.1), "three shares"),
        ((1.2, -0.1, -0.1), "three shares"),
        ((0.8, 0.1, 0.2), "adds up to 1.1"),
        ((0.998, 0.001, 0.001), "split has no links"),
    ],
)
def test_bad_fractions_get_one_sentence(fractions, words):
    with pytest.raises(InputError, match=words):
        LinkSplits.random(make(True), fractions)


def pairs_in_time() -> tuple[Graph, np.ndarray, np.ndarray]:
    """A graph of both directions of 40 pairs, and the time of each pair, with ties."""
    pairs = np.stack([np.arange(40) % 8, 8 + np.arange(40) // 4])
    both = np.concatenate([pairs, pairs[::-1]], axis=1)
    time = np.random.default_rng(0).integers(0, 12, 40)
    return Graph.from_edge_index(both, 18, self_loops="add"), pairs, time


def test_the_latest_links_are_for_testing_and_no_time_is_in_two_splits():
    graph, pairs, time = pairs_in_time()
    splits = LinkSplits.by_time(graph, pairs, time, (0.6, 0.2, 0.2))
    when = {tuple(pair): moment for pair, moment in zip(pairs.T, time, strict=True)}
    train, val, test = ([when[tuple(p)] for p in splits.links(n).T] for n in SPLITS)
    assert max(train) < min(val) <= max(val) < min(test)
    assert len(train) + len(val) + len(test) == 40
    assert abs(len(test) - 8) <= np.bincount(time).max()  # but for links of one time
    shown = splits.messages("train")  # with self-loops
    assert shown.num_edges == 18 + 2 * len(train)
    assert shown.edges_between(*np.concatenate([splits.val, splits.test], axis=1))[1].size == 0
    assert shown.edges_between(*splits.test[::-1])[1].size == 0


def test_of_repeated_pairs_the_first_time_counts():
    graph, pairs, time = pairs_in_time()
    again = np.concatenate([pairs, pairs[::-1]], axis=1)
    later = np.concatenate([time, time + 100])
    one, other = (
        LinkSplits.by_time(graph, *given, (0.6, 0.2, 0.2))
        for given in ((pairs, time), (again, later))
    )
    for name in SPLITS:
        np.testing.assert_array_equal(one.links(name), other.links(name))


def test_given_splits_keep_the_direction_and_other_edges_are_messages():
    graph, pairs, _ = pairs_in_time()
    split = np.array([0, 0, 1, 2])
    splits = LinkSplits.given(graph, pairs[::-1, :4], split)
    np.testing.assert_array_equal(splits.val, pairs[::-1, 2:3])
    assert splits.messages("train").num_edges == graph.num_edges - 4
    assert splits.messages("train", "val").num_edges == graph.num_edges - 2
    assert splits.num_absent(splits.graph) == 0
    absent = LinkSplits.given(graph, np.array([[0, 0, 1, 2], [1, 8, 9, 10]]), split)
    assert absent.num_absent(absent.graph) == 1  # 0 -> 1


def test_random_splits_of_pairs_keep_both_directions_together():
    graph, pairs, _ = pairs_in_time()
    both = np.concatenate([pairs, pairs[::-1]], axis=1)
    splits = LinkSplits.random(graph, (0.5, 0.25, 0.25), 1, both)
    for name in SPLITS:
        own = {tuple(pair) for pair in splits.links(name).T}
        assert own == {(v, u) for u, v in own}
    assert splits.val.shape[1] == 20


@pytest.mark.parametrize(
    ("pairs", "split", "words"),
    [
        ([[0, 8, 1], [8, 0, 9]], [0, 2, 1], "is in the splits 'train' and 'test'"),
        ([[0, 1], [8, 9]], [0, 2], "the val split has no links"),
        ([[0, 1], [8, 99]], [0, 1], "label_edges holds 99"),
    ],
)
def test_bad_pairs_get_one_sentence(pairs, split, words):
    with pytest.raises(InputError, match=words):
        LinkSplits.given(pairs_in_time()[0], np.array(pairs), np.array(split))


def test_edges_of_the_time_at_which_a_split_begins_are_in_it():
    pairs, time = np.array([[0, 1, 2, 3], [1, 2, 3, 0]]), np.array([1, 2, 3, 4])
    graph = Graph.from_edge_index(pairs, 4, time=time)
    splits = LinkSplits.by_time(graph, pairs, time, (0.5, 0.25, 0.25))
    is_edge = splits.split >= 0  # no self-loop
    pairs_of_time = zip(graph.time[is_edge].tolist(), splits.split[is_edge].tolist(), strict=True)
    assert dict(pairs_of_time) == {1: 0, 2: 0, 3: 1, 4: 2}
