"""Wheel and sdist hold what they must, the wheel works when installed, releases are cut."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tarfile
import zipfile
from datetime import date
from pathlib import Path

import pytest

import bliss
from tools import release

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]


def project() -> dict:
    tomllib = pytest.importorskip("tomllib")  # Python 3.11
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def name_of(requirement: str) -> str:
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


def bounds() -> dict[str, str]:
    """Lower bound of each requirement of the library, of its extras and of its tests."""
    found: dict[str, set[str]] = {}
    extras = project()["optional-dependencies"]
    optional = ("tensorboard", "metis", "lightning", "ray", "test")
    listed = [*project()["dependencies"], *(one for name in optional for one in extras[name])]
    for requirement in listed:
        version = re.search(r">=([\d.]+)", requirement)[1]
        found.setdefault(name_of(requirement), set()).add(version)
    assert all(len(versions) == 1 for versions in found.values())  # extras repeat some
    return {name: versions.pop() for name, versions in found.items()}


def pins(file: str) -> dict[str, str]:
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    pairs = (line.partition("==") for line in lines if line and not line.startswith("#"))
    return {name_of(name): version.partition(";")[0].strip() for name, _, version in pairs}


def as_numbers(version: str) -> tuple[int, ...]:
    numbers = [int(part) for part in version.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def test_the_oldest_versions_are_the_lower_bounds():
    oldest = pins("constraints-oldest.txt")
    for name, bound in bounds().items():
        assert as_numbers(oldest[name]) == as_numbers(bound), name


def test_pinned_versions_are_above_the_lower_bounds():
    pinned = pins("constraints.txt")
    for name, bound in bounds().items():
        assert as_numbers(pinned[name]) >= as_numbers(bound), name


def test_the_citation_names_this_version():
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {bliss.__version__}\n" in cited
    assert "BLISS: Bandit Layer Importance Sampling Strategy" in cited


WORKFLOWS = ROOT / ".github/workflows"


def commands_of(workflow: str) -> set[str]:
    return set(
        re.findall(r"command: make (.*)", (WORKFLOWS / workflow).read_text(encoding="utf-8"))
    )


def test_workflows_run_what_they_should_and_the_commands_exist():
    pushed, nightly = commands_of("test.yml"), commands_of("nightly.yml")
    oldest, newest = "quick CONSTRAINTS=constraints-oldest.txt", "quick CONSTRAINTS=/dev/null"
    assert pushed == {"test", oldest, newest}
    assert {"faults", "fuzz FUZZ=10000", "bounds", "dist"} <= nightly
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in pushed | nightly:
        target, *settings = command.split()
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
        for setting in settings:
            name, _, value = setting.partition("=")
            assert re.search(rf"^{name} *\?=", makefile, re.MULTILINE)
            assert name != "CONSTRAINTS" or Path(ROOT, value).exists()


def test_hooks_are_local_and_their_commands_are_those_of_the_makefile():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"repo: (.*)", hooks)) == {"local"}
    entries = re.findall(r"entry: \.venv/bin/(\w+(?: \w+)?)", hooks)
    assert entries == ["ruff check", "ruff format", "mypy"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(f"$(BIN)/{entry}" in makefile for entry in entries)


def test_no_extra_allows_the_malicious_releases_of_lightning():
    lines = [one for extra in project()["optional-dependencies"].values() for one in extra]
    found = [line for line in lines if name_of(line) == "lightning"]
    assert found
    assert all("!=2.6.2" in line and "!=2.6.3" in line for line in found)


def test_classifiers_are_of_versions_that_the_workflow_runs():
    workflow = (WORKFLOWS / "test.yml").read_text(encoding="utf-8")
    run = set(re.findall(r'python: "([\d.]+)"', workflow))
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project()["classifiers"]))
    assert named
    assert set(named) <= run


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, Path]:
    """The wheel and the sdist."""
    pytest.importorskip("hatchling")
    if not (ROOT / ".git").exists():
        pytest.skip("git does not list the files of an unpacked sdist")
    return release.build(ROOT, tmp_path_factory.mktemp("dist"))


def test_wheel_and_sdist_hold_what_they_must(built):
    wheel, sdist = built
    assert release.faults(ROOT, wheel, sdist, bliss.__version__) == []


def test_faults_of_an_sdist_are_found(built, tmp_path):
    wheel, sdist = built
    wrong = tmp_path / sdist.name
    left_out = "experiments/seconds/results.json"
    with tarfile.open(sdist) as old, tarfile.open(wrong, "w:gz", compresslevel=1) as new:
        for member in old:
            if not member.name.endswith(left_out):
                new.addfile(member, old.extractfile(member))
        new.addfile(tarfile.TarInfo(f"{sdist.name.removesuffix('.tar.gz')}/stray.txt"))
    assert release.faults(ROOT, wheel, wrong, bliss.__version__) == [
        f"sdist: {left_out} is missing",
        "sdist: stray.txt does not belong there",
    ]


def changed(archive: Path, folder: Path, without: str, more: str) -> Path:
    """A copy of a wheel without one file and with another."""
    out = folder / archive.name
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            if name != without:
                new.writestr(name, old.read(name))
        new.writestr(more, "")
    return out


def test_faults_of_a_wheel_are_found(built, tmp_path):
    wheel, sdist = built
    wrong = changed(wheel, tmp_path, "bliss/report/page.html", "bliss/stray.py")
    found = release.faults(ROOT, wrong, sdist, "9.9.9")
    assert found == [
        "wheel: bliss/report/page.html is missing",
        "wheel: bliss/stray.py does not belong there",
        f"wheel: its version is {bliss.__version__}, not 9.9.9",
    ]


def test_the_installed_wheel_works_outside_the_source_tree(built, tmp_path):
    """In a new environment that sees the dependencies of this one; `make dist` installs all."""
    commands = release.install(built[0], tmp_path / "venv", "--no-deps", "--no-index")
    (own,) = tmp_path.glob("venv/lib/python*/site-packages")
    here = Path(importlib.util.find_spec("torch").origin).parents[1]
    (own / "dependencies.pth").write_text(f"{here}\n")  # after the own packages

    def said(*command: str) -> str:
        options = {"cwd": tmp_path, "env": {"PATH": "/usr/bin:/bin"}, "check": True}
        return subprocess.run(command, capture_output=True, text=True, **options).stdout

    assert bliss.__version__ in said(str(commands / "bliss"), "--version")
    code = (
        "import bliss, bliss.train; print(bliss.__file__); "
        "print(bliss.train.resolve(dataset='cora').training.lr, bliss.Graph)"
    )
    where, _ = said(str(commands / "python"), "-W", "ignore", "-c", code).splitlines()
    assert Path(where).is_relative_to(own)
    shutil.rmtree(tmp_path / "venv")


NAMED = ("src/bliss/__init__.py", "CITATION.cff", "CHANGELOG.md")
DAY = date(2030, 1, 2)


@pytest.fixture
def repository(tmp_path, monkeypatch) -> Path:
    """A repository with the three files that name a version."""
    (tmp_path / "src/bliss").mkdir(parents=True)
    for name in NAMED:
        shutil.copyfile(ROOT / name, tmp_path / name)
    changelog = "# Changelog\n\n## 0.2.0 (unreleased)\n\n- A line.\n\n## 0.1.0 (2026-12-01)\n"
    (tmp_path / "CHANGELOG.md").write_text(changelog)
    for key in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{key}_NAME", "someone")
        monkeypatch.setenv(f"GIT_{key}_EMAIL", "someone@example.org")
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "first"]):
        release.git(tmp_path, *command)
    return tmp_path


def test_a_release_sets_the_version_commits_and_tags(repository, monkeypatch):
    monkeypatch.setattr(release, "dist", lambda root, version: None)
    release.cut(repository, "0.2.0", DAY)
    source, citation, changelog = ((repository / name).read_text() for name in NAMED)
    assert release.current(repository) == "0.2.0"
    assert source.count("0.2.0") == 1
    assert "version: 0.2.0\ndate-released: 2030-01-02\n" in citation
    assert "## 0.2.0 (2030-01-02)" in changelog
    assert release.git(repository, "tag", "--points-at", "HEAD") == "v0.2.0"
    assert release.git(repository, "status", "--porcelain") == ""
    with pytest.raises(release.Refused, match=r"must be above 0\.2\.0"):
        release.cut(repository, "0.2.0", DAY)


def test_a_release_that_fails_its_checks_leaves_the_files(repository, monkeypatch):
    def fails(root: Path, version: str) -> None:
        assert release.current(root) == version
        raise release.Refused("broken")

    monkeypatch.setattr(release, "dist", fails)
    before = [(repository / name).read_bytes() for name in NAMED]
    with pytest.raises(release.Refused, match="broken"):
        release.cut(repository, "0.2.0", DAY)
    assert [(repository / name).read_bytes() for name in NAMED] == before
    assert release.git(repository, "tag") == ""


@pytest.mark.parametrize(
    ("version", "reason"),
    [("0.3.0", "has no heading"), ("0.1.0", "has no heading"), ("1.0", "three numbers")],
)
def test_a_version_without_a_place_in_the_changelog_is_refused(repository, version, reason):
    with pytest.raises(release.Refused, match=reason):
        release.cut(repository, version, DAY)


def test_uncommitted_changes_are_refused(repository):
    (repository / "CITATION.cff").write_text("changed")
    with pytest.raises(release.Refused, match="uncommitted"):
        release.cut(repository, "0.2.0", DAY)
