"""Studies: comparisons of samplers, measurements of variance, the paper's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bliss.lazy import lazy_names
from bliss.studies.records import TABLES, Comparison, Reproduction, Variance

if TYPE_CHECKING:
    from bliss.studies.compare import EVERYTHING, compare
    from bliss.studies.reproduce import reproduce
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

__getattr__ = lazy_names(
    __name__,
    {
        "EVERYTHING": "bliss.studies.compare",
        "Standing": "bliss.studies.runs",
        "VarianceStudy": "bliss.studies.variance",
        "compare": "bliss.studies.compare",
        "reproduce": "bliss.studies.reproduce",
    },
)
