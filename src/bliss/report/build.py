"""Paths -> sections, in order: runs of one network on one data set together, studies apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bliss.report.load import Run, StudyFile, load
from bliss.report.run_section import run_section
from bliss.report.sections import Names, Section, Supplement
from bliss.studies.registry import imported, studies


def build(paths: Sequence[Path]) -> list[Section]:
    """Read the paths and make the sections of a page, with their figures."""
    sources, names = load(paths), Names()
    runs: dict[tuple[str, str], list[Run]] = {}
    for source in sources:
        if isinstance(source, Run):
            runs.setdefault((source.settings.dataset, source.settings.model), []).append(source)
    loose = {  # files that become supplements if something else is in their folder
        source.path.resolve(): source
        for source in sources
        if isinstance(source, StudyFile) and source.study.supplement
    }

    def supplements(*folders: Path) -> list[Supplement]:
        """Take the supplements of these folders."""
        names_of_files = [study.file for study in studies() if study.supplement]
        places = [(folder / name).resolve() for folder in folders for name in names_of_files]
        files = [loose.pop(place) for place in places if place in loose]
        return [imported(file.study.supplement)(file.record, names) for file in files]

    sections: list[Section | StudyFile] = []  # in the order of the paths
    for source in sources:
        if isinstance(source, Run):
            own = runs.pop((source.settings.dataset, source.settings.model), [])
            if own:
                sections.append(run_section(own, supplements(*(run.path for run in own)), names))
        elif source.study.supplement:
            sections.append(source)
        else:
            section = imported(source.study.section)
            sections.append(section(source.record, supplements(source.path.parent), names))
    built: list[Section] = []
    for entry in sections:
        if isinstance(entry, Section):
            built.append(entry)
        elif entry.path.resolve() in loose:
            built.append(imported(entry.study.section)(entry.record, (), names))
    return built
