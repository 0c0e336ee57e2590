"""Tables of benchmarks/README.md and of pages of docs: `python -m benchmarks.tables` writes them.

A table has columns and rows of numbers from one file of results. A number is found by the names on
its path, that of the column and that of the row, such as power_law_233k/sage and
step_ms/node/total. A * in the row's path stands for the column's. A number that misses its aim is
bold, and one that was not measured is empty.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from bliss.storage.files import replace_file

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
PAGES = (HERE / "README.md", DOCS / "scaling.md", DOCS / "larger-than-memory.md")
MARKED = re.compile(r"(<!-- table: ([a-z-]+) -->\n\n).*?(\n\n<!-- end of table -->)", re.DOTALL)


class Row(NamedTuple):
    """A row: what it shows, and the paths of the numbers of a cell."""

    label: str
    paths: Sequence[str]
    form: str = "{:.2f}"
    aim: float | None = None
    """Largest number that meets the aim."""
    unit: float = 1.0


class Table(NamedTuple):
    """Paths of columns by title, and rows."""

    file: str
    columns: Mapping[str, str]
    rows: Sequence[Row]


def ratio(label: str, path: str, aim: float | None = None) -> Row:
    """A row of ratios."""
    return Row(label, [path], "{:.2f}", aim)


def count(label: str, *paths: str, form: str = "{:,.0f}") -> Row:
    """A row of numbers without an aim."""
    return Row(label, paths, form)


GRAPHS = {
    "Flickr (real)": "graphs/flickr",
    "233k nodes, 11.8 M edges": "graphs/power_law_233k",
    "717k nodes, 15.0 M edges": "graphs/power_law_717k",
}
STEPS = {
    "233k, SAGE": "power_law_233k/sage",
    "233k, GATv2": "power_law_233k/gatv2",
    "717k, SAGE": "power_law_717k/sage",
    "717k, GATv2": "power_law_717k/gatv2",
}
LAYERWISE = {"PLADIES": "pladies", "BLISS": "bliss"}
NETWORKS = {"SAGE": "sage", "GATv2": "gatv2"}
TABLES: dict[str, Table] = {
    "sampling": Table(
        "sampling",
        GRAPHS,
        [
            ratio("PLADIES over the floor", "pladies_over_floor", 5.0),
            ratio("PLADIES with influence over PLADIES", "influence_over_pladies", 1.08),
            ratio("the same, edges of the frontier", "influence_frontier_over_pladies"),
            ratio("exp3 over PLADIES", "exp3_over_pladies", 1.25),
            ratio("node, with influence, over PLADIES", "node_over_pladies", 1.1),
            ratio("node with influence over node without", "influence_over_none_of_node", 1.08),
            ratio("exp3 update over its sampling", "exp3_update_over_sample", 0.15),
            ratio("node update over its sampling", "node_update_over_sample", 0.1),
            count("PLADIES, ms a batch", "pladies_ms", form="{:.2g}"),
            count("frontier edges", "frontier_edges"),
        ],
    ),
    "links": Table(
        "links",
        LAYERWISE,
        [
            ratio("links over their ends as seed nodes", "links_over_nodes", 1.15),
            ratio("links over as many uniform nodes", "links_over_uniform_nodes"),
            Row("share of the exclusion", ["exclusion_share"], "{:.1%}", 0.03),
        ],
    ),
    "time": Table(
        "time",
        {**LAYERWISE, "neighbor": "neighbor"},
        [
            Row(label, [f"{name}_over_plain", f"{name}_edges_over_plain"], "{:.2f} ({:.2f})", 1.25)
            for label, name in (
                ("every seed later than all edges: all edges are seen", "end"),
                ("times within a hundredth of all", "order"),
                ("random times", "random"),
            )
        ],
    ),
    "types": Table(
        "types",
        LAYERWISE,
        [
            ratio("1 relation over the plain graph", "1_over_plain"),
            ratio("4 relations", "4_over_plain", 1.1),
            ratio("16 relations", "16_over_plain", 1.3),
        ],
    ),
    "gathering": Table(
        "types",
        {"602 features": "gathering_602", "128 features": "gathering_128"},
        [ratio("4 types with 16 relations over one table", "typed_over_plain", 1.2)],
    ),
    "dgl": Table(
        "dgl",
        {
            "neighbour sampling": "samplers/neighbor",
            "LABOR-0": "samplers/labor-0",
            "LABOR-1": "samplers/labor-1",
        },
        [
            count("ours, ms", "ours_ms", form="{:.1f}"),
            count("DGL, ms", "dgl_ms", form="{:.1f}"),
            count("DGL over ours", "dgl_over_ours", form="{:.1f}"),
            count(
                "sources, ours and DGL", "ours_sources", "dgl_sources", form="{:,.0f} and {:,.0f}"
            ),
            count("edges, ours and DGL", "ours_edges", "dgl_edges", form="{:,.0f} and {:,.0f}"),
        ],
    ),
    "step": Table(
        "step",
        STEPS,
        [
            ratio("node over PLADIES", "node_over_pladies", 1.05),
            ratio("exp3 over PLADIES", "exp3_over_pladies", 1.1),
            ratio("node with influence over node without", "influence_over_none", 1.02),
            count("sampling and learning, share of the step", "sampling_share", form="{:.0%}"),
            count(
                "node, ms: sample, gather",
                *(f"step_ms/node/{part}" for part in ("sample", "gather")),
                form="{:.1f}, {:.1f}",
            ),
            count(
                "node, ms: forward, backward, update",
                *(f"step_ms/node/{part}" for part in ("forward", "backward", "update")),
                form="{:.0f}, {:.0f}, {:.1f}",
            ),
            count("node, ms: total", "step_ms/node/total"),
            ratio("growth when the budget doubles: total", "growth_when_budget_doubles/total"),
            count("peak memory, MB", "peak_mb"),
        ],
    ),
    "less-to-sample": Table(
        "step",
        {"233k, SAGE": "power_law_233k/sage", "717k, SAGE": "power_law_717k/sage"},
        [
            ratio(f"{label}{title}", f"{name}_over_pladies{suffix}", aim)
            for title, suffix in (("", ""), (", dropout 0.1", "_with_dropout"))
            for label, name, aim in (
                ("PLADIES with an exact first hop", "first_hop", 0.8),
                ("BLISS, `--history nodes`", "history", 0.45),
                ("BLISS, `--history nodes` in float16", "half_history", 0.45),
                ("BLISS, `--history surveys`", "survey_history", 0.45),
            )
        ],
    ),
    "blockwise": Table(
        "blockwise",
        {
            "sampled, 1024 x 3": "times/sampled",
            "exact first hop, 1024 x 2": "times/first_hop",
            "history, 512 x 2": "times/history",
        },
        [
            count("own layers, ms", "own_ms", form="{:.1f}"),
            count("PyG's, ms", "pyg_ms", form="{:.1f}"),
            ratio("PyG's over own layers", "pyg_over_own", 1.1),
        ],
    ),
    "neighbor-loader": Table(
        "neighbor_loader",
        {
            "`NeighborLoader`": "NeighborLoader",
            "the same, trimmed": "NeighborLoader, trimmed",
            "`bliss.samplers.Neighbor`": "neighbor",
            "`Bliss`": "bliss",
            "`Bliss`, exact first hop": "bliss, exact first hop",
            "`Bliss`, history": "bliss, history",
        },
        [
            count("ms a step", "times/*/ms", form="{:.1f}"),
            ratio("over `NeighborLoader`", "times/*/over_first"),
            count("steps in 30 s", "scores/*/steps"),
            count("test F1 after 30 s", "scores/*/test", form="{:.3f}"),
            count("validation F1 after 30 s", "scores/*/val", form="{:.3f}"),
        ],
    ),
    "threads": Table(
        "threads",
        NETWORKS,
        [
            ratio("two threads over one", "two_threads_over_one", 0.6),
            ratio("the same with `prefetch=1`", "two_threads_over_one_with_prefetch"),
            ratio(
                "`prefetch=1` over 0, both on two threads", "prefetch_over_none_on_two_threads", 1.0
            ),
        ],
    ),
    "dropout": Table(
        "dropout",
        {
            f"{rows:,} x {width}, rate {rate}": f"{rows}x{width}, rate {rate}/torch_over_hashed"
            for rows, width in ((20_000, 602), (4_000, 256))
            for rate in (0.1, 0.5)
        },
        [
            count("forward and backward", "both", form="{:.2g}"),
            count("forward", "forward", form="{:.2g}"),
            count("backward", "backward", form="{:.2g}"),
        ],
    ),
    "inference": Table(
        "inference",
        {"GraphSAGE 64": "sage 64", "GraphSAGE 256": "sage 256", "GATv2 32": "gatv2 32"},
        [
            count("projected, s", "projected", form="{:.2f}"),
            count("gathered, s", "gathered", form="{:.1f}"),
            count("gathered over projected", "gathered_over_projected", form="{:.1f}"),
        ],
    ),
    "disk": Table(
        "disk",
        {
            "plain map": "plain_map",
            "rows": "rows",
            "rows, cache of 256 MiB": "rows_and_cache",
            "plain map, prefetch": "plain_map_prefetch",
            "rows, cache of 256 MiB, prefetch": "rows_and_cache_prefetch",
        },
        [
            count("steps per second", "steps_per_second", form="{:.3g}"),
            count("over the plain map", "*_over_plain", form="{:.3g}"),
            count("MB read per step", "megabytes_per_step"),
            count("ms to gather a batch", "gather_ms"),
        ],
    ),
    "coins": Table(
        "disk",
        {"K = 1": "", "K = 8": "_coins_8", "K = 64": "_coins_64"},
        [
            count(f"{title}: {label}", f"{side}*/{name}", form="{:.1f}")
            for title, side in (("rows", "rows"), ("with the cache", "rows_and_cache"))
            for label, name in (
                ("MB read per step", "megabytes_per_step"),
                ("steps per second", "steps_per_second"),
            )
        ],
    ),
    "processes": Table(
        "scale",
        NETWORKS,
        [
            count("step in one process, ms", "step_ms/one"),
            count("step in two processes, ms", "step_ms/two"),
            ratio("two processes over one", "two_over_one", 0.58),
            Row(
                "share of exchanges in a step, waiting included", ["exchange_share"], "{:.3f}", 0.05
            ),
            count("exchanges without waiting, ms", "exchange_ms/alone", form="{:.1f}"),
            Row("policy update per rank and step, KiB", ["news_bytes"], "{:.0f}", 64, 1024),
            Row("gradient per rank and step, KiB", ["gradient_bytes"], "{:,.0f}", None, 1024),
            count("memory of the first process, MiB", "first_rank_mb"),
            Row("memory that the second process adds, MiB", ["second_rank_mb"], "{:,.0f}", 300),
        ],
    ),
    "many-processes": Table(
        "scale",
        {f"{number} processes": number for number in ("8", "64", "512")},
        [
            count(f"{title} {how}, {label}", f"{name}/on_paper/*/{how}_{field}", form=form)
            for title, name in NETWORKS.items()
            for how in ("exact", "allreduce")
            for label, field, form in (
                ("ms", "ms", "{:,.0f}"),
                ("efficiency", "efficiency", "{:.2f}"),
            )
        ],
    ),
}


def read(file: str) -> dict[str, Any]:
    """Results of a benchmark."""
    text = (HERE / "results" / f"{file}.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def number(found: Any, column: str, row: str) -> float | None:
    """The number of a column and a row, or the mean of numbers; None if not measured."""
    path = row.replace("*", column) if "*" in row else f"{column}/{row}"
    for name in path.split("/"):
        if name not in found:
            return None
        found = found[name]
    return fmean(found) if isinstance(found, list) else float(found)


def cell(found: Any, column: str, row: Row) -> str:
    """Text of a cell."""
    numbers = [one for path in row.paths if (one := number(found, column, path)) is not None]
    if not numbers:
        return ""
    text = row.form.format(*(one / row.unit for one in numbers))
    is_missed = row.aim is not None and numbers[0] / row.unit > row.aim
    return f"**{text}**" if is_missed else text


def lines(table: Table) -> list[str]:
    """A table in Markdown; aims have a column if there are any."""
    found, has_aims = read(table.file), any(row.aim is not None for row in table.rows)
    heads = ["", *["aim"] * has_aims, *table.columns]
    rows = [heads, ["---"] * len(heads)]
    for row in table.rows:
        aim = "" if row.aim is None else row.form.split(" ")[0].format(row.aim)
        cells = [cell(found, column, row) for column in table.columns.values()]
        rows.append([row.label, *[aim] * has_aims, *cells])
    return [f"| {' | '.join(one)} |" for one in rows]


def samplers() -> list[str]:
    """The table of all samplers: they are its rows."""
    heads = ["sampler", "ms", "nodes", "edges", "ns per sampled edge", "update ms"]
    heads += ["ns per edge over `pladies`", "one-time cost, s"]
    rows = [heads, ["---"] * len(heads)]
    for name, one in read("samplers")["samplers"].items():
        cost = f"{one['prepare_s']:.1f}" if one["prepare_s"] >= 0.05 else ""
        counts = [f"{one['nodes']:,}", f"{one['edges']:,}", f"{one['ns_per_edge']:,.0f}"]
        ratio = f"{one['ns_per_edge_over_pladies']:.2f}"
        rows.append(
            [f"`{name}`", f"{one['ms']:.1f}", *counts, f"{one['update_ms']:.1f}", ratio, cost]
        )
    return [f"| {' | '.join(one)} |" for one in rows]


def page(text: str) -> str:
    """A page with its tables written anew."""

    def written(match: re.Match[str]) -> str:
        before, name, after = match.groups()
        made = samplers() if name == "samplers" else lines(TABLES[name])
        return before + "\n".join(made) + after

    return MARKED.sub(written, text)


def main() -> None:
    """Write the tables of all pages."""
    for path in PAGES:
        replace_file(path, page(path.read_text(encoding="utf-8")).encode())


if __name__ == "__main__":
    main()
