"""A data set small enough to train on in a second, and runs of it that nothing stopped."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from bliss import Graph
from bliss.data import Dataset


def make_dataset(multilabel: bool = False, nodes: int = 240) -> Dataset:
    random = np.random.default_rng(0)
    group = random.integers(0, 3, nodes)
    pairs = random.integers(0, nodes, (2, 12 * nodes))
    same = group[pairs[0]] == group[pairs[1]]
    pairs = pairs[:, same | (random.random(pairs.shape[1]) < 0.1)]
    x = torch.from_numpy(np.eye(3)[group] + random.normal(0, 1.2, (nodes, 3))).float()
    y = torch.from_numpy(group)
    if multilabel:
        y = torch.stack([y == 0, y != 1, y == 2], dim=1).float()
    order = torch.from_numpy(random.permutation(nodes))
    splits = {"train": order[:120], "val": order[120:180], "test": order[180:]}
    return Dataset(
        name="toy",
        graph=Graph.from_edge_index(pairs, nodes),
        x=x,
        y=y,
        splits=splits,
        num_classes=3,
    )


@pytest.fixture(scope="session")
def dataset() -> Dataset:
    return make_dataset()


@pytest.fixture(scope="module")
def whole(dataset: Dataset, tmp_path_factory) -> Callable[..., Path]:
    """The folder of an uninterrupted run with given changes; each is trained once per module."""
    from tests.train.runs import trained

    made: dict[str, Path] = {}

    def run(**changes) -> Path:
        key = json.dumps(changes, sort_keys=True)
        if key not in made:
            made[key] = tmp_path_factory.mktemp("whole")
            trained(dataset, made[key], **changes)
        return made[key]

    return run
