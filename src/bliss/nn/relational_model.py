"""`RelationalGNN`: networks over blocks of heterogeneous graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from bliss import checks
from bliss.errors import InputError
from bliss.graph import EdgeType
from bliss.nn.block import Block
from bliss.nn.control import Control, of_source_types
from bliss.nn.model import GNN
from bliss.nn.model_config import ModelConfig
from bliss.nn.outputs import Outputs
from bliss.nn.relational import RGATConv, RSAGEConv

_CHUNK_NUMBERS = 2**26  # features that are projected at a time


class RelationalGNN(GNN):
    """A projection of the features of each type, then layers with a map per relation.

        h_j = f(P_t x_j + c_t)    for a node j of type t, with x_j of the width of its type

    f is the activation of the network, or with `config.projection` "linear" nothing. Then an exact
    first hop z_g of the features, a sum over a group g with sources of type t, serves the first
    layer:

        sum_j alpha_ij h_j = P_t z_g + c_t sum_j alpha_ij

    The layers are `RSAGEConv` ("rsage") or `RGATConv` ("rgat")
    in the stack that `GNN` describes, of width `config.hidden` from the first input on.

    `forward(x, blocks)` takes the features of the sources of blocks[0] by type, {type: [S_t, F_t]}
    in the order of `Block.split`, or h itself, [S, hidden].

    Parameters
    ----------
    inputs
        Width F_t of the features of each type of nodes, in the order of the graph's types.
    edge_types
        The graph's relations.
    outputs
        Number of classes, labels or targets.
    config
        Settings of the network.
    """

    def __init__(
        self,
        inputs: Mapping[str, int],
        edge_types: Sequence[EdgeType],
        outputs: int,
        config: ModelConfig,
    ) -> None:
        self.inputs, self.edge_types = dict(inputs), tuple(edge_types)  # `_conv` needs them
        super().__init__(config.hidden, outputs, config)
        self.projections = nn.ModuleList(
            [nn.Linear(checks.whole("inputs", width), config.hidden) for width in inputs.values()]
        )

    def _conv(self, inputs: int, outputs: int, is_last: bool) -> nn.Module:
        config = self.config
        sizes = inputs, outputs, len(self.inputs), len(self.edge_types), config.bases
        if config.model == "rsage":
            return RSAGEConv(*sizes, bias=config.bias)
        return RGATConv(*sizes, **self._attention_options(is_last))

    def project(self, node_type: int, x: Tensor) -> Tensor:
        """h of nodes of one type, given by its number. [N, F_t] -> [N, hidden]."""
        projected: Tensor = self.projections[node_type](x)
        return projected if self.config.has_linear_inputs else self._activate(projected)

    def embed(self, x: Mapping[str, Tensor], block: Block) -> Tensor:
        """h of the sources of a block. {type: [S_t, F_t]} -> [S, hidden]."""
        types = block.types
        if types is None or (types.node_types, types.edge_types) != (
            tuple(self.inputs),
            self.edge_types,
        ):
            raise InputError(
                "the block is of a graph with other types of nodes or edges than the network: "
                "build the network for this graph."
            )
        parts = {name: self.project(t, x[name]) for t, name in enumerate(self.inputs)}
        return block.join(parts)

    @torch.no_grad()
    def embed_all(
        self,
        x: Mapping[str, Tensor],
        device: torch.device,
        place: Path | None = None,
        room: int = 0,
    ) -> Tensor:
        """h of all nodes, for layer-wise inference. {type: [n_t, F_t]} -> float32[V, hidden].

        place, room: of the rows, as in `Outputs`.
        """
        number = sum(len(x[name]) for name in self.inputs)
        out, first = Outputs((number, self.config.hidden), place, room), 0
        for t, name in enumerate(self.inputs):
            size = max(_CHUNK_NUMBERS // max(x[name].size(1), 1), 1)
            for start in range(0, len(x[name]), size):
                rows = x[name][start : start + size].to(device).float()
                out.write(first + start, self.project(t, rows).cpu().float())
            first += len(x[name])
        return out.tensor

    def forward(self, x: Tensor | Mapping[str, Tensor], blocks: Sequence[Block]) -> Tensor:
        """Logits of the seeds. -> [B, out]."""
        if isinstance(x, Tensor):
            return super().forward(x, blocks)
        return super().forward(self.embed(x, blocks[0]), [self._projected(blocks[0]), *blocks[1:]])

    def _projected(self, block: Block) -> Block:
        """The block with the projections of its exact first hop, if it has one."""
        control = block.control
        if control is None or control.has_history:  # a history is of h
            return block
        if not self.config.has_linear_inputs:
            raise InputError(
                "the block has an exact first hop of features, but the first layer takes an "
                "activation of them: build the network with projection='linear', or the sampler "
                "with first_hop='sampled'."
            )
        view = block.by_type
        total = torch.from_numpy(view.rows.coefficient_sum()).float().to(view.device)  # [G]
        parts = []
        for t, (part, groups) in enumerate(
            zip(of_source_types(control, view), view.groups_by_source, strict=True)
        ):
            if groups.numel():
                linear = cast("nn.Linear", self.projections[t])
                sums = functional.linear(part.baseline, linear.weight)
                parts.append(sums + total[groups, None] * linear.bias)
        if not parts:
            return replace(block, control=Control(total.new_zeros(0, self.config.hidden)))
        order = torch.argsort(torch.cat(view.groups_by_source))
        return replace(block, control=Control(torch.cat(parts)[order]))
