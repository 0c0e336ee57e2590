"""A small graph of one's own, and how to write it in any form."""

from __future__ import annotations

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet

SOURCE = np.array([0, 1, 2, 2, 3, 3])  # 2 -> 0 twice, 3 -> 3, node 4 alone
TARGET = np.array([1, 2, 0, 0, 3, 1])
WEIGHT = np.array([1, 2, 3, 4, 5, 6.5])
X = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
X[X < -0.5] = 0
Y = np.array([0, 2, 1, -1, 0])
HOT = np.array([[1, 0], [1, 1], [0, 0], [0, 1], [1, 0]])
SPLITS = {"train": [0, 2], "val": [1], "test": [4]}


def write(folder, name, content):
    """Write a table or an array in the form that the name's ending says."""
    file = folder / name
    if name.endswith(".npy"):
        np.save(file, content)
    elif name.endswith(".npz"):
        np.savez(file, **content)
    elif name.endswith(".parquet"):
        parquet.write_table(arrow.table(content), file)
    else:
        file.write_text(content)
    return file


def csv(*columns, header="", mark=","):
    rows = [mark.join(map(str, row)) for row in zip(*columns, strict=True)]
    return "\n".join([header, *rows] if header else rows) + "\n"
