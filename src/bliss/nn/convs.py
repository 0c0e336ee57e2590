"""Convolutions over a block.

In training, and in a survey (`Block.is_surveyed`), a layer reports its input to the block
(`Block.observe`), and policies learn from it.
Pass the input before dropout as `observed`, so that policies do not learn from dropout's noise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional

from bliss.errors import InputError
from bliss.nn.aggregate import aggregate, aggregate_noise
from bliss.nn.attention import attend, corrected, gatv2_scores, shown_attention
from bliss.nn.block import Block
from bliss.nn.inputs import check_fits
from bliss.nn.layers import runs_only


class LinearConv(nn.Module, ABC):
    """Base class of convolutions with fixed coefficients: out_i = f(x_i) + W sum_j weight_ij x_j.

    x [S, F] -> [D, out]
    """

    def forward(self, x: Tensor, block: Block, observed: Tensor | None = None) -> Tensor:
        """Output of the targets; in training, the block observes the input."""
        check_fits(x, self._projection)
        if self.training or block.is_surveyed:
            block.observe(x if observed is None else observed)
        return self._own(x[: block.num_dst]) + _project_and_aggregate(self._projection, x, block)

    def streams(self, x: Tensor, mean: Tensor, block: Block) -> tuple[Tensor, Tensor]:
        """Outputs with dropout and without dropout in any layer, for a block with a history.

            mean_i = baseline_i + sum_j weight_ij (m_j - h~_j)
            z_i    = mean_i + sum_j weight_ij sqrt(p_ij) (x_j - m_j)

        m_j is a source's input without dropout in any layer, of which h~_j is the history. Only
        m_j - h~_j is divided by p_ij. The noise of dropout, of this layer and of those below, has
        the variance that it has with full neighbourhoods.

        x, mean [S, F] -> [D, out] twice
        """
        block.observe(mean)
        known = aggregate(block, mean)
        noisy = known + aggregate_noise(block, x - mean)
        own, own_mean = self._own(x[: block.num_dst]), self._own(mean[: block.num_dst])
        return own + self._projection(noisy), own_mean + self._projection(known)

    @property
    def projected_width(self) -> int | None:
        """Width of what `project` returns; None if `forward` is overridden or has hooks."""
        return self._width if runs_only(self, LinearConv.forward) else None

    @property
    def _width(self) -> int:
        return self._projection.out_features

    def project(self, x: Tensor) -> Tensor:
        """W x_j, and anything else that `combine` needs of a node. [N, F] -> [N, K]."""
        check_fits(x, self._projection)
        projected: Tensor = self._projection(x)
        return projected

    def combine(self, projected: Tensor, block: Block, observed: Tensor | None = None) -> Tensor:
        """Output of the targets from projected inputs: forward(x) = combine(project(x)).

        projected [S, K] -> [D, out]
        """
        if block.control is not None:
            raise InputError(
                "the block has a control variate, which is of inputs, not of projections: call the "
                "convolution itself."
            )
        if block.is_surveyed and observed is not None:
            block.observe(observed)
        outputs = self._projection.out_features
        return self._projected_own(projected[: block.num_dst]) + aggregate(
            block, projected[:, :outputs]
        )

    @abstractmethod
    def _own(self, x: Tensor) -> Tensor | float:
        """f of the targets' inputs, with the bias. [D, F] -> [D, out]."""

    @abstractmethod
    def _projected_own(self, projected: Tensor) -> Tensor | float:
        """f of the targets, from their projections. [D, projected_width] -> [D, out]."""

    @property
    @abstractmethod
    def _projection(self) -> nn.Linear:
        """W."""


class SAGEConv(LinearConv):
    """GraphSAGE with the mean: h_i' = W_self h_i + W sum_j weight_ij h_j + b.

    x [S, F] -> [D, out]
    """

    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__()
        self.own = nn.Linear(inputs, outputs, bias=bias)
        self.others = nn.Linear(inputs, outputs, bias=False)

    def _own(self, x: Tensor) -> Tensor | float:
        own: Tensor = self.own(x)
        return own

    @property
    def _width(self) -> int:
        return 2 * self.others.out_features

    def project(self, x: Tensor) -> Tensor:
        """W h_j and W_self h_j + b side by side. [N, F] -> [N, 2 out]."""
        check_fits(x, self.others)
        return torch.cat([self.others(x), self.own(x)], dim=1)

    def _projected_own(self, projected: Tensor) -> Tensor | float:
        return projected[:, self.others.out_features :]

    @property
    def _projection(self) -> nn.Linear:
        return self.others


