"""ogbn-arxiv and ogbn-products, from the text files that OGB publishes.

OGB's own loader keeps what it read as a pickle and opens that the next time; here the published
files are read themselves, and `ogb` is only needed to fetch them. It takes minutes for products:
import it to a store if you open it often.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bliss.data.dataset import Dataset
from bliss.data.features import finite_rows
from bliss.data.planetoid import undirected
from bliss.errors import InputError

SPLIT_FOLDER = {"ogbn-arxiv": "time", "ogbn-products": "sales_ranking"}
URL = "http://snap.stanford.edu/ogb/data/nodeproppred/{}.zip"


def ogbn_files(name: str) -> tuple[str, ...]:
    """What must be in the folder."""
    raw = [f"raw/{part}.csv.gz" for part in ("edge", "node-feat", "node-label")]
    split = [f"split/{SPLIT_FOLDER[name]}/{part}.csv.gz" for part in ("train", "valid", "test")]
    return (*raw, *split)


def read_ogbn(name: str, folder: Path, seed: int) -> Dataset:
    """Read a folder of OGB. The graph is made undirected, as OGB's own baselines do."""
    edge, feature, label, *ids = ogbn_files(name)
    pairs = _read(folder / edge, np.int64)
    (x,) = finite_rows("node-feat", [_read(folder / feature, np.float32)])
    y = _read(folder / label, np.int64)[:, 0]
    if pairs.shape[1] != 2 or len(x) != len(y):
        raise InputError(f"the files in {folder} do not belong together: get them again.")
    splits = {
        key: torch.from_numpy(np.sort(_read(folder / file, np.int64)[:, 0]))
        for key, file in zip(("train", "val", "test"), ids, strict=True)
    }
    graph = undirected(pairs.T, len(y))
    return Dataset(name, graph, torch.from_numpy(x), torch.from_numpy(y), splits, int(y.max()) + 1)


def fetch_ogbn(name: str, staging: Path) -> Path:
    """Download and unpack with the functions of `ogb`; the folder with raw/ and split/."""
    try:
        from ogb.utils.url import download_url, extract_zip
    except ImportError as error:
        raise InputError("the package ogb is missing: pip install 'bliss-gnn[ogb]'") from error
    short = name.removeprefix("ogbn-")
    extract_zip(download_url(URL.format(short), str(staging)), str(staging))
    return staging / short


def _read(file: Path, dtype: type) -> npt.NDArray[Any]:
    try:
        table: npt.NDArray[Any] = np.loadtxt(file, dtype, delimiter=",", ndmin=2)
    except (ValueError, OSError, EOFError, zlib.error) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{file} cannot be read as numbers ({reason}): get it again.") from error
    return np.ascontiguousarray(table)
