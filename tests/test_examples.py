"""The scripts of examples/ run and learn, on small data."""

from __future__ import annotations

import difflib
import importlib.util
from pathlib import Path

import pytest
from torch_geometric import typing as pyg

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SMALL = {
    "sage": ({"nodes": 600, "epochs": 3}, 0.6),  # of 5 classes
    "gatv2": ({"nodes": 600, "epochs": 12}, 0.6),  # of 4 classes
    "edge_features": ({"nodes": 600, "epochs": 15}, 0.65),  # of 2 classes
    "neighbor_loader": ({"nodes": 600, "epochs": 3}, 0.6),  # of 5 classes
    "neighbor_loader_bliss": ({"nodes": 600, "epochs": 3}, 0.6),
    "typed": ({"papers": 600, "epochs": 5}, 0.6),  # of 4 classes
    "links": ({"nodes": 600, "epochs": 3}, 0.7),  # AUC: chance is 0.5
    "links_blockwise": ({"users": 600, "items": 300, "epochs": 2}, 0.2),  # recall: chance is 0.067
}


@pytest.mark.parametrize("name", SMALL)
def test_an_example_learns(name, capsys):
    if name == "neighbor_loader" and not (pyg.WITH_PYG_LIB or pyg.WITH_TORCH_SPARSE):
        compile((EXAMPLES / f"{name}.py").read_text(encoding="utf-8"), name, "exec")
        pytest.skip("NeighborLoader needs pyg-lib or torch-sparse")
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    options, least = SMALL[name]
    assert module.main(**options) > least
    shown = {"links": "AUC of other links", "links_blockwise": "recall@20 among all items"}
    assert shown.get(name, "accuracy on other nodes") in capsys.readouterr().out


def test_a_script_with_neighbor_loader_changes_in_five_lines():
    before, after = (
        (EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines()
        for name in ("neighbor_loader", "neighbor_loader_bliss")
    )
    changes = [line for line in difflib.ndiff(before, after) if line[:1] in "+-" and line[2:]]
    assert len([line for line in changes if line.startswith("+")]) == 5
    assert len([line for line in changes if line.startswith("-")]) <= 5
