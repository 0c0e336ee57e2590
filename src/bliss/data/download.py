"""Download the files of named datasets over https, and check their digests."""

from __future__ import annotations

import re
import shutil
import sys
import zipfile
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from bliss.data.safe_reading import first_line
from bliss.data.sources import Source
from bliss.errors import DamagedError
from bliss.storage.files import DISK_ERRORS, publish, scratch_folder, writing

_TIMEOUT = 60  # seconds without an answer


class DownloadError(RuntimeError):
    """A download failed. The message is a reason that fits inside a sentence."""


def download(sources: Sequence[Source], folder: Path, missing: Collection[str]) -> None:
    """Download the `missing` files of a dataset into `folder`.

    Everything is fetched into a scratch folder beside `folder` and checked there. Files are moved
    to their places once all of them are complete, so a failure leaves nothing behind. Raises a
    `DownloadError`, or a `ResourceError` if the disk is full or fails.

    `missing` are paths under `folder`; sources without a missing file are skipped.
    """
    is_new = not folder.parent.exists()
    try:
        with scratch_folder(folder) as staging:
            records = [
                record
                for source in sources
                if not set(source.files).isdisjoint(missing)
                for record in _fetch(source, staging, folder)
            ]
            for file in (*records, *missing):  # a digest is on the disk before its file
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                publish(staging / file, folder / file)
    except Exception as error:  # network libraries raise many types
        if is_new:
            with suppress(OSError):
                folder.parent.rmdir()
        if getattr(error, "errno", None) in DISK_ERRORS:
            with writing(folder):
                raise
        raise DownloadError(_reason(error)) from error


def verify_files(sources: Sequence[Source], folder: Path) -> list[str]:
    """Compare downloaded files with their digests, if they are known; returns the files compared.

    Files that were unpacked from an archive have no digest.
    """
    import pooch

    checked = []
    for source in sources:
        file = folder / source.file
        expected = source.sha256 or _recorded(folder / f"{source.file}.sha256")
        if source.members or not expected:
            continue
        digest = pooch.file_hash(str(file))
        if digest != expected:
            raise DamagedError(
                f"{file} has the SHA-256 digest {digest}, but {expected} is expected: remove it, "
                "and it is downloaded again."
            )
        checked.append(source.file)
    return checked


def _fetch(source: Source, staging: Path, folder: Path) -> list[str]:
    """Download one source into `staging`, check its digest and unpack it.

    Returns the name of the record of its digest, if a new one was written.
    """
    import pooch

    target = staging / source.file
    target.parent.mkdir(parents=True, exist_ok=True)
    get = pooch.HTTPDownloader(
        progressbar=sys.stderr.isatty(),
        chunk_size=1 << 20,
        timeout=_TIMEOUT,
        hooks={"response": _check_response},
    )
    get(source.url, str(target), None)
    record = f"{source.file}.sha256"
    digest, expected = pooch.file_hash(str(target)), source.sha256 or _recorded(folder / record)
    if expected and digest != expected:
        origin = "known" if source.sha256 else f"recorded in {folder / record}"
        raise DownloadError(
            f"{source.url} has the SHA-256 digest {digest}, but {expected} is {origin}"
        )
    if source.members:
        with zipfile.ZipFile(target) as archive:
            for file, member in source.members.items():  # written to our paths, not the archive's
                (staging / file).parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as content, open(staging / file, "wb") as stream:
                    shutil.copyfileobj(content, stream)
    if expected:
        return []
    (staging / record).write_text(f"{digest}  {target.name}\n", encoding="utf-8")
    return [record]


def _recorded(record: Path) -> str:
    """The digest in a record, or an empty string."""
    if not record.exists():
        return ""
    words = record.read_text(encoding="utf-8", errors="replace").split()
    if not words or not re.fullmatch("[0-9a-f]{64}", words[0]):
        raise DownloadError(f"{record} holds no SHA-256 digest, remove it")
    return words[0]


def _check_response(response: Any, **_options: Any) -> None:
    """Refuse redirects to anything but https, errors, and web pages such as a quota notice."""
    trouble = ""
    if response.is_redirect:
        target = urljoin(response.url, response.headers["location"])
        if urlsplit(target).scheme != "https":
            trouble = f"redirects to {target}, which is not https"
    elif not response.ok:
        trouble = f"answers with {response.status_code} {response.reason}"
    elif response.headers.get("content-type", "").startswith("text/html"):
        trouble = "answers with a web page instead of the file"
    if trouble:
        response.close()
        raise DownloadError(f"{response.url} {trouble}")


def _reason(error: Exception) -> str:
    """Reason of a failure, as part of a sentence."""
    from requests.exceptions import ChunkedEncodingError, ConnectionError, Timeout

    if isinstance(error, DownloadError):
        return str(error)
    if isinstance(error, ChunkedEncodingError):
        return "the connection broke"
    if isinstance(error, (ConnectionError, Timeout)) and error.request is not None:
        return f"no connection to {urlsplit(str(error.request.url)).hostname}"
    if isinstance(error, KeyError):  # of zipfile, for a member that is not there
        return str(error.args[0])
    return first_line(error)
