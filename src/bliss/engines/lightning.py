"""Lightning: a callback that lets the policy learn, and a data module with our loader.

Both work with any LightningModule, in one process and in several (strategy "ddp").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from bliss import checks
from bliss.arrays import IntArray
from bliss.distributed.equality import checksum
from bliss.distributed.groups import ALONE, Group, TorchGroup
from bliss.errors import DamagedError, InputError
from bliss.loader import BlockLoader, SeedLoader
from bliss.rng import Stream
from bliss.samplers.base import Sampler
from bliss.samplers.full import Full
from bliss.train.task import torch_seed

try:
    from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer
except ImportError as error:
    raise InputError(
        "bliss.engines.lightning needs Lightning: install it with pip install "
        "'bliss-gnn[lightning]'."
    ) from error


class PolicyCallback(Callback):
    """Lets a sampler learn after each training batch, and keeps its policy in the checkpoint.

    The network must observe each layer's input: `bliss.nn.GNN` and `block.propagate` do so;
    elsewhere call `block.observe(x)`.

    In several processes, each policy learns from the batches of all processes, in the order of
    ranks, so all policies are equal bit for bit. They are compared after each epoch.

    Parameters
    ----------
    sampler
        The sampler of the training batches.
    dropout_seed
        If given, torch's generator is seeded before each batch from this number, the number of the
        batch and the rank. A resumed run then repeats dropout, and processes differ in it.
    """

    def __init__(self, sampler: Sampler, dropout_seed: int | None = None) -> None:
        self.sampler = sampler
        self.dropout_seed = dropout_seed
        if dropout_seed is not None:
            checks.whole("dropout_seed", dropout_seed)
        self._batches = 0  # trained on, since the first start
        self._group: Group = ALONE

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Join the other processes; refuse a loader that gives all of them the same batches."""
        self._group = TorchGroup() if trainer.world_size > 1 else ALONE
        _check_loaders(trainer.train_dataloader, self.sampler, self._group)

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Seed dropout, if a seed was given."""
        if self.dropout_seed is not None:
            place = (self._batches, self._group.rank)
            torch.manual_seed(torch_seed(self.dropout_seed, Stream.DROPOUT, *place))

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Let the policy learn from the batches of all processes."""
        if getattr(batch, "blocks", None) is None:
            raise InputError(
                f"a batch of type {type(batch).__name__} has no blocks, so the policy cannot learn "
                "from it: train on batches of a BlockLoader, for instance of BlockDataModule."
            )
        self.sampler.update(batch.blocks, self._group if self._group.size > 1 else None)
        self._batches += 1

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Raise an error that names the rank if policies differ."""
        if self._group.size == 1:
            return
        own = torch.tensor([checksum(self.sampler.state_dict())])
        checksums = [int(received) for received in self._group.all_gather(own)]
        for rank, received in enumerate(checksums):
            if received != checksums[0]:
                raise DamagedError(
                    f"the policy of rank {rank} differs from that of rank 0: load the same state "
                    "in all processes and change it by PolicyCallback alone, then continue from "
                    "the last checkpoint."
                )

    def state_dict(self) -> dict[str, Any]:
        """Policy and number of batches, for the checkpoint."""
        policy = {name: tensor.clone() for name, tensor in self.sampler.state_dict().items()}
        return {"policy": policy, "batches": self._batches}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue with the policy of a checkpoint."""
        self.sampler.load_state_dict(state_dict["policy"])
        self._batches = int(state_dict["batches"])


