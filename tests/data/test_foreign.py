"""Whole graphs of other libraries: PyG's .pt, GraphML, GEXF and folders of OGB."""

from __future__ import annotations

import gzip
import os

import networkx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

from bliss import InputError
from bliss.data import Dataset, import_graph, load_dataset

EDGES = torch.tensor([[0, 1, 2, 3, 3], [1, 2, 3, 4, 0]])
X = torch.arange(10.0).reshape(5, 2)
Y = torch.tensor([0, 1, 0, 1, 1])


def masks(*splits: list[int]) -> dict[str, torch.Tensor]:
    names = ("train_mask", "val_mask", "test_mask")
    ids = [torch.tensor(split) for split in splits]
    return {n: torch.isin(torch.arange(5), i) for n, i in zip(names, ids, strict=True)}


def make_data(**changes) -> Data:
    return Data(**{"x": X, "edge_index": EDGES, "y": Y} | masks([0, 1], [2], [3, 4]) | changes)


PT = {
    "Data": lambda: make_data(),
    "a tuple": lambda: (make_data(), None),
    "a list": lambda: [make_data()],
    "a dict of tensors": lambda: make_data().to_dict(),
    "as InMemoryDataset saves it": lambda: (make_data().to_dict(), None, Data),
}


@pytest.mark.parametrize("form", PT)
def test_a_pt_file_gives_the_dataset_of_its_data(tmp_path, form):
    torch.save(PT[form](), tmp_path / "graph.pt")
    found = load_dataset(import_graph(tmp_path / "store", graph=tmp_path / "graph.pt"))
    expected = Dataset.from_data(make_data())
    assert torch.equal(found.x, expected.x)
    assert torch.equal(found.y, expected.y)
    assert found.graph.indices.tolist() == expected.graph.indices.tolist()
    assert {k: v.tolist() for k, v in found.splits.items()} == {
        "train": [0, 1],
        "val": [2],
        "test": [3, 4],
    }


class Runs:
    """A pickle that would run a command."""

    def __reduce__(self):
        return os.system, ("touch proof",)


def hetero() -> HeteroData:
    data = HeteroData()
    data["a"].x = X
    return data


def wild() -> torch.Tensor:
    """A sparse matrix whose only entry lies far outside."""
    place, one = torch.tensor([[10**6], [0]]), torch.ones(1)
    return torch.sparse_coo_tensor(place, one, (5, 2), check_invariants=False)


def forged() -> Data:
    """A `Data` whose inner state is not what PyG's methods expect."""
    data = make_data()
    data.__dict__["_store"] = {"x": 1}
    return data


