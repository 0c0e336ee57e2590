"""Damage to every file of every folder that bliss reads again: one sentence, or the same result.

The files are those that small jobs leave, so a new one is damaged, too, without a change here.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
import pooch
import pytest

from bliss.data import load_dataset, manifest, save_dataset, verify_dataset
from bliss.data.sources import ENTRIES, Entry, Source
from bliss.data.store import open_graph, save_graph
from bliss.errors import DamagedError, InputError, ResourceError
from bliss.samplers import first_hop
from bliss.train import checkpoints
from tests.faults import TIMES
from tests.faults.jobs import JOBS, run_import, toy, training
from tests.fuzz.saved import read_predictions, read_run
from tests.fuzz.subjects import Subject, dataset_digest, digest_of
from tests.train.runs import make_trainer, stopped, trained

pytestmark = pytest.mark.slow

CHANGES = {"steps": 12, "evaluate_every": 4, "policy": "node", "survey": False}


def write_stopped(folder: Path) -> None:
    """A run with incremental checkpoints, stopped after step 10 of 12."""
    with mock.patch.object(checkpoints, "WHOLE_STATE_BYTES", 0):
        stopped(make_trainer(toy(), folder / "run", **CHANGES), 10, 15)


def resume(folder: Path) -> str:
    job = training(**CHANGES)
    job.run(folder)
    return job.digest(folder)


def write_finished(folder: Path) -> None:
    trained(toy(), folder / "run", **CHANGES)


def read_finished(folder: Path) -> str:
    return read_run(folder / "run") + read_predictions(folder / "run")


def open_import(folder: Path) -> str:
    return dataset_digest(load_dataset(folder / "new" / "store"))


@contextmanager
def stamping():
    """As if all files were large enough for a stamp."""
    with mock.patch.object(manifest, "SMALL", 0):
        yield


def save_stamped(folder: Path) -> None:
    with stamping():
        save_dataset(toy(), folder / "store")
        load_dataset(folder / "store")


def open_stamped(folder: Path) -> str:
    with stamping():
        return dataset_digest(load_dataset(folder / "store"))


def read_graph(folder: Path) -> str:
    graph = open_graph(folder / "graph")
    return digest_of(graph.indptr, graph.indices, graph.norm)


def train_with_first_hop(folder: Path) -> str:
    """A run whose aggregated features are in the user's cache; the run itself is elsewhere."""
    cache = {"XDG_CACHE_HOME": str(folder / "cache")}
    with (
        mock.patch.dict(os.environ, cache),
        mock.patch.object(first_hop, "SUM_BYTES_IN_MEMORY", 0),
    ):
        place = folder.parent / "other"
        shutil.rmtree(place, ignore_errors=True)
        _, result = trained(toy(), place, first_hop="exact", budgets=(30,), steps=2)
        return digest_of(result.test_score, result.val_score, result.sampled)


@contextmanager
def downloading():
    """A data set of one file without a published digest, and a network that has it."""
    entry = ENTRIES["computers"]
    sources = tuple(Source(f"https://example.org/{file}", file) for file in entry.files)
    changed = {"computers": Entry(entry.folder, entry.files, entry.reader, sources)}

    def downloader(**_) -> Callable[..., None]:
        return lambda url, target, _: Path(target).write_bytes(url.encode() * 100)

    with (
        mock.patch.dict(ENTRIES, changed),
        mock.patch.object(pooch, "HTTPDownloader", downloader),
    ):
        yield


def download(folder: Path) -> None:
    with downloading(), pytest.raises(InputError):  # what arrives is no data set
        load_dataset("computers", folder)


def verify(folder: Path) -> str:
    with downloading():
        return digest_of(verify_dataset("computers", folder))


def run_job(name: str) -> Callable[[Path], str]:
    def run(folder: Path) -> str:
        JOBS[name].run(folder)
        return JOBS[name].digest(folder)

    return run


FOLDERS = {
    "run, resumed": Subject(write_stopped, resume),
    "run, read": Subject(write_finished, read_finished),
    "store": Subject(run_import, open_import),
    "store with stamps": Subject(save_stamped, open_stamped),
    "graph": Subject(lambda folder: save_graph(toy().graph, folder / "graph"), read_graph),
    "cache of the first hop": Subject(train_with_first_hop, train_with_first_hop),
    "comparison": Subject(JOBS["compare"].run, run_job("compare")),
    "download": Subject(download, verify),
}


OPTIONAL = {
    "result.json": "the run is not finished",
    "amazon_electronics_computers.npz.sha256": "no digest of the file is known",
}
"""Files that may be missing, and what that means."""


def flip(content: bytes, random: np.random.Generator) -> bytes:
    """Another bit."""
    changed = bytearray(content)
    changed[random.integers(len(content))] ^= 1 << int(random.integers(8))
    return bytes(changed)


def count(content: bytes, random: np.random.Generator) -> bytes:
    """Another digit: texts stay valid."""
    changed = bytearray(content)
    digits = [place for place, byte in enumerate(content) if byte in b"0123456789"]
    if not digits:
        return flip(content, random)
    place = digits[random.integers(len(digits))]
    changed[place] = ord("0") + (changed[place] - ord("0") + 1) % 10
    return bytes(changed)


DAMAGE: dict[str, Callable[[bytes, np.random.Generator], bytes] | None] = {
    "flipped bit": flip,
    "cut in half": lambda content, _: content[: len(content) // 2],
    "another digit": count,
    "zeros": lambda content, _: bytes(len(content)),
    "emptied": lambda content, _: b"",
    "longer": lambda content, _: content + b"\0more",
    "removed": None,
    "a folder": None,
}


def damage(file: Path, kind: str, random: np.random.Generator) -> None:
    content, change = file.read_bytes(), DAMAGE[kind]
    if change is None or not content:
        file.unlink()
        if kind != "removed":
            file.mkdir()
    else:
        file.write_bytes(change(content, random))


def outcome(subject: Subject, folder: Path, expected: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a cache that is computed again says so
            found = subject.read(folder)
    except (InputError, DamagedError, ResourceError) as error:
        return "sentence" if "\n" not in str(error) else f"several lines: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "same result" if found == expected else "another result"


@pytest.mark.parametrize("name", FOLDERS)
def test_damage_to_any_file_gives_one_sentence_or_the_same_result(name, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # power loss is tried elsewhere
    subject, base, work = FOLDERS[name], tmp_path / "base", tmp_path / "work"
    base.mkdir()
    subject.make(base)
    shutil.copytree(base, work)
    expected = subject.read(work)
    files = sorted(path.relative_to(base) for path in base.rglob("*") if path.is_file())
    assert files
    counts, kinds = {"sentence": 0, "same result": 0}, list(DAMAGE)
    for number, file in enumerate(files):
        chosen = kinds if TIMES > 1 else [kinds[number % 8], kinds[(number + 3) % 8]]
        for kind in chosen:
            for trial in range(TIMES if DAMAGE[kind] in (flip, count) else 1):
                shutil.rmtree(work)
                shutil.copytree(base, work)
                damage(work / file, kind, np.random.default_rng([number, trial]))
                found = outcome(subject, work, expected)
                if kind == "removed" and file.name in OPTIONAL:
                    continue
                assert found in counts, f"{file}, {kind}: {found}"
                counts[found] += 1
    print(f"damage, {name}: {len(files)} files, {counts}")
    assert counts["sentence"] + counts["same result"] >= len(files)
