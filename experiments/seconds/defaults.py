"""Validation F1 of the settings that `bliss train` may have by default, after equal seconds.

`python -m experiments.seconds.defaults times GRAPH --root DATA` measures the time of a step of
every setting; run it alone on a machine. `... defaults train GRAPH --seeds 0 1 --root DATA` trains
them for SECONDS worth of steps, which may share the machine. Results are stored in results.json
after each run, and finished runs are skipped. `... defaults page` rewrites the table of
docs/choose.md. Test nodes are not scored.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from statistics import mean

import msgspec
import torch

from bliss.data import Dataset
from bliss.storage import records
from bliss.storage.files import replace_file
from bliss.studies.provenance import Machine, machine
from bliss.train import Stepper, TrainConfig, build_task
from bliss.train.evaluation import evaluate
from experiments.results import Part
from experiments.seconds.cases import GRAPHS
from experiments.seconds.validate import times

PAGE = Path(__file__).parents[2] / "docs" / "choose.md"
START, END = "<!-- defaults: written by experiments.seconds.defaults -->", "<!-- end -->"
SECONDS = 10.0
BATCH_SIZES = (256, 512)
DROPOUTS = (0.1, 0.0)
"""The default, and none, with which a history takes less time."""
SAMPLED = ("sampled", "none")
LINEAR = (SAMPLED, ("exact", "none"), ("exact", "nodes"))
"""First hop and history of networks with fixed coefficients."""
NETWORKS = {"sage": LINEAR, "gcn": LINEAR, "gatv2": (SAMPLED,)}
TITLES = {"sage": "GraphSAGE", "gcn": "GCN", "gatv2": "GATv2"}
NAMES = {
    ("sampled", "none"): "sampled first hop",
    ("exact", "none"): "exact first hop",
    ("exact", "nodes"): "history",
}


class Score(records.Record, frozen=True, kw_only=True):
    """A run."""

    seed: int
    steps: int
    val_score: float


class Choice(records.Record, frozen=True, kw_only=True):
    """Settings that may be the default, the time of a step, and runs; all else is the default."""

    graph: str
    network: str
    batch_size: int
    first_hop: str
    history: str
    dropout: float = 0.1
    setup_s: float = 0.0
    step_ms: float = 0.0
    runs: list[Score] = msgspec.field(default_factory=list)

    @property
    def key(self) -> tuple[str, str, float, str, str, int]:
        """What identifies a choice."""
        kind = self.dropout, self.first_hop, self.history
        return self.graph, self.network, *kind, self.batch_size

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
    """What is tried on a graph."""
    for network, dropout in product(NETWORKS, DROPOUTS):
        kinds = NETWORKS[network] if dropout else NETWORKS[network][-2:]
        for (first_hop, history), batch_size in product(kinds, BATCH_SIZES):
            yield Choice(
                graph=graph,
                network=network,
                batch_size=batch_size,
                first_hop=first_hop,
                history=history,
                dropout=dropout,
            )


def config(one: Choice) -> TrainConfig:
    """Settings of a choice: the defaults of `bliss train` for a graph without a recipe."""
    features = GRAPHS[one.graph].settings.get("features", "raw")
    return TrainConfig.of(
        dataset=one.graph,
        features=features,
        model=one.network,
        batch_size=one.batch_size,
        first_hop=one.first_hop,
        history=one.history,
        dropout=one.dropout,
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


def table(found: Choices) -> str:
    """Validation F1 of every choice; the best of a graph and network in bold."""
    kinds = [(hop, size) for hop in LINEAR for size in BATCH_SIZES]
    head = [f"{NAMES[hop]}, {size}" for hop, size in kinds]
    lines = [f"| graph, network | {' | '.join(head)} | seeds |", "|---" * (2 + len(head)) + "|"]
    for graph in dict.fromkeys(row.graph for row in found.rows):
        for network, dropout in product(NETWORKS, DROPOUTS):
            rows = {
                ((row.first_hop, row.history), row.batch_size): row
                for row in found.rows
                if (row.graph, row.network, row.dropout) == (graph, network, dropout) and row.runs
            }
            if rows:
                best = f"{max(row.val_score for row in rows.values()):.3f}"
                shown = [f"{rows[kind].val_score:.3f}" if kind in rows else "" for kind in kinds]
                numbers = sorted({len(row.runs) for row in rows.values()})
                shown = [f"**{text}**" if text == best else text for text in shown]
                title = f"{GRAPHS[graph].title}, {TITLES[network]}"
                title += "" if dropout else ", no dropout"
                seeds = " or ".join(map(str, numbers))
                lines.append(f"| {title} | {' | '.join(shown)} | {seeds} |")
    return "\n".join(lines)


def page(text: str, found: Choices) -> str:
    """A page with the table between the marks."""
    before, _, rest = text.partition(START)
    after = rest.partition(END)[2]
    return f"{before}{START}\n\n{table(found)}\n\n{END}{after}"


def main() -> None:
    """Measure times, train what is missing, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("times", "train", "page"))
    parser.add_argument("graph", nargs="?", choices=GRAPHS)
    parser.add_argument("--root", type=Path, help="folder of data sets")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--dropouts", nargs="+", type=float, default=list(DROPOUTS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.action == "page":
        replace_file(PAGE, page(PAGE.read_text(encoding="utf-8"), STORED.read()).encode())
        return
    dataset = GRAPHS[arguments.graph].load(arguments.root)
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
