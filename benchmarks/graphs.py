"""Graphs to time on: a real topology, and power-law graphs of the size of real ones."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import scipy.sparse

from bliss import Graph


def power_law(num_nodes: int, num_edges: int, exponent: float = 2.4, seed: int = 0) -> Graph:
    """An undirected Chung-Lu graph: expected degrees fall off as rank^(-1 / (exponent - 1)).

    `num_edges` counts both directions; each node gets a self-loop besides. Node ids are shuffled,
    so that they say nothing of degrees.
    """
    generator = np.random.default_rng(seed)
    shift = 4.3e-5 * num_nodes  # the same share of hubs, and so the same degrees, at every size
    expected = (np.arange(num_nodes) + shift) ** (-1 / (exponent - 1))
    ladder = np.cumsum(expected)
    name = generator.permutation(num_nodes).astype(np.int32)

    def ends() -> np.ndarray:
        return name[np.searchsorted(ladder, generator.random(num_edges // 2) * ladder[-1])]

    one, other = ends(), ends()
    pairs = np.stack([np.concatenate([one, other]), np.concatenate([other, one])])
    return Graph.from_edge_index(pairs, num_nodes)


def flickr() -> Graph:
    """The real Flickr topology."""
    file = data_root() / "Flickr" / "raw" / "adj_full.npz"
    return Graph.from_scipy(scipy.sparse.load_npz(file))


def data_root() -> Path:
    """Folder of data sets: $BLISS_DATA, or the shared folder beside the project."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("BLISS_DATA", beside))