BAD_PT = {
    "a forged state": (forged, "cannot be read as a PyG Data"),
    "wild indices": (lambda: make_data(x=wild()), "cannot be read as a PyG Data"),
    "wild indices of edges": (
        lambda: make_data(edge_index=None, adj_t=wild()),
        "cannot be read as a PyG Data",
    ),
    "an enormous view": (
        lambda: make_data(x=torch.ones(1).expand(5, 10**9)),
        "more than the limit",
    ),
    "a command": (Runs, "it holds (posix|nt).system, which is not loaded"),
    "a network": (lambda: torch.nn.Linear(2, 2), "which is not loaded"),
    "two graphs": (lambda: [make_data(), make_data()], "holds 2 graphs, but must hold one"),
    "a number": (lambda: 3, "holds a int, but must hold a torch_geometric Data"),
    "types without edges": (hetero, "edges is empty, but a graph needs edges"),
    "no features": (lambda: make_data(x=None), "x is missing"),
    "NaN": (lambda: make_data(x=X / 0), "x holds NaN or infinity"),
    "edges out of range": (lambda: make_data(edge_index=EDGES + 3), "edges holds node 6"),
    "features of text": (lambda: make_data(x="abc"), "x is a str"),
}


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
@pytest.mark.parametrize("case", BAD_PT)
def test_a_bad_pt_file_gets_one_sentence(tmp_path, case, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make, message = BAD_PT[case]
    torch.save(make(), tmp_path / "bad.pt")
    with pytest.raises(InputError, match=message) as caught:
        import_graph(tmp_path / "store", graph=tmp_path / "bad.pt")
    assert "\n" not in str(caught.value)
    assert "weights_only" not in str(caught.value)
    assert not (tmp_path / "proof").exists()
    assert not (tmp_path / "store").exists()


def test_damaged_pt_files_are_read_or_refused_in_one_sentence(tmp_path):
    torch.save(make_data(), tmp_path / "whole.pt")
    whole = (tmp_path / "whole.pt").read_bytes()
    random = np.random.default_rng(0)
    refused = 0
    for trial in range(40):
        damaged = bytearray(whole)
        for place in random.integers(0, len(whole), 4):
            damaged[place] ^= 1 << int(random.integers(8))
        if trial % 4 == 0:
            del damaged[int(random.integers(len(whole))) :]
        (tmp_path / "damaged.pt").write_bytes(damaged)
        try:
            import_graph(tmp_path / f"store{trial}", graph=tmp_path / "damaged.pt")
        except InputError as error:
            refused += 1
            assert "\n" not in str(error)
            assert "weights_only" not in str(error)
    assert refused > 10


def people(directed: bool = False) -> networkx.Graph:
    graph = networkx.DiGraph() if directed else networkx.Graph()
    for name, size, kind in (("ann", 1.5, "x"), ("bob", 2.0, "y"), ("cat", 3.0, "x")):
        graph.add_node(name, size=size, kind=kind)
    graph.add_edge("ann", "bob", weight=2.0)
    graph.add_edge("cat", "bob", weight=3.0)
    return graph


@pytest.mark.parametrize("form", ["graphml", "gexf"])
@pytest.mark.parametrize("directed", [True, False])
def test_a_networkx_file_keeps_names_attributes_weights_and_direction(tmp_path, form, directed):
    file = tmp_path / f"people.{form}"
    getattr(networkx, f"write_{form}")(people(directed), file)
    store = import_graph(tmp_path / "store", graph=file, label="kind", splits={"train": ["bob"]})
    dataset = load_dataset(store)
    assert dataset.node_names.tolist() == ["ann", "bob", "cat"]
    assert dataset.x.tolist() == [[1.5], [2.0], [3.0]]
    assert dataset.class_names == ("x", "y")
    assert dataset.y.tolist() == [0, 1, 0]
    assert dataset.splits["train"].tolist() == [1]
    graph = dataset.graph
    assert graph.norm == "weighted-mean"
    assert graph.degree.tolist() == ([1, 3, 1] if directed else [2, 3, 2])
    assert graph.weight[graph.indptr[1] : graph.indptr[2]].tolist() == [2, 2.5, 3]


BOMB = """<?xml version="1.0"?>
<!DOCTYPE graphml [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
<graphml><graph edgedefault="directed"><node id="&b;"/></graph></graphml>"""

TWICE = """<graphml><key id="a" for="node" attr.name="a" attr.type="int"/>
<graph edgedefault="directed"><node id="n"><data key="a">1</data></node>
<node id="m"><data key="a">3</data></node>
<node id="n"><data key="a">2</data></node><edge source="n" target="m"/></graph></graphml>"""

BAD_XML = {
    "a document type": (BOMB, {}, "it has a document type"),
    "a document type in UTF-16": (BOMB.encode("utf-16"), {}, "it has a document type"),
    "no XML": ("hello", {}, "cannot be read as GraphML"),
    "nothing": ("", {}, "cannot be read as GraphML"),
    "another root": ("<a/>", {}, "cannot be read as GraphML"),
    "a node twice": (TWICE, {}, "has the node id 'n' more than once: keep one"),
    "no such attribute": (None, {"feature_columns": ["age"]}, "has no node attribute 'age'"),
    "no such label": (None, {"label": "age"}, "choose among kind, size"),
    "features of text": (None, {"feature_columns": ["kind"]}, "no number in attribute 'kind'"),
}


@pytest.mark.parametrize("case", BAD_XML)
def test_a_bad_graphml_file_gets_one_sentence(tmp_path, case):
    content, options, message = BAD_XML[case]
    file = tmp_path / "bad.graphml"
    if content is None:
        networkx.write_graphml(people(), file)
    else:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=message) as caught:
        import_graph(tmp_path / "store", graph=file, **options)
    assert "\n" not in str(caught.value)


def test_a_gexf_file_may_not_have_a_node_twice(tmp_path):
    file = tmp_path / "people.gexf"
    networkx.write_gexf(people(), file)
    file.write_text(file.read_text().replace('id="bob"', 'id="ann"'))
    with pytest.raises(InputError, match="has the node id 'ann' more than once"):
        import_graph(tmp_path / "store", graph=file)


def ogb(folder, form="csv", **changes):
    """A folder as OGB publishes it."""
    arrays = {"edge": EDGES.T.numpy(), "node-feat": X.numpy(), "node-label": Y[:, None].numpy()}
    arrays |= changes
    for part in ("raw", "split/time"):
        (folder / part).mkdir(parents=True)

    def text(name, array):
        lines = "".join(",".join(map(str, row)) + "\n" for row in np.asarray(array).tolist())
        (folder / f"{name}.csv.gz").write_bytes(gzip.compress(lines.encode()))

    if form == "csv":
        for name, array in arrays.items():
            text(f"raw/{name}", array)
        text("raw/num-node-list", [[5]])
    elif form == "npz":
        np.savez(folder / "raw/data.npz", edge_index=arrays["edge"].T, node_feat=X.numpy())
        np.savez(folder / "raw/node-label.npz", node_label=arrays["node-label"].astype(float))
    else:
        for name, array in zip(
            ("edge_index", "node_feat", "node_label"), arrays.values(), strict=True
        ):
            np.save(folder / f"raw/{name}.npy", array.T if name == "edge_index" else array)
    for name, ids in (("train", [0, 1]), ("valid", [2]), ("test", [3, 4])):
        text(f"split/time/{name}", [[i] for i in ids])
    return folder


