"""`python -m experiments.samplers.tables`: write tables.md from the comparisons in this folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TITLES = {
    "ppi": "PPI",
    "ppi-sketch": "PPI, SKETCH",
    "ppi-ladies": "PPI, LADIES without replacement",
    "ppi-large": "PPI, subgraphs as large as the layers of the others",
    "ppi-fanout": "PPI, nearly all neighbours",
    "ppi-fastgcn": "PPI, more draws than nodes",
    "ppi-saint-node": "PPI, 16,384 drawn nodes",
    "pubmed": "PubMed",
    "pubmed-sketch": "PubMed, SKETCH",
    "pubmed-memory": "PubMed, 60 steps, for memory only",
}
PARTS = ("sample", "gather", "forward", "backward", "update", "total")


def main() -> None:
    """Write the tables."""
    lines = ["# Comparison of all samplers"]
    for name, title in TITLES.items():
        found = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
        lines += ["", f"## {title}", "", *table(found)]
    (HERE / "tables.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def table(found: dict[str, Any]) -> list[str]:
    """A comparison: command, machine and one row per sampler."""
    facts = found["machine"]
    rows = [row for row in found["rows"] if row["budget_share"] == 1]
    seconds = sum(row["seconds"] * row["seeds"] for row in rows)
    return [
        f"    {found['command']}",
        "",
        f"{facts['processor']}, {facts['threads']} thread, torch {facts['torch']}, "
        f"{found['date']}, {seconds / 60:.0f} minutes of training; seeds "
        f"{', '.join(map(str, found['seeds']))}. Difference and p (paired t-test) are against "
        f"`{rows[0]['sampler']}`. Nodes are input nodes; edges are the sum over layers.",
        "",
        "| sampler | test F1 | difference | p | ms: " + " | ".join(PARTS) + " | nodes | edges | "
        "peak MB | s to F1 " + f"{found['target_f1']:.3f} |",
        "|---" * (4 + len(PARTS) + 4) + "|",
        *(line(row) for row in rows),
        *(f"\nLeft out: {one['sampler']}: {one['why']}" for one in found["skipped"]),
    ]


def line(row: dict[str, Any]) -> str:
    """One row of the table."""
    difference = "" if row["difference"] is None else f"{row['difference']:+.4f}"
    p_value = "" if row["p_value"] is None else f"{row['p_value']:.3f}"
    parts = " | ".join(f"{row['step_ms'].get(part, 0.0):.1f}" for part in PARTS)
    waited = row["seconds_to_target"]
    return (
        f"| `{row['sampler']}` | {row['test_f1']:.4f} ± {row['test_f1_std']:.4f} | {difference} | "
        f"{p_value} | {parts} | {row['nodes']:,.0f} | {row['edges']:,.0f} | {row['peak_mb']:,.0f} "
        f"| {'never' if waited is None else f'{waited:.1f}'} |"
    )


if __name__ == "__main__":
    main()
