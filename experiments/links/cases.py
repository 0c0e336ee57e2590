"""Graphs, networks and samplers whose links are predicted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bliss.data import Dataset, load_dataset
from bliss.train import TrainConfig, resolve
from experiments.links import graphs


@dataclass(frozen=True)
class Case:
    """A data set and the settings that are the same for all of its runs."""

    dataset: str
    load: Callable[[Path | None], Dataset]
    settings: dict[str, Any]
    seeds: range
    variants: dict[str, dict[str, Any]] = field(default_factory=lambda: {"bliss": {}})
    """Settings of each run of a seed, by name."""


def _planetoid(name: str) -> Case:
    return Case(name, lambda root: load_dataset(name, root), {**SHALLOW}, range(5))


SHALLOW: dict[str, Any] = {
    "model": "gcn",
    "layers": 1,
    "hidden": 128,
    "lr": 0.03,
    "dropout": 0.5,
    "features": "row",
    "batch_size": 2048,
    "sampler": "bliss",
    "budgets": (2000,),
    "steps": 300,
    "evaluate_every": 20,
    "select": "average_precision",
}
"""Of Cora, CiteSeer and PubMed."""
LIGHT: dict[str, Any] = {
    "model": "lightgcn",
    "embedding": 64,
    "layers": 2,
    "self_loops": "remove",
    "dropout": 0.0,
    "bipartite": True,
    "link_loss": "softmax",
    "sampler": "full",
    "candidates": "all",
    "select": "recall",
    "test_messages": "train+val",
}
"""Of graphs of users and items, which have no features."""
SAMPLERS: dict[str, dict[str, Any]] = {
    "bliss": {"sampler": "bliss", "budgets": (2048, 2048), "first_hop": "sampled"},
    "pladies": {"sampler": "pladies", "budgets": (2048, 2048)},
    "neighbor": {"sampler": "neighbor", "budgets": (5, 5)},
    "full": {"sampler": "full"},
}
EXCLUDED = ("reverse", "none")
SECONDS = 8.0
"""Time of the steps of each run of "seconds"."""
CASES = {
    "cora": _planetoid("cora"),
    "citeseer": _planetoid("citeseer"),
    "pubmed": _planetoid("pubmed"),
    "gowalla": Case(
        "Gowalla",
        lambda root: graphs.load("Gowalla", root),
        LIGHT
        | {"negatives": 16, "batch_size": 8192, "lr": 0.01, "steps": 1200, "schedule": "linear"},
        range(1),
        {"full": {"evaluate_every": 1200}},
    ),
    "movies": Case(
        "MovieTweetings",
        lambda root: graphs.load("MovieTweetings", root),
        LIGHT | {"split": "time", "negatives": 16, "batch_size": 4096, "lr": 0.01, "steps": 150},
        range(3),
        {"full": {"evaluate_every": 30}},
    ),
    "leak": Case(
        "cora",
        lambda root: load_dataset("cora", root),
        {
            "model": "sage",
            "layers": 2,
            "hidden": 128,
            "lr": 0.005,
            "dropout": 0.5,
            "features": "row",
            "batch_size": 512,
            "sampler": "full",
            "steps": 300,
            "evaluate_every": 30,
        },
        range(3),
        {exclude: {"exclude": exclude} for exclude in EXCLUDED},
    ),
    "seconds": Case(
        "pubmed",
        lambda root: load_dataset("pubmed", root),
        {
            "model": "sage",
            "layers": 2,
            "hidden": 128,
            "lr": 0.01,
            "dropout": 0.2,
            "features": "row",
            "batch_size": 512,
            "evaluate_every": 100,
        },
        range(3),
        {
            f"{name}, {exclude}": {**own, "exclude": exclude}
            for name, own in SAMPLERS.items()
            for exclude in EXCLUDED
        },
    ),
}


def config(case: str, variant: str, seed: int, **more: Any) -> TrainConfig:
    """Settings of a run."""
    own = CASES[case]
    given = {"dataset": own.dataset, "task": "link", **own.settings, **own.variants[variant]}
    return resolve(**{**given, "seed": seed, **more})
