"""One copy of the data per machine: the first process writes it to memory that all of them map."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bliss.data import Dataset, save_dataset
from bliss.data.store import open_store
from bliss.distributed.groups import Group, first_ranks, gather_text
from bliss.distributed.rounds import Rounds
from bliss.errors import ResourceError

_MEMORY = Path("/dev/shm")


def shared_dataset(group: Group, load: Callable[[], Dataset]) -> Dataset:
    """The data set that `load` returns, held once per machine.

    A store is memory-mapped anyway: every process opens it. Other data is loaded by the first
    process of each machine, written as a store to shared memory (or, if there is too little, to the
    folder of temporary files), and mapped by all. The files are deleted at once; the maps remain.
    """
    rounds = Rounds(group)
    if group.size == 1:
        return load()
    with rounds.guarded():
        rounds.meet()  # raises an error if another process has failed
        leader = first_ranks(group)[group.rank]
        own = load() if leader == group.rank else None
        is_store = own is not None and bool(own.digest)
        folder = Path() if own is None or is_store else _written(own)
        try:
            rounds.meet()  # all leaders have written
            told = gather_text(group, "" if own is None or is_store else str(folder))
            marks = gather_text(group, "" if own is None else own.fingerprint)
            if told[leader]:
                name = Path(told[leader])
                found = replace(open_store(name / "data"), digest=marks[leader])
            else:
                found = load() if own is None else own
            rounds.meet()  # all have opened it
        finally:
            if folder != Path():
                shutil.rmtree(folder, ignore_errors=True)
        rounds.meet()  # the files are gone
    return found


def _written(dataset: Dataset) -> Path:
    """A new folder that holds the data set as the store "data"."""
    needed = dataset.x.nbytes + dataset.y.nbytes + 2 * dataset.graph.indices.nbytes
    needed += dataset.graph.indptr.nbytes + dataset.graph.weight.nbytes
    places = [str(_MEMORY)] if _MEMORY.is_dir() else []
    for place in [*places, tempfile.gettempdir()]:
        if shutil.disk_usage(place).free > needed:
            folder = Path(tempfile.mkdtemp(prefix="bliss-", dir=place))
            try:
                save_dataset(dataset, folder / "data")
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            return folder
    raise ResourceError(
        f"the data needs {needed:,} bytes that the processes of a machine share, but there are not "
        "as many in /dev/shm or the folder of temporary files: make a store with "
        "`bliss data import`, or set TMPDIR."
    )
