"""`BlockLoader`: batches of seed nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bliss import checks
from bliss.arrays import IntArray
from bliss.errors import InputError
from bliss.loader.order import Order, SamplerOrder
from bliss.loader.seed_loader import SeedLoader
from bliss.loader.seed_times import SeedTimes, node_times
from bliss.loader.seeds import NodeSeeds, SeedBatch
from bliss.samplers.base import Sampler

if TYPE_CHECKING:
    from torch_geometric.data import Data


class BlockLoader(SeedLoader):
    """Batches of a PyG `Data`, each with the blocks of a sampler.

    A batch is a `Data` with

    * ``blocks``: one `Block` per layer, input layer first
    * ``x``, and every other node attribute: rows of the input layer's sources, ``n_id``
    * ``y``: rows of ``blocks[-1].dst``, like the network's output; these are the seeds in order,
      or the seeds in the subgraph
    * ``edge_attr``, and every other edge attribute: a list with the rows of each block's edges,
      zeros for added self-loops, if the graph has edge ids (`Graph.of`); ``e_id``: a list with the
      column of each block's edges in the data's edge_index, -1 for added self-loops
    * ``n_id`` [S], ``input_id`` [B] (position in `input_nodes`, or node id for a mask),
      ``batch_size``, ``num_nodes``, ``num_edges`` (of all blocks)
    * ``seed_time`` [B], if the seeds have timestamps
    * ``seconds``: time to ``sample`` the blocks and to ``gather`` the attributes

    If the data is a `HeteroData`, so are batches: each node type has its attributes and
    ``n_id``, and the type of the seeds also ``y`` of the seeds, ``input_id`` and ``batch_size``.
    Each relation has its attributes and ``e_id`` as lists, if the graph has edge ids. A node type
    without sampled nodes has 0 rows. The blocks are ``batch.blocks``; see `Block.edge_index_dict`.

    Batches are numbered over all epochs. A draw depends only on its number and the seed, so a
    resumed run needs no generator state; the order of an epoch depends only on seed and epoch. A
    sampler that makes its own batches, such as `bliss.ClusterGCN`, chooses the seeds of each batch;
    shuffle and drop_last then have no effect.

    With `shards`, S batches make a step: the seeds of a step are S consecutive parts of the epoch's
    order, and each part has its own random numbers. A process draws only the batches of its own
    shards, and all processes have the same number of steps.

    Parameters
    ----------
    data
        The PyG data whose attributes are batched; edges come from the sampler's graph. Or a pair
        of PyG's FeatureStore and GraphStore, which `Graph.of` and samplers also take: all
        attributes of a batch are read by one call of `multi_get_tensor`.
    node_sampler
        A sampler, such as `bliss.Bliss`.
    input_nodes
        Seed nodes: a mask [V], ids, or None for all nodes. For a `HeteroData`, a node type, or a
        pair of type and nodes, such as ("paper", mask). With timestamps, ids may be repeated;
        ``input_id`` has their positions.
    input_time
        Timestamp of each input node [N], whole numbers. No layer uses edges later than the
        timestamp of the seed. The sampler's graph needs timestamps: build it with time_attr.
    time_attr
        Attribute of the data with the timestamps of nodes, the default of input_time.
    time_strict
        Whether a seed uses only edges earlier than its timestamp; by default also those at it.
    time_window
        How far back in time a seed sees, in units of the timestamps, its own included (unless
        strict); None: everything.

    Other Parameters
    ----------------
    order : str
        "given": seeds in their order, or shuffled. "time": batches of seeds with adjacent
        timestamps, in the order of time, or in shuffled order.
    batch_size : int
        Seeds per batch.
    shuffle : bool
        Whether to shuffle the seeds in each epoch.
    drop_last : bool
        Whether to drop the last batch if it is smaller than batch_size.
    transform : callable
        A function applied to each batch.
    prefetch : int
        0: draw each batch on request. 1: draw the next batch in a thread while this one is used;
        each batch is then drawn from a policy exactly one step old. Without an accelerator, if
        torch's threads use all processors, the next batch is drawn before this one is returned.
    batch_sampler : iterable of list of int
        Iterable of lists of positions in `input_nodes`; replaces batch_size, shuffle and drop_last.
    shards : int
        Number S of batches that make a step; more than 1 needs drop_last=True.
    shard : int or sequence of int
        Number of this process's batch in a step, from 0 to S - 1; or the numbers of several, whose
        batches `steps` returns together.
    pin_memory : bool
        Whether to copy batches to page-locked memory, if there is a GPU.
    feature_cache : int
        Bytes of memory for the rows of a memory-mapped `x` that are drawn most; see `renew_cache`.
    num_workers : int
        Must be 0: the policy learns in this process. Use prefetch=1 to draw in a thread.
    subgraph_type : str
        Must be "directional": a block holds the edges that lead to its targets.
    options
        Other options of PyG's NeighborLoader (disjoint, ...) are refused with a reason, unless they
        are off.
    """

    seeds: NodeSeeds

    def __init__(
        self,
        data: Data,
        node_sampler: Sampler,
        input_nodes: Any = None,
        *,
        input_time: Any = None,
        time_attr: str | None = None,
        time_strict: bool = False,
        time_window: int | None = None,
        **options: Any,
    ) -> None:
        def make_seeds() -> NodeSeeds:
            has_times = input_time is not None or time_attr is not None
            types = node_sampler.graph.types
            if types is not None:
                seeds = NodeSeeds.of_type(input_nodes, types, distinct=not has_times)
            else:
                nodes = node_sampler.graph.num_nodes
                seeds = NodeSeeds.of(input_nodes, nodes, distinct=not has_times)
            time = node_times(data, time_attr, seeds) if input_time is None else input_time
            rule = time, len(seeds), node_sampler, time_strict, time_window
            times = SeedTimes.of("input_time", *rule)
            if checks.flag("time_strict", time_strict) and times is None:
                raise InputError(
                    "time_strict=True has no effect without times of seeds: pass input_time."
                )
            return replace(seeds, times=times)

        super().__init__(data, node_sampler, make_seeds, **options)

    @property
    def input_nodes(self) -> IntArray:
        """Seed nodes. int64[N]."""
        return self.seeds.node

    def _make_order(self) -> Order:
        if not self.node_sampler.makes_batches:
            return super()._make_order()
        self.node_sampler.prepare(self.input_nodes, self.batch_size)
        return SamplerOrder(self.node_sampler, self.shards)

    def _batches_of_epoch(self) -> str:
        if not self.node_sampler.makes_batches:
            return super()._batches_of_epoch()
        return f"{len(self.node_sampler.batches(0))} batches of an epoch"

    def _choose(self, chosen: IntArray, epoch: int) -> SeedBatch:
        if self.node_sampler.makes_batches:
            return self.seeds.of_sampler(chosen)
        return super()._choose(chosen, epoch)