class BlockDataModule(LightningDataModule):
    """Training batches of a sampler, and validation and test batches with full neighbourhoods.

    In R processes, a step is R batches: consecutive parts of the epoch's order, one per rank, each
    with its own coins. All processes have equally many training batches, because the last nodes of
    an epoch are left out if they do not fill a step, and equally many batches of validation, which
    hold every node once. Lightning replaces the sampler of a DataLoader in several processes, with
    use_distributed_sampler; it leaves these loaders as they are.

    The position in the epochs is part of the checkpoint.

    Parameters
    ----------
    data
        A PyG `Data`, see `BlockLoader`.
    node_sampler
        The sampler of training batches.
    input_train_nodes, input_val_nodes, input_test_nodes
        Nodes of each split: ids or a mask. Default: data.train_mask, data.val_mask and
        data.test_mask.
    batch_size
        Seeds per training batch of a process.
    eval_batch_size
        Seeds per batch of validation and test; by default batch_size.
    shuffle, transform, prefetch, pin_memory
        Options of the training loader, see `BlockLoader`.
    """

    def __init__(
        self,
        data: Any,
        node_sampler: Sampler,
        input_train_nodes: Any = None,
        input_val_nodes: Any = None,
        input_test_nodes: Any = None,
        *,
        batch_size: int = 256,
        eval_batch_size: int | None = None,
        shuffle: bool = True,
        transform: Any = None,
        prefetch: int = 0,
        pin_memory: bool = False,
    ) -> None:
        super().__init__()
        self.data, self.node_sampler = data, node_sampler
        given = {"train": input_train_nodes, "val": input_val_nodes, "test": input_test_nodes}
        self._nodes = {name: _nodes(data, name, nodes) for name, nodes in given.items()}
        self.batch_size = checks.whole("batch_size", batch_size, least=1)
        self.eval_batch_size = checks.whole(
            "eval_batch_size", eval_batch_size or batch_size, least=1
        )
        self._options: dict[str, Any] = {"transform": transform, "pin_memory": pin_memory}
        self._training: dict[str, Any] = {"shuffle": shuffle, "prefetch": prefetch}
        self._loader: BlockLoader | None = None

    def setup(self, stage: str) -> None:
        """Build the training loader of this process; Lightning calls this in each of them."""
        rank, size = self._place()
        if stage != "fit" or (self._loader is not None and self._loader.shards == size):
            return
        nodes = self._split("train")
        loader = BlockLoader(
            self.data,
            self.node_sampler,
            nodes,
            batch_size=self.batch_size,
            drop_last=True,
            shards=size,
            shard=rank,
            **self._options,
            **self._training,
        )
        if len(loader) == 0:
            raise InputError(
                f"batch_size={self.batch_size} exceeds the {nodes.size} training nodes: lower it."
            )
        self._loader = loader

    def train_dataloader(self) -> BlockLoader:
        """The training loader."""
        if self._loader is None:
            self.setup("fit")
        assert self._loader is not None
        return self._loader

    def val_dataloader(self) -> BlockLoader | list[BlockLoader]:
        """Loader of validation nodes; an empty list if there are none."""
        return [] if self._nodes["val"] is None else self._full("val")

    def test_dataloader(self) -> BlockLoader:
        """Loader of test nodes."""
        return self._full("test")

    def state_dict(self) -> dict[str, Any]:
        """Position in the epochs, for the checkpoint."""
        if self._loader is None:
            return {}
        return {"shards": self._loader.shards, **self._loader.state_dict()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from the position of a checkpoint, with as many processes as then."""
        loader = self.train_dataloader()
        if state_dict["shards"] != loader.shards:
            raise InputError(
                f"the checkpoint was written by {state_dict['shards']} processes, and there are "
                f"{loader.shards} now, whose steps have another size: resume with "
                f"{state_dict['shards']}."
            )
        loader.load_state_dict(state_dict)

    def _place(self) -> tuple[int, int]:
        """Rank of this process, and the number of processes."""
        trainer = self.trainer
        return (0, 1) if trainer is None else (trainer.global_rank, trainer.world_size)

    def _split(self, name: str) -> IntArray:
        nodes = self._nodes[name]
        if nodes is None:
            raise InputError(
                f"there are no {name} nodes: pass input_{name}_nodes, or data with {name}_mask."
            )
        return nodes

    def _full(self, name: str) -> BlockLoader:
        """Own part of a split, in as many batches as each of the other processes has."""
        (rank, size), nodes = self._place(), self._split(name)
        if nodes.size < size:
            raise InputError(
                f"{nodes.size} {name} nodes are too few for {size} processes: use fewer processes."
            )
        batches = -(-nodes.size // (size * self.eval_batch_size)) * size
        parts = np.array_split(np.arange(nodes.size), batches)
        sampler = Full(self.node_sampler.graph, layers=self.node_sampler.depth)
        return BlockLoader(
            self.data, sampler, nodes, batch_sampler=parts[rank::size], **self._options
        )


def _nodes(data: Any, name: str, given: Any) -> IntArray | None:
    """Nodes of a split as ids; None if there are none. int64[N]."""
    nodes = getattr(data, f"{name}_mask", None) if given is None else given
    if nodes is None:
        return None
    return checks.seeds(nodes, int(data.num_nodes), f"input_{name}_nodes")


def _check_loaders(loaders: Any, sampler: Sampler, group: Group) -> None:
    """Refuse loaders of several processes that do not divide the batches of a step."""
    if group.size == 1:
        return
    held = loaders.values() if isinstance(loaders, dict) else loaders
    listed = list(held) if isinstance(loaders, (dict, list, tuple)) else [loaders]
    block_loaders = [loader for loader in listed if isinstance(loader, SeedLoader)]
    own = [loader for loader in block_loaders if loader.node_sampler is sampler]
    if not own:
        raise InputError(
            f"{group.size} processes train on {type(listed[0]).__name__}, which has no batches of "
            "PolicyCallback's sampler: pass a BlockDataModule with this sampler."
        )
    for loader in own:
        if loader.shards != group.size or loader.own_shards != (group.rank,):
            raise InputError(
                f"rank {group.rank} of {group.size} draws shard "
                f"{', '.join(map(str, loader.own_shards))} of {loader.shards}, so processes would "
                "train on the same batches: use BlockDataModule, or BlockLoader(..., "
                f"shards={group.size}, shard=trainer.global_rank, drop_last=True)."
            )
