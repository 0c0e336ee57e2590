"""Validation F1 of the settings that `bliss train` may have by default, after equal seconds.

`python -m experiments.seconds.defaults times GRAPH --root DATA` measures the time of a step of
every setting; run it alone on a machine. `... defaults train GRAPH --seeds 0 1 --root DATA` trains
them for SECONDS worth of steps, which may share the machine. Results are stored in results.json
after each run, and finished runs are skipped. `... defaults page` writes defaults.md. Test nodes
are not scored.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product
from math import nan
from pathlib import Path
from statistics import mean

import msgspec
import torch

from bliss.data import Dataset, load_dataset
from bliss.storage import records
from bliss.studies.provenance import Machine, machine
from bliss.train import Stepper, TrainConfig, build_task
from bliss.train.evaluation import evaluate
from experiments.results import Part
from experiments.seconds.cases import GRAPHS as LARGE
from experiments.seconds.validate import times

HERE = Path(__file__).parent
SECONDS = 10.0
SAMPLED, EXACT, HISTORY = ("sampled", "none"), ("exact", "none"), ("exact", "nodes")
"""First hop and history."""
BASE = {"sage": EXACT, "gcn": EXACT, "gatv2": SAMPLED}
"""Those with which normalisation and dropout are compared, by network; batches of 256."""
NORMALISATIONS, DROPOUTS, BATCH_SIZES = ("none", "batch"), (0.1, 0.0), (256, 512)
Kind = tuple[str, float, str, str, int]
"""Normalisation, dropout, first hop, history and batch size."""
DEFAULTS: dict[str, Kind] = {
    "sage": ("batch", 0.0, *HISTORY, 256),
    "gcn": ("none", 0.1, *EXACT, 256),
    "gatv2": ("batch", 0.1, *SAMPLED, 256),
}
"""Those of `bliss train` for a graph without a recipe."""
NAMES = {SAMPLED: "sampled first hop", EXACT: "exact first hop", HISTORY: "history"}
FEW_LABELS = {"cora": "Cora, 140 training nodes", "citeseer": "CiteSeer, 120 training nodes"}
"""Data sets on which normalisation alone is compared."""
MANY_LABELS = {name: LARGE[name].title for name in ("ppi", "three-hops", "pubmed")}
GRAPHS = MANY_LABELS | FEW_LABELS
"""Titles of the graphs."""


class Score(records.Record, frozen=True, kw_only=True):
    """A run."""

    seed: int
    steps: int
    val_score: float


class Choice(records.Record, frozen=True, kw_only=True):
    """Settings that may be the defaults, the time of a step, and runs."""

    graph: str
    network: str
    batch_size: int
    first_hop: str
    history: str
    dropout: float = 0.1
    normalisation: str = "batch"
    setup_s: float = 0.0
    step_ms: float = 0.0
    runs: list[Score] = msgspec.field(default_factory=list)

    @property
    def key(self) -> tuple[str, str, str, float, str, str, int]:
        """What identifies a choice: graph, network and kind."""
        kind = self.normalisation, self.dropout, self.first_hop, self.history, self.batch_size
        return self.graph, self.network, *kind

    @property
    def steps(self) -> int:
        """Steps that fit into SECONDS."""
        return max(1, int(1e3 * (SECONDS - self.setup_s) / self.step_ms))

    @property
    def val_score(self) -> float:
        """Mean score over seeds."""
        return mean(run.val_score for run in self.runs)


class Choices(records.Record, frozen=True, kw_only=True):
    """All of them."""

    machine: Machine
    rows: list[Choice]


def choices(graph: str) -> Iterator[Choice]:
    """What is tried on a graph: normalisation and dropout, then first hop, history and size."""
    for network, kind in BASE.items():
        tried = list(product(NORMALISATIONS, DROPOUTS, [kind], [256]))
        tried += [("batch", 0.0, HISTORY, 256)] if network == "sage" else []
        if graph not in FEW_LABELS:
            tried += [("batch", 0.1, kind, 512)] if network != "gcn" else []
            tried += [("batch", 0.1, SAMPLED, 256)] if kind == EXACT else []
            tried += [("batch", 0.1, HISTORY, 256)] if network == "sage" else []
            tried += [("batch", 0.0, HISTORY, 512)] if network == "sage" else []
        for normalisation, dropout, (first_hop, history), batch_size in tried:
            yield Choice(
                graph=graph,
                network=network,
                batch_size=batch_size,
                first_hop=first_hop,
                history=history,
                dropout=dropout,
                normalisation=normalisation,
            )


def load(graph: str, root: Path | None) -> Dataset:
    """A graph of the table."""
    return load_dataset(graph, root) if graph in FEW_LABELS else LARGE[graph].load(root)


def config(one: Choice) -> TrainConfig:
    """Settings of a choice; all others are the defaults of `bliss train`."""
    features = "row" if one.graph in FEW_LABELS else LARGE[one.graph].settings.get("features")
    return TrainConfig.of(
        dataset=one.graph,
        features=features or "raw",
        model=one.network,
        batch_size=one.batch_size,
        first_hop=one.first_hop,
        history=one.history,
        dropout=one.dropout,
        normalisation=one.normalisation,
    )


STORED = Part(Path(__file__).parent, "defaults", Choices)


def store(one: Choice) -> None:
    """Replace a choice in the stored results."""
    found = STORED.read() if STORED.exists() else Choices(machine=machine(), rows=[])
    order = [made.key for graph in GRAPHS for made in choices(graph)]
    others = [row for row in found.rows if row.key != one.key]
    rows = sorted([*others, one], key=lambda row: order.index(row.key))
    STORED.write(msgspec.structs.replace(found, rows=rows))


def train(one: Choice, seed: int, dataset: Dataset) -> Choice:
    """Train a choice for the steps that fit, and score the last one."""
    task = build_task(config(one).with_settings(steps=one.steps, seed=seed), dataset)
    stepper = Stepper(task)
    for batch in stepper.batches():
        stepper.step(batch)
    score = Score(seed=seed, steps=one.steps, val_score=evaluate(task, ("val",))["val"])
    print(*one.key, score, flush=True)
    return msgspec.structs.replace(one, runs=[*one.runs, score])


def measure(graph: str, dataset: Dataset) -> None:
    """Time what is not stored yet."""
    known = {row.key for row in STORED.read().rows} if STORED.exists() else set()
    for one in choices(graph):
        if one.key not in known:
            times(config(one), dataset)  # loads kernels
            setup, ms = times(config(one), dataset)
            print(*one.key, f"{setup:.3f} s, {ms:.2f} ms", flush=True)
            one = msgspec.structs.replace(one, setup_s=round(setup, 4), step_ms=round(ms, 3))
            store(one)


def score(found: Choices, graph: str, network: str, kind: Kind) -> float:
    """Mean score of a choice over seeds; NaN if it was not run."""
    scores = (
        one.val_score for one in found.rows if one.runs and one.key == (graph, network, *kind)
    )
    return next(scores, nan)


def table(found: Choices, network: str) -> str:
    """Validation F1 of every choice by graph, and the mean; the best of a graph in bold."""
    kinds = dict.fromkeys(one.key[2:] for one in found.rows if one.network == network)
    shown = {
        kind: [f"{score(found, graph, network, kind):.3f}" for graph in GRAPHS] for kind in kinds
    }
    for kind, cells in shown.items():
        cells.append(f"{mean(score(found, graph, network, kind) for graph in GRAPHS):.3f}")
    best = [
        max(cell for cell in column if cell != "nan")
        for column in zip(*shown.values(), strict=True)
    ]
    lines = [f"| | {' | '.join(GRAPHS.values())} | mean |", "|---" * (2 + len(GRAPHS)) + "|"]
    for kind, cells in shown.items():
        marked = (
            f"**{cell}**" if cell == top else cell for cell, top in zip(cells, best, strict=True)
        )
        text = " | ".join(marked).replace("nan", "")
        lines.append(f"| {title(kind)}{' (default)' * (kind == DEFAULTS[network])} | {text} |")
    return "\n".join(lines)


def title(kind: Kind) -> str:
    """What a row has."""
    normalisation, dropout, *hops, batch_size = kind
    words = [NAMES[(hops[0], hops[1])]]
    words.append("batch normalisation" if normalisation == "batch" else "no normalisation")
    words.append(f"dropout {dropout:g}" if dropout else "no dropout")
    words += [f"batches of {batch_size}"] if batch_size != BATCH_SIZES[0] else []
    return ", ".join(words)


def page(found: Choices) -> str:
    """Text of defaults.md."""
    notes = (HERE / "defaults_notes.md").read_text(encoding="utf-8")
    for network in BASE:
        notes = notes.replace(f"<!-- {network} -->", table(found, network))
    return notes


def main() -> None:
    """Measure times, train what is missing, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("times", "train", "page"))
    parser.add_argument("graph", nargs="?", choices=GRAPHS)
    parser.add_argument("--root", type=Path, help="folder of data sets")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--networks", nargs="+", choices=BASE, default=list(BASE))
    parser.add_argument("--dropouts", nargs="+", type=float, default=list(DROPOUTS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.action == "page":
        (HERE / "defaults.md").write_text(page(STORED.read()), encoding="utf-8")
        return
    dataset = load(arguments.graph, arguments.root)
    if arguments.action == "times":
        measure(arguments.graph, dataset)
        return
    for seed in arguments.seeds:
        for one in STORED.read().rows:
            is_asked = one.graph == arguments.graph and one.network in arguments.networks
            is_asked = is_asked and one.dropout in arguments.dropouts
            if is_asked and seed not in {run.seed for run in one.runs}:
                store(train(one, seed, dataset))


if __name__ == "__main__":
    main()
