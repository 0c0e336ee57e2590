"""Networks over blocks: GraphSAGE, GCN, GAT and GATv2 of any depth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from bliss import checks
from bliss.errors import InputError
from bliss.nn.block import Block
from bliss.nn.control import Control
from bliss.nn.convs import Attention, GATConv, GATv2Conv, GCNConv, LinearConv, SAGEConv
from bliss.nn.dropout import dropout
from bliss.nn.inputs import check_features
from bliss.nn.model_config import ModelConfig
from bliss.storage.limits import allocating


class GNN(nn.Module):
    """Stack of layers: dropout, convolution, residual, normalisation, activation.

    `forward(x, blocks)` takes the features of the sources of blocks[0], [S, F], and returns the
    logits of the targets of blocks[-1], [B, out]. In training, every block observes its layer.
    """

    def __init__(self, inputs: int, outputs: int, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        widths = [checks.whole("inputs", inputs), *[config.hidden] * (config.layers - 1)]
        widths.append(checks.whole("outputs", outputs))
        self.widths = tuple(widths)
        with allocating(f"layers of widths {widths}", "lower hidden"):
            self._build(config, widths)

    def _build(self, config: ModelConfig, widths: Sequence[int]) -> None:
        """Make all layers."""
        last = config.layers - 1
        self.convs = nn.ModuleList(
            [self._conv(widths[i], widths[i + 1], i == last) for i in range(config.layers)]
        )
        self.norms = nn.ModuleList([self._norm() for _ in range(last)])
        self.residuals = nn.ModuleDict(
            {
                str(i): self._residual(widths[i], widths[i + 1])
                for i in range(config.layers)
                if (config.residual if i > 0 else config.input_residual)
            }
        )
        if config.initialisation == "relu":
            self._start_wide()

    def _conv(self, inputs: int, outputs: int, is_last: bool) -> nn.Module:
        config = self.config
        if config.model == "sage":
            return SAGEConv(inputs, outputs, bias=config.bias)
        if config.model == "gcn":
            return GCNConv(inputs, outputs, bias=config.bias)
        if config.is_relational:
            raise InputError(
                f"model={config.model!r} is for heterogeneous graphs: build a RelationalGNN."
            )
        kind = GATConv if config.model == "gat" else GATv2Conv
        return kind(inputs, outputs, **self._attention_options(is_last))

    def _attention_options(self, is_last: bool) -> dict[str, Any]:
        config = self.config
        return {
            "heads": 1 if is_last else config.heads,
            "concat": not is_last,
            "dropout": config.attention_dropout,
            "correction": config.attention,
            "feedback": config.feedback,
            "bias": config.bias,
        }

    def _residual(self, inputs: int, outputs: int) -> nn.Module:
        return nn.Identity() if inputs == outputs else nn.Linear(inputs, outputs, bias=False)

    def _start_wide(self) -> None:
        """Xavier initialisation with the gain of ReLU, sqrt 2; normal for attention."""
        draw = nn.init.xavier_normal_ if self.config.is_attention else nn.init.xavier_uniform_
        gain = nn.init.calculate_gain("relu")
        named = (*self.convs.named_parameters(), *self.residuals.named_parameters())
        for name, parameter in named:
            if parameter.ndim == 1 or name.endswith("bias"):
                nn.init.zeros_(parameter)
                continue
            for matrix in parameter if parameter.ndim == 3 else (parameter,):
                draw(matrix, gain)

    def _norm(self) -> nn.Module:
        kinds = {"none": nn.Identity, "layer": nn.LayerNorm, "batch": BatchNorm}
        kind = kinds[self.config.normalisation]
        return kind() if kind is nn.Identity else kind(self.config.hidden)

    def layer(self, number: int, x: Tensor, block: Block) -> Tensor:
        """Output of one layer. x [S, in] -> [D, out]."""
        dropped = self._drop(x)
        out: Tensor = self.convs[number](dropped, self._drop_baseline(block), observed=x)
        return self._finish(number, self._add_residual(number, out, dropped[: block.num_dst]))

    def messages(self, x: Tensor) -> Tensor:
        """Part of a layer's inputs that it aggregates: all of it. [S, in]."""
        return x

    @property
    def device(self) -> torch.device:
        """Where the parameters are; the CPU if there are none."""
        return next((one.device for one in self.parameters()), torch.device("cpu"))

    def _finish(self, number: int, out: Tensor) -> Tensor:
        """Normalisation and activation, except after the last layer."""
        if number == self.config.layers - 1:
            return out
        return self._activate(self.norms[number](out))

    def _streams(self, number: int, x: Tensor, mean: Tensor, block: Block) -> tuple[Tensor, Tensor]:
        """Outputs of one layer with dropout and without dropout in any layer. [S, in] -> [D, out].

        Batch normalisation takes its statistics from the first, for both, so that their difference
        is the noise of dropout alone.
        """
        dropped, conv = self._drop(x), self.convs[number]
        if _has_history(block):
            out, out_mean = conv.streams(dropped, mean, block)  # type: ignore[operator]
        else:
            out = conv(dropped, self._drop_baseline(block), observed=mean)
            out_mean = conv(mean, block)
        out = self._add_residual(number, out, dropped[: block.num_dst])
        out_mean = self._add_residual(number, out_mean, mean[: block.num_dst])
        if number == self.config.layers - 1:
            return out, out_mean
        norm = self.norms[number]
        if isinstance(norm, BatchNorm):
            out_mean = _like_batch(norm, out, out_mean)
        else:
            out_mean = norm(out_mean)
        return self._activate(norm(out)), self._activate(out_mean)

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.config.dropout, self.training)

    def _drop_baseline(self, block: Block) -> Block:
        """The block with dropout of its baseline, if that is the whole aggregate (exact first hop).

        Dropout of aggregated features has the same mean as dropout of the features themselves, and
        a larger variance, because an entry is dropped for all neighbours at once.
        """
        control = block.control
        if not isinstance(control, Control) or control.has_history:
            return block
        block.check_device("the baseline", control.baseline)
        return replace(block, control=Control(self._drop(control.baseline)))

    def _add_residual(self, number: int, out: Tensor, own: Tensor) -> Tensor:
        if str(number) not in self.residuals:
            return out
        added: Tensor = out + self.residuals[str(number)](own)
        return added

    def _activate(self, x: Tensor) -> Tensor:
        return functional.elu(x) if self.config.is_attention else torch.relu(x)

    def __iter__(self) -> Iterator[GNNLayer]:
        """The layers, functions of (x [S, in], block), input layer first."""
        return (GNNLayer(self, number) for number in range(self.config.layers))

    def _check(self, x: Tensor, blocks: Sequence[Block]) -> None:
        """Raise an error unless there is a block per layer, and a row of x per source."""
        if len(blocks) != self.config.layers:
            raise InputError(
                f"there are {len(blocks)} blocks, but the network has {self.config.layers} layers: "
                "pass one block per layer, input layer first."
            )
        check_features(x, blocks[0].num_src, "sources of the first block")

    def attention(self, number: int, x: Tensor, block: Block) -> Tensor:
        """Attention weights of one layer, mean over heads. x [S, in] -> [E']."""
        weights: Tensor = self.convs[number].attention(x, block)  # type: ignore[operator]
        return weights

    def forward(self, x: Tensor, blocks: Sequence[Block]) -> Tensor:
        """Logits of the seeds. x [S, F] -> [B, out]."""
        if torch.compiler.is_compiling():  # graphs cut at every kernel would be slower
            from bliss.nn.eager import eager_network

            return eager_network(self, x, blocks)
        self._check(x, blocks)
        if self.training and self.config.dropout > 0 and any(map(_has_history, blocks)):
            mean = x
            for number, block in enumerate(blocks):
                x, mean = self._streams(number, x, mean, block)
            return x
        for number, block in enumerate(blocks):
            x = self.layer(number, x, block)
        return x


