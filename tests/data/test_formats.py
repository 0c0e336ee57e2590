"""Formats of files: one entry adds one, and what cannot be read is refused with the list."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from bliss.data import formats, import_graph, load_dataset
from bliss.data.edges import Edges, EdgeSource, held
from bliss.errors import InputError


def json_edges(file: Path) -> EdgeSource:
    pairs = np.array(json.loads(file.read_text()))
    return held(Edges(pairs[:, 0], pairs[:, 1], None))


@pytest.fixture
def with_json(monkeypatch):
    """A format in a module of its own, and one entry."""
    module = ModuleType("bliss.data.json_format")
    module.json_edges = json_edges
    monkeypatch.setitem(sys.modules, module.__name__, module)
    added = formats.Format(endings=(".json",), edges="json_format:json_edges")
    monkeypatch.setattr(formats, "FORMATS", (*formats.FORMATS, added))


def files(folder: Path) -> tuple[Path, Path]:
    edges, x = folder / "edges.json", folder / "x.npy"
    edges.write_text(json.dumps([[0, 1], [1, 2], [2, 0]]))
    np.save(x, np.eye(3, dtype=np.float32))
    return edges, x


def test_one_entry_adds_a_format(tmp_path, with_json):
    edges, x = files(tmp_path)
    import_graph(tmp_path / "store", edges=edges, features=x)
    dataset = load_dataset(tmp_path / "store")
    assert dataset.graph.num_edges == 6  # with self-loops
    with pytest.raises(InputError, match=r"must be a \.npy, \.npz, \.csv or \.parquet file"):
        import_graph(tmp_path / "other", edges=edges, features=edges)  # edges only


def test_an_unknown_format_is_refused_with_the_list(tmp_path):
    edges, x = files(tmp_path)
    with pytest.raises(InputError, match=r"must be a \.npy, \.npz, \.csv or \.parquet file"):
        import_graph(tmp_path / "store", edges=edges, features=x)


def test_every_function_of_a_format_exists():
    for form in formats.FORMATS:
        parts = ("edges", "features", "values", "table", "graph")
        assert any(getattr(form, part) for part in parts)
        for part in parts:
            if getattr(form, part):
                assert callable(formats.reader("file", Path(f"file{form.endings[0]}"), part))
    endings = [one for form in formats.FORMATS for one in form.endings]
    assert len(endings) == len(set(endings))
