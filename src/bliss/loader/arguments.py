"""Checks of a loader's arguments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bliss import checks
from bliss.arrays import IntArray
from bliss.errors import InputError
from bliss.graph.conversion import library_of
from bliss.loader.store_content import StorePair
from bliss.samplers.base import Sampler


def own_shards(shard: int | Sequence[int], shards: int) -> tuple[int, ...]:
    """Numbers of the own shards, checked: different, and from 0 to shards - 1."""
    given = shard if isinstance(shard, Sequence) else (shard,)
    numbers = tuple(checks.whole("shard", number) for number in given)
    if not numbers or len(set(numbers)) < len(numbers) or max(numbers) >= shards:
        raise InputError(
            f"shard={shard!r} must be a number from 0 to {shards - 1}, or different ones, because "
            f"shards={shards}: pass for instance the rank of the process, and shards=processes."
        )
    return numbers


def check_data(data: Any, sampler: Any) -> None:
    """Raise an error unless the data has the nodes, and the types, of the sampler's graph."""
    graph = sampler.graph
    if isinstance(data, StorePair):
        data.check(sampler)
        return
    is_typed = library_of(data) == "torch_geometric.HeteroData" or hasattr(data, "edge_types")
    if is_typed != (graph.types is not None):
        has, lacks = ("data has", "graph has none") if is_typed else ("graph has", "data has none")
        raise InputError(
            f"the {has} types of nodes and edges, but the {lacks}: build the sampler from the same "
            "data."
        )
    if not hasattr(data, "num_nodes"):
        raise InputError(
            f"data is a {type(data).__name__}, but must be a PyG Data, which holds features and "
            "edges in memory or memory-mapped, or a pair of FeatureStore and GraphStore: pass "
            "Data(x=..., edge_index=...)."
        )
    if graph.types is not None:
        sizes = {name: data[name].num_nodes for name in data.node_types}
        expected = dict(
            zip(graph.types.node_types, np.diff(graph.types.node_ptr).tolist(), strict=True)
        )
        if list(sizes.items()) != list(expected.items()):
            raise InputError(
                f"data has the nodes {sizes}, but the sampler's graph has {expected}: build the "
                "sampler from the same data."
            )
    elif data.num_nodes != graph.num_nodes:
        raise InputError(
            f"data has {data.num_nodes} nodes, but the sampler's graph has {graph.num_nodes}: "
            "build the sampler from the same data."
        )


def check_options(
    sampler: Any, prefetch: Any, num_workers: Any, batch_sampler: Any, shuffle: bool, drop: bool
) -> None:
    """Refuse values and combinations of options that have no meaning."""
    if not isinstance(sampler, Sampler):
        raise InputError(
            f"node_sampler is a {type(sampler).__name__}, but must be a sampler of blocks: "
            "pass for instance bliss.Bliss(data, budgets=[...])."
        )
    if prefetch not in (0, 1):
        raise InputError(
            f"prefetch={prefetch!r} must be 0 or 1, because the policy learns in each step: pass 1 "
            "to draw one batch ahead."
        )
    if num_workers:
        raise InputError(
            f"num_workers={num_workers} must be 0, because copies of the sampler in workers would "
            "not learn: use prefetch=1 to draw in a thread."
        )
    if batch_sampler is not None and not isinstance(batch_sampler, Iterable):
        raise InputError(
            f"batch_sampler={batch_sampler!r} must be an iterable of lists of positions: pass for "
            "instance a torch.utils.data.BatchSampler."
        )
    if batch_sampler is not None and (sampler.makes_batches or shuffle or drop):
        conflict = type(sampler).__name__ if sampler.makes_batches else "shuffle or drop_last"
        raise InputError(
            f"batch_sampler cannot be combined with {conflict}: leave one of them out."
        )


def check_order(order: str, times: Any, batch_sampler: Any) -> str:
    """Order of the seeds, checked."""
    checks.choice("order", order, ("given", "time"))
    if order == "time" and times is None:
        raise InputError(
            'order="time" needs times of seeds: pass input_time, or edge_label_time for links.'
        )
    if order == "time" and batch_sampler is not None:
        raise InputError('order="time" cannot be combined with batch_sampler: leave one out.')
    return order


def check_function(field: str, function: Any) -> None:
    """Raise an error unless an optional function is one."""
    if function is not None and not callable(function):
        raise InputError(
            f"{field}={function!r} must be a function of a batch: pass one, or leave it out."
        )


def positions(index: Any, size: int) -> IntArray:
    """Positions of a batch's seeds among `size` ones, given by a user. int64[B]."""
    place = checks.as_array("a batch", index)
    is_whole = place.dtype.kind in "iu" and place.ndim == 1
    if not is_whole or (place.size and not 0 <= place.min() <= place.max() < size):
        ends = f"from {place.min()} to {place.max()}" if is_whole else f"{place.dtype}"
        raise InputError(
            f"the positions of a batch are {ends}, of shape {place.shape}, but must be a list of "
            f"positions of seeds, from 0 to {size - 1}: correct the batch_sampler."
        )
    return place.astype(np.int64)
