"""Build the documentation site: collect its pages, then run Zensical with warnings as errors.

    python docs/build.py            # into site/
    python docs/build.py --out DIR

The pages are the README as the home page, those of docs/, the experiments and benchmarks with the
files they link to, the changelog and the guide for contributors. Links between them are written for
the repository; they are rewritten here for the site, in which docs/ is the root. Formulas become
MathML. The site links to the repository that `git remote get-url origin` names, if there is one.

The pages need no network and no server: open site/index.html, or `python -m http.server -d site`.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path, PurePosixPath

sys.path.insert(0, str(Path(__file__).parent))
from mathematics import convert

ROOT = Path(__file__).resolve().parents[1]
ALONE = (PurePosixPath("README.md"), PurePosixPath("docs/tutorial.md"))
"""Pages that are the only ones of their tab: they have no navigation at the side."""
CODE = re.compile(r"<code>([^<]*)</code>")
FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]*")
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
    found = [
        path for path in found if not path.name.endswith("notes.md")
    ]  # parts of the pages beside them
    found += [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
    found.append(ROOT / "benchmarks/README.md")
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
    files = {PurePosixPath(path.relative_to(ROOT).as_posix()) for path in ROOT.glob("docs/theme/*")}
    for page in own:
        text, linked = rewrite(page, (ROOT / page).read_text(encoding="utf-8"))
        if page in ALONE:
            text = f"---\nhide: [navigation]\n---\n\n{text}"
        out = folder / place(page)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
        files |= linked
    for path in sorted(files - set(own)):
        out = folder / place(path)
        if (ROOT / path).is_file() and not out.exists():  # Zensical reports what is missing
            out.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, out)


def repository() -> str | None:
    """Address of the repository for a browser, from git's remote `origin`."""
    command = ["git", "-C", str(ROOT), "remote", "get-url", "origin"]
    try:
        url = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except OSError:  # no git
        return None
    url = re.sub(r"^(?:ssh://)?git@([^:/]+)[:/]", r"https://\1/", url).removesuffix(".git")
    return url if url.startswith("https://") and "@" not in url else None


def settings() -> str:
    """The site's settings, with the address of the repository."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    url = repository()
    return text if url is None else f"{text}\nrepo_url: {url}\n"


def unbroken(text: str) -> str:
    """A page on which no line ends within an option such as --out, or beside ±."""

    def marked(match: re.Match[str]) -> str:
        return FLAG.sub(r'<span class="flag">\g<0></span>', match[0])

    return CODE.sub(marked, text.replace(" ± ", "\u00a0±\u00a0"))


def finish(site: Path) -> None:
    """Write formulas as MathML, and as their LaTeX in the index of the search."""
    for page in site.rglob("*.html"):
        text = convert(page.read_text(encoding="utf-8"))
        page.write_text(unbroken(text), encoding="utf-8")
    for index in (site / "search.json", site / "search.js"):
        if index.exists():
            text = re.sub(r"\\\\[()\[\]]", "", index.read_text(encoding="utf-8"))
            index.write_text(text, encoding="utf-8")
    if (site / "search.json").exists():
        json.loads((site / "search.json").read_text(encoding="utf-8"))


def build(out: Path) -> int:
    """Build the site into a folder; returns the exit code of Zensical."""
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        collect(work / "pages")
        (work / "mkdocs.yml").write_text(settings(), encoding="utf-8")
        (work / "src").symlink_to(ROOT / "src")  # for the docstrings
        command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
        code = subprocess.run(command, cwd=work).returncode
        if code == 0:
            finish(work / "site")
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(work / "site", out)
            print(f"Open {out / 'index.html'}, or serve it: python -m http.server -d {out}")
    return code


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument("--out", type=Path, default=ROOT / "site", help="folder to write")
    sys.exit(build(parser.parse_args().out))
