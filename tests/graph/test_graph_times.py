"""Times of a graph: rows are sorted by them, and a graph at a time has what was there."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from bliss import Graph, InputError
from bliss.graph import Cutoff
from bliss.kernels.times import ALWAYS

PAIRS, TIME = np.array([[1, 2, 0, 2, 1], [0, 0, 1, 0, 0]]), np.array([7, 3, 5, 9, 3])


def test_rows_are_sorted_by_time_and_loops_are_always_there():
    graph = Graph.from_edge_index(PAIRS, 3, time=TIME, edge_ids=True)
    assert graph.indices.tolist() == [0, 1, 2, 1, 2, 1, 0, 2]
    assert graph.time.tolist() == [ALWAYS, 3, 3, 7, 9, ALWAYS, 5, ALWAYS]
    assert graph.edge_id.tolist() == [-1, 4, 1, 0, 3, -1, 2, -1]
    assert repr(graph) == "Graph(nodes=3, edges=5, self_loops=3, norm='mean', times=True)"
    old = graph.at(5)
    assert old.indices.tolist() == [0, 1, 2, 1, 0, 2] and not old.has_times
    assert graph.at(5, strict=True).num_edges == 5
    for other in (copy.copy(graph), pickle.loads(pickle.dumps(graph)), graph.with_norm("gcn")):
        np.testing.assert_array_equal(other.time, graph.time)
        assert not other.time.flags.writeable


def test_rows_before_a_time():
    graph = Graph.from_edge_index(PAIRS, 3, self_loops="keep", time=TIME)
    rows = graph.rows(np.array([0, 0, 1, 0]), before=[4, 10, 5, 3])
    assert rows.degree.tolist() == [2, 4, 0, 0]
    np.testing.assert_allclose(rows.target_scale, [1 / 2, 1 / 4, 0, 0])
    window = graph.rows(np.array([0, 0]), before=[10, 4], after=[4, 3])
    assert window.degree.tolist() == [2, 2]
    assert window.last(1).edges()[1].tolist() == [3, 1]
    hidden = graph.rows(np.array([0, 0]), without=[0, 3], before=[10, 4])
    assert hidden.edges()[1].tolist() == [1, 2, 1]
    assert hidden.last(1).edges()[1].tolist() == [2, 1]


def test_a_window_as_long_as_time_itself():
    times = np.array([-(2**63) + 5, 0, 2**62])
    cutoff = Cutoff.of(times, window=2**63 - 1)
    assert cutoff.after.tolist() == [ALWAYS + 1, ALWAYS + 2, 2**62 + 1 - (2**63 - 1)]


def test_the_latest_of_cutoffs_sees_what_any_of_them_sees():
    latest = Cutoff.of(np.array([5, 9, 2]), window=3).latest
    assert (latest.before.tolist(), latest.after.tolist()) == ([10], [0])


BAD = {
    "floats": (TIME.astype(float), "time is float64 .*convert it to int64"),
    "too few": (TIME[:3], r"time is int64 of shape \(3,\), but times must be one per edge, \[5\]"),
    "too large": (np.full(5, 2**63, np.uint64), "exceeds int64"),
    "dates": (TIME.astype("datetime64[s]"), "seconds since 1970"),
}


@pytest.mark.parametrize(("time", "message"), BAD.values(), ids=BAD)
def test_bad_times_are_refused(time, message):
    with pytest.raises(InputError, match=message):
        Graph.from_edge_index(PAIRS, 3, time=time)


def test_what_would_mix_times_is_refused():
    with pytest.raises(InputError, match=r"time decreases within the in-edges of node 0"):
        Graph([0, 2], [0, 0], time=np.array([2, 1]))
    with pytest.raises(InputError, match="would merge edges of different times"):
        Graph.from_edge_index(PAIRS, 3, time=TIME, duplicates="coalesce")
    with pytest.raises(InputError, match="mean weight of edges of any time"):
        Graph.from_edge_index(PAIRS, 3, np.ones(5), norm="weighted-mean", time=TIME)
    data = Data(edge_index=torch.from_numpy(PAIRS), num_nodes=3)
    with pytest.raises(InputError, match=r"data has no attribute 'time': set data.time"):
        Graph.of(data, time_attr="time")
    data.edge_index, data.time = data.edge_index[:, :3], torch.tensor([4, 5, 6])
    with pytest.raises(InputError, match="as many edges as nodes: rename it to edge_time or node"):
        Graph.of(data, time_attr="time")
    data.edge_time = data.node_time = data.time
    for name, times in ("edge_time", [4, 5, 6]), ("node_time", [5, 6, 4]):  # 1, 2 -> 0 and 0 -> 1
        assert Graph.of(data, time_attr=name).time.tolist() == times
    with pytest.raises(InputError, match=r"pass Graph.from_edge_index\(edge_index, time="):
        Graph.of(PAIRS, time_attr="time")
    with pytest.raises(InputError, match="there are 2 times for 1 targets"):
        Graph.from_edge_index(PAIRS, 3, time=TIME).rows(
            np.array([0]), before=Cutoff.of(np.array([1, 2]))
        )
