"""The small data set of the training tests, and settings that train on it in a second."""

from __future__ import annotations

from typing import Any

import pytest

from bliss.data import Dataset
from tests.train.conftest import make_dataset

SMALL: dict[str, Any] = {
    "dataset": "toy",
    "layers": 2,
    "hidden": 16,
    "budgets": (60, 30),
    "batch_size": 40,
    "steps": 20,
    "lr": 0.02,
    "evaluate_every": 10,
}


@pytest.fixture(scope="session")
def dataset() -> Dataset:
    return make_dataset()
