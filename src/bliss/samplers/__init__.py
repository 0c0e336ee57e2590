"""Samplers: compositions of a policy, a draw and an estimator. One file per family."""

from bliss.samplers.bliss import Bliss
from bliss.samplers.ladies import LADIES
from bliss.samplers.layerwise import Inclusion, LayerSampler
from bliss.samplers.pladies import PLADIES
from bliss.samplers.sketch import SKETCH

__all__ = ["LADIES", "PLADIES", "SKETCH", "Bliss", "Inclusion", "LayerSampler"]
