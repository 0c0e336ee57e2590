"""Numbers in sentences, compared with stored results.

A claim is a piece of a sentence whose numbers are computed from results. Every number with a
decimal point in README.md, in the findings of experiments/seconds and in the first paragraph of
other notes belongs to a claim; in pages of docs/, those that repeat such results do.

`python -m experiments.claims` writes the numbers of the results into the sentences, and prints what
it cannot mend: a claim without its sentence, and a number without a claim. After a change of notes,
write the page of the experiment again.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from math import nan
from pathlib import Path
from statistics import fmean
from typing import Any

from bliss.train import resolve
from bliss.train.config_parts import LoopConfig
from experiments.links import page as links
from experiments.links.cases import SECONDS as LINK_SECONDS
from experiments.planetoid import run as planetoid
from experiments.scale import page as scale
from experiments.seconds import commands, defaults, record, results, sentences
from experiments.seconds.cases import SAMPLERS
from experiments.seconds.tables import SHORT, score_text, ties
from experiments.time import run as in_time
from experiments.types import knowledge_run
from experiments.types import page as types
from experiments.types.cases import CASES as TYPED
from experiments.types.knowledge_run import CASES as KNOWLEDGE
from experiments.types.results import STORED as OF_TYPES
from experiments.types.results import size_of
from experiments.variance import run as variance
from experiments.variance.results import read as of_variance_results

ROOT = Path(__file__).resolve().parents[1]
NUMBER = re.compile(r"(?<![\w.])(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?!\w)")
DECIMAL = re.compile(r"(?<![\w.])\d*\.\d+(?!\w)(?!\.\d)")
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def place(claim: str) -> re.Pattern[str]:
    """Pattern of a claim's sentence: any numbers in place of its own, and any line breaks."""
    words = [re.sub(r"(?:\\ )+", r"\\s+", re.escape(part)) for part in NUMBER.split(claim)]
    return re.compile(f"({NUMBER.pattern})".join(words))


def corrected(text: str, claims: Sequence[str]) -> str:
    """The text with the numbers of the claims whose sentences it has."""
    for claim in claims:
        right = NUMBER.findall(claim)

        def replaced(match: re.Match[str], right: list[str] = right) -> str:
            numbers = iter(right)
            return NUMBER.sub(lambda _: next(numbers), match[0])

        text = place(claim).sub(replaced, text)
    return text


def problems(text: str, claims: Sequence[str], is_covered: bool = True) -> list[str]:
    """Wrong numbers, and claims without exactly one sentence.

    If the text is to be covered, also decimal numbers without a claim.
    """
    found, rest = [], text
    for claim in claims:
        matches = list(place(claim).finditer(text))
        if len(matches) != 1:
            found.append(f"{len(matches)} sentences like the claim: {claim!r}")
        for match in matches:
            shown = " ".join(match[0].split())
            if shown != claim:
                found.append(f"the text has {shown!r}, the results give {claim!r}")
            rest = rest.replace(match[0], "", 1)
    for match in DECIMAL.finditer(rest) if is_covered else ():
        near = " ".join(rest[max(match.start() - 60, 0) : match.end() + 20].split())
        found.append(f"{match[0]} belongs to no claim: ... {near} ...")
    return found


def is_covered(name: str) -> bool:
    """Whether all decimal numbers of a page's prose belong to claims."""
    return not name.startswith("docs/")


def prose(name: str) -> str:
    """What is compared: the first paragraph of notes, or all findings; pages without code."""
    text = (ROOT / name).read_text(encoding="utf-8")
    if name == "experiments/seconds/notes.md":
        return text.partition("\n## How it was measured")[0]
    if name.endswith("notes.md"):
        return text.split("\n\n")[1]
    return FENCED.sub("", text)


def score(
    network: str, sampler: str, graph: str = "ppi", split: str = "test", seconds: int = SHORT
) -> float:
    """Mean score over seeds."""
    return mean(results.STORED.read().scores(graph, network, sampler, seconds, split).values())


def mean(values: Iterable[float]) -> float:
    """The mean; NaN without values, which is in no sentence."""
    found = list(values)
    return fmean(found) if found else nan


def comparison(own: Sequence[float], other: Sequence[float]) -> str:
    """How scores over seeds compare, by the test of `experiments.seconds.tables.ties`."""
    if len(ties({"own": list(own), "other": list(other)})) == 2:
        return "a tie with"
    return "ahead of" if mean(own) > mean(other) else "behind"


