"""Claim: masses that weigh each target by its influence lower the error of the gradient.

`python -m experiments.variance.run --root DATA` runs the study of `bliss variance` for every case,
adds each result to results.json, and rewrites README.md. Finished studies are skipped.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from statistics import mean, stdev
from time import perf_counter
from typing import Any

import msgspec
import torch

from bliss.data import Dataset, load_dataset
from bliss.studies import Variance, VarianceStudy
from bliss.studies.provenance import machine
from bliss.train import resolve
from experiments.graphs import three_hops, with_large_split
from experiments.variance import results
from experiments.variance.results import HERE

STEPS, SURVEY_EVERY, EVERY = 150, 50, 49
NETWORKS: dict[str, dict[str, Any]] = {
    "sage": {"model": "sage"},
    "gatv2": {"model": "gatv2", "residual": True, "input_residual": True, "attention_dropout": 0.0},
}
COMMON = {"layers": 3, "hidden": 128, "dropout": 0.0, "lr": 0.005, "normalisation": "batch"}
COLUMNS = {
    "pladies": "pladies",
    "pladies+influence": "static+influence",
    "bliss": "node+survey",
    "bliss+influence": "node+influence+survey",
}
"""Columns of the table, and their names in the study. `bliss` is surveyed, as in training."""


@dataclass(frozen=True)
class Graphs:
    """A data set, and the budgets of SAGE; those of GATv2 are half of them."""

    load: Callable[[Path | None], Dataset]
    budgets: tuple[int, ...]
    settings: dict[str, Any]


GRAPHS = {
    "ppi": Graphs(lambda root: load_dataset("ppi", root), (2048, 1024, 512), {}),
    "pubmed": Graphs(
        lambda root: with_large_split(load_dataset("pubmed", root)),
        (1024, 512, 256),
        {"features": "row"},
    ),
    "physics": Graphs(
        lambda root: with_large_split(load_dataset("physics", root)), (1024, 512, 256), {}
    ),
    "three-hops": Graphs(lambda root: three_hops(), (4096, 2048, 1024), {}),
}
CASES = [(n, "sage", e) for n in GRAPHS for e in ("ht", "hajek")]
CASES += [(n, "gatv2", "ht") for n in GRAPHS]  # attention does not use the estimator's weights


def main() -> None:
    """Run the missing studies and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, help="folder of data sets")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    studies = results.read("gradients")
    for case in CASES:
        name = "-".join(case)
        if name not in studies:
            studies[name] = study(*case, arguments.root)
            results.write("gradients", studies)
            print(name, {k: round(v["mean"], 4) for k, v in studies[name]["r"].items()}, flush=True)
    (HERE / "README.md").write_text(page(), encoding="utf-8")


