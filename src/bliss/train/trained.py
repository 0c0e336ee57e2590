"""Trained networks: `load` opens a run for inference and serving."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

from torch import Tensor

from bliss import checks
from bliss.data import Dataset
from bliss.data.feature_encoder import FeatureEncoder
from bliss.nn.model import GNN
from bliss.train.config import TrainConfig
from bliss.train.folder import RunFolder
from bliss.train.loop import load_network, open_task
from bliss.train.predictions import prediction_columns
from bliss.train.results import DataSchema
from bliss.train.task import Task
from bliss.train.typed_inputs import TypedEncoder


@dataclass(frozen=True)
class TrainedRun:
    """A run with the weights of its best step."""

    model: GNN
    """The network, on the CPU and in evaluation mode: model(x, blocks) gives logits, standardised
    targets, or embeddings, whose links `model.decoder` scores."""
    encoder: FeatureEncoder | TypedEncoder
    """Encoder of features: the network takes `encoder.transform(x)`; with types, x by type."""
    settings: TrainConfig
    """Settings of the run."""
    data: DataSchema
    """What the network needs of a graph, and the names of its classes."""
    folder: RunFolder
    embedding: Tensor | None = None
    """Learnt embedding of the nodes [V, D], if the run has one: the network takes features and
    embedding side by side."""

    def __repr__(self) -> str:
        of_run = f"model={self.settings.network.model!r}, dataset={self.settings.data.dataset!r}"
        return f"{type(self).__name__}({str(self.folder.path)!r}, {of_run})"

    def task(self, dataset: Dataset) -> Task:
        """Another graph as the network takes it: `task.graph`, `task.x` and `task.model`.

        Raises an error if the features or edge weights do not fit. Labels are not needed.
        """
        return open_task(self.folder, lambda _: dataset, needs_labels=False)

    def predict(
        self,
        dataset: Dataset,
        nodes: Any = "all",
        pairs: Any = None,
        top: int | None = None,
        at: Any = None,
    ) -> dict[str, list[Any]]:
        """Predictions of nodes or links of a graph, as columns; see `bliss.train.predict`."""
        return prediction_columns(self.task(dataset), nodes, pairs, top, at)


def load(run: str | PathLike[str]) -> TrainedRun:
    """Open a run's folder for inference; the data it was trained on are not needed."""
    folder = RunFolder(checks.path("run", run))
    settings, schema = folder.settings(), folder.schema()
    model, encoder, embedding = load_network(folder, settings, schema)
    return TrainedRun(model, encoder, settings, schema, folder, embedding)
