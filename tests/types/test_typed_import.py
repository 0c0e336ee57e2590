"""Import of tables of several types, and of a HeteroData: the same graph as in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from bliss.data import Dataset, ImportProblems, import_graph, open_store
from bliss.data.sorting import LEAST_MEMORY
from bliss.errors import InputError
from tests.types.graphs import RELATIONS, SIZES, hetero

MASKS = {"train": np.arange(0, 30), "val": np.arange(30, 45), "test": np.arange(45, 60)}


def name(node_type: str, number: int) -> str:
    return f"{node_type[0]}{number:03d}"


def write_tables(folder: Path, data) -> dict:
    """Tables with names as ids, in another order than that of their numbers."""
    for kind, size in SIZES.items():
        rows = [
            f"{name(kind, n)},{','.join(map(str, data[kind].x[n].tolist()))}" for n in range(size)
        ]
        heads = ",".join(["id", *(f"f{c}" for c in range(data[kind].x.size(1)))])
        if kind == "paper":
            rows = [f"{row},c{int(y)}" for row, y in zip(rows, data[kind].y, strict=True)]
            heads += ",label"
        if kind == "venue":
            rows, heads = [name(kind, n) for n in range(size)], "id"
        (folder / f"{kind}.csv").write_text("\n".join([heads, *rows]) + "\n")
    edges = {}
    for source, relation, target in RELATIONS:
        pairs = data[source, relation, target].edge_index.T.tolist()
        lines = [f"{name(source, a)},{name(target, b)}" for a, b in pairs]
        file = folder / f"{relation}.csv"
        file.write_text("\n".join(["src,dst", *lines]) + "\n")
        edges[source, relation, target] = file
    return {
        "nodes": {kind: folder / f"{kind}.csv" for kind in SIZES},
        "edges": edges,
        "labels": folder / "paper.csv",
        "label": "label",
        "splits": {k: [name("paper", n) for n in ids] for k, ids in MASKS.items()},
    }


def assert_same_graph(found: Dataset, wanted: Dataset) -> None:
    assert found.graph.types.edge_types == wanted.graph.types.edge_types
    assert found.graph.types.num_nodes == wanted.graph.types.num_nodes
    for one in ("indptr", "indices", "weight"):
        np.testing.assert_allclose(getattr(found.graph, one), getattr(wanted.graph, one), rtol=1e-6)
    for ours, theirs in zip(found.graph.types.arrays, wanted.graph.types.arrays, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert torch.equal(found.y, wanted.y)
    for split in MASKS:
        assert torch.equal(found.splits[split], wanted.splits[split])


def data_without_reverse(weighted: bool = False):
    data = hetero(weighted=weighted)
    del data["paper", "rev_writes", "author"]
    return data


def test_tables_are_the_graph_that_they_were_written_from(tmp_path):
    data = data_without_reverse()
    given = write_tables(tmp_path, data)
    kinds = {"author": "float16"}
    import_graph(tmp_path / "store", **given, feature_type=kinds, memory=LEAST_MEMORY)
    found = open_store(tmp_path / "store")
    assert_same_graph(found, Dataset.from_data(data, splits=MASKS, undirected=True))
    assert found.typed.node_type == "paper"
    assert found.typed.widths == {"author": 4, "paper": 6, "venue": 0}
    assert found.typed.x["author"].dtype == torch.float16
    torch.testing.assert_close(found.typed.x["paper"], data["paper"].x)
    assert found.typed.names["venue"][4] == "v004"
    assert found.typed.encoders["author"].feature_names == ["f0", "f1", "f2", "f3"]
    assert found.imported["edges_read"] == sum(RELATIONS.values())


def test_another_table_is_encoded_like_that_of_a_store(tmp_path):
    given = write_tables(tmp_path, data_without_reverse())
    import_graph(tmp_path / "one", **given)
    chosen = given | {"feature_columns": ["author.f1"]}
    import_graph(tmp_path / "two", **chosen, like=tmp_path / "one")
    first, second = (open_store(tmp_path / one).typed for one in ("one", "two"))
    assert torch.equal(first.x["author"], second.x["author"])
    import_graph(tmp_path / "three", **chosen, reverse=False)
    third = open_store(tmp_path / "three")
    assert third.typed.widths == {"author": 1, "paper": 6, "venue": 0}
    assert len(third.graph.types.edge_types) == len(RELATIONS)


def test_a_saved_heterodata_is_imported_with_its_weights(tmp_path):
    data = data_without_reverse(weighted=True)
    for split, ids in MASKS.items():
        data["paper"][f"{split}_mask"] = torch.isin(torch.arange(60), torch.from_numpy(ids))
    torch.save(data, tmp_path / "data.pt")
    import_graph(tmp_path / "store", graph=tmp_path / "data.pt", norm="weighted-mean")
    wanted = Dataset.from_data(data, splits=MASKS, edge_weight=True, undirected=True)
    found = open_store(tmp_path / "store")
    assert found.graph.norm == "weighted-mean"
    assert_same_graph(found, wanted)
    torch.testing.assert_close(found.typed.x["venue"], data["venue"].x)
    fresh = data_without_reverse()  # PyG adds a cache to data that was used, which is not loaded
    fresh["author"].y = torch.zeros(40, dtype=torch.long)
    torch.save(fresh, tmp_path / "two.pt")
    with pytest.raises(InputError, match="types author, paper have labels"):
        import_graph(tmp_path / "other", graph=tmp_path / "two.pt")
    import_graph(tmp_path / "other", graph=tmp_path / "two.pt", node_type="author")
    assert open_store(tmp_path / "other").typed.node_type == "author"


@pytest.mark.parametrize("ending", ["", "_id"])
def test_ids_may_be_called_by_their_type(tmp_path, ending):
    """As in a database: authors.csv has a column author_id, which writes.csv refers to."""
    given = write_tables(tmp_path, data_without_reverse())
    wanted = open_store(import_graph(tmp_path / "all", **given))
    for kind, file in given["nodes"].items():
        file.write_text(file.read_text().replace("id", f"{kind}{ending}", 1))
    found = open_store(import_graph(tmp_path / "store", **given))
    assert_same_graph(found, wanted)
    assert found.typed.names["paper"].values.tolist() == wanted.typed.names["paper"].values.tolist()
    assert found.typed.x["author"].shape == wanted.typed.x["author"].shape


def test_labels_of_another_table_are_found_by_ids_called_by_their_type(tmp_path):
    """Not by the order of rows, which would be wrong without any notice."""
    data = data_without_reverse()
    given = write_tables(tmp_path, data)
    wanted = open_store(import_graph(tmp_path / "all", **given))
    rows = [f"{name('paper', n)},c{int(data['paper'].y[n])}" for n in reversed(range(60))]
    given["labels"] = tmp_path / "labels.csv"
    given["labels"].write_text("\n".join(["paper_id,label", *rows]) + "\n")
    (tmp_path / "paper.csv").write_text(
        "".join(
            line.rpartition(",")[0] + "\n"
            for line in (tmp_path / "paper.csv").read_text().splitlines()
        )
    )
    found = open_store(import_graph(tmp_path / "store", **given, node_type="paper"))
    assert torch.equal(found.y, wanted.y)


def test_all_problems_are_named_with_their_type_or_relation(tmp_path):
    given = write_tables(tmp_path, data_without_reverse())
    cites = given["edges"]["paper", "cites", "paper"]
    cites.write_text(cites.read_text() + "p000,p777\n")
    with pytest.raises(InputError, match=r"^edges paper,cites,paper: edges names 1 nodes"):
        import_graph(tmp_path / "store", **given)
    (tmp_path / "author.csv").write_text("id,f0\na000,inf\na000,1\n")
    with pytest.raises(ImportProblems) as error:
        import_graph(tmp_path / "store", **given)
    problems = "\n".join(error.value.problems)
    assert "nodes author: features has the id 'a000' more than once" in problems
    assert "edges paper,cites,paper: edges names 1 nodes that the features do not have" in problems
    assert not (tmp_path / "store").exists()


def test_a_relation_without_rows_has_no_edges(tmp_path):
    given = write_tables(tmp_path, data_without_reverse())
    wanted = open_store(import_graph(tmp_path / "all", **given))
    key = "paper", "cites", "paper"
    given["edges"][key].write_text("src,dst\n")
    found = open_store(import_graph(tmp_path / "store", **given))
    types = found.graph.types
    assert types.edge_types == wanted.graph.types.edge_types
    assert types.relation(key) not in types.group_relation
    assert found.graph.num_edges < wanted.graph.num_edges
    assert "Relation paper,cites,paper has no edges." in found.imported["notes"]
    for one in given["edges"].values():
        one.write_text("src,dst\n")
    with pytest.raises(InputError, match="edges is empty, but a graph needs edges"):
        import_graph(tmp_path / "none", **given)


@pytest.mark.parametrize("kind", ["names", "numbers"])
def test_nodes_and_columns_can_be_those_of_the_edges(tmp_path, kind):
    """Columns are called as types, in any order, and a type has the ids that its edges name."""
    pairs = [(3, 7), (1, 7), (3, 5), (2, 5)]
    marks = {"names": ("u", "m"), "numbers": ("", "")}[kind]
    lines = [f"{marks[1]}{m},9,{marks[0]}{u}" for u, m in pairs]
    (tmp_path / "r.csv").write_text("\n".join(["movie_id,rating,User", *lines]) + "\n")
    rates = ("user", "rates", "movie")
    given = {"nodes": {"user": "edges", "movie": "edges"}, "edges": {rates: tmp_path / "r.csv"}}
    import_graph(tmp_path / "store", **given, label_edges={rates: tmp_path / "r.csv"})
    found = open_store(tmp_path / "store")
    assert found.graph.types.num_nodes == {"user": 3, "movie": 2}
    wanted = ["u1", "u2", "u3"] if kind == "names" else [1, 2, 3]
    assert found.typed.names["user"].tolist() == wanted
    assert found.label_edges.pairs.T.tolist() == [[2, 4], [0, 4], [2, 3], [1, 3]]
    own = found.graph.edges_between(*found.label_edges.pairs)[0]
    assert own.tolist() == [0, 1, 2, 3]
    with pytest.raises(InputError, match="type 'genre' has no edges, but its nodes are those"):
        nodes = given["nodes"] | {"genre": "edges"}
        import_graph(tmp_path / "other", **given | {"nodes": nodes})


BAD = {
    "unknown type": (
        {"edges": {("editor", "edits", "paper"): "e.csv"}},
        "relation editor,edits,paper is between unknown types, 'editor' is none of author",
    ),
    "no relation": ({"edges": None}, "edges=None must be files by relation"),
    "not by relation": ({"edges": "e.csv"}, "must be files by relation"),
    "two names": ({"edges": {("a", "b"): "e.csv"}}, "a relation is a source type, a name"),
    "features": ({"features": "x.npy"}, "features='x.npy' was given beside nodes"),
    "whose labels": ({"labels": "y.csv"}, "labels='y.csv' is not a table of nodes: pass the type"),
    "columns": ({"feature_columns": ["f1"]}, "are written TYPE.COLUMN"),
    "number type": ({"feature_type": {"editor": "float16"}}, "'editor', which is not a type"),
    "node type": ({"node_type": "editor"}, "node_type='editor' is not a type of nodes"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_options_get_one_sentence(tmp_path, case):
    changes, message = BAD[case]
    given = write_tables(tmp_path, data_without_reverse())
    with pytest.raises(InputError, match=message):
        import_graph(tmp_path / "store", **given | changes)
