"""Build and check the wheel and the sdist, and cut a release.

    python tools/release.py dist              # build into dist/ and check
    python tools/release.py cut 0.1.0         # versions, dist/, commit and tag

`dist` installs the wheel in a new environment, with the versions of constraints.txt, and runs it.
`cut` sets the version and the date in the source, CITATION.cff and CHANGELOG.md, does what `dist`
does, commits and tags. If a check fails, the three files are as before. Nothing is uploaded.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from email.message import Message
from email.parser import Parser
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
VERSION = re.compile(r"\d+\.\d+\.\d+")
GENERATED = {"", "PKG-INFO"}
"""Names in an sdist beside those of tracked files and their folders."""
SHIPPED = (".css", ".html", ".js", ".json", ".py", ".pyi", ".typed")


class Refused(Exception):
    """A release cannot be cut; the message says why."""


def git(root: Path, *arguments: str) -> str:
    """What a git command prints."""
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def build(root: Path, folder: Path) -> tuple[Path, Path]:
    """Build the wheel and the sdist of a source tree into a folder."""
    for earlier in (*folder.glob("*.whl"), *folder.glob("*.tar.gz")):
        earlier.unlink()
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder.resolve())]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def metadata(wheel: Path) -> Message:
    """Fields of a wheel's METADATA."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def faults(root: Path, wheel: Path, sdist: Path, version: str) -> list[str]:
    """What is missing from the wheel and the sdist or should not be in them, one line each."""
    found = []
    source = root / "src"
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        licensed = any(name.endswith("licenses/LICENSE") for name in archive.namelist())
    files = (path for path in source.glob("bliss/**/*") if path.suffix in SHIPPED)
    expected = {path.relative_to(source).as_posix() for path in files}
    found += [f"wheel: {name} is missing" for name in sorted(expected - packed)]
    found += [f"wheel: {name} does not belong there" for name in sorted(packed - expected)]
    if not licensed:
        found.append("wheel: LICENSE is missing")
    fields = metadata(wheel)
    if fields["Version"] != version:
        found.append(f"wheel: its version is {fields['Version']}, not {version}")
    for name in (
        "Summary",
        "License-Expression",
        "Requires-Python",
        "Classifier",
        "Description-Content-Type",
    ):
        if not fields[name]:
            found.append(f"wheel: {name} is missing in its metadata")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    kept = tracked(root)
    found += [f"sdist: {name} is missing" for name in sorted(kept - names)]
    folders = {parent.as_posix() for name in kept for parent in PurePosixPath(name).parents}
    strays = names - kept - folders - GENERATED
    found += [f"sdist: {name} does not belong there" for name in sorted(strays)]
    return found


def tracked(root: Path) -> set[str]:
    """Files that git tracks. The sdist has all of them, because its tests read many."""
    names = git(root, "ls-files", "-z").split("\0")
    return {name for name in names if (root / name).is_file()}


def install(wheel: Path, venv: Path, *options: str) -> Path:
    """Install a wheel in a new environment; returns the folder of its commands."""
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    python = venv / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", *options, str(wheel)], check=True)
    return venv / "bin"


def try_out(commands: Path, version: str, folder: Path) -> None:
    """Run the installed command outside the source tree: its version, and a short demonstration."""
    said = subprocess.run(
        [commands / "bliss", "--version"], cwd=folder, check=True, capture_output=True, text=True
    ).stdout
    if version not in said:
        raise Refused(f"The installed command calls itself {said.strip()!r}, not {version}.")
    demo = [commands / "bliss", "demo", "--seconds", "0.5", "--out", "demo"]
    subprocess.run(demo, cwd=folder, check=True)
    if not (folder / "demo" / "report.html").exists():
        raise Refused("The installed `bliss demo` has written no report.")


def dist(root: Path, version: str) -> None:
    """Build into dist/ and check what was built."""
    wheel, sdist = build(root, root / "dist")
    found = faults(root, wheel, sdist, version)
    if found:
        raise Refused("\n".join(found))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        constraints = str(root / "constraints.txt")
        try_out(install(wheel, folder / "venv", "--constraint", constraints), version, folder)
    print(f"{wheel.name} and {sdist.name} are in dist/ and work.")


def current(root: Path) -> str:
    """The version in the source."""
    return re.search(r'__version__ = "(.*?)"', (root / "src/bliss/__init__.py").read_text())[1]


def edits(root: Path, version: str, today: date) -> dict[Path, str]:
    """Texts of the files that name the version, for this version and this day."""
    changelog = root / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8")
    heading = f"## {version} (unreleased)\n"
    _, found, rest = text.partition(heading)
    if not found:
        raise Refused(
            f"CHANGELOG.md has no heading '{heading.strip()}': write what {version} brings."
        )
    if not re.search(r"^- ", rest.partition("\n## ")[0], re.MULTILINE):
        raise Refused(f"CHANGELOG.md has no line under {version}: write what it brings.")
    source, citation = root / "src/bliss/__init__.py", root / "CITATION.cff"
    cited = re.sub(
        r"^date-released:.*\n", "", citation.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    dated = f"version: {version}\ndate-released: {today.isoformat()}\n"
    return {
        changelog: text.replace(heading, f"## {version} ({today.isoformat()})\n"),
        source: re.sub(
            r'(__version__ = ").*?"', rf'\g<1>{version}"', source.read_text(encoding="utf-8")
        ),
        citation: re.sub(r"^version:.*\n", dated, cited, flags=re.MULTILINE),
    }


@contextmanager
def written(texts: dict[Path, str]) -> Iterator[None]:
    """Files with other texts; as before if what follows fails."""
    before = {path: path.read_bytes() for path in texts}
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    try:
        yield
    except BaseException:
        for path, content in before.items():
            path.write_bytes(content)
        raise


def cut(root: Path, version: str, today: date) -> None:
    """Set the version, build, check, commit and tag."""
    if not VERSION.fullmatch(version):
        raise Refused(f"The version {version!r} must be three numbers, such as 0.1.0.")
    if git(root, "status", "--porcelain"):
        raise Refused("There are uncommitted changes: commit or stash them first.")
    tags = [
        tag[1:] for tag in git(root, "tag", "--list", "v*").split() if VERSION.fullmatch(tag[1:])
    ]
    newest = max(tags, key=numbers, default=None)
    if newest and numbers(version) <= numbers(newest):
        raise Refused(f"The version {version} must be above {newest}, which is tagged.")
    with written(edits(root, version, today)):
        dist(root, version)
        git(root, "commit", "--all", "--message", f"Release {version}")
    git(root, "tag", "--annotate", f"v{version}", "--message", f"bliss {version}")
    print(f"Tagged v{version}. docs/releasing.md says how to publish it.")


def numbers(version: str) -> tuple[int, ...]:
    """A version as numbers, for comparison."""
    return tuple(map(int, version.split(".")))


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Build, check and tag a release.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("dist", help="build into dist/ and check")
    commands.add_parser("cut", help="set the version, build, check, commit and tag").add_argument(
        "version", help="for instance 0.1.0"
    )
    given = parser.parse_args()
    try:
        if given.command == "dist":
            dist(ROOT, current(ROOT))
        else:
            cut(ROOT, given.version, date.today())
    except Refused as reason:
        sys.exit(str(reason))


if __name__ == "__main__":
    main()
