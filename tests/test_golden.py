"""Draws, training curves and learnt states stay as they were: digests of them, kept in golden.json.

Digests are of bytes, so there is one for each kind of machine: processor, torch, NumPy and numba.
On a machine without digests, sums may be rounded differently. A coin may then fall on the
other side of its probability, and what is learnt from it differs in all later steps. Counts and
sums must agree to CLOSE there.

`python -m tests.test_golden` records the digests of this machine. After a change that is meant to
give different numbers, run it on a recorded machine and say in the commit which cases have changed
and why: digests of other machines are removed for these cases.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import torch

from bliss import Graph
from bliss.samplers import Sampler
from tests.build import make_dataset, make_sampler
from tests.conftest import heavy_tailed_pairs
from tests.statistics import heavy_tailed_graph

FILE = Path(__file__).parent / "golden.json"
STEPS = 4
CLOSE = 0.03
"""Largest relative difference between kinds of machines. Between two processors it was 0.007, for
gat-bs; between versions of numba it is larger."""
PACKAGES = {"torch": torch, "NumPy": np, "numba": numba}
BANDITS = ("uniform", "ladies", "static", "exp3", "exp3-released", "exp3-scale-free", "node")
CASES: dict[str, dict[str, Any]] = {
    **{f"{s}/{p}": {"policy": p} for s in ("ladies", "pladies", "bliss") for p in BANDITS},
    "sketch": {},
    "bliss/history": {"history": "nodes", "layers": 3},
    "pladies/first-hop": {"first_hop": "exact", "layers": 3},
    "ladies/replace": {"replace": True},
    "bliss/released": {"policy": "exp3-released", "estimator": "released", "thinning": "paper"},
    "neighbor/uniform": {"policy": "uniform"},
    "neighbor/static": {"policy": "static"},
    "neighbor/replace": {"policy": "static", "replace": True},
    "gcn-bs/exp3m": {"policy": "exp3m"},
    "gcn-bs/exp3": {"policy": "exp3-single"},
    "gcn-bs/thanos": {"reward": "thanos", "estimator": "plain"},
    "gat-bs/exp3m": {},
    **{name: {} for name in ("labor-0", "labor-1", "labor-*", "fastgcn", "asgcn", "vrgcn", "full")},
    **{name: {} for name in ("cluster", "saint-node", "saint-edge", "saint-rw")},
}
CURVES = {
    "sage": {"model": "sage", "sampler": "bliss"},
    "gcn": {"model": "gcn", "sampler": "bliss"},
    "gat": {"model": "gat", "sampler": "bliss"},
    "gatv2": {"model": "gatv2", "sampler": "bliss", "normalisation": "batch"},
    "exp3": {"model": "gatv2", "sampler": "bliss", "policy": "exp3-released"},
    "prefetch": {"model": "sage", "sampler": "bliss", "prefetch": 1},
    "survey": {"model": "gatv2", "sampler": "bliss", "survey": True},
    "survey, prefetch": {"model": "sage", "sampler": "bliss", "survey": True, "prefetch": 1},
    "vrgcn": {"model": "sage", "sampler": "vrgcn"},
    "history": {"model": "sage", "sampler": "bliss", "history": "nodes", "budgets": (20,)},
    "saint-rw": {"model": "sage", "sampler": "saint-rw"},
    "sampled": {"model": "sage", "sampler": "labor-1", "evaluate": "sampled", "evaluate_draws": 1},
}


@cache
def graphs() -> dict[str, Graph]:
    pairs = heavy_tailed_pairs(1500, 20_000)
    return {
        "weights": heavy_tailed_graph("weights"),
        "mean": Graph.from_edge_index(pairs, 1500),
        "gcn": Graph.from_edge_index(pairs, 1500, norm="gcn"),
    }


def arrays_of_draws(sampler: Sampler, with_attention: bool) -> Iterator[np.ndarray]:
    """A few steps of sampling and learning: every block, then the learnt state."""
    for step in range(STEPS):
        seeds = np.random.default_rng(step).permutation(sampler.graph.num_nodes)[:16]
        blocks = sampler.sample(seeds, step)
        for layer, block in enumerate(blocks):
            yield from (
                getattr(block, name).numpy()
                for name in ("dst", "src", "indptr", "row", "edge", "edge_prob", "edge_weight")
            )
            x = 1.0 + torch.stack([(block.src * (layer + 1 + k)) % 7 for k in (0, 3)], dim=1)
            attention = softmax(block) if with_attention else None
            block.observe(x, attention)
        sampler.update(blocks)
    state = sampler.state_dict()
    yield from (state[name].numpy() for name in sorted(state) if not name.startswith("pending"))


def softmax(block: Any) -> torch.Tensor:
    """Attention that depends on both ends of an edge. [E', 2]."""
    score = torch.stack([(block.edge % 5), (block.src[block.row] % 3)], dim=1).float().exp()
    total = torch.zeros(block.num_dst, 2).index_add(0, block.col, score)
    return score / total[block.col]


def arrays_of_training(settings: dict[str, Any]) -> Iterator[np.ndarray]:
    """A short run: its metrics, its weights and what its sampler has learnt."""
    from bliss.train import Trainer, resolve

    budgets = {"vrgcn": (2,), "saint-rw": (), "labor-1": (3, 3)}
    config = resolve(
        hidden=8, heads=2, layers=2, steps=9, batch_size=24, evaluate_every=3, dropout=0.3,
        **{"budgets": budgets.get(settings["sampler"], (40, 20)), "survey": False}
        | {"normalisation": "none"} | settings,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(config, make_dataset(), Path(folder) / "run", lambda text: None)
        trainer.run()
        lines = (Path(folder) / "run" / "metrics.jsonl").read_text().splitlines()
    for line in map(json.loads, lines):
        yield np.array([line[key] for key in ("step", "loss", "train_score", "val_score")])
    yield from (weight.numpy() for weight in trainer.task.model.state_dict().values())
    state = trainer.stepper.sampler.state_dict()
    yield from (state[name].numpy() for name in sorted(state) if not name.startswith("pending"))


def summary(arrays: Iterator[np.ndarray]) -> dict[str, Any]:
    digest, count, total = hashlib.blake2b(digest_size=12), 0, 0.0
    for array in arrays:
        if array.dtype.kind in "iu":  # how a number is stored is no part of it
            array = array.astype(np.int64)
        digest.update(str((array.dtype, array.shape)).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
        count += array.size
        total += float(np.abs(array.astype(np.float64)).sum())
    return {"digest": digest.hexdigest(), "count": count, "sum": total}


def machine() -> str:
    """What decides how sums are rounded: processor, its vector instructions, versions.

    Kernels that check indices are not vectorised, so `make bounds` counts as another machine.
    """
    info = Path("/proc/cpuinfo")
    text = info.read_text().split("\n\n")[0] if info.exists() else ""
    facts = dict(re.split(r"\s*: ?", line, maxsplit=1) for line in text.splitlines())
    wide = [flag for flag in ("avx2", "avx512f") if flag in facts.get("flags", "").split()]
    kind = [facts.get(name, "") for name in ("model name", "cpu family", "model")]
    versions = [f"{name} {package.__version__}" for name, package in PACKAGES.items()]
    checks = ["bounds"] if os.environ.get("NUMBA_BOUNDSCHECK") else []
    return " ".join([*kind, *wide, *versions, *checks])


def cases() -> list[str]:
    draws = [f"{c} {g} {a}" for c in CASES for g in ("weights", "mean") for a in ("norms", "both")]
    more = [f"{case} gcn both" for case in ("pladies/static", "bliss/node", "asgcn", "labor-1")]
    return [*draws, *more, *(f"training {name}" for name in CURVES)]


def measured(case: str) -> dict[str, Any]:
    torch.set_num_threads(1)
    if case.startswith("training "):
        return summary(arrays_of_training(CURVES[case.removeprefix("training ")]))
    name, graph, shown = case.split(" ")
    sampler = make_sampler(name.split("/")[0], graphs()[graph], seed=11, width=2, **CASES[name])
    return summary(arrays_of_draws(sampler, shown == "both"))


@cache
def recorded() -> dict[str, Any]:
    return json.loads(FILE.read_text())


@pytest.mark.parametrize("case", cases())
def test_numbers_are_as_they_were(case):
    found, before = measured(case), recorded()[case]
    if machine() in before["digests"]:
        assert found["digest"] == before["digests"][machine()]
    assert found["count"] == pytest.approx(before["count"], rel=CLOSE)
    assert found["sum"] == pytest.approx(before["sum"], rel=CLOSE)


def test_a_changed_case_forgets_the_digests_of_other_machines():
    def with_digest(digest: str) -> dict[str, Any]:
        return {"digest": digest, "count": 1, "sum": 1.0}

    before = {"digests": {"here": "a", "there": "b"}, "count": 1, "sum": 1.0}
    assert merged(before, with_digest("a"), "here")["digests"] == {"here": "a", "there": "b"}
    assert merged(before, with_digest("c"), "here")["digests"] == {"here": "c"}
    assert merged(before, with_digest("c"), "new")["digests"] == before["digests"] | {"new": "c"}


def merged(before: dict[str, Any] | None, found: dict[str, Any], kind: str) -> dict[str, Any]:
    """The record of a case with the digest of this kind of machine."""
    known = dict(before["digests"]) if before else {}
    if known.get(kind, found["digest"]) != found["digest"]:
        known = {}
    sizes = {name: found[name] for name in ("count", "sum")}
    return {"digests": known | {kind: found["digest"]}, **sizes}


if __name__ == "__main__":
    known = recorded() if FILE.exists() else {}
    content = {case: merged(known.get(case), measured(case), machine()) for case in cases()}
    FILE.write_text(json.dumps(content, indent=1) + "\n")
