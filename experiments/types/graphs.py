"""IMDB and ACM from their files, and a large synthetic graph with four types and ten relations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch_geometric.data import HeteroData

from bliss.data import Dataset

NODES = {"paper": 80_000, "author": 100_000, "venue": 400, "term": 19_600}
FORWARD = {  # mean number of sources of a target
    ("author", "writes", "paper"): 3,
    ("venue", "publishes", "paper"): 1,
    ("term", "describes", "paper"): 25,
    ("paper", "cites", "paper"): 6,
    ("author", "works_with", "author"): 8,
}


def _dense(arrays: Any, name: str) -> torch.Tensor:
    """Features that are stored as the parts of a CSR matrix."""
    parts = (arrays[f"x_{name}_{part}"] for part in ("data", "indices", "indptr"))
    matrix = scipy.sparse.csr_array(tuple(parts), shape=tuple(arrays[f"x_{name}_shape"]))
    return torch.from_numpy(matrix.toarray().astype(np.float32))


def _read(root: Path, name: str, types: tuple[str, ...], splits: dict[str, str]) -> Dataset:
    """A graph whose first type has labels and edges to the others, with reverse relations."""
    arrays = np.load(root / name / "data.npz")
    data, own = HeteroData(), types[0]
    for one, number in zip(types, arrays["num_nodes"].tolist(), strict=True):
        data[one].num_nodes = number
        if f"x_{one}_data" in arrays:
            data[one].x = _dense(arrays, one)
    data[own].y = torch.from_numpy(arrays[f"y_{own}"].astype(np.int64))
    for other in types[1:]:
        pairs = arrays[f"edge_{own}__{other}"].astype(np.int64)
        data[own, "to", other].edge_index = torch.from_numpy(pairs)
    ids = {split: arrays[key].astype(np.int64) for split, key in splits.items()}
    return Dataset.from_data(data, name.lower(), splits=ids, undirected=True)


def imdb(root: Path) -> Dataset:
    """Movies of three classes with directors and actors, which have no features."""
    splits = {part: f"magnn_{part}" for part in ("train", "val", "test")}
    return _read(root, "IMDB", ("movie", "director", "actor"), splits)


def acm(root: Path) -> Dataset:
    """Papers of three classes with authors, and subjects, which have no features."""
    splits = {part: f"{part}_60" for part in ("train", "val", "test")}
    return _read(root, "ACM", ("paper", "author", "subject"), splits)


def library(root: Path | None = None, seed: int = 0) -> Dataset:
    """200,000 nodes, ten relations with in-degrees from 1 to 200 on average.

    The class of a paper shows in the features of its authors and, weakly, of the papers that it
    cites. Terms are many, large and say nothing.
    """
    generator = np.random.default_rng(seed)
    topic = {name: generator.integers(0, 4, number) for name, number in NODES.items()}
    width = {"paper": 16, "author": 24, "venue": 8, "term": 12}
    signal = {"paper": 0.3, "author": 1.0, "venue": 0.2, "term": 0.0}
    data = HeteroData()
    for name, number in NODES.items():
        x = generator.normal(size=(number, width[name])).astype(np.float32)
        x[np.arange(number), topic[name]] += signal[name]
        data[name].x = torch.from_numpy(x * (3.0 if name == "term" else 1.0))
    members = {n: [np.flatnonzero(topic[n] == c) for c in range(4)] for n in NODES}
    for edge_type, degree in FORWARD.items():
        source, _, target = edge_type
        number = degree * NODES[target]
        ends = np.sort(generator.choice(NODES[target], number))
        places = (NODES[source] * generator.random(number) ** 2).astype(np.int64)  # heavy tail
        same = generator.random(number) < 0.6  # most edges are within a topic
        for c in range(4):
            own = np.flatnonzero(same & (topic[target][ends] == c))
            pool = members[source][c]
            places[own] = pool[(pool.size * generator.random(own.size) ** 2).astype(np.int64)]
        data[edge_type].edge_index = torch.from_numpy(np.stack([places, ends]))
    data["paper"].y = torch.from_numpy(topic["paper"])
    fractions = (0.05, 0.05, 0.1)
    return Dataset.from_data(data, "library", splits=fractions, undirected=True)


GRAPHS = {"imdb": imdb, "acm": acm, "library": library}
