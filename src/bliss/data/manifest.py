"""Digests of the files of a store, kept in the store's headers.

A header is a JSON file with a digest of itself, and with the digests of its files under "files".
Files of up to 64 MiB are compared with their digest whenever a store is opened. A larger file is
compared once, and its size and modification time are kept in stamps.json: it is compared again if
they have changed, or on request (`verify`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bliss.data.reading import reading
from bliss.digests import file_digest, is_sealed, sealed
from bliss.errors import DamagedError, InputError, ResourceError
from bliss.files import replace_file

SMALL = 1 << 26
"""Size in bytes up to which a file is read to compare its digest at each opening."""
STAMPS = "stamps.json"


def write_header(file: Path, content: Mapping[str, Any], names: Iterable[str]) -> None:
    """Write a header with the digests of the named files beside it."""
    folder = file.parent
    files = {name: file_digest(folder / name) for name in names}
    file.write_text(json.dumps(sealed({**content, "files": files}), indent=2), encoding="utf-8")
    _write_stamps(folder, {name: _stamp(folder / name) for name in files})


def read_header(file: Path, form: str, names: Collection[str], remedy: str) -> dict[str, Any]:
    """Read a header of format `form` that has the digests of at least the named files."""
    header = read_json(file, remedy)
    if not isinstance(header, dict) or header.get("format") != form:
        raise InputError(f"{file} is not of format {form!r}: {remedy}.")
    files = header.get("files")
    if not is_sealed(header) or not isinstance(files, dict) or not set(names) <= set(files):
        raise DamagedError(f"{file} does not match its digest: it is damaged, {remedy}.")
    return header


def check_files(folder: Path, files: Mapping[str, str], verify: bool = False) -> None:
    """Compare files with their digests; with `verify`, also large ones that have not changed."""
    known = _read_stamps(folder)
    stamps = {name: _stamp(folder / name) for name in files}
    for name, digest in files.items():
        if stamps[name][0] > SMALL and known.get(name) == stamps[name] and not verify:
            continue
        with reading(folder / name, "a file", "check the disk"):
            found = file_digest(folder / name)
        if found != digest:
            raise DamagedError(
                f"{folder / name} does not match its digest: it is damaged or was changed, restore "
                "it or write the folder again."
            )
    with suppress(ResourceError):  # a store that cannot be written is compared each time
        _write_stamps(folder, stamps)


def read_json(file: Path, remedy: str = "write it again") -> Any:
    """Read a JSON file. An object that repeats a key is refused."""
    with reading(file, "JSON", remedy):
        text = file.read_text(encoding="utf-8")
        return json.loads(text, object_pairs_hook=_distinct)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} is there twice")
        found[key] = value
    return found


def _stamp(file: Path) -> list[int]:
    """Size and modification time."""
    with reading(file, "a file", "check the disk"):
        status = file.stat()
    return [status.st_size, status.st_mtime_ns]


def _read_stamps(folder: Path) -> dict[str, Any]:
    try:
        known = read_json(folder / STAMPS)
    except InputError:  # missing or damaged: large files are compared again
        return {}
    return known if isinstance(known, dict) else {}


def _write_stamps(folder: Path, stamps: Mapping[str, list[int]]) -> None:
    """Keep the stamps of large files."""
    known = _read_stamps(folder)
    large = {name: stamp for name, stamp in stamps.items() if stamp[0] > SMALL}
    if not large.items() <= known.items():
        replace_file(folder / STAMPS, json.dumps({**known, **large}).encode())
