"""Graphs on disk: damaged folders are refused, written ones are whole."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bliss import Graph, InputError
from bliss.errors import ResourceError


@pytest.fixture()
def folder(tmp_path, toy_graph):
    toy_graph.save(tmp_path / "graph")
    return tmp_path / "graph"


def test_a_folder_written_by_hand_opens_without_a_header(folder, toy_graph):
    (folder / "graph.json").unlink()
    np.testing.assert_array_equal(Graph.open(folder, norm="gcn").indices, toy_graph.indices)


def test_an_existing_folder_is_not_overwritten(folder, toy_graph):
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(InputError, match="exists already"):
        toy_graph.save(folder)
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_failed_write_leaves_nothing_behind(tmp_path, toy_graph, monkeypatch):
    def fail(*_args, **_kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(json, "dump", fail)
    with pytest.raises(ResourceError, match="disk full"):
        toy_graph.save(tmp_path / "graph")
    assert list(tmp_path.iterdir()) == []


def truncate(folder):
    path = folder / "indices.npy"
    path.write_bytes(path.read_bytes()[:-100])


def lie(folder):
    header = json.loads((folder / "graph.json").read_text())
    (folder / "graph.json").write_text(json.dumps(header | {"num_edges": 7}))


def pickle_objects(folder):
    np.save(folder / "indices.npy", np.array([{}, []], dtype=object), allow_pickle=True)


def out_of_range(folder):
    indices = np.load(folder / "indices.npy")
    indices[0] = 10_000
    np.save(folder / "indices.npy", indices)


DAMAGES = {
    "cut short": (truncate, "indices.npy cannot be read"),
    "lying header": (lie, "says num_edges=7"),
    "pickled": (pickle_objects, "indices.npy cannot be read"),
    "out of range": (out_of_range, "indices holds 10000"),
    "missing file": (lambda f: (f / "indptr.npy").unlink(), "indptr.npy is missing"),
    "not JSON": (lambda f: (f / "graph.json").write_text("{"), "not valid JSON"),
    "other format": (lambda f: (f / "graph.json").write_text("{}"), "not of format"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_gets_one_sentence(folder, name):
    damage, message = DAMAGES[name]
    damage(folder)
    with pytest.raises(InputError, match=message) as caught:
        Graph.open(folder)
    assert "\n" not in str(caught.value)
