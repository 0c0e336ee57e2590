"""Scores of links with the edges before each of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from bliss.arrays import FloatArray, IntArray
from bliss.errors import InputError
from bliss.graph import Cutoff, Graph
from bliss.nn.inference import evaluating
from bliss.samplers import Full
from bliss.train.evaluation import on_blocks
from bliss.train.link_objective import LinkObjective
from bliss.train.task import Task


@dataclass(frozen=True, eq=False)
class TimedPairs:
    """Scores of pairs, each from embeddings of the graph as it was before a link of its own.

    Both ends of a pair see edges of times strictly below that of the link, in every layer, exactly
    as in training: links of the same split that are earlier are messages, the link itself is not.
    Ends of one time share their neighbourhood, so that a link costs at most one inference of all
    nodes, whatever the number of its candidates.
    """

    task: Task
    split: str

    @classmethod
    def of(cls, task: Task, split: str) -> TimedPairs:
        """Scores at the times of the links of a split, checked."""
        objective = task.objective
        if not isinstance(objective, LinkObjective) or objective.splits.time is None:
            raise InputError(
                "cutoffs='link' needs links that are split by time, and edges with times: leave it "
                "out, or train with --task link --split time."
            )
        if objective.config.candidates == "all":
            raise InputError(
                "cutoffs='link' would embed all nodes again for each link, because the run has "
                "candidates='all': leave it out, or train with --candidates sampled."
            )
        return cls(task, split)

    @cached_property
    def _graph(self) -> Graph:
        return self.task.graph_of("all")

    @torch.no_grad()
    def __call__(self, source: IntArray, target: IntArray, link: IntArray) -> FloatArray:
        """Scores of pairs [N] at the times of links, positions in the split [N]. float32[N]."""
        objective, size = self.task.objective, self.task.config.training.batch_size
        assert isinstance(objective, LinkObjective) and objective.splits.time is not None
        time = objective.splits.time[self.split][link]
        order = np.argsort(time, kind="stable")
        scores = np.empty(source.size, np.float32)
        for start in range(0, order.size, size):
            own = order[start : start + size]
            scores[own] = self._scores(source[own], target[own], time[own])
        return scores

    def _scores(self, source: IntArray, target: IntArray, time: IntArray) -> FloatArray:
        task = self.task
        assert isinstance(task.objective, LinkObjective)
        ends = np.stack([np.concatenate([source, target]), np.concatenate([time, time])])
        (node, when), place = np.unique(ends, axis=1, return_inverse=True)
        full = Full(self._graph, layers=task.config.network.layers)
        seen = Cutoff.of(when, strict=True, window=task.config.objective.seen_window)
        with evaluating(task.model):
            z = on_blocks(task, full)(full.sample(node, 0, time=seen))
        of_source, of_target = z[torch.from_numpy(place.reshape(2, -1)).to(z.device)]
        scores: FloatArray = task.objective.decoder(of_source, of_target).cpu().numpy()
        return scores
