"""Networks over blocks: GraphSAGE, GCN, GAT and GATv2 of any depth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from bliss.block import Block
from bliss.nn.config import ModelConfig
from bliss.nn.convs import GATConv, GATv2Conv, GCNConv, SAGEConv
from bliss.nn.dropout import dropout


class GNN(nn.Module):
    """Stack of layers: dropout, convolution, residual, normalisation, activation.

    `forward(x, blocks)` takes the features of the sources of blocks[0], [S, F], and returns the
    logits of the targets of blocks[-1], [B, out]. In training, every block observes its layer.
    """

    def __init__(self, inputs: int, outputs: int, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        widths = [inputs, *[config.hidden] * (config.layers - 1), outputs]
        self.widths = tuple(widths)
        last = config.layers - 1
        self.convs = nn.ModuleList(
            [self._conv(widths[i], widths[i + 1], i == last) for i in range(config.layers)]
        )
        self.norms = nn.ModuleList([self._norm() for _ in range(last)])
        self.residuals = nn.ModuleList(
            [self._residual(widths[i], widths[i + 1]) for i in range(1, config.layers)]
            if config.residual
            else []
        )
        if config.initialisation == "relu":
            self._start_wide()

    def _conv(self, inputs: int, outputs: int, is_last: bool) -> nn.Module:
        config = self.config
        if config.model == "sage":
            return SAGEConv(inputs, outputs, bias=config.bias)
        if config.model == "gcn":
            return GCNConv(inputs, outputs, bias=config.bias)
        kind = GATConv if config.model == "gat" else GATv2Conv
        return kind(
            inputs,
            outputs,
            heads=1 if is_last else config.heads,
            concat=not is_last,
            dropout=config.attention_dropout,
            correction=config.attention,
            feedback=config.feedback,
            bias=config.bias,
        )

    def _residual(self, inputs: int, outputs: int) -> nn.Module:
        return nn.Identity() if inputs == outputs else nn.Linear(inputs, outputs, bias=False)

    def _start_wide(self) -> None:
        """Xavier initialisation with the gain of ReLU, sqrt 2; normal for attention."""
        draw = nn.init.xavier_normal_ if self.config.is_attention else nn.init.xavier_uniform_
        gain = nn.init.calculate_gain("relu")
        for parameter in (*self.convs.parameters(), *self.residuals.parameters()):
            if parameter.ndim == 2:
                draw(parameter, gain)
            else:
                nn.init.zeros_(parameter)

    def _norm(self) -> nn.Module:
        kinds = {"none": nn.Identity, "layer": nn.LayerNorm, "batch": nn.BatchNorm1d}
        kind = kinds[self.config.normalisation]
        return kind() if kind is nn.Identity else kind(self.config.hidden)

    def layer(self, number: int, x: Tensor, block: Block) -> Tensor:
        """Output of one layer. x [S, in] -> [D, out]."""
        dropped = dropout(x, self.config.dropout, self.training)
        out: Tensor = self.convs[number](dropped, block, observed=x)
        if self.config.residual and number > 0:
            out = out + self.residuals[number - 1](dropped[: block.num_dst])
        if number == self.config.layers - 1:
            return out
        out = self.norms[number](out)
        return functional.elu(out) if self.config.is_attention else torch.relu(out)

    def __iter__(self) -> Iterator[Callable[[Tensor, Block], Tensor]]:
        """The layers, functions of (x [S, in], block), input layer first."""
        return (partial(self.layer, number) for number in range(self.config.layers))

    def attention(self, number: int, x: Tensor, block: Block) -> Tensor:
        """Attention weights of one layer, mean over heads. x [S, in] -> [E']."""
        weights: Tensor = self.convs[number].attention(x, block)  # type: ignore[operator]
        return weights

    def forward(self, x: Tensor, blocks: Sequence[Block]) -> Tensor:
        """Logits of the seeds. x [S, F] -> [B, out]."""
        for number, block in enumerate(blocks):
            x = self.layer(number, x, block)
        return x
