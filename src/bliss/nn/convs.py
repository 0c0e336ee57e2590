"""Convolutions over a block.

In training, and in a survey (`Block.is_surveyed`), a layer shows its input to the block
(`Block.observe`), and policies learn from it.
Pass the input before dropout as `observed`, so that policies do not learn from dropout's noise.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from bliss.block import Block
from bliss.nn.aggregate import aggregate, aggregate_noise
from bliss.nn.attention import attend, gatv2_scores


class LinearConv(nn.Module):
    """Base class of convolutions with fixed coefficients: out_i = f(x_i) + W sum_j weight_ij x_j.

    x [S, F] -> [D, out]
    """

    def forward(self, x: Tensor, block: Block, observed: Tensor | None = None) -> Tensor:
        """Output of the targets; in training, the block observes the input."""
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

    def _own(self, x: Tensor) -> Tensor | float:
        """f of the targets' inputs, with the bias. [D, F] -> [D, out]."""
        raise NotImplementedError

    @property
    def _projection(self) -> nn.Linear:
        """W."""
        raise NotImplementedError


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

    @property
    def _projection(self) -> nn.Linear:
        return self.linear


class _Attention(nn.Module):
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
        return x.float().view(-1, self.heads, self.width)  # sums and softmax in float32

    def _scores(self, x: Tensor, block: Block) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def _score(self, x: Tensor, block: Block) -> tuple[Tensor, Tensor]:
        """Plain scores e_ij [E', H] and values [S, H, C] of a layer's input [S, F]."""
        block.check_device("x", x)
        return self._scores(x, block)

    def attention(self, x: Tensor, block: Block) -> Tensor:
        """Attention weights of the edges, mean over heads. x [S, F] -> [E']."""
        scores, values = self._score(x, block)
        return attend(block, self._correct(scores, block), values)[1].mean(1)

    def _correct(self, scores: Tensor, block: Block) -> Tensor:
        return scores - block.edge_prob.log()[:, None] if self.correction == "hajek" else scores

    def forward(self, x: Tensor, block: Block, observed: Tensor | None = None) -> Tensor:
        """Output of the targets; in training, the block observes input and attention."""
        scores, values = self._score(x, block)
        corrected = self._correct(scores, block)
        drop = self.dropout if self.training else 0.0
        out, attention = attend(block, corrected, values, drop)
        if self.training or block.is_surveyed:
            told = attention if block.is_surveyed else self._told(block, scores.detach(), attention)
            block.observe(x if observed is None else observed, told)
        return (out.flatten(1) if self.concat else out.mean(1)) + self.bias

    def _told(self, block: Block, scores: Tensor, attention: Tensor) -> Tensor:
        """Attention that the policy observes. scores, attention [E', H] -> [E', H] or [E', 1]."""
        if self.feedback == "scores":
            told = scores.mean(1, keepdim=True)
        elif self.correction == "hajek":
            told = attention * block.edge_prob[:, None]  # proportional to the plain softmax
        else:
            return attention
        total = told.new_zeros(block.num_dst, told.size(1)).index_add(0, block.col, told)
        return (told / torch.where(total == 0, 1.0, total)[block.col]).abs()


class GATConv(_Attention):
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

    def _scores(self, x: Tensor, block: Block) -> tuple[Tensor, Tensor]:
        values = self._split(self.linear(x))
        target = (values[: block.num_dst] * self.target).sum(-1)  # [D, H]
        source = (values * self.source).sum(-1)  # [S, H]
        return functional.leaky_relu(target[block.col] + source[block.row], 0.2), values


class GATv2Conv(_Attention):
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

    def _scores(self, x: Tensor, block: Block) -> tuple[Tensor, Tensor]:
        values = self._split(self.source(x))
        own = x[: block.num_dst]
        target = values[: block.num_dst] if self.target is None else self._split(self.target(own))
        return gatv2_scores(block, target, values, self.vector, 0.2), values


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
