"""Studies: what many runs, or one looked at closely, say of samplers."""

from bliss.studies.compare import EVERYTHING, compare
from bliss.studies.reproduce import TABLES, reproduce
from bliss.studies.runs import Standing
from bliss.studies.variance import VarianceStudy

__all__ = ["EVERYTHING", "TABLES", "Standing", "VarianceStudy", "compare", "reproduce"]
