"""The scripts of examples/ run and learn, on small data."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SMALL = {
    "sage": ({"nodes": 600, "epochs": 3}, 0.6),  # of 5 classes
    "gatv2": ({"nodes": 600, "epochs": 12}, 0.6),  # of 4 classes
    "edge_features": ({"nodes": 600, "epochs": 15}, 0.65),  # of 2 classes
    "links": ({"nodes": 600, "epochs": 3}, 0.7),  # AUC: chance is 0.5
}


@pytest.mark.parametrize("name", SMALL)
def test_an_example_learns(name, capsys):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    options, least = SMALL[name]
    assert module.main(**options) > least
    said = capsys.readouterr().out
    assert ("AUC of other links" if name == "links" else "accuracy on other nodes") in said
