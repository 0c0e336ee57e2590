"""Paths -> sections: runs of one network on one data set together, studies by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bliss.report.comparison import comparison_section
from bliss.report.load import Run, S, Study, load
from bliss.report.reproduction import reproduction_section
from bliss.report.run import run_section
from bliss.report.sections import Names, Section
from bliss.report.variance import variance_section
from bliss.studies.records import Comparison, Reproduction, Variance


def build(paths: Sequence[Path]) -> list[Section]:
    """Read the paths and make the sections of a page, with their figures."""
    sources, names = load(paths), Names()

    def studies(kind: type[S]) -> list[Study[S]]:
        return [s for s in sources if isinstance(s, Study) and isinstance(s.record, kind)]

    variances = {study.path.resolve(): study for study in studies(Variance)}

    def near(*folders: Path) -> list[Study[Variance]]:
        """Take the variance files in these folders."""
        files = [(folder / "variance.json").resolve() for folder in folders]
        return [variances.pop(file) for file in files if file in variances]

    runs: dict[tuple[str, str], list[Run]] = {}
    for source in sources:
        if isinstance(source, Run):
            runs.setdefault((source.settings.dataset, source.settings.model), []).append(source)
    return [
        *(reproduction_section(study.record, names) for study in studies(Reproduction)),
        *(
            comparison_section(study.record, near(study.path.parent), names)
            for study in studies(Comparison)
        ),
        *(run_section(own, near(*(run.path for run in own)), names) for own in runs.values()),
        *(variance_section(study.record, names) for study in variances.values()),
    ]
