"""What all figures share: a backend without a screen, reproducible files, colours of samplers.

Backgrounds are transparent and colours of middle brightness, for light and dark pages.
"""

from __future__ import annotations

import matplotlib
import matplotlib.pyplot as plt

__all__ = ["COLOURS", "plt"]

matplotlib.use("svg")
GREY = "#808080"
matplotlib.rcParams |= {
    "svg.hashsalt": "bliss",  # the same file for the same figure
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "savefig.transparent": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "grid.color": GREY,
    **{f"{part}.color": GREY for part in ("text", "xtick", "ytick")},
    **{f"axes.{part}": GREY for part in ("edgecolor", "labelcolor", "titlecolor")},
}
COLOURS = {
    "bliss+history": "#1a9a70",
    "bliss+survey": "#1a9a70",
    "bliss+survey history": "#77c3a5",
    "bliss": "#5aa469",
    "pladies": "#d1495b",
    "vrgcn": "#8d6a9f",
    "neighbor": "#edae49",
    "labor-*": "#4080c0",
    "saint-rw": "#8b8b8b",
    "full": "#a0522d",
}
