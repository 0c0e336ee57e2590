"""Graph stores: opened by mapping, checked when opened, written completely or not at all."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bliss import Graph, InputError
from bliss.data import open_graph, save_graph, store
from bliss.errors import ResourceError
from bliss.storage.digests import sealed


@pytest.fixture()
def folder(tmp_path, toy_graph):
    save_graph(toy_graph, tmp_path / "graph")
    return tmp_path / "graph"


def is_mapped(array):
    while isinstance(array, np.ndarray) and not isinstance(array, np.memmap):
        array = array.base
    return isinstance(array, np.memmap)


@pytest.mark.parametrize("norm", ["mean", "gcn", "weights"])
def test_a_saved_graph_is_mapped_and_equal(tmp_path, toy_graph, norm):
    weight = np.linspace(0, 1, toy_graph.num_edges) if norm == "weights" else None
    graph = Graph.from_csc(
        toy_graph.indptr, toy_graph.indices, weight, norm, self_loops="keep", duplicates="keep"
    )
    save_graph(graph, tmp_path / "graph")
    opened = open_graph(str(tmp_path / "graph"))
    assert is_mapped(opened.indices)
    assert not is_mapped(graph.indices)
    assert opened.norm == norm
    for name in ("indptr", "indices", "weight"):
        np.testing.assert_array_equal(getattr(opened, name), getattr(graph, name))


def test_a_folder_written_by_hand_opens_without_a_header(folder, toy_graph):
    (folder / "graph.json").unlink()
    opened = open_graph(folder, norm="gcn")
    assert opened.norm == "gcn"
    np.testing.assert_array_equal(opened.indices, toy_graph.indices)


def test_an_existing_folder_is_not_overwritten(folder, toy_graph):
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(InputError, match="already exists"):
        save_graph(toy_graph, folder)
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_failed_write_leaves_nothing_behind(tmp_path, toy_graph, monkeypatch):
    def fail(*_args, **_kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(store, "write_header", fail)
    with pytest.raises(ResourceError, match="disk full"):
        save_graph(toy_graph, tmp_path / "graph")
    assert list(tmp_path.iterdir()) == []


def by_hand(damage):
    """Damage a folder that has no header, and so no digests."""

    def spoil(folder):
        (folder / "graph.json").unlink()
        damage(folder)

    return spoil


@by_hand
def truncate(folder):
    path = folder / "indices.npy"
    path.write_bytes(path.read_bytes()[:-100])


def lie(folder):
    header = json.loads((folder / "graph.json").read_text()) | {"num_edges": 7}
    del header["digest"]
    (folder / "graph.json").write_text(json.dumps(sealed(header)))


@by_hand
def pickle_objects(folder):
    np.save(folder / "indices.npy", np.array([{}, []], dtype=object), allow_pickle=True)


@by_hand
def out_of_range(folder):
    indices = np.load(folder / "indices.npy")
    indices[0] = 10_000
    np.save(folder / "indices.npy", indices)


@by_hand
def falling_pointers(folder):
    indptr = np.load(folder / "indptr.npy")
    indptr[1] = indptr[-1]
    np.save(folder / "indptr.npy", indptr)


DAMAGES = {
    "truncated": (truncate, "indices.npy cannot be read"),
    "lying header": (lie, "says num_edges=7"),
    "pickled": (pickle_objects, "indices.npy cannot be read"),
    "index out of range": (out_of_range, "indices holds 10000"),
    "pointers that fall": (falling_pointers, "indptr runs from 0"),
    "missing file": (by_hand(lambda f: (f / "indptr.npy").unlink()), "indptr.npy is missing"),
    "not JSON": (lambda f: (f / "graph.json").write_text("{"), "cannot be read as JSON"),
    "a key twice": (
        lambda f: (f / "graph.json").write_text('{"format": 1, "format": 2}'),
        "the key 'format' is there twice",
    ),
    "nested JSON": (
        lambda f: (f / "graph.json").write_text("[" * 100_000),
        "cannot be read as JSON",
    ),
    "other format": (lambda f: (f / "graph.json").write_text("{}"), "not of format"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_gets_one_sentence(folder, name):
    damage, message = DAMAGES[name]
    damage(folder)
    with pytest.raises(InputError, match=message) as caught:
        open_graph(folder)
    assert "\n" not in str(caught.value)


def test_a_path_that_is_no_folder_gets_one_sentence():
    with pytest.raises(InputError, match="'nowhere' is not a folder"):
        open_graph("nowhere")
