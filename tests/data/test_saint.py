"""Any folder in GraphSAINT's form loads, and a damaged one says what is wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse

from bliss import InputError
from bliss.data import describe, load_dataset

RAW = np.array([[1.0, 5], [3, 5], [2, 6], [10, 5]])
ROLE = {"tr": [1, 0], "va": [2], "te": [3]}


@pytest.fixture()
def folder(tmp_path):
    place = tmp_path / "Mine" / "raw"
    place.mkdir(parents=True)
    pairs = ([0, 1, 2, 3], [1, 0, 3, 3])
    scipy.sparse.save_npz(
        place / "adj_full.npz", scipy.sparse.csr_matrix((np.ones(4, bool), pairs), (4, 4))
    )
    np.save(place / "feats.npy", RAW)
    put(place, "class_map.json", {"0": 0, "1": 2, "3": 1, "2": 0})
    put(place, "role.json", ROLE)
    return place


def put(place, name, content):
    (place / name).write_text(json.dumps(content))


@pytest.mark.parametrize("above", [False, True])
def test_a_folder_loads_from_raw_or_from_above_it(folder, above):
    dataset = load_dataset(folder.parent if above else folder)
    assert dataset.name == "Mine"
    assert describe(dataset)["edges"] == 3
    assert dataset.y.tolist() == [0, 2, 0, 1]
    assert (dataset.num_classes, dataset.is_multilabel) == (3, False)
    assert {k: v.tolist() for k, v in dataset.splits.items()} == {
        "train": [0, 1],
        "val": [2],
        "test": [3],
    }
    # over nodes 0 and 1: means 2 and 5, deviations 1 and none
    assert dataset.x.tolist() == [[-1, 0], [1, 0], [0, 1], [8, 0]]


def test_lists_make_it_multi_label(folder):
    put(folder, "class_map.json", {str(i): [i % 2, 1, 0] for i in range(4)})
    dataset = load_dataset(folder)
    assert dataset.is_multilabel
    assert dataset.y[1].tolist() == [1, 1, 0]
    assert dataset.num_classes == 3


def spoil(value):
    features = RAW.copy()
    features[1, 0] = value
    return lambda f: np.save(f / "feats.npy", features)


DAMAGES = {
    "no features": (lambda f: (f / "feats.npy").unlink(), r"feats\.npy must be in .* put it there"),
    "too few rows": (lambda f: np.save(f / "feats.npy", RAW[1:]), r"feats.npy has shape \(3, 2\)"),
    "NaN": (spoil(np.nan), r"feats\.npy\[1, 0\] is nan"),
    "infinite": (spoil(np.inf), r"feats\.npy\[1, 0\] is inf"),
    "texts": (lambda f: np.save(f / "feats.npy", RAW.astype(str)), "not one of numbers"),
    "no validation": (lambda f: put(f, "role.json", {"tr": [0], "te": [1]}), "tr, va and te"),
    "overlap": (lambda f: put(f, "role.json", ROLE | {"va": [1]}), "must not overlap"),
    "stranger": (lambda f: put(f, "role.json", ROLE | {"va": [9]}), r"role.json\['va'\] holds 9"),
    "no JSON": (lambda f: (f / "role.json").write_text("["), "cannot be read as JSON"),
    "label of a stranger": (lambda f: put(f, "class_map.json", {"7": 1}), "entry for '7'"),
    "label of text": (lambda f: put(f, "class_map.json", {"0": "a"}), "entry for '0'"),
    "lists of two lengths": (
        lambda f: put(f, "class_map.json", {"0": [0, 1], "1": [0, 1, 1]}),
        "entry for '1'",
    ),
    "list of one": (
        lambda f: put(f, "class_map.json", {"0": [0, 1], "1": [1]}),
        "entry for '1'",
    ),
    "a long key": (
        lambda f: put(f, "class_map.json", {"a" * 5000: 1}),
        r"entry for 'a{36}\.\.\. that cannot be used \(.{1,80}\): give",
    ),
    "another spelling": (lambda f: put(f, "class_map.json", {"00": 1}), "is written as '0'"),
    "a node twice": (
        lambda f: (f / "class_map.json").write_text('{"0": 1, "0": 2}'),
        "the key '0' is there twice",
    ),
    "a wild class": (lambda f: put(f, "class_map.json", {"0": 10**9}), "entry for '0'"),
    "list of 2": (lambda f: put(f, "class_map.json", {"0": [0, 2]}), "0 and 1 in its lists"),
    "negative class": (lambda f: put(f, "class_map.json", {"0": -3}), "holds class -3"),
    "unlabelled": (lambda f: put(f, "class_map.json", {"0": 1}), "node 1 of .* has no label"),
    "not square": (
        lambda f: scipy.sparse.save_npz(f / "adj_full.npz", scipy.sparse.eye(4, 3, format="csr")),
        r"adj_full.npz has shape \(3, 4\)",
    ),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_damage_gets_one_sentence(folder, case):
    damage, message = DAMAGES[case]
    damage(folder)
    with pytest.raises(InputError, match=message) as caught:
        load_dataset(folder)
    assert "\n" not in str(caught.value)
