"""`BlockLoader`: batches of a PyG `Data`, each with sampled blocks."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import cached_property
from itertools import islice, repeat
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bliss import checks
from bliss.arrays import IntArray
from bliss.errors import InputError
from bliss.graph import WEIGHTED
from bliss.graph.conversion import edge_attributes
from bliss.kernels import pool
from bliss.loader.arguments import (
    check_function,
    check_options,
    own_shards,
    positions,
    seed_nodes,
)
from bliss.loader.gather import Gather
from bliss.loader.pyg_options import refuse_options
from bliss.rng import Stream, derive_key, hashes
from bliss.samplers.base import Sampler

if TYPE_CHECKING:
    from torch_geometric.data import Data

_EDGE_NAMES = ("edge_index", "adj_t")
PATIENCE = 100
"""Number of batches without `sampler.update` after which a loader warns."""


class _Seeds(NamedTuple):
    """Seeds of a batch."""

    node: IntArray  # int64[B] graph ids
    place: Tensor | None  # int64[B] positions in input_nodes; None: looked up from the blocks
    shard: int = 0  # number of the batch within its step


class Seconds(NamedTuple):
    """Seconds that a batch took."""

    sample: float  # drawing the blocks
    gather: float  # gathering the attributes


class BlockLoader:
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
    * ``seconds``: time to ``sample`` the blocks and to ``gather`` the attributes

    Batches are numbered over all epochs. A draw depends only on its number and the seed, so a
    resumed run needs no generator state; the order of an epoch depends only on seed and epoch. A
    sampler that makes its own batches, such as `bliss.ClusterGCN`, chooses the seeds of each batch;
    shuffle and drop_last then have no effect.

    With `shards`, S batches make a step: the seeds of a step are S consecutive parts of the epoch's
    order, and each part has its own coins. A process draws the batches of its own shards alone, and
    all processes have equally many steps.

    Parameters
    ----------
    data
        The PyG data whose attributes are batched; edges come from the sampler's graph.
    node_sampler
        A sampler, such as `bliss.Bliss`.
    input_nodes
        Seed nodes: a mask [V], ids, or None for all nodes.
    batch_size
        Seeds per batch.
    shuffle
        Whether to shuffle the seeds in each epoch.
    drop_last
        Whether to drop the last batch if it is smaller than batch_size.
    transform
        A function applied to each batch.
    prefetch
        0: draw each batch on request. 1: draw the next batch in a thread while this one is used;
        each batch is then drawn from a policy exactly one step old. Without an accelerator, if
        torch's threads use all processors, the next batch is drawn before this one is returned.
    batch_sampler
        Iterable of lists of positions in `input_nodes`; replaces batch_size, shuffle and drop_last.
    shards
        Number S of batches that make a step; more than 1 needs drop_last=True.
    shard
        Number of this process's batch in a step, from 0 to S - 1; or the numbers of several, whose
        batches `steps` returns together.
    pin_memory
        Whether to copy batches to page-locked memory, if there is a GPU.
    feature_cache
        Bytes of memory for the rows of a memory-mapped `x` that are drawn most; see `renew_cache`.
    num_workers
        Must be 0: the policy learns in this process. Use prefetch=1 to draw in a thread.
    subgraph_type
        Must be "directional": a block holds the edges that lead to its targets.
    options
        Other options of PyG's NeighborLoader (disjoint, time_attr, ...) are refused with a reason,
        unless they are off.
    """

    def __init__(
        self,
        data: Data,
        node_sampler: Sampler,
        input_nodes: Any = None,
        *,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        transform: Callable[[Data], Data] | None = None,
        prefetch: int = 0,
        batch_sampler: Iterable[Any] | None = None,
        shards: int = 1,
        shard: int | Sequence[int] = 0,
        pin_memory: bool = False,
        feature_cache: int = 0,
        num_workers: int = 0,
        subgraph_type: str = "directional",
        **options: Any,
    ) -> None:
        refuse_options(options, subgraph_type)
        check_options(node_sampler, prefetch, num_workers, batch_sampler, shuffle, drop_last)
        check_function("transform", transform)
        if data.num_nodes != node_sampler.graph.num_nodes:
            raise InputError(
                f"data has {data.num_nodes} nodes, but the sampler's graph has "
                f"{node_sampler.graph.num_nodes}: build the sampler from the same data."
            )
        self.data, self.node_sampler, self.transform = data, node_sampler, transform
        self.batch_size = checks.whole("batch_size", batch_size, least=1)
        self.shuffle = checks.flag("shuffle", shuffle)
        self.drop_last = checks.flag("drop_last", drop_last)
        self.batch_sampler, self.pin_memory = batch_sampler, checks.flag("pin_memory", pin_memory)
        self.prefetch = prefetch
        self.input_nodes, self._is_mask = seed_nodes(input_nodes, int(data.num_nodes))
        if node_sampler.makes_batches:
            node_sampler.prepare(self.input_nodes, self.batch_size)
        self.shards = checks.whole("shards", shards, least=1)
        self.own_shards = own_shards(shard, self.shards)
        self._epoch = 0
        if self.shards > 1:
            self._check_shards()
        self._gather = Gather(data, node_sampler, checks.whole("feature_cache", feature_cache))
        self._has_edge_ids = node_sampler.graph.edge_id is not None
        self._warn_of_dropped()
        self._batch, self._step = 0, 0
        self._left_early = False  # whether the last iteration ended in the middle of its epoch
        self._iteration = object()  # identifies the newest iteration
        self._unlearnt = 0  # batches with gradients, before the first update
        self._threads: dict[int, ThreadPoolExecutor] = {}  # of this process, by its id

    def __getstate__(self) -> dict[str, Any]:
        """All but the threads, for copies and pickles; a copy starts threads of its own."""
        return self.__dict__ | {"_threads": {}}

    def _check_shards(self) -> None:
        """Refuse shards of unequal size or number, with which processes would wait forever."""
        makes_batches = self.node_sampler.makes_batches
        if self.batch_sampler is not None:
            raise InputError("batch_sampler cannot be combined with shards: leave one of them out.")
        if not self.drop_last and not makes_batches:
            raise InputError(
                f"shards={self.shards} needs drop_last=True, so that every shard has equally many "
                "batches of equal size: pass it."
            )
        if len(self) == 0:
            available = f"{self.input_nodes.size} input nodes in batches of {self.batch_size}"
            if makes_batches:
                available = f"{len(self.node_sampler.batches(0))} batches of an epoch"
            raise InputError(
                f"shards={self.shards} exceeds the {available}: lower shards or batch_size."
            )

    def _warn_of_dropped(self) -> None:
        """Warn of edge attributes that batches leave out."""
        graph, data = self.node_sampler.graph, self.data
        used = {"edge_weight"} if graph.norm in WEIGHTED else set()
        dropped = [] if self._has_edge_ids else sorted(edge_attributes(data) - used)
        if dropped:
            warnings.warn(
                f"{', '.join(dropped)} is left out of batches, because the sampler's graph has no "
                "edge ids: build it with Graph.of(data, edge_ids=True), or remove the attribute.",
                stacklevel=3,
            )

    def _warn_of_missing_updates(self) -> None:
        """Warn once if there were PATIENCE batches with gradients and no `sampler.update`."""
        sampler = self.node_sampler
        if sampler.learning.updates or not sampler.learns or not torch.is_grad_enabled():
            return
        self._unlearnt += 1
        if self._unlearnt == PATIENCE + 1:
            warnings.warn(
                f"{type(sampler).__name__} has drawn {PATIENCE} batches and learnt from none: call "
                "sampler.update(batch.blocks) after each step.",
                stacklevel=3,
            )

    def renew_cache(self) -> None:
        """Cache the features of the nodes that the policy is now most likely to draw.

        Call it from time to time, for instance after a survey. Batches do not depend on the cache.
        """
        self._gather.renew()

    @property
    def step(self) -> int:
        """Number of steps returned so far, over all epochs; a step has a batch per shard."""
        return self._step

    @property
    def epoch(self) -> int:
        """Number of the current epoch."""
        return self._epoch

    def state_dict(self) -> dict[str, int]:
        """Current position; pass it to `load_state_dict` to continue after the last batch."""
        return {"epoch": self._epoch, "batch": self._batch, "step": self._step}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Continue from a saved position, which may be in the middle of an epoch."""
        self._epoch = checks.whole("epoch", state["epoch"])
        self._batch = checks.whole("batch", state["batch"])
        self._step = checks.whole("step", state["step"])
        self._left_early = False

    def __len__(self) -> int:
        if self.node_sampler.makes_batches:
            return len(self.node_sampler.batches(self._epoch)) // self.shards
        if self.batch_sampler is not None:
            return len(self.batch_sampler)  # type: ignore[arg-type]
        whole, rest = divmod(self.input_nodes.size, self.batch_size * self.shards)
        return whole + bool(rest and not self.drop_last)

    def __repr__(self) -> str:
        return (
            f"BlockLoader({self.node_sampler!r}, input_nodes={self.input_nodes.size}, "
            f"batch_size={self.batch_size})"
        )

    def __iter__(self) -> Iterator[Data]:
        if len(self.own_shards) > 1:
            raise InputError(
                f"a step has {len(self.own_shards)} batches here, those of the shards "
                f"{', '.join(map(str, self.own_shards))}: iterate over loader.steps()."
            )
        with closing(self.steps()) as steps:
            for batches in steps:
                yield from batches

    def steps(self) -> Generator[Iterable[Data], None, None]:
        """Steps of an epoch; each is an iterable of the batches of the own shards, in order.

        Iterate over the batches of a step once, before the next step: without prefetch, a batch is
        drawn when the iteration reaches it.
        """
        if self._left_early or self._is_epoch_over():
            self._next_epoch()
        self._iteration = this = object()
        seeds = islice(self._epoch_seeds(), self._batch, None)
        batches = self._ahead(seeds) if self.prefetch else self._in_turn(seeds)
        pin = self.pin_memory and torch.cuda.is_available()
        self._left_early = True
        with closing(batches):
            for step in batches:
                self._batch += 1
                self._step += 1
                self._warn_of_missing_updates()
                yield (batch.pin_memory() for batch in step) if pin else step
        if self._iteration is this:
            self._next_epoch()

    def __call__(self, index: Any) -> Data:
        """Batch of the seeds at these positions of `input_nodes`, drawn at the current step."""
        place = positions(index, self.input_nodes.size)
        return self._load(self._seeds_at(place, self.own_shards[0]), self._step)

    def _is_epoch_over(self) -> bool:
        """Whether a loaded position is behind the last batch of its epoch."""
        return self._batch > 0 and self.batch_sampler is None and self._batch >= len(self)

    def _next_epoch(self) -> None:
        self._epoch, self._batch, self._left_early = self._epoch + 1, 0, False

    def _epoch_seeds(self) -> Iterator[list[_Seeds]]:
        """Seeds of the own shards in each step of this epoch."""
        own = self.own_shards
        if self.node_sampler.makes_batches:
            batches = self.node_sampler.batches(self._epoch)
            for start in range(0, len(batches) // self.shards * self.shards, self.shards):
                yield [_Seeds(batches[start + shard], None, shard) for shard in own]
            return
        for index in self._positions():
            if self.shards == 1:
                yield [self._seeds_at(index)]
            else:
                parts = index.reshape(self.shards, self.batch_size)
                yield [self._seeds_at(parts[shard], shard) for shard in own]

    def _positions(self) -> Iterator[IntArray]:
        """Positions in `input_nodes` of each step of this epoch. Arrays int64[S B]."""
        if self.batch_sampler is not None:
            yield from (positions(index, self.input_nodes.size) for index in self.batch_sampler)
            return
        order = np.arange(self.input_nodes.size)
        if self.shuffle:  # a pure function of seed and epoch
            key = derive_key(self.node_sampler.seed, Stream.ORDER, self._epoch)
            order = np.argsort(hashes(key, order), kind="stable")
        size = self.batch_size * self.shards
        for start in range(0, len(self) * size, size):
            yield order[start : start + size]

    def _seeds_at(self, index: IntArray, shard: int = 0) -> _Seeds:
        return _Seeds(self.input_nodes[index], torch.from_numpy(index), shard)

    @cached_property
    def _place(self) -> Tensor:
        """Position of each node in `input_nodes`. int64[V]."""
        place = np.full(self.node_sampler.graph.num_nodes, -1)
        place[self.input_nodes] = np.arange(self.input_nodes.size)
        return torch.from_numpy(place)

    def _load(self, seeds: _Seeds, step: int) -> Data:
        """Draw the blocks of a batch and gather the attributes of their nodes."""
        batch = self._new_batch()
        self._gather.check()
        started = perf_counter()
        within = (seeds.shard,) if seeds.shard else ()
        blocks = self.node_sampler.sample(seeds.node, step, *within)
        sampled = perf_counter()
        nodes, targets = blocks[0].src, blocks[-1].dst
        of_edges = edge_attributes(self.data)
        self._gather.check_sizes(self.data)
        for name, value in self.data.to_dict().items():
            if name in _EDGE_NAMES:
                continue
            if name in of_edges:
                if self._has_edge_ids and isinstance(value, Tensor):
                    batch[name] = [block.select_edges(value) for block in blocks]
                continue
            if isinstance(value, Tensor) and self.data.is_node_attr(name):
                rows = targets if name == "y" else nodes
                value = self._gather(name, value, rows)
            batch[name] = value
        place = self._place[targets] if seeds.place is None else seeds.place
        batch.blocks = blocks
        batch.n_id = nodes
        if self._has_edge_ids:
            batch.e_id = [block.e_id for block in blocks]
        batch.input_id = torch.from_numpy(self.input_nodes)[place] if self._is_mask else place
        batch.num_nodes = nodes.numel()
        batch.num_edges = sum(block.num_edges for block in blocks)
        batch.batch_size = targets.numel()
        batch.seconds = Seconds(sampled - started, perf_counter() - sampled)
        return batch if self.transform is None else self.transform(batch)

    def _new_batch(self) -> Data:
        """A batch without attributes."""
        from torch_geometric.data import Data

        return Data()

    def _load_all(self, shards: Iterable[_Seeds], step: int) -> list[Data]:
        return [self._load(seeds, step) for seeds in shards]

    def _load_alone(self, shards: Iterable[_Seeds], step: int) -> list[Data]:
        """Load batches in one thread: OpenMP would start a second team for a second thread."""
        with pool.limited(1):
            return self._load_all(shards, step)

    def _in_turn(self, steps: Iterator[list[_Seeds]]) -> Generator[Iterable[Data], None, None]:
        for shards in steps:
            drawn = map(self._load, shards, repeat(self._step))
            yield drawn if len(shards) > 1 else list(drawn)

    def _thread(self) -> ThreadPoolExecutor:
        """Thread that draws ahead, reused in all epochs so that its workspace is allocated once."""
        if os.getpid() not in self._threads:  # a thread does not survive a fork
            thread = ThreadPoolExecutor(1, thread_name_prefix="bliss-prefetch")
            weakref.finalize(self, thread.shutdown, wait=False)
            self._threads = {os.getpid(): thread}
        return self._threads[os.getpid()]

    def _ahead(self, steps: Iterator[list[_Seeds]]) -> Generator[Iterable[Data], None, None]:
        """Draw step t + 1, with the policy after update t - 1, while step t is used."""
        waiting: Future[list[Data]] | None = None
        process = os.getpid()
        with self.node_sampler.learning.drawing_ahead():
            try:
                waiting = self._submit(steps, self._step)
                while waiting is not None:
                    if os.getpid() != process:
                        waiting = None
                        raise InputError(
                            "the loader draws ahead in a thread, which does not survive a fork: "
                            "iterate over the loader anew in this process, or use prefetch=0."
                        )
                    batches = waiting.result()
                    self.node_sampler.learning.settle()  # no draw is under way here
                    waiting = self._submit(steps, self._step + 1)
                    yield batches
            finally:
                if waiting is not None and not waiting.cancel():
                    waiting.exception()  # wait: the draw must not outlive the iteration

    def _submit(self, steps: Iterator[list[_Seeds]], step: int) -> Future[list[Data]] | None:
        shards = next(steps, None)
        if shards is None:
            return None
        if not _is_crowded():
            return self._thread().submit(self._load_alone, shards, step)
        done: Future[list[Data]] = Future()
        try:
            done.set_result(self._load_all(shards, step))
        except Exception as error:  # raised by `result`, as from the thread
            done.set_exception(error)
        return done


def _is_crowded() -> bool:
    """Whether torch's threads use all processors, so that a further thread would delay them.

    An operation of torch ends with its slowest thread. On a machine with an accelerator, networks
    are assumed to run there, and processors to be free.
    """
    if torch.cuda.is_available() or torch.backends.mps.is_available():
        return False
    own = getattr(os, "sched_getaffinity", None)
    processors = len(own(0)) if own else os.cpu_count() or 1
    return 1 < torch.get_num_threads() >= processors
