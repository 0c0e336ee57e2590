"""README's figure: test F1 on PPI over seconds of training, a panel per network."""

from __future__ import annotations

import json
from itertools import product
from textwrap import fill

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from experiments.figures import GREEN, GREY, ORANGE, plt
from experiments.seconds.cases import TITLES
from experiments.seconds.results import HERE, Results

GRAPH, SECONDS = "ppi", (10, 30, 100)
NAMES = {
    "bliss+history": "BLISS with a history",
    "pladies+history": "PLADIES with a history",
    "vrgcn": "VR-GCN",
    "bliss+exact": "BLISS with an exact first hop",
    "pladies+exact": "PLADIES with an exact first hop",
    "neighbor+exact": "neighbour sampling with an exact first hop",
    "bliss": "BLISS",
    "pladies": "PLADIES",
    "saint-rw": "GraphSAINT",
    "cluster": "Cluster-GCN",
    "labor": "LABOR",
    "neighbor": "neighbour sampling",
    "random-nodes": "random nodes",
    "full": "full neighbourhoods",
}
SHOWN = (
    "bliss+history",
    "pladies+history",
    "bliss",
    "vrgcn",
    "pladies",
    "saint-rw",
    "cluster",
    "neighbor",
    "neighbor+exact",
    "full",
)
OURS = {
    "bliss+history": (GREEN, "-"),
    "pladies+history": (GREEN, "--"),
    "bliss": (ORANGE, "-"),
}
"""Colours and styles of what this library adds: the bandit and histories of layer-wise samplers."""
MARKS = {
    "vrgcn": "P",
    "pladies": "s",
    "saint-rw": "^",
    "cluster": "X",
    "neighbor": "v",
    "neighbor+exact": "<",
    "full": "D",
}
PATH = HERE.parents[1] / "docs" / "figures" / "seconds.svg"
IMAGE = (
    "![Test F1 on PPI over seconds of training, with GraphSAGE and with GATv2, by sampler.]"
    "(../../docs/figures/seconds.svg)"
)

Points = dict[str, dict[str, list[tuple[int, float]]]]


def points(found: Results) -> Points:
    """Seconds and mean test F1 by network and sampler; only samplers with runs."""
    shown: Points = {network: {} for network in TITLES}
    for network, sampler, seconds in product(TITLES, SHOWN, SECONDS):
        score = found.mean_test_score(GRAPH, network, sampler, seconds)
        if score is not None:
            shown[network].setdefault(sampler, []).append((seconds, round(score, 4)))
    return shown


def draw(shown: Points) -> Figure:
    """A panel per network; ours in colour."""
    plot, panels = plt.subplots(1, 2, figsize=(9.2, 3.4), sharey=True)
    for axes, (network, lines) in zip(panels, shown.items(), strict=True):
        for sampler, line in lines.items():
            is_ours = sampler in OURS
            colour, style = OURS.get(sampler, (GREY, "-"))
            axes.plot(
                *zip(*line, strict=True),
                label=fill(NAMES[sampler], 24),
                color=colour,
                linestyle=style,
                marker=MARKS.get(sampler, "o"),
                markersize=5,
                linewidth=2.4 if is_ours else 1.2,
                zorder=3 if is_ours else 2,
            )
        axes.set_xscale("log")
        ticks = sorted({seconds for line in lines.values() for seconds, _ in line})
        axes.set_xticks(ticks, [str(one) for one in ticks])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_title(TITLES[network], fontsize=11)
        axes.set_xlabel("seconds of training, one thread")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("test F1, PPI")
    handles, labels = panels[0].get_legend_handles_labels()
    plot.tight_layout(rect=(0, 0, 0.76, 1))
    plot.legend(handles, labels, fontsize=9, loc="center left", bbox_to_anchor=(0.765, 0.5))
    return plot


def write(found: Results) -> None:
    """Write the figure; its description holds the numbers that it shows."""
    shown = points(found)
    plot = draw(shown)
    plot.savefig(PATH, metadata={"Date": None, "Description": json.dumps(shown)})
    plt.close(plot)
