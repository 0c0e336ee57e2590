"""One copy of the data per machine: the first process writes it to memory that all of them map."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bliss.data import Dataset, save_dataset
from bliss.data.store import open_store
from bliss.distributed.agreement import Communicator
from bliss.distributed.groups import Group, all_gather_text, first_ranks
from bliss.errors import ResourceError

_MEMORY = Path("/dev/shm")


def shared_dataset(group: Group, load: Callable[[], Dataset]) -> Dataset:
    """The data set that `load` returns, held once per machine.

    A store is memory-mapped anyway: every process opens it. Other data is loaded by the first
    process of each machine, written as a store to shared memory (or, if there is too little, to the
    folder of temporary files), and mapped by all. The files are deleted at once; the maps remain.
    """
    if group.size == 1:
        return load()
    communicator = Communicator(group)
    with communicator.sharing_errors():
        communicator.barrier()  # raises an error if another process has failed
        first = first_ranks(group)[group.rank]  # on this machine
        own = load() if first == group.rank else None
        is_store = own is not None and bool(own.digest)
        folder = Path() if own is None or is_store else _written(own)
        try:
            communicator.barrier()  # all data is written
            place = all_gather_text(group, "" if own is None or is_store else str(folder))[first]
            fingerprint = all_gather_text(group, "" if own is None else own.fingerprint)[first]
            if place:
                dataset = replace(open_store(Path(place) / "data"), digest=fingerprint)
            else:
                dataset = load() if own is None else own
            communicator.barrier()  # all have opened it
        finally:
            if folder != Path():
                shutil.rmtree(folder, ignore_errors=True)
        communicator.barrier()  # the files are gone
    return dataset


def _written(dataset: Dataset) -> Path:
    """A new folder that holds the data set as the store "data"."""
    needed = dataset.features_nbytes + dataset.y.nbytes + 2 * dataset.graph.indices.nbytes
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
