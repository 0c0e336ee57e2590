"""The network: missing files of named datasets, fetched with PyG's download functions."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

Fetch = Callable[[Path], Path]  # a scratch folder -> the folder that took the place of root/<Name>


def from_pyg(kind: str, **fields: str) -> Fetch:
    """Download as the class `kind` of torch_geometric.datasets does, and do nothing else.

    Its constructor would also process the files and keep them as a pickle, so it is not called.
    """

    def fetch(staging: Path) -> Path:
        from torch_geometric import datasets

        bare: Any = object.__new__(getattr(datasets, kind))
        bare.root = str(staging)
        for name, value in fields.items():
            setattr(bare, name, value)
        raw = Path(bare.raw_dir)
        raw.mkdir(parents=True, exist_ok=True)
        bare.download()
        return raw.parent

    return fetch


def download(fetch: Fetch, folder: Path, missing: Sequence[str]) -> str:
    """Put the missing files of a folder in their places; what went wrong, or nothing.

    Files arrive in a scratch folder first, so that a broken download leaves no half of a file.
    """
    root = folder.parent
    is_new = not root.exists()
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".download-", dir=root) as staging:
            found = fetch(Path(staging))
            for file in missing:
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                os.replace(found / file, folder / file)
    except Exception as error:  # network libraries raise what they like
        if is_new:
            with suppress(OSError):
                root.rmdir()
        return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    return ""
