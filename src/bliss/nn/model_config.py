"""Settings of a network. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bliss import checks
from bliss.errors import InputError

if TYPE_CHECKING:
    from bliss.graph import Norm

FEEDBACK = ("softmax", "scores")
RELATIONAL = ("rsage", "rgat")
"""Networks for heterogeneous graphs."""
MODELS = ("sage", "gcn", "gat", "gatv2", "lightgcn", *RELATIONAL)
PROJECTIONS = ("activated", "linear")
NORMALISATIONS = ("none", "layer", "batch")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Settings of a network."""

    model: str = "sage"
    """Kind of layer; lightgcn is for links (docs/links.md): its layers have no weights, and its
    outputs are the mean over layers; rsage and rgat are for heterogeneous graphs
    (docs/types.md)."""
    layers: int = 3
    """Number of layers; budgets need one entry per sampled layer."""
    hidden: int = 256
    """Width of hidden layers, all heads together; for links, also of the outputs."""
    embedding: int = 0
    """Width of a learnt embedding of each node, in addition to its features; 0: none. For graphs
    without features and, in heterogeneous graphs, for node types without features."""
    bases: int = 0
    """Number B of matrices V_b that relations share, W_r = sum_b a_rb V_b, with rsage and rgat; 0:
    a matrix per relation."""
    projection: str = "activated"
    """Projection of the features of each type, with rsage and rgat: activated (ReLU or ELU of a
    linear map) or linear, which an exact first hop needs."""
    heads: int = 4
    """Attention heads of hidden layers; the last layer has one."""
    dropout: float = 0.1
    """Dropout rate of a layer's inputs."""
    attention_dropout: float = 0.1
    """Dropout rate of attention weights."""
    residual: bool = False
    """Residual connections from the second layer on, projected if widths differ."""
    input_residual: bool = False
    """A residual connection in the first layer. Without it, an attention layer sees a node's own
    features only as one of its neighbours."""
    bias: bool = True
    """Whether convolutions have a bias."""
    normalisation: str = "none"
    """Normalisation after each hidden layer: none, layer or batch (of the rows of a batch; a single
    row takes running statistics)."""
    attention: str = "hajek"
    """Softmax over kept edges: hajek (scores corrected by -log p) or plain."""
    initialisation: str = "default"
    """Initial weights: default, or relu (Xavier times sqrt 2, zero bias, as in DGL's layers)."""
    feedback: str = "softmax"
    """Attention that the policy observes: softmax, or scores as in the released code."""

    def __post_init__(self) -> None:
        checks.choice("model", self.model, MODELS)
        checks.choice("normalisation", self.normalisation, NORMALISATIONS)
        checks.choice("attention", self.attention, ("hajek", "plain"))
        checks.choice("feedback", self.feedback, FEEDBACK)
        checks.choice("initialisation", self.initialisation, ("default", "relu"))
        for name in ("layers", "hidden", "heads"):
            checks.whole(name, getattr(self, name), least=1)
        for name in ("embedding", "bases"):
            checks.whole(name, getattr(self, name))
        if self.bases and not self.is_relational:
            raise InputError(
                f"bases={self.bases} has no effect with model={self.model!r}, which has no "
                "relations: choose rsage or rgat, or leave it out."
            )
        checks.choice("projection", self.projection, PROJECTIONS)
        if self.projection != "activated" and not self.is_relational:
            raise InputError(
                f"projection={self.projection!r} has no effect with model={self.model!r}, which "
                "takes features as they are: choose rsage or rgat, or leave it out."
            )
        for name in ("residual", "input_residual", "bias"):
            checks.flag(name, getattr(self, name))
        for name in ("dropout", "attention_dropout"):
            if checks.not_negative(name, getattr(self, name), "start with 0.1.") >= 1:
                raise InputError(f"{name}={getattr(self, name)} must be in [0, 1): start with 0.1.")
        if self.is_attention and self.hidden % self.heads:
            raise InputError(
                f"hidden={self.hidden} is not a multiple of heads={self.heads}, but each head has "
                "an equal share of the width: choose a multiple."
            )
        if self.is_light:
            for name in ("residual", "input_residual", "normalisation"):
                if getattr(self, name) not in (False, "none"):
                    raise InputError(
                        f"{name}={getattr(self, name)!r} has no effect with model='lightgcn', "
                        "whose layers are sums over neighbours alone: leave it out."
                    )

    @property
    def is_attention(self) -> bool:
        """Whether aggregation weights are learnt."""
        return self.model in ("gat", "gatv2", "rgat")

    @property
    def is_relational(self) -> bool:
        """Whether the network is for heterogeneous graphs."""
        return self.model in RELATIONAL

    @property
    def has_linear_inputs(self) -> bool:
        """Whether the first layer takes features, or a linear map of them."""
        return not self.is_relational or self.projection == "linear"

    @property
    def is_light(self) -> bool:
        """Whether layers have no weights, so that all widths are that of the input."""
        return self.model == "lightgcn"

    @property
    def norm(self) -> Norm:
        """Norm of the graph that this network needs."""
        return "gcn" if self.model in ("gcn", "lightgcn") else "mean"
