"""Losses of links.

With s the score of a pair, P positives, N negatives and K negatives i' of each positive (j, i):

* bce      mean over the P + N pairs of log(1 + exp(-y s)), y = 1 for positives, -1 for negatives
* bpr      mean over positives and their negatives of log(1 + exp(s_ji' - s_ji))
* softmax  mean over positives of -log(exp(s_ji) / (exp(s_ji) + sum over i' of exp(s_ji')))
"""

from __future__ import annotations

from math import log

import torch
from torch import Tensor
from torch.nn import functional

from bliss.nn.decoders import Decoder
from bliss.train.batch import NodeData, TypedData


def negative_mode(loss: str) -> str:
    """Negatives that a loss needs: pairs for bce, targets of the same source for the others."""
    return "binary" if loss == "bce" else "triplet"


def link_loss(
    loss: str, decoder: Decoder, ends: tuple[Tensor, Tensor], batch: NodeData | TypedData
) -> Tensor:
    """Loss of a batch of `LinkLoader` with negatives of `negative_mode`.

    ends  embeddings of sources [D, H] and of targets [D', H], the same tensor without types
    """
    z, z_target = ends
    if loss == "bce":
        source, target = batch.edge_label_index
        scores: Tensor = decoder(_rows(z, source), _rows(z_target, target))
        return functional.binary_cross_entropy_with_logits(scores, batch.edge_label)
    source = _rows(z, batch.src_index)
    negative = batch.dst_neg_index.view(len(source), -1)  # [B, K]
    positive = decoder(source, _rows(z_target, batch.dst_pos_index))  # [B]
    scores = decoder(source[:, None], _rows(z_target, negative))  # [B, K]
    if loss == "bpr":
        margin: Tensor = functional.softplus(scores - positive[:, None])
        return margin.mean()
    every = torch.cat([positive[:, None], scores], 1)
    losses: Tensor = every.logsumexp(1) - positive
    return losses.mean()


def _rows(z: Tensor, index: Tensor) -> Tensor:
    """z[index], whose gradient is summed in a fraction of the time. [D, H], [...] -> [..., H]."""
    return z.index_select(0, index.reshape(-1)).view(*index.shape, z.size(1))


def constant_loss(loss: str, number: int) -> float:
    """Least loss of a score that is the same for all pairs, with K negatives a positive."""
    if loss == "bpr":
        return log(2)
    if loss == "softmax":
        return log(1 + number)
    share = 1 / (1 + number)  # of positives
    return -share * log(share) - (1 - share) * log(1 - share)
