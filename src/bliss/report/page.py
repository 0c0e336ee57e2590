"""Sections -> one HTML page that needs nothing else: style, script and figures are inside it."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import jinja2
from markupsafe import Markup

from bliss.report.sections import Section
from bliss.report.svg import inline

HERE = Path(__file__).parent


def page(sections: Sequence[Section]) -> str:
    """The page as text. Whatever comes from data is escaped; no script but ours may run."""
    script = (HERE / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["bound"] = _bound
    return environment.get_template("page.html").render(
        sections=sections,
        title=_title(sections),
        style=Markup((HERE / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        digest=digest,
        inline=inline,
    )


def _title(sections: Sequence[Section]) -> str:
    if len(sections) == 1:
        return f"{sections[0].kind}: {sections[0].title}"
    return "Results"


def _bound(text: str) -> str:
    """Keep numbers with their signs and units on one line."""
    text = re.sub(r"(?<=\d) (?=(s|ms|seeds?)\b)|(?<=p) (?=[<=])|(?<=[<=]) (?=\d)", "\u00a0", text)
    return text.replace(" \u00b1 ", "\u00a0\u00b1\u00a0")
