"""Labels of nodes as the objective of a run: classes, several labels, or targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isnan
from typing import Any

import torch
from torch import Tensor

from bliss.arrays import IntArray
from bliss.data.dataset import SPLITS, Dataset
from bliss.errors import InputError
from bliss.graph import Graph
from bliss.nn.layers import OnProgress
from bliss.samplers.base import Sampler
from bliss.train.batch import NodeData, NodeLoader
from bliss.train.config import TrainConfig
from bliss.train.constant import ConstantPrediction, compared, sample
from bliss.train.losses import TargetScale, balanced_weights
from bliss.train.metrics import (
    FUNCTIONS,
    MOST_CLASSES,
    all_scores,
    class_scores,
    confusion_matrix,
    mean_squared_error,
    selecting_metric,
)
from bliss.train.node_labels import NodeLabels
from bliss.train.results import METRICS, SplitAssessment
from bliss.train.typed_inputs import TypedInputs


@dataclass(frozen=True, eq=False)
class NodeObjective(NodeLabels):
    """Train and score on nodes with labels; see `Objective`."""

    order: str = "random"  # of batches, if nodes have times; see `ObjectiveConfig`
    time_window: int | None = None  # number of times that a node sees; None: all
    unit = "nodes"
    unlearnable = (
        "The labels do not depend on the features and neighbours: check that rows of labels, "
        "features and edges belong to the same nodes."
    )

    @property
    def kind(self) -> str:
        """classes, labels or regression."""
        return self.dataset.task

    @property
    def num_outputs(self) -> int:
        """Number of classes, labels or targets."""
        return self.dataset.num_outputs

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes, labels or targets."""
        return self.dataset.class_names

    @property
    def num_seeds(self) -> int:
        """Number of training nodes."""
        return len(self.train_nodes)

    @property
    def train_nodes(self) -> Tensor:
        """Training nodes. int64[N]."""
        return self.dataset.splits["train"]

    @property
    def constant_loss(self) -> float:
        """Loss of the best constant prediction, at a sample of training nodes."""
        return ConstantPrediction.of(self).loss(self, sample(self.train_nodes))

    def loader(self, x: Tensor | TypedInputs, sampler: Sampler, **options: Any) -> NodeLoader:
        """Loader of training nodes."""
        if self.node_time is not None:
            options["input_time"] = self.node_time[self.train_nodes]
            options["order"] = "time" if self.order == "time" else "given"
            options["time_window"] = self.time_window
        if isinstance(x, TypedInputs):
            assert self.dataset.typed is not None
            name, typed = self.dataset.typed.node_type, x.data()
            own = x.types.range_of(name)
            typed[name].y = self.y[own]
            return NodeLoader(typed, sampler, (name, self.train_nodes - own.start), **options)
        data = NodeData(x=x, y=self.y, num_nodes=self.dataset.graph.num_nodes)
        return NodeLoader(data, sampler, self.train_nodes, **options)

    @property
    def node_time(self) -> IntArray | None:
        """Times of nodes, if the run is by time."""
        return self.dataset.node_time

    def period(self, split: str) -> tuple[int, int] | None:
        """First and last time of the nodes of a split."""
        nodes = self.dataset.splits[split]
        if self.node_time is None or not len(nodes):
            return None
        times = self.node_time[nodes]
        return int(times.min()), int(times.max())

    def loss(self, outputs: Tensor, batch: NodeData) -> Tensor:
        """Training loss of a batch of nodes."""
        return self.mean_loss(outputs, batch.y, batch.blocks[-1].dst_weight)

    def nodes(self, split: str) -> Tensor:
        """Nodes of a split. int64[N]."""
        return self.dataset.splits[split]

    def messages(self, split: str) -> Graph:
        """All edges, for all splits."""
        return self.dataset.graph

    @property
    def train_messages(self) -> Graph:
        """All edges."""
        return self.dataset.graph

    @property
    def is_survey(self) -> bool:
        """Whether nodes are scored with edges of all times."""
        return self.node_time is None

    @property
    def notes(self) -> list[str]:
        """Nothing."""
        return []

    def scores(
        self, split: str, nodes: Tensor | None, outputs: Tensor, progress: OnProgress = None
    ) -> dict[str, float]:
        """Score of a split; for regression with the mean squared error. [N], [N, C]."""
        wanted, predicted = self.dataset.y[nodes], self.predictions(outputs)
        scores = {split: FUNCTIONS[self.metric](predicted, wanted)}
        if self.scale is not None:
            scores[f"{split}_mse"] = mean_squared_error(predicted, wanted)
        return scores

    def assess(
        self, split: str, nodes: Tensor | None, outputs: Tensor, progress: OnProgress = None
    ) -> SplitAssessment:
        """All scores of a split, by class, and beside a constant prediction. [N], [N, C]."""
        assert nodes is not None
        dataset, constant = self.dataset, ConstantPrediction.of(self)
        wanted, predicted = dataset.y[nodes], self.predictions(outputs)
        has_matrix = dataset.task == "classes" and dataset.num_classes <= MOST_CLASSES
        return SplitAssessment(
            nodes=len(nodes),
            scores=all_scores(predicted, wanted, dataset.task),
            classes=[]
            if dataset.is_regression
            else class_scores(predicted, wanted, dataset.class_names),
            confusion=confusion_matrix(predicted, wanted).tolist() if has_matrix else [],
            constant=compared(self, constant, nodes, outputs),
        )

    def state(self) -> dict[str, Tensor]:
        """The scale of the targets, if there is one."""
        return {} if self.scale is None else self.scale._asdict()

    def with_state(self, state: Mapping[str, Tensor]) -> NodeObjective:
        """A copy with another scale of the targets."""
        if self.scale is None:
            return self
        scale = TargetScale(*(state[name] for name in TargetScale._fields))
        return replace(self, scale=scale, y=scale.standardise(self.dataset.y))


