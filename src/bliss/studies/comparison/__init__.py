"""Comparison of samplers on the same data, recipe, work per step, estimator and seeds."""

from bliss.studies.registry import Study

STUDY = Study(
    kind="comparison",
    file="compare.json",
    record="bliss.studies.comparison.comparison_record:Comparison",
    command="bliss.cli.compare:compare",
    section="bliss.report.comparison_section:comparison_section",
)
