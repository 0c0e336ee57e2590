"""Seeds as values that a loader indexes; `NodeSeeds` are nodes, `EdgeSeeds` are links."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from bliss import checks
from bliss.arrays import IntArray
from bliss.errors import InputError
from bliss.graph import Cutoff, GraphTypes, HiddenEdges
from bliss.loader.seed_times import SeedTimes
from bliss.nn.block import Block
from bliss.samplers.base import Sampler


class SeedBatch(Protocol):
    """Seeds of one batch."""

    @property
    def node(self) -> IntArray:
        """Nodes whose outputs the batch needs, distinct unless they have times. int64[B]."""

    @property
    def without(self) -> HiddenEdges | None:
        """Edges that no layer of the batch may see."""

    @property
    def cutoff(self) -> Cutoff | None:
        """Times that each node may see; None: all. [B]."""

    def attributes(self, targets: Tensor) -> dict[str, Tensor]:
        """Attributes of the batch that describe its seeds; targets int64[D] are the outputs."""

    def attributes_by_type(self, targets: Tensor) -> dict[Any, dict[str, Any]]:
        """The same in a heterogeneous graph: those of each type of nodes or edges."""


class Seeds(Protocol):
    """Seeds of a loader."""

    kind: str
    """What a seed is, in error messages."""

    @property
    def times(self) -> SeedTimes | None:
        """Times of the seeds."""

    def __len__(self) -> int: ...

    def batch(self, index: IntArray, epoch: int) -> SeedBatch:
        """Seeds at some positions. index int64[B]."""


def draw_blocks(sampler: Sampler, seeds: SeedBatch, step: int, shard: int = 0) -> list[Block]:
    """Blocks of a batch, which see neither hidden edges nor those that are too late."""
    options: dict[str, Any] = {"shard": shard} if shard else {}
    if seeds.without is not None:
        options["without"] = seeds.without
    if seeds.cutoff is not None:
        options["time"] = seeds.cutoff
    return sampler.sample(seeds.node, step, **options)


@dataclass(frozen=True, eq=False)
class NodeSeeds:
    """Seed nodes. Build them with `NodeSeeds.of`."""

    node: IntArray  # int64[N] graph ids, distinct unless they have times
    num_nodes: int
    is_mask: bool = False  # whether they were given as a mask
    times: SeedTimes | None = None
    node_type: str | None = None  # in a heterogeneous graph
    first: int = 0  # graph id of the first node of this type
    kind = "input nodes"

    @classmethod
    def of(cls, nodes: Any, num_nodes: int, distinct: bool = True) -> NodeSeeds:
        """Seeds from a mask [V], ids [N], or None for all nodes."""
        if nodes is None:
            return cls(np.arange(num_nodes), num_nodes)
        is_mask = checks.as_array("input_nodes", nodes).dtype == np.bool_
        return cls(checks.seeds(nodes, num_nodes, "input_nodes", distinct), num_nodes, is_mask)

    @classmethod
    def of_type(cls, nodes: Any, types: GraphTypes, distinct: bool = True) -> NodeSeeds:
        """Seeds from a type of nodes, or a pair of type and nodes: a mask, ids or None for all."""
        is_pair = isinstance(nodes, (tuple, list)) and len(nodes) == 2
        name, chosen = nodes if is_pair else (nodes, None)
        if not isinstance(name, str):
            raise InputError(
                f"input_nodes is a {type(nodes).__name__}, but must name a type of nodes, because "
                f"the graph has types: pass for instance ({types.node_types[0]!r}, mask)."
            )
        place = types.range_of(name)
        own = cls.of(chosen, place.stop - place.start, distinct)
        size = types.group_ptr.size - 1
        return cls(own.node + place.start, size, own.is_mask, None, name, place.start)

    def __len__(self) -> int:
        return self.node.size

    def batch(self, index: IntArray, epoch: int) -> NodeBatch:
        """Seeds at some positions; the same in every epoch."""
        return NodeBatch(self, self.node[index], index)

    def of_sampler(self, nodes: IntArray) -> NodeBatch:
        """Seeds that a sampler has chosen. nodes int64[B] graph ids."""
        return NodeBatch(self, nodes)

    def input_id(self, place: Tensor) -> Tensor:
        """Position in the seeds as given, or node id for a mask. int64[B] -> int64[B]."""
        return torch.from_numpy(self.node)[place] - self.first if self.is_mask else place

    @cached_property
    def place(self) -> Tensor:
        """Position of each node among the seeds; -1 for other nodes. int64[V]."""
        place = np.full(self.num_nodes, -1)
        place[self.node] = np.arange(self.node.size)
        return torch.from_numpy(place)


@dataclass(frozen=True, eq=False)
class NodeBatch:
    """Seed nodes of a batch."""

    seeds: NodeSeeds
    node: IntArray  # int64[B] graph ids
    index: IntArray | None = None  # int64[B] positions; None: looked up from the outputs
    without: HiddenEdges | None = None

    @property
    def cutoff(self) -> Cutoff | None:
        """Times that each seed may see; None: all. [B]."""
        times = self.seeds.times
        return None if times is None or self.index is None else times.cutoff(self.index)

    def attributes(self, targets: Tensor) -> dict[str, Tensor]:
        """input_id [B] and, with times, seed_time [B]."""
        seeds = self.seeds
        place = seeds.place[targets] if self.index is None else torch.from_numpy(self.index)
        named = {"input_id": seeds.input_id(place)}
        if seeds.times is not None:
            named["seed_time"] = torch.from_numpy(seeds.times.time)[place]
        return named

    def attributes_by_type(self, targets: Tensor) -> dict[Any, dict[str, Any]]:
        """`attributes` and batch_size, of the type of the seeds."""
        return {self.seeds.node_type: self.attributes(targets) | {"batch_size": targets.numel()}}
