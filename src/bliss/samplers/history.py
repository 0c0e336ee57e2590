"""Histories: sample only the change of a source's input, and sum its earlier value exactly."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from bliss import checks
from bliss.arrays import Array, FloatArray, IntArray
from bliss.errors import InputError
from bliss.feedback import Feedback, News, Survey
from bliss.graph import Graph, GraphTypes, Rows
from bliss.kernels import histories as kernels
from bliss.nn.block import Block
from bliss.nn.control import Control, TypedControl
from bliss.policies.learner import Learner, RowSets, State
from bliss.samplers.group_sums import Sources
from bliss.storage import memory
from bliss.storage.files import writing
from bliss.storage.mapped import new_map

PREFIX = "history."
_LARGEST_HALF = 65504.0
Width: TypeAlias = "int | tuple[int, ...]"
"""Width of a layer's input: of all nodes, or of the nodes of each type."""


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

    With types, the sums are those of each group, a target and a relation; a node has one history
    for all its relations. If widths differ, each type has a matrix of its own.

    A history is a learner: see `bliss.policies.learner`.

    State: V F numbers per sampled layer ("surveys": twice that, of which half is not saved), in
    float32 or float16, and 4 bytes per node and layer.

    Parameters
    ----------
    graph
        The graph, with V nodes.
    widths
        Width F of the input of each sampled layer; with types, also a tuple (F_t of each type).
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
        widths: Sequence[Width],
        kind: str,
        number_type: str = "float32",
        folder: Path | None = None,
    ) -> None:
        self.graph, self.kind = graph, kind
        self._type = np.dtype(number_type)
        self._folder = folder
        self.now = memory.zeros(1, np.int64)  # steps applied so far
        self._stamp = [memory.full(graph.num_nodes, -1, np.int32) for _ in widths]
        self._parts = [_sources(graph, width) for width in widths]
        # by layer and part, of all nodes or of a type
        self._value = [
            [self._allocate(own.num_nodes, width) for own, width in parts] for parts in self._parts
        ]
        # with kind "surveys", the first sum of every group
        self._sums = [
            [memory.LazyZeros((own.num_groups, width), np.float32) for own, width in parts]
            for parts in self._parts
        ]
        self._is_summed = memory.zeros(len(widths), np.bool_)

    @property
    def layers(self) -> int:
        """Number of layers that have a history."""
        return len(self._value)

    @property
    def title(self) -> str:
        """Name of this history in messages."""
        return f"a history with {len(self._value)} layers"

    def value(self, layer: int) -> FloatArray:
        """Latest input of each node in a sampled layer. float32[V, F] or float16[V, F].

        Inputs of types that differ in width are padded by zeros.
        """
        values = self._value[layer]
        return values[0] if len(values) == 1 else _padded(values)

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
        if self.kind == "surveys" and not self._is_summed[layer]:
            return block
        source, rows = block.src.numpy(), block.rows
        assert rows is not None  # of a block that a sampler drew
        age = torch.from_numpy(self.ages(layer, source))
        controls = [
            Control(
                torch.from_numpy(self._baseline(layer, part, rows)),
                torch.from_numpy(value[nodes].astype(np.float32, copy=False)),
            )
            for part, (value, (_, nodes)) in enumerate(
                zip(self._value[layer], self._split(layer, source), strict=True)
            )
        ]
        control: Control | TypedControl = replace(controls[0], age=age)
        if len(controls) > 1:
            control = TypedControl(tuple(controls), age)
        return replace(block, control=control, keeps_input=self.kind == "nodes")

    def _baseline(self, layer: int, part: int, rows: Rows) -> FloatArray:
        """First sums of the groups with sources of one part. float32[G, F]."""
        (sources, _), value = self._parts[layer][part], self._value[layer][part]
        own = sources.own(rows)
        if self.kind == "nodes":
            return sources.full_sums(own, value)
        sums = self._sums[layer][part]()[sources.place(own)]
        return sources.visible_sums(own, sums, value)

    def _split(self, layer: int, nodes: IntArray) -> list[tuple[Any, IntArray]]:
        """For each part, positions of its nodes in `nodes`, and their rows in its matrix."""
        parts = self._parts[layer]
        if len(parts) == 1:
            return [(slice(None), nodes)]
        assert self.graph.types is not None
        places = zip(parts, self.graph.types.places(nodes), strict=True)
        return [(place, nodes[place] - own.nodes.start) for (own, _), place in places]

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
            for part, (place, nodes) in enumerate(self._split(layer, source)):
                width = self._parts[layer][part][1]
                self._value[layer][part][nodes] = self._rounded(inputs[place, :width])
            self._stamp[layer][source] = self.now[0]

    def changed_rows(self, layer: int, news: Sequence[News]) -> RowSets:
        """Rows of the state that `apply` has just changed."""
        if self.kind == "surveys":
            return {}
        source = np.concatenate([shard[f"{PREFIX}source"] for shard in news])
        names, stamp = self._names(layer), f"{PREFIX}{layer}.stamp"
        if len(names) == 1:
            return {(names[0], stamp): source}
        rows = zip(names, self._split(layer, source), strict=True)
        changed: RowSets = {(stamp,): source}
        return changed | {(name,): nodes for name, (_, nodes) in rows}

    def _names(self, layer: int) -> list[str]:
        """Names of the matrices of a layer in the state."""
        own, parts = f"{PREFIX}{layer}.value", len(self._parts[layer])
        return [own] if parts == 1 else [f"{own}.{part}" for part in range(parts)]

    def begin_step(self) -> None:
        """Count a step."""
        self.now += 1

    def survey(self, layer: int, survey: Survey) -> None:
        """Write the history of all nodes: the surveyed input."""
        inputs = survey.input
        assert inputs is not None  # because of `needs_survey_input`
        self._check_width(layer, inputs)
        for (own, width), value in zip(self._parts[layer], self._value[layer], strict=True):
            value[:, inputs.shape[1] :] = 0  # a type without inputs may be the widest
            value[:, : inputs.shape[1]] = self._rounded(inputs[own.nodes, :width])
        self._stamp[layer][:] = self.now[0]
        self._sum_if_needed(layer)

    def state_dict(self) -> State:
        """The histories, and when they were written."""
        state: State = {f"{PREFIX}now": self.now}
        for layer, (values, stamp) in enumerate(zip(self._value, self._stamp, strict=True)):
            state |= dict(zip(self._names(layer), values, strict=True))
            state[f"{PREFIX}{layer}.stamp"] = stamp
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
        tables = zip(self._parts[layer], self._sums[layer], self._value[layer], strict=True)
        for (own, _), sums, value in tables:
            own.fill(sums(), value)
        self._is_summed[layer] = True

    def _rounded(self, inputs: FloatArray) -> FloatArray:
        if self._type == np.float32:
            return inputs
        given = inputs if inputs.flags.writeable else inputs.copy()  # updates of others are not
        clipped = torch.from_numpy(given).clamp(-_LARGEST_HALF, _LARGEST_HALF)
        half: FloatArray = clipped.half().numpy()  # NumPy's conversion takes three times as long
        return half

    def _allocate(self, num_nodes: int, width: int) -> Array:
        shape = num_nodes, width
        if self._folder is None or 0 in shape:
            return memory.zeros(shape, self._type)
        with writing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._folder) as file:  # the map outlives it
                return new_map(file, shape, self._type)

    def _check_width(self, layer: int, inputs: FloatArray) -> None:
        widths = [own for _, own in self._parts[layer]]
        if inputs.shape[1] not in widths:
            raise InputError(
                f"sampled layer {layer} has inputs of width {inputs.shape[1]}, but its history has "
                f"width {', '.join(map(str, widths))}: build the sampler with widths=... of this "
                "network."
            )


