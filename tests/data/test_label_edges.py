"""Links of an import: from tables, in a store, and with the mistakes that users make."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from bliss import InputError
from bliss.cli import app
from bliss.data import import_graph, open_store, save_dataset
from bliss.data.label_edges import LabelEdges


@pytest.fixture
def files(tmp_path):
    (tmp_path / "edges.csv").write_text("src,dst\n0,3\n1,4\n2,5\n0,4\n")
    (tmp_path / "one.csv").write_text(
        "src,dst,split,time\n0,3,train,5\n1,4,val,6\n2,5,test,7.5\n0,5,train,1\n"
    )
    for name, row in (("train", "0,3\n0,5"), ("val", "1,4"), ("test", "2,5")):
        (tmp_path / f"{name}.csv").write_text(f"src,dst\n{row}\n")
    return tmp_path


def test_links_with_splits_and_times_stay_with_the_store(files):
    options = {"edges": files / "edges.csv", "num_nodes": 6, "directed": False}
    store = import_graph(files / "one", label_edges=files / "one.csv", **options)
    one = open_store(store)
    assert one.num_features == 0
    assert one.graph.num_nodes == 6
    assert one.label_edges.pairs.tolist() == [[0, 1, 2, 0], [3, 4, 5, 5]]
    assert one.label_edges.split.tolist() == [0, 1, 2, 0]
    assert one.label_edges.time.tolist() == [5, 6, 7.5, 1]
    parts = [files / f"{name}.csv" for name in ("train", "val", "test")]
    three = open_store(import_graph(files / "three", label_edges=parts, **options))
    assert three.label_edges.split.tolist() == [0, 0, 1, 2]
    assert three.label_edges.time is None
    again = open_store(save_dataset(one, files / "again"))
    np.testing.assert_array_equal(again.label_edges.time, one.label_edges.time)
    plain = replace(one, digest="", label_edges=None)
    assert plain.fingerprint != replace(one, digest="").fingerprint


def test_the_command_line_imports_and_trains_on_a_graph_without_features(files):
    runner = CliRunner()
    place = ["--edges", files / "edges.csv", "--label-edges", files / "one.csv", "--undirected"]
    words = ["data", "import", files / "store", *place, "--num-nodes", 6]
    shown = runner.invoke(app, list(map(str, words)))
    assert shown.exit_code == 0, shown.output
    sizes = ["--layers", 1, "--embedding", 4, "--hidden", 4, "--steps", 2, "--batch-size", 2]
    sizes += ["--bipartite", "--candidates", "all", "--hits", 2, "--cutoff", 3, "--budgets", 4]
    words = ["train", "--dataset", files / "store", "--task", "link", "--out", files / "run"]
    shown = runner.invoke(app, list(map(str, [*words, *sizes])))
    assert shown.exit_code == 0, shown.output
    assert "1 of 2 training links are not edges of the graph" in " ".join(shown.output.split())
    assert "recall@3" in shown.output


def test_an_index_of_pandas_is_no_end_of_a_link(files):
    (files / "frame.csv").write_text(",user,item\n0,4,3\n1,5,3\n")
    given = {"edges": files / "edges.csv", "num_nodes": 6, "label_edges": files / "frame.csv"}
    links = open_store(import_graph(files / "out", **given)).label_edges
    assert links.pairs.tolist() == [[4, 5], [3, 3]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("src,dst\n0,9\n", "label_edges"),
        ("src,dst,split\n0,3,valid\n", "has the split 'valid'"),
        ("src,dst,time\n0,3,noon\n", "holds .noon. in row 0, but times must be whole"),
        ("src,to,dst\n0,1,2\n", "one column of sources and one of targets"),
    ],
)
def test_bad_tables_get_one_sentence(files, text, words):
    (files / "bad.csv").write_text(text)
    with pytest.raises(InputError, match=words):
        import_graph(
            files / "out", edges=files / "edges.csv", num_nodes=6, label_edges=files / "bad.csv"
        )
    assert not (files / "out").exists()


def test_missing_files_get_one_sentence(files):
    edges = files / "edges.csv"
    with pytest.raises(InputError, match="or num_nodes"):
        import_graph(files / "out", edges=edges)
    with pytest.raises(InputError, match="one, or three, of train, val and test"):
        import_graph(files / "out", edges=edges, num_nodes=6, label_edges=[edges, edges])
    dataset = open_store(import_graph(files / "fine", edges=edges, num_nodes=6))
    with pytest.raises(InputError, match="give one number per pair"):
        replace(dataset, label_edges=LabelEdges(np.array([[0], [3]]), None, np.arange(2)))
