"""README.md: the notes, and tables of results.json. `python -m experiments.scale.page`.

results.json has measurements of the commands in the notes, entered by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from bliss.storage import records

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"


class Measurement(records.Record, frozen=True, kw_only=True):
    """One command, or a part of it; what was not measured is empty or None."""

    what: str
    seconds: list[float]
    """By run."""
    cpu: list[float] = msgspec.field(default_factory=list)
    """Seconds of processors, by run."""
    peak_gib: float | None = None
    """Peak resident memory."""
    anonymous_gib: float | None = None
    """Part of it that is not pages of files."""
    read_gb: float | None = None
    written_gb: float | None = None
    is_approximate: bool = False


class Results(records.Record, frozen=True, kw_only=True):
    """results.json: measurements by graph and name."""

    small: dict[str, Measurement]
    large: dict[str, Measurement]
    step_ms: float
    """Milliseconds of a training step on the large graph."""


def main() -> None:
    """Write README.md."""
    (HERE / "README.md").write_text(page(), encoding="utf-8")


def stored() -> Results:
    """What results.json holds."""
    return records.read(RESULTS, Results, "restore it")


def page() -> str:
    """Text of README.md."""
    text, found = (HERE / "notes.md").read_text(encoding="utf-8"), stored()
    text = text.replace("<!-- small -->", table(list(found.small.values()), has_traffic=False))
    return text.replace("<!-- large -->", table(list(found.large.values()), has_traffic=True))


def table(rows: Sequence[Measurement], *, has_traffic: bool) -> str:
    """A Markdown table of measurements, with or without bytes read and written."""
    heads = ["", "seconds", "of it CPU", "peak resident memory", "of it anonymous"]
    heads += ["read", "written"] * has_traffic
    lines = [heads, ["---"] * len(heads)]
    for row in rows:
        about = "about " if row.is_approximate else ""
        cells = [row.what, about + listed(row.seconds), listed(row.cpu)]
        cells += [sized(row.peak_gib, "GiB"), sized(row.anonymous_gib, "GiB")]
        cells += [sized(row.read_gb, "GB"), sized(row.written_gb, "GB")] * has_traffic
        lines.append(cells)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def listed(numbers: Sequence[float]) -> str:
    """Numbers, separated by commas."""
    return ", ".join(f"{number:g}" for number in numbers)


def sized(number: float | None, unit: str) -> str:
    """A number with its unit; empty if it was not measured."""
    return "" if number is None else f"{float(number)} {unit}"


if __name__ == "__main__":
    main()
