"""Write README.md and the figures from notes.md and the results of all cases."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

from matplotlib.ticker import LogLocator

from bliss.storage import records
from bliss.studies.curves import mean_and_deviation
from experiments.figures import COLOURS, plt
from experiments.payoff.advised import Advised
from experiments.payoff.noise import Errors
from experiments.payoff.run import CASES, HERE, Case, Cell, Cells
from experiments.payoff.times import Times

TITLES = {
    "ppi-sage": "PPI, GraphSAGE, 3 layers of 256, batches of 512, 500 steps",
    "ppi-gatv2": "PPI, GATv2, 3 layers of 256, batches of 512, 300 steps",
    "physics-sage": "Physics, GraphSAGE, 3 layers of 64, batches of 256, 40 steps",
    "three-hops-sage": "Synthetic graph of 200,000 nodes, GraphSAGE, 3 layers of 128, 250 steps",
}
LEAST_RANGE = 0.2
"""Least range of F1 that a figure shows, so that scatter does not look like a difference."""


def load(name: str) -> tuple[list[Cell], dict[tuple[str, float], float]]:
    """Cells of a case, and the milliseconds of a step by sampler and share."""
    folder = HERE / "results"
    cells = [
        cell
        for path in sorted(folder.glob(f"{name}.json")) + sorted(folder.glob(f"{name}.part*.json"))
        for cell in records.read(path, Cells, "run it again").cells
    ]
    timed = folder / f"{name}-times.json"
    found = records.read(timed, Times, "run it again").times if timed.exists() else []
    return cells, {(one.sampler, one.share): one.step_ms for one in found}


def gradient_errors(name: str) -> dict[tuple[str, float], float]:
    """r by sampler and share, if it was measured."""
    path = HERE / "results" / f"{name}-noise.json"
    found = records.read(path, Errors, "run it again").errors if path.exists() else []
    return {(one.sampler, one.share): one.error for one in found}


def table(name: str, case: Case) -> str:
    """Test F1 of each sampler by share, with the milliseconds of a step."""
    (cells, ms), errors = load(name), gradient_errors(name)
    shares = [share for share in case.shares if any(cell.share == share for cell in cells)]
    lines = [f"## {TITLES[name]}", ""]
    lines += [
        f"Share 1: {case.budget:,} sources per sampled layer, {case.fanout} neighbours per target "
        f"(vrgcn {case.fanout // 2}), {case.roots:,} walks. Test F1, mean and standard deviation "
        "over seeds; below it the milliseconds of a step and the gradient error r of a pilot.",
        "",
        "| | " + " | ".join(f"{share:g}" for share in shares) + " |",
        "|---" * (len(shares) + 1) + "|",
    ]
    for sampler in case.samplers:
        row = []
        for share in shares:
            scores = [c.test_score for c in cells if (c.sampler, c.share) == (sampler, share)]
            if not scores:
                row.append("")
                continue
            average, deviation = mean_and_deviation(scores)
            text = f"{average:.4f}" + (f" ± {deviation:.4f}" if len(scores) > 1 else "")
            facts = [f"{ms[key]:.0f} ms"] if (key := (sampler, share)) in ms else []
            facts += [f"r {errors[key]:.2g}"] if key in errors else []
            row.append("<br>".join([text, *([", ".join(facts)] if facts else [])]))
        if any(row):
            lines.append(f"| `{sampler}` | " + " | ".join(row) + " |")
    seeds = sorted({cell.seed for cell in cells})
    lines += ["", f"Seeds: {', '.join(map(str, seeds))}.", ""]
    if ms:
        lines += [f"![Test F1 over seconds of training, a line per sampler.]({name}.svg)", ""]
    return "\n".join(lines)


def share_for(cells: list[Cell], sampler: str, target: float) -> float | None:
    """Smallest share at which the mean test F1 reaches a target; None if it never does.

    Between two measured shares, F1 is linear in the logarithm of the share.
    """
    known = sorted({cell.share for cell in cells if cell.sampler == sampler})
    scores = [
        mean(c.test_score for c in cells if (c.sampler, c.share) == (sampler, s)) for s in known
    ]
    if not known or max(scores) < target:
        return None
    place = next(n for n, score in enumerate(scores) if score >= target)
    if place == 0:
        return known[0]
    part = (target - scores[place - 1]) / (scores[place] - scores[place - 1])
    return float(known[place - 1] * (known[place] / known[place - 1]) ** part)


def equal_score(name: str, case: Case) -> str:
    """Shares that other samplers need for the F1 of PLADIES, less half a point."""
    cells, _ = load(name)
    others = [one for one in case.samplers if one.startswith("bliss")]
    lines = [
        "Share that a sampler needs for the F1 of PLADIES less half a point, interpolated:",
        "",
        "| PLADIES at share | F1 less half a point | "
        + " | ".join(f"`{o}`" for o in others)
        + " |",
        "|---" * (len(others) + 2) + "|",
    ]
    for share in sorted(case.shares)[1:]:
        scores = [c.test_score for c in cells if (c.sampler, c.share) == ("pladies", share)]
        if scores:
            target = mean(scores) - 0.005
            found = [share_for(cells, one, target) for one in others]
            least = min(case.shares)
            shown = [
                "never" if one is None else f"at most {one:.3g}" if one == least else f"{one:.2g}"
                for one in found
            ]
            lines.append(f"| {share:g} | {target:.4f} | " + " | ".join(shown) + " |")
    return "\n".join([*lines, ""])


def figure(name: str, path: Path) -> None:
    """Test F1 over seconds of training, a point per budget."""
    case = CASES[name]
    cells, ms = load(name)
    steps = case.settings["steps"]
    plot, axes = plt.subplots(figsize=(7.2, 4.2))
    for sampler in case.samplers:
        points = []
        for share in case.shares:
            scores = [c.test_score for c in cells if (c.sampler, c.share) == (sampler, share)]
            if scores and (sampler, share) in ms:
                points.append((ms[sampler, share] * steps / 1e3, mean(scores)))
        if points:
            seconds, scores = zip(*points, strict=True)
            style = {"color": COLOURS[sampler], "marker": "o", "markersize": 4}
            width = 2.4 if "+" in sampler else 1.4
            axes.plot(seconds, scores, label=sampler, linewidth=width, **style)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(LogLocator(subs=(2, 3, 5)))
    axes.xaxis.set_minor_formatter("{x:g}")
    lowest, highest = axes.get_ylim()
    axes.set_ylim(min(lowest, highest - LEAST_RANGE), highest)
    axes.set_xlabel("seconds of training (one thread)")
    axes.set_ylabel("test F1")
    axes.set_title(TITLES[name], fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="lower right")
    plot.tight_layout()
    plot.savefig(path, metadata={"Date": None})
    plt.close(plot)


def advised() -> str:
    """Samplers at the budgets of `bliss advise`."""
    path = HERE / "results" / "ppi-sage-advised.json"
    lines = [
        "## PPI, GraphSAGE, at the unequal budgets that `bliss advise` finds for each",
        "",
        "Trained as above; timed in a run of their own, in turn (`experiments.payoff.advised`).",
        "",
        "| | budgets | ms a step | test F1 |",
        "|---|---|---|---|",
    ]
    for row in records.read(path, Advised, "run it again").rows:
        text = ""
        if row.test_score:
            average, deviation = mean_and_deviation(row.test_score)
            text = f"{average:.4f} ± {deviation:.4f}"
        budgets = ", ".join(map(str, row.budgets))
        lines.append(f"| `{row.name}` | {budgets} | {row.step_ms:.0f} | {text} |")
    return "\n".join([*lines, ""])


def page() -> str:
    """Text of README.md: the notes, and the tables of all cases."""
    parts = [(HERE / "notes.md").read_text(encoding="utf-8")]
    for name, case in CASES.items():
        parts += [table(name, case), equal_score(name, case)]
    parts.append(advised())
    return "\n".join(parts)


def main() -> None:
    """Write README.md and the figures."""
    (HERE / "README.md").write_text(page(), encoding="utf-8")
    for name in CASES:
        figure(name, HERE / f"{name}.svg")
    figure("ppi-sage", HERE.parents[1] / "docs" / "figures" / "payoff.svg")


if __name__ == "__main__":
    main()
