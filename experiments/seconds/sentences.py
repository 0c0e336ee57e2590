"""Sentences of the notes whose numbers are computed from results, for `experiments.claims`."""

from __future__ import annotations

from collections.abc import Iterable
from math import isnan, nan
from statistics import mean

from experiments.seconds import record, results
from experiments.seconds.cases import SAMPLERS
from experiments.seconds.record import Record
from experiments.seconds.results import Results, key

PPI, SYNTHETIC, PUBMED, PHYSICS = "ppi", "three-hops", "pubmed", "physics"
HISTORIES = ("bliss+history", "pladies+history", "vrgcn")
SECONDS, BATCH = 30, 256
PUBLISHED = 0.981
"""Test F1 of GraphSAINT on PPI, as its authors publish it (ICLR 2020, table 2)."""


class Scores:
    """Mean scores of chosen sizes, as text."""

    def __init__(self, found: Results) -> None:
        self.found = found

    def value(
        self, graph: str, network: str, sampler: str, seconds: int = SECONDS, split: str = "test"
    ) -> float:
        """Mean over seeds; NaN without runs, which is in no sentence."""
        scores = self.found.scores(graph, network, sampler, seconds, split)
        return mean(scores.values()) if scores else nan

    def text(
        self, graph: str, network: str, sampler: str, seconds: int = SECONDS, split: str = "test"
    ) -> str:
        """The mean with three digits."""
        return f"{self.value(graph, network, sampler, seconds, split):.3f}"

    def values(self, graph: str, network: str, samplers: Iterable[str]) -> list[float]:
        """The means of samplers with runs."""
        found = [self.value(graph, network, one) for one in samplers]
        return [one for one in found if not isnan(one)]

    def range(self, graph: str, network: str, samplers: Iterable[str]) -> str:
        """The lowest and the highest mean."""
        values = self.values(graph, network, samplers)
        return f"between {min(values):.3f} and {max(values):.3f}"

    def best(self, graph: str, network: str, samplers: Iterable[str]) -> str:
        """The highest mean."""
        return f"{max(self.values(graph, network, samplers)):.3f}"

    def gain(self, graph: str, network: str, seconds: int = SECONDS, split: str = "test") -> float:
        """Points that learning adds to PLADIES."""
        own, other = (
            self.value(graph, network, one, seconds, split) for one in ("bliss", "pladies")
        )
        return 100 * (own - other)

    def step_ms(self, graph: str, network: str, sampler: str) -> str:
        """Milliseconds of a step with batches of BATCH."""
        (ms,) = (
            one.step_ms
            for one in self.found.times
            if key(one)[:4] == (graph, network, sampler, BATCH)
        )
        return f"{ms:,.0f}"


def first_paragraph(scores: Scores) -> list[str]:
    """The answer."""
    others = [name for name in SAMPLERS["sage"] if name not in HISTORIES]
    return [
        f"with a history reaches a test F1 of {scores.best(PPI, 'sage', HISTORIES)} on PPI and "
        f"{scores.best(SYNTHETIC, 'sage', HISTORIES)} on a synthetic graph",
        f"without one reaches {scores.best(PPI, 'sage', others)} and "
        f"{scores.best(SYNTHETIC, 'sage', others)}.",
        f"reaches {scores.text(PPI, 'gatv2', 'bliss')} on PPI with `bliss`, "
        f"{scores.text(PPI, 'gatv2', 'saint-rw')} with GraphSAINT (`saint-rw`) and "
        f"{scores.text(PPI, 'gatv2', 'neighbor')} with neighbour sampling",
        f"it adds {scores.gain(PPI, 'sage'):.1f} points with GraphSAGE and "
        f"{scores.gain(PPI, 'gatv2'):.1f} with GATv2 on PPI",
        f"({scores.text(PPI, 'sage', 'saint-rw', 100, 'val')} with `saint-rw` to "
        f"{scores.text(PPI, 'sage', 'bliss+history', 100, 'val')} with `bliss+history`)",
        f"loses {-scores.gain(PPI, 'gatv2', 100, 'val'):.1f} points after 100 s",
    ]


def with_histories(scores: Scores) -> list[str]:
    """GraphSAGE: what a history, an exact first hop and learning add."""

    def three(graph: str, extra: str) -> str:
        names = ("bliss", "pladies", "neighbor")
        return ", ".join(scores.text(graph, "sage", f"{name}{extra}") for name in names)

    def steps(graph: str) -> str:
        return ", ".join(
            scores.text(graph, "sage", f"bliss{extra}") for extra in ("", "+exact", "+history")
        )

    attention = [scores.gain(graph, "gatv2") for graph in (PPI, SYNTHETIC)]
    return [
        f"the samplers with a history are {scores.range(PPI, 'sage', HISTORIES)}",
        f"`bliss`, `pladies` and `neighbor` have {three(PPI, '')} with a sampled first hop and "
        f"{three(PPI, '+exact')} with an exact one",
        f"On the synthetic graph, `bliss` has {steps(SYNTHETIC)} with a sampled first hop, an "
        "exact one and a history",
        f"and `neighbor` {scores.text(SYNTHETIC, 'sage', 'neighbor')} and "
        f"{scores.text(SYNTHETIC, 'sage', 'neighbor+exact')} with the first two",
        f"On PPI with GraphSAGE it adds {scores.gain(PPI, 'sage'):.1f} points with a sampled first "
        "hop, and nothing with an exact one or a history",
        f"With GATv2 it adds {attention[0]:.1f} points on PPI and {attention[1]:.1f} on the "
        "synthetic graph",
    ]


