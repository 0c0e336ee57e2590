"""Times of an import: columns of numbers and dates, stores that keep them, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from bliss import InputError
from bliss.data import Dataset, describe, import_graph, open_store, save_dataset
from bliss.data.timestamps import DATE, NUMBER, parse_time, time_text
from bliss.kernels.times import ALWAYS

DAY = 86_400_000_000  # microseconds


def imported(tmp_path, text: str, **options):
    (tmp_path / "edges.csv").write_text(text)
    options = {"time_column": "when", "num_nodes": 3} | options
    place = tmp_path / f"store{len(list(tmp_path.iterdir()))}"
    return open_store(import_graph(place, edges=tmp_path / "edges.csv", **options))


def times(dataset: Dataset) -> list[int]:
    own = dataset.graph.time
    return sorted(own[own != ALWAYS].tolist())


NUMBERS = "src,dst,when\n0,1,30\n0,1,10\n2,1,20\n1,0,-5\n"


def test_numbers_stay_as_they_are_and_parallel_edges_are_events(tmp_path):
    dataset = imported(tmp_path, NUMBERS)
    graph = dataset.graph
    assert graph.indices[graph.indptr[1] : graph.indptr[2]].tolist() == [1, 0, 2, 0]
    assert graph.time[graph.indptr[1] : graph.indptr[2]].tolist() == [ALWAYS, 10, 20, 30]
    assert dataset.time_unit == NUMBER
    assert describe(dataset)["times"] == {"times of edges": "-5 to 30"}
    both = imported(tmp_path, NUMBERS, directed=False)
    assert times(both) == [-5, -5, 10, 10, 20, 20, 30, 30]  # the reverse has the same time
    copied = open_store(save_dataset(both, tmp_path / "copy"))
    np.testing.assert_array_equal(copied.graph.time, both.graph.time)
    assert (copied.time_unit, copied.fingerprint != dataset.fingerprint) == (NUMBER, True)


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (("1970-01-02", "1970-01-03"), [DAY, 2 * DAY]),
        (("1970-01-02T00:00:00Z", "1970-01-02T02:00:00+02:00"), [DAY, DAY]),
        (("1970-01-02 00:00:00", "1970-01-02 00:00:00.000001"), [DAY, DAY + 1]),
        (("5.0", "7.0"), [5, 7]),
    ],
)
def test_dates_and_zones_become_microseconds_in_utc(tmp_path, written, wanted):
    dataset = imported(tmp_path, f"src,dst,when\n0,1,{written[0]}\n1,2,{written[1]}\n")
    assert times(dataset) == wanted
    assert dataset.time_unit == (NUMBER if wanted[0] < 10 else DATE)


def test_dates_in_parquet_and_arrays(tmp_path):
    import pyarrow
    import pyarrow.parquet

    moments = pyarrow.array([0, DAY], pyarrow.timestamp("us", "Europe/Berlin"))
    table = pyarrow.table({"note": ["a", "b"], "src": [0, 1], "when": moments, "dst": [1, 2]})
    pyarrow.parquet.write_table(table, tmp_path / "edges.parquet")
    options = {"time_column": "when", "num_nodes": 3}
    edges = import_graph(tmp_path / "a", edges=tmp_path / "edges.parquet", **options)
    assert times(open_store(edges)) == [0, DAY]
    arrays = {"user": [0, 1], "item": [1, 2], "when": np.array([4, 3])}
    np.savez(tmp_path / "edges.npz", **arrays)
    ends = {"source_column": "user", "target_column": "item"}
    edges = import_graph(tmp_path / "b", edges=tmp_path / "edges.npz", **options, **ends)
    assert times(open_store(edges)) == [3, 4]


BAD = {
    "fractions": ("0,1,1.5", "with fractions such as 1.5.*: multiply them"),
    "missing": ("0,1,", "without a time in row 1: fill it"),
    "words": ("0,1,soon", "holds 'soon' in row 1.*: convert it"),
    "zones": ("0,1,2020-01-01T00:00:00+01:00", "some have a time zone and others"),
    "mixed": ("0,1,7", "holds '7' in row 1|numbers and dates|some have a time zone"),
}


@pytest.mark.parametrize(("row", "message"), BAD.values(), ids=BAD)
def test_wrong_times_get_one_sentence(tmp_path, row, message):
    first = "1" if "1.5" in row else "2020-01-01T00:00:00"
    with pytest.raises(InputError, match=message) as caught:
        imported(tmp_path, f"src,dst,when\n1,2,{first}\n{row}\n")
    assert str(caught.value).count("\n") == 0
    assert not list(tmp_path.glob("store*"))


def test_what_cannot_be_combined_is_refused(tmp_path):
    for text, options, message in (
        (NUMBERS, {"time_column": "then"}, "time_column='then' must name one column"),
        ("src,dst,weight,when\n0,1,2,3\n", {}, "norm='weighted-mean' gives self-loops the mean"),
        (NUMBERS, {"memory": 2**20, "num_nodes": 3, "edges_again": 4000}, "raise memory"),
    ):
        options = dict(options)
        if more := options.pop("edges_again", 0):
            text += "0,1,7\n" * 4 * more
        with pytest.raises(InputError, match=message):
            imported(tmp_path, text, **options)
    weighted = imported(tmp_path, "src,dst,weight,when\n0,1,2,3\n", norm="weights")
    assert weighted.graph.norm == "weights" and times(weighted) == [3]
    (tmp_path / "links.csv").write_text("src,dst,time\n0,1,2020-01-01\n")
    with pytest.raises(InputError, match="times are numbers and dates"):
        imported(tmp_path, NUMBERS, label_edges=tmp_path / "links.csv")


def test_nodes_have_times_and_edges_are_as_old_as_their_sources(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,size,born\na,1,5\nb,2,7\nc,3,6\n")
    text = "src,dst\na,b\nb,c\nc,a\n"
    options = {"features": tmp_path / "nodes.csv", "node_time_column": "born"}
    dataset = imported(tmp_path, text, **options, time_column="", num_nodes=None)
    assert dataset.node_time.tolist() == [5, 7, 6]
    assert dataset.num_features == 1  # a time is no feature
    assert times(dataset) == [5, 6, 7]
    assert open_store(save_dataset(dataset, tmp_path / "copy")).node_time.tolist() == [5, 7, 6]
    options |= {"time_column": "", "num_nodes": None, "directed": False}
    both = imported(tmp_path, text, **options).graph  # reverse edges are as old as their sources
    of_source = dataset.node_time[both.indices]
    loops = both.indices == np.repeat(np.arange(3), both.degree)
    np.testing.assert_array_equal(both.time[~loops], of_source[~loops])
    data = Data(x=torch.zeros(3, 1), edge_index=torch.tensor([[0, 1], [1, 2]]))
    data.born = torch.tensor([5, 7, 6])
    found = Dataset.from_data(data, time_attr="born", undirected=True).graph
    assert sorted(found.time[found.time > 0].tolist()) == [5, 6, 7, 7]


@pytest.mark.parametrize("of", ["edges", "nodes"])
def test_a_pyg_data_brings_its_times(tmp_path, of):
    pairs = torch.tensor([[0, 1, 2], [1, 2, 0]])
    time = torch.tensor([4, 3, 9, 1][: 3 if of == "edges" else 4])
    x = torch.arange(4.0)[:, None] if of == "nodes" else torch.arange(5.0)[:, None]
    data = Data(x=x, edge_index=pairs, time=time)
    torch.save(data, tmp_path / "data.pt")
    dataset = Dataset.from_data(data, time_attr="time")
    assert times(dataset) == [3, 4, 9]
    assert (dataset.node_time is None) == (of == "edges")
    place = import_graph(tmp_path / "store", graph=tmp_path / "data.pt", time_column="time")
    assert times(open_store(place)) == [3, 4, 9]
    assert (open_store(place).node_time is None) == (of == "edges")


def test_an_unsorted_store_is_refused(tmp_path):
    place = import_graph(
        tmp_path / "store", edges=_file(tmp_path, NUMBERS), time_column="when", num_nodes=3
    )
    (place / "graph.json").unlink()
    np.save(place / "time.npy", np.load(place / "time.npy")[::-1])
    from bliss.data import open_graph

    with pytest.raises(InputError, match="time decreases within the in-edges of node"):
        open_graph(place)
    np.save(place / "time.npy", np.zeros(7))
    with pytest.raises(InputError, match=r"time\.npy has type float64, but must be int64"):
        open_graph(place)


def _file(tmp_path, text):
    (tmp_path / "edges.csv").write_text(text)
    return tmp_path / "edges.csv"


def test_times_as_text():
    assert parse_time("at", "1970-01-02", DATE) == DAY
    assert parse_time("at", "1970-01-02T02:00+02:00", DATE) == DAY
    assert (time_text(DAY, DATE), time_text(DAY + 5 * 10**6, DATE)) == (
        "1970-01-02",
        "1970-01-02T00:00:05Z",
    )
    assert (parse_time("at", "12", NUMBER), time_text(12, NUMBER)) == (12, "12")
    for text, unit in (("soon", DATE), ("2020-01-01", NUMBER), ("1.5", NUMBER)):
        with pytest.raises(InputError, match=f"at='{text}' must be a"):
            parse_time("at", text, unit)
