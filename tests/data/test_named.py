"""Named datasets: the numbers everybody knows, and sentences where files are missing."""

from __future__ import annotations

import gzip
import json
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse
import torch
from torch_geometric.io import read_planetoid_data

from bliss import InputError
from bliss.data import Dataset, data_root, dataset_names, describe, download, load_dataset
from bliss.data.download import DownloadError
from bliss.data.sources import ogbn_files

pytestmark = pytest.mark.slow

FACTS = {  # nodes, edges without self-loops, features, classes, train, val, test
    "cora": (2_708, 10_556, 1_433, 7, 140, 500, 1_000),
    "citeseer": (3_327, 9_104, 3_703, 6, 120, 500, 1_000),
    "pubmed": (19_717, 88_648, 500, 3, 60, 500, 1_000),
    "ppi": (14_755, 450_540 - 6_322, 50, 121, 9_716, 1_825, 3_214),  # 6,322 are self-loops
}


@pytest.fixture()
def offline(monkeypatch):
    def refuse(*_args):
        raise DownloadError("no network")

    monkeypatch.setattr(download, "download", refuse)


@pytest.mark.parametrize("name", FACTS)
def test_real_files_have_their_known_sizes(data_root, name):
    dataset = load_dataset(name.upper(), data_root)
    found = describe(dataset)
    sizes = [found[key] for key in ("nodes", "edges", "features", "classes")]
    assert (*sizes, *found["splits"].values()) == FACTS[name]
    assert dataset.graph.num_edges == found["edges"] + found["nodes"]  # one self-loop each
    assert dataset.graph.norm == "mean"
    assert dataset.name == name
    assert dataset.is_multilabel == (name == "ppi")
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize("name", ["Cora", "CiteSeer", "PubMed"])
def test_planetoid_is_what_pyg_reads(data_root, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its pickles are of Python 2
        expected = read_planetoid_data(str(data_root / name / "raw"), name)
    found = load_dataset(name, data_root)
    torch.testing.assert_close(found.x, expected.x, rtol=0, atol=0)
    labelled = found.y >= 0
    assert (found.y[labelled] == expected.y[labelled]).all()
    assert int((~labelled).sum()) == (15 if name == "CiteSeer" else 0)
    assert not found.x[~labelled].any()
    for part, ids in found.splits.items():
        assert expected[f"{part}_mask"].nonzero().flatten().tolist() == ids.tolist()
    target = np.repeat(np.arange(found.graph.num_nodes), found.graph.degree)
    pairs = set(zip(found.graph.indices.tolist(), target.tolist(), strict=True))
    loops = {(i, i) for i in range(found.graph.num_nodes)}
    assert pairs == set(map(tuple, expected.edge_index.T.tolist())) | loops


def test_saint_features_are_standard_over_the_training_nodes(data_root):
    dataset = load_dataset("ppi", data_root)
    train = dataset.x[dataset.splits["train"]].double()
    raw = np.load(data_root / "PPI" / "raw" / "feats.npy")
    constant = raw[dataset.splits["train"]].std(0) == 0
    np.testing.assert_allclose(train.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(train.std(0, correction=0)[~constant], 1, rtol=1e-5)
    assert dataset.y.sum() == sum(
        map(sum, json.loads((data_root / "PPI/raw/class_map.json").read_text()).values())
    )


def test_physics_keeps_to_its_memory(data_root):
    """One process of its own: features are 1.16 GB, and nothing near a second copy is made."""
    code = (
        "import resource, sys; import bliss.data as d;"
        "base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "p = d.load_dataset('physics', sys.argv[1]); s = d.describe(p);"
        "peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base;"
        "print(s['nodes'], s['edges'], s['features'], s['classes'], *s['splits'].values(), peak)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(data_root)], capture_output=True, text=True, check=True
    )
    *sizes, peak = map(int, run.stdout.split())
    assert sizes == [34_493, 495_924, 8_415, 5, 100, 150, 34_243]
    unit = 1 if sys.platform == "darwin" else 1024
    assert peak * unit < 1.5e9


def test_flickr_says_which_file_to_put_where(data_root, offline):
    with pytest.raises(InputError, match=r"flickr needs raw/feats\.npy in .*Flickr \(") as caught:
        load_dataset("flickr", data_root)
    assert "\n" not in str(caught.value)
    assert "no network" in str(caught.value)


def test_flickr_loads_once_its_features_are_there(data_root, tmp_path):
    raw = tmp_path / "Flickr" / "raw"
    raw.mkdir(parents=True)
    for file in ("adj_full.npz", "class_map.json", "role.json"):
        (raw / file).symlink_to(data_root / "Flickr" / "raw" / file)
    np.save(raw / "feats.npy", np.random.default_rng(0).random((89_250, 3)))
    found = describe(load_dataset("Flickr", tmp_path))
    assert (found["nodes"], found["edges"], found["classes"]) == (89_250, 899_756, 7)
    assert list(found["splits"].values()) == [44_625, 22_312, 22_313]


@pytest.mark.parametrize("name", [n for n, _ in dataset_names("nowhere") if n != "synthetic"])
def test_missing_files_get_one_sentence(name, tmp_path, offline):
    with pytest.raises(InputError, match=f"{name} needs raw/") as caught:
        load_dataset(name, tmp_path)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_names_say_what_is_there(data_root, tmp_path):
    assert {name for name, present in dataset_names(tmp_path) if present} == {"synthetic"}
    there = {entry.name for entry in dataset_names(data_root) if entry.present}
    assert {"cora", "citeseer", "pubmed", "ppi", "physics", "synthetic"} <= there
    assert "reddit" in dict(dataset_names())


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(InputError, match="neither a name nor a folder: choose one of cora"):
        load_dataset("coral")


def test_the_root_is_the_argument_then_the_variable_then_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("BLISS_DATA", str(tmp_path / "variable"))
    assert data_root(tmp_path) == tmp_path
    assert data_root() == tmp_path / "variable"
    monkeypatch.delenv("BLISS_DATA")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_root() == tmp_path / "cache" / "bliss"


@pytest.mark.parametrize("name", [None, 5, b"cora", "x" * 5000, "~nosuchuser", "a\0b"])
def test_odd_names_get_one_sentence(name):
    with pytest.raises(InputError, match="dataset=") as caught:
        load_dataset(name)
    assert len(str(caught.value)) < 500


DAMAGES = {
    "fractions for nodes": ("graph", pickle.dumps({0: [0.5]}, protocol=2), "table of neighbours"),
    "a stranger": ("graph", pickle.dumps({0: [9999]}, protocol=2), "edge_index holds 9999"),
    "a wild test id": ("test.index", b"10000000000", "do not fit together"),
    "a test id twice": ("test.index", b"1708 1708", "must hold distinct node ids"),
    "a test id too large for int64": ("test.index", b"9" * 30, "does not hold node ids"),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_damaged_planetoid_files_get_one_sentence(tmp_path, cora, case):
    part, content, message = DAMAGES[case]
    (cora / f"ind.cora.{part}").unlink()
    (cora / f"ind.cora.{part}").write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        load_dataset("cora", tmp_path)
    assert "\n" not in str(caught.value)


def npz_form(path):
    """Six nodes a class, two classes, in the form of gnn-benchmark."""
    random = np.random.default_rng(0)
    adjacency = scipy.sparse.random(120, 120, 0.1, "csr", random_state=random)
    features = scipy.sparse.random(120, 9, 0.3, "csr", random_state=random) * 5
    parts = {
        f"{prefix}_{name}": getattr(matrix, name)
        for prefix, matrix in (("adj", adjacency), ("attr", features))
        for name in ("data", "indices", "indptr", "shape")
    }
    path.parent.mkdir(parents=True)
    names = np.array([{}], object)  # the published files hold some, which are not to be read
    np.savez(path, labels=np.arange(120) % 2, attr_names=names, **parts)
    return adjacency, features


def test_benchmark_files_become_undirected_and_get_splits_by_seed(tmp_path):
    adjacency, features = npz_form(tmp_path / "Photo/raw/amazon_electronics_photo.npz")
    first, same, other = (load_dataset("photo", tmp_path, seed) for seed in (0, 0, 1))
    both = ((adjacency + adjacency.T) != 0).tolil()
    both.setdiag(0)
    assert describe(first)["edges"] == both.tocsr().count_nonzero()
    np.testing.assert_array_equal(first.x, (features.toarray() > 0).astype(np.float32))
    for part, size in (("train", 40), ("val", 60), ("test", 20)):
        assert first.y[first.splits[part]].bincount().tolist() == [size // 2, size // 2]
        assert torch.equal(first.splits[part], same.splits[part])
    assert not torch.equal(first.splits["train"], other.splits["train"])


def test_reddit_reads_the_two_files_of_dgl(tmp_path):
    raw = tmp_path / "Reddit" / "raw"
    raw.mkdir(parents=True)
    pairs = ([0, 1, 1, 2], [1, 0, 0, 2])  # one twice, one self-loop
    scipy.sparse.save_npz(
        raw / "reddit_graph.npz", scipy.sparse.coo_matrix((np.ones(4), pairs), (4, 4))
    )
    np.savez(
        raw / "reddit_data.npz",
        feature=np.eye(4, 2),
        label=np.array([0, 2, 1, 0]),
        node_types=np.array([1, 2, 3, 1]),
    )
    dataset = load_dataset("reddit", tmp_path)
    assert describe(dataset)["edges"] == 2
    assert dataset.num_classes == 3
    assert {k: v.tolist() for k, v in dataset.splits.items()} == {
        "train": [0, 3],
        "val": [1],
        "test": [2],
    }


def write_ogbn(folder, name):
    tables = (
        [[0, 1], [1, 2], [3, 0]],
        [[0.5, 1], [1, 1.5], [2, 0], [0, 0]],
        [[0], [1], [1], [0]],
        [[3], [0]],
        [[1]],
        [[2]],
    )
    for file, rows in zip(ogbn_files(name), tables, strict=True):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(folder / file, "wt") as stream:
            stream.writelines(",".join(map(str, row)) + "\n" for row in rows)


def test_ogbn_reads_the_published_text_files(tmp_path):
    write_ogbn(tmp_path / "ogbn_arxiv", "ogbn-arxiv")
    dataset = load_dataset("ogbn-arxiv", tmp_path)
    assert describe(dataset)["edges"] == 6  # both directions
    assert dataset.splits["train"].tolist() == [0, 3]
    assert dataset.x[1].tolist() == [1, 1.5]


def test_a_dataset_checks_itself(toy_graph):
    ids = torch.arange(60)
    good = {
        "name": "toy",
        "graph": toy_graph,
        "x": torch.zeros(60, 2),
        "y": ids % 3,
        "splits": {"train": ids[:20], "val": ids[20:40], "test": ids[40:]},
        "num_classes": 3,
    }
    assert Dataset(**good).num_features == 2
    bad = {
        "one row for each of the 60 nodes": {"x": torch.zeros(59, 2)},
        "y is torch.float32": {"y": torch.zeros(60)},
        "y runs from 0 to 2": {"num_classes": 2},
        "y has 5 columns": {"y": torch.zeros(60, 5)},
        "must have train, val and test": {"splits": {"train": ids}},
        "is torch.bool of shape": {"splits": good["splits"] | {"val": ids > 7}},
        "node 5 is in the splits 'train' and 'val'": {"splits": good["splits"] | {"val": ids[5:6]}},
        r"splits\['test'\] holds 60": {"splits": good["splits"] | {"test": ids[-1:] + 1}},
        "more than once": {"splits": good["splits"] | {"test": ids[[50, 50]]}},
        "is empty": {"splits": good["splits"] | {"train": ids[:0]}},
        "has no label": {"y": (ids % 3).where(ids != 7, -1)},
    }
    for message, change in bad.items():
        with pytest.raises(InputError, match=message):
            Dataset(**good | change)
