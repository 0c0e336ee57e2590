"""Digests of the files of a store, kept in the store's headers.

A header is a JSON file with a digest of itself, and with the digests of its files under "files".
Files of up to 64 MiB are compared with their digest whenever a store is opened. A larger file is
compared once, and its size, its times of modification and change and its digest are kept in
stamps.json: it is compared again if one of them differs, or on request (`verify`). A copy has
another time of change, so the stamps that came with it count for nothing.

stamps.json also holds the digest of each header whose arrays have passed every check of their
values. The arrays of another header are checked when they are opened.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bliss.data.safe_reading import reading
from bliss.errors import DamagedError, InputError, ResourceError
from bliss.storage.digests import file_digest, is_sealed, sealed
from bliss.storage.files import replace_file

SMALL = 1 << 26
"""Size in bytes up to which a file is read to compare its digest at each opening."""
STAMPS = "stamps.json"
_CHECKED = "checked "  # before the name of a header whose arrays were checked


def write_header(file: Path, content: Mapping[str, Any], names: Iterable[str]) -> None:
    """Write a header with the digests of the named files beside it."""
    folder = file.parent
    files = {name: file_digest(folder / name) for name in names}
    header = sealed({**content, "files": files})
    file.write_text(json.dumps(header, indent=2), encoding="utf-8")
    _write_stamps(folder, {name: stamp(folder / name, files[name]) for name in files})
    _write_checked(folder, file.name, header)


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
    stamps, known = _compared(folder, files, verify)
    large = {name for name, stamp in stamps.items() if stamp[0] > SMALL}
    with suppress(ResourceError):  # a store that cannot be written is compared each time
        _write_stamps(folder, stamps, keep_marks=verify or large <= known)


@contextmanager
def checking_values(
    folder: Path, name: str, header: Mapping[str, Any], arrays: Collection[str], verify: bool
) -> Iterator[bool]:
    """Compare the files of a header, and yield whether the values of its arrays must be checked.

    They need not be if the header is marked as checked and the named arrays are large files that
    have not changed since. Stamps and mark are written together, and only if no error is raised: a
    stamp without a check would let a mark count that came with a copy. `name` is the header's file.
    """
    stamps, known = _compared(folder, header.get("files", {}), verify)
    digest = header.get("digest")
    is_checked = bool(digest) and _read_stamps(folder).get(_CHECKED + name) == digest
    yield verify or not (is_checked and set(arrays) <= known)
    with suppress(ResourceError):
        _write_stamps(folder, stamps)
        _write_checked(folder, name, header)


def _compared(
    folder: Path, files: Mapping[str, str], verify: bool
) -> tuple[dict[str, list[Any]], set[str]]:
    """Stamps of files that match their digests, and large files whose stamps were known."""
    kept = _read_stamps(folder)
    stamps = {name: stamp(folder / name, digest) for name, digest in files.items()}
    known = {name for name, stamp in stamps.items() if stamp[0] > SMALL and kept.get(name) == stamp}
    for name, digest in files.items():
        if name in known and not verify:
            continue
        with reading(folder / name, "a file", "check the disk"):
            actual = file_digest(folder / name)
        if actual != digest:
            raise DamagedError(
                f"{folder / name} does not match its digest: it is damaged or was changed, restore "
                "it or write the folder again."
            )
    return stamps, known


def read_json(file: Path, remedy: str = "write it again") -> Any:
    """Read a JSON file. An object that repeats a key is refused."""
    with reading(file, "JSON", remedy):
        text = file.read_text(encoding="utf-8")
        return json.loads(text, object_pairs_hook=_distinct)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for key, value in pairs:
        if key in entries:
            raise ValueError(f"the key {key!r} is there twice")
        entries[key] = value
    return entries


def stamp(file: Path, digest: str) -> list[Any]:
    """What is kept of a file: size, times of modification and of change, digest."""
    with reading(file, "a file", "check the disk"):
        status = file.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, digest]


def _read_stamps(folder: Path) -> dict[str, Any]:
    try:
        known = read_json(folder / STAMPS)
    except InputError:  # missing or damaged: large files are compared again
        return {}
    return known if isinstance(known, dict) else {}


def _write_stamps(folder: Path, stamps: Mapping[str, list[Any]], keep_marks: bool = True) -> None:
    """Keep the stamps of large files. Without `keep_marks`, headers are checked again."""
    _keep(folder, {name: stamp for name, stamp in stamps.items() if stamp[0] > SMALL}, keep_marks)


def _write_checked(folder: Path, name: str, header: Mapping[str, Any]) -> None:
    """Keep the digest of a header with large files whose arrays were checked."""
    files = header.get("files", {})
    if any((folder / file).stat().st_size > SMALL for file in files):
        _keep(folder, {_CHECKED + name: header["digest"]})


def _keep(folder: Path, entries: Mapping[str, Any], keep_marks: bool = True) -> None:
    known = _read_stamps(folder)
    kept = {n: mark for n, mark in known.items() if keep_marks or not n.startswith(_CHECKED)}
    if {**kept, **entries} != known:
        replace_file(folder / STAMPS, json.dumps({**kept, **entries}).encode())
