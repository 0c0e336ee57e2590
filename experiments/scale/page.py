"""README.md: the notes, and tables of results.json. `python -m experiments.scale.page`."""

from __future__ import annotations

from pathlib import Path

from bliss.storage import records
from bliss.studies.provenance import Machine
from experiments.results import Part

HERE = Path(__file__).parent


class Measurement(records.Record, frozen=True, kw_only=True):
    """What a command took."""

    seconds: float
    cpu: float
    """Seconds of processors."""
    peak_gib: float
    """Peak resident memory."""
    anonymous_gib: float
    """Peak of the memory that is not pages of files."""
    read_gb: float
    """Read from the disk."""
    written_gb: float


class Scale(records.Record, frozen=True, kw_only=True):
    """Everything that was measured on a graph."""

    machine: Machine
    entries: int
    """Edges of the imported graph, with reverse edges and self-loops."""
    raw_gb: float
    store_gb: float
    rows: dict[str, Measurement]
    """By command: "make", "import", "train"."""
    steps_s: float
    """Seconds of training in training steps."""
    step_ms: float
    """Median."""
    val_score: float


STORED = {size: Part(HERE, size, Scale) for size in ("small", "large")}


def main() -> None:
    """Write README.md."""
    (HERE / "README.md").write_text(page(), encoding="utf-8")


def page() -> str:
    """Text of README.md."""
    text = (HERE / "notes.md").read_text(encoding="utf-8")
    for size, stored in STORED.items():
        text = text.replace(f"<!-- {size} -->", table(stored.read()))
    return text


def table(found: Scale) -> str:
    """A Markdown table of the commands."""
    names = {
        "make": f"make the files ({found.raw_gb:g} GB)",
        "import": f"import {found.entries / 1e6:,.0f} million edges, with reverse edges and "
        f"self-loops, into a store of {found.store_gb:g} GB",
        "train": f"train ({found.steps_s:g} s in 200 steps) and evaluate",
    }
    heads = ["", "seconds", "of it CPU", "peak memory", "of it anonymous", "read", "written"]
    lines = [heads, ["---"] * len(heads)]
    for name, row in found.rows.items():
        cells = [names[name], f"{row.seconds:g}", f"{row.cpu:g}"]
        cells += [f"{row.peak_gib:g} GiB", f"{row.anonymous_gib:g} GiB"]
        lines.append([*cells, f"{row.read_gb:g} GB", f"{row.written_gb:g} GB"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
