"""`python -m experiments.paper.tables`: write tables.md from reproduce.json and times.json."""

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
        "# Reproduction of the paper's tables",
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
        "## Seconds per step",
        "",
        f"    {timed['command']}",
        "",
        f"60 steps, three seeds, nothing else running; {timed['date']}.",
        "",
        "| preset | data | network | sampler | ours | published | ours / published |",
        "|---|---|---|---|---|---|---|",
        *(time_line(row) for row in timed["tables"]["time"]),
        "",
        "Time per step of BLISS divided by that of PLADIES:",
        "",
        "| preset | data | network | ours | published |",
        "|---|---|---|---|---|",
        *overheads(timed["tables"]["time"]),
    ]
    if found["tables"].get("variance"):
        lines += [
            "",
            "## Growth of time, memory and variance",
            "",
            "| quantity | sampler | grows with | exponent | stated |",
            "|---|---|---|---|---|",
            *(growth_line(row) for row in found["tables"]["variance"]),
        ]
    if found["missing"]:
        lines += ["", "## Not run", ""]
        lines += [f"- {one['dataset']}: the files were not available." for one in found["missing"]]
    (HERE / "tables.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def f1_line(row: dict[str, Any]) -> str:
    """One row of the F1 table."""
    return (
        f"| {row['preset']} | {row['dataset']} | {row['model']} | {row['sampler']} | "
        f"{row['split']} | {row['ours']:.3f} ± {row['ours_std']:.3f} | {row['published']:.3f} ± "
        f"{row['published_std']:.3f} | {row['difference']:+.3f} | {row['seeds']} |"
    )


def time_line(row: dict[str, Any]) -> str:
    """One row of the table of times."""
    return (
        f"| {row['preset']} | {row['dataset']} | {row['model']} | {row['sampler']} | "
        f"{row['ours']:.4f} ± {row['ours_std']:.4f} | {row['published']:.3f} ± "
        f"{row['published_std']:.3f} | {row['ratio']:.2f} |"
    )


def overheads(rows: list[dict[str, Any]]) -> list[str]:
    """Ratios of step times, BLISS to PLADIES, ours and published."""
    lines = []
    for key, group in groupby(rows, key=lambda r: (r["preset"], r["dataset"], r["model"])):
        times = {row["sampler"]: row for row in group}
        ours = times["bliss"]["ours"] / times["pladies"]["ours"]
        published = times["bliss"]["published"] / times["pladies"]["published"]
        lines.append(f"| {' | '.join(key)} | {ours:.2f} | {published:.2f} |")
    return lines


def growth_line(row: dict[str, Any]) -> str:
    """One row of the table of exponents."""
    return (
        f"| {row['quantity']} | {row['sampler']} | {row['grows_with']} | {row['exponent']:.2f} | "
        f"{row['stated']} |"
    )


if __name__ == "__main__":
    main()
