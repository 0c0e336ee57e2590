"""`python -m experiments.paper.tables`: reproduce.json and times.json become tables.md."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def main() -> None:
    """Write the tables."""
    found = json.loads((HERE / "reproduce.json").read_text(encoding="utf-8"))
    timed = json.loads((HERE / "times.json").read_text(encoding="utf-8"))
    facts = found["machine"]
    lines = [
        "# The paper's tables, run anew",
        "",
        f"    {found['command']}",
        "",
        f"{facts['processor']}, {facts['threads']} thread, torch {facts['torch']}, "
        f"{found['date']}.",
        "",
        "## Micro-F1",
        "",
        "| preset | data | network | sampler | split | ours | published | difference | seeds |",
        "|---|---|---|---|---|---|---|---|---|",
        *(f1_line(row) for row in found["tables"]["f1"]),
        "",
        "## Seconds a step",
        "",
        f"    {timed['command']}",
        "",
        f"The first steps of three seeds, with nothing else running; {timed['date']}.",
        "",
        "| preset | data | network | sampler | ours | published | ours / published |",
        "|---|---|---|---|---|---|---|",
        *(time_line(row) for row in timed["tables"]["time"]),
        "",
        "BLISS over PLADIES, a step:",
        "",
        "| preset | data | network | ours | published |",
        "|---|---|---|---|---|",
        *overheads(timed["tables"]["time"]),
    ]
    if found["tables"].get("variance"):
        lines += [
            "",
            "## How time, memory and variance grow",
            "",
            "| quantity | sampler | grows with | exponent | stated |",
            "|---|---|---|---|---|",
            *(growth_line(row) for row in found["tables"]["variance"]),
        ]
    if found["missing"]:
        lines += ["", "## Not run", ""]
        lines += [f"- {one['dataset']}: its files are not here." for one in found["missing"]]
    (HERE / "tables.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def f1_line(row: dict[str, Any]) -> str:
    """A line of the table of F1."""
    return (
        f"| {row['preset']} | {row['dataset']} | {row['model']} | {row['sampler']} | "
        f"{row['split']} | {row['ours']:.3f} ± {row['ours_std']:.3f} | {row['published']:.3f} ± "
        f"{row['published_std']:.3f} | {row['difference']:+.3f} | {row['seeds']} |"
    )


def time_line(row: dict[str, Any]) -> str:
    """A line of the table of times."""
    return (
        f"| {row['preset']} | {row['dataset']} | {row['model']} | {row['sampler']} | "
        f"{row['ours']:.4f} ± {row['ours_std']:.4f} | {row['published']:.3f} ± "
        f"{row['published_std']:.3f} | {row['ratio']:.2f} |"
    )


def overheads(rows: list[dict[str, Any]]) -> list[str]:
    """What the bandit adds to a step, ours and published."""
    lines = []
    for key, group in groupby(rows, key=lambda r: (r["preset"], r["dataset"], r["model"])):
        times = {row["sampler"]: row for row in group}
        ours = times["bliss"]["ours"] / times["pladies"]["ours"]
        published = times["bliss"]["published"] / times["pladies"]["published"]
        lines.append(f"| {' | '.join(key)} | {ours:.2f} | {published:.2f} |")
    return lines


def growth_line(row: dict[str, Any]) -> str:
    """A line of the table of exponents."""
    return (
        f"| {row['quantity']} | {row['sampler']} | {row['grows_with']} | {row['exponent']:.2f} | "
        f"{row['stated']} |"
    )


if __name__ == "__main__":
    main()
