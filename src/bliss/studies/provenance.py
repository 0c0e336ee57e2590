"""Where numbers come from: machine, versions, load, date and graph."""

from __future__ import annotations

import os
import platform
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from bliss.storage.records import Record

if TYPE_CHECKING:
    from bliss.data import Dataset


class Machine(Record, frozen=True, kw_only=True):
    """The machine and the versions that the numbers were measured with."""

    processor: str
    cores: int | None
    threads: int
    torch: str
    python: str


class GraphFacts(Record, frozen=True, kw_only=True):
    """Size of a graph. Edges are directed and without self-loops."""

    nodes: int
    edges: int
    features: int
    classes: int


def machine() -> Machine:
    """The current machine and the versions in use."""
    import torch  # reports do without

    return Machine(
        processor=processor(),
        cores=os.cpu_count(),
        threads=torch.get_num_threads(),
        torch=str(torch.__version__),
        python=platform.python_version(),
    )


def load_per_core() -> float | None:
    """Running processes per core over the last minute; None if the system does not report it."""
    if not hasattr(os, "getloadavg"):
        return None
    return os.getloadavg()[0] / (os.cpu_count() or 1)


def graph_facts(dataset: Dataset) -> GraphFacts:
    """Size of a data set's graph."""
    graph = dataset.graph
    return GraphFacts(
        nodes=graph.num_nodes,
        edges=graph.num_edges - graph.num_self_loops,
        features=dataset.num_features,
        classes=dataset.num_classes,
    )


def today() -> str:
    """Date and time, UTC, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def processor() -> str:
    """Name of the processor, if the system reports it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":")[1].strip()
    return platform.processor() or platform.machine()