def readme() -> list[str]:
    """Claims of README.md."""

    def synthetic(sampler: str) -> str:
        return f"{score('sage', sampler, 'three-hops'):.3f}"

    def row(title: str, sampler: str) -> str:
        cells = []
        for network in ("sage", "gatv2"):
            if sampler in SAMPLERS[network]:
                test = results.STORED.read().scores("ppi", network, sampler, SHORT).values()
                validation = f"{score(network, sampler, split='val'):.3f}"
                cells += [validation, score_text([*test], is_tied=False)]
            else:
                cells += ["", ""]
        return " ".join(f"| {title} | {' | '.join(cells)} |".split())

    def later(network: str, sampler: str) -> str:
        return f"{score(network, sampler, split='val', seconds=100):.3f}"

    def gain(graph: str, split: str = "test", seconds: int = SHORT) -> float:
        where = graph, split, seconds
        own, other = (score("gatv2", name, *where) for name in ("bliss", "pladies"))
        return 100 * (own - other)

    long = list(record.best(record.STORED.read(), "GraphSAINT's network").values())
    own, saint = (curve.points[-1] for curve in long)  # of bliss+history and saint-rw
    python, torch, geometric = (
        re.findall(rf'"?{name}(?: = ")?>=([\d.]+)"', _text("pyproject.toml"))[0]
        for name in ("requires-python", "torch", "torch_geometric")
    )
    recipe = resolve(dataset="ppi", model="sage")
    knowledge = [f"{knowledge_mrr(name):.3f}" for name in ("bliss", "neighbor")]
    return [
        row("BLISS with a *history*", "bliss+history"),
        row("PLADIES with a *history*", "pladies+history"),
        row("neighbour sampling with an *exact first hop*", "neighbor+exact"),
        row("BLISS", "bliss"),
        row("PLADIES", "pladies"),
        row("GraphSAINT", "saint-rw"),
        row("neighbour sampling", "neighbor"),
        *_of_neighbor_loader(),
        f"BLISS gains {gain('ppi'):.1f} points on test nodes after {SHORT} s, and nothing on "
        f"validation nodes; after 100 s it gains {gain('ppi', seconds=100):.1f} and loses "
        f"{-gain('ppi', 'val', 100):.1f}. On a synthetic graph of 200,000 nodes it gains "
        f"{gain('three-hops'):.1f} on both.",
        f"You need Python {python}, torch {torch} and torch_geometric {geometric} or newer",
        f"The default learning rate is {LoopConfig.lr:g}; the scores above have "
        f"{recipe.training.lr:g}, which suits",
        *_rows(),
        f"between {_planetoid()}",
        f"it has {synthetic('bliss')} after {SHORT} s, and neighbour sampling "
        f"{synthetic('neighbor')}; with an exact first hop, BLISS has {synthetic('bliss+exact')} "
        f"and neighbour sampling {synthetic('neighbor+exact')}; with a history, BLISS has "
        f"{synthetic('bliss+history')}.",
        f"filtered MRR after {KNOWLEDGE['fb15k-237'].seconds:g} s is {knowledge[0]} with BLISS and "
        f"{knowledge[1]} with neighbour sampling",
        f"after 100 s, validation F1 on PPI is {later('sage', 'saint-rw')} with GraphSAINT and "
        f"{later('sage', 'bliss+history')} with BLISS and a history; for GATv2, it is "
        f"{later('gatv2', 'saint-rw')} with GraphSAINT and {later('gatv2', 'bliss')} with BLISS.",
        f"reaches {saint.val_score:.3f} with GraphSAINT after {long[1].seconds:,} s and "
        f"{own.val_score:.3f} with BLISS and a history after {long[0].seconds} s; on test nodes "
        f"{saint.test_score:.3f} and {own.test_score:.3f}.",
    ]


def _text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _benchmark(name: str) -> Any:
    return json.loads(_text(f"benchmarks/results/{name}.json"))


