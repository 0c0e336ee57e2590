"""README's figure: test F1 on PPI over seconds of training, a panel per network."""

from __future__ import annotations

import json

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from experiments.figures import COLOURS, GREY, plt
from experiments.seconds.cases import TITLES
from experiments.seconds.results import HERE, Results

GRAPH, SECONDS = "ppi", (10, 30, 100)
SHOWN = {
    "sage": ("bliss+history", "bliss", "pladies", "saint-rw", "full", "neighbor"),
    "gatv2": ("bliss", "pladies", "saint-rw", "full", "neighbor"),
}
NAMES = {
    "bliss+history": "BLISS with a history",
    "bliss": "BLISS",
    "pladies": "PLADIES",
    "saint-rw": "GraphSAINT",
    "full": "full neighbourhoods",
    "neighbor": "neighbour sampling",
    "labor": "LABOR",
    "random-nodes": "random nodes",
    "vrgcn": "VR-GCN",
}
MARKS = {"pladies": "s", "saint-rw": "^", "full": "D", "neighbor": "v"}
PATH = HERE.parents[1] / "docs" / "figures" / "seconds.svg"
IMAGE = (
    "![Test F1 on PPI after 10, 30 and 100 seconds of training, for GraphSAGE and GATv2, "
    "by sampler.](../../docs/figures/seconds.svg)"
)

Points = dict[str, dict[str, list[tuple[int, float]]]]


def points(found: Results) -> Points:
    """Seconds and mean test F1 by network and sampler."""
    return {
        network: {
            sampler: [
                (seconds, round(score, 4))
                for seconds in SECONDS
                if (score := found.mean_test_score(GRAPH, network, sampler, seconds)) is not None
            ]
            for sampler in samplers
        }
        for network, samplers in SHOWN.items()
    }


def draw(shown: Points) -> Figure:
    """A panel per network; ours in colour."""
    plot, panels = plt.subplots(1, 2, figsize=(8.4, 3.4), sharey=True)
    for axes, (network, lines) in zip(panels, shown.items(), strict=True):
        for sampler, line in lines.items():
            ours = sampler.startswith("bliss")
            axes.plot(
                *zip(*line, strict=True),
                label=NAMES[sampler],
                color=COLOURS[sampler] if ours else GREY,
                marker="o" if ours else MARKS[sampler],
                markersize=5,
                linewidth=2.4 if ours else 1.2,
                zorder=3 if ours else 2,
            )
        axes.set_xscale("log")
        axes.set_xticks(SECONDS, [str(one) for one in SECONDS])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_title(TITLES[network], fontsize=11)
        axes.set_xlabel("seconds of training, one thread")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, loc="lower right")
    panels[0].set_ylabel("test F1, PPI")
    plot.tight_layout()
    return plot


def write(found: Results) -> None:
    """Write the figure; its description holds the numbers that it shows."""
    shown = points(found)
    plot = draw(shown)
    plot.savefig(PATH, metadata={"Date": None, "Description": json.dumps(shown)})
    plt.close(plot)
