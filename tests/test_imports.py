"""Commands and names import no more than they need; what is loaded is read from sys.modules."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from importlib import import_module

import pytest

pytestmark = pytest.mark.slow

HEAVY = {"torch", "numpy", "numba", "scipy", "torch_geometric", "matplotlib", "pyarrow"}
COMMANDS = [
    ("--help",),
    ("--version",),
    ("data", "list"),
    ("train", "--help"),
    ("train", "--dataset", "cora", "--help"),
]

MAIN = """
from bliss.__main__ import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
show_loaded()
"""


def loaded(code: str, *arguments: str) -> list[set[str]]:
    """Top-level modules that a program has imported at each of its calls of `show_loaded`."""
    return loaded_and_printed(code, *arguments)[0]


def loaded_and_printed(code: str, *arguments: str) -> tuple[list[set[str]], str]:
    """What `loaded` returns, and all that the program has printed."""
    program = "import sys\ndef show_loaded(): print('\\nloaded:', *sys.modules)\n"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program + textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    shown = re.findall("^loaded: (.*)", done.stdout, re.MULTILINE)
    return [{name.split(".")[0] for name in names.split()} for names in shown], done.stdout


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_version_and_listing_import_nothing_heavy(command):
    (found,) = loaded(MAIN, *command)
    assert "typer" in found  # the command did run
    assert not found & HEAVY


LOADER = """
    import bliss
    bliss.Bliss; bliss.Graph; bliss.BlockLoader
    show_loaded()
    import numpy as np
    import torch
    pairs = np.random.default_rng(0).integers(0, 50, (2, 300))
    graph = bliss.Graph.from_edge_index(pairs, 50)
    sampler = bliss.Bliss(graph, [20, 10])
    blocks = sampler.sample(np.arange(8), 0)
    for block in blocks:
        block.observe(torch.ones(block.num_src, 3))
    sampler.update(blocks)

    class Nodes:  # as little of PyG's Data as a loader asks for
        num_nodes = 50

        def to_dict(self):
            return {}

    loader = bliss.BlockLoader(Nodes(), sampler, np.arange(8), batch_size=8)
    show_loaded()
    next(iter(loader))
    show_loaded()
"""


def test_names_sampling_and_updating_import_no_pyg_and_the_first_batch_does():
    by_names, by_sampling, by_batch = loaded(LOADER)
    assert {"torch", "numba"} <= by_names
    assert "torch_geometric" not in by_names | by_sampling
    assert "torch_geometric" in by_batch


def test_training_imports_neither_pyg_nor_the_compiler_of_torch(tmp_path):
    code = MAIN + 'print("compiler:", "torch._dynamo" in sys.modules)'
    small = ("--steps", "2", "--budgets", "32,32,32", "--batch-size", "32", "--hidden", "8")
    found, printed = loaded_and_printed(code, "train", *small, "--out", str(tmp_path / "run"))
    assert (tmp_path / "run" / "result.json").exists()
    assert "torch" in found[0]
    assert not found[0] & {"torch_geometric", "sympy", "pandas", "matplotlib"}
    assert "compiler: False" in printed


PACKAGES = ["bliss", *(f"bliss.{p}" for p in ("data", "nn", "policies", "samplers", "train"))]


def test_packages_list_their_names_before_they_are_imported():
    names = [*PACKAGES, "bliss.studies"]
    for name, listed in zip(names, listed_names(names), strict=True):
        package = import_module(name)
        assert set(package.__all__) <= listed, name
        for one in package.__all__:
            assert getattr(package, one) is not None
        with pytest.raises(AttributeError, match=r"attribute '?nothing"):
            _ = package.nothing


def listed_names(names: list[str]) -> list[set[str]]:
    """`dir` of packages in a fresh process."""
    code = "; ".join(f"import {name}; print(*dir({name}))" for name in names)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    return [set(line.split()) for line in done.stdout.splitlines()]
