"""A study is declared once: the command line and reports find it from there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from pkgutil import iter_modules

import pytest

import bliss.studies
from bliss.cli import app
from bliss.errors import InputError
from bliss.report import build, load
from bliss.report.sections import Names, Section, Supplement
from bliss.storage import records
from bliss.studies import registry
from bliss.studies.registry import Study, imported, studies

pytestmark = pytest.mark.slow


def test_every_package_of_studies_is_registered():
    packages = {module.name for module in iter_modules(bliss.studies.__path__) if module.ispkg}
    assert packages == set(registry.PACKAGES)


@pytest.mark.parametrize("study", studies(), ids=lambda study: study.kind)
def test_references_lead_somewhere_and_records_have_the_kind(study):
    for reference in (study.command, study.section, study.supplement):
        assert not reference or callable(imported(reference))
    assert imported(study.record).__struct_config__.tag == study.kind


def test_every_study_has_a_command():
    names = [one.callback.__name__ for one in app.registered_commands]
    assert [study.command_name for study in studies()] == names[3:-2]  # between train and report
    assert names[3:-2] == ["advise", "compare", "variance"]


class Coins(records.Record, frozen=True, kw_only=True, tag_field="kind", tag="coins"):
    """Record of a made-up study."""

    heads: float


def coins_section(record: Coins, supplements: Sequence[Supplement], names: Names) -> Section:
    summary = [f"{record.heads:.0%} heads", *(text for one in supplements for text in one.summary)]
    return Section(kind="Coins", title="a coin", summary=summary, tiles=[], parts=[])


def coins_supplement(record: Coins, names: Names) -> Supplement:
    return Supplement("toy", "sage", "Coins", [], [], [f"{record.heads:.0%} heads beside"])


def make_study(**references: str) -> Study:
    here = f"{__name__}:"
    record, command = f"{here}Coins", f"{here}flip"
    own = {name: f"{here}{function}" for name, function in references.items()}
    return Study(kind="coins", file="coins.json", record=record, command=command, **own)


@pytest.fixture
def register(monkeypatch):
    """Add a study to the registered ones."""

    def add(study: Study) -> None:
        every = (*studies(), study)
        for module in (load, build):
            monkeypatch.setattr(module, "studies", lambda: every)

    return add


def test_a_new_study_needs_its_declaration_alone_to_be_in_a_report(register, tmp_path):
    path = records.write(tmp_path / "coins.json", Coins(heads=0.5))
    with pytest.raises(InputError, match="kind 'coins', which a report cannot show"):
        build.build([path])
    register(make_study(section="coins_section"))
    for paths in ([path], [tmp_path]):
        (section,) = build.build(paths)
        assert section.summary == ["50% heads"]


def test_a_study_with_a_supplement_is_shown_where_its_file_is(register, measured, tmp_path: Path):
    register(make_study(section="coins_section"))
    records.write(tmp_path / "coins.json", Coins(heads=0.5))
    records.write(tmp_path / "variance.json", measured)
    (section,) = build.build([tmp_path])
    assert section.summary[0] == "50% heads"
    assert "PLADIES" in section.summary[1]
    assert len(build.build([tmp_path / "variance.json"])) == 1


def test_a_supplement_alone_is_a_section(register, tmp_path):
    register(make_study(section="coins_section", supplement="coins_supplement"))
    records.write(tmp_path / "coins.json", Coins(heads=0.25))
    (section,) = build.build([tmp_path])
    assert section.summary == ["25% heads"]
