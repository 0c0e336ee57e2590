"""Histories: sample only the change of a source's input, and sum its earlier value exactly."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bliss import checks
from bliss.arrays import Array, FloatArray, IntArray
from bliss.errors import InputError
from bliss.feedback import Feedback, News, Survey
from bliss.graph import Graph
from bliss.kernels import histories as kernels
from bliss.nn.block import Block, Control
from bliss.policies.learner import Learner, RowSets, State
from bliss.storage import memory
from bliss.storage.files import writing
from bliss.storage.mapped import new_map

PREFIX = "history."
_LARGEST_HALF = 65504.0
_CHUNK = 2**16  # nodes whose sums are computed at once


class History(Learner):
    """Control variate for an unbiased sampler: a history of every node's input in each layer.

    With h~_j the input of node j when it was last seen, a block aggregates

        sum over all in-edges of alpha_ij h~_j + sum over kept edges of weight_ij (h_j - h~_j)

    (`bliss.nn.aggregate`, which adds a third term with dropout). For fixed inputs and weights
    alpha_ij / p_j this is unbiased for any history, because the draw does not depend on h_j - h~_j
    of its own step. Its variance is

        sum_j (1 / p_j - 1) |h_j - h~_j|^2 sum_i alpha_ij^2

    so the best masses are |h_j - h~_j| sqrt(sum_i alpha_ij^2): policies observe |h_j - h~_j| in
    place of |h_j|, and the age of the history beside it. The history of a node not seen yet is 0.

    Two kinds differ in when a history is written:

    * "nodes": whenever a node is a source, and for all nodes at a survey. The first sum is computed
      for the targets of every block, one pass over all their in-edges with F numbers each.
    * "surveys": at surveys alone, for all nodes. The first sums are computed once per survey and
      looked up. There is no control variate before the first survey.

    Only sums with fixed coefficients can be split in this way, so attention is not supported.

    A history is a learner: see `bliss.policies.learner`.

    State: V F numbers per sampled layer ("surveys": twice that, of which half is not saved), in
    float32 or float16, and 4 bytes per node and layer.

    Parameters
    ----------
    graph
        The graph, with V nodes.
    widths
        Width F of the input of each sampled layer.
    kind
        "nodes" or "surveys".
    number_type
        "float32" or "float16".
    folder
        Where to keep the numbers, in memory-mapped temporary files that are deleted with the
        process. None: in memory.
    """

    prefix = PREFIX
    learns = True
    learns_from_surveys = True
    needs_survey_input = True
    shares_state = True

    def __init__(
        self,
        graph: Graph,
        widths: Sequence[int],
        kind: str,
        number_type: str = "float32",
        folder: Path | None = None,
    ) -> None:
        self.graph, self.kind = graph, kind
        self._type = np.dtype(number_type)
        self._folder = folder
        self.now = memory.zeros(1, np.int64)  # steps applied so far
        self._stamp = [memory.full(graph.num_nodes, -1, np.int32) for _ in widths]
        self._value = [self._allocate(width) for width in widths]
        # with kind "surveys", the first sum of every node
        self._sums = [memory.LazyZeros((graph.num_nodes, width), np.float32) for width in widths]
        self._is_summed = memory.zeros(len(widths), np.bool_)

    @property
    def title(self) -> str:
        """Name of this history in messages."""
        return f"a history with {len(self._value)} layers"

    def value(self, layer: int) -> FloatArray:
        """Latest input of each node in a sampled layer. float32[V, F] or float16[V, F]."""
        return self._value[layer]

    def ages(self, layer: int, node: IntArray) -> IntArray:
        """Age of each node's history in the coming step; 0 without a history. int64[N].

        It is 1 if the step before wrote it, or a survey after that step, and k if it was written k
        steps before.
        """
        age: IntArray = kernels.ages(node, self._stamp[layer], int(self.now[0]))
        return age

    def scale_by_age(
        self, layer: int, candidate: IntArray, mass: FloatArray, factor: FloatArray
    ) -> None:
        """Multiply masses [C], in place, by the factor of the age of each candidate's history."""
        kernels.scale_by_age(mass, candidate, self._stamp[layer], int(self.now[0]), factor)

    def attach(self, block: Block, layer: int) -> Block:
        """The block with its control variate."""
        dst, looks_up = block.dst.numpy(), self.kind == "surveys"
        if looks_up and not self._is_summed[layer]:
            return block
        rows, value = block.rows, self._value[layer]
        assert rows is not None  # of a block that a sampler drew
        if looks_up:
            baseline = rows.visible_sums(self._sums[layer]()[dst], value)
        else:
            baseline = rows.full_sums(value)
        source = block.src.numpy()
        history = value[source].astype(np.float32, copy=False)
        age = torch.from_numpy(self.ages(layer, source))
        control = Control(torch.from_numpy(baseline), torch.from_numpy(history), age)
        return replace(block, control=control, keeps_input=self.kind == "nodes")

    def digest(self, layer: int, feedback: Feedback) -> News:
        """The inputs that become the history of their nodes."""
        if self.kind == "surveys":
            return {}
        if feedback.input is None:
            raise InputError(
                f"the block of sampled layer {layer} kept no input, because it was drawn by a "
                "sampler without a history: update each sampler with the blocks that it drew."
            )
        self._check_width(layer, feedback.input)
        return {f"{PREFIX}source": feedback.src, f"{PREFIX}input": feedback.input}

    def apply(self, layer: int, news: Sequence[News]) -> None:
        """Write the histories of one step, by shard."""
        for shard in news if self.kind == "nodes" else ():
            source, inputs = shard[f"{PREFIX}source"], shard[f"{PREFIX}input"]
            self._check_width(layer, inputs)
            self._value[layer][source] = self._rounded(inputs)
            self._stamp[layer][source] = self.now[0]

    def changed_rows(self, layer: int, news: Sequence[News]) -> RowSets:
        """Rows of the state that `apply` has just changed."""
        if self.kind == "surveys":
            return {}
        names = (f"{PREFIX}{layer}.value", f"{PREFIX}{layer}.stamp")
        return {names: np.concatenate([shard[f"{PREFIX}source"] for shard in news])}

    def begin_step(self) -> None:
        """Count a step."""
        self.now += 1

    def survey(self, layer: int, survey: Survey) -> None:
        """Write the history of all nodes: the surveyed input."""
        inputs = survey.input
        assert inputs is not None  # because of `needs_survey_input`
        self._check_width(layer, inputs)
        self._value[layer][:] = self._rounded(inputs)
        self._stamp[layer][:] = self.now[0]
        self._sum_if_needed(layer)

    def state_dict(self) -> State:
        """The histories, and when they were written."""
        state: State = {f"{PREFIX}now": self.now}
        for layer, (value, stamp) in enumerate(zip(self._value, self._stamp, strict=True)):
            state |= {f"{PREFIX}{layer}.value": value, f"{PREFIX}{layer}.stamp": stamp}
        return state

    def check_state(self, state: Mapping[str, Any]) -> None:
        """Raise an error for a state of other settings, or with impossible steps."""
        super().check_state(state)
        now = int(checks.as_array("now", state[f"{PREFIX}now"])[0])
        for layer in range(len(self._stamp)):
            name = f"{PREFIX}{layer}.stamp"
            stamp = checks.as_array(name, state[name])
            if now < 0 or stamp.min(initial=-1) < -1 or stamp.max(initial=-1) > now:
                raise InputError(
                    f"the saved {name} holds steps outside [-1, {now}], the steps taken so far: "
                    "load another checkpoint, because this one is damaged."
                )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a saved state; with kind "surveys", compute the sums of all nodes."""
        super().load_state_dict(state)
        for layer in range(len(self._value)):
            self._sum_if_needed(layer)

    def _sum_if_needed(self, layer: int) -> None:
        if self.kind != "surveys":
            return
        if (self._stamp[layer] < 0).any():
            self._is_summed[layer] = False
            return
        sums = self._sums[layer]()
        for start in range(0, len(sums), _CHUNK):
            nodes = np.arange(start, min(start + _CHUNK, len(sums)))
            sums[start : start + _CHUNK] = self.graph.rows(nodes).full_sums(self._value[layer])
        self._is_summed[layer] = True

    def _rounded(self, inputs: FloatArray) -> FloatArray:
        if self._type == np.float32:
            return inputs
        clipped = torch.from_numpy(inputs).clamp(-_LARGEST_HALF, _LARGEST_HALF)
        half: FloatArray = clipped.half().numpy()  # NumPy's conversion takes three times as long
        return half

    def _allocate(self, width: int) -> Array:
        shape = self.graph.num_nodes, width
        if self._folder is None:
            return memory.zeros(shape, self._type)
        with writing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._folder) as file:  # the map outlives it
                return new_map(file, shape, self._type)

    def _check_width(self, layer: int, inputs: FloatArray) -> None:
        width = self._value[layer].shape[1]
        if inputs.shape[1] != width:
            raise InputError(
                f"sampled layer {layer} has inputs of width {inputs.shape[1]}, but its history has "
                f"width {width}: build the sampler with widths=... of this network."
            )


def declared_widths(widths: Sequence[int], layers: int) -> tuple[int, ...]:
    """Widths of the layers' inputs, checked: one per layer of the network."""
    checked = tuple(checks.whole("widths", width, least=1) for width in widths)
    if len(checked) != layers:
        raise InputError(
            f"widths={list(checked)} has {len(checked)} entries for {layers} layers, but a history "
            "needs the width of each layer's input, that of the exact first layer included: pass "
            "for instance widths=[50, 256, 256]."
        )
    return checked
