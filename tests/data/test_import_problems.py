"""Imports with columns of any name and several files, previews, and all problems at once."""

from __future__ import annotations

import re

import numpy as np
import pytest

from bliss import InputError
from bliss.data import (
    FeatureEncoder,
    ImportProblems,
    import_graph,
    open_store,
    preview_import,
    size_words,
)
from tests.data.files import write

NODES = "age,who,kind\n30,ann,a\n41,bob,b\n22,cid,a\n35,dan,b\n"
COLUMNS = {
    "id_column": "who",
    "source_column": "payer",
    "target_column": "payee",
    "weight_column": "amount",
}


@pytest.fixture
def given(tmp_path):
    nodes = write(tmp_path, "nodes.csv", NODES)
    return {
        "edges": [
            write(tmp_path, "e1.csv", "payer,payee,amount,day\nann,bob,10,1\nbob,cid,30,2\n"),
            write(tmp_path, "e2.csv", "amount,payee,payer\n50,dan,cid\n20,bob,ann\n"),
        ],
        "features": nodes,
        "labels": nodes,
        "label": "kind",
        "splits": (0.5, 0.25, 0.25),
        **COLUMNS,
    }


def test_columns_of_any_name_in_several_files(tmp_path, given):
    dataset = open_store(import_graph(tmp_path / "store", **given))
    graph = dataset.graph
    assert dataset.node_names.tolist() == ["ann", "bob", "cid", "dan"]
    assert dataset.encoder.feature_names == ["age"]
    assert dataset.class_names == ("a", "b")
    assert size_words(graph) == "4 nodes, 3 edges and 4 self-loops"
    row = slice(graph.indptr[1], graph.indptr[2])
    assert graph.indices[row].tolist() == [0, 1]
    assert graph.weight[row].tolist() == [30, 30]  # 10 + 20, and the mean of the others
    assert graph.norm == "weighted-mean"
    raw = import_graph(tmp_path / "raw", **given, norm="weights")
    assert open_store(raw).graph.weight[row].tolist() == [30, 1]


def test_a_preview_says_what_an_import_would_do_and_writes_nothing(tmp_path, given):
    before = sorted(tmp_path.iterdir())
    preview = preview_import(**given)
    assert sorted(tmp_path.iterdir()) == before
    assert preview["edges"] == 3
    assert preview["self_loops"] == 4
    assert preview["import"]["edges_read"] == 4
    assert preview["import"]["notes"] == ["Columns of the edges that are not used: day."]


def test_all_problems_of_all_files_are_named_worst_first(tmp_path, given):
    bad = given | {
        "edges": [
            write(tmp_path, "b1.csv", "payer,payee,amount\nann,eve,10\nbob,cid,-1\n"),
            write(tmp_path, "b2.csv", "from,to,amount\ncid,dan,5\n"),
        ],
        "label": "sort",
        "features": write(tmp_path, "b.csv", NODES.replace("22", "inf")),
    }
    with pytest.raises(ImportProblems) as caught:
        import_graph(tmp_path / "store", **bad)
    wanted = [
        "source_column='payer' must name one column of edges='.*b2.csv', which has from, to",
        "label='sort' must name one column of labels=.*nodes.csv",
        "b1.csv: edges names 1 nodes that the features do not have, such as 'eve'",
        r"b1.csv: weight\[1\] is -1.0, but weights must not be negative",
        r"features\[2, 0\] is inf",
    ]
    for problem, message in zip(caught.value.problems, wanted, strict=True):
        assert re.search(message, problem)
    assert str(caught.value).startswith("5 problems: (1) source_column")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "store").exists()


