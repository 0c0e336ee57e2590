"""What `bliss train --seconds 30` reaches, and what it reaches with other samplers.

`python -m experiments.seconds.commands run --root DATA` runs the commands, alone on the machine
with one thread, stores each result in results.json and skips finished ones; `... commands page`
rewrites the table of docs/advice.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from time import perf_counter

from bliss.storage import records
from bliss.studies.provenance import Machine, machine
from bliss.train.results import RunResult
from experiments.results import Part
from experiments.seconds.figure import NAMES

PAGE = Path(__file__).parents[2] / "docs" / "advice.md"
START, END = (
    "<!-- commands: written by experiments.seconds.commands -->",
    "<!-- end of commands -->",
)
SECONDS, SEEDS = 30, (1, 2, 3)
MODELS = ("sage", "gatv2")
SAMPLERS = ("", "neighbor", "saint-rw")
"""Samplers that are given; the first is none: the pilot chooses."""


class Run(records.Record, frozen=True, kw_only=True):
    """A command and what came of it."""

    model: str
    given: str  # sampler that was given; "": the pilot chose
    seed: int
    sampler: str
    history: str
    batch_size: int
    budgets: list[int]
    steps: int
    wall_s: float  # of the whole process
    val_score: float
    test_score: float


class Runs(records.Record, frozen=True, kw_only=True):
    """All runs."""

    machine: Machine
    runs: list[Run]


def command(model: str, given: str) -> str:
    """The command, without its seed and folders."""
    network = "" if model == "sage" else f" --model {model}"
    sampler = f" --sampler {given}" if given else ""
    return f"bliss train --dataset ppi{network}{sampler} --seconds {SECONDS}"


def run(model: str, given: str, seed: int, root: Path) -> Run:
    """Run a command in a process of its own."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        words = [*command(model, given).split()[1:], "--seed", str(seed), "--threads", "1"]
        started = perf_counter()
        subprocess.run(
            [sys.executable, "-m", "bliss", *words, "--root", str(root), "--out", str(out)],
            check=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        wall = perf_counter() - started
        result = records.read(out / "result.json", RunResult, "run it again")
        settings = json.loads((out / "config.json").read_text(encoding="utf-8"))
    sampler = settings["sampler"]
    return Run(
        model=model,
        given=given,
        seed=seed,
        sampler=result.sampler,
        history=sampler["config"].get("history", "none"),
        batch_size=settings["training"]["batch_size"],
        budgets=sampler["budgets"] or [],
        steps=result.steps,
        wall_s=round(wall, 1),
        val_score=result.val_score,
        test_score=result.test_score,
    )


STORED = Part(Path(__file__).parent, "commands", Runs)


def read() -> Runs:
    """The stored runs; none at first."""
    return STORED.read() if STORED.exists() else Runs(machine=machine(), runs=[])


def table(found: Runs) -> str:
    """The table: a row per command."""
    lines = [
        "| command | test F1 | validation F1 | chosen | seconds |",
        "|---|---|---|---|---|",
    ]
    for model, given in product(MODELS, SAMPLERS):
        runs = [one for one in found.runs if (one.model, one.given) == (model, given)]
        if not runs:
            continue
        chosen = Counter(
            f"{NAMES[one.sampler]}{' with a history' if one.history != 'none' else ''}, "
            f"{one.batch_size}" + (f" / {one.budgets[0]}" if one.budgets else "")
            for one in runs
        )
        walls = [one.wall_s for one in runs]
        cells = [
            f"`{command(model, given)}`",
            spread([one.test_score for one in runs]),
            spread([one.val_score for one in runs]),
            "; ".join(f"{number} x {one}" for one, number in chosen.most_common()),
            f"{min(walls):.0f} to {max(walls):.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    facts = found.machine
    lines += [
        "",
        f"One thread of {facts.processor}, torch {facts.torch}, {len(SEEDS)} runs of each command.",
    ]
    return "\n".join(lines)


def spread(values: list[float]) -> str:
    """Mean and standard deviation."""
    apart = f" ± {stdev(values):.3f}" if len(values) > 1 else ""
    return f"{mean(values):.3f}{apart}"


def main() -> None:
    """Run the commands or write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["run", "page"])
    parser.add_argument("--root", type=Path, help="folder of data sets")
    arguments = parser.parse_args()
    if arguments.part == "run":
        for seed, model, given in product(SEEDS, MODELS, SAMPLERS):
            found = read()
            if (model, given, seed) not in {(one.model, one.given, one.seed) for one in found.runs}:
                runs = [*found.runs, run(model, given, seed, arguments.root)]
                STORED.write(Runs(machine=machine(), runs=runs))
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    after = rest.partition(END)[2]
    text = f"{before}{START}\n\n{table(read())}\n\n{END}{after}"
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
