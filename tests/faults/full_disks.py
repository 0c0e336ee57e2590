"""`python -m tests.faults.full_disks DISK`: write every kind of file to a disk that is too small.

DISK is a small file system of its own. Each case is tried with more and more free space, until it
succeeds. Before that it must end with one sentence and leave no scratch file; the same call must
then succeed once there is space. Trials are forks of this process, because a write to a map of a
full disk would end the process by a signal.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pooch
import torch
from torch_geometric.nn import GraphSAGE

from bliss import Graph
from bliss.data import import_graph, load_dataset, manifest, save_dataset
from bliss.data.sources import ENTRIES, Entry, Source
from bliss.data.store import save_graph
from bliss.distributed import shared_dataset
from bliss.engines.ray_worker import copy_run
from bliss.errors import ResourceError
from bliss.nn import GNN, Blockwise, ModelConfig, infer, inference
from bliss.report.page import write_figures, write_page
from bliss.samplers import Bliss, first_hop
from bliss.samplers.first_hop import FirstHop
from bliss.train.predictions import write_predictions
from bliss.train.tensorboard import tensorboard_writer
from tests.faults import TIMES
from tests.faults.jobs import JOBS, run_import, toy
from tests.train.runs import make_trainer
from tests.types.graphs import typed_dataset
from tests.types.test_typed_import import data_without_reverse, write_tables

BLOCK = 4096  # bytes: a page of the file system
MOST = 2**24  # bytes with which every case succeeds


@cache
def elsewhere() -> Path:
    """A folder on another disk."""
    return Path(tempfile.mkdtemp(prefix="bliss-elsewhere-"))


def features() -> torch.Tensor:
    return torch.randn(toy().graph.num_nodes, 40, generator=torch.Generator().manual_seed(0))


def network() -> GNN:
    torch.manual_seed(0)
    return GNN(40, 30, ModelConfig(layers=2, hidden=50))


def history(disk: Path) -> None:
    options = {"history": "nodes", "history_folder": str(disk / "history"), "x": features()}
    Bliss(toy().graph, [30], widths=[40, 64], **options).sample(np.arange(9), 0)


def exact_first_hop(disk: Path) -> None:
    with mock.patch.object(first_hop, "SUM_BYTES_IN_MEMORY", 0):
        FirstHop(toy().graph, features().numpy(), disk / "cache")


def outputs_in_a_file(disk: Path) -> None:
    infer(network(), toy().graph, features(), out=disk / "out.npy")


def outputs_of_a_model_in_a_file(disk: Path) -> None:
    torch.manual_seed(0)
    model = Blockwise(GraphSAGE(40, 50, num_layers=2, out_channels=30))
    infer(model, toy().graph, features(), out=disk / "out.npy")


def no_outputs_in_a_file(disk: Path) -> None:
    """Outputs of width 0, which are not mapped."""
    infer([lambda x, block: x[: block.num_dst, :0]], toy().graph, features(), out=disk / "out.npy")


def outputs_in_scratch(disk: Path) -> None:
    with mock.patch.object(inference, "OUTPUT_BYTES_IN_MEMORY", 0):
        infer(network(), toy().graph, features(), scratch=disk / "scratch")


def import_with_stamps(disk: Path) -> None:
    """As if all files were large enough for a stamp."""
    with mock.patch.object(manifest, "SMALL", 0):
        run_import(disk)


@cache
def typed_tables() -> dict[str, Any]:
    return write_tables(elsewhere(), data_without_reverse())


def import_with_types(disk: Path) -> None:
    if not (disk / "typed").exists():
        import_graph(disk / "typed", **typed_tables())


def save_weighted_graph(disk: Path) -> None:
    graph = toy().graph
    weight = np.ones(graph.num_edges, np.float32)
    save_graph(Graph(graph.indptr, graph.indices, "weights", weight), disk / "graph")


class _Download:
    """Stands in for the network."""

    def __init__(self, **_: Any) -> None:
        pass

    def __call__(self, url: str, target: str, _: Any) -> None:
        with zipfile.ZipFile(target, "w") as archive:
            archive.writestr("member", np.random.default_rng(0).bytes(50_000))


def download(disk: Path) -> None:
    entry = ENTRIES["computers"]
    (file,) = entry.files
    source = Source("https://example.org/a.zip", "a.zip", members={file: "member"})
    reader = f"{elsewhere.__module__}:nothing"
    changed = {"computers": Entry(entry.folder, entry.files, reader, (source,))}
    with (
        mock.patch.dict(ENTRIES, changed),
        mock.patch.object(pooch, "HTTPDownloader", _Download),
        mock.patch("bliss.data.catalog.import_module", lambda _: sys.modules[__name__]),
    ):
        load_dataset("computers", disk / "root")


def nothing(*_: Any) -> None:
    """Stands in for the reader of a downloaded file."""


def data_of_several_processes(disk: Path) -> None:
    with (
        mock.patch.object(shared_dataset, "_MEMORY", disk),
        mock.patch.object(tempfile, "tempdir", str(disk)),
    ):
        shared_dataset._written(toy())


def tensorboard(disk: Path) -> None:
    place = Path(tempfile.mkdtemp(dir=elsewhere()))
    trainer = make_trainer(toy(), place, steps=2, evaluate_every=1)
    with tensorboard_writer(disk) as log:
        trainer.run(on_evaluation=log)


@cache
def finished_run() -> Path:
    folder = elsewhere() / "finished"
    folder.mkdir()
    JOBS["train"].run(folder)
    return folder / "run"


def figures(disk: Path) -> None:
    """Two files; drawing is not what is tried here."""
    section = SimpleNamespace(charts=[SimpleNamespace(name="curve", figure=None)])
    with mock.patch("bliss.report.page.encode", lambda *_: bytes(20_000)):
        write_figures([section], disk / "figures", ("png", "svg"))


def predictions(name: str) -> Callable[[Path], None]:
    columns = {"node": list(range(9000)), "label": ["class"] * 9000}

    def write(disk: Path) -> None:
        write_predictions(disk / "deep" / name, iter([columns, columns]))

    return write


RUN = (
    *("train/folder.py:RunFolder.locked", "train/folder.py:RunFolder.write_settings"),
    *("train/folder.py:RunFolder.write_result", "train/folder.py:RunFolder.save_best"),
    *("train/incremental.py:CheckpointFiles.save", "train/incremental.py:_write"),
    *("storage/files.py:make_folder", "storage/files.py:replace_file", "storage/files.py:sync"),
    *("storage/files.py:replacing", "storage/records.py:write_sealed"),
    *("storage/records.py:Log.append", "storage/records.py:Log.rewrite"),
)
STORE = (
    *("data/npy.py:write_npy", "data/npy.py:write_npy_rows", "data/saving.py:write_store"),
    *(
        "data/store.py:write_graph",
        "data/store.py:write_graph_header",
        "storage/files.py:new_folder",
    ),
    *("data/manifest.py:write_header", "storage/files.py:scratch_folder"),
)
COMPARISON = (
    *("studies/comparison/comparison.py:compare", "storage/records.py:write"),
    "studies/comparison/matching.py:Matcher.measure",
    *("cli/advise.py:advise", "cli/variance.py:variance"),  # records, like compare.json
    "cli/train.py:evaluate",
)
CASES: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "run": (JOBS["train"].run, RUN),
    "comparison": (JOBS["compare"].run, COMPARISON),
    "import": (
        import_with_stamps,
        (
            *("data/sorting.py:EdgeSorter.write", "data/sorting.py:_Runs.__init__"),
            *("data/npy.py:GrowingNpy.__init__", "data/manifest.py:_keep"),
        ),
    ),
    "store": (lambda disk: save_dataset(toy(), disk / "store"), STORE),
    "store with types": (
        lambda disk: save_dataset(typed_dataset(), disk / "store"),
        ("data/typed_store.py:write_groups",),
    ),
    "import with types": (
        import_with_types,
        ("data/saving.py:_write_types", "data/typed_import.py:write_groups"),
    ),
    "graph": (save_weighted_graph, ("data/store.py:save_graph",)),
    "download": (download, ("data/download.py:download", "data/download.py:_fetch")),
    "data of several processes": (
        data_of_several_processes,
        ("distributed/shared_dataset.py:_written",),
    ),
    "history": (
        history,
        ("samplers/history.py:History._allocate", "storage/mapped.py:new_map"),
    ),
    "first hop": (
        exact_first_hop,
        ("storage/cached.py:cached_npy", "storage/mapped.py:new_npy"),
    ),
    "outputs in a file": (outputs_in_a_file, ("nn/inference.py:infer",)),
    "outputs of a model in a file": (
        outputs_of_a_model_in_a_file,
        ("nn/inference.py:_keep",),
    ),
    "outputs in a file, none": (no_outputs_in_a_file, ()),
    "outputs in scratch": (
        outputs_in_scratch,
        ("nn/outputs.py:Outputs.__init__", "nn/outputs.py:Outputs.write"),
    ),
    "predictions, csv": (
        predictions("a.csv"),
        ("train/predictions.py:write_predictions", "train/predictions.py:_csv"),
    ),
    "predictions, parquet": (predictions("a.parquet"), ("train/predictions.py:_parquet",)),
    "tensorboard": (tensorboard, ("train/tensorboard.py:tensorboard_writer",)),
    "copy of a run": (
        lambda disk: copy_run(finished_run(), disk / "run"),
        (
            *("engines/ray_worker.py:copy_run", "engines/ray_worker.py:copy_newer"),
            "engines/ray.py:fit",
        ),
    ),
    "page": (lambda disk: write_page([], disk / "page.html"), ("report/page.py:write_page",)),
    "figures": (figures, ("report/page.py:write_figures",)),
}
"""What is written to a full disk, and the functions that write it."""
ELSEWHERE = {
    "engines/ray.py:cluster": "an empty folder, which Ray fills",
    "data/npy.py:_map": "maps to read, or copy-on-write",
    "data/importing.py:preview_import": "an import in a temporary folder, as in that case",
    "report/style.py:encode": "into memory",
    "storage/memory.py:SharedMemory.create": "memory, not a disk",
    "storage/memory.py:SharedMemory.open": "memory, not a disk",
    "train/peak_memory.py:forget_peak": "a file of the system, not of a disk",
}
"""Functions that write nothing to a disk, or nothing of their own, and why."""


class Disk:
    """A file system whose free space is set by a file that takes the rest."""

    def __init__(self, path: Path) -> None:
        self.path, self.folder = path, path / "folder"
        self._rest = path / "rest"

    def free(self, room: int | None) -> None:
        """Leave so many bytes free; None: all of them."""
        self._rest.unlink(missing_ok=True)
        if room is not None:
            space = os.statvfs(self.path)
            with self._rest.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, space.f_bavail * space.f_frsize - room)

    def clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.free(None)
        self.folder.mkdir()


def attempt(name: str, folder: Path) -> dict[str, Any]:
    """Outcome of a case in a fork: its exit code, and its error as kind and text."""
    with tempfile.TemporaryFile() as answer:
        pid = os.fork()
        if not pid:
            code, found = 0, {"kind": "", "text": ""}
            try:
                CASES[name][0](folder)
            except ResourceError as error:
                found = {"kind": "ResourceError", "text": str(error)}
            except BaseException as error:
                found = {"kind": type(error).__name__, "text": str(error)}
            os.write(answer.fileno(), json.dumps(found).encode())
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        answer.seek(0)
        return {"code": code, **json.loads(answer.read() or b"{}")}


def is_clean(found: dict[str, Any], folder: Path) -> bool:
    """Whether a case succeeded, or ended with one sentence that says what to do."""
    text = found.get("text", "")
    is_told = "free disk space" in text or "TMPDIR" in text
    is_sentence = found.get("kind") == "ResourceError" and "\n" not in text and is_told
    is_tidy = not list(folder.rglob("*.bliss-scratch"))
    return found["code"] == 0 and (not found["kind"] or is_sentence) and is_tidy


def tried(name: str, disk: Disk) -> dict[str, Any]:
    """Try a case with more and more space; afterwards it goes on where it failed last."""
    rooms, random = [0], np.random.default_rng(0)
    trials, failures = 0, []
    while rooms[-1] <= MOST:
        disk.clear()
        disk.free(rooms[-1])
        found = attempt(name, disk.folder)
        trials += 1
        if not is_clean(found, disk.folder):
            failures.append({"room": rooms[-1], **found})
        if found["code"] == 0 and not found["kind"]:
            break
        if len(rooms) < 2 or TIMES > 1:
            disk.free(None)  # there is space again
            if again := _trouble(attempt(name, disk.folder)):
                failures.append({"room": rooms[-1], "again": again})
        rooms.append(max(BLOCK, rooms[-1] * (2 if TIMES > 1 else 8)))
    for room in random.integers(0, rooms[-1] // BLOCK + 1, 3 * (TIMES - 1)) * BLOCK:
        disk.clear()
        disk.free(int(room))
        trials += 1
        if not is_clean(found := attempt(name, disk.folder), disk.folder):
            failures.append({"room": int(room), **found})
    return {"case": name, "trials": trials, "needs": rooms[-1], "failures": failures}


def _trouble(found: dict[str, Any]) -> str:
    return "" if found["code"] == 0 and not found["kind"] else json.dumps(found)


def main() -> int:
    disk = Disk(Path(sys.argv[1]))
    try:
        disk.clear()
        for name in ("run", "import", "comparison"):  # loads kernels
            CASES[name][0](disk.folder)
            disk.clear()
        finished_run()
        for name in CASES:
            print(json.dumps(tried(name, disk)), flush=True)
    finally:
        shutil.rmtree(elsewhere(), ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
