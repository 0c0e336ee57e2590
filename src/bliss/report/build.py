"""Paths -> sections, in order: runs of one network on one data set together, studies apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bliss.report.comparison import comparison_section
from bliss.report.load import Run, Study, load
from bliss.report.run import run_section
from bliss.report.sections import Names, Section
from bliss.report.variance import variance_section
from bliss.studies.records import Comparison, Variance


def build(paths: Sequence[Path]) -> list[Section]:
    """Read the paths and make the sections of a page, with their figures."""
    sources, names = load(paths), Names()

    variances = {
        study.path.resolve(): Study(study.path, study.record)
        for study in sources
        if isinstance(study, Study) and isinstance(study.record, Variance)
    }

    def near(*folders: Path) -> list[Study[Variance]]:
        """Take the variance files in these folders."""
        files = [(folder / "variance.json").resolve() for folder in folders]
        return [variances.pop(file) for file in files if file in variances]

    runs: dict[tuple[str, str], list[Run]] = {}
    for source in sources:
        if isinstance(source, Run):
            runs.setdefault((source.settings.dataset, source.settings.model), []).append(source)
    sections: list[Section | Study[Variance]] = []  # in the order of the paths
    for source in sources:
        if isinstance(source, Run):
            own = runs.pop((source.settings.dataset, source.settings.model), [])
            if own:
                sections.append(run_section(own, near(*(run.path for run in own)), names))
        elif isinstance(source.record, Comparison):
            beside = near(source.path.parent)
            sections.append(comparison_section(source.record, beside, names))
        else:
            sections.append(Study(source.path, source.record))
    left = set(variances)
    return [
        variance_section(one.record, names) if isinstance(one, Study) else one
        for one in sections
        if not isinstance(one, Study) or one.path.resolve() in left
    ]
