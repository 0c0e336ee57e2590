"""ogbn-arxiv and ogbn-products, from the text files that OGB publishes.

The package `ogb` is not needed; it would cache the data as a pickle. Reading ogbn-products
takes long: import it into a store if you open it often.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bliss.data.dataset import SPLITS, Dataset
from bliss.data.edges import undirected
from bliss.data.features import finite_rows
from bliss.data.sources import ogbn_files
from bliss.data.tables import read_matrix
from bliss.errors import InputError


def read_ogbn(name: str, folder: Path, seed: int) -> Dataset:
    """Read a folder of OGB. The graph is made undirected, as in OGB's own baselines."""
    edge, feature, label, *ids = (folder / file for file in ogbn_files(name))
    pairs = read_matrix(edge, np.int64)
    (x,) = finite_rows("node-feat", [read_matrix(feature, np.float32)])
    y = read_matrix(label, np.int64)[:, 0].copy()
    if pairs.shape[1] != 2 or len(x) != len(y):
        raise InputError(f"the files in {folder} do not fit together: download them again.")
    splits = {
        key: np.sort(read_matrix(file, np.int64)[:, 0])
        for key, file in zip(SPLITS, ids, strict=True)
    }
    return Dataset.of_arrays(name, undirected(pairs.T, len(y)), x, y, splits, int(y.max()) + 1)