def on_other_nodes(scores: Scores) -> list[str]:
    """PPI's validation nodes."""

    def unseen(network: str, sampler: str, seconds: int = SECONDS) -> str:
        return scores.text(PPI, network, sampler, seconds, "val")

    return [
        f"With GraphSAGE after {SECONDS} s, `bliss+history` has {unseen('sage', 'bliss+history')} "
        f"there, `saint-rw` {unseen('sage', 'saint-rw')} and `bliss` {unseen('sage', 'bliss')}; "
        f"after 100 s, {unseen('sage', 'bliss+history', 100)}, {unseen('sage', 'saint-rw', 100)} "
        f"and {unseen('sage', 'bliss', 100)}.",
        f"With GATv2, `cluster` has {unseen('gatv2', 'cluster')}, `saint-rw` "
        f"{unseen('gatv2', 'saint-rw')}, `pladies` {unseen('gatv2', 'pladies')} and `bliss` "
        f"{unseen('gatv2', 'bliss')} after {SECONDS} s; after 100 s, "
        f"{unseen('gatv2', 'cluster', 100)}, {unseen('gatv2', 'saint-rw', 100)}, "
        f"{unseen('gatv2', 'pladies', 100)} and {unseen('gatv2', 'bliss', 100)}, although `bliss` "
        "leads on test nodes, "
        f"{scores.text(PPI, 'gatv2', 'bliss', 100)} to "
        f"{scores.text(PPI, 'gatv2', 'saint-rw', 100)}.",
    ]


def of_other_graphs(scores: Scores) -> list[str]:
    """PubMed, Physics, other times, Cluster-GCN."""
    others = [name for name in SAMPLERS["sage"] if name not in HISTORIES]
    full = [scores.text(PPI, "sage", "full", seconds) for seconds in (10, 30, 100)]
    graphs = (PUBMED, PHYSICS, PPI, SYNTHETIC)
    nodes, whole = (
        [scores.text(graph, "sage", one) for graph in graphs] for one in ("random-nodes", "full")
    )
    clusters = [scores.text(SYNTHETIC, "gatv2", "cluster", seconds) for seconds in (10, 30)]
    samplers = ("bliss+history", "bliss", "neighbor", "full")
    times = [scores.step_ms(PHYSICS, "sage", one) for one in samplers]
    return [
        f"are {scores.range(PUBMED, 'sage', HISTORIES)}; the others are "
        f"{scores.range(PUBMED, 'sage', others)}.",
        f"batches of {BATCH}, a step takes {times[0]} ms with `bliss+history`, {times[1]} ms with "
        f"`bliss`, {times[2]} ms with `neighbor` and {times[3]} ms with full neighbourhoods. After "
        f"{SECONDS} s `neighbor` has "
        f"{scores.text(PHYSICS, 'sage', 'neighbor')}; the best has "
        f"{scores.best(PHYSICS, 'sage', SAMPLERS['sage'])}.",
        f"full neighbourhoods have {full[0]} after 10 s, {full[1]} after 30 s and {full[2]} after "
        f"100 s, when `bliss+history` has {scores.text(PPI, 'sage', 'bliss+history', 100)}.",
        f"`random-nodes` has {nodes[0]} on PubMed and {nodes[1]} on Physics, where `full` has "
        f"{whole[0]} and {whole[1]}; on PPI and the synthetic graph it has {nodes[2]} and "
        f"{nodes[3]}, and `full` {whole[2]} and {whole[3]}.",
        f"GATv2 with `cluster` has {clusters[0]} after 10 s and {clusters[1]} after 30 s.",
    ]


def of_the_record(found: Record) -> list[str]:
    """Networks of width 512."""
    own = record.best(found, "GraphSAINT's network")
    history, walks = (own[f"GraphSAINT's network: {one}"] for one in ("bliss+history", "saint-rw"))
    end, other = history.points[-1], walks.points[-1]
    half = [
        next(
            curve.points[-1].val_score
            for curve in found.curves
            if (curve.name, curve.seconds) == (one.name, 500)
        )
        for one in (history, walks)
    ]
    sage = record.best(found, "GraphSAGE")
    wide = [sage[f"GraphSAGE: {one}"].points[-1] for one in ("bliss+history", "saint-rw")]
    return [
        f"publish a test F1 of {PUBLISHED} on PPI",
        f"`bliss+history` reaches {end.test_score:.3f} after {history.seconds:,} s of one thread, "
        f"and `saint-rw` with the authors' settings {other.test_score:.3f} after "
        f"{walks.seconds:,} s",
        f"On validation nodes `saint-rw` is ahead, {other.val_score:.3f} to {end.val_score:.3f}",
        f"in runs of 500 s it is behind, {half[1]:.3f} to {half[0]:.3f}",
        f"reaches {wide[0].test_score:.3f} with `bliss+history` and {wide[1].test_score:.3f} with "
        f"`saint-rw` after {sage['GraphSAGE: saint-rw'].seconds} s",
    ]


def claims() -> list[str]:
    """All claims of the notes."""
    scores = Scores(results.STORED.read())
    parts = (first_paragraph, with_histories, on_other_nodes, of_other_graphs)
    return [one for part in parts for one in part(scores)] + of_the_record(record.STORED.read())