def study(name: str, network: str, estimator: str, root: Path | None) -> dict[str, Any]:
    """r of every column, and V over the limit of each layer."""
    graph, started = GRAPHS[name], perf_counter()
    budgets = tuple(b // 2 if network == "gatv2" else b for b in graph.budgets)
    config = resolve(
        dataset=name,
        sampler="pladies",
        estimator=estimator,
        budgets=budgets,
        batch_size=256,
        steps=STEPS,
        schedule="constant",
        patience=0,
        **COMMON,
        **NETWORKS[network],
        **graph.settings,
    )
    chosen = VarianceStudy(config, graph.load(root), ["static", "node"], EVERY, SURVEY_EVERY)
    measured: Variance = chosen.run()
    return {
        "dataset": name,
        "network": network,
        "estimator": estimator,
        "budgets": list(budgets),
        "r": {
            name: msgspec.to_builtins(measured.gradient_error[student])
            for name, student in COLUMNS.items()
        },
        "over_limit": {  # by layer
            name: [layer.policies[student].over_limit for layer in measured.layers]
            for name, student in COLUMNS.items()
            if student in measured.layers[0].policies
        },
        "weighted_over_limit": {
            name: [layer.policies[student].weighted_over_limit for layer in measured.layers]
            for name, student in COLUMNS.items()
            if student in measured.layers[0].policies
        },
        "machine": msgspec.to_builtins(machine()),
        "seconds": perf_counter() - started,
    }


def stored() -> list[dict[str, Any]]:
    """Stored studies, in the order of the cases."""
    studies = results.read("gradients")
    return [studies[name] for name in map("-".join, CASES) if name in studies]


def geometric_mean(values: list[float]) -> float:
    """The exponential of the mean logarithm."""
    return exp(mean(map(log, values)))


def page() -> str:
    """Text of README.md: the notes, and a table of the results."""
    found = stored()
    lines = [(HERE / "notes.md").read_text(encoding="utf-8")]
    ratios = ["pladies: with / without", "bliss: with / without", "bliss / pladies, both with"]
    lines += header("data", "network", "estimator", *COLUMNS, *ratios)
    shares: list[list[float]] = []
    for one in found:
        r = [one["r"][name]["mean"] for name in COLUMNS]
        shares.append([r[1] / r[0], r[3] / r[2], r[3] / r[1]])
        cells = [cell(one["r"][name]) for name in COLUMNS]
        estimator = "attention" if one["network"] == "gatv2" else one["estimator"]
        shown = (f"{share:.2f}" for share in shares[-1])
        lines.append(row(one["dataset"], one["network"], estimator, *cells, *shown))
    means = (f"{geometric_mean(list(column)):.2f}" for column in zip(*shares, strict=True))
    lines.append(row("geometric mean", "", "", *[""] * len(COLUMNS), *means))
    lines += ["", "V over the limit, weighted by influence, by layer, input layer first:", ""]
    names = [name for name in COLUMNS if name in found[0]["weighted_over_limit"]]
    lines += header("data", "network", "estimator", *names)
    for one in found:
        values = [one["weighted_over_limit"][name] for name in names]
        cells = [", ".join(decimals(v) for v in layers) for layers in values]
        lines.append(row(one["dataset"], one["network"], one["estimator"], *cells))
    lines += score_table() + nodewise_tables()
    facts, minutes = found[0]["machine"], sum(one["seconds"] for one in found) / 60
    machine_name, torch_version = facts["processor"], facts["torch"]
    lines.append(
        f"\n{minutes:.0f} minutes in total beside other work, one thread of {machine_name}, torch "
        f"{torch_version}."
    )
    return "\n".join(lines) + "\n"


def score_table() -> list[str]:
    """Test F1 at equal seconds."""
    found = results.read("scores")
    if not found:
        return []
    title = "Test F1 at equal seconds, mean and deviation over five seeds (milliseconds and steps):"
    lines = ["", title, "", *header("case", *next(iter(found.values())))]
    return [*lines, *(row(case, *map(score_cell, rows.values())) for case, rows in found.items())]


def nodewise_tables() -> list[str]:
    """Neighbour sampling with and without influence."""
    found = results.read("nodewise")
    if not found:
        return []
    lines = ["", "Neighbour sampling by fanouts, r and the edges of a batch:", ""]
    lines += header("case", "none", "prior", "r: with / without", "edges: with / without")
    for case, entry in found.items():
        none, prior = entry["error"]["none"], entry["error"]["prior"]
        cells = [f"{one['r']:.3f} ± {one['half']:.3f}" for one in (none, prior)]
        ratios = [f"{prior[key] / none[key]:.2f}" for key in ("r", "edges")]
        lines.append(row(case, *cells, *ratios))
    title = "Its test F1 at equal seconds, mean and deviation over five seeds:"
    lines += ["", title, "", *header("case", "none", "prior")]
    scored = {case: entry["f1"] for case, entry in found.items() if "f1" in entry}
    return [*lines, *(row(case, *map(score_cell, rows.values())) for case, rows in scored.items())]


def score_cell(one: dict[str, Any]) -> str:
    """Mean and deviation of test F1, milliseconds of a step, and the number of steps."""
    f1 = one["test_score"]
    return f"{mean(f1):.3f} ± {stdev(f1):.3f} ({one['step_ms']:.1f} ms, {one['steps']})"


def decimals(value: float | None) -> str:
    """Two decimal places, or "exact" where nothing is sampled."""
    return "exact" if value is None else f"{value:.2f}"


def cell(r: dict[str, float]) -> str:
    """r and half the width of its interval."""
    return f"{r['mean']:.3f} ± {(r['high'] - r['low']) / 2:.3f}"


def header(*names: object) -> list[str]:
    """First two lines of a table."""
    return [row(*names), "|---" * len(names) + "|"]


def row(*cells: object) -> str:
    """One line of a table."""
    return "| " + " | ".join(map(str, cells)) + " |"


if __name__ == "__main__":
    main()
