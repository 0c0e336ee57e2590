"""A person's own tables: names as ids, names of classes, numbers to predict, and what was done."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
import torch

from bliss import Graph, InputError
from bliss.data import describe, import_graph, load_dataset, save_dataset, summary_rows
from bliss.data.summary import reciprocal_share
from tests.data.files import write

NODES = """id,age,height,team
zoé,30,1.7,red
bob,41,1.8,blue
0012,22,1.6,red
eve,35,1.75,
"""
EDGES = """follower,source,target,since
a,bob,zoé,2019-01-01
b,zoé,eve,2019-05-07
c,0012,bob,2020-01-01
d,0012,bob,2020-01-02
e,eve,eve,2021-01-01
"""


@pytest.fixture()
def tables(tmp_path):
    (tmp_path / "edges.csv.gz").write_bytes(gzip.compress(EDGES.encode()))
    nodes = write(tmp_path, "nodes.csv", NODES)
    return {
        "edges": tmp_path / "edges.csv.gz",
        "features": nodes,
        "labels": nodes,
        "label": "team",
        "splits": {"train": ["zoé", "bob"], "test": ["0012"]},
    }


def edges_of(graph: Graph) -> set[tuple[int, int]]:
    targets = np.repeat(np.arange(graph.num_nodes), graph.degree)
    return {(s, t) for s, t in zip(graph.indices.tolist(), targets.tolist(), strict=True) if s != t}


def test_names_classes_and_features_of_one_table_become_a_dataset(tmp_path, tables):
    dataset = load_dataset(import_graph(tmp_path / "store", **tables))
    assert dataset.node_names.tolist() == ["zoé", "bob", "0012", "eve"]
    assert [dataset.node_names[node] for node in (0, 2, -1)] == ["zoé", "0012", "eve"]
    assert edges_of(dataset.graph) == {(1, 0), (0, 3), (2, 1)}
    assert dataset.x[:, 0].tolist() == [30, 41, 22, 35]
    assert dataset.class_names == ("blue", "red")
    assert dataset.y.tolist() == [1, 0, 1, -1]
    assert dataset.splits["train"].tolist() == [0, 1]
    assert dataset.splits["test"].tolist() == [2]


def test_the_summary_says_what_was_done_and_stays_in_the_store(tmp_path, tables):
    folder = import_graph(tmp_path / "store", **tables)
    found = describe(load_dataset(folder))
    assert found["import"] | {"notes": []} == {
        "edges_read": 5,
        "undirected": False,
        "duplicates_merged": 1,
        "self_loops_read": 1,
        "self_loops_added": 3,
        "reciprocal": 0.0,
        "notes": [],
    }
    shown = dict(summary_rows(found))
    assert shown["nodes"] == "4, with ids such as 'zoé'"
    assert shown["duplicates merged"] == "1"
    assert shown["self-loops"] == "one per node: 3 added, 1 read"
    assert shown["direction"].startswith("one way: 0.0% of the edges have their reverse; import")
    assert shown["classes"] == "2 (blue: 1, red: 2)"
    assert shown["note"] == "Columns of the edges that are not used: follower, since."
    json.dumps(found)


def test_undirected_adds_the_reverse_of_each_edge(tmp_path, tables):
    dataset = load_dataset(import_graph(tmp_path / "store", **tables, directed=False))
    there = {(1, 0), (0, 3), (2, 1)}
    assert edges_of(dataset.graph) == there | {(t, s) for s, t in there}
    shown = dict(summary_rows(describe(dataset)))
    assert shown["direction"] == "both ways: the reverse of each edge was added"
    assert shown["duplicates merged"] == "1, edges and their reverse counted as one"


def test_rows_in_any_order_and_of_any_form_give_the_same_dataset(tmp_path, tables):
    plain = load_dataset(import_graph(tmp_path / "a", **tables))
    parquet = {
        "edges": write(
            tmp_path, "e.parquet", {"dst": ["zoé", "eve", "bob"], "src": ["bob", "zoé", "0012"]}
        ),
        "features": write(
            tmp_path,
            "f.parquet",
            {"id": ["zoé", "bob", "0012", "eve"], "x": plain.x.tolist()},
        ),
        "labels": write(tmp_path, "l.csv", "node,team\n0012,red\nbob,blue\nzoé,red\n"),
        "splits": {
            "train": write(tmp_path, "train.csv", "bob\nzoé\n"),
            "test": write(tmp_path, "test.parquet", {"id": ["0012"]}),
        },
    }
    other = load_dataset(import_graph(tmp_path / "b", **parquet))
    for one, two in ((plain.x, other.x), (plain.y, other.y)):
        assert torch.equal(one, two)
    assert edges_of(plain.graph) == edges_of(other.graph)
    assert plain.node_names.tolist() == other.node_names.tolist()
    assert {k: v.tolist() for k, v in plain.splits.items()} == {
        k: v.tolist() for k, v in other.splits.items()
    }


def test_large_whole_numbers_are_names_and_stay_numbers(tmp_path):
    big = 2**60 + 1
    dataset = load_dataset(
        import_graph(
            tmp_path / "store",
            edges=write(tmp_path, "e.csv", f"src,dst\n{big},17\n17,-4\n"),
            features=write(tmp_path, "x.csv", f"node_id,a\n17,1\n{big},2\n-4,3\n"),
            splits={"train": [big, 17]},
        )
    )
    assert dataset.node_names.tolist() == [17, big, -4]
    assert edges_of(dataset.graph) == {(1, 0), (0, 2)}
    assert dataset.splits["train"].tolist() == [0, 1]


def test_ids_from_0_in_order_need_no_names(tmp_path, good):
    table = "id,a\n" + "".join(f"{node},1\n" for node in range(5))
    changed = good | {"features": write(tmp_path, "x.csv", table)}
    assert load_dataset(import_graph(tmp_path / "store", **changed)).node_names is None


PANDAS = {
    "an index": (",a,b\n0,1.5,2\n1,2.5,3\n2,0.5,1\n", "counts the rows and is not used"),
    "an index of names": (",a,b\nx,1.5,2\ny,2.5,3\nz,0.5,1\n", ""),
    "no index, columns without names": ("0,1,2\n1.5,2,9\n2.5,3,9\n0.5,1,9\n", ""),
}


@pytest.mark.parametrize("form", PANDAS)
def test_features_as_pandas_writes_them(tmp_path, form):
    text, note = PANDAS[form]
    ids = "xyz" if "index of names" in form else "012"
    edges = f"src,dst\n{ids[0]},{ids[1]}\n{ids[1]},{ids[2]}\n"
    store = import_graph(
        tmp_path / "store",
        edges=write(tmp_path, "e.csv", edges),
        features=write(tmp_path, "x.csv", text),
        splits=(1, 0, 0),
    )
    dataset = load_dataset(store)
    assert dataset.x[:, 0].tolist() == [1.5, 2.5, 0.5]
    assert dataset.num_features == (3 if "no index" in form else 2)
    notes = dataset.imported["notes"]
    assert any(note in one for one in notes) if note else notes == []
    assert (dataset.node_names is not None) == (ids == "xyz")


def test_edges_with_an_index_of_pandas(tmp_path, good):
    edges = write(tmp_path, "e.csv", ",u,v\n0,0,1\n1,1,2\n2,2,0\n")
    dataset = load_dataset(import_graph(tmp_path / "store", **good | {"edges": edges}))
    assert edges_of(dataset.graph) == {(0, 1), (1, 2), (2, 0)}


def test_gaps_in_class_ids_are_closed_and_told(tmp_path, good):
    changed = good | {"labels": write(tmp_path, "y.npy", np.array([0, 7, 1, -1, 7]))}
    dataset = load_dataset(import_graph(tmp_path / "store", **changed))
    assert dataset.num_classes == 3
    assert dataset.y.tolist() == [0, 2, 1, -1, 2]
    assert dataset.class_names == ("0", "1", "7")
    assert "(0, 1, 7) leave gaps" in dataset.imported["notes"][0]


def test_fractions_are_targets_of_a_regression(tmp_path, good):
    targets = write(tmp_path, "y.csv", "node,income\n0,1.5\n1,2.5\n2,-3\n4,0.25\n")
    dataset = load_dataset(import_graph(tmp_path / "store", **good | {"labels": targets}))
    assert dataset.task == "regression"
    assert (dataset.num_classes, dataset.num_outputs) == (0, 1)
    assert dataset.y[:3, 0].tolist() == [1.5, 2.5, -3]
    assert dataset.y[3].isnan().all()
    assert dict(summary_rows(describe(dataset)))["targets"].startswith("income: mean 0.3125")


def test_several_targets_and_whole_numbers_need_the_task(tmp_path, good):
    targets = np.arange(10.0).reshape(5, 2)
    changed = good | {"labels": write(tmp_path, "y.npy", targets)}
    with pytest.raises(InputError, match=r"task='regression'"):
        import_graph(tmp_path / "store", **changed)
    dataset = load_dataset(import_graph(tmp_path / "store", **changed, task="regression"))
    assert dataset.y.tolist() == targets.tolist()
    classes = good | {"labels": write(tmp_path, "z.npy", np.array([0.0, 1, 1, np.nan, 0]))}
    dataset = load_dataset(import_graph(tmp_path / "classes", **classes, task="classes"))
    assert dataset.y.tolist() == [0, 1, 1, -1, 0]


def test_a_dataset_is_saved_with_everything(tmp_path, tables):
    first = load_dataset(import_graph(tmp_path / "a", **tables))
    again = load_dataset(save_dataset(first, tmp_path / "b"))
    assert describe(first) == describe(again)
    assert first.class_names == again.class_names
    assert first.node_names.tolist() == again.node_names.tolist()


def test_a_name_that_would_move_the_cursor_is_shown_as_an_escape(tmp_path):
    wild = "\x1b[2Jx"
    with pytest.raises(InputError) as caught:
        import_graph(
            tmp_path / "store",
            edges=write(tmp_path, "e.csv", f"src,dst\n{wild},b\n"),
            features=write(tmp_path, "x.csv", "id,a\na,1\nb,2\n"),
        )
    assert "\x1b" not in str(caught.value)


DAMAGES = {
    "text that is no UTF-8": ("names.npy", np.full(13, 255, np.uint8), "cannot be read as names"),
    "ends that fall": ("name_ends.npy", np.array([4, 2, 11, 14]), "cannot be read as names"),
    "too few names": ("name_ends.npy", np.array([14]), "1 names for 4 nodes"),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_damaged_names_get_one_sentence(tmp_path, tables, case):
    from tests.data.test_bad_files import rewrite

    file, content, message = DAMAGES[case]
    folder = import_graph(tmp_path / "store", **tables)
    content = content[:1].repeat(np.load(folder / file).size) if "UTF-8" in case else content
    np.save(folder / file, content)
    rewrite(folder, files=("names", "name_ends"))
    with pytest.raises(InputError, match=message) as caught:
        load_dataset(folder)
    assert "\n" not in str(caught.value)


def test_a_summary_counts_reciprocal_edges_and_leaves_the_graph_as_it_is():
    source, target = [2, 1, 0, 2, 3], [0, 0, 1, 0, 2]  # 2 -> 0 twice; 0 <-> 1
    graph = Graph.from_edge_index(np.array([source, target]), 4)
    before = graph.indices.copy()
    assert reciprocal_share(graph) == 2 / 4
    np.testing.assert_array_equal(graph.indices, before)


def test_whole_numbers_that_are_missing_in_a_regression_are_unknown(tmp_path, good):
    changed = good | {"labels": write(tmp_path, "y.csv", "node,age\n0,30\n1,35\n2,40\n4,50\n")}
    dataset = load_dataset(import_graph(tmp_path / "store", **changed, task="regression"))
    assert dataset.y[[0, 1, 2, 4], 0].tolist() == [30, 35, 40, 50]
    assert dataset.y[3].isnan().all()  # not listed
    changed = good | {"labels": write(tmp_path, "z.csv", "node,age\n0,30\n1,\n2,40\n4,50\n")}
    with pytest.raises(InputError, match=r"node 1 of splits\['val'\] has no target"):
        import_graph(tmp_path / "other", **changed, task="regression")


def test_targets_of_the_same_name_are_refused(tmp_path, good):
    targets = write(tmp_path, "y.csv", "node,age,age\n0,1.5,2\n1,2.5,1\n")
    with pytest.raises(InputError, match="age"):
        import_graph(tmp_path / "store", **good | {"labels": targets}, task="regression")


def test_a_hash_inside_a_name_is_no_comment(tmp_path, good):
    text = "node,team # of a node\n0,Team #1\n1,Team #2\n2,C1#a # here\n# a comment\n4,C\n"
    with pytest.raises(InputError):  # the header's comment would be part of a name
        import_graph(
            tmp_path / "no", **good | {"labels": write(tmp_path, "x.csv", text)}, label="t"
        )
    labels = write(tmp_path, "y.csv", text.replace(" # of a node", "").replace(" # here", ""))
    dataset = load_dataset(import_graph(tmp_path / "store", **good | {"labels": labels}))
    assert dataset.class_names == ("C", "C1#a", "Team #1", "Team #2")
