"""Distance of policies from the best possible sampling, measured while a network trains."""

from bliss.studies.registry import Study

STUDY = Study(
    kind="variance",
    file="variance.json",
    record="bliss.studies.variance.variance_record:Variance",
    command="bliss.cli.variance:variance",
    section="bliss.report.variance_section:variance_section",
    supplement="bliss.report.variance_section:variance_supplement",
)