def _rows() -> list[str]:
    """Claims of the rows of README's table "What you bring, what you get"."""
    runs = commands.read().runs
    reached = {
        (model, given): [one.test_score for one in runs if (one.model, one.given) == (model, given)]
        for model, given in product(commands.MODELS, commands.SAMPLERS)
    }
    labels, attention = (
        f"F1 {commands.spread(reached[model, ''])}, with `--sampler neighbor` "
        f"{mean(reached[model, 'neighbor']):.3f}"
        for model in ("sage", "gatv2")
    )
    saint = reached["gatv2", "saint-rw"]
    auc = {
        name: links.scores(links.finished("seconds", f"{name}, reverse"), "auc")
        for name in ("bliss", "neighbor")
    }
    own = typed_accuracy("bliss, history")
    fanouts = [mean(typed_accuracy(f"neighbor{more}")) for more in (", exact first hop", "")]
    disk = _benchmark("disk")
    read = disk["rows"]["megabytes_per_step"]
    pages = disk["neighbour_sampling"]["megabytes_of_pages_per_step"]
    more = disk["neighbour_sampling"]["input_nodes"] / disk["rows"]["input_nodes"]
    mrr = {row: mean(in_time_scores("mathoverflow", row)) for row in in_time.ROWS}
    trees = max(mrr["neighbor"], mrr["neighbor, last"])
    two = {name: _benchmark("scale")[name]["two_over_one"] for name in ("sage", "gatv2")}
    imported = scale.STORED["large"].read().rows["import"]
    return [
        f"{labels} (with an exact first hop, too)",
        f"{attention}; {comparison(reached['gatv2', ''], saint)} GraphSAINT, {mean(saint):.3f}",
        f"AUC on PubMed after {LINK_SECONDS:g} s {links.spread(auc['bliss'])}, "
        f"{comparison(*auc.values())} neighbour sampling, {mean(auc['neighbor']):.3f}",
        f"accuracy on a synthetic graph of 200,000 nodes after {TYPED['library'].seconds:g} s "
        f"{links.spread(own)}; neighbour sampling {fanouts[0]:.3f} with an exact first hop, "
        f"{fanouts[1]:.3f} without",
        f"MRR on MathOverflow after {in_time.CASES['mathoverflow'].seconds:g} s "
        f"{mrr['bliss']:.2f}, PLADIES {mrr['pladies']:.2f}, neighbour sampling {trees:.2f}",
        f"a step takes {_pyg_step():.2f} times as long as with the layers of this library",
        f"{read:.0f} MB of features read from disk per step; neighbour sampling with 10 neighbours "
        f"per layer needs {more:.0f} times as many nodes, in pages of {pages:.0f} MB",
        f"imported in {imported.seconds:g} s with {imported.peak_gib} GiB",
        f"two processes take {two['sage']:.2f} of the time of one with GraphSAGE and "
        f"{two['gatv2']:.2f} with GATv2",
    ]


def _of_neighbor_loader() -> list[str]:
    """Claims of README's sentence on PyG's NeighborLoader."""
    found = _benchmark("neighbor_loader")
    names = ("NeighborLoader, trimmed", "neighbor", "bliss, history")
    ms = [f"{found['times'][name]['ms']:.0f}" for name in names]
    test, val = (
        [f"{mean(found['scores'][name][split]):.3f}" for name in names] for split in ("test", "val")
    )
    return [
        f"takes {ms[0]} ms, and test F1 after {SHORT} s is {test[0]} (validation {val[0]}). The "
        f"same model over the blocks of this library takes {ms[1]} ms with the same neighbour "
        f"sampling and reaches {test[1]} ({val[1]}); with BLISS and a history it takes {ms[2]} ms "
        f"and reaches {test[2]} ({val[2]})",
    ]


def knowledge_mrr(sampler: str) -> float:
    """Mean filtered test MRR on FB15k-237."""
    runs = knowledge_run.STORED["fb15k-237"].read().runs
    return mean(one.test["mrr"] for one in runs if one.sampler == sampler)


def typed_accuracy(row: str) -> list[float]:
    """Test accuracy of rsage on the synthetic graph with types, by seed."""
    key = "library", "rsage", row
    return [one.accuracy for one in OF_TYPES.read().runs if size_of(one)[:3] == key]


def _pyg_step() -> float:
    return float(_benchmark("blockwise")["times"]["sampled"]["pyg_over_own"])


def of_choices() -> list[str]:
    """Claims of docs/choose.md."""
    names = ("bliss+history", "bliss+exact", "bliss")
    own, exact, plain = (f"{score('sage', name):.3f}" for name in names)
    return [
        f"on PPI after {SHORT} s of training, test F1 is {own}, with an exact first hop "
        f"alone {exact}, with a sampled one {plain}",
        *of_defaults(),
    ]


