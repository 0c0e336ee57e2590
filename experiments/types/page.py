"""README.md and details.md: notes, and tables of results. `python -m experiments.types.page`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from statistics import mean

from experiments.seconds.tables import score_text, ties
from experiments.types import cases, knowledge_run
from experiments.types.cases import NETWORKS, ROWS, rows_of
from experiments.types.knowledge_run import CASES, Links, Recipe
from experiments.types.results import HERE, STORED, Results

TITLES = {
    "imdb": "IMDB",
    "acm": "ACM",
    "library": "library",
    "codex-s": "CoDEx-S",
    "fb15k-237": "FB15k-237",
}
PUBLISHED = {"fb15k-237": 0.249}
"""Filtered MRR of R-GCN, as published."""


PAGES = {"README.md": "notes.md", "details.md": "details_notes.md"}
"""Pages, and the notes that they are made of."""


def main() -> None:
    """Write the pages."""
    for name in PAGES:
        (HERE / name).write_text(page(name), encoding="utf-8")


def page(name: str = "README.md") -> str:
    """Text of a page: its notes with a table for each place."""
    found = STORED.read()
    links = {name: knowledge_run.STORED[name].read() for name in CASES}
    tables = {
        "scores": scores(found, "accuracy"),
        "macro-F1": scores(found, "macro_f1"),
        "choices": choices(found),
        "links": link_scores(links),
        "sizes": link_sizes(links),
        "recipes": recipes(links),
        "divisions": divisions(found),
        "gradients": gradients(found),
        "learnt sizes": learnt_sizes(found),
        "gradient ratios": gradient_ratios(found),
        "size scores": size_scores(found),
        "machine": machine(found),
    }
    text = (HERE / PAGES[name]).read_text(encoding="utf-8")
    for place, lines in tables.items():
        text = text.replace(f"<!-- {place} -->", lines)
    return text


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def scores(found: Results, metric: str) -> str:
    """A score of every sampler at graphs and networks; bold where tied with the best."""
    columns = {}
    for graph, model in product(cases.CASES, NETWORKS):
        own = {
            row: [
                getattr(one, metric)
                for one in found.runs
                if (one.graph, one.model, one.sampler) == (graph, model, row)
            ]
            for row in ROWS
        }
        if any(own.values()):
            columns[graph, model] = own
    tied = {place: ties(column) for place, column in columns.items()}
    heads = [f"{TITLES[graph]}, {model}" for graph, model in columns]
    lines = [
        [
            named(row),
            *(score_text(column[row], row in tied[place]) for place, column in columns.items()),
        ]
        for row in ROWS
    ]
    numbers = [
        " or ".join(str(n) for n in sorted({len(values) for values in column.values() if values}))
        for column in columns.values()
    ]
    return table(["", *heads], [*lines, ["seeds", *numbers]])


def named(row: str) -> str:
    """A row with the name of its sampler as code."""
    sampler = ROWS[row][0]
    return f"`{sampler}`" + row.removeprefix(sampler)


def choices(found: Results) -> str:
    """The chosen settings, with the time and number of steps and their edges."""
    heads = ["graph", "network", "sampler", "budgets or fanouts", "learning rate", "weight decay"]
    heads += ["dropout", "ms a step", "steps", "edges a step"]
    rows = []
    for graph in cases.CASES:
        for model in NETWORKS:
            for row in rows_of(graph, model):
                choice = found.chosen(graph, model, row)
                key = graph, model, row
                own = [one for one in found.runs if (one.graph, one.model, one.sampler) == key]
                if choice is None or not own:
                    continue
                rows.append(
                    [
                        TITLES[graph],
                        model,
                        named(row),
                        ", ".join(map(str, choice.budgets)) or "all",
                        f"{choice.lr:g}",
                        f"{choice.weight_decay:g}",
                        f"{choice.dropout:g}",
                        f"{found.time(choice).step_ms:.1f}",
                        f"{own[0].steps:,}",
                        f"{mean(one.edges for one in own):,.0f}",
                    ]
                )
    return table(heads, rows)


def link_scores(links: dict[str, Links]) -> str:
    """Filtered scores of test triples, beside the published MRR."""
    names = {"mrr": "MRR", "hits@1": "Hits@1", "hits@3": "Hits@3", "hits@10": "Hits@10"}
    heads = ["graph", "sampler", "seconds", "steps", "seeds", *names.values(), "validation MRR"]
    rows = []
    for graph, found in links.items():
        own = {
            sampler: [one for one in found.runs if one.sampler == sampler]
            for sampler in CASES[graph].sizes
        }
        tied = ties({sampler: [one.test["mrr"] for one in runs] for sampler, runs in own.items()})
        for sampler, runs in own.items():
            if not runs:
                continue
            cells = [
                score_text([one.test[name] for one in runs], name == "mrr" and sampler in tied)
                for name in names
            ]
            valid = score_text([one.valid["mrr"] for one in runs], is_tied=False)
            seconds = f"{CASES[graph].seconds:g}"
            counts = [seconds, f"{runs[0].steps:,}", str(len(runs))]
            rows.append([TITLES[graph], f"`{sampler}`", *counts, *cells, valid])
        if graph in PUBLISHED:
            score = f"{PUBLISHED[graph]:.3f}"
            rows.append([TITLES[graph], "R-GCN, published", *[""] * 3, score, *[""] * 4])
    return table(heads, rows)


def link_sizes(links: dict[str, Links]) -> str:
    """Sizes of samplers that were tried; bold where chosen."""
    heads = ["graph", "sampler", "budget or fanout", "estimator", "ms a step", "seconds", "steps"]
    rows = []
    for graph, found in links.items():
        for one in found.sizes:
            score = f"{one.valid_mrr:.3f}"
            score = f"**{score}**" if one == found.chosen(one.sampler) else score
            sizes = [f"{one.budget:,}", one.estimator, f"{found.step_ms(one):.1f}"]
            counts = [f"{CASES[graph].grid_seconds:g}", f"{one.steps:,}"]
            rows.append([TITLES[graph], f"`{one.sampler}`", *sizes, *counts, score])
    return table([*heads, "validation MRR"], rows)


def recipes(links: dict[str, Links]) -> str:
    """Recipes that were tried, by what differs from the first; bold where chosen."""
    shown = {one.recipe: None for found in links.values() for one in found.recipes}
    rows = []
    for recipe in shown:
        cells = []
        for found in links.values():
            scores = [f"{one.valid_mrr:.3f}" for one in found.recipes if one.recipe == recipe]
            text = scores[0] if scores else ""
            cells.append(f"**{text}**" if text and recipe == found.recipe else text)
        rows.append([_changes(recipe), *cells])
    return table(["recipe", *(TITLES[graph] for graph in links)], rows)


def _changes(recipe: Recipe) -> str:
    usual = Recipe()
    changed = [n for n in recipe.__struct_fields__ if getattr(recipe, n) != getattr(usual, n)]
    words = [f"{name.replace('_', ' ')} {getattr(recipe, name):g}" for name in changed]
    return ", ".join(words) or "as above"


COLUMNS = {
    "static": "PLADIES",
    "split by hand": "best split by hand",
    "norm": "\\|h_j\\|",
    "relation": "\\|h_j\\| times a factor per relation",
    "source": "\\|W_r h_j\\| per source",
    "message": "\\|W_r h_j\\|",
}


def divisions(found: Results) -> str:
    """Errors in closed form."""
    heads = ["graph", "network", "layer", "budget of candidates", "PLADIES' shares"]
    heads += ["shares by hand"]
    rows = [
        [
            TITLES[one.graph],
            one.model,
            str(one.layer),
            f"{one.budget} of {one.candidates:,}",
            _shares(one.shares),
            _shares(one.hand_shares),
            *(f"{one.ratios[name]:.3f}" for name in COLUMNS),
        ]
        for one in found.divisions
    ]
    return table([*heads, *COLUMNS.values()], rows)


def gradients(found: Results) -> str:
    """Errors of the gradient."""
    rows = [
        [TITLES[one.graph], one.model, *(_interval(*one.gradient[name]) for name in COLUMNS)]
        for one in found.divisions
        if one.gradient
    ]
    return table(["graph", "network", *COLUMNS.values()], rows)


SIZES = {"input": "\\|h_j\\|", "message": "\\|W_r h_j\\| per source"}
VARIANTS = {"batches": "batches", "survey": "batches and a survey", "influence": "with influence"}


def learnt_sizes(found: Results) -> str:
    """V over its least value, with sizes of inputs and of messages."""
    named = ("batches", "survey")
    heads = ["graph", "network", "budget", "layer"]
    heads += [f"{size}, {VARIANTS[one]}" for one in named for size in SIZES.values()]
    rows = []
    for one in found.learnt_sizes:
        for layer, budget in enumerate(one.budgets):
            values = [
                score_text([own[layer] for own in one.over_limit[f"{size}, {variant}"]], False)
                for variant in named
                for size in SIZES
            ]
            rows.append([TITLES[one.graph], one.model, f"{budget:,}", str(layer + 1), *values])
    return table(heads, rows)


def gradient_ratios(found: Results) -> str:
    """r of the gradient with sizes of messages over r with sizes of inputs."""
    heads = ["graph", "network", "r with sizes of inputs", *VARIANTS.values()]
    rows = [
        [
            TITLES[one.graph],
            one.model,
            _interval(*one.gradient["input, batches"]),
            *("{:.2f} ({:.2f} to {:.2f})".format(*one.gradient_ratio[name]) for name in VARIANTS),
        ]
        for one in found.learnt_sizes
    ]
    return table(heads, rows)


def size_scores(found: Results) -> str:
    """Scores at equal steps and times of a step, with sizes of inputs and of messages."""
    heads = ["graph", "network"]
    heads += [f"{what}, {size}" for what in ("accuracy", "macro-F1") for size in SIZES.values()]
    heads += [f"ms a step, {size}" for size in SIZES.values()]
    rows = []
    for one in (one for one in found.learnt_sizes if one.step_ms):
        tied = [ties(values) if values else set() for values in (one.accuracy, one.macro_f1)]
        cells = [
            score_text(values[size], size in best) if values else ""
            for values, best in zip((one.accuracy, one.macro_f1), tied, strict=True)
            for size in SIZES
        ]
        times = [f"{one.step_ms[size]:.1f}" for size in SIZES]
        rows.append([TITLES[one.graph], one.model, *cells, *times])
    return table(heads, rows)


def _interval(middle: float, low: float, high: float) -> str:
    return f"{middle:.3g} ({low:.2g} to {high:.2g})"


def _shares(shares: dict[str, float]) -> str:
    return ", ".join(f"{name} {share:.2f}" for name, share in shares.items())


def machine(found: Results) -> str:
    """The machine."""
    facts = found.machine
    return (
        f"One thread of {facts.processor}, torch {facts.torch}, Python {facts.python}. All runs on "
        "labels, those that choose settings included, took about 50 minutes of it, and those on "
        "triples about 20."
    )


if __name__ == "__main__":
    main()
