"""What all figures share: a backend without a screen, reproducible files, colours of samplers."""

from __future__ import annotations

import matplotlib
import matplotlib.pyplot as plt

__all__ = ["COLOURS", "plt"]

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "bliss"  # the same file for the same figure
COLOURS = {
    "bliss+history": "#0b6e4f",
    "bliss+survey": "#0b6e4f",
    "bliss+survey history": "#77c3a5",
    "bliss": "#5aa469",
    "pladies": "#d1495b",
    "vrgcn": "#8d6a9f",
    "neighbor": "#edae49",
    "labor-*": "#30638e",
    "saint-rw": "#8b8b8b",
    "full": "#000000",
}