@pytest.mark.parametrize("form", ["csv", "npz", "npy"])
def test_a_folder_of_ogb_gives_the_dataset_of_its_data(tmp_path, form):
    found = load_dataset(import_graph(tmp_path / "store", graph=ogb(tmp_path / "ogb", form)))
    expected = Dataset.from_data(make_data())
    assert torch.equal(found.x, expected.x)
    assert torch.equal(found.y, expected.y)
    assert found.graph.indices.tolist() == expected.graph.indices.tolist()
    assert found.splits["val"].tolist() == [2]


BAD_OGB = {
    "labels missing": (
        lambda f: (f / "raw/node-label.csv.gz").unlink(),
        "no raw/node-label.csv.gz",
    ),
    "everything missing": (lambda f: (f / "raw/edge.csv.gz").unlink(), "no raw/edge_index.npy"),
    "two splits": (
        lambda f: (
            (f / "split/other").mkdir()
            or (f / "split/other/train.csv.gz").write_bytes(gzip.compress(b"0\n"))
        ),
        "has the splits other, time",
    ),
    "cut short": (lambda f: (f / "raw/edge.csv.gz").write_bytes(b"\x1f\x8b\x08"), "cannot be read"),
    "another number of nodes": (
        lambda f: (f / "raw/num-node-list.csv.gz").write_bytes(gzip.compress(b"3\n4\n")),
        r"has \[3, 4\] nodes",
    ),
}


@pytest.mark.parametrize("case", BAD_OGB)
def test_a_bad_folder_of_ogb_gets_one_sentence(tmp_path, case):
    damage, message = BAD_OGB[case]
    folder = ogb(tmp_path / "ogb")
    damage(folder)
    with pytest.raises(InputError, match=message) as caught:
        import_graph(tmp_path / "store", graph=folder)
    assert "\n" not in str(caught.value)


def test_arguments_that_contradict_each_other_are_refused(tmp_path, good):
    with pytest.raises(InputError, match=r"edges, features, labels was given beside graph="):
        import_graph(tmp_path / "store", **good | {"graph": "g.pt"})
    with pytest.raises(InputError, match="edges=None"):
        import_graph(tmp_path / "store", features=good["features"])
    with pytest.raises(InputError, match=r"must be a \.pt, \.graphml or \.gexf file"):
        import_graph(tmp_path / "store", graph=good["edges"])


# Datasets of data in memory


def test_masks_of_several_splits_are_chosen_by_column():
    several = {k: torch.stack([v, v.flip(0)], 1) for k, v in masks([0, 1], [2], [3, 4]).items()}
    data = make_data(**several)
    assert Dataset.from_data(data).splits["train"].tolist() == [0, 1]
    assert Dataset.from_data(data, split=1).splits["train"].tolist() == [3, 4]
    with pytest.raises(InputError, match="split=2 is not a column of train_mask"):
        Dataset.from_data(data, split=2)


def test_data_without_masks_gets_random_splits_by_seed():
    data = Data(x=torch.zeros(50, 1), y=torch.arange(50) % 2, edge_index=EDGES)
    sizes = [ids.numel() for ids in Dataset.from_data(data).splits.values()]
    assert sizes == [30, 10, 10]
    one, two = (Dataset.from_data(data, seed=seed).splits["train"] for seed in (0, 1))
    assert not torch.equal(one, two)


def test_weights_and_reverse_edges_are_used_by_choice():
    data = make_data(edge_weight=torch.tensor([1.0, 2, 3, 4, 5]))
    assert Dataset.from_data(data).graph.norm == "mean"
    assert Dataset.from_data(data, edge_weight=True).graph.weight.max() == 5
    both = Dataset.from_data(data, undirected=True)
    assert both.graph.num_edges == 5 + 2 * 5
    assert Dataset.from_data(make_data(), undirected=True).imported["undirected"]


def test_classes_of_data_keep_their_numbers():
    dataset = Dataset.from_data(make_data(y=torch.tensor([0, 1, 4, -1, 0])), splits={"train": [0]})
    assert dataset.y.tolist() == [0, 1, 4, -1, 0]
    assert dataset.num_classes == 5


TASKS = {
    "classes": (Y, "classes", 2),
    "a column of classes": (Y[:, None], "classes", 2),
    "labels": (torch.eye(5), "labels", 5),
    "targets": (X[:, 0] + 0.5, "regression", 1),
}


@pytest.mark.parametrize("case", TASKS)
def test_the_type_of_y_sets_the_task(case):
    y, task, outputs = TASKS[case]
    dataset = Dataset.from_data(make_data(y=y))
    assert (dataset.task, dataset.num_outputs) == (task, outputs)


def test_other_things_than_data_are_refused():
    for wrong, message in ((hetero(), "there are no relations"), (42, "int is not a PyG Data")):
        with pytest.raises(InputError, match=message):
            Dataset.from_data(wrong)
