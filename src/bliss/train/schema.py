"""What a run needs of a graph: the check of another graph before its nodes are predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from bliss.data import Dataset
from bliss.errors import InputError
from bliss.graph import EdgeType
from bliss.text import shorten
from bliss.train.results import DataSchema
from bliss.train.task import NetworkSchema, Task


def schema_of(task: Task) -> DataSchema:
    """Schema of the data that a task trains on."""
    dataset, objective = task.dataset, task.objective
    network = NetworkSchema.of(dataset)
    return DataSchema(
        task=objective.kind,
        features=dataset.num_features,
        feature_names=_feature_names(dataset),
        outputs=objective.num_outputs,
        class_names=list(objective.class_names),
        norm=task.graph.norm,
        node_types=dict(network.node_types),
        edge_types=list(network.edge_types),
        node_type="" if dataset.typed is None else dataset.typed.node_type,
    )


def _feature_names(dataset: Dataset) -> list[str]:
    if dataset.typed is not None:
        return [
            f"{node_type}.{name}"
            for node_type, encoder in dataset.typed.encoders.items()
            for name in encoder.feature_names
        ]
    return [] if dataset.encoder is None else dataset.encoder.feature_names


def _types(nodes: Mapping[str, int], edges: Sequence[EdgeType]) -> str:
    """Types of a graph in words."""
    if not nodes:
        return "no types"
    features = ", ".join(f"{name} ({width} features)" for name, width in nodes.items())
    return f"the types {features} and the relations {', '.join(map('-'.join, edges))}"


def check_features(dataset: Dataset, schema: DataSchema, run: Path) -> None:
    """Raise an error if types or features differ from those of a run, in number or name."""
    types = NetworkSchema.of(dataset)
    if (types.node_types, list(types.edge_types)) != (schema.node_types, schema.edge_types):
        raise InputError(
            f"dataset={dataset.name!r} has {_types(types.node_types, types.edge_types)}, but the "
            f"run in {str(run)!r} was trained on "
            f"{_types(schema.node_types, schema.edge_types)}: pass a graph with the same types, "
            "features and relations, in the same order."
        )
    if dataset.num_features != schema.features:
        raise InputError(
            f"dataset={dataset.name!r} has {dataset.num_features} features, but the run in "
            f"{str(run)!r} was trained with {schema.features}: pass a graph with the same features."
        )
    ours = _feature_names(dataset)
    if ours and schema.feature_names:
        for place, (own, known) in enumerate(zip(ours, schema.feature_names, strict=True)):
            if own != known:
                raise InputError(
                    f"feature {place} of dataset={dataset.name!r} is {shorten(own, 60)!r}, but "
                    f"{shorten(known, 60)!r} in the run in {str(run)!r}: import the graph with "
                    "--like, the store that the run was trained on."
                )


def check_schema(task: Task, schema: DataSchema, run: Path) -> None:
    """Raise an error if the coefficients or labels of a task do not fit the network of a run."""
    dataset, objective = task.dataset, task.objective
    if task.graph.norm != schema.norm:
        raise InputError(
            f"dataset={dataset.name!r} has coefficients norm={task.graph.norm!r}, but the run in "
            f"{str(run)!r} was trained with norm={schema.norm!r}: import the graph with edge "
            "weights as for the run, or without."
        )
    if (objective.kind, objective.num_outputs) != (schema.task, schema.outputs):
        raise InputError(
            f"dataset={dataset.name!r} has the task {objective.kind!r} with "
            f"{objective.num_outputs} outputs, but the run in {str(run)!r} was trained for "
            f"{schema.task!r} with {schema.outputs}: pass the data of the run."
        )


def with_labels_of(schema: DataSchema, dataset: Dataset) -> Dataset:
    """The graph with the classes of a run, whatever its own labels are, to be predicted.

    All nodes have class 0, no label or the target 0, which predictions do not read.
    """
    nodes, is_regression = dataset.graph.num_nodes, schema.task == "regression"
    single = torch.zeros(nodes, dtype=torch.int64)
    return replace(
        dataset,
        task=schema.task,
        y=single if schema.task == "classes" else torch.zeros(nodes, schema.outputs),
        num_classes=0 if is_regression else schema.outputs,
        class_names=tuple(schema.class_names),
    )
