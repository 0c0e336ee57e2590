"""Style of the figures (colours, lines and fonts) and their files.

INK, GRID, PAPER and SERIES are the only colours, so that svg.py can replace them by those of the
page's theme. Series differ by colour, line style and marker.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from bliss.errors import InputError

INK, GRID, PAPER = "#1c1d1f", "#d9dbde", "#fefefe"
SERIES = ("#0072b2", "#c2410c", "#007a5a", "#a23e8c", "#8a6d00", "#62666d")
MARKERS = "os^Dv*PX<>hd"
STYLES: tuple[str | tuple[int, tuple[float, ...]], ...] = (
    "-",
    (0, (5, 1.6)),
    (0, (6, 1.5, 1.2, 1.5)),
    (0, (2.4, 1.4)),
    (0, (8, 2)),
    (0, (1.2, 1.2)),
    (0, (4, 1.2, 1.2, 1.2, 1.2, 1.2)),
)
FORMATS = ("png", "svg", "pdf")
WIDTH = 4.4  # inches: a column of a paper, half of the page, a whole phone
SETTINGS: dict[Any, Any] = {
    "font.size": 9.5,
    "font.family": ["DejaVu Sans", "sans-serif"],
    "text.parse_math": False,  # names from data may hold dollars
    "svg.fonttype": "none",
    "svg.hashsalt": "bliss",
    "pdf.fonttype": 42,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.facecolor": "none",
    "axes.linewidth": 0.7,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "figure.facecolor": "none",
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "legend.handletextpad": 0.6,
    "legend.columnspacing": 1.1,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
}


@contextmanager
def settings() -> Iterator[None]:
    """Draw and save with these settings, without warnings about missing glyphs."""
    with matplotlib.rc_context(SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # names in other scripts
        yield


def look(index: int) -> dict[str, Any]:
    """Colour, marker and line style of a series; the others change after six colours."""
    number = len(SERIES)
    return {
        "color": SERIES[index % number],
        "marker": MARKERS[index % len(MARKERS)],
        "linestyle": STYLES[(index + 2 * (index // number)) % len(STYLES)],
        "markeredgewidth": 0,
    }


def file_formats(formats: Sequence[str]) -> tuple[str, ...]:
    """The formats, checked."""
    for name in formats:
        if name not in FORMATS:
            raise InputError(
                f"formats holds {name!r}, but figures are written as {', '.join(FORMATS)}: "
                "choose from these."
            )
    return tuple(dict.fromkeys(formats))


def encode(figure: Figure, ending: str, is_inline: bool = False) -> bytes:
    """The bytes of a file, always equal for equal figures; inline ones have no background."""
    content = io.BytesIO()
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
    with settings():
        figure.savefig(
            content,
            format=ending,
            dpi=300,
            facecolor="none" if is_inline else "white",
            bbox_inches=None if is_inline else "tight",
            pad_inches=0.03,
            metadata=dates[ending],
        )
    return content.getvalue()
