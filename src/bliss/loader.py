"""`BlockLoader`: a PyG loader whose batches carry sampled blocks."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import cached_property
from itertools import islice
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils import data as torch_data
from torch_geometric.data import Data
from torch_geometric.loader import NodeLoader

from bliss import checks
from bliss.errors import InputError
from bliss.rng import Stream, derive_key, hashes
from bliss.samplers import Sampler
from bliss.types import Block


class EpochOrder(torch_data.Sampler[int]):
    """The order of an epoch: a shuffle that is a pure function of seed and epoch."""

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.seed, self.epoch = size, seed, 0

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[int]:
        key = derive_key(self.seed, Stream.ORDER, self.epoch)
        yield from np.argsort(hashes(key, np.arange(self.size)), kind="stable").tolist()


class _Seeds(NamedTuple):
    """The seeds of a batch."""

    node: Any  # [B] graph ids
    place: Tensor | None  # int64[B] their places among the input nodes; None: as the blocks say


class BlockLoader(NodeLoader):  # type: ignore[misc]  # PyG is untyped
    """Batches of a PyG `Data`, each with the blocks of a sampler.

    A batch is a `Data` with

    * ``blocks``: one `Block` per layer, input layer first
    * ``x``, and every other node attribute: rows of the input layer's sources, ``n_id``
    * ``y``: rows of ``blocks[-1].dst``, as the network's output has; these are the seeds in their
      order, or those of them that a subgraph has
    * ``n_id`` [S], ``input_id`` [B] (place in `input_nodes`, or node id for a mask), ``batch_size``
    * ``seconds``: what it took to "sample" the blocks and to "gather" the attributes

    Batches are numbered over all epochs, and number and seed decide the draw: a resumed run needs
    no generator. Shuffling depends on seed and epoch alone. A sampler that makes its own batches,
    such as `bliss.samplers.ClusterGCN`, is told the input nodes and batch_size and decides the
    rest: shuffle and drop_last are then its own affair.

    Parameters
    ----------
    data
        The PyG data whose attributes are batched; edges come from the sampler's graph.
    node_sampler
        A sampler, such as `bliss.Bliss`.
    input_nodes
        Seeds: a mask [V], ids, or None for all nodes.
    prefetch
        0: draw a batch when it is asked for. 1: draw the next one in a thread while this one is
        used; the policy behind each batch is then exactly one step old.
    shuffle
        Another order each epoch.
    options
        What PyG's `NodeLoader` and torch's `DataLoader` take: batch_size, drop_last, transform, ...
    """

    def __init__(
        self,
        data: Data,
        node_sampler: Sampler,
        input_nodes: Any = None,
        *,
        prefetch: int = 0,
        shuffle: bool = False,
        **options: Any,
    ) -> None:
        self._check_options(node_sampler, prefetch, shuffle, options)
        if data.num_nodes != node_sampler.graph.num_nodes:
            raise InputError(
                f"data has {data.num_nodes} nodes, but the sampler's graph has "
                f"{node_sampler.graph.num_nodes}: build the sampler from the same data."
            )
        if input_nodes is not None:
            is_mask = checks.as_array("input_nodes", input_nodes).dtype == np.bool_
            ids = checks.seeds(input_nodes, data.num_nodes, "input_nodes")
            input_nodes = torch.from_numpy(ids)
            if is_mask:
                options.setdefault("input_id", input_nodes)
        if shuffle and options.get("sampler") is None and options.get("batch_sampler") is None:
            size = data.num_nodes if input_nodes is None else len(input_nodes)
            options["sampler"] = EpochOrder(size, node_sampler.seed)
            shuffle = False
        options["filter_per_worker"] = False  # there are none
        super().__init__(data, node_sampler, input_nodes, shuffle=shuffle, **options)
        if node_sampler.makes_batches:
            node_sampler.prepare(self.input_data.node.numpy(), self.batch_size)
        self.prefetch = prefetch
        self._epoch, self._batch, self._step = 0, 0, 0
        self._left_early = False  # whether the last iteration ended in the middle of its epoch
        self._iteration = object()  # names the newest iteration

    @staticmethod
    def _check_options(
        sampler: Sampler, prefetch: int, shuffle: bool, options: dict[str, Any]
    ) -> None:
        if not isinstance(sampler, Sampler):
            raise InputError(
                f"node_sampler is a {type(sampler).__name__}, but must be a sampler of blocks: "
                "pass for instance bliss.Bliss(data, budgets=[...])."
            )
        if prefetch not in (0, 1):
            raise InputError(
                f"prefetch={prefetch!r} must be 0 or 1: the policy learns each step, so at most "
                "one batch can be drawn ahead."
            )
        if options.get("num_workers"):
            raise InputError(
                f"num_workers={options['num_workers']} must be 0: the policy learns in this "
                "process, and copies in workers would not. Use prefetch=1 to draw in a thread."
            )
        if options.get("batch_size", 1) is None and options.get("batch_sampler") is None:
            raise InputError("batch_size=None is not possible here: give the number of seeds.")
        ignored = ["input_time", "transform_sampler_output", "custom_cls", "collate_fn"]
        if shuffle:
            ignored.append("generator")
        if sampler.makes_batches:
            ignored += ["sampler", "batch_sampler"]
        for name in ignored:
            if options.get(name) is not None:
                raise InputError(
                    f"{name} would have no effect here: leave it out, or use transform=..., or set "
                    "the sampler's seed."
                )

    @property
    def step(self) -> int:
        """The number of batches handed out so far, over all epochs."""
        return self._step

    @property
    def epoch(self) -> int:
        """The number of the epoch that is under way."""
        return self._epoch

    def state_dict(self) -> dict[str, int]:
        """Where the loader stands; pass it to `load_state_dict` to go on after the last batch."""
        return {"epoch": self._epoch, "batch": self._batch, "step": self._step}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on from there: the next iteration starts in the middle of that epoch."""
        self._epoch = checks.whole("epoch", state["epoch"])
        self._batch = checks.whole("batch", state["batch"])
        self._step = checks.whole("step", state["step"])
        self._left_early = False

    def __len__(self) -> int:
        if self.node_sampler.makes_batches:
            return len(self.node_sampler.batches(self._epoch))
        return super().__len__()  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Data]:
        if self._left_early:
            self._next_epoch()
        self._iteration = this = object()
        seeds = islice(self._epoch_seeds(), self._batch, None)
        batches = self._ahead(seeds) if self.prefetch else self._in_turn(seeds)
        pin = self.pin_memory and torch.cuda.is_available()
        self._left_early = True
        with closing(batches):
            for batch in batches:
                self._batch += 1
                self._step += 1
                yield batch.pin_memory() if pin else batch
        if self._iteration is this:
            self._next_epoch()

    def _next_epoch(self) -> None:
        self._epoch, self._batch, self._left_early = self._epoch + 1, 0, False

    def collate_fn(self, index: Any) -> tuple[Tensor, list[Block], float]:
        """Sample the blocks of the seeds at these places. index [B]."""
        return self._draw(self._seeds_at(index), self._step)

    def filter_fn(self, out: tuple[Tensor, list[Block], float]) -> Data:
        """Join blocks with the attributes of their nodes."""
        started = perf_counter()
        index, blocks, sampling = out
        nodes, seeds = blocks[0].src, blocks[-1].dst
        batch = Data()
        for name, value in self.data.to_dict().items():
            if name in ("edge_index", "adj_t") or self.data.is_edge_attr(name):
                continue
            if isinstance(value, Tensor) and self.data.is_node_attr(name):
                rows = seeds if name == "y" else nodes
                value = value.index_select(0, rows.to(value.device))
            batch[name] = value
        batch.blocks = blocks
        batch.n_id = nodes
        batch.input_id = (
            index if self.input_data.input_id is None else (self.input_data.input_id[index])
        )
        batch.num_nodes = nodes.numel()
        batch.batch_size = seeds.numel()
        batch.seconds = {"sample": sampling, "gather": perf_counter() - started}
        return batch if self.transform is None else self.transform(batch)

    def _epoch_seeds(self) -> Iterator[_Seeds]:
        """The seeds of each batch of this epoch."""
        if self.node_sampler.makes_batches:
            for nodes in self.node_sampler.batches(self._epoch):
                yield _Seeds(nodes, None)
            return
        if isinstance(self.sampler, EpochOrder):
            self.sampler.epoch = self._epoch
        for index in self._index_sampler:
            yield self._seeds_at(index)

    def _seeds_at(self, index: Any) -> _Seeds:
        index = torch.as_tensor(index, dtype=torch.int64)
        is_index_known = not self.node_sampler.makes_batches
        return _Seeds(self.input_data.node[index], index if is_index_known else None)

    @cached_property
    def _place(self) -> Tensor:
        """Where each node stands among the input nodes. int64[V]."""
        nodes = self.input_data.node
        place = torch.full((self.node_sampler.graph.num_nodes,), -1)
        return place.index_copy_(0, nodes, torch.arange(nodes.numel()))

    def _draw(self, seeds: _Seeds, step: int) -> tuple[Tensor, list[Block], float]:
        started = perf_counter()
        blocks = self.node_sampler.sample(seeds.node, step)
        index = self._place[blocks[-1].dst] if seeds.place is None else seeds.place
        return index, blocks, perf_counter() - started

    def _in_turn(self, batches: Iterator[_Seeds]) -> Generator[Data, None, None]:
        for seeds in batches:
            yield self.filter_fn(self._draw(seeds, self._step))

    def _ahead(self, batches: Iterator[_Seeds]) -> Generator[Data, None, None]:
        """Draw batch t + 1, with the policy as update t - 1 left it, while batch t is used."""

        def submit(step: int) -> Any:
            seeds = next(batches, None)
            if seeds is None:
                return None
            return pool.submit(lambda: self.filter_fn(self._draw(seeds, step)))

        pool = ThreadPoolExecutor(1, thread_name_prefix="bliss-prefetch")
        with self.node_sampler.drawing_ahead(), pool:
            waiting = submit(self._step)
            while waiting is not None:
                batch = waiting.result()
                self.node_sampler.settle()  # no draw is under way here
                waiting = submit(self._step + 1)
                yield batch
