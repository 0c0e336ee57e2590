"""README.md: the notes, and tables of the stored runs. `python -m experiments.links.page`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev

from bliss.storage import records
from bliss.train.results import title_of
from experiments.links.cases import EXCLUDED, SAMPLERS, SECONDS
from experiments.links.run import RESULTS, RUNS, Results, Run, stored

HERE = Path(__file__).parent
PUBLISHED = {
    "cora": {"VGAE": (0.914, 0.926), "GAE": (0.910, 0.920)},
    "citeseer": {"VGAE": (0.908, 0.920), "GAE": (0.895, 0.899)},
    "pubmed": {"VGAE": (0.944, 0.947), "GAE": (0.964, 0.965)},
    "gowalla": {"NGCF": (0.1569, 0.1327), "LightGCN": (0.1830, 0.1554)},
}
"""Published means: AUC and average precision, or recall@20 and ndcg@20."""
_SEEN = {"reverse": "hidden", "none": "seen (leak)"}
TITLES = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}


def main() -> None:
    """Collect finished runs and write the page."""
    before = stored()
    known = {(run.case, run.variant, run.result.seed): run for run in before.runs}
    for file in sorted(RUNS.glob("*.json")):
        run = records.read(file, Run, "run it again")
        known[run.case, run.variant, run.result.seed] = run
    runs = [known[key] for key in sorted(known)]
    records.write(RESULTS, Results(times=before.times, runs=runs))
    (HERE / "README.md").write_text(page(), encoding="utf-8")


def page() -> str:
    """The page."""
    notes = (HERE / "notes.md").read_text(encoding="utf-8")
    tables = {
        "planetoid": planetoid(),
        "gowalla": gowalla(),
        "movies": movies(),
        "seconds": seconds(),
        "leak": leak(),
    }
    for name, lines in tables.items():
        notes = notes.replace(f"<!-- {name} -->", "\n".join(lines))
    return notes


def finished(case: str, variant: str) -> list[Run]:
    """Finished runs of a case, in the order of their seeds."""
    return [run for run in stored().runs if (run.case, run.variant) == (case, variant)]


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Mean and standard deviation."""
    if not values:
        return "not run"
    apart = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{apart}"


def scores(runs: Sequence[Run], metric: str, split: str = "test") -> list[float]:
    """A score of each run."""
    return [run.result.scores[split][metric] for run in runs]


def planetoid() -> list[str]:
    """AUC and average precision of test links, beside the published ones."""
    rows = []
    for case, name in TITLES.items():
        runs = finished(case, "bliss")
        for place, metric in enumerate(("auc", "average_precision")):
            others = [f"{pair[place]:.3f}" for pair in PUBLISHED[case].values()]
            own = [spread(scores(runs, metric)), spread(scores(runs, metric, "val"))]
            rows.append([name, title_of(metric), *own, *others, str(len(runs))])
    header = ["data", "score", "test", "validation", "VGAE, published", "GAE, published", "seeds"]
    return table(header, rows)


def gowalla() -> list[str]:
    """Recall and ndcg of test links among all places."""
    runs = finished("gowalla", "full")
    rows = [["LightGCN, here", *(spread(scores(runs, name), 4) for name in ("recall", "ndcg"))]]
    rows += [[f"{k}, published", *(f"{v:.4f}" for v in pair)] for k, pair in _of_gowalla()]
    facts = [
        f"{run.result.steps:,} steps, {run.result.seconds:,.0f} s with evaluations on a machine "
        f"with other work; best step {run.result.best_step:,} by validation recall@20, "
        f"{run.result.scores['val']['recall']:.4f}."
        for run in runs
    ]
    return [*table(["", "recall@20", "ndcg@20"], rows), "", *facts]


def _of_gowalla() -> list[tuple[str, tuple[float, float]]]:
    return list(PUBLISHED["gowalla"].items())


def movies() -> list[str]:
    """Scores of the latest ratings among all movies."""
    runs = finished("movies", "full")
    metrics = ("recall", "ndcg", "mrr", "auc")
    rows = [
        [split, *(spread(scores(runs, metric, split), 4) for metric in metrics), str(len(runs))]
        for split in ("val", "test")
    ]
    return table(["split", "recall@20", "ndcg@20", "MRR", "AUC", "seeds"], rows)


def seconds() -> list[str]:
    """Scores after the same seconds of steps, with and without the leak."""
    ms, rows = stored().times, []
    for sampler in SAMPLERS:
        for exclude in EXCLUDED:
            variant = f"{sampler}, {exclude}"
            runs = finished("seconds", variant)
            rows.append(
                [
                    sampler,
                    _SEEN[exclude],
                    f"{ms[variant]:.1f}",
                    f"{int(SECONDS * 1e3 / ms[variant])}",
                    spread([run.loss for run in runs]),
                    spread(scores(runs, "auc", "train")),
                    spread(scores(runs, "auc")),
                    spread(scores(runs, "average_precision")),
                    str(len(runs)),
                ]
            )
    header = ["sampler", "links of a batch", "ms a step", "steps", "training loss", "training AUC"]
    return table([*header, "test AUC", "test AP", "seeds"], rows)


def leak() -> list[str]:
    """Scores on Cora with all neighbours, with and without the leak."""
    rows = []
    for exclude in EXCLUDED:
        runs = finished("leak", exclude)
        own = [spread(scores(runs, metric)) for metric in ("auc", "average_precision")]
        rows.append([_SEEN[exclude], spread([run.loss for run in runs]), *own, str(len(runs))])
    return table(["links of a batch", "training loss", "test AUC", "test AP", "seeds"], rows)


if __name__ == "__main__":
    main()
