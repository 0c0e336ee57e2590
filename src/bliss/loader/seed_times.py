"""Times of seeds, from the options of loaders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bliss import checks
from bliss.arrays import IntArray
from bliss.errors import InputError
from bliss.graph import Cutoff
from bliss.graph.cutoff import check_times
from bliss.samplers.base import Sampler

if TYPE_CHECKING:
    from bliss.loader.seeds import NodeSeeds


@dataclass(frozen=True, eq=False)
class SeedTimes:
    """Time of each seed, and what it may see: at most this time, or earlier ones, in a window."""

    time: IntArray  # int64[N]
    strict: bool = False
    window: int | None = None

    @classmethod
    def of(
        cls,
        field: str,
        time: Any,
        size: int,
        sampler: Sampler,
        strict: bool = False,
        window: int | None = None,
    ) -> SeedTimes | None:
        """Times from the option `field` of a loader; None if the graph has no times."""
        if time is None:
            if sampler.graph.has_times:
                raise InputError(
                    f"the sampler's graph has times, but {field} is missing, so seeds would see "
                    f"their future: pass {field}, or time_attr to the loader, or build the sampler "
                    "without time_attr."
                )
            if window is not None:
                raise InputError(
                    f"time_window={window!r} has no effect without times of seeds: pass {field}."
                )
            return None
        sampler.check_times()
        times = check_times(field, time, size, "seed")
        rule = cls(times, checks.flag("time_strict", strict), window)
        rule.cutoff(np.arange(size))  # checks the window and the largest time
        return rule

    def cutoff(self, index: IntArray) -> Cutoff:
        """Times that the seeds at some positions may see."""
        return Cutoff.of(self.time[index], self.strict, self.window)

    @property
    def order(self) -> IntArray:
        """Positions of the seeds in the order of time. int64[N]."""
        return np.argsort(self.time, kind="stable")


def node_times(data: Any, name: str | None, seeds: NodeSeeds) -> Any:
    """Times of seeds from an attribute of a PyG `Data`, PyG's default for `input_time`; or None."""
    if name is None:
        return None
    store = data if seeds.node_type is None else data[seeds.node_type]
    given = getattr(store, name, None)
    if given is None:
        shown = "data" if seeds.node_type is None else f"data[{seeds.node_type!r}]"
        raise InputError(
            f"time_attr={name!r}, but {shown} has no attribute {name!r}: pass input_time."
        )
    if not store.is_node_attr(name):
        raise InputError(
            f"time_attr={name!r} holds times of edges, which do not say when a node is a seed: "
            "pass input_time, one time per input node."
        )
    times = check_times(f"data.{name}", given, store.num_nodes, "node")
    return times[seeds.node - seeds.first]
