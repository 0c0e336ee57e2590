"""Load datasets by name or from a folder. Readers are imported when they are needed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bliss import checks
from bliss.data.safe_reading import in_one_sentence
from bliss.data.sources import ENTRIES, SAINT_FILES, Entry
from bliss.errors import InputError

if TYPE_CHECKING:
    from bliss.data.dataset import Dataset

StrPath = str | PathLike[str]


class DatasetName(NamedTuple):
    """A name that `load_dataset` takes, and whether the files are present."""

    name: str
    present: bool


class Verified(NamedTuple):
    """The files of a dataset, as paths under its folder."""

    checked: list[str]  # that match their digest
    unknown: list[str]  # that have no digest


def data_root(root: StrPath | None = None) -> Path:
    """Folder of the named datasets: `root`, otherwise $BLISS_DATA, otherwise the user's cache."""
    given = root or os.environ.get("BLISS_DATA")
    return checks.path("root", given) if given else cache_folder()


def cache_folder() -> Path:
    """The user's cache."""
    if sys.platform == "win32":
        cache = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        cache = "~/Library/Caches"
    else:
        cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return checks.path("root", cache) / "bliss"


def dataset_names(root: StrPath | None = None) -> list[DatasetName]:
    """All names, each with whether its files are under the root."""
    place = data_root(root)
    return [DatasetName(name, not _missing(place, entry)) for name, entry in ENTRIES.items()]


def canonical(name: str) -> str:
    """The name of a dataset in lower case. A path is returned unchanged."""
    return name.lower() if name.lower() in ENTRIES else name


def load_dataset(
    name: StrPath, root: StrPath | None = None, seed: int = 0, verify: bool = False
) -> Dataset:
    """Load a dataset by its name, or from a folder.

    Parameters
    ----------
    name
        A name of `dataset_names`, in upper or lower case; or the path of a folder: a store that
        `import_graph` wrote, or a folder in GraphSAINT's form.
    root
        The folder of the named datasets, see `data_root`. Missing files are downloaded into it if
        possible.
    seed
        Seed of the synthetic graph, and of the splits of computers, photo, cs and physics, which
        have no published splits.
    verify
        Whether to compare every file with its digest, see `verify_dataset`.
    """
    checks.whole("seed", seed)
    with _found(name) as (known, folder):
        dataset = _load_named(known, data_root(root), seed) if known else _load_folder(folder)
    if verify:
        verify_dataset(name, root)
    return dataset


def verify_dataset(name: StrPath, root: StrPath | None = None) -> Verified:
    """Compare every file of a dataset with its digest, if one is known.

    Stores have the digests of all their files. Those of the named datasets are published, or were
    recorded at the download.
    """
    with _found(name) as (known, folder):
        if known:
            from bliss.data.download import verify_files

            entry = ENTRIES[known]
            checked = verify_files(entry.sources, data_root(root) / entry.folder)
            return Verified(checked, [file for file in entry.files if file not in checked])
        from bliss.data.store import DATASET_HEADER, verify_store

        if (folder / DATASET_HEADER).exists():
            return Verified(verify_store(folder), [])
        return Verified([], sorted(SAINT_FILES))


@contextmanager
def _found(dataset: StrPath) -> Iterator[tuple[str, Path]]:
    """The name of a named dataset, or "" and a folder. Errors of readers become one sentence."""
    folder = checks.path("dataset", dataset)
    text = os.fspath(dataset)
    known = text.lower() if text.lower() in ENTRIES else ""
    if not known and not folder.is_dir():
        raise InputError(
            f"dataset={text!r} is neither a name nor a folder: choose one of "
            f"{', '.join(ENTRIES)}, or pass the path of a folder."
        )
    with in_one_sentence(f"dataset={text!r}", "a dataset", "write or download its files again"):
        yield known, folder


def missing_files(name: str, root: StrPath | None = None) -> str:
    """A sentence that says which files of a named dataset are missing; empty if none is."""
    if name.lower() not in ENTRIES:
        raise InputError(f"dataset={name!r} is not known: choose one of {', '.join(ENTRIES)}.")
    place, entry = data_root(root), ENTRIES[name.lower()]
    missing = _missing(place, entry)
    if not missing:
        return ""
    where = f"put {', '.join(missing)} into {place / entry.folder}"
    return (
        f"{where}, or let `bliss data info {name}` download them." if entry.sources else f"{where}."
    )


def _load_named(name: str, root: Path, seed: int) -> Dataset:
    entry = ENTRIES[name]
    folder = root / entry.folder
    missing = _missing(root, entry)
    if missing:
        from bliss.data.download import DownloadError, download

        try:
            if not entry.sources:
                raise DownloadError("there is no download")
            download(entry.sources, folder, missing)
        except DownloadError as error:
            trouble = f"the download failed: {error}" if entry.sources else str(error)
            raise InputError(
                f"{name} needs {', '.join(missing)} in {folder} ({trouble}): put the files there, "
                "or choose another root with root=..., --root or BLISS_DATA."
            ) from error
    module, function = entry.reader.split(":")
    dataset: Dataset = getattr(import_module(f"bliss.data.{module}"), function)(name, folder, seed)
    return dataset


def _load_folder(folder: Path) -> Dataset:
    from bliss.data.graphsaint import find_saint, read_saint
    from bliss.data.store import DATASET_HEADER, open_store

    if (folder / DATASET_HEADER).exists():
        return open_store(folder)
    if find_saint(folder) is None:
        raise InputError(
            f"dataset={str(folder)!r} holds neither {DATASET_HEADER} nor GraphSAINT's "
            f"{', '.join(SAINT_FILES)}: make a store of your graph with bliss data import."
        )
    resolved = folder.resolve()
    return read_saint(resolved.parent.name if resolved.name == "raw" else resolved.name, folder)


def _missing(root: Path, entry: Entry) -> list[str]:
    return [file for file in entry.files if not (root / entry.folder / file).is_file()]
