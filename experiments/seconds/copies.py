"""How much nodes of PPI that are not for training resemble nodes that are.

`python -m experiments.seconds.copies --root DATA` prints a line for each split. PPI has a graph for
each of 24 tissues, and a protein is a node of many of them, with the same features and labels.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bliss.arrays import IntArray
from bliss.data import Dataset, load_dataset

SIMILAR = 0.9


class Copies(NamedTuple):
    """Shares of the nodes of a split."""

    same: float
    """Nodes with the features and labels of a training node, a copy."""
    similar: float
    """Nodes with a copy whose neighbours are the same, up to a Jaccard index of SIMILAR."""


def copies(dataset: Dataset, split: str) -> Copies:
    """Shares of nodes with copies; neighbours are the same if their features and labels are.

    The Jaccard index of the neighbours A of a node and B of its copy is |A and B| / |A or B|.
    """
    proteins, graph = _proteins(dataset), dataset.graph

    def neighbours(node: int) -> set[int]:
        row = slice(int(graph.indptr[node]), int(graph.indptr[node + 1]))
        return set(proteins[graph.indices[row]].tolist())

    known: defaultdict[int, list[set[int]]] = defaultdict(list)
    for node in dataset.splits["train"].tolist():
        known[proteins[node]].append(neighbours(node))
    best = []
    for node in dataset.splits[split].tolist():
        own = neighbours(node)
        shared = (len(own & one) / len(own | one) for one in known[proteins[node]])
        best.append(max(shared, default=-1))
    found = np.array(best)
    return Copies(float((found >= 0).mean()), float((found >= SIMILAR).mean()))


def _proteins(dataset: Dataset) -> IntArray:
    """A number for each combination of features and labels, [V]."""
    both = np.hstack([np.asarray(dataset.x), np.asarray(dataset.y)])
    return np.unique(both, axis=0, return_inverse=True)[1].astype(np.int64)


def main() -> None:
    """Print the shares of validation and test nodes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, help="folder of data sets")
    dataset = load_dataset("ppi", parser.parse_args().root)
    for split in ("val", "test"):
        print(split, copies(dataset, split))


if __name__ == "__main__":
    main()
