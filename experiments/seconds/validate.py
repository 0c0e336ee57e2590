"""Expected against measured order of settings at equal seconds, and the advised setting among them.

`python -m experiments.seconds.validate pilot CASE --root DATA` runs the pilot of `bliss train
--seconds 60`, measures the settings of a small grid on the same network, and times their steps; run
it alone on a machine. `... validate train CASE` trains every setting and the advised one for as
many steps as fit into 3 or 10 s, which may share the machine. On PPI, the grid is that of
experiments.seconds.run, whose times and scores are taken. Results are stored in results.json
after each run, and finished runs are skipped. `... validate page` rewrites table and
figure of docs/advice.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter

import msgspec
import scipy.stats
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, ScalarFormatter

from bliss.data import Dataset
from bliss.storage import records
from bliss.storage.files import replace_file
from bliss.studies.provenance import Machine, machine
from bliss.train import Stepper, TrainConfig, build_task, resolve
from bliss.train.evaluation import evaluate
from bliss.train.seconds.choice import PILOT, best_setting, measure_all
from bliss.train.seconds.gradient_noise import POWER, Expected, Size
from bliss.train.seconds.kinds import Kind, kinds
from bliss.train.seconds.timed_pilot import TimedPilot
from experiments.figures import GREY, ORANGE, plt
from experiments.results import Part
from experiments.seconds import results
from experiments.seconds.cases import GRAPHS, NETWORKS

PAGE = Path(__file__).parents[2] / "docs" / "advice.md"
FIGURE = PAGE.parent / "figures" / "validation.svg"
START, END = "<!-- validation: written by experiments.seconds.validate -->", "<!-- end -->"
PILOT_OF, SEED = 60.0, 0
"""Time whose pilot is run, and the seed of training."""
WARM_UP, LEAST_STEPS, LEAST_SECONDS = 2, 4, 1.0

GRID = (
    ("bliss, history", 512, 512),
    ("bliss, history", 2048, 2048),
    ("bliss", 512, 1024),
    ("neighbor, sampled first hop", 512, 8),
    ("saint-rw", 2048, 0),
    ("random-nodes", 8192, 0),
)
WIDE = (  # 8,415 features: an exact first hop takes too long
    ("bliss, sampled first hop", 512, 512),
    ("bliss, sampled first hop", 512, 1024),
    ("pladies, sampled first hop", 512, 1024),
    ("saint-rw", 1024, 0),
    ("saint-rw", 4096, 0),
    ("random-nodes", 2048, 0),
)
CASES = {
    "ppi": ("ppi", "sage", (), results.GRID_SECONDS),
    "ppi-gatv2": ("ppi", "gatv2", (), results.GRID_SECONDS),
    "three-hops": ("three-hops", "sage", GRID, 3),
    "pubmed": ("pubmed", "sage", GRID, 3),
    "physics": ("physics", "sage", WIDE, 10),
}
"""Graph, network, settings (kind, batch size, budget of each layer) and seconds of training of each
case; without settings, those of experiments.seconds.run."""
KIND_OF = {
    "bliss+history": "bliss, history",
    "pladies+history": "pladies, history",
    "vrgcn": "vrgcn",
    "bliss": "bliss, sampled first hop",
    "bliss+exact": "bliss",
    "pladies": "pladies, sampled first hop",
    "pladies+exact": "pladies",
    "neighbor": "neighbor, sampled first hop",
    "neighbor+exact": "neighbor",
    "saint-rw": "saint-rw",
    "cluster": "cluster",
    "random-nodes": "random-nodes",
    "full": "full",
}
"""Kind of each sampler of experiments.seconds.run."""
TITLES = {
    "ppi": "PPI, GraphSAGE",
    "three-hops": "synthetic, 200,000 nodes, GraphSAGE",
    "pubmed": "PubMed, GraphSAGE",
    "physics": "Physics, GraphSAGE",
    "ppi-gatv2": "PPI, GATv2",
}


class Row(records.Record, frozen=True, kw_only=True):
    """A setting: what the pilot expects of it, and what it reaches."""

    kind: str
    batch_size: int
    budget: int
    gradient_error: float  # expected r
    setup_s: float
    step_ms: float
    is_advised: bool = False
    steps: int = 0
    val_score: float | None = None
    test_score: float | None = None

    @property
    def cost(self) -> float:
        """What the pilot minimises, with the measured time of a step."""
        return Expected(self.step_ms, self.gradient_error).cost

    @property
    def key(self) -> tuple[str, Size]:
        """What identifies a setting."""
        return self.kind, Size(self.batch_size, self.budget)


class Case(records.Record, frozen=True, kw_only=True):
    """All settings of a case."""

    name: str
    pilot_seconds: float
    rows: list[Row]


class Validation(records.Record, frozen=True, kw_only=True):
    """All cases."""

    machine: Machine
    cases: list[Case]


STORED = Part(Path(__file__).parent, "validation", Validation)


def store(case: Case) -> None:
    """Replace a case in the stored results."""
    found = STORED.read() if STORED.exists() else Validation(machine=machine(), cases=[])
    others = [one for one in found.cases if one.name != case.name]
    order = list(CASES)
    cases = sorted([*others, case], key=lambda one: order.index(one.name))
    STORED.write(msgspec.structs.replace(found, cases=cases))


def load(name: str, root: Path | None) -> tuple[Dataset, dict[str, object]]:
    """Data set and settings of a case."""
    graph, network, _, _ = CASES[name]
    settings = {"dataset": graph, **GRAPHS[graph].settings, **NETWORKS[network]}
    return GRAPHS[graph].load(root), settings


def rows_of_grid(name: str) -> list[Row]:
    """Times and scores of experiments.seconds.run, for a case without settings of its own."""
    graph, network, own, _ = CASES[name]
    if own:
        return []
    found = results.STORED.read()
    return [
        Row(
            kind=KIND_OF[run.sampler],
            batch_size=run.batch_size,
            budget=run.budget,
            gradient_error=0.0,
            setup_s=found.time(run).setup_s,
            step_ms=found.time(run).step_ms,
            steps=run.steps,
            val_score=run.val_score,
            test_score=run.test_score,
        )
        for run in found.runs
        if (run.graph, run.network) == (graph, network)
        and (run.seconds, run.seed) == (results.GRID_SECONDS, results.GRID_SEED)
        and run.sampler in KIND_OF
    ]


def times(config: TrainConfig, dataset: Dataset) -> tuple[float, float]:
    """Seconds before the first step, and mean milliseconds of the others."""
    task = build_task(config.with_settings(steps=10**9), dataset)
    started = perf_counter()
    stepper = Stepper(task)
    batches = stepper.batches()
    stepper.step(next(batches))
    first = perf_counter() - started
    for _ in range(WARM_UP):
        stepper.step(next(batches))
    taken: list[float] = []
    while len(taken) < LEAST_STEPS or sum(taken) < LEAST_SECONDS:
        started = perf_counter()
        stepper.step(next(batches))
        taken.append(perf_counter() - started)
    step = sum(taken) / len(taken)
    return max(first - step, 0.0), 1e3 * step


def pilot(name: str, root: Path | None) -> Case:
    """Run the pilot, let it choose, and measure the settings of the grid in the same way.

    Times and scores that are stored stay.
    """
    stored = STORED.read().cases if STORED.exists() else []
    known = {row.key: row for row in rows_of_grid(name)}
    known |= {row.key: row for case in stored if case.name == name for row in case.rows}
    dataset, settings = load(name, root)
    number = len(dataset.splits["train"])
    offered = kinds(settings, dataset, number, PILOT * PILOT_OF)
    task = build_task(resolve(**settings), dataset)
    started = perf_counter()
    made = TimedPilot(offered, task, PILOT * PILOT_OF, perf_counter)
    made.train()
    made.refer()
    measure_all(made)
    kind, size = best_setting(made.model(), offered)
    taken = perf_counter() - started
    wanted = {(one, Size(batch, budget)): False for one, batch, budget in CASES[name][2]}
    wanted |= dict.fromkeys((row.key for row in rows_of_grid(name)), False)
    made.kinds = kinds(settings, dataset, number, float("inf"))
    wanted[kind, size] = True
    made.seconds *= 10  # more draws of the grid than a pilot would make
    for one, own in wanted:
        made.measure(made.kinds[one], own, must=True)
    model, rows = made.model(), []
    for (one, own), is_advised in wanted.items():
        row = known.get((one, own))
        if row is None:
            setup, ms = times(made.kinds[one].at(own), dataset)
            row = Row(
                kind=one,
                batch_size=own.batch_size,
                budget=own.budget,
                gradient_error=0.0,
                setup_s=setup,
                step_ms=ms,
            )
        error = model.expect(one, own).error
        rows.append(msgspec.structs.replace(row, gradient_error=error, is_advised=is_advised))
        print(name, one, tuple(own), is_advised, f"r {error:.3g}, {row.step_ms:.1f} ms", flush=True)
    return Case(name=name, pilot_seconds=taken, rows=rows)


def train(row: Row, offered: Mapping[str, Kind], dataset: Dataset, seconds: float) -> Row:
    """Train a setting for the steps that fit, and evaluate the last one."""
    steps = max(1, int(1e3 * (seconds - row.setup_s) / row.step_ms))
    config = offered[row.kind].at(Size(row.batch_size, row.budget))
    config = config.with_settings(steps=steps, schedule="linear", seed=SEED)
    task = build_task(config, dataset)
    stepper = Stepper(task)
    for batch in stepper.batches():
        stepper.step(batch)
    scores = evaluate(task, ("val", "test"))
    print(row.kind, row.batch_size, row.budget, steps, scores, flush=True)
    return msgspec.structs.replace(
        row, steps=steps, val_score=scores["val"], test_score=scores["test"]
    )


def scored(case: Case) -> list[tuple[Row, float]]:
    """Settings that were trained, with their validation scores."""
    return [(row, row.val_score) for row in case.rows if row.val_score is not None]


def spearman(case: Case, power: float = POWER) -> float:
    """Rank correlation of expected speed, 1 / cost, and validation score over the settings.

    power: exponent of 1 + r in the cost.
    """
    rows = scored(case)
    speed = [-row.step_ms * (1 + row.gradient_error) ** power for row, _ in rows]
    return float(scipy.stats.spearmanr(speed, [score for _, score in rows]).statistic)


def table(found: Validation) -> str:
    """Rank correlations, the advised setting and the best one of every case."""
    heads = ["graph, network", "seconds", "settings", "rho", "with 1/2", "with 1"]
    heads += ["advised", "F1", "best of all", "F1"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for case in found.cases:
        rows = scored(case)
        advised = next(row for row in case.rows if row.is_advised)
        best, _ = max(rows, key=lambda one: one[1])
        cells = [TITLES[case.name], f"{CASES[case.name][3]}", f"{len(rows)}"]
        cells += [f"{spearman(case, power):.2f}" for power in (POWER, 0.5, 1.0)]
        for row in (advised, best):
            score = "not run" if row.val_score is None else f"{row.val_score:.3f}"
            cells += [_described(row), score]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(found: Validation) -> Figure:
    """Validation score over expected cost, a panel for each case; what was advised in colour."""
    plot, panels = plt.subplots(1, len(found.cases), figsize=(11, 2.6))
    for axes, case in zip(panels, found.cases, strict=True):
        for is_advised, colour, size in ((False, GREY, 14), (True, ORANGE, 60)):
            shown = [(row.cost, s) for row, s in scored(case) if row.is_advised == is_advised]
            axes.scatter(*zip(*shown, strict=True), color=colour, s=size, zorder=2 + is_advised)
        axes.set_xscale("log")
        axes.set_title(TITLES[case.name].replace(", 200,000 nodes", ""), fontsize=9)
        axes.tick_params(labelsize=8, which="both")
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("validation F1", fontsize=9)
    plot.supxlabel("expected cost, ms (1 + r)^(3/4)", fontsize=9, color=GREY)
    plot.tight_layout()
    return plot


def _described(row: Row) -> str:
    return f"{row.kind}, {row.batch_size:,}" + (f" / {row.budget:,}" if row.budget else "")


def page(text: str, found: Validation) -> str:
    """A page with the table between the marks."""
    before, _, rest = text.partition(START)
    after = rest.partition(END)[2]
    return f"{before}{START}\n\n{table(found)}\n\n{END}{after}"


def main() -> None:
    """Run the pilot of a case, train its settings, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("pilot", "train", "page"))
    parser.add_argument("case", nargs="?", choices=CASES)
    parser.add_argument("--root", type=Path, help="folder of data sets")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.action == "pilot":
        store(pilot(arguments.case, arguments.root))
    elif arguments.action == "train":
        dataset, settings = load(arguments.case, arguments.root)
        offered = kinds(settings, dataset, len(dataset.splits["train"]), float("inf"))
        (case,) = (one for one in STORED.read().cases if one.name == arguments.case)
        for number, row in enumerate(case.rows):
            if row.val_score is None:
                rows = [
                    *case.rows[:number],
                    train(row, offered, dataset, CASES[case.name][3]),
                    *case.rows[number + 1 :],
                ]
                case = msgspec.structs.replace(case, rows=rows)
                store(case)
    else:
        found = STORED.read()
        replace_file(PAGE, page(PAGE.read_text(encoding="utf-8"), found).encode())
        plot = draw(found)
        plot.savefig(FIGURE, metadata={"Date": None})
        plt.close(plot)


if __name__ == "__main__":
    main()
