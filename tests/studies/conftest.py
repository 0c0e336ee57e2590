"""The small data set of the training tests, settings for it, and studies that tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bliss.studies import Comparison, Variance, VarianceStudy, compare
from bliss.studies.comparison import runs
from bliss.train import TrainConfig

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


def quiet(_: str) -> None:
    pass


@pytest.fixture(scope="session")
def run_comparison(dataset) -> Callable[..., Comparison]:
    """`compare` on the small data set, with three seeds."""

    def run(out: Path, samplers=("bliss", "pladies"), shares=(1.0, 0.5), **options) -> Comparison:
        settings = SMALL | options.pop("settings", {})
        options = {"say": quiet} | options
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runs, "load_dataset", lambda *_, **__: dataset)
            return compare(settings, samplers, ["sage"], [0, 1, 2], shares, out, **options)

    return run


@pytest.fixture(scope="session")
def compared(run_comparison, tmp_path_factory) -> tuple[Path, Comparison]:
    """The folder of a comparison, and what `compare` returned."""
    out = tmp_path_factory.mktemp("comparison")
    return out, run_comparison(out)


@pytest.fixture(scope="session")
def surveyed(dataset) -> Variance:
    """The variance of the node bandit with and without surveys, with attention."""
    config = TrainConfig.of(**SMALL | {"steps": 40}, model="gatv2", sampler="pladies")
    return VarianceStudy(config, dataset, ["static", "node"], every=4, survey_every=10).run()


@pytest.fixture(scope="session")
def measured(dataset) -> Variance:
    """The variance of three policies over 60 steps."""
    config = TrainConfig.of(**SMALL | {"steps": 60}, sampler="pladies")
    return VarianceStudy(config, dataset, ["static", "exp3", "node"], every=10).run()
