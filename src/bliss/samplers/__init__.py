"""Samplers: compositions of a policy, a draw and an estimator. One file per family."""

from __future__ import annotations

from collections.abc import Callable

from bliss.samplers.bliss import Bliss
from bliss.samplers.ladies import LADIES
from bliss.samplers.layerwise import Inclusion, LayerSampler
from bliss.samplers.pladies import PLADIES
from bliss.samplers.sketch import SKETCH

SAMPLERS: dict[str, Callable[..., LayerSampler]] = {
    "ladies": LADIES,
    "sketch": SKETCH,
    "pladies": PLADIES,
    "bliss": Bliss,
}
"""Samplers by the names of the command line."""

__all__ = ["LADIES", "PLADIES", "SAMPLERS", "SKETCH", "Bliss", "Inclusion", "LayerSampler"]
