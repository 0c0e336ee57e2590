"""`SeedLoader`: batches of a PyG `Data` with sampled blocks, drawn in turn or ahead."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import islice, repeat
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from bliss import checks
from bliss.arrays import IntArray
from bliss.errors import InputError
from bliss.graph import WEIGHTED
from bliss.graph.conversion import edge_attributes
from bliss.graph.stores import is_store_pair
from bliss.kernels import pool
from bliss.loader.arguments import (
    check_data,
    check_function,
    check_options,
    check_order,
    own_shards,
    positions,
)
from bliss.loader.gather import Gather
from bliss.loader.order import EpochOrder, GivenOrder, Order
from bliss.loader.pyg_options import refuse_options
from bliss.loader.seeds import SeedBatch, Seeds, draw_blocks
from bliss.loader.store_content import StoreContent, StorePair
from bliss.loader.typed_content import TypedContent
from bliss.nn.block import Block
from bliss.samplers.base import Sampler

if TYPE_CHECKING:
    from torch_geometric.data import Data

PATIENCE = 100
"""Number of batches without `sampler.update` after which a loader warns."""


class _Part(NamedTuple):
    """Part of a step, from which one batch is drawn."""

    choose: Callable[[], SeedBatch]
    shard: int  # number of the batch within its step


class Seconds(NamedTuple):
    """Seconds that a batch took."""

    sample: float  # drawing the blocks
    gather: float  # gathering the attributes


class SeedLoader:
    """Batches of a PyG `Data`, each with the blocks of a sampler for some of the seeds.

    `BlockLoader` is the loader over nodes, `LinkLoader` the one over links; both have the options
    that `BlockLoader` describes. Order and draws are functions of seed, epoch and step.
    """

    _skipped: ClassVar[frozenset[str]] = frozenset({"edge_index", "adj_t"})
    """Attributes of the data that batches do not take over."""

    def __init__(
        self,
        data: Data,
        node_sampler: Sampler,
        make_seeds: Callable[[], Seeds],
        *,
        batch_size: int = 1,
        shuffle: bool = False,
        order: str = "given",
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
        refuse_options(type(self).__name__, options, subgraph_type)
        check_options(node_sampler, prefetch, num_workers, batch_sampler, shuffle, drop_last)
        check_function("transform", transform)
        if is_store_pair(data):
            data = StorePair(*data)
        check_data(data, node_sampler)
        self.data, self.node_sampler, self.transform = data, node_sampler, transform
        self.batch_size = checks.whole("batch_size", batch_size, least=1)
        self.shuffle = checks.flag("shuffle", shuffle)
        self.drop_last = checks.flag("drop_last", drop_last)
        self.batch_sampler, self.pin_memory = batch_sampler, checks.flag("pin_memory", pin_memory)
        self.prefetch = prefetch
        self.seeds = make_seeds()
        self.order = check_order(order, self.seeds.times, batch_sampler)
        self.shards = checks.whole("shards", shards, least=1)
        self.own_shards = own_shards(shard, self.shards)
        self._epoch = 0
        self._order = self._make_order()
        if self.shards > 1 and len(self) == 0:
            raise InputError(
                f"shards={self.shards} exceeds the {self._batches_of_epoch()}: lower shards or "
                "batch_size."
            )
        cache = checks.whole("feature_cache", feature_cache)
        self._content: TypedContent | StoreContent | None = None
        if isinstance(data, StorePair):
            self._content = StoreContent(data, node_sampler)
        elif node_sampler.graph.types is None:
            self._gather = Gather(data, node_sampler, cache)
        else:
            self._content = TypedContent(data, node_sampler, cache)
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

    def _make_order(self) -> Order:
        size, seed = len(self.seeds), self.node_sampler.seed if self.shuffle else None
        if self.batch_sampler is None:
            times = self.seeds.times if self.order == "time" else None
            ranked = None if times is None else times.order
            return EpochOrder(size, self.batch_size, self.shards, self.drop_last, seed, ranked)
        if self.shards > 1:
            raise InputError("batch_sampler cannot be combined with shards: leave one of them out.")
        return GivenOrder(size, self.batch_sampler)

    def _batches_of_epoch(self) -> str:
        return f"{len(self.seeds)} {self.seeds.kind} in batches of {self.batch_size}"

    def _warn_of_dropped(self) -> None:
        """Warn of edge attributes that batches leave out."""
        graph, data = self.node_sampler.graph, self.data
        used = {"edge_weight"} if graph.norm in WEIGHTED else set()
        used |= self._skipped
        given = edge_attributes(data) if self._content is None else self._content.edge_attributes
        dropped = [] if self._has_edge_ids else sorted(given - used)
        if dropped:
            warnings.warn(
                f"{', '.join(dropped)} is left out of batches, because the sampler's graph has no "
                "edge ids: build it with Graph.of(data, edge_ids=True), or remove the attribute.",
                stacklevel=4,
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
        (self._content or self._gather).renew()

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
        return self._order.length(self._epoch)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.node_sampler!r}, "
            f"{self.seeds.kind.replace(' ', '_')}={len(self.seeds)}, batch_size={self.batch_size})"
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
        parts = islice(self._parts(), self._batch, None)
        batches = self._ahead(parts) if self.prefetch else self._in_turn(parts)
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
        """Batch of the seeds at these positions, drawn at the current step."""
        index = positions(index, len(self.seeds))
        choose = partial(self.seeds.batch, index, self._epoch)
        return self._load(_Part(choose, self.own_shards[0]), self._step)

    def _is_epoch_over(self) -> bool:
        """Whether a loaded position is behind the last batch of its epoch."""
        return self._batch > 0 and self.batch_sampler is None and self._batch >= len(self)

    def _next_epoch(self) -> None:
        self._epoch, self._batch, self._left_early = self._epoch + 1, 0, False

    def _parts(self) -> Iterator[list[_Part]]:
        """Parts of the own shards in each step of this epoch."""
        epoch = self._epoch
        for shards in self._order.steps(epoch):
            yield [_Part(partial(self._choose, shards[own], epoch), own) for own in self.own_shards]

    def _choose(self, chosen: IntArray, epoch: int) -> SeedBatch:
        """Seeds of a batch, from what the order gives: positions int64[B]."""
        return self.seeds.batch(chosen, epoch)

    def _load(self, part: _Part, step: int) -> Data:
        """Draw the blocks of a batch and gather the attributes of their nodes."""
        started = perf_counter()
        seeds = part.choose()
        chosen = perf_counter() - started
        batch = self.draw(seeds, step, self.node_sampler, part.shard)
        batch.seconds = batch.seconds._replace(sample=chosen + batch.seconds.sample)
        return batch if self.transform is None else self.transform(batch)

    def draw(self, seeds: SeedBatch, step: int, sampler: Sampler, shard: int = 0) -> Data:
        """Batch of some of `seeds`, drawn by any sampler of the same graph, without transform."""
        batch = self._new_batch()
        (self._content or self._gather).check()
        started = perf_counter()
        blocks = draw_blocks(sampler, seeds, step, shard)
        sampled = perf_counter()
        batch.blocks = blocks
        if self._content is None:
            self._fill(batch, blocks, seeds)
        else:
            self._content.fill(batch, blocks, seeds, self._skipped)
        batch.seconds = Seconds(sampled - started, perf_counter() - sampled)
        return batch

    def _fill(self, batch: Data, blocks: list[Block], seeds: SeedBatch) -> None:
        """Set the attributes of a batch of a graph without types."""
        nodes, targets = blocks[0].src, blocks[-1].dst
        of_edges = edge_attributes(self.data)
        self._gather.check_sizes(self.data)
        for name, value in self.data.to_dict().items():
            if name in self._skipped:
                continue
            if name in of_edges:
                if self._has_edge_ids and isinstance(value, Tensor):
                    batch[name] = [block.select_edges(value) for block in blocks]
                continue
            if isinstance(value, Tensor) and self.data.is_node_attr(name):
                rows = targets if name == "y" else nodes
                value = self._gather(name, value, rows)
            batch[name] = value
        batch.n_id = nodes
        if self._has_edge_ids:
            batch.e_id = [block.e_id for block in blocks]
        for name, value in seeds.attributes(targets).items():
            batch[name] = value
        batch.num_nodes = nodes.numel()
        batch.num_edges = sum(block.num_edges for block in blocks)
        batch.batch_size = targets.numel()

    def _new_batch(self) -> Any:
        """A batch without attributes."""
        from torch_geometric.data import Data, HeteroData

        return Data() if self.node_sampler.graph.types is None else HeteroData()

    def _load_all(self, parts: Iterable[_Part], step: int) -> list[Data]:
        return [self._load(part, step) for part in parts]

    def _load_alone(self, parts: Iterable[_Part], step: int) -> list[Data]:
        """Load batches in one thread: OpenMP would start a second team for a second thread."""
        with pool.limited(1):
            return self._load_all(parts, step)

    def _in_turn(self, steps: Iterator[list[_Part]]) -> Generator[Iterable[Data], None, None]:
        for parts in steps:
            drawn = map(self._load, parts, repeat(self._step))
            yield drawn if len(parts) > 1 else list(drawn)

    def _thread(self) -> ThreadPoolExecutor:
        """Thread that draws ahead, reused in all epochs so that its workspace is allocated once."""
        if os.getpid() not in self._threads:  # a thread does not survive a fork
            thread = ThreadPoolExecutor(1, thread_name_prefix="bliss-prefetch")
            weakref.finalize(self, thread.shutdown, wait=False)
            self._threads = {os.getpid(): thread}
        return self._threads[os.getpid()]

    def _ahead(self, steps: Iterator[list[_Part]]) -> Generator[Iterable[Data], None, None]:
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

    def _submit(self, steps: Iterator[list[_Part]], step: int) -> Future[list[Data]] | None:
        parts = next(steps, None)
        if parts is None:
            return None
        if not _is_crowded():
            return self._thread().submit(self._load_alone, parts, step)
        done: Future[list[Data]] = Future()
        try:
            done.set_result(self._load_all(parts, step))
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
