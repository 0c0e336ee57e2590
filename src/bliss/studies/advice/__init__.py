"""Advice on sampler and budgets, from a short pilot."""

from bliss.studies.registry import Study

STUDY = Study(
    kind="advice",
    file="advice.json",
    record="bliss.studies.advice.advice_record:Advice",
    command="bliss.cli.advise:advise",
)
