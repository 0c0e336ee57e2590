"""What figures share: a backend without a screen, reproducible files, colours of text and axes.

Backgrounds are transparent and colours of middle brightness, for light and dark pages.
"""

from __future__ import annotations

import matplotlib
import matplotlib.pyplot as plt

__all__ = ["GREEN", "GREY", "ORANGE", "plt"]

matplotlib.use("svg")
GREY, GREEN, ORANGE = "#767676", "#1a9a70", "#e07020"
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
