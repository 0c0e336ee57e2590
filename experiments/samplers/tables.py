"""`python -m experiments.samplers.tables`: write README.md, tables.md and the figures."""

from __future__ import annotations

from pathlib import Path

from bliss.storage import records
from bliss.studies.comparison.comparison_record import Comparison, ComparisonRow
from bliss.studies.comparison.matching import Work
from bliss.studies.comparison.sizes import size_text
from experiments.figures import COLOURS, plt
from experiments.samplers.run import CASES, HERE, MATCHES, SAMPLERS, Timed

GRAPHS = {"ppi": "PPI", "pubmed": "PubMed", "physics": "Physics", "three-hops": "three hops"}
NETWORKS = {"sage": "GraphSAGE", "gatv2": "GATv2"}
UNITS = {"edges": "edges", "ms": "milliseconds"}
TARGET = 0.95
"""Share of the validation F1 of full neighbourhoods whose time is reported."""
SHOWN = ("bliss+history", "bliss", "pladies", "vrgcn", "neighbor", "labor-*", "saint-rw", "full")
"""Samplers in the figures."""


PICTURES = ("ppi-sage", "three-hops-sage")
"""Cases with a figure."""


class Found:
    """A finished case: its comparison, and the work of a step by sampler on an idle machine."""

    def __init__(self, case: str, match: str) -> None:
        self.case, self.match = case, match
        folder, remedy = HERE / "results", "run it again"
        self.comparison = records.read(folder / f"{case}-{match}.json", Comparison, remedy)
        sizes = records.read(folder / f"{case}-{match}-sizes.json", Timed, remedy)
        self.works: dict[str, Work] = sizes.works
        self.rows = {row.sampler: row for row in self.comparison.rows}

    def matched(self, sampler: str) -> float:
        """Work of a step over that of BLISS."""
        own, first = self.works[sampler], self.works["bliss"]
        return float(getattr(own, self.match) / getattr(first, self.match))

    def curve(self, sampler: str) -> tuple[list[float], list[float]]:
        """Seconds of training steps on an idle machine, and mean validation F1."""
        curve, ms = self.rows[sampler].curve, self.works[sampler].ms
        return [step * ms / 1e3 for step in curve.step], list(curve.val_score)

    def seconds_to_target(self, sampler: str) -> float | None:
        """Seconds of steps until the mean validation F1 first reaches the target."""
        target = TARGET * max(self.rows["full"].curve.val_score)
        seconds, scores = self.curve(sampler)
        return next((s for s, f1 in zip(seconds, scores, strict=True) if f1 >= target), None)


def load() -> list[Found]:
    """All cases that are finished."""
    results = HERE / "results"
    return [
        Found(case, match)
        for case in CASES
        for match in MATCHES
        if (results / f"{case}-{match}.json").exists()
    ]


def summary(found: list[Found], network: str) -> list[str]:
    """Test F1 of every sampler with a network; the best, and what is tied with it, in bold."""
    own = [one for one in found if one.case.endswith(f"-{network}")]
    heads = [f"{GRAPHS[one.case.removesuffix('-' + network)]}, {one.match}" for one in own]
    lines = [f"## {NETWORKS[network]}", "", "| | " + " | ".join(heads) + " |"]
    lines.append("|---" * (len(own) + 1) + "|")
    for sampler in SAMPLERS[network]:
        cells = [_score(one, sampler) for one in own]
        lines.append(f"| `{sampler}` | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _score(one: Found, sampler: str) -> str:
    row = one.rows.get(sampler)
    if row is None:
        return ""
    mark = "" if sampler == "full" or abs(one.matched(sampler) - 1) <= 0.1 else "†"
    score = f"{row.test_score:.3f}{mark}"
    best = min(r.rank for name, r in one.rows.items() if r.rank is not None and name != "full")
    return f"**{score}**" if row.rank is not None and row.rank <= best else score


def details(one: Found) -> list[str]:
    """All numbers of one comparison."""
    made, rows = one.comparison, one.comparison.rows
    facts, config = made.machine, CASES[one.case].settings
    graph, network = one.case.rsplit("-", 1)
    lines = [
        f"## {GRAPHS[graph]}, {NETWORKS[network]}, equal {UNITS[one.match]}",
        "",
        f"    python -m experiments.samplers.run sizes {one.case} {one.match} --root DATA",
        f"    {made.command} --root DATA",
        "",
        f"{config['steps']} steps, evaluated every {config['evaluate_every']}; "
        f"{facts.processor}, {facts.threads} thread, torch {facts.torch}, {made.date[:10]}; "
        f"seeds {', '.join(map(str, made.seeds))}; estimator {made.estimator}.",
        "",
        f"| sampler | size | test F1 | rank | {UNITS[one.match]} over `bliss` | ms | nodes "
        f"| edges | s to {TARGET:.0%} of full |",
        "|---" * 9 + "|",
        *(_line(one, row) for row in rows),
        "",
        *(f"- {skipped.sampler}: {skipped.why}" for skipped in made.skipped),
        "",
    ]
    return lines


def _line(one: Found, row: ComparisonRow) -> str:
    waited, rank = one.seconds_to_target(row.sampler), f"{row.rank}{'=' if row.is_tied else ''}"
    size = size_text(row.unit, row.budgets or [row.batch_size])
    score = f"{row.test_score:.4f} ± {row.test_score_interval or 0:.4f}"
    return (
        f"| `{row.sampler}` | {size} | {score} | {rank} "
        f"| {one.matched(row.sampler):.2f} | {one.works[row.sampler].ms:.1f} | {row.nodes:,.0f} "
        f"| {row.edges:,.0f} | {'never' if waited is None else f'{waited:.1f}'} |"
    )


def figure(one: Found, path: Path) -> None:
    """Validation F1 over the seconds of training steps."""
    fig, axes = plt.subplots(figsize=(6, 3.6))
    for sampler in SHOWN:
        if sampler in one.rows:
            axes.plot(
                *one.curve(sampler), "o-", color=COLOURS[sampler], label=sampler, markersize=3
            )
    axes.set(xlabel="seconds of training steps", ylabel="validation F1", xscale="log")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=7, frameon=False)
    fig.tight_layout()
    fig.savefig(path, metadata={"Date": None})
    plt.close(fig)


def pages(found: list[Found]) -> dict[str, str]:
    """Texts of README.md and tables.md."""
    notes = (HERE / "notes.md").read_text(encoding="utf-8").rstrip()
    networks = [name for name in NETWORKS if any(one.case.endswith(f"-{name}") for one in found)]
    parts = [line for network in networks for line in summary(found, network)]
    for case in PICTURES:
        parts += [f"![validation F1 over time, {case}]({case}.svg)", ""]
    lines = ["# Comparison of all samplers, all numbers", ""]
    lines += [line for one in found for line in details(one)]
    return {"README.md": "\n".join([notes, "", *parts]), "tables.md": "\n".join(lines)}


def main() -> None:
    """Write the pages and the figures."""
    found = load()
    for name, text in pages(found).items():
        (HERE / name).write_text(text, encoding="utf-8")
    for one in found:
        if one.match == "ms" and one.case in PICTURES:
            figure(one, HERE / f"{one.case}.svg")


if __name__ == "__main__":
    main()
