"""Learnt rows: a table of which a step changes only the rows that it has drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bliss.arrays import IntArray
from bliss.feedback import News

ROW, GRADIENT = "learnt.row", "learnt.gradient"
"""Names in the update of a shard."""
_FIRST, _SECOND, _EPSILON = 0.9, 0.999, 1e-8  # beta_1, beta_2 and epsilon of Adam


class LearntBatch(NamedTuple):
    """Rows of a batch."""

    ids: Tensor  # int64[S], distinct
    rows: Tensor  # [S, D], a leaf


class LearntRows:
    """Rows w_j that are learnt by Adam, each in its own time.

    A row that a step has not drawn has no gradient, and neither it nor its moments change. With n_j
    the number of steps in which row j was drawn, and g the gradient of such a step, plus
    weight_decay w_j:

        m_j <- b1 m_j + (1 - b1) g
        v_j <- b2 v_j + (1 - b2) g^2
        w_j <- w_j - lr (m_j / (1 - b1^n_j)) / (sqrt(v_j / (1 - b2^n_j)) + epsilon)

    This is `torch.optim.Adam` of each row over the steps that drew it. A step takes time and memory
    in proportion to the rows drawn.

    Learning has two halves, as that of a policy: `digest` is the update of a shard, and `apply`
    takes those of all shards in order, so that several processes stay equal bit for bit.

    `apply` changes `value`, float32[N, D], in place; it may be a view.
    """

    def __init__(self, value: Tensor) -> None:
        self.value = value
        self.first, self.second = torch.zeros(2, *value.shape)  # m and v
        self.count = torch.zeros(len(value), dtype=torch.int32)  # n
        self._is_dirty: Tensor | None = None  # bool[N] rows changed since the last checkpoint

    def draw(self, deviation: float, generator: torch.Generator) -> None:
        """Fill the rows with normal numbers of mean 0."""
        self.value.copy_(torch.randn(self.value.shape, generator=generator) * deviation)

    def rows(self, ids: Tensor, device: torch.device) -> Tensor:
        """A copy of some rows, a leaf whose gradient `digest` takes. int64[S] -> [S, D]."""
        return self.value.index_select(0, ids.cpu()).to(device).requires_grad_()

    def batch(self, ids: Tensor, device: torch.device) -> LearntBatch:
        """Some rows with their ids."""
        return LearntBatch(ids, self.rows(ids, device))

    def digest(self, ids: Tensor, rows: Tensor) -> News:
        """Update of a shard: distinct ids int64[S] and the gradient of their rows [S, D]."""
        assert rows.grad is not None
        return {ROW: ids.cpu().numpy(), GRADIENT: rows.grad.cpu().numpy()}

    def apply(self, shards: Sequence[News], lr: float, weight_decay: float = 0.0) -> None:
        """Take a step with the mean gradient of all shards, which is added in their order."""
        ids = np.unique(np.concatenate([news[ROW] for news in shards]))
        grad = torch.zeros(ids.size, self.value.size(1))
        for news in shards:
            place = torch.from_numpy(np.searchsorted(ids, news[ROW]))
            grad.index_add_(0, place, torch.from_numpy(news[GRADIENT].copy()))
        self._step(torch.from_numpy(ids), grad / len(shards), lr, weight_decay)

    def _step(self, ids: Tensor, grad: Tensor, lr: float, weight_decay: float) -> None:
        """One step of Adam for distinct rows. ids int64[R], grad [R, D]."""
        value = self.value[ids]
        grad = grad + weight_decay * value if weight_decay else grad
        first = self.first[ids].lerp_(grad, 1 - _FIRST)
        second = self.second[ids].mul_(_SECOND).addcmul_(grad, grad, value=1 - _SECOND)
        count = self.count[ids] + 1
        own = count.double()[:, None]
        rate, unbiased = (lr / (1 - _FIRST**own)).float(), (1 - _SECOND**own).rsqrt().float()
        self.value[ids] = value - rate * first / (second.sqrt() * unbiased + _EPSILON)
        self.first[ids], self.second[ids], self.count[ids] = first, second, count
        if self._is_dirty is not None:
            self._is_dirty[ids] = True

    @property
    def nbytes(self) -> int:
        """Bytes of the state."""
        return sum(tensor.nbytes for tensor in self.state_dict().values())

    def track_changes(self) -> None:
        """Forget which rows have changed, and track those that change from now on."""
        self._is_dirty = torch.zeros(len(self.value), dtype=torch.bool)

    def changed_rows(self) -> dict[str, IntArray]:
        """Rows that have changed, by tensor of the state; empty if they are not tracked."""
        if self._is_dirty is None:
            return {}
        ids = self._is_dirty.nonzero()[:, 0].numpy()
        return dict.fromkeys(self.state_dict(), ids)

    def state_dict(self) -> dict[str, Tensor]:
        """Rows, moments and counts, without copying."""
        moments = {"first": self.first, "second": self.second, "count": self.count}
        return {"value": self.value, **moments}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Load the result of `state_dict`; raises an error if names or shapes differ."""
        own = self.state_dict()
        if own.keys() != state.keys():
            raise KeyError(f"learnt rows have {sorted(own)}, not {sorted(state)}")
        for name, tensor in own.items():
            if tensor.shape != state[name].shape:
                raise ValueError(f"{name} has shape {[*state[name].shape]}, not {[*tensor.shape]}")
        for name, tensor in own.items():
            tensor.copy_(state[name])
