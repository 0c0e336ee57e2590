"""Networks over blocks: GraphSAGE, GCN, GAT and GATv2 of any depth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from bliss import checks
from bliss.errors import InputError
from bliss.graph import Norm
from bliss.nn.convs import FEEDBACK, GATConv, GATv2Conv, GCNConv, SAGEConv
from bliss.nn.dropout import dropout
from bliss.types import Block

MODELS = ("sage", "gcn", "gat", "gatv2")
NORMALISATIONS = ("none", "layer", "batch")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """What a network looks like."""

    model: str = "sage"
    """Kind of layer: sage, gcn, gat or gatv2."""
    layers: int = 3
    """Number of layers; budgets need one entry each."""
    hidden: int = 256
    """Width of hidden layers, all heads together."""
    heads: int = 4
    """Attention heads of hidden layers; the last layer has one."""
    dropout: float = 0.1
    """Share of a layer's inputs that training sets to 0."""
    attention_dropout: float = 0.1
    """Share of attention weights that training sets to 0."""
    residual: bool = False
    """Whether layers from the second on add their input, projected where widths differ."""
    bias: bool = True
    """Whether convolutions add a learnt constant."""
    normalisation: str = "none"
    """After each hidden layer: none, layer or batch."""
    attention: str = "hajek"
    """Softmax over kept edges: hajek (corrected by -log p) or plain."""
    initialisation: str = "default"
    """Weights at the start: default, or relu (Xavier times sqrt 2, no bias), as in DGL's layers."""
    feedback: str = "softmax"
    """What attention tells the policy: softmax, or scores as the released code has it."""

    def __post_init__(self) -> None:
        checks.choice("model", self.model, MODELS)
        checks.choice("normalisation", self.normalisation, NORMALISATIONS)
        checks.choice("attention", self.attention, ("hajek", "plain"))
        checks.choice("feedback", self.feedback, FEEDBACK)
        checks.choice("initialisation", self.initialisation, ("default", "relu"))
        for name in ("layers", "hidden", "heads"):
            checks.whole(name, getattr(self, name), least=1)
        for name in ("dropout", "attention_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)} must be in [0, 1): start with 0.1.")
        if self.is_attention and self.hidden % self.heads:
            raise InputError(
                f"hidden={self.hidden} is not a multiple of heads={self.heads}: each head has an "
                "equal share of the width."
            )

    @property
    def is_attention(self) -> bool:
        """Whether aggregation weights are learnt."""
        return self.model in ("gat", "gatv2")

    @property
    def norm(self) -> Norm:
        """The graph's coefficients that this network aggregates with."""
        return "gcn" if self.model == "gcn" else "mean"


class GNN(nn.Module):
    """A stack of convolutions: dropout, convolution, residual, normalisation, activation.

    `forward(x, blocks)` takes the inputs of blocks[0]'s sources [S, F] and gives the logits of
    blocks[-1]'s targets [B, out]. Each layer observes its block.
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
        """Xavier's initialisation with the gain of ReLU, sqrt 2: normal for attention."""
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
        """One layer with all that belongs to it. x [S, in] -> [D, out]."""
        block.remember(x)
        dropped = dropout(x, self.config.dropout, self.training)
        out: Tensor = self.convs[number](dropped, block, observed=x)
        if self.config.residual and number > 0:
            out = out + self.residuals[number - 1](dropped[: block.num_dst])
        if number == self.config.layers - 1:
            return out
        out = self.norms[number](out)
        return functional.elu(out) if self.config.is_attention else torch.relu(out)

    def attention(self, number: int, x: Tensor, block: Block) -> Tensor:
        """An attention layer's weights, mean of heads. x [S, in] -> [E']."""
        weights: Tensor = self.convs[number].attention(x, block)  # type: ignore[operator]
        return weights

    def forward(self, x: Tensor, blocks: Sequence[Block]) -> Tensor:
        """Logits of the seeds. x [S, F] -> [B, out]."""
        for number, block in enumerate(blocks):
            x = self.layer(number, x, block)
        return x
