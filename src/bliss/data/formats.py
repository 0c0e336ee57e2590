"""Formats of a user's own files: which function reads which part of a graph.

To add a format, write its functions in a file of its own and add one entry to `FORMATS`. Functions
are named as "module:function" inside `bliss.data` and imported when a file needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from bliss.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format of files, by the endings of their names; parts that it cannot hold are empty."""

    endings: tuple[str, ...]
    edges: str = ""
    """(file) -> `EdgeSource`; of a table, (file, `EdgeColumns`)."""
    features: str = ""
    """(file, `FeatureColumns`) -> `FeatureSource`."""
    values: str = ""
    """(file) -> array: labels, ids or a mask in the order of nodes, without names of columns."""
    table: str = ""
    """(field, file, header, may_lack_header, counts) -> `Table`: columns, which may have names."""
    graph: str = ""
    """(file, label, columns, task) -> `Parts`: a whole graph; of .pt, see `read_graph_file`."""


FORMATS = (
    Format(
        endings=(".npy",),
        edges="edges:npy_edges",
        features="features:npy_features",
        values="npy:read_npy",
    ),
    Format(endings=(".npz",), edges="edges:npz_edges", features="features:npz_features"),
    Format(
        endings=(".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz"),
        edges="edge_tables:table_edges",
        features="features:text_features",
        table="tables:read_text",
    ),
    Format(
        endings=(".parquet",),
        edges="edge_tables:table_edges",
        features="features:parquet_features",
        table="tables:parquet_table",
    ),
    Format(endings=(".pt",), graph="foreign:read_pt"),
    Format(endings=(".graphml", ".gexf"), graph="graphml:read_xml"),
)


def suffix(file: Path) -> str:
    """The ending that names the format: ".npy", ".csv", ".csv.gz" and so on."""
    return "".join(file.suffixes[-2:] if file.suffix == ".gz" else file.suffixes[-1:])


def format_of(file: Path) -> Format | None:
    """The format that the ending of a file names."""
    ending = suffix(file)
    return next((form for form in FORMATS if ending in form.endings), None)


def is_table(file: Path) -> bool:
    """Whether the ending is that of a table: text or parquet."""
    form = format_of(file)
    return form is not None and bool(form.table)


def endings(*parts: str) -> list[str]:
    """Endings of the files that can hold one of these parts."""
    return [ending for form in FORMATS if _holds(form, parts) for ending in form.endings]


def reader(field: str, file: Path, *parts: str) -> Callable[..., Any]:
    """Function that reads the first of these parts that the file's format can hold.

    Raises an error that lists the formats, if it can hold none.
    """
    form = format_of(file)
    for part in parts:
        if form is not None and getattr(form, part):
            module, _, name = getattr(form, part).partition(":")
            function: Callable[..., Any] = getattr(import_module(f"bliss.data.{module}"), name)
            return function
    first = [form.endings[0] for form in FORMATS if _holds(form, parts)]
    raise InputError(f"{field}={str(file)!r} must be a {listed(first)} file: convert it.")


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: "a, b or c"."""
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _holds(form: Format, parts: tuple[str, ...]) -> bool:
    return any(getattr(form, part) for part in parts)