class GCNConv(LinearConv):
    """Graph convolution: h_i' = W sum_j weight_ij h_j + b; use a graph with norm="gcn".

    x [S, F] -> [D, out]
    """

    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else 0.0

    def _own(self, x: Tensor) -> Tensor | float:
        return self.bias

    def _projected_own(self, projected: Tensor) -> Tensor | float:
        return self.bias

    @property
    def _projection(self) -> nn.Linear:
        return self.linear


class Attention(nn.Module, ABC):
    """Base class of GAT and GATv2: heads, importance correction and feedback.

    With correction="hajek" (default), -log p_ij (`block.edge_prob`) is added to the scores: the
    softmax over the kept edges is then the Hajek estimate of the full attention. "plain" does not
    correct the scores.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        heads: int,
        concat: bool,
        dropout: float,
        correction: str,
        feedback: str,
        bias: bool,
    ) -> None:
        super().__init__()
        self.heads, self.concat, self.dropout = heads, concat, dropout
        self.correction, self.feedback = correction, feedback
        self.width = outputs // heads if concat else outputs
        total = heads * self.width if concat else self.width
        self.bias = nn.Parameter(torch.zeros(total)) if bias else 0.0

    def _split(self, x: Tensor) -> Tensor:
        return x.float().reshape(-1, self.heads, self.width)  # sums and softmax in float32

    @property
    def projected_width(self) -> int | None:
        """Width of what `project` returns; None if `forward` is overridden or has hooks."""
        return self._width if runs_only(self, Attention.forward) else None

    @property
    def _width(self) -> int:
        return self.heads * self.width

    def project(self, x: Tensor) -> Tensor:
        """All that `combine` needs of a node. [N, F] -> [N, K]."""
        return self._sources(x)

    @abstractmethod
    def _sources(self, x: Tensor) -> Tensor:
        """W h_j. [N, F] -> [N, H C]."""

    def _targets(self, x: Tensor, sources: Tensor) -> Tensor:
        """What scores need of the targets, from their inputs and W h_i. [D, F] -> [D, H C]."""
        return sources

    @abstractmethod
    def _scores(self, targets: Tensor, sources: Tensor, block: Block) -> Tensor:
        """Plain scores e_ij. [D, H, C], [S, H, C] -> [E', H]."""

    def _score(self, x: Tensor, block: Block) -> tuple[Tensor, Tensor]:
        """Plain scores [E', H] and values [S, H, C] of a layer's input [S, F]."""
        block.check_device("x", x)
        sources, own = self._sources(x), slice(block.num_dst)
        targets, values = self._targets(x[own], sources[own]), self._split(sources)
        return self._scores(self._split(targets), values, block), values

    def attention(self, x: Tensor, block: Block) -> Tensor:
        """Attention weights of the edges, mean over heads. x [S, F] -> [E']."""
        scores, values = self._score(x, block)
        return attend(block, corrected(scores, block, self.correction), values)[1].mean(1)

    def forward(self, x: Tensor, block: Block, observed: Tensor | None = None) -> Tensor:
        """Output of the targets; in training, the block observes input and attention."""
        return self._output(*self._score(x, block), block, x if observed is None else observed)

    def combine(self, projected: Tensor, block: Block, observed: Tensor | None = None) -> Tensor:
        """Output of the targets from projected inputs: forward(x) = combine(project(x)).

        projected [S, K] -> [D, outputs]
        """
        width = self.heads * self.width
        values = self._split(projected[:, :width])
        targets = self._split(projected[: block.num_dst, -width:])
        return self._output(self._scores(targets, values, block), values, block, observed)

    def _output(
        self, scores: Tensor, values: Tensor, block: Block, observed: Tensor | None
    ) -> Tensor:
        drop = self.dropout if self.training else 0.0
        adjusted = corrected(scores, block, self.correction)
        out, attention = attend(block, adjusted, values, drop)
        if (self.training or block.is_surveyed) and observed is not None:
            shown = attention
            if not block.is_surveyed:
                plain = scores.detach()
                shown = shown_attention(block, plain, attention, self.correction, self.feedback)
            block.observe(observed, shown)
        return (out.flatten(1) if self.concat else out.mean(1)) + self.bias


class GATConv(Attention):
    """GAT: scores e_ij = LeakyReLU(a_target . W h_i + a_source . W h_j), softmax over kept edges.

    x [S, F] -> [D, outputs]; heads are concatenated (`concat`) or averaged.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        heads: int = 1,
        concat: bool = True,
        dropout: float = 0.0,
        correction: str = "hajek",
        feedback: str = "softmax",
        bias: bool = True,
    ) -> None:
        super().__init__(inputs, outputs, heads, concat, dropout, correction, feedback, bias)
        self.linear = nn.Linear(inputs, heads * self.width, bias=False)
        self.target = nn.Parameter(torch.empty(heads, self.width))
        self.source = nn.Parameter(torch.empty(heads, self.width))
        for parameter in (self.linear.weight, self.target, self.source):
            nn.init.xavier_uniform_(parameter)

    def _sources(self, x: Tensor) -> Tensor:
        check_fits(x, self.linear)
        sources: Tensor = self.linear(x)
        return sources

    def _scores(self, targets: Tensor, sources: Tensor, block: Block) -> Tensor:
        target = (targets * self.target).sum(-1)  # [D, H]
        source = (sources * self.source).sum(-1)  # [S, H]
        return functional.leaky_relu(target[block.col] + source[block.row], 0.2)


class GATv2Conv(Attention):
    """GATv2: scores e_ij = a . LeakyReLU(W_target h_i + W_source h_j), softmax over kept edges.

    x [S, F] -> [D, outputs]; heads are concatenated (`concat`) or averaged. With `shared`,
    W_target = W_source.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        heads: int = 1,
        concat: bool = True,
        dropout: float = 0.0,
        correction: str = "hajek",
        feedback: str = "softmax",
        bias: bool = True,
        shared: bool = True,
    ) -> None:
        super().__init__(inputs, outputs, heads, concat, dropout, correction, feedback, bias)
        self.source = nn.Linear(inputs, heads * self.width, bias=False)
        self.target = None if shared else nn.Linear(inputs, heads * self.width, bias=False)
        self.vector = nn.Parameter(torch.empty(heads, self.width))
        for parameter in self.parameters():
            if parameter.ndim == 2:
                nn.init.xavier_uniform_(parameter)

    @property
    def _width(self) -> int:
        return self.heads * self.width * (1 if self.target is None else 2)

    def project(self, x: Tensor) -> Tensor:
        """W_source h_j, and W_target h_j if W_target is a separate matrix. [N, F] -> [N, K]."""
        sources = self._sources(x)
        return sources if self.target is None else torch.cat([sources, self.target(x)], dim=1)

    def _sources(self, x: Tensor) -> Tensor:
        check_fits(x, self.source)
        sources: Tensor = self.source(x)
        return sources

    def _targets(self, x: Tensor, sources: Tensor) -> Tensor:
        return sources if self.target is None else self.target(x)

    def _scores(self, targets: Tensor, sources: Tensor, block: Block) -> Tensor:
        return gatv2_scores(block, targets, sources, self.vector, 0.2)


def _project_and_aggregate(linear: nn.Linear, x: Tensor, block: Block) -> Tensor:
    """W sum_j weight_ij x_j, with sum and product in the cheaper order. [S, F] -> [D, out].

    A control variate is a history of x, not of W x, so the sum then comes first.
    """
    inputs, outputs = linear.in_features, linear.out_features
    before = block.num_src * inputs * outputs + block.num_edges * outputs
    after = block.num_edges * inputs + block.num_dst * inputs * outputs
    if before < after and block.control is None:
        return aggregate(block, linear(x))
    out: Tensor = linear(aggregate(block, x))
    return out