def of_defaults() -> list[str]:
    """Claims of experiments/seconds/defaults.md."""
    found = defaults.STORED.read()

    def own(network: str, kind: defaults.Kind, graphs: Iterable[str] = defaults.GRAPHS) -> float:
        """Mean score over graphs."""
        return mean(defaults.score(found, graph, network, kind) for graph in graphs)

    sage, gatv2 = (defaults.DEFAULTS[network] for network in ("sage", "gatv2"))
    exact = ("batch", 0.0, *defaults.EXACT, 256)
    plain = {network: ("none", 0.1, *defaults.BASE[network], 256) for network in defaults.BASE}
    batch = ("batch", 0.1, *defaults.BASE["gcn"], 256)
    few, many = (
        100 * (own("gcn", batch, graphs) - own("gcn", plain["gcn"], graphs))
        for graphs in (defaults.FEW_LABELS, defaults.MANY_LABELS)
    )
    return [
        f"scores {own('sage', sage):.3f} with batch normalisation, no dropout and a history, "
        f"{own('sage', exact):.3f} with an exact first hop instead, and "
        f"{own('sage', plain['sage']):.3f} with an exact first hop, no normalisation and dropout "
        "0.1.",
        f"GATv2 scores {own('gatv2', gatv2):.3f} with batch normalisation and "
        f"{own('gatv2', plain['gatv2']):.3f} without.",
        f"costs GCN {-few:.1f} points on the two graphs with few labels and gains it {many:.1f} on "
        "the others",
    ]


def of_advice() -> list[str]:
    """Claims of docs/advice.md."""
    own = [one for one in commands.read().runs if (one.model, one.given) == ("gatv2", "")]
    both = {
        name: " and ".join(f"{score('gatv2', name, split=split):.3f}" for split in ("test", "val"))
        for name in ("bliss", "cluster", "saint-rw")
    }
    return [
        f"The command reaches {mean(one.test_score for one in own):.3f} on test nodes and "
        f"{mean(one.val_score for one in own):.3f} on validation nodes",
        f"after {SHORT} s, `bliss` with 1,024 sources has {both['bliss']}, `cluster` "
        f"{both['cluster']}, and `saint-rw` {both['saint-rw']}",
    ]


def of_scaling() -> list[str]:
    """Claims of docs/scaling.md."""
    ratio = [_benchmark("scale")[network]["two_over_one"] for network in ("sage", "gatv2")]
    return [f"take {ratio[0]:.2f} of the time of one with SAGE and {ratio[1]:.2f} with GATv2"]


def in_time_scores(graph: str, row: str) -> list[float]:
    """Test MRR by seed, with the chosen learning rate and order."""
    found = in_time.read()
    best = in_time.chosen(found, graph, row)
    key = graph, row, best["lr"], best["order"]
    return [c.test_mrr for c in found.runs if (c.graph, c.row, c.lr, c.order) == key]


def _planetoid() -> str:
    done = planetoid.finished()
    apart = []
    for name, model in product(planetoid.DATASETS, planetoid.MODELS):
        own, full = (
            mean(done[name, model, sampler, seed].test_score for seed in planetoid.SEEDS[sampler])
            for sampler in ("bliss", "full")
        )
        apart.append(100 * (own - full))
    return f"{-min(apart):.1f} points below and {max(apart):.1f} above full batch"


def _short(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}f}".lstrip("0")


def _range(values: Sequence[float]) -> str:
    low, high = _short(min(values)), _short(max(values))
    return low if low == high else f"{low} to {high}"


def of_links() -> list[str]:
    """Claims of experiments/links."""
    auc = [mean(links.scores(links.finished(case, "bliss"), "auc")) for case in links.TITLES]
    steps = {run.result.best_step for run in links.finished("gowalla", "full")}
    return [f"reaches an AUC of {_range(auc)}, above VGAE", f"after {max(steps):,} steps"]


def of_time() -> list[str]:
    """Claims of experiments/time."""
    found, shared, trees = in_time.read(), ("bliss", "pladies"), ("neighbor", "neighbor, last")

    def scores(graph: str, rows: Sequence[str]) -> str:
        return _range([mean(in_time_scores(graph, row)) for row in rows])

    def slower(row: str) -> str:
        times = [
            in_time.step_ms(found, graph, row, "random")
            / in_time.step_ms(found, graph, "pladies", "random")
            for graph in in_time.CASES
        ]
        return f"{min(times):.1f} to {max(times):.1f} times"

    lost = [
        1 - mean(in_time_scores(g, "pladies, leaking")) / mean(in_time_scores(g, "pladies"))
        for g in ("movietweetings", "mathoverflow")
    ]
    return [
        f"test MRR is {scores('mathoverflow', shared)} against {scores('mathoverflow', trees)} on "
        f"MathOverflow, {scores('movietweetings', shared)} against "
        f"{scores('movietweetings', trees)} on MovieTweetings",
        f"takes {slower('neighbor')} as long as one of `pladies`",
        f"{slower('neighbor, last')} if they are the last ones",
        f"loses {lost[0]:.0%} and {lost[1]:.0%} of the MRR",
    ]


