"""`Objective`: what a network is trained for, which is where tasks differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor

from bliss.arrays import IntArray
from bliss.graph import Graph
from bliss.loader.seed_loader import SeedLoader
from bliss.nn.layers import OnProgress
from bliss.samplers.base import Sampler
from bliss.train.batch import NodeData
from bliss.train.results import SplitAssessment


class Objective(Protocol):
    """Seeds, loss and scores of a task.

    `NodeObjective` is that of labels of nodes, `LinkObjective` that of links.
    """

    unit: str
    """What is trained on and scored: nodes or links."""
    unlearnable: str
    """Likely cause, if nothing else explains that a network has not learnt."""

    @property
    def kind(self) -> str:
        """Task in the schema of a run: classes, labels, regression or link."""

    @property
    def num_outputs(self) -> int:
        """Outputs of the network at a node."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the outputs; empty if they have none."""

    @property
    def metric(self) -> str:
        """Metric of the score that selects the best step."""

    @property
    def num_seeds(self) -> int:
        """Seeds of an epoch: training nodes or training links."""

    @property
    def train_nodes(self) -> Tensor:
        """Nodes whose features may be looked at in training. int64[N]."""

    @property
    def constant_loss(self) -> float:
        """Least loss of outputs that are the same for all seeds."""

    @property
    def node_time(self) -> IntArray | None:
        """Times at which nodes are predicted, with what was there; None: all edges. int64[V]."""

    def period(self, split: str) -> tuple[int, int] | None:
        """First and last time of the seeds of a split; None without times."""

    def loader(self, x: Any, sampler: Sampler, **options: Any) -> SeedLoader:
        """Loader of training batches. x: features [V, F], or `TypedInputs`."""

    def loss(self, outputs: Tensor, batch: NodeData) -> Tensor:
        """Training loss of a batch from the network's outputs at its targets. [D, C] -> []."""

    def nodes(self, split: str) -> Tensor | None:
        """Nodes whose outputs a split's scores need; None: all. int64[N]."""

    def messages(self, split: str) -> Graph:
        """Graph whose edges are messages when a split is scored; of "all", in predictions."""

    @property
    def train_messages(self) -> Graph:
        """Graph whose edges are messages in training."""

    @property
    def is_survey(self) -> bool:
        """Whether training and validation seeds are scored on the graph of training as a whole."""

    @property
    def notes(self) -> list[str]:
        """What the user should know before training."""

    def scores(
        self, split: str, nodes: Tensor | None, outputs: Tensor, progress: OnProgress = None
    ) -> dict[str, float]:
        """Scores of an evaluation during training, from outputs at `nodes`; see `evaluate`."""

    def assess(
        self, split: str, nodes: Tensor | None, outputs: Any, progress: OnProgress = None
    ) -> SplitAssessment:
        """All scores of a split, from outputs at `nodes`."""

    def state(self) -> dict[str, Tensor]:
        """Tensors that are stored beside the weights of the network."""

    def with_state(self, state: Mapping[str, Tensor]) -> Objective:
        """A copy with stored tensors; raises KeyError if one is missing."""
