"""Names are listed without the import of any heavy package."""

from __future__ import annotations

import subprocess
import sys

import pytest

import bliss
import bliss.data

pytestmark = pytest.mark.slow

HEAVY = {"torch", "torch_geometric", "numba", "scipy", "matplotlib", "pyarrow", "pooch", "requests"}
STATEMENTS = [
    "import bliss",
    "import bliss.data",
    "from bliss.data import dataset_names, data_root; dataset_names('nowhere'); data_root()",
    "from bliss import InputError, __version__",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_listing_names_imports_nothing_heavy(statement):
    code = f"import sys; {statement}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert HEAVY.isdisjoint(run.stdout.split())


@pytest.mark.parametrize("module", [bliss, bliss.data], ids=lambda module: module.__name__)
def test_every_public_name_is_there(module):
    for name in module.__all__:
        assert getattr(module, name) is not None
        assert name in dir(module)
    with pytest.raises(AttributeError, match=r"attribute '?nothing"):
        _ = module.nothing
