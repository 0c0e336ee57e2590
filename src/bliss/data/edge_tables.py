"""Edges from text and parquet files: which columns hold them, and their parts one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, cast

from bliss.data.chunked_tables import parquet_rows, table_blocks
from bliss.data.edges import WEIGHT, EdgeColumns, Edges, EdgeSource, end_names, header_names
from bliss.data.nodes import id_column, named_place
from bliss.data.tables import Table, column_values
from bliss.data.timestamps import Times, column_times, common_unit
from bliss.errors import InputError
from bliss.text import printable

_FIRST_ROWS = 1 << 16  # of a table, to find its columns


class _Layout(NamedTuple):
    """Positions of the columns of a table of edges."""

    source: int
    target: int
    weight: int | None
    has_index: bool  # whether the first column counts the rows
    notes: tuple[str, ...]
    time: int | None = None


def table_edges(file: Path, named: EdgeColumns) -> EdgeSource:
    """Open a table: columns by name, or the first two and a weight if no name is known."""
    header = (*header_names(named.edge_type), *map(str.lower, named.given.values()))
    is_parquet = file.suffix == ".parquet"
    first = next(table_blocks("edges", file, _FIRST_ROWS, header))
    original, only = _layout(file, first, named), None
    layout = original
    if is_parquet:
        layout, only = _only(layout, first.names)

    unit = ""
    if (times := _times(first, layout if only is None else original)) is not None:
        unit = times.unit

    def chunks(rows: int) -> Iterator[Edges]:
        start = 0
        for table in table_blocks("edges", file, rows, header, only):
            if layout.has_index and not table.has_counting_index(start):
                raise InputError(
                    f"edges={str(file)!r} has a first column without a name that counts rows up to "
                    f"row {start} and not after it: name the columns src, dst and weight."
                )
            edges = _columns(table, layout)
            common_unit(edges=unit, later_edges="" if edges.time is None else edges.time.unit)
            yield edges
            start += len(table)

    number = parquet_rows("edges", file) if is_parquet else None
    return EdgeSource(chunks, layout.weight is not None, number, layout.notes, unit)


def _only(layout: _Layout, names: Sequence[str]) -> tuple[_Layout, list[str]]:
    """The layout of a table with only the used columns, and their names."""
    more = [place for place in (layout.weight, layout.time) if place is not None]
    used = sorted({layout.source, layout.target, *more})
    weight = None if layout.weight is None else used.index(layout.weight)
    time = None if layout.time is None else used.index(layout.time)
    ends = used.index(layout.source), used.index(layout.target)
    moved = layout._replace(source=ends[0], target=ends[1], weight=weight, time=time)
    return moved, [names[old] for old in used]


def _times(table: Table, layout: _Layout) -> Times | None:
    if layout.time is None:
        return None
    return column_times("edges", table.names[layout.time], table.columns[layout.time])


def _columns(table: Table, layout: _Layout) -> Edges:
    """Edges of a part of a table."""
    place = layout.weight
    weight = None
    if place is not None:
        name = table.names[place] if table.names else WEIGHT
        weight = column_values("edges", name, table.columns[place])
    ends = [id_column("edges", table, end) for end in (layout.source, layout.target)]
    return Edges(ends[0], ends[1], weight, time=_times(table, layout))


def _layout(file: Path, table: Table, named: EdgeColumns) -> _Layout:
    names = [name.strip().lower() for name in table.names]
    sources, targets = end_names(names, named.edge_type)
    is_named = bool({*sources, *targets} & set(names)) or WEIGHT in names[:2]
    if not (is_named or named.given or file.suffix == ".parquet"):
        return _ordered_layout(file, table)
    source, target = _end_places(file, table.names, named)
    weights = [place for place, name in enumerate(names) if name == WEIGHT]
    if named.weight:
        weights = [named_place("weight_column", named.weight, "edges", file, table.names)]
    if len(weights) > 1:
        raise InputError(f"edges={str(file)!r} has two columns called weight: remove one.")
    times = []
    if named.time:
        times = [named_place("time_column", named.time, "edges", file, table.names)]
    used = (source, target, *weights, *times)
    ignored = [printable(n) or "the index" for p, n in enumerate(table.names) if p not in used]
    notes = []
    if ignored:
        notes.append(f"Columns of the edges that are not used: {', '.join(ignored[:20])}.")
    weight = weights[0] if weights else None
    time = times[0] if times else None
    return _Layout(source, target, weight, False, tuple(notes), time)


def _end_places(file: Path, names: Sequence[str], named: EdgeColumns) -> tuple[int, int]:
    """Positions of the columns of sources and targets."""
    lower = [name.strip().lower() for name in names]
    given = [
        named_place(option, name, "edges", file, names) if name else None
        for option, name in (("source_column", named.source), ("target_column", named.target))
    ]
    if None not in given:
        return cast("tuple[int, int]", tuple(given))
    known = [
        [place for place, name in enumerate(lower) if name in ends] if own is None else [own]
        for ends, own in zip(end_names(names, named.edge_type), given, strict=True)
    ]
    if any(len(places) != 1 for places in known):
        shown = ", ".join(map(printable, names[:20])) or "neither"
        raise InputError(
            f"edges={str(file)!r} must hold src and dst once each, and has {shown}: name them with "
            "source_column and target_column (--source-column, --target-column), or rename them."
        )
    return known[0][0], known[1][0]


def _ordered_layout(file: Path, table: Table) -> _Layout:
    """Source, target and optionally weight, in this order, perhaps after an index."""
    is_counted = table.has_counting_index()
    start, width = int(is_counted), len(table.columns)
    named = [name.strip().lower() for name in table.names[start + 2 :]]
    if not 2 <= width - start <= 3 or named not in ([], [WEIGHT]):
        raise InputError(
            f"edges={str(file)!r} has {width} columns"
            + (f" ({', '.join(map(printable, table.names[:20]))})" if table.names else "")
            + ", but must have source, target and optionally weight: name them with source_column, "
            "target_column and weight_column (--source-column and so on); others are then ignored."
        )
    note = "The first column of the edges counts the rows and is not used."
    weight = start + 2 if width - start == 3 else None
    return _Layout(start, start + 1, weight, is_counted, (note,) if is_counted else ())