@dataclass(frozen=True)
class GNNLayer:
    """One layer of a network, a `bliss.nn.layers.ProjectingLayer`: x [S, in], block -> [D, out]."""

    model: GNN
    number: int

    def __call__(self, x: Tensor, block: Block) -> Tensor:
        """Output of the targets."""
        return self.model.layer(self.number, x, block)

    @property
    def projected_width(self) -> int | None:
        """Width of the projections of convolution and residual.

        None with dropout in training, if `GNN.layer` is overridden, or if the convolution has none.
        """
        model = self.model
        if type(model).layer is not GNN.layer or (model.training and model.config.dropout > 0):
            return None
        width: int | None = getattr(self._conv, "projected_width", None)  # it may be replaced
        residual = model.widths[self.number + 1] if self._has_residual else 0
        return None if width is None else width + residual

    def project(self, x: Tensor) -> Tensor:
        """Projections of the convolution and the residual, side by side. [N, in] -> [N, K]."""
        parts = [self._conv.project(x)]
        if self._has_residual:
            parts.append(self.model.residuals[str(self.number)](x))
        return torch.cat(parts, dim=1)

    def combine(self, projected: Tensor, block: Block, observed: Tensor | None = None) -> Tensor:
        """Output of the targets from projections of the sources. [S, K] -> [D, out]."""
        residual = self.model.widths[self.number + 1] if self._has_residual else 0
        width = projected.size(1) - residual
        out = self._conv.combine(projected[:, :width], block, observed)
        if residual:
            out = out + projected[: block.num_dst, width:]
        return self.model._finish(self.number, out)

    @property
    def _conv(self) -> LinearConv | Attention:
        return cast("LinearConv | Attention", self.model.convs[self.number])

    @property
    def _has_residual(self) -> bool:
        return str(self.number) in self.model.residuals


def _has_history(block: Block) -> bool:
    return block.control is not None and block.control.has_history


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation; a single row takes the running statistics, as it has no variance."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalised rows. x [D, F] -> [D, F]."""
        if len(x) > 1 or not self.training:
            return super().forward(x)
        mean, variance = self.running_mean, self.running_var
        return functional.batch_norm(x, mean, variance, self.weight, self.bias, eps=self.eps)


def _like_batch(norm: BatchNorm, batch: Tensor, x: Tensor) -> Tensor:
    """x, normalised with the statistics of another batch. batch, x [D, F] -> [D, F]."""
    if len(batch) < 2:
        return norm.forward(x)
    variance, mean = torch.var_mean(batch, dim=0, correction=0)
    out: Tensor = (x - mean) * (variance + norm.eps).rsqrt() * norm.weight + norm.bias
    return out
