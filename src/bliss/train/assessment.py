"""Assessment of a trained network: all scores by split and class, beside a constant prediction."""

from __future__ import annotations

from collections.abc import Sequence

from bliss.train.causes import likely_causes
from bliss.train.constant import ConstantPrediction, compared, is_beaten
from bliss.train.evaluation import ProgressCallback, split_outputs
from bliss.train.metrics import MOST_CLASSES, all_scores, class_scores, confusion_matrix
from bliss.train.results import Assessment, SplitAssessment
from bliss.train.task import Task

SPLITS = ("train", "val", "test")


def assess(
    task: Task, splits: Sequence[str] = SPLITS, progress: ProgressCallback | None = None
) -> Assessment:
    """All scores of a network from full neighbourhoods, on the nodes that `evaluate` scores.

    Whether the network has learnt is judged on the last of the splits.
    """
    dataset, found = task.dataset, dict[str, SplitAssessment]()
    constant = ConstantPrediction.of(task)
    for split, (nodes, outputs) in split_outputs(task, splits, progress).items():
        wanted, predicted = dataset.y[nodes], task.predictions(outputs)
        has_matrix = dataset.task == "classes" and dataset.num_classes <= MOST_CLASSES
        found[split] = SplitAssessment(
            nodes=len(nodes),
            scores=all_scores(predicted, wanted, dataset.task),
            classes=[]
            if dataset.is_regression
            else class_scores(predicted, wanted, dataset.class_names),
            confusion=confusion_matrix(predicted, wanted).tolist() if has_matrix else [],
            constant=compared(task, constant, nodes, outputs),
        )
    has_learnt = is_beaten(found[splits[-1]].constant)
    return Assessment(
        metric=task.metric,
        splits=found,
        has_learnt=has_learnt,
        causes=[] if has_learnt else likely_causes(task),
    )
