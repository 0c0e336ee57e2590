"""The command of the paper's tables, and the pages that it writes of results."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bliss.errors import DamagedError
from bliss.report.sections import Names, Section
from experiments.paper import page, record, tables
from experiments.paper.__main__ import app
from experiments.paper.section import reproduction_section
from tests.report.factory import MACHINE, alter, curve, wobble, write
from tests.report.test_odd_numbers import spoil
from tests.report.test_tables import column, table
from tests.report.test_tables import read as values_of

pytestmark = pytest.mark.slow
HERE = Path(tables.__file__).parent


def reproduction(folder: Path, **changes: Any) -> Path:
    """A folder with made-up results."""
    datasets, models = ("cora", "citeseer", "flickr"), ("sage", "gatv2")
    samplers = ("ladies", "pladies", "bliss")
    f1, time, figures = [], [], []
    for p, preset in enumerate(("paper", "ours")):
        for d, dataset in enumerate(datasets):
            for m, model in enumerate(models):
                for s, sampler in enumerate(samplers):
                    who = {"preset": preset, "dataset": dataset, "model": model}
                    who |= {"sampler": sampler}
                    published = 0.81 - 0.09 * d + 0.01 * s + 0.008 * m
                    ours = published + 0.05 * p * d + 0.012 * wobble(p, d, m, s)
                    f1.append(
                        who
                        | {
                            "split": "test",
                            "ours": ours,
                            "ours_std": 0.006,
                            "published": published,
                            "published_std": 0.009,
                            "difference": ours - published,
                            "seeds": 5,
                            "scores": [ours] * 5,
                        }
                    )
                    pace = 0.02 * (1 + d) * (1 + 0.4 * s) * (1 + 2 * m)
                    time.append(
                        who
                        | {
                            "ours": pace,
                            "ours_std": 0.1 * pace,
                            "published": 1.7 * pace,
                            "published_std": 0.2 * pace,
                            "ratio": 1 / 1.7,
                        }
                    )
                    if d == 0:
                        figures.append(who | curve(s + p))
    growths = []
    for quantity in ("time", "memory", "variance"):
        for s, sampler in enumerate(samplers):
            exponent = {"time": 1.0, "memory": 0.9, "variance": -1.1}[quantity] + 0.04 * s
            growths.append(
                {
                    "quantity": quantity,
                    "sampler": sampler,
                    "grows_with": "budget" if quantity == "variance" else "edges",
                    "exponent": exponent,
                    "stated": "at most linear" if quantity == "time" and s == 2 else 1.0,
                    "points": [[x, (1 + s) * 1e-4 * x**exponent] for x in (1e3, 4e3, 16e3, 64e3)],
                }
            )
    values = {
        "kind": "reproduction",
        "command": "python -m experiments.paper",
        "machine": MACHINE,
        "date": "2026-02-03",
        "seconds": 5321.0,
        "presets": ["paper", "ours"],
        "tables": {"f1": f1, "time": time, "variance": growths},
        "figures": figures,
        "missing": [
            {"dataset": "reddit", "remedy": "Run `bliss data get reddit` and run it again."}
        ],
    }
    write(folder / "results.json", {"reproduction": values | changes})
    return folder


def section_of(folder: Path) -> Section:
    return reproduction_section(record.reproduction(folder).read(), Names())


def test_tables_hold_the_numbers_of_the_file(tmp_path):
    sections = [section_of(reproduction(tmp_path))]
    stored = values_of(tmp_path / "results.json")["reproduction"]["tables"]
    for part, preset in enumerate(("paper", "ours")):
        for caption, key, names in (
            ("F1", "f1", {"Ours": "ours", "Published": "published", "Difference": "difference"}),
            ("Time", "time", {"Ours, s": "ours", "Published, s": "published", "Ratio": "ratio"}),
        ):
            rows = [row for row in stored[key] if row["preset"] == preset]
            for name, field in names.items():
                cells = column(table(sections, caption, part), name)
                assert [float(cell.key) for cell in cells] == [row[field] for row in rows]
    exponents = column(table(sections, "Growth", 2), "Exponent")
    assert [float(cell.key) for cell in exponents] == [
        row["exponent"] for row in stored["variance"]
    ]


def test_missing_data_is_a_remark(tmp_path):
    section = section_of(reproduction(tmp_path, tables={}, figures=[]))
    assert section.parts == []
    assert section.remarks[0].startswith("reddit is missing. Run")


def test_points_that_do_not_fit_are_refused(tmp_path):
    growth = {"quantity": "time", "sampler": "x", "grows_with": "edges", "exponent": 1, "stated": 1}
    reproduction(tmp_path, tables={"variance": [growth | {"points": [[1, 2, 3]]}]})
    with pytest.raises(DamagedError, match="length 2"):
        record.reproduction(tmp_path).read()


@pytest.mark.parametrize("share", [0.1, 1.0])
def test_a_page_has_its_figures_and_no_odd_numbers(tmp_path, share):
    reproduction(tmp_path)
    generator = random.Random(f"reproduction {share}")
    alter(tmp_path, lambda values: spoil(values, generator, share))
    written, figures = page.write(tmp_path)
    html = written.read_text(encoding="utf-8")
    assert html.count("<figure") * 2 == len(figures) > 0
    assert {path.suffix for path in figures} == {".png", ".svg"}
    shown = re.sub(r"<(style|script|details)>.*?</\1>|<[^>]*>", " ", html, flags=re.DOTALL)
    assert not re.search(r"\b(nan|inf|none|null)\b", shown, re.IGNORECASE)


def test_the_stored_tables_are_those_of_the_stored_results():
    assert (HERE / "tables.md").read_text(encoding="utf-8") == tables.page(HERE)


def test_help_answers():
    helped = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"})
    assert helped.exit_code == 0, helped.output
    for option in ("--root", "--out", "--preset", "--tables", "--figures", "--datasets", "--seeds"):
        assert option in helped.output


def test_the_command_runs_small_and_says_what_is_missing(data_root, tmp_path):
    small = ["--preset", "ours", "--tables", "f1", "--datasets", "cora,reddit", "--models", "sage"]
    small += ["--seeds", "1", "--steps", "2", "--root", str(data_root), "--out", str(tmp_path)]
    result = CliRunner().invoke(app, [*small, "--figures"])
    assert result.exit_code == 0, result.output
    assert "reddit is left out" in result.output
    assert "0.795 ± 0.009" in result.output
    assert "± 0.000 " not in result.output  # one seed has no deviation
    assert list((tmp_path / "figures").glob("*.svg"))
    assert "| ours | cora | sage | bliss | test |" in (tmp_path / "tables.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [(["--preset", "theirs"], "preset='theirs'"), (["--tables", "f2"], "tables='f2'")],
)
def test_bad_input_is_one_sentence_and_exit_code_two(arguments, word, tmp_path):
    result = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "x")])
    assert result.exit_code == 2, result.output
    assert word in result.output
    assert not (tmp_path / "x").exists()
