"""Assessment of a trained network: all scores by split and class, beside a constant prediction."""

from __future__ import annotations

from collections.abc import Sequence

from bliss import checks
from bliss.data.dataset import SPLITS
from bliss.nn.layers import OnProgress
from bliss.train.causes import likely_causes
from bliss.train.constant import is_beaten
from bliss.train.evaluation import split_outputs
from bliss.train.link_times import TimedPairs
from bliss.train.results import Assessment
from bliss.train.task import Task

CUTOFFS = ("split", "link")


def assess(
    task: Task, splits: Sequence[str] = SPLITS, progress: OnProgress = None, cutoffs: str = "split"
) -> Assessment:
    """All scores of a network from full neighbourhoods, on what `evaluate` scores.

    Whether the network has learnt is judged on the last of the splits.

    Parameters
    ----------
    task
        The task, with the weights to assess.
    splits
        Names of splits.
    progress
        Function called with the share that is done.
    cutoffs
        What links by time see: "split" for the edges before the first link of their split, "link"
        for the edges before each link itself, which takes longer (`TimedPairs`).
    """
    if checks.choice("cutoffs", cutoffs, CUTOFFS) == "link":
        scorers = {split: TimedPairs.of(task, split) for split in splits}
        found = {
            split: task.objective.assess(split, None, scorer, progress)
            for split, scorer in scorers.items()
        }
    else:
        found = {
            split: task.objective.assess(split, nodes, outputs, progress)
            for split, nodes, outputs in split_outputs(task, splits, progress)
        }
    has_learnt = is_beaten(found[splits[-1]].constant)
    return Assessment(
        metric=task.metric,
        splits=found,
        has_learnt=has_learnt,
        causes=[] if has_learnt else likely_causes(task),
        ranks=task.config.objective.ranks,
    )