def of_scale() -> list[str]:
    """Claims of experiments/scale."""
    found = scale.STORED["large"].read()
    small, large = (stored.read().rows["import"] for stored in scale.STORED.values())
    return [
        f"imported in {large.seconds:g} s and {large.peak_gib} GiB of memory, and trained on with "
        f"{found.step_ms:g} ms a step",
        f"takes {small.seconds:g} s and {small.peak_gib} GiB.",
    ]


def of_typed() -> list[str]:
    """Claims of experiments/types."""
    mrr = {name: knowledge_mrr(name) for name in ("neighbor", "bliss")}
    rows = ("bliss, history", "bliss, exact first hop", "neighbor, exact first hop", "neighbor")
    history, first_hop, neighbor_first_hop, neighbor = map(mean, map(typed_accuracy, rows))
    return [
        f"a test accuracy of {history:.3f} with `bliss` and a history, {first_hop:.3f} with an "
        f"exact first hop, {neighbor_first_hop:.3f} with `neighbor` and an exact first hop, and "
        f"{neighbor:.3f} with `neighbor` alone",
        f"filtered test MRR of {mrr['neighbor']:.3f} with `neighbor` and {mrr['bliss']:.3f} with "
        "`bliss`",
        f"published one is {types.PUBLISHED['fb15k-237']}",
    ]


def of_variance() -> list[str]:
    """Claims of experiments/variance."""
    found = variance.stored()
    r = [{name: one["r"][name]["mean"] for name in variance.COLUMNS} for one in found]

    def ratios(name: str, other: str) -> list[float]:
        return [one[name] / one[other] for one in r]

    scores = of_variance_results("scores")

    def gain(case: str, name: str, other: str) -> str:
        with_it, without = (mean(scores[case][n]["test_score"]) for n in (name, other))
        return f"{100 * (with_it - without):.1f}"

    own, pladies = ("bliss", "bliss, influence none"), ("pladies+influence", "pladies")
    average = variance.geometric_mean
    both = ratios("bliss+influence", "pladies+influence")
    return [
        f"by {1 - average(ratios('bliss+influence', 'bliss')):.0%} (geometric mean), and that of "
        f"PLADIES by {1 - average(ratios(*pladies)):.0%}.",
        f"`bliss` has {average(both):.2f} of the error of PLADIES",
        f"(PubMed, SAGE, `ht`: {max(both):.2f})",
        f"with SAGE on PPI {gain('ppi-sage', *pladies)} points for PLADIES and "
        f"{gain('ppi-sage', *own)} for `bliss`, with GATv2 on PPI {gain('ppi-gatv2', *pladies)} "
        f"and {gain('ppi-gatv2', *own)}",
    ]


CLAIMS: dict[str, Callable[[], list[str]]] = {
    "README.md": readme,
    "docs/advice.md": of_advice,
    "docs/choose.md": of_choices,
    "docs/own-models.md": lambda: [f"takes {_pyg_step():.2f} times as long as with our own layers"],
    "docs/scaling.md": of_scaling,
    "experiments/coins/notes.md": list,
    "experiments/links/notes.md": of_links,
    "experiments/planetoid/notes.md": lambda: [f"between {_planetoid()}"],
    "experiments/scale/notes.md": of_scale,
    "experiments/seconds/defaults_notes.md": of_defaults,
    "experiments/seconds/notes.md": sentences.claims,
    "experiments/time/notes.md": of_time,
    "experiments/types/notes.md": of_typed,
    "experiments/variance/notes.md": of_variance,
}
"""Claims by page."""


def main() -> int:
    """Write the numbers; print what remains."""
    code = 0
    for name, claims in CLAIMS.items():
        path, known = ROOT / name, claims()
        before = path.read_text(encoding="utf-8")
        after = corrected(before, known)
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(f"{name}: numbers changed")
        for problem in problems(prose(name), known, is_covered(name)):
            print(f"{name}: {problem}")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
