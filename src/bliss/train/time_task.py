"""Runs by time: which of them are, and their splits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from bliss.data.dataset import SPLITS, Dataset
from bliss.errors import InputError
from bliss.links import split_by_time
from bliss.links.time_splits import check_some
from bliss.train.config_parts import AUTO, ObjectiveConfig


def is_by_time(config: ObjectiveConfig, dataset: Dataset) -> bool:
    """Whether seeds are split by time, and see only earlier edges."""
    if config.split != AUTO:
        return config.split == "time"
    if not config.is_link:
        return dataset.node_time is not None
    links = dataset.label_edges
    return dataset.graph.has_times and (links is None or links.split is None)


def sees_times(config: ObjectiveConfig, dataset: Dataset) -> bool:
    """Whether each seed sees only edges up to its time."""
    return dataset.graph.has_times and is_by_time(config, dataset)


def timed_dataset(config: ObjectiveConfig, dataset: Dataset, scores: bool) -> Dataset:
    """The dataset as a run needs it: nodes split by time, or a graph whose times are not used.

    Without `scores`, for predictions, nodes need no times.
    """
    by_time = is_by_time(config, dataset)
    if config.windows > 1 and not by_time:
        raise InputError(
            f"windows={config.windows} needs times: import them with --time-column, or "
            "--node-time-column for nodes."
        )
    for name, default in (("order", "random"), ("time_window", 0)):
        given = getattr(config, name)
        if given != default and not (by_time and dataset.graph.has_times):
            raise InputError(
                f"{name}={given!r} needs a split by time and edges with times: import them with "
                f"--time-column, or leave {name} out."
            )
    if not by_time or (not scores and not config.is_link and dataset.node_time is None):
        if not dataset.graph.has_times and dataset.node_time is None:
            return dataset
        graph, digest = dataset.graph.without_times(), dataset.fingerprint
        return replace(dataset, graph=graph, node_time=None, digest=digest)
    if config.is_link and dataset.graph.types is not None and dataset.graph.has_times:
        raise InputError(
            "split='time' is not supported for links of heterogeneous graphs whose edges have "
            "times: choose split random, or write your own loop with Graph.of(data, time_attr=...) "
            "and LinkLoader."
        )
    return dataset if config.is_link else _node_splits(config, dataset)


def _node_splits(config: ObjectiveConfig, dataset: Dataset) -> Dataset:
    """Nodes of all splits, split again by time, in the same shares."""
    time = dataset.node_time
    if time is None or not dataset.graph.has_times:
        raise InputError(
            "split='time', but the data has no times of nodes: import them with "
            "--node-time-column, or choose split given."
        )
    sizes = [len(dataset.splits[name]) for name in SPLITS]
    nodes = torch.cat([dataset.splits[name] for name in SPLITS]).numpy()
    nodes = nodes[np.lexsort((nodes, time[nodes]))]
    shares = [size / max(nodes.size, 1) for size in sizes]
    split = split_by_time(time[nodes], shares, config.test_window)
    parts = {name: torch.from_numpy(nodes[split == n]) for n, name in enumerate(SPLITS)}
    if all(sizes):
        remedy = "change the shares when you import the graph, or choose split given"
        check_some(split, time[nodes], "nodes", config.test_window, remedy)
    return replace(dataset, splits=parts, digest=dataset.fingerprint)
