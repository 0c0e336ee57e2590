"""Jobs that write to a folder and go on there after any stop, each with a digest of its result.

A job of several processes belongs here, too: one entry, and every fault is tried on it.
"""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bliss.data import Dataset, import_graph, load_dataset
from bliss.studies import compare
from bliss.train import RunFolder, Trainer
from tests.build import make_dataset
from tests.fuzz.subjects import dataset_digest, digest_of
from tests.train.runs import quiet, settings

STEPS = 12  # of a run: evaluated after 4, 8 and 12


@dataclass(frozen=True)
class Job:
    """Work in a folder."""

    run: Callable[[Path], None]
    """Start the work, or go on with it."""
    digest: Callable[[Path], str]
    """Digest of the finished work, without times."""


@cache
def toy() -> Dataset:
    return make_dataset()


def training(**changes: Any) -> Job:
    config = settings(**{"steps": STEPS, "evaluate_every": 4, "policy": "node"} | changes)

    def run(folder: Path) -> None:
        Trainer(config, toy(), folder / "run", quiet).run(resume=True)

    return Job(run, lambda folder: run_digest(folder / "run"))


def run_digest(folder: Path, has_checkpoint: bool = True) -> str:
    """Digest of a finished run: result, metrics, best weights and the last checkpoint."""
    run = RunFolder(folder)
    result, best = run.result(), run.load_best()
    assert result is not None
    values = [result.test_score, result.val_score, result.best_step, result.sampled, run.metrics()]
    tensors = [best[name] for name in sorted(best)]
    steps = [line.step for line in run.times()]
    if has_checkpoint:
        checkpoint = run.load_checkpoint(quiet)
        assert checkpoint is not None
        names = sorted(name for name in checkpoint.tensors if not name.startswith("times."))
        tensors += [checkpoint.tensors[name] for name in names]
    return digest_of(*values, steps, *tensors)


@cache
def sources() -> Path:
    """A folder with the files of a graph of 3,000 nodes."""
    folder = Path(tempfile.mkdtemp(prefix="bliss-sources-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    random = np.random.default_rng(0)
    np.save(folder / "edges.npy", random.integers(0, 3000, (2, 20_000)))
    np.save(folder / "features.npy", random.standard_normal((3000, 40)).astype(np.float32))
    np.save(folder / "labels.npy", random.integers(0, 4, 3000))
    return folder


def run_import(folder: Path) -> None:
    """Import once; a store that is there is whole."""
    if not (folder / "new" / "store").exists():
        parts = {name: sources() / f"{name}.npy" for name in ("edges", "features", "labels")}
        import_graph(folder / "new" / "store", **parts)


def run_compare(folder: Path) -> None:
    given = {"dataset": toy(), "layers": 2, "hidden": 8, "batch_size": 40}
    given |= {"steps": 6, "evaluate_every": 3, "lr": 0.02}
    compare(
        given,
        ["pladies", "bliss"],
        ["sage"],
        [0],
        [1.0],
        folder / "study",
        budgets="layer=60,30",
        match="nodes",
        say=quiet,
    )


def compare_digest(folder: Path) -> str:
    study = folder / "study"
    rows = json.loads((study / "compare.json").read_text())["rows"]
    names = ("model", "sampler", "budgets", "test_score", "val_score", "nodes", "edges")
    runs = sorted(path.parent for path in study.glob("runs/*/config.json"))
    assert len(runs) == len(rows)
    return digest_of(
        [[row[name] for name in names] for row in rows],
        [run_digest(run, has_checkpoint=False) for run in runs],
    )


JOBS: dict[str, Job] = {
    "train": training(),
    "train, exp3, prefetch": training(policy="exp3", prefetch=1),
    "train, history": training(history="nodes", budgets=(30,)),
    "train, surveys": training(history="surveys", budgets=(30,)),
    "import": Job(run_import, lambda f: dataset_digest(load_dataset(f / "new" / "store"))),
    "compare": Job(run_compare, compare_digest),
}