def node_objective(
    config: TrainConfig, dataset: Dataset, device: torch.device, trains: bool
) -> NodeObjective:
    """Check the settings against the labels and splits. Without `trains`, splits may be empty."""
    if dataset.num_outputs == 0:
        of_type = "" if dataset.typed is None else f"type {dataset.typed.node_type!r} of "
        raise InputError(
            f"{of_type}{dataset.name!r} has no labels, but training needs them: import it with "
            "--labels, or learn its links with --task link."
        )
    for name in SPLITS if trains else ():
        if name not in dataset.splits or len(dataset.splits[name]) == 0:
            raise InputError(
                f"the {name} split of {dataset.name!r} is empty, but training needs all three: "
                "import the graph with train, validation and test nodes."
            )
    metric = selecting_metric(config.training.select, dataset.task, dataset.num_outputs)
    if trains and METRICS[metric].is_ranking:
        _check_ranking(metric, dataset)
    scale = None
    if dataset.is_regression:
        scale = TargetScale.of(dataset.y[dataset.splits["train"]])
    weight = _class_weight(config, dataset)
    return NodeObjective(
        dataset,
        metric,
        y=dataset.y if scale is None else scale.standardise(dataset.y),
        scale=scale,
        class_weight=None if weight is None else weight.to(device),
        order=config.objective.order,
        time_window=config.objective.seen_window,
    )


def _check_ranking(metric: str, dataset: Dataset) -> None:
    """Refuse a metric that is not defined for a split."""
    for name, nodes in dataset.splits.items():
        zeros = torch.zeros(len(nodes), dataset.num_outputs)
        if isnan(FUNCTIONS[metric](zeros, dataset.y[nodes])):
            raise InputError(
                f"select={metric!r} is not defined for the {name} split of {dataset.name!r}, which "
                "lacks positive or negative nodes: choose another metric or other splits."
            )


def _class_weight(config: TrainConfig, dataset: Dataset) -> Tensor | None:
    """Weights of the classes in the loss, float32[C]; None if all are 1."""
    given = config.data.class_weights
    if given == "none":
        return None
    if dataset.is_regression:
        raise InputError(
            f"class_weights={given!r} was given, but {dataset.name!r} has targets of a regression "
            "and no classes: leave it out."
        )
    if given == "balanced":
        return balanced_weights(dataset.y[dataset.splits["train"]], dataset.num_classes)
    if len(given) != dataset.num_classes:
        raise InputError(
            f"class_weights has {len(given)} numbers, but {dataset.name!r} has "
            f"{dataset.num_classes} classes: give one number per class."
        )
    return torch.tensor(given, dtype=torch.float32)
