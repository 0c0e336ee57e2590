"""Bad files get one sentence that names the field, the value and the remedy; nothing is written."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse

from bliss import InputError
from bliss.data import import_graph, load_dataset, open_store
from bliss.storage.digests import file_digest, sealed
from tests.data.files import HOT, SOURCE, SPLITS, TARGET, WEIGHT, X, Y, write


def truncated(folder, name="cut.npy"):
    file = write(folder, name, np.ones((50, 3)))
    file.write_bytes(file.read_bytes()[:-100])
    return file


def lying(folder, shape):
    """A header that promises another shape than the file has."""
    with open(folder / "lie.npy", "wb") as stream:
        header = np.lib.format.header_data_from_array_1_0(np.ones((5, 3)))
        np.lib.format.write_array_header_1_0(stream, header | {"shape": shape})
        stream.write(np.ones((5, 3)).tobytes())
    return folder / "lie.npy"


def objects(folder):
    np.save(folder / "objects.npy", np.array([{}, []], object), allow_pickle=True)
    return folder / "objects.npy"


def objects_in_archive(folder):
    np.savez(folder / "objects.npz", src=np.array([{}, []], object), dst=SOURCE)
    return folder / "objects.npz"


def broken_matrix(folder, **changes):
    matrix = scipy.sparse.csr_matrix(X)
    parts = {name: getattr(matrix, name) for name in ("data", "indices", "indptr", "shape")}
    np.savez(folder / "broken.npz", format=b"csr", **parts | changes)
    return folder / "broken.npz"


def cut(name):
    """What takes the end of a file in a folder away."""

    def damage(folder):
        (folder / name).write_bytes((folder / name).read_bytes()[:-3])
        return folder / name

    return damage


def with_value(array, place, value):
    array = array.astype(np.float64)
    array[place] = value
    return array


def edges(name, content):
    return lambda f: {"edges": write(f, name, content)}


def feats(name, content):
    return lambda f: {"features": write(f, name, content)}


def labels(name, content):
    return lambda f: {"labels": write(f, name, content)}


def splits(value):
    return lambda f: {"splits": value}


PAIRS = np.stack([SOURCE, TARGET])

CASES = {
    # edges
    "edges not there": (lambda f: {"edges": f / "no.npy"}, r"edges='.*no.npy' does not exist"),
    "edges of unknown form": (edges("e.xlsx", ""), r"must be a \.npy, \.npz, \.csv or \.parquet"),
    "edges 2 x 2": (edges("e.npy", PAIRS[:, :2]), r"shape \(2, 2\), which is ambiguous"),
    "edges 3 x 6": (edges("e.npy", np.zeros((3, 6), int)), r"edges has shape \(3, 6\)"),
    "edges flat": (edges("e.npy", SOURCE), r"edges has shape \(6,\)"),
    "edges of floats": (edges("e.npy", PAIRS * 1.0), "source of type float64"),
    "edges out of range": (edges("e.npy", PAIRS + 3), "edges holds node 6, but features has 5"),
    "edges negative": (edges("e.npy", PAIRS - 1), "edges holds node -1"),
    "no edges": (edges("e.npy", np.zeros((2, 0), int)), "edges is empty"),
    "edges cut short": (lambda f: {"edges": truncated(f)}, "header promises 1328 bytes"),
    "edges of objects": (lambda f: {"edges": objects(f)}, "Python objects, which are never"),
    "archive of objects": (lambda f: {"edges": objects_in_archive(f)}, "never unpickled"),
    "archive without names": (edges("e.npz", {"a": SOURCE}), "must hold src and dst"),
    "archive of two lengths": (edges("e.npz", {"src": SOURCE, "dst": [1]}), r"dst of shape \(1,\)"),
    "archive that is none": (
        lambda f: {"edges": write(f, "e.npy", PAIRS).rename(f / "e.npz")},
        "File is not a zip file",
    ),
    "archive cut short": (
        lambda f: {"edges": cut("e.npz")(write(f, "e.npz", {"src": SOURCE}).parent)},
        "e.npz cannot be read as arrays",
    ),
    "csv without a line": (edges("e.csv", ""), "is empty"),
    "csv of words": (edges("e.csv", "src,dst\nc,d\n"), "names as ids, such as 'c', but the feat"),
    "csv of fractions": (edges("e.csv", "0,1\n1,2.5\n"), "the id 2.5 in column '2'"),
    "csv with a gap": (edges("e.csv", "0,1\n1,\n"), "1 empty entries in column '2'"),
    "csv with a header only": (edges("e.csv", "src,dst\n"), "has a header but no rows"),
    "csv with one column": (edges("e.csv", "0\n1\n"), "has 1 columns"),
    "csv with times": (edges("e.csv", "u,v,time\n0,1,2\n"), r"has 3 columns \(u, v, time\)"),
    "csv of targets alone": (edges("e.csv", "dst,node\n0,1\n"), "must hold src and dst once each"),
    "csv with a weight for a target": (edges("e.csv", "u,weight\n0,1\n"), "src and dst once each"),
    "csv with two weights": (edges("e.csv", "src,dst,weight,Weight\n0,1,1,1\n"), "two columns"),
    "csv with a weight of words": (edges("e.csv", "src,dst,weight\n0,1,a\n"), "must hold numbers"),
    "parquet that is none": (
        lambda f: {"edges": truncated(f, "a.npy").rename(f / "e.parquet")},
        "cannot be read as parquet",
    ),
    "parquet without names": (edges("e.parquet", {"a": [1]}), "must hold src and dst"),
    "parquet with a gap": (edges("e.parquet", {"src": [1, None], "dst": [0, 1]}), "empty entries"),
    "parquet of words": (
        edges("e.parquet", {"src": ["a"], "dst": [1]}),
        "names as ids, such as 'a'",
    ),
    "matrix not square": (lambda f: {"edges": broken_matrix(f)}, r"matrix of shape \(5, 3\)"),
    # weights
    "weights twice": (
        lambda f: {
            "edges": write(f, "e.csv", "0,1,2.0\n"),
            "weight": write(f, "w.npy", np.ones(1)),
        },
        "holds weights too",
    ),
    "too few weights": (lambda f: {"weight": write(f, "w.npy", WEIGHT[1:])}, "there are 6 edges"),
    "weights not there": (
        lambda f: {"weight": f / "w.npy"},
        r"weight='.*w.npy' does not exist",
    ),
    "NaN weight": (
        lambda f: {"weight": write(f, "w.npy", with_value(WEIGHT, 2, np.nan))},
        r"weight\[2\] is nan",
    ),
    "negative weight": (lambda f: {"weight": write(f, "w.npy", -WEIGHT)}, "must not be negative"),
    # features
    "features not there": (lambda f: {"features": f / "x.npy"}, r"='.*x.npy' does not exist"),
    "features of unknown form": (feats("x.doc", "1\n"), r"must be a \.npy, \.npz, \.csv or \.par"),
    "features with a word": (feats("x.csv", "a,b\n1,2\n1,x\n"), "text in column 'b'"),
    "features with an empty column": (feats("x.csv", "a,b\n1,\n1,\n"), "no value in column 'b'"),
    "an id twice": (feats("x.csv", "id,a\nx,2\nx,1\n"), "features has the id 'x' more than once"),
    "edges between strangers": (
        lambda f: {
            "features": write(f, "x.csv", "id,a\n" + "".join(f"n{i},1\n" for i in range(5))),
            "splits": None,
        },
        "edges names 4 nodes that the features do not have, such as '0'",
    ),
    "a column that is not there": (
        lambda f: {"features": write(f, "x.csv", "a,b\n1,2\n"), "feature_columns": ["c"]},
        "feature_columns has 'c'",
    ),
    "columns of an array": (lambda f: {"feature_columns": ["c"]}, "has no names"),
    "features flat": (feats("x.npy", X[:, 0]), r"features has shape \(5,\)"),
    "features of texts": (feats("x.npy", X.astype(str)), "its type <U32 is not one of numbers"),
    "no features": (feats("x.npy", X[:, :0]), r"features has shape \(5, 0\)"),
    "NaN feature": (feats("x.npy", with_value(X, (3, 1), np.nan)), r"features\[3, 1\] is nan"),
    "infinite feature": (feats("x.npy", with_value(X, (0, 2), -np.inf)), r"\[0, 2\] is -inf"),
    "infinite in float32": (feats("x.npy", with_value(X, (4, 0), 1e60)), r"\[4, 0\] is 1e\+60"),
    "inf in parquet": (feats("x.parquet", {"a": [1, 2, np.inf, 4, 5]}), r"features\[2, 0\] is inf"),
    "lists of two lengths": (
        feats("x.parquet", {"a": [[1], [1, 2], [1], [1], [1]]}),
        "different lengths",
    ),
    "features cut short": (lambda f: {"features": truncated(f)}, "the file has 1228"),
    "header promises more": (lambda f: {"features": lying(f, (9**9, 3))}, "header promises"),
    "header promises less": (lambda f: {"features": lying(f, (4, 3))}, "header promises 224 bytes"),
    "header promises nonsense": (lambda f: {"features": lying(f, (-5, -3))}, "header promises"),
    "features of objects": (lambda f: {"features": objects(f)}, "never unpickled"),
    "not an array": (
        lambda f: {"features": write(f, "x.txt", "hello").rename(f / "x.npy")},
        "not a .npy file",
    ),
    "matrix with a wild index": (
        lambda f: {"features": broken_matrix(f, indices=np.full(12, 77, np.int32))},
        "cannot be read as a sparse matrix",
    ),
    "matrix with wild pointers": (
        lambda f: {"features": broken_matrix(f, indptr=np.array([0, 9, 3, 4, 5, 12]))},
        "cannot be read as a sparse matrix",
    ),
    "matrix with float indices": (
        lambda f: {"features": broken_matrix(f, indices=np.zeros(12))},
        "indices of type float64",
    ),
    "num_nodes of another graph": (lambda f: {"num_nodes": 7}, "5 rows, but num_nodes=7"),
    # labels
    "labels not there": (lambda f: {"labels": f / "y.npy"}, r"labels='.*y.npy' does not exist"),
    "labels of unknown form": (labels("y.json", "[]"), "labels='.*y.json' must be"),
    "too few labels": (labels("y.npy", Y[1:]), r"labels has shape \(4,\), but there are 5 nodes"),
    "labels below -1": (labels("y.npy", Y - 1), r"labels\[3\] is -2"),
    "whole numbers in floats": (labels("y.npy", Y * 1.0), "may be classes or targets of a"),
    "a target that is missing": (
        labels("y.npy", with_value(Y + 0.5, 2, np.nan)),
        r"node 2 of splits\['train'\] has no target \(NaN\)",
    ),
    "an infinite target": (labels("y.npy", with_value(Y + 0.5, 1, np.inf)), r"\[1, 0\] is inf"),
    "fractions as classes": (
        lambda f: {"labels": write(f, "y.npy", Y + 0.5), "task": "classes"},
        "labels holds fractions",
    ),
    "an unknown task": (lambda f: {"task": "ranking"}, "task='ranking' is not known"),
    "a label that is not there": (
        lambda f: {"labels": write(f, "y.csv", "id,kind\n0,a\n"), "label": "sort"},
        "label='sort' must name one column",
    ),
    "a label of an array": (lambda f: {"label": "kind"}, "label='kind' names a column"),
    "too few names of classes": (labels("y.csv", "label\nred\nblue\n"), "labels has 2 rows"),
    "no label at all": (labels("y.npy", Y * 0 - 1), "labels is -1 everywhere"),
    "text beside numbers": (labels("y.csv", "node,kind,size\n0,a,1\n"), "text in column 'kind'"),
    "dates as labels": (labels("y.csv", "label\n2020-01-01\n"), "of type date32"),
    "2 among 0 and 1": (labels("y.npy", HOT * 2), r"labels\[0, 0\] is 2"),
    "NaN among 0 and 1": (labels("y.npy", with_value(HOT, (2, 1), np.nan)), r"\[2, 1\] is nan"),
    "a node labelled twice": (labels("y.csv", "node,label\n1,0\n1,1\n"), "more than once"),
    "a label for nobody": (labels("y.csv", "node,label\n9,0\n"), "labels holds 9"),
    # splits
    "overlap": (splits(SPLITS | {"val": [1, 2]}), "node 2 is in the splits 'train' and 'val'"),
    "empty train": (splits({"train": [], "val": [1]}), r"splits\['train'\] is empty"),
    "no train": (splits({"val": [1]}), r"splits\['train'\] is empty"),
    "empty test": (splits(SPLITS | {"test": []}), r"splits\['test'\] is empty"),
    "empty mask": (splits({"train": np.zeros(5, bool)}), r"splits\['train'\] is empty"),
    "short mask": (splits({"train": np.ones(4, bool)}), r"mask of shape \(4,\)"),
    "split out of range": (splits({"train": [5]}), r"splits\['train'\] holds 5"),
    "split of floats": (splits({"train": [0.5]}), "node ids are whole numbers"),
    "a mask of numbers": (splits({"train": [1, 0, 1, 0, 0]}), "more than once"),
    "unlabelled node": (splits({"train": [0, 3]}), "node 3 of splits.* has no label"),
    "unknown split": (splits({"train": [0], "dev": [1]}), "splits='dev' is not known"),
    "two shares": (splits((0.5, 0.5)), "three fractions"),
    "shares above 1": (splits((0.8, 0.3, 0.1)), r"adds up to 1\.2"),
    "negative share": (splits((1.2, -0.1, -0.1)), "three fractions"),
    "no share for train": (splits((0.0, 0.5, 0.5)), r"splits\['train'\] is empty"),
    "splits nowhere": (splits("nowhere"), "neither a folder nor an .npz"),
    "split file not there": (splits({"train": "no.npy"}), r"\]='no.npy' does not exist"),
    "split file of unknown form": (
        lambda f: {"splits": {"train": write(f, "t.doc", "1")}},
        "must be a .npy",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_files_get_one_sentence(tmp_path, good, case):
    change, message = CASES[case]
    arguments = good | change(tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InputError, match=message) as caught:
        import_graph(tmp_path / "store", **arguments)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")
    assert sorted(tmp_path.iterdir()) == before


def test_an_existing_folder_is_not_touched(tmp_path, good):
    (tmp_path / "store").mkdir()
    with pytest.raises(InputError, match="already exists"):
        import_graph(tmp_path / "store", **good)
    assert list((tmp_path / "store").iterdir()) == []


def rewrite(folder, files=("features", "labels", "val"), **changes):
    """Change a header and bring all its digests up to date."""
    file = folder / "dataset.json"
    content = json.loads(file.read_text()) | changes
    content["files"] |= {f"{name}.npy": file_digest(folder / f"{name}.npy") for name in files}
    del content["digest"]
    file.write_text(json.dumps(sealed(content)))


def header(**changes):
    return lambda folder: rewrite(folder, **changes)


def array(name, content, **options):
    """What replaces an array, its digest included."""

    def damage(folder):
        np.save(folder / f"{name}.npy", content, **options)
        rewrite(folder)

    return damage


DAMAGES = {
    "no header": (lambda f: (f / "dataset.json").unlink(), "has no dataset.json"),
    "header no JSON": (lambda f: (f / "dataset.json").write_text("{"), "cannot be read as JSON"),
    "other format": (header(format="x"), "not of format"),
    "lying about features": (header(num_features=4), "says num_features=4, but the arrays have 3"),
    "lying about edges": (header(num_edges=1), "says num_edges=1"),
    "lying about splits": (header(splits={}), "says splits={}"),
    "lying about classes": (header(num_classes=2), "y runs from -1 to 2"),
    "no number of classes": (header(num_classes="three"), "num_classes='three'"),
    "split missing": (lambda f: (f / "val.npy").unlink(), "val.npy does not exist"),
    "other type": (array("features", X.astype(">f8")), "has type >f8"),
    "overlapping": (array("val", [2]), "must not overlap"),
    "objects": (array("labels", np.array([{}]), allow_pickle=True), "never unpickled"),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_a_damaged_store_gets_one_sentence(tmp_path, good, case):
    damage, message = DAMAGES[case]
    folder = import_graph(tmp_path / "store", **good)
    damage(folder)
    with pytest.raises(InputError, match=message) as caught:
        open_store(folder)
    assert "\n" not in str(caught.value)


def test_a_folder_of_something_else_gets_one_sentence(tmp_path):
    with pytest.raises(InputError, match=r"holds neither dataset\.json nor GraphSAINT's"):
        load_dataset(tmp_path)
