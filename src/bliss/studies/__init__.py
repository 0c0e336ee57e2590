"""Studies of samplers: comparisons over many runs, sampling variance, and the paper's tables."""

from bliss.studies.compare import EVERYTHING, compare
from bliss.studies.records import Comparison, Reproduction, Variance
from bliss.studies.reproduce import TABLES, reproduce
from bliss.studies.runs import Standing
from bliss.studies.variance import VarianceStudy

__all__ = [
    "EVERYTHING",
    "TABLES",
    "Comparison",
    "Reproduction",
    "Standing",
    "Variance",
    "VarianceStudy",
    "compare",
    "reproduce",
]
