"""Datasets by name: where their files lie, who reads them, who fetches them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from bliss import checks
from bliss.data.benchmark import read_benchmark
from bliss.data.dataset import Dataset
from bliss.data.download import Fetch, download, from_pyg
from bliss.data.ogbn import fetch_ogbn, ogbn_files, read_ogbn
from bliss.data.own import HEADER, open_store
from bliss.data.planetoid import PARTS, read_planetoid
from bliss.data.reddit import read_reddit
from bliss.data.saint import FILES as SAINT_FILES
from bliss.data.saint import find_saint, read_saint
from bliss.data.synthetic import make_synthetic
from bliss.errors import InputError

StrPath = str | PathLike[str]


@dataclass(frozen=True)
class Entry:
    """One named dataset."""

    folder: str  # under the root
    files: tuple[str, ...]  # under the folder
    read: Callable[[str, Path, int], Dataset]  # name, folder, seed
    fetch: Fetch | None = None


class DatasetName(NamedTuple):
    """A name that `load_dataset` takes, and whether its files are there."""

    name: str
    present: bool


def data_root(root: StrPath | None = None) -> Path:
    """The folder of the named datasets: `root`, else $BLISS_DATA, else the user's cache."""
    given = root or os.environ.get("BLISS_DATA")
    if given:
        return Path(given).expanduser()
    if sys.platform == "win32":
        cache = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        cache = "~/Library/Caches"
    else:
        cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "bliss"


def dataset_names(root: StrPath | None = None) -> list[DatasetName]:
    """All names, each with whether its files are under the root."""
    place = data_root(root)
    return [DatasetName(name, not _missing(place, entry)) for name, entry in ENTRIES.items()]


def canonical(name: str) -> str:
    """A dataset's name as it is written here; a path stays as it is."""
    return name.lower() if name.lower() in ENTRIES else name


def load_dataset(name: StrPath, root: StrPath | None = None, seed: int = 0) -> Dataset:
    """Load a dataset by its name, or from a folder.

    Parameters
    ----------
    name
        A name of `dataset_names`, in any case; or the path of a folder: a store that
        `import_graph` wrote, or one in GraphSAINT's form.
    root
        The folder of the named datasets, see `data_root`. Missing files are downloaded into it
        where that is possible.
    seed
        For what is drawn: the synthetic graph, and the splits of computers, photo, cs and
        physics, which come without.
    """
    checks.whole("seed", seed)
    key = os.fspath(name).lower()
    if key in ENTRIES:
        return _load_named(key, data_root(root), seed)
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise InputError(
            f"dataset={os.fspath(name)!r} is neither a name nor a folder: choose one of "
            f"{', '.join(ENTRIES)}, or pass the path of a folder."
        )
    if (folder / HEADER).exists():
        return open_store(folder)
    if find_saint(folder) is None:
        raise InputError(
            f"dataset={os.fspath(name)!r} holds neither {HEADER} nor GraphSAINT's "
            f"{', '.join(SAINT_FILES)}: make a store of your graph with bliss data import."
        )
    resolved = folder.resolve()
    return read_saint(resolved.parent.name if resolved.name == "raw" else resolved.name, folder)


def missing_files(name: str, root: StrPath | None = None) -> str:
    """What is missing of a named dataset and where to get it, as a sentence; empty if nothing."""
    place, entry = data_root(root), ENTRIES[checks.choice("dataset", name.lower(), list(ENTRIES))]
    missing = _missing(place, entry)
    if not missing:
        return ""
    where = f"put {', '.join(missing)} into {place / entry.folder}"
    return (
        f"{where}, or let `bliss data info {name}` download them." if entry.fetch else f"{where}."
    )


def _load_named(name: str, root: Path, seed: int) -> Dataset:
    entry = ENTRIES[name]
    folder = root / entry.folder
    missing = _missing(root, entry)
    if missing:
        trouble = "they cannot be downloaded from here"
        if entry.fetch:
            trouble = f"the download failed: {download(entry.fetch, folder, missing)}"
        missing = _missing(root, entry)
        if missing:
            raise InputError(
                f"{name} needs {', '.join(missing)} in {folder} ({trouble}): put what is missing "
                "there, or name another root with root=..., --root or BLISS_DATA."
            )
    return entry.read(name, folder, seed)


def _missing(root: Path, entry: Entry) -> list[str]:
    return [file for file in entry.files if not (root / entry.folder / file).is_file()]


def _planetoid(folder: str) -> Entry:
    files = tuple(f"raw/ind.{folder.lower()}.{part}" for part in PARTS)
    return Entry(folder, files, read_planetoid, from_pyg("Planetoid", name=folder, split="public"))


def _saint(folder: str, has_download: bool = True) -> Entry:
    files = tuple(f"raw/{file}" for file in SAINT_FILES)
    return Entry(folder, files, read_saint, from_pyg(folder) if has_download else None)


def _benchmark(folder: str, file: str, kind: str, name: str) -> Entry:
    def read(name: str, folder: Path, seed: int) -> Dataset:
        return read_benchmark(name, folder / "raw" / file, seed)

    return Entry(folder, (f"raw/{file}",), read, from_pyg(kind, name=name))


def _ogbn(name: str) -> Entry:
    return Entry(name.replace("-", "_"), ogbn_files(name), read_ogbn, partial(fetch_ogbn, name))


def _synthetic(name: str, folder: Path, seed: int) -> Dataset:
    return make_synthetic(name, seed)


ENTRIES = {
    "cora": _planetoid("Cora"),
    "citeseer": _planetoid("CiteSeer"),
    "pubmed": _planetoid("PubMed"),
    "flickr": _saint("Flickr"),
    "reddit": Entry(
        "Reddit", ("raw/reddit_data.npz", "raw/reddit_graph.npz"), read_reddit, from_pyg("Reddit")
    ),
    "reddit2": _saint("Reddit2"),
    "yelp": _saint("Yelp"),
    "ppi": _saint("PPI", has_download=False),  # PyG's PPI has another form
    "computers": _benchmark("Computers", "amazon_electronics_computers.npz", "Amazon", "computers"),
    "photo": _benchmark("Photo", "amazon_electronics_photo.npz", "Amazon", "photo"),
    "cs": _benchmark("CS", "ms_academic_cs.npz", "Coauthor", "CS"),
    "physics": _benchmark("Physics", "ms_academic_phy.npz", "Coauthor", "Physics"),
    "ogbn-arxiv": _ogbn("ogbn-arxiv"),
    "ogbn-products": _ogbn("ogbn-products"),
    "synthetic": Entry("", (), _synthetic),
}
