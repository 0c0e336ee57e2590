"""Squared errors of some edges of a block, which a policy may watch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from bliss.nn.block import Block

WATCHED = 16
"""Groups whose edges are measured. Without types, a group is a target."""


def squared_errors(block: Block, x: Tensor, norm: Tensor) -> tuple[Tensor, Tensor]:
    """Edges of WATCHED groups, spread evenly over the block, and their squared errors.

    weight_ij^2 |h_j|^2, or with watch="centred" weight_ij^2 |h_j - mu_i|^2 / (1 - share_ij), where
    mu_i = sum_j share_ij h_j is the weighted mean over the kept edges of i, in which h_j itself has
    a share. The only edge of a group gives no information. x [S, F], norm [S]. Returns int64[N] and
    float32[N].
    """
    indptr = block.indptr if block.group_indptr is None else block.group_indptr
    groups = indptr.numel() - 1
    chosen_groups = min(WATCHED, groups)
    place = torch.arange(chosen_groups, device=block.row.device)
    chosen = place * groups // max(chosen_groups, 1)
    first, number = indptr[chosen], indptr[chosen + 1] - indptr[chosen]
    edges = int(number.sum())
    col = place.repeat_interleave(number, output_size=edges)
    watched = torch.arange(edges, device=col.device) + (first - number.cumsum(0) + number)[col]
    row, weight = block.row[watched], block.edge_weight[watched]
    if block.watch == "whole":
        return watched, (weight * norm[row]).square()
    message = x[row].float()
    total = weight.new_zeros(chosen_groups).index_add_(0, col, weight)
    share = weight / torch.where(total == 0, 1.0, total)[col]
    mean = message.new_zeros(chosen_groups, x.size(1))
    mean = mean.index_add_(0, col, share[:, None] * message)
    rest = 1 - share
    apart = (message - mean[col]).square().sum(1) / torch.where(rest > 1e-6, rest, torch.inf)
    return watched, weight.square() * apart
