"""Graphs that several test files share, and where real ones are found."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pytest

from bliss import Graph

SLOW = (
    "data/test_importing.py",
    "data/test_imports.py",
    "data/test_named.py",
    "data/test_sorting.py",
    "data/test_synthetic.py",
    "faults/",
    "fuzz/",
    "engines/",
    "kernels/test_nodewise.py",
    "kernels/test_threads.py",
    "nn/test_compile.py",
    "nn/test_devices.py",
    "experiments/test_paper",
    "report/",
    "samplers/test_asgcn.py",
    "samplers/test_control.py",
    "samplers/test_fastgcn.py",
    "samplers/test_gcnbs.py",
    "samplers/test_graphsaint.py",
    "samplers/test_inclusion.py",
    "samplers/test_labor.py",
    "samplers/test_neighbor.py",
    "samplers/test_shard_coins.py",
    "samplers/test_sketch.py",
    "samplers/test_sampler_threads.py",
    "samplers/test_unbiased.py",
    "samplers/test_unbiased_edges.py",
    "samplers/test_variance.py",
    "studies/",
    "test_benchmarks.py",
    "test_cli.py",
    "test_cli_options.py",
    "test_cli_signals.py",
    "test_cli_studies.py",
    "test_convolutions.py",
    "test_docs.py",
    "test_examples.py",
    "test_imports.py",
    "train/",
)
"""Statistics, runs, pages and subprocesses: `make check` leaves these out."""


def is_slow(path: Path) -> bool:
    here = Path(__file__).parent
    return here in path.parents and path.relative_to(here).as_posix().startswith(SLOW)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import what `-m "not slow"` would leave out."""
    return True if config.option.markexpr == "not slow" and is_slow(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_slow(item.path):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Exempt the objects of modules from garbage collection: each training run collects."""
    gc.collect()
    gc.freeze()


def heavy_tailed_pairs(num_nodes: int, num_edges: int, seed: int = 0) -> np.ndarray:
    """Directed edges [2, E] whose ends fall on few nodes more often than on the others."""
    generator = np.random.default_rng(seed)
    chance = 1 / np.arange(1, num_nodes + 1)
    return generator.choice(num_nodes, size=(2, num_edges), p=chance / chance.sum())


@pytest.fixture(scope="session")
def toy_graph() -> Graph:
    """60 nodes, heavy-tailed, some of them with nothing but their self-loop."""
    return Graph.from_edge_index(heavy_tailed_pairs(50, 300), num_nodes=60)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of real graphs; a missing one fails under CI and skips elsewhere."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    root = Path(os.environ.get("BLISS_DATA", beside))
    if not root.is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"under CI the real graphs must be there, and {root} is not a folder")
        pytest.skip("the real graphs are not here: set BLISS_DATA to the folder that holds them")
    return root
