"""Predictions as a table on disk: of nodes labels or targets, of links scores."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bliss import checks
from bliss.data.dataset import SPLITS, Dataset
from bliss.data.pairs import read_nodes, read_pairs
from bliss.data.timestamps import parse_time
from bliss.errors import InputError
from bliss.loader.typed_links import link_pairs
from bliss.storage.files import replacing
from bliss.train.evaluation import full_logits, own_time_outputs
from bliss.train.link_objective import LinkObjective
from bliss.train.link_predictions import link_ends, link_objective_of, pair_parts, top_parts
from bliss.train.losses import probabilities
from bliss.train.task import Task

FORMATS = (".csv", ".parquet")
ALL = "all"
NODES = (ALL, *SPLITS)
"""Nodes that can be predicted: all of them, or a split."""
_PART = 2**16  # rows written at a time


def check_format(out: Path) -> None:
    """Raise an error if the file name does not end in .csv or .parquet."""
    if out.suffix not in FORMATS:
        raise InputError(f"out={str(out)!r} must end in .csv or .parquet: rename it.")


def prediction_columns(
    task: Task, nodes: Any = ALL, pairs: Any = None, top: int | None = None, at: Any = None
) -> dict[str, list[Any]]:
    """Predictions from full neighbourhoods, by column; see `prediction_parts`."""
    parts = list(prediction_parts(task, nodes, pairs, top, at))
    return {name: [value for part in parts for value in part[name]] for name in parts[0]}


def prediction_parts(
    task: Task, nodes: Any = ALL, pairs: Any = None, top: int | None = None, at: Any = None
) -> Iterator[dict[str, list[Any]]]:
    """Predictions as columns, some thousand at a time: of nodes, of pairs, or of top targets.

    Arguments are those of `bliss.train.predict`.
    """
    task = task_at(task, at)
    if pairs is None and top is None:
        return node_parts(task, nodes)
    if pairs is not None and top is not None:
        raise InputError("pairs and top are two kinds of predictions: pass one of them.")
    (sources, first), (targets, second) = link_ends(task)
    relation = link_objective_of(task).relation
    if pairs is not None:
        if isinstance(pairs, (str, PathLike)):
            edge_type = None if relation is None else relation.edge_type
            found = read_pairs(checks.path("pairs", pairs), sources, targets, edge_type)
            return pair_parts(task, found + np.array([[first], [second]]))
        return pair_parts(task, link_pairs("pairs", pairs, task.dataset.graph, relation))
    assert top is not None
    if isinstance(nodes, str) and nodes == ALL:
        return top_parts(task, top)
    if isinstance(nodes, (str, PathLike)):
        return top_parts(task, top, read_nodes(checks.path("nodes", nodes), sources) + first)
    return top_parts(task, top, checks.seeds(nodes, sources.number, "nodes") + first)


def task_at(task: Task, at: Any) -> Task:
    """The task on the graph as it was at a time: edges of at most this time are messages.

    With at=None, nodes are seen at their own times, and links after the last edge.
    """
    dataset, window = task.dataset, task.config.objective.seen_window
    if at is None and (window is None or task.objective.node_time is not None):
        return task
    if not dataset.graph.has_times:
        raise InputError(
            f"at={at!r}, but the run was not split by time, or the data has no times: leave it "
            "out, or train with split time on a graph with times."
        )
    latest = int(dataset.graph.time.max())
    time = latest if at is None else parse_time("at", at, dataset.time_unit)
    past = replace(dataset, graph=dataset.graph.at(time), node_time=None)  # known links are all
    objective: Any = replace(task.objective, dataset=past)  # type: ignore[type-var]
    if isinstance(objective, LinkObjective):
        objective = replace(objective, seen=dataset.graph.at(time, window=window))
    graph = task.graph.at(time, window=window)
    return replace(task, dataset=past, graph=graph, objective=objective)


def node_parts(task: Task, nodes: str = ALL) -> Iterator[dict[str, list[Any]]]:
    """Predictions from full neighbourhoods for all nodes or a split, some thousand at a time.

    In a heterogeneous graph, "all" are the nodes of the type that has labels.
    Nodes have the user's ids, and classes their names. With one class per node, the columns are
    node, label and probability. With several labels per node, label and probability list all labels
    above one half, separated by blanks, or by semicolons if they have names. For regression there
    is a column per target, in the user's units, called prediction if there is one without a name.
    """
    checks.choice("nodes", nodes, NODES)
    if task.objective.unit == "links":
        raise InputError(
            "the run was trained on links, so that nodes have no predictions of their own: pass "
            "pairs (--pairs FILE) or top (--top 20)."
        )
    dataset = task.dataset
    chosen = _nodes_of_type(dataset) if nodes == ALL else dataset.splits[nodes]
    if task.objective.node_time is None:
        outputs = full_logits(task, nodes=chosen)
    else:
        everyone = torch.arange(dataset.graph.num_nodes)
        outputs = own_time_outputs(task, everyone if chosen is None else chosen)
    known, first = dataset.nodes_of(None if dataset.typed is None else dataset.typed.node_type)
    for start in range(0, max(len(outputs), 1), _PART):
        part = outputs[start : start + _PART]
        ids = torch.arange(start, start + len(part)) if chosen is None else chosen[start:][:_PART]
        columns: dict[str, list[Any]] = {"node": known.ids((ids - first).numpy())}
        yield columns | _predicted(dataset, task.labels.predictions(part))


def _nodes_of_type(dataset: Dataset) -> Tensor | None:
    """The nodes that can have labels: those of one type, or None for all. int64[N]."""
    if dataset.typed is None or dataset.graph.types is None:
        return None
    own = dataset.graph.types.range_of(dataset.typed.node_type)
    return torch.arange(own.start, own.stop)


def _predicted(dataset: Dataset, outputs: Tensor) -> dict[str, list[Any]]:
    if dataset.is_regression:
        return _targets(dataset, outputs)
    chances = probabilities(outputs, dataset.is_multilabel)
    if dataset.is_multilabel:
        return _several(chances, dataset.class_names)
    best = chances.max(dim=1)
    labels: list[Any] = best.indices.tolist()
    if dataset.class_names:
        labels = [dataset.class_names[label] for label in labels]
    return {"label": labels, "probability": best.values.tolist()}


def write_predictions(out: Path, parts: Iterable[dict[str, list[Any]]]) -> int:
    """Write a table of predictions atomically, part by part; returns the number of rows."""
    rows = 0
    with replacing(out) as scratch, ExitStack() as opened:
        add: Callable[[dict[str, list[Any]]], None] | None = None
        for columns in parts:
            if add is None:
                add = (_csv if out.suffix == ".csv" else _parquet)(scratch, columns, opened)
            add(columns)
            rows += len(next(iter(columns.values())))
        opened.close()  # before the file is published
    return rows


def _csv(file: Path, first: dict[str, list[Any]], opened: ExitStack) -> Callable[[Any], None]:
    """Open a CSV file and write its header; returns a function that adds rows."""
    stream = opened.enter_context(file.open("w", newline="", encoding="utf-8"))
    writer = csv.writer(stream)
    writer.writerow(first)
    return lambda columns: writer.writerows(zip(*columns.values(), strict=True))


def _parquet(file: Path, first: dict[str, list[Any]], opened: ExitStack) -> Callable[[Any], None]:
    """Open a parquet file with the types of the first part; returns a function that adds rows."""
    import pyarrow
    import pyarrow.parquet

    schema = pyarrow.table(first).schema
    writer = opened.enter_context(pyarrow.parquet.ParquetWriter(file, schema))
    return lambda columns: writer.write_table(pyarrow.table(columns, schema=schema))


def _targets(dataset: Dataset, predicted: Tensor) -> dict[str, list[Any]]:
    numbered = [f"prediction_{number}" for number in range(predicted.size(1))]
    names = list(dataset.class_names) or (["prediction"] if len(numbered) == 1 else numbered)
    names = [f"{name}_" if name == "node" else name for name in names]
    return {name: predicted[:, n].tolist() for n, name in enumerate(names)}


def _several(chances: Tensor, names: Sequence[str]) -> dict[str, list[Any]]:
    """All labels above one half, and their probabilities."""
    labels, values, mark = [], [], ";" if names else " "
    for row in chances:
        chosen = (row > 0.5).nonzero().view(-1)
        labels.append(mark.join(names[c] if names else str(c) for c in chosen.tolist()))
        values.append(mark.join(f"{v:.6g}" for v in row[chosen].tolist()))
    return {"label": labels, "probability": values}
