"""The network of GraphSAINT's authors for PPI, over blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from bliss.data import Dataset
from bliss.nn.aggregate import aggregate, aggregate_noise
from bliss.nn.block import Block
from bliss.nn.model import GNN
from bliss.rng import Stream
from bliss.train import TrainConfig, build_task
from bliss.train.task import Task, torch_seed


class Dense(nn.Module):
    """Linear map, ReLU and layer normalisation. [N, in] -> [N, out]."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(inputs, outputs), nn.LayerNorm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Output of each row."""
        out: Tensor = self.norm(torch.relu(self.linear(x)))
        return out


class SaintLayer(nn.Module):
    """A convolution that concatenates the target and its neighbourhood, and a dense layer.

        out_i = dense([own(x_i), others(z_i)]),    z_i = sum_j alpha_ij x_j

    own, z [D, in] -> [D, out]
    """

    def __init__(self, inputs: int, outputs: int, dropout: float) -> None:
        super().__init__()
        self.own, self.others = Dense(inputs, outputs), Dense(inputs, outputs)
        self.dense, self.dropout = Dense(2 * outputs, outputs), dropout

    def forward(self, own: Tensor, z: Tensor, is_dropped: bool) -> Tensor:
        """Output of the targets, with dropout before the dense layer if `is_dropped`."""
        both = torch.cat([self.own(own), self.others(z)], dim=1)
        out: Tensor = self.dense(functional.dropout(both, self.dropout, is_dropped))
        return out


class SaintGNN(GNN):
    """Layers of a convolution and a dense layer each, and a linear classifier of unit vectors.

    In GraphSAINT's notation this is the architecture 1-0-1-0 with `concat`, `norm` and dropout
    before every linear map.
    """

    def _build(self, config: object, widths: Sequence[int]) -> None:
        width, rate = self.config.hidden, self.config.dropout
        inputs = [widths[0], *[width] * self.config.layers]
        self.convs = nn.ModuleList([SaintLayer(a, b, rate) for a, b in pairwise(inputs)])
        self.classifier = nn.Linear(width, widths[-1])

    def layer(self, number: int, x: Tensor, block: Block) -> Tensor:
        """Output of one layer. x [S, in] -> [D, out]."""
        if self.training or block.is_surveyed:
            block.observe(x)
        dropped = self._drop(x)
        z = aggregate(self._drop_baseline(block), dropped)
        return self._output(number, dropped[: block.num_dst], z, self.training)

    def _output(self, number: int, own: Tensor, z: Tensor, is_dropped: bool) -> Tensor:
        out: Tensor = self.convs[number](own, z, is_dropped)
        if number < self.config.layers - 1:
            return out
        unit = functional.dropout(functional.normalize(out), self.config.dropout, is_dropped)
        logits: Tensor = self.classifier(unit)
        return logits

    def _streams(self, number: int, x: Tensor, mean: Tensor, block: Block) -> tuple[Tensor, Tensor]:
        """Outputs of one layer with dropout and without dropout in any layer."""
        block.observe(mean)
        dropped, known = self._drop(x), aggregate(block, mean)
        if block.control is not None and block.control.has_history:
            z = known + aggregate_noise(block, dropped - mean)
        else:
            z = aggregate(self._drop_baseline(block), dropped)
        targets = slice(block.num_dst)
        return (
            self._output(number, dropped[targets], z, is_dropped=True),
            self._output(number, mean[targets], known, is_dropped=False),
        )


def saint_task(config: TrainConfig, dataset: Dataset) -> Task:
    """The task of `bliss.train` with this network, initialised from the seed."""
    task = build_task(config, dataset)
    base = task.model
    assert isinstance(base, GNN)
    torch.manual_seed(torch_seed(config.seed, Stream.WEIGHTS))
    return replace(task, model=SaintGNN(base.widths[0], base.widths[-1], base.config))
