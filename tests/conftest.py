"""Graphs and runs that several test files share, and where real graphs are found."""

from __future__ import annotations

import gc
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from bliss import Graph
from bliss.data import Dataset
from tests.build import make_dataset

if TYPE_CHECKING:
    from playwright.sync_api import Browser

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def pytest_collection_finish() -> None:
    freeze()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if nextitem is None or nextitem.path != item.path:
        freeze()


def freeze() -> None:
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
def dataset() -> Dataset:
    """240 nodes in three classes."""
    return make_dataset()


@pytest.fixture(scope="session")
def whole(dataset: Dataset, tmp_path_factory) -> Callable[..., Path]:
    """The folder of an uninterrupted run with given changes; each is trained once."""
    from tests.train.runs import trained

    made: dict[str, Path] = {}

    def run(**changes) -> Path:
        key = json.dumps(changes, sort_keys=True)
        if key not in made:
            made[key] = tmp_path_factory.mktemp("whole")
            trained(dataset, made[key], **changes)
        return made[key]

    return run


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


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium; without it the tests fail in CI and are skipped elsewhere."""
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        if os.environ.get("CI"):
            pytest.fail(f"CI needs a browser, and none of {', '.join(BROWSERS)} is installed")
        pytest.skip("these tests open pages in a browser: install Debian's package chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()
