"""Every form of a user's own graph gives the same store, and the store is mapped, not read."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys

import numpy as np
import pyarrow as arrow
import pytest
import scipy.sparse
import torch

from bliss import Graph
from bliss.data import (
    describe,
    features,
    import_graph,
    load_dataset,
    manifest,
    open_graph,
    open_store,
)
from bliss.errors import ResourceError
from bliss.storage.digests import sealed
from tests.data.files import HOT, SOURCE, SPLITS, TARGET, WEIGHT, X, Y, csv, write

pytestmark = pytest.mark.slow


def matrix(folder, form):
    file = folder / f"{form}.npz"
    entries = scipy.sparse.coo_matrix((np.ones(6), (SOURCE, TARGET)), (5, 5))
    entries = scipy.sparse.coo_matrix(entries.tocsr() != 0)  # the pair that is there twice: once
    scipy.sparse.save_npz(file, entries.asformat(form))
    return file


EDGES = {
    "rows": lambda f: write(f, "e.npy", np.stack([SOURCE, TARGET])),
    "columns": lambda f: write(f, "e.npy", np.stack([SOURCE, TARGET], 1).astype(np.int16)),
    "arrays": lambda f: write(f, "e.npz", {"src": SOURCE, "dst": TARGET}),
    "csr": lambda f: matrix(f, "csr"),
    "csc": lambda f: matrix(f, "csc"),
    "coo": lambda f: matrix(f, "coo"),
    "csv": lambda f: write(f, "e.csv", csv(SOURCE, TARGET)),
    "csv with header": lambda f: write(f, "e.csv", csv(SOURCE, TARGET, header="From,To")),
    "csv of other names": lambda f: write(f, "e.csv", csv(SOURCE, TARGET, header="u,v")),
    "csv by name": lambda f: write(f, "e.csv", csv(TARGET, SOURCE, header="target,source")),
    "tabs and a comment": lambda f: write(
        f, "e.txt", "# a comment\n" + csv(SOURCE, TARGET, mark="\t")
    ),
    "blanks": lambda f: write(f, "e.txt", csv(SOURCE, TARGET, header="src dst", mark=" ")),
    "parquet": lambda f: write(f, "e.parquet", {"src": SOURCE, "dst": TARGET, "when": SOURCE}),
}


@pytest.mark.parametrize("form", EDGES)
def test_edges_of_every_form_give_the_same_graph(tmp_path, good, form):
    dataset = open_store(import_graph(tmp_path / "s", **good | {"edges": EDGES[form](tmp_path)}))
    expected = Graph.from_edge_index(np.stack([SOURCE, TARGET]), 5, duplicates="coalesce")
    np.testing.assert_array_equal(dataset.graph.indptr, expected.indptr)
    np.testing.assert_array_equal(dataset.graph.indices, expected.indices)
    assert dataset.graph.norm == "mean"


def weighted_matrix(folder):
    entries = scipy.sparse.coo_matrix((WEIGHT, (SOURCE, TARGET)), (5, 5))
    scipy.sparse.save_npz(folder / "w.npz", entries)
    return folder / "w.npz"


WEIGHTED = {
    "csv": lambda f: {"edges": write(f, "w.csv", csv(SOURCE, TARGET, WEIGHT))},
    "parquet": lambda f: {
        "edges": write(f, "w.parquet", {"src": SOURCE, "dst": TARGET, "weight": WEIGHT})
    },
    "arrays": lambda f: {
        "edges": write(f, "w.npz", {"src": SOURCE, "dst": TARGET, "weight": WEIGHT})
    },
    "matrix": lambda f: {"edges": weighted_matrix(f)},
    "own file": lambda f: {"weight": write(f, "weight.npy", WEIGHT)},
}


@pytest.mark.parametrize("form", WEIGHTED)
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("norm", ["weights", "weighted-mean"])
def test_weights_of_every_form_are_kept(tmp_path, good, form, directed, norm):
    given = good | WEIGHTED[form](tmp_path)
    folder = import_graph(tmp_path / "s", **given, directed=directed, norm=norm)
    graph = open_store(folder).graph
    pairs, weight = np.stack([SOURCE, TARGET]), WEIGHT
    if not directed:
        pairs, weight = np.c_[pairs, pairs[::-1]], np.r_[weight, weight]
    expected = Graph.from_edge_index(pairs, 5, weight=weight, norm=norm, duplicates="coalesce")
    assert graph.norm == norm
    np.testing.assert_array_equal(graph.indices, expected.indices)
    np.testing.assert_array_equal(graph.weight, expected.weight)
    assert graph.with_norm("gcn").norm == "gcn"


def sparse_features(folder):
    scipy.sparse.save_npz(folder / "f.npz", scipy.sparse.csc_matrix(X))
    return folder / "f.npz"


FEATURES = {
    "float64": lambda f: write(f, "f.npy", X.astype(np.float64)),
    "fortran": lambda f: write(f, "f.npy", np.asfortranarray(X)),
    "big-endian": lambda f: write(f, "f.npy", X.astype(">f4")),
    "sparse": sparse_features,
    "parquet": lambda f: write(f, "f.parquet", {f"c{i}": X[:, i] for i in range(3)}),
    "parquet of lists": lambda f: write(f, "f.parquet", {"embedding": X.tolist()}),
    "parquet of lists of a fixed size": lambda f: write(
        f, "f.parquet", {"x": arrow.array(X.tolist(), arrow.list_(arrow.float32(), 3))}
    ),
}


@pytest.mark.parametrize("form", FEATURES)
def test_features_of_every_form_are_the_same(tmp_path, good, form, monkeypatch):
    monkeypatch.setattr(features, "CHUNK_BYTES", 48)  # two rows at a time
    folder = import_graph(tmp_path / "s", **good | {"features": FEATURES[form](tmp_path)})
    np.testing.assert_array_equal(open_store(folder).x, X)


LABELS = {
    "npy": lambda f: write(f, "l.npy", Y.astype(np.int8)),
    "a column": lambda f: write(f, "l.npy", Y[:, None]),
    "csv": lambda f: write(f, "l.csv", csv(Y)),
    "csv by node": lambda f: write(f, "l.csv", "node,label\n4,0\n0,0\n2,1\n1,2\n"),
    "parquet": lambda f: write(f, "l.parquet", {"label": Y}),
}


@pytest.mark.parametrize("form", LABELS)
def test_labels_of_every_form_are_the_same(tmp_path, good, form):
    dataset = open_store(import_graph(tmp_path / "s", **good | {"labels": LABELS[form](tmp_path)}))
    assert dataset.y.tolist() == Y.tolist()
    assert dataset.y.dtype == torch.int64
    assert (dataset.num_classes, dataset.is_multilabel) == (3, False)


HOTS = {
    "bool": lambda f: write(f, "l.npy", HOT.astype(bool)),
    "float": lambda f: write(f, "l.npy", HOT.astype(np.float64)),
    "csv": lambda f: write(f, "l.csv", csv(*HOT.T, header="red,green")),
    "parquet": lambda f: write(f, "l.parquet", {"red": HOT[:, 0], "green": HOT[:, 1]}),
}


@pytest.mark.parametrize("form", HOTS)
def test_several_labels_per_node(tmp_path, good, form):
    dataset = open_store(import_graph(tmp_path / "s", **good | {"labels": HOTS[form](tmp_path)}))
    assert dataset.is_multilabel
    assert dataset.y.dtype == torch.float32
    assert dataset.y.tolist() == HOT.tolist()


def masks():
    return {name: np.isin(np.arange(5), ids) for name, ids in SPLITS.items()}


def split_folder(folder):
    write(folder, "train.npy", masks()["train"])
    write(folder, "val.csv", "1\n")
    write(folder, "test.parquet", {"id": [4]})
    return folder


SPLIT_FORMS = {
    "masks": lambda f: masks(),
    "files": lambda f: {
        name: str(write(f, f"{name}.npy", np.array(ids))) for name, ids in SPLITS.items()
    },
    "archive": lambda f: write(f, "splits.npz", masks()),
    "folder": split_folder,
}


@pytest.mark.parametrize("form", SPLIT_FORMS)
def test_splits_of_every_form_are_the_same(tmp_path, good, form):
    folder = import_graph(tmp_path / "s", **good | {"splits": SPLIT_FORMS[form](tmp_path)})
    assert {k: v.tolist() for k, v in open_store(folder).splits.items()} == SPLITS


def test_shares_take_labelled_nodes_by_seed(tmp_path, good):
    good |= {
        "features": write(tmp_path, "f.npy", np.zeros((100, 2))),
        "labels": write(tmp_path, "l.npy", np.arange(100) % 4 - 1),
        "splits": (0.4, 0.2, 0.4),
    }
    first, same, other = (
        open_store(import_graph(tmp_path / f"s{i}", **good, seed=seed)).splits
        for i, seed in enumerate((0, 0, 1))
    )
    assert [first[name].numel() for name in ("train", "val", "test")] == [30, 15, 30]
    assert all((ids % 4 != 0).all() for ids in first.values())
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not torch.equal(first["train"], other["train"])


def test_val_and_test_may_be_left_out(tmp_path, good):
    dataset = open_store(import_graph(tmp_path / "s", **good | {"splits": {"train": [0]}}))
    assert [ids.numel() for ids in dataset.splits.values()] == [1, 0, 0]


def test_a_graph_without_labels_opens(tmp_path, good):
    dataset = open_store(import_graph(tmp_path / "s", **good | {"labels": None}))
    assert dataset.num_classes == 0
    assert (dataset.y == -1).all()


def test_a_store_loads_by_its_path_and_is_a_graph_folder_too(tmp_path, good):
    folder = import_graph(tmp_path / "mine", **good)
    assert load_dataset(folder).name == load_dataset(str(folder)).name == "mine"
    assert open_graph(folder).num_nodes == 5
    assert describe(load_dataset(folder))["edges"] == 4
    assert sorted(path.name for path in folder.iterdir()) == [
        "dataset.json",
        "features.npy",
        "graph.json",
        "indices.npy",
        "indptr.npy",
        "labels.npy",
        "test.npy",
        "train.npy",
        "val.npy",
    ]


def test_writing_to_mapped_features_leaves_the_file_alone(tmp_path, good):
    folder = import_graph(tmp_path / "s", **good)
    open_store(folder).x.zero_()
    np.testing.assert_array_equal(open_store(folder).x, X)


@pytest.mark.skipif(sys.platform != "linux", reason="reads its own memory from /proc")
def test_features_larger_than_memory_are_opened_and_imported_in_pieces(tmp_path, good):
    """A store of 256 GB (a sparse file) opens; 400 MB of features are imported in under 200 MB."""
    folder = import_graph(tmp_path / "s", **good)
    header = np.lib.format.header_data_from_array_1_0(np.empty((5, 1), np.float32))
    width = 1 << 34
    with open(folder / "features.npy", "wb") as stream:
        np.lib.format.write_array_header_2_0(stream, header | {"shape": (5, width)})
        stream.truncate(stream.tell() + 5 * width * 4)
    info = json.loads((folder / "dataset.json").read_text()) | {"num_features": width}
    del info["digest"]
    (folder / "dataset.json").write_text(json.dumps(sealed(info)))
    file = folder / "features.npy"  # large files are not read if their stamp is known
    stamps = {file.name: manifest.stamp(file, info["files"][file.name])}
    (folder / "stamps.json").write_text(json.dumps(stamps))
    assert open_store(folder).x[4, -3:].tolist() == [0, 0, 0]
    (folder / "features.npy").unlink()

    with open(tmp_path / "large.npy", "wb") as stream:
        np.lib.format.write_array_header_2_0(stream, header | {"shape": (100_000, 1000)})
        stream.truncate(stream.tell() + 100_000 * 1000 * 4)
    code = (
        "import sys; from bliss.data import import_graph\n"
        "def anonymous():\n"
        "    lines = open('/proc/self/status').read().splitlines()\n"
        "    return next(int(l.split()[1]) for l in lines if l.startswith('RssAnon'))\n"
        "import bliss.data.features as f; before = anonymous(); most = 0\n"
        "rows = f.finite_rows\n"
        "def watched(*arguments):\n"
        "    global most\n"
        "    for chunk in rows(*arguments):\n"
        "        most = max(most, anonymous()); yield chunk\n"
        "import bliss.data.importing as importing; importing.finite_rows = watched\n"
        "import_graph(sys.argv[1], edges=sys.argv[2], features=sys.argv[3])\n"
        "print((most - before) * 1024)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "large", good["edges"], tmp_path / "large.npy"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(run.stdout) < 200e6
    (tmp_path / "large" / "features.npy").unlink()


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path, good):
    """A limit on the size of files stands in for the end of the disk."""
    write(tmp_path, "features.npy", np.zeros((5, 100_000), np.float32))
    before = sorted(tmp_path.iterdir())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        with pytest.raises(
            ResourceError, match=r"cannot be written .*too large\): free disk space"
        ):
            import_graph(tmp_path / "s", **good)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_place_where_one_may_not_write_is_refused(tmp_path, good):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match="cannot be written"):
        import_graph(tmp_path / "file" / "s", **good)
    if os.geteuid() != 0:  # the superuser may write anywhere
        (tmp_path / "locked").mkdir(mode=0o500)
        with pytest.raises(ResourceError, match="cannot be written"):
            import_graph(tmp_path / "locked" / "s", **good)