def test_ids_that_occur_twice_hide_no_other_problem(tmp_path, given):
    twice = NODES.replace("bob", "ann")
    bad = given | {
        "edges": [
            write(tmp_path, "b1.csv", "payer,payee,amount\nann,eve,10\n"),
            write(tmp_path, "b2.csv", "payer,payee,amount\ncid,dan,5\ncid,ann,five\n"),
        ],
        "features": write(tmp_path, "b.csv", twice.replace("22", "inf")),
        "label": "sort",
    }
    with pytest.raises(ImportProblems) as caught:
        import_graph(tmp_path / "store", **bad)
    wanted = [
        "features has the id 'ann' more than once",
        "label='sort' must name one column",
        "b1.csv: edges names 1 nodes that the features do not have, such as 'eve'",
        r"b2.csv: edges has column 'amount' of type string \(row 1: 'five'\), but must hold numb",
        r"features\[2, 0\] is inf",
    ]
    for problem, message in zip(caught.value.problems, wanted, strict=True):
        assert re.search(message, problem)


def test_one_problem_is_one_sentence(tmp_path, given):
    with pytest.raises(InputError, match=r"^label='sort' must name one column") as caught:
        import_graph(tmp_path / "store", **given | {"label": "sort"})
    assert not isinstance(caught.value, ImportProblems)


def test_some_files_with_weights_are_refused(tmp_path, given):
    plain = write(tmp_path, "plain.csv", "src,dst\nann,bob\n")
    heavy = write(tmp_path, "heavy.csv", "src,dst,weight\nann,bob,2\n")
    options = {"source_column": "", "target_column": "", "weight_column": ""}
    with pytest.raises(InputError, match=r"heavy.csv' has weights, but .*plain.csv' has none"):
        import_graph(tmp_path / "s", **given | options | {"edges": [plain, heavy]})


def test_names_of_columns_need_tables(tmp_path, given):
    array = write(tmp_path, "x.npy", [[1.0], [2.0]])
    with pytest.raises(InputError, match="id_column='who' names columns, but features="):
        import_graph(tmp_path / "s", **given | {"features": array, "labels": None, "label": ""})
    with pytest.raises(InputError, match="id_column='whom' must name one column of features="):
        import_graph(tmp_path / "s", **given | {"id_column": "whom"})
    with pytest.raises(InputError, match="id_column was given beside graph="):
        import_graph(tmp_path / "s", graph=array, id_column="who")


def test_rows_of_weight_zero_are_told(tmp_path, given):
    zero = write(tmp_path, "zero.csv", "payer,payee,amount\nann,bob,0\nbob,cid,3\n")
    dataset = open_store(import_graph(tmp_path / "s", **given | {"edges": zero}))
    assert dataset.imported["notes"] == [
        "Nodes whose in-edges all have weight 0, so that they see only themselves: 1."
    ]
    assert dataset.graph.edge_weight.tolist() == [1, 0, 1, 0.5, 0.5, 1]


def test_a_feature_that_may_be_the_label_is_noted(tmp_path, given):
    labels = write(tmp_path, "y.csv", "who,team\nann,a\nbob,b\ncid,b\ndan,a\n")
    dataset = open_store(import_graph(tmp_path / "s", **given | {"labels": labels, "label": ""}))
    assert dataset.imported["notes"][-1].startswith("Column kind has the categories of the labels")


def test_reprs_fit_on_a_line(tmp_path, given):
    dataset = open_store(import_graph(tmp_path / "store", **given))
    counts = "nodes=4, edges=3, self_loops=4, norm='weighted-mean'"
    assert repr(dataset.graph) == f"Graph({counts})"
    sizes = "features=1, classes=2, train=2, val=1, test=1"
    assert repr(dataset) == f"Dataset('store', {counts}, {sizes})"
    assert repr(dataset.node_names) == "NodeNames(4, such as 'ann')"
    assert repr(dataset.encoder) == "TableEncoder(columns=1, features=1)"
    encoder = FeatureEncoder.fit("auto", dataset.x, dataset.splits["train"])
    assert repr(encoder) == "FeatureEncoder('standard', 1 of 1 columns)"
    rows = dataset.graph.rows(np.arange(2), without=[0])
    assert repr(rows) == "Rows(targets=2, groups=2, edges=2, norm='weighted-mean')"
    assert repr(rows.hidden) == "HiddenEdges(edges=1, targets=1)"
