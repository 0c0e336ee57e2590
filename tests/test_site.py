"""The site builds without warnings, its tutorial works, and every command in it exists."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from bliss.cli import app
from docs.mathematics import mathml
from tests.test_docs import full_help

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
FOREIGN = r'<(?:script|link|img)[^>]*(?:src|href)="(?:[a-z]+:)?//'
EXCERPTS = {"processes.md": "torchrun.py", "lightning.md": "lightning_module.py"}


def build(*options: str, source: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(source / "docs" / "build.py"), *options]
    return subprocess.run(
        command, capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1"}
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built once."""
    pytest.importorskip("zensical")
    folder = tmp_path_factory.mktemp("site") / "site"
    done = build("--out", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "python -m http.server" in done.stdout
    return folder


def test_the_site_loads_nothing_from_elsewhere_and_has_formulas_and_docstrings(site):
    pages = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    assert len(pages) > 30
    for path, text in pages.items():
        assert not re.findall(FOREIGN, text), path.name
        assert "arithmatex" not in text, path.name
        assert " ± " not in text, path.name
        assert path.name != "notes.html"
    assert pages[site / "explanation.html"].count("<math ") > 50
    assert '<span class="flag">--seconds</span>' in pages[site / "index.html"]
    assert "Whether to drop the last batch" in pages[site / "reference/core.html"]


def test_the_search_works_in_pages_from_the_disk(site, browser):
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "explanation.html").as_uri())
    page.keyboard.press("Control+k")
    page.keyboard.type("larger than memory")
    page.get_by_text("Use a graph larger than memory").last.wait_for(timeout=20_000)
    assert all(url.startswith("file:") for url in asked)
    page.close()


@pytest.mark.parametrize("width", [390, 1280])
def test_pages_do_not_scroll_sideways(site, browser, width):
    page = browser.new_page(viewport={"width": width, "height": 800})
    for name in ("index", "tutorial", "labels", "explanation", "samplers", "own-models"):
        page.goto((site / f"{name}.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
    page.close()


def test_formulas_become_mathml():
    found = mathml(r"V = \sum_j \frac{1}{p_j} \lvert h_j \rvert^2 < \text{a b}", display=True)
    for part in (
        'display="block"',
        "<munder><mo>∑</mo><mi>j</mi></munder>",
        "<mfrac><mrow><mn>1</mn></mrow><mrow><msub><mi>p</mi><mi>j</mi></msub></mrow></mfrac>",
        "<mo>&lt;</mo><mtext>a b</mtext>",
    ):
        assert part in found
    assert "<msub><mo>∑</mo><mi>j</mi></msub>" in mathml(r"\sum_j")
    ElementTree.fromstring(found)


@pytest.mark.parametrize("wrong", [r"\unknown", r"\frac{1}", "a_", r"\left( a", "{a"])
def test_a_formula_that_is_not_understood_is_an_error(wrong):
    with pytest.raises(ValueError, match=r"formula|known"):
        mathml(wrong)


def copied(folder: Path) -> Path:
    """A small site of the same form: one page, and links to it."""
    (folder / "docs").mkdir()
    (folder / "src").mkdir()
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        (folder / name).write_text("# One\n")
    (folder / "benchmarks").mkdir()
    (folder / "benchmarks/README.md").write_text("# Benchmarks\n")
    for name in ("build.py", "mathematics.py"):
        (folder / "docs" / name).write_text((DOCS / name).read_text())
    (folder / "mkdocs.yml").write_text("site_name: s\ndocs_dir: pages\nsite_dir: site\n")
    return folder


RIGHT = ("../benchmarks/README.md#benchmarks", "../CHANGELOG.md", "../README.md#home")
WRONG = ("nowhere.md", "../benchmarks/README.md#nowhere")


@pytest.mark.parametrize("more", [(), *((link,) for link in WRONG)])
def test_a_broken_link_fails_the_build(tmp_path, more):
    pytest.importorskip("zensical")
    source = copied(tmp_path)
    links = "\n".join(f"[link]({link})" for link in (*RIGHT, *more))
    (source / "README.md").write_text("# Home\n")
    (source / "docs/page.md").write_text(f"# Page\n\n{links}\n")
    done = build(source=source)
    assert (done.returncode == 0) == (not more), done.stdout + done.stderr
    assert (source / "site").exists() == (not more)


def test_every_page_is_in_the_navigation_once():
    listed = re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text().partition("nav:")[2])
    docs = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    others = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("experiments/*/README.md")}
    assert sorted(listed) == sorted(
        docs | others | {"index.md", "benchmarks/README.md", "contributing.md", "changelog.md"}
    )


def without_numbers(text: str) -> str:
    """Output without its numbers, which differ between machines, and without spaces."""
    return re.sub(r"[\d.,\s]+", "", text)


def test_the_tutorial_leads_to_predictions(tmp_path, monkeypatch, capsys):
    """All its blocks, in order, in one empty folder."""
    blocks = BLOCK.findall((DOCS / "tutorial.md").read_text(encoding="utf-8"))
    assert {language for language, _ in blocks} == {"python", "bash", "text"}
    monkeypatch.chdir(tmp_path)
    shown = ""
    for language, code in blocks:
        if language == "python":
            exec(compile(code, "tutorial", "exec"), {})
            shown += capsys.readouterr().out
        for line in code.splitlines():
            if language == "text":
                assert without_numbers(line) in without_numbers(shown), line
            elif language == "bash":
                name, *arguments = shlex.split(line)
                assert name == "bliss"
                done = CliRunner().invoke(app, arguments, env={"COLUMNS": "100"})
                assert done.exit_code == 0, f"{line}\n{done.output}"
                shown += done.output
    accuracy = float(re.search(r"([\d.]+) of the unlabelled papers are right", shown)[1])
    assert accuracy > 0.8  # of 4 classes; from the words alone about 0.5
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert float(re.findall(r"^test accuracy ([\d.]+)$", shown, re.MULTILINE)[-1]) > 0.8


@pytest.mark.parametrize("page", EXCERPTS)
def test_excerpts_are_those_of_the_examples_that_run(page):
    example = (ROOT / "examples" / EXCERPTS[page]).read_text(encoding="utf-8")
    blocks = [code for language, code in BLOCK.findall((DOCS / page).read_text()) if language]
    assert len(blocks) > 1
    for code in blocks:
        plain = textwrap.dedent(code)  # the block of a method may be indented or not
        assert plain in example or textwrap.indent(plain, "    ") in example


def commands() -> list[tuple[str, str]]:
    """Lines of fenced and of indented blocks that call bliss, and the page they are on."""
    found = []
    for page in sorted(DOCS.glob("*.md")):
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        lines = [line for _, code in BLOCK.findall(text) for line in code.splitlines()]
        lines += re.findall(r"^    (.*)", BLOCK.sub("", text), re.MULTILINE)
        found += [(page.name, line) for line in lines if line.startswith("bliss ")]
    return found


def test_commands_of_the_docs_exist():
    known: dict[str, str] = {}
    found = commands()
    assert len(found) > 10
    for page, line in found:
        words = shlex.split(line, comments=True)[1:]
        command = words[:2] if words[0] == "data" else words[:1]
        name = " ".join(command)
        if name not in known:
            helped = CliRunner().invoke(app, [*command, full_help(name)], env={"COLUMNS": "200"})
            assert helped.exit_code == 0, (page, line)
            known[name] = helped.output
        for word in words:
            if word.startswith("--"):
                assert word in known[name], (page, line)