def _sources(graph: Graph, width: Width) -> list[tuple[Sources, int]]:
    """All nodes with one width, or the nodes of each type with their own."""
    if isinstance(width, int):
        return [(Sources(graph), width)]
    return list(zip(Sources.of_types(graph), width, strict=True))


def _padded(values: Sequence[Array]) -> Array:
    """Matrices below each other, padded by zeros to one width."""
    width = max(value.shape[1] for value in values)
    return np.concatenate([np.pad(one, ((0, 0), (0, width - one.shape[1]))) for one in values])


def declared_widths(
    widths: Sequence[Any], layers: int, types: GraphTypes | None = None
) -> tuple[Width, ...]:
    """Widths of the layers' inputs, checked: one per layer of the network.

    With types, an entry may be a dictionary. Types that it leaves out have no input in this layer.
    """
    checked = tuple(_declared(width, types) for width in widths)
    if len(checked) != layers:
        raise InputError(
            f"widths={list(widths)} has {len(checked)} entries for {layers} layers, but a history "
            "needs the width of each layer's input, that of an exact first layer included: pass "
            "for instance widths=[50, 256, 256]. If the network has fewer layers, pass fewer "
            "budgets: an exact first layer has none."
        )
    return checked


def _declared(width: Any, types: GraphTypes | None) -> Width:
    if not isinstance(width, Mapping):
        return checks.whole("widths", width, least=1)
    if types is None:
        raise InputError(
            f"widths has a dictionary, {width!r}, but the graph has no types of nodes: pass a "
            "number for each layer."
        )
    for name in width:
        types.node_type(name)  # raises an error for an unknown type
    by_type = tuple(
        checks.whole(f"widths of {name!r}", width.get(name, 0)) for name in types.node_types
    )
    return by_type[0] if len(set(by_type)) == 1 and by_type[0] else by_type
