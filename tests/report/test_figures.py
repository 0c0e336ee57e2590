"""Figures: files for papers, SVG for pages, colours that can be told apart from their ground."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import bliss.report
from bliss.errors import InputError
from bliss.report import save_figures
from bliss.report.charts import Series, coincidences, coinciding, curves, shrinking
from bliss.report.style import SERIES, look
from bliss.report.svg import inline
from tests.report import factory

pytestmark = pytest.mark.slow

CSS = (Path(bliss.report.__file__).parent / "page.css").read_text(encoding="utf-8")
SVG = "{http://www.w3.org/2000/svg}"


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def themes() -> list[dict[str, str]]:
    blocks = re.findall(r"color-scheme: (?:light|dark);(.*?)}", CSS, re.DOTALL)
    return [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for block in blocks]


def test_files_of_both_formats_are_written(tmp_path, results, sections_of):
    files = save_figures(results["run"], tmp_path / "figures")
    charts = [chart for section in sections_of("run") for chart in section.charts]
    assert [file.name for file in files] == [
        f"{chart.name}.{ending}" for chart in charts for ending in ("png", "svg")
    ]
    for file in files:
        if file.suffix == ".svg":
            root = ElementTree.parse(file).getroot()
            texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
            assert "step" in texts or len(texts) > 4  # text stays text
        else:
            head = file.read_bytes()[:200]
            assert head.startswith(b"\x89PNG")
            assert int.from_bytes(head[16:20], "big") > 1000  # 300 dpi


def test_the_same_results_give_the_same_bytes(tmp_path):
    run = factory.run(tmp_path / "run")
    formats = ("png", "svg", "pdf")
    first, second = (save_figures([run], tmp_path / name, formats) for name in "ab")
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]


def test_unknown_formats_are_refused(tmp_path):
    with pytest.raises(InputError, match="formats holds 'gif'"):
        save_figures([factory.run(tmp_path / "run")], tmp_path / "figures", ("png", "gif"))


@pytest.fixture(scope="module")
def drawn(sections):
    """Every chart of a page as inline SVG."""
    return [str(inline(chart)) for section in sections for chart in section.charts]


def test_ids_of_inline_figures_are_unique_and_references_resolve(drawn):
    seen: set[str] = set()
    for svg in drawn:
        ids = re.findall(r'\bid="([^"]+)"', svg)
        assert len(set(ids)) == len(ids)
        assert not seen & set(ids)
        seen |= set(ids)
        links = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', svg)
        assert links
        assert {a or b for a, b in links} <= set(ids)


def test_inline_figures_leave_every_colour_to_the_theme(drawn):
    for svg in drawn:
        assert set(re.findall(r"#[0-9a-f]{6}\b", svg)) <= {"#000000"}


def test_alternative_texts_are_sentences_with_numbers(sections):
    for section in sections:
        for chart in section.charts:
            assert chart.alt.endswith(".")
            assert len(re.findall(r"\d", chart.alt)) >= 3
            assert len(chart.alt.split()) >= 8


def test_alternative_text_of_variance_gives_first_and_last_value(sections_of):
    (section,) = sections_of("variance")
    alt = section.charts[0].alt
    assert "exp3 goes from 0.999 to 0.950 and node goes from 0.990 to 0.492" in alt
    assert "the limit for PLADIES' number of sources ends at 0.485" in alt


def test_colours_stand_out_in_every_theme():
    light, *dark = themes()
    assert len(dark) == 2
    assert dark[0] == dark[1]  # the toggle and the system's wish agree
    assert tuple(light[f"series-{n}"] for n in range(1, 7)) == SERIES
    for theme in (light, dark[0]):
        for name, colour in theme.items():
            if name.startswith("series"):
                assert contrast(colour, theme["paper"]) >= 3, name
        for name in ("ink", "quiet", "accent"):
            assert contrast(theme[name], theme["paper"]) >= 4.5, name
        assert contrast(theme["quiet"], theme["raised"]) >= 4.5
    assert contrast("#e69f00", light["paper"]) < 3  # what this test would refuse


def test_matplotlib_is_loaded_only_for_a_report():
    code = "import bliss.report, sys; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def line(label, y, index):
    return Series.of(label, [1, 2, 3, 4], y, index=index)


SAME = [line("a", [0.1, 0.5, 0.7, 0.8], 0), line("b", [0.1, 0.5, 0.7, 0.801], 1)]
APART = line("c", [0.2, 0.6, 0.8, 0.9], 2)


def test_lines_that_coincide_are_drawn_wide_beneath_and_named():
    series = [*SAME, APART]
    assert coincidences(series) == [(0, 1)]
    assert coinciding(series) == ["a and b coincide"]
    drawn = curves(series, "step", "F1").axes[0].get_lines()
    assert drawn[0].get_linewidth() > 2 * drawn[1].get_linewidth()
    assert drawn[1].get_linewidth() == drawn[2].get_linewidth()


def test_error_bars_at_the_same_share_are_set_apart():
    series = [Series.of(name, [1, 0.5], [0.9, 0.8], [0.1, 0.1], index=n) for n, name in
              enumerate("abc")]  # fmt: skip
    axes = shrinking(series, "share", "F1").axes[0]
    places = [bars.lines[0].get_xdata()[0] for bars in axes.containers]
    assert len({round(float(x), 3) for x in places}) == 3
    assert places[1] == pytest.approx(1)
    assert sorted(axes.get_xticks()) == [0.5, 1]


def test_twenty_series_look_different():
    looks = [look(index) for index in range(20)]
    assert len({(str(one["color"]), str(one["linestyle"])) for one in looks}) == 20
