"""A figure as inline SVG: colours of the page's theme, unique ids, `alt` for screen readers."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from markupsafe import Markup

from bliss.report.charts import Chart
from bliss.report.style import GRID, INK, PAPER, SERIES, encode
from bliss.text import printable

COLOURS = {
    INK: "currentColor",
    GRID: "var(--grid)",
    PAPER: "var(--paper)",
    **{colour: f"var(--series-{n})" for n, colour in enumerate(SERIES, start=1)},
}


def inline(chart: Chart) -> Markup:
    """The chart as an <svg> element; its text is escaped."""
    root = ElementTree.fromstring(encode(chart.figure, "svg", is_inline=True))
    for parent in root.iter():
        for child in list(parent):
            if child.tag.endswith(("}metadata", "}style")):
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.split("}")[-1]  # HTML needs no namespaces
        given = {name.split("}")[-1]: value for name, value in element.attrib.items()}
        element.attrib.clear()
        element.attrib.update({k: _adapt(k, v, chart.name) for k, v in given.items()})
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib |= {"role": "img", "aria-label": printable(chart.alt)}
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _adapt(name: str, value: str, prefix: str) -> str:
    if name == "id":
        return f"{prefix}-{value}"
    if name == "href":
        return value.replace("#", f"#{prefix}-", 1)
    value = value.replace("url(#", f"url(#{prefix}-")
    value = re.sub(r"font: ((?:\w+ )*[\d.]+px) [^;]*", r"font: \1 var(--sans)", value)
    if name in ("style", "fill", "stroke"):
        value = re.sub(r"#[0-9a-f]{6}", lambda match: COLOURS.get(match[0], match[0]), value)
    return value
