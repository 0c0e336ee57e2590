"""Networks of this experiment: rsage and rgat of `bliss.train`, and PyG's HGTConv over blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import HGTConv

from bliss.data import Dataset
from bliss.nn.block import Block
from bliss.nn.relational_model import RelationalGNN
from bliss.rng import Stream
from bliss.train import build_task, resolve
from bliss.train.task import Task, torch_seed


class HGTLayer(nn.Module):
    """PyG's HGTConv on a block, and a linear map behind the last one. x [S, F] -> [D, out]."""

    def __init__(self, conv: HGTConv, last: nn.Module) -> None:
        super().__init__()
        self.conv, self.last = conv, last

    def forward(self, x: Tensor, block: Block, observed: Tensor | None = None) -> Tensor:
        """Output of the targets; in training, the block observes input and attention."""
        shown = None if observed is None else block.split(observed)
        out = block.propagate(self.conv, block.split(x), observed=shown)
        joined: Tensor = self.last(block.join(out))
        return joined


class HGT(RelationalGNN):
    """Heterogeneous graph transformer: the stack of rsage with HGTConv in the place of its layers.

    Projections, embeddings, dropout, optimiser and evaluation are those of the other networks.
    """

    def _conv(self, inputs: int, outputs: int, is_last: bool) -> nn.Module:
        width = self.config.hidden
        metadata = list(self.inputs), list(self.edge_types)
        last = nn.Linear(width, outputs) if is_last else nn.Identity()
        return HGTLayer(HGTConv(inputs, width, metadata, heads=self.config.heads), last)


def task_of(data: Dataset, network: str, **settings: Any) -> Task:
    """The task of `bliss.train` for rsage, rgat or hgt, initialised from the seed."""
    if network != "hgt":
        return build_task(resolve(model=network, **settings), data)
    task = build_task(resolve(model="rsage", **settings), data)
    base = task.model
    assert isinstance(base, RelationalGNN)
    torch.manual_seed(torch_seed(task.config.seed, Stream.WEIGHTS))
    return replace(task, model=HGT(base.inputs, base.edge_types, base.widths[-1], base.config))
