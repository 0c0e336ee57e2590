"""Sections -> one self-contained HTML page, with style, script and figures included."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import jinja2
from markupsafe import Markup

from bliss.report.cells import sentence_list
from bliss.report.sections import Section
from bliss.report.style import encode
from bliss.report.svg import inline
from bliss.storage.files import replace_file
from bliss.text import printable

HERE = Path(__file__).parent
MOST_SUBJECTS = 3
"""Networks and data sets that a title names at most."""


def page(sections: Sequence[Section]) -> str:
    """The page as text. Text from data is escaped, and the page runs no script but its own.

    Text passes `printable` here, and labels of figures in charts.py.
    """
    script = (HERE / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        finalize=_shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["bound"] = _bound
    return environment.get_template("page.html").render(
        sections=sections,
        title=_title(sections),
        origin=_origin(sections),
        style=Markup((HERE / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        digest=digest,
        inline=inline,
    )


def write_page(sections: Sequence[Section], out: Path) -> Path:
    """Replace a file by the page."""
    return replace_file(out, page(sections).encode())


def write_figures(sections: Sequence[Section], folder: Path, formats: Sequence[str]) -> list[Path]:
    """Write the figures of sections into a folder, each in all formats."""
    files = {
        folder / f"{chart.name}.{ending}": encode(chart.figure, ending)
        for section in sections
        for chart in section.charts
        for ending in formats
    }
    return [replace_file(path, content) for path, content in files.items()]


def _shown(value: object) -> object:
    """A value of the template, with control characters as escapes."""
    return printable(value) if type(value) is str else value  # Markup is of our own making


def _title(sections: Sequence[Section]) -> str:
    """'Comparison: sage on ppi', or 'Runs and variance: sage on ppi, gcn on cora' of several."""
    kinds: dict[str, str] = {}  # singular -> as it is shown
    for section in sections:
        kind = section.kind.lower().removesuffix("s")
        repeated = kind if kind == "variance" else f"{kind}s"
        kinds[kind] = repeated if kind in kinds else section.kind.lower()
    subjects = list(dict.fromkeys(section.title for section in sections))
    others = len(subjects) - MOST_SUBJECTS
    named = ", ".join(subjects[:MOST_SUBJECTS]) + (f" and {others} more" if others > 0 else "")
    shown = sentence_list(list(kinds.values()))
    return f"{shown[:1].upper()}{shown[1:]}: {named}"


def _origin(sections: Sequence[Section]) -> list[tuple[str, list[str]]]:
    """Dates, machines and graphs of all sections, each once."""
    origins: dict[str, dict[str, None]] = {}
    for section in sections:
        for name, value in section.origin:
            origins.setdefault(name, {})[value] = None
    graphs = origins.get("Graph", {})
    origins["Graph"] = {  # a name alone is left out if it is also there with its sizes
        value: None for value in graphs if not any(o.startswith(f"{value}: ") for o in graphs)
    }
    names = [name for name in ("Date", "Machine", "Graph") if origins.get(name)]
    return [(name, list(origins[name])) for name in names]


def _bound(text: str) -> str:
    """Keep numbers on one line with their signs and units."""
    text = re.sub(r"(?<=\d) (?=(s|ms|seeds?)\b)|(?<=p) (?=[<=])|(?<=[<=]) (?=\d)", "\u00a0", text)
    return text.replace(" \u00b1 ", "\u00a0\u00b1\u00a0")
