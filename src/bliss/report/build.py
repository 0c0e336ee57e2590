"""Paths -> sections: runs of one network on one data set together, everything else by itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bliss.report.comparison import comparison_section
from bliss.report.load import Comparison, Reproduction, Run, Variance, load
from bliss.report.reproduction import reproduction_section
from bliss.report.run import run_section
from bliss.report.sections import Names, Section
from bliss.report.variance import variance_section


def build(paths: Sequence[Path]) -> list[Section]:
    """Read the paths and make the sections of a page, figures drawn."""
    sources, names = load(paths), Names()
    variances = {v.path.resolve(): v for v in sources if isinstance(v, Variance)}

    def near(*folders: Path) -> list[Variance]:
        """Take the variances that lie in these folders."""
        files = [(folder / "variance.json").resolve() for folder in folders]
        return [variances.pop(file) for file in files if file in variances]

    runs: dict[tuple[str, str], list[Run]] = {}
    for source in sources:
        if isinstance(source, Run):
            runs.setdefault((source.config.dataset, source.config.model), []).append(source)
    sections = [
        reproduction_section(source, names)
        for source in sources
        if isinstance(source, Reproduction)
    ]
    sections += [
        comparison_section(source, near(source.path.parent), names)
        for source in sources
        if isinstance(source, Comparison)
    ]
    sections += [run_section(own, near(*(run.path for run in own)), names) for own in runs.values()]
    return sections + [variance_section(source, names) for source in variances.values()]
