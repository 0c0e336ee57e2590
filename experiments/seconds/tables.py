"""`python -m experiments.seconds.tables`: write the page and the figure."""

from __future__ import annotations

from statistics import mean, stdev

from scipy.stats import ttest_ind

from experiments.seconds import figure, record, results
from experiments.seconds.cases import GRAPHS, SAMPLERS, TITLES
from experiments.seconds.record import Record
from experiments.seconds.results import GRID_SECONDS, GRID_SEED, HERE, Results, key

PPI, SECONDS = "ppi", (10, 30, 100)
SHORT = 30
"""Seconds of training in the first paragraphs of pages."""
MARK = "<!-- tables -->"
"""In the notes, the place of figure and scores, and then of the runs of the record."""
LEVEL = 0.05
"""Level of the tests that call a tie."""


def ties(scores: dict[str, list[float]]) -> set[str]:
    """The best sampler and those that do not differ from it significantly.

    Two samplers differ if Welch's t-test over seeds has p < LEVEL. Samplers with fewer than three
    seeds are not compared.
    """
    known = {name: values for name, values in scores.items() if len(values) > 2}
    if len(known) < 2:
        return set()
    best = max(known, key=lambda name: mean(known[name]))
    tied = {
        name
        for name, values in known.items()
        if ttest_ind(values, known[best], equal_var=False).pvalue >= LEVEL
    }
    return tied | {best}


def score_text(values: list[float], is_tied: bool) -> str:
    """Mean and standard deviation of scores, bold if tied with the best; "" without scores."""
    if not values:
        return ""
    text = f"{mean(values):.3f}" + (f" ± {stdev(values):.3f}" if len(values) > 1 else "")
    return f"**{text}**" if is_tied else text


def cell(test: list[float], validation: list[float], is_tied: bool) -> str:
    """Scores on test nodes, and the mean of those on validation nodes."""
    return f"{score_text(test, is_tied)} ({mean(validation):.3f})" if test else "-"


def columns(found: Results, network: str) -> list[tuple[str, int]]:
    """Graphs and seconds with a finished run of a chosen size."""
    return [
        (graph, seconds)
        for graph in GRAPHS
        for seconds in (SECONDS if graph == PPI else (SHORT,))
        if any(found.scores(graph, network, sampler, seconds) for sampler in SAMPLERS[network])
    ]


def summary(found: Results, network: str) -> list[str]:
    """Scores of every sampler by graph and seconds; nothing without runs."""
    shown = columns(found, network)
    if not shown:
        return []

    def scores(split: str) -> dict[tuple[str, int], dict[str, list[float]]]:
        return {
            (graph, seconds): {
                sampler: list(found.scores(graph, network, sampler, seconds, split).values())
                for sampler in SAMPLERS[network]
            }
            for graph, seconds in shown
        }

    test, validation = scores("test"), scores("validation")
    tied = {one: ties(test[one]) for one in shown}
    heads = [f"{GRAPHS[graph].title}, {seconds} s" for graph, seconds in shown]
    lines = ["| | " + " | ".join(heads) + " |", "|---" * (len(shown) + 1) + "|"]
    for sampler in SAMPLERS[network]:
        cells = [cell(test[o][sampler], validation[o][sampler], sampler in tied[o]) for o in shown]
        lines.append(f"| `{sampler}` | " + " | ".join(cells) + " |")
    counts = [sorted({len(v) for v in test[one].values() if v}) for one in shown]
    seeds = [f"{' or '.join(map(str, c))} ({h})" for h, c in zip(heads, counts, strict=True)]
    return [*lines, "", f"Seeds: {'; '.join(seeds)}.", ""]


def sizes(found: Results, network: str) -> list[str]:
    """Sizes that were tried, the times of a step and the validation F1 that chose among them."""
    lines = [
        f"## {TITLES[network]}",
        "",
        "| graph | sampler | batch size | budget of a layer | ms a step | set-up, s | steps in "
        f"{GRID_SECONDS} s | validation F1 |",
        "|---" * 8 + "|",
    ]
    tried = {
        key(run): run for run in found.runs if (run.seconds, run.seed) == (GRID_SECONDS, GRID_SEED)
    }
    for time in found.times:
        if time.network != network:
            continue
        run, score = tried.get(key(time)), "not run"
        if run is not None:
            score = f"{run.val_score:.3f}"
            score = f"**{score}**" if run == found.chosen(*key(run)[:3]) else score
        cells = [
            GRAPHS[time.graph].title,
            f"`{time.sampler}`",
            f"{time.batch_size:,}",
            f"{time.budget:,}" if time.budget else "",
            f"{time.step_ms:.1f}",
            f"{time.setup_s:.2f}",
            f"{time.steps(GRID_SECONDS):,}",
            score,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def page(found: Results, long: Record) -> str:
    """Text of README.md: the notes, with figure and tables at their marks."""
    notes = (HERE / "notes.md").read_text(encoding="utf-8").rstrip()
    answer, rest, more = notes.split(MARK)
    facts = found.machine
    lines = [answer.rstrip(), "", figure.IMAGE, ""]
    for network in SAMPLERS:
        lines += [f"## {TITLES[network]}", "", *summary(found, network)]
    lines += [rest.strip(), "", *record.tables(long), more.strip(), ""]
    lines.append(f"One thread of {facts.processor}, torch {facts.torch}, Python {facts.python}.")
    return "\n".join(lines) + "\n"


def sizes_page(found: Results) -> str:
    """Text of sizes.md."""
    lines = [
        "# Sizes that were tried",
        "",
        "All sizes of [the tables](README.md), with the times of their steps. The size in bold was "
        "chosen, by validation",
        f"F1 after {GRID_SECONDS} s with seed {GRID_SEED}.",
        "",
    ]
    for network in SAMPLERS:
        lines += sizes(found, network)
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Write the page and the figure."""
    found = results.STORED.read()
    (HERE / "README.md").write_text(page(found, record.STORED.read()), encoding="utf-8")
    (HERE / "sizes.md").write_text(sizes_page(found), encoding="utf-8")
    figure.write(found)


if __name__ == "__main__":
    main()
