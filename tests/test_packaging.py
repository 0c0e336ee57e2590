"""Wheel and sdist hold what they must, the wheel works when installed, and versions agree."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import bliss

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "bliss"
DATA = (".css", ".html", ".js", ".json", ".py", ".pyi", ".typed")


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
        version = requirement.partition(";")[0].partition(">=")[2]
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


def test_the_workflow_runs_commands_that_exist():
    workflow = (ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = re.findall(r"command: make (\w+)(?: CONSTRAINTS=(\S+))?", workflow)
    expected = {("suite", "/dev/null"), ("check", ""), ("quick", "constraints-oldest.txt")}
    assert expected <= set(commands)
    for target, constraints in commands:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
        assert not constraints or Path(ROOT, constraints).exists()


def test_classifiers_are_of_versions_that_the_workflow_runs():
    workflow = (ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8")
    run = set(re.findall(r'python: "([\d.]+)"', workflow))
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project()["classifiers"]))
    assert named
    assert set(named) <= run


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with the wheel and the sdist."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is missing")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


def test_the_wheel_has_every_file_of_the_library_and_no_other(built):
    (wheel,) = built.glob("*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    files = [path for path in SOURCE.rglob("*") if path.suffix in DATA]
    expected = {path.relative_to(SOURCE.parent).as_posix() for path in files}
    assert {"bliss/py.typed", "bliss/report/page.html", "bliss/__init__.pyi"} <= expected
    assert packed == expected


def test_the_sdist_has_sources_tests_docs_and_examples(built):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"pyproject.toml", "LICENSE", "CITATION.cff", "Makefile", "constraints-oldest.txt"}
    wanted |= {"src/bliss/py.typed", "tests/test_packaging.py", "docs/index.md", "mkdocs.yml"}
    assert wanted | {"examples/torchrun.py"} <= names
    assert not [name for name in names if name.startswith((".venv", "site/"))]


def test_the_installed_wheel_works_outside_the_source_tree(built, tmp_path):
    """In a new environment that sees the dependencies of this one."""
    venv = tmp_path / "venv"
    create = [sys.executable, "-m", "venv", "--without-pip", str(venv)]
    subprocess.run(create, check=True)
    python = venv / "bin" / "python"
    (own,) = venv.glob("lib/python*/site-packages")
    (wheel,) = built.glob("*.whl")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps"]
    subprocess.run([*install, "--no-index", str(wheel)], check=True, capture_output=True)
    here = Path(importlib.util.find_spec("torch").origin).parents[1]
    (own / "dependencies.pth").write_text(f"{here}\n")  # after the own packages

    def said(*command: str) -> str:
        options = {"cwd": tmp_path, "env": {"PATH": "/usr/bin:/bin"}, "check": True}
        return subprocess.run(command, capture_output=True, text=True, **options).stdout

    assert bliss.__version__ in said(str(venv / "bin" / "bliss"), "--version")
    code = (
        "import bliss, bliss.train; print(bliss.__file__); "
        "print(bliss.train.resolve(dataset='cora').training.lr, bliss.Graph)"
    )
    where, _ = said(str(python), "-W", "ignore", "-c", code).splitlines()
    assert Path(where).is_relative_to(own)
    shutil.rmtree(venv)
