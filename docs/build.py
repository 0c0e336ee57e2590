"""Build the documentation site: collect its pages, then run Zensical with warnings as errors.

    python docs/build.py            # into site/
    python docs/build.py --out DIR

The pages are those of docs/, the experiments and benchmarks with the files they link to, the
changelog and the guide for contributors. Links between them are written for the repository;
they are rewritten here for the site, in which docs/ is the root.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(\]\()(?!https?:|#)([^)#\s]+)")


def place(path: PurePosixPath) -> PurePosixPath:
    """Where a file of the repository is on the site; both relative to their roots."""
    if path.parts[0] == "docs":
        return PurePosixPath(*path.parts[1:])
    if path == PurePosixPath("README.md"):
        return PurePosixPath("index.md")
    if path.name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        return PurePosixPath(path.name.lower())
    return path


def pages() -> list[PurePosixPath]:
    """Markdown files of the site, relative to the repository."""
    found = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("experiments/*/*.md")]
    found += [ROOT / name for name in ("benchmarks/README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
    return sorted(PurePosixPath(path.relative_to(ROOT).as_posix()) for path in found)


def resolve(page: PurePosixPath, target: str) -> PurePosixPath:
    """The file of the repository that a link of a page leads to."""
    path = (ROOT / page.parent / target).resolve()
    return PurePosixPath(path.relative_to(ROOT).as_posix())


def relative(target: PurePosixPath, page: PurePosixPath) -> str:
    """Link from one page of the site to another file of it."""
    up = len(page.parent.parts)
    return "../" * up + target.as_posix()


def rewrite(page: PurePosixPath, text: str) -> tuple[str, set[PurePosixPath]]:
    """The text of a page with its links as they are on the site, and the files they lead to."""
    linked: set[PurePosixPath] = set()

    def moved(match: re.Match[str]) -> str:
        target = resolve(page, match[2])
        linked.add(target)
        return match[1] + relative(place(target), place(page))

    return LINK.sub(moved, text), linked


def collect(folder: Path) -> None:
    """Write all pages and the files they link to into a folder."""
    own = pages()
    files = {PurePosixPath("docs/site.css")}
    for page in own:
        text, linked = rewrite(page, (ROOT / page).read_text(encoding="utf-8"))
        out = folder / place(page)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
        files |= linked
    for path in sorted(files - set(own)):
        out = folder / place(path)
        if (ROOT / path).is_file() and not out.exists():  # Zensical reports what is missing
            out.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, out)


def build(out: Path) -> int:
    """Build the site into a folder; returns the exit code of Zensical."""
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        collect(work / "pages")
        shutil.copyfile(ROOT / "mkdocs.yml", work / "mkdocs.yml")
        (work / "src").symlink_to(ROOT / "src")  # for the docstrings
        command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
        code = subprocess.run(command, cwd=work).returncode
        if code == 0:
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(work / "site", out)
    return code


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument("--out", type=Path, default=ROOT / "site", help="folder to write")
    sys.exit(build(parser.parse_args().out))
