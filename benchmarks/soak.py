"""Whether a long run keeps its memory, files, threads and policy within bounds.

A training run on a graph of 240 nodes, with the trainer, loader, prefetching thread, surveys,
evaluations and checkpoints of any other run. A reading is taken at regular steps; the first tenth
of the run is left to warm up, and later readings are compared with those after it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from bliss import Graph
from bliss.data import Dataset
from bliss.kernels.node_bandit import CODE_OF_ONE, CODES_PER_UNIT
from bliss.samplers import Sampler
from bliss.train import StepProgress, Trainer, resolve

NODES = 240
READINGS = 100
SETTINGS: dict[str, Any] = {
    "dataset": "toy",
    "model": "gatv2",  # the policy follows sizes and attention
    "layers": 2,
    "hidden": 16,
    "normalisation": "none",
    "heads": 2,
    "budgets": (60, 30),
    "batch_size": 40,
    "dropout": 0.1,
    "prefetch": 1,
}
GROWTH_MB = 16.0
"""Growth of the process after warm-up that is still called constant, in MB."""


def run(steps: int = 100_000) -> dict[str, Any]:
    """Train for `steps` steps; returns what is written as JSON."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        curve = soak(steps, Path(folder) / "run")
    verdict = judge(curve)
    print(verdict, flush=True)
    settings = SETTINGS | {"steps": steps, "nodes": NODES, "threads": 1}
    return {"settings": settings, "verdict": verdict, "curve": curve}


def soak(steps: int, out: Path) -> list[dict[str, float]]:
    """Readings of one run, `READINGS` of them or one per step."""
    every = max(1, steps // READINGS)
    config = resolve(**SETTINGS, steps=steps, evaluate_every=max(1, every // 2))
    trainer = Trainer(config, make_dataset(), out, say=lambda _: None)
    curve: list[dict[str, float]] = []
    started = perf_counter()

    def read(now: StepProgress) -> None:
        nonlocal started
        if now.step % every:
            return
        taken = perf_counter() - started
        curve.append(
            {
                "step": now.step,
                "loss": now.loss,
                "val_score": now.val_score,
                "step_ms": taken / every,
            }
            | process()
            | {"folder_kb": sum(p.stat().st_size for p in out.rglob("*") if p.is_file()) / 1e3}
            | policy(trainer.stepper.sampler)
        )
        curve[-1]["step_ms"] *= 1e3
        started = perf_counter()

    trainer.run(on_step=read)
    return curve


def process() -> dict[str, float]:
    """Resident memory in MB, threads and open files of this process (Linux)."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return {
        "rss_mb": pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
        "threads": len(os.listdir("/proc/self/task")),
        "files": len(os.listdir("/proc/self/fd")) - 1,  # without the one that lists them
    }


def policy(sampler: Sampler) -> dict[str, float]:
    """Range of the learnt log factors of nodes, and learnt numbers that are not finite.

    News that waits to be applied is left out: NaN stands for a score that was not observed there.
    """
    learnt = {k: v for k, v in sampler.state_dict().items() if not k.startswith("pending.")}
    state = {name: tensor.numpy() for name, tensor in learnt.items()}
    codes = np.concatenate([v for k, v in state.items() if k.endswith(".code")]).astype(int)
    factor = (codes - CODE_OF_ONE) / CODES_PER_UNIT
    floats = [array for array in state.values() if array.dtype.kind == "f"]
    return {
        "factor_least": float(factor.min()),
        "factor_mean": float(factor.mean()),
        "factor_most": float(factor.max()),
        "not_finite": sum(int((~np.isfinite(array)).sum()) for array in floats),
    }


def judge(curve: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Growth after the first tenth of the readings, and whether all of it is within bounds."""
    settled = curve[len(curve) // 10 :]
    tenth = max(1, len(settled) // 10)

    def mean(name: str, part: Sequence[dict[str, float]]) -> float:
        return float(np.mean([reading[name] for reading in part]))

    first, last = settled[:tenth], settled[-tenth:]
    found: dict[str, Any] = {
        "rss_growth_mb": round(mean("rss_mb", last) - mean("rss_mb", first), 2),
        "step_time_ratio": round(mean("step_ms", last) / mean("step_ms", first), 3),
        "threads": sorted({reading["threads"] for reading in settled}),
        "files": sorted({reading["files"] for reading in settled}),
        "not_finite": max(reading["not_finite"] for reading in curve),
        "factor_range": [
            min(reading["factor_least"] for reading in settled),
            max(reading["factor_most"] for reading in settled),
        ],
    }
    found["held"] = (
        found["rss_growth_mb"] <= GROWTH_MB
        and len(found["threads"]) == len(found["files"]) == 1
        and found["not_finite"] == 0
    )
    return found


def make_dataset() -> Dataset:
    """Three communities with noisy features."""
    random = np.random.default_rng(0)
    group = random.integers(0, 3, NODES)
    pairs = random.integers(0, NODES, (2, 12 * NODES))
    is_within = group[pairs[0]] == group[pairs[1]]
    pairs = pairs[:, is_within | (random.random(pairs.shape[1]) < 0.1)]
    x = np.eye(3)[group] + random.normal(0, 1.2, (NODES, 3))
    x *= random.lognormal(0, 0.7, (NODES, 1))
    order = torch.from_numpy(random.permutation(NODES))
    return Dataset(
        name="toy",
        graph=Graph.from_edge_index(pairs, NODES),
        x=torch.from_numpy(x).float(),
        y=torch.from_numpy(group),
        splits={"train": order[:120], "val": order[120:180], "test": order[180:]},
        num_classes=3,
    )
