"""Downloads arrive complete and checked, or leave nothing behind. A local server stands in."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bliss import InputError
from bliss.data import load_dataset, missing_files
from bliss.data.download import DownloadError, download
from bliss.data.sources import ENTRIES, Entry, Source
from bliss.errors import ResourceError

CONTENT = b"the content of a file" * 1000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture()
def server(monkeypatch):
    """Routes of a local server: path -> status, headers and body. `server.url` is its address."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    routes = {"/file": (200, {}, CONTENT)}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, headers, body = routes.get(self.path, (404, {}, b""))
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(body))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.routes = routes
        running.url = f"http://127.0.0.1:{running.server_port}"
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def files_under(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_a_file_with_a_known_digest_arrives_whole(tmp_path, server):
    download([Source(f"{server.url}/file", "raw/a", DIGEST)], tmp_path / "Set", ["raw/a"])
    assert (tmp_path / "Set" / "raw" / "a").read_bytes() == CONTENT
    assert files_under(tmp_path) == ["Set", "Set/raw", "Set/raw/a"]


def test_a_wrong_digest_is_refused_and_leaves_nothing(tmp_path, server):
    good = Source(f"{server.url}/file", "raw/good", DIGEST)
    bad = Source(f"{server.url}/file", "raw/bad", "0" * 64)
    with pytest.raises(DownloadError, match=f"digest {DIGEST}, but 0+ is known$"):
        download([good, bad], tmp_path / "new" / "Set", ["raw/good", "raw/bad"])
    assert files_under(tmp_path) == []


def test_the_digest_seen_first_is_recorded_and_compared_from_then_on(tmp_path, server):
    source, folder = Source(f"{server.url}/file", "raw/a"), tmp_path / "Set"
    download([source], folder, ["raw/a"])
    assert (folder / "raw" / "a.sha256").read_text() == f"{DIGEST}  a\n"
    (folder / "raw" / "a").unlink()
    server.routes["/file"] = (200, {}, b"something else")
    with pytest.raises(DownloadError, match=r"is recorded in .*a\.sha256$"):
        download([source], folder, ["raw/a"])
    assert files_under(folder) == ["raw", "raw/a.sha256"]
    server.routes["/file"] = (200, {}, CONTENT)
    download([source], folder, ["raw/a"])
    assert (folder / "raw" / "a").read_bytes() == CONTENT
    (folder / "raw" / "a.sha256").write_text("nonsense")
    with pytest.raises(DownloadError, match="holds no SHA-256 digest"):
        download([source], folder, ["raw/a"])


FAILURES = {
    "interrupted": ((200, {"Content-Length": "99999"}, CONTENT), "the connection broke$"),
    "not found": ((404, {}, b""), r"/other answers with 404 Not Found$"),
    "a web page": ((200, {"Content-Type": "text/html; charset=utf-8"}, b"<p>quota"), "a web page"),
    "redirect to plain http": (
        (302, {"Location": "/file"}, b""),
        "redirects to http://127.0.0.1:.*, which is not https$",
    ),
    "redirect to a file": ((302, {"Location": "file:///etc/passwd"}, b""), "not https$"),
    "redirect to https": (  # it is followed; nobody answers there
        (302, {"Location": "https://127.0.0.1:9/"}, b""),
        "no connection to 127.0.0.1$",
    ),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_failed_download_leaves_nothing(tmp_path, server, case):
    server.routes["/other"], message = FAILURES[case]
    with pytest.raises(DownloadError, match=message) as caught:
        download([Source(f"{server.url}/other", "raw/a")], tmp_path / "new" / "Set", ["raw/a"])
    assert "\n" not in str(caught.value)
    assert files_under(tmp_path) == []


def test_only_missing_files_are_fetched(tmp_path, server):
    (tmp_path / "Set").mkdir()
    (tmp_path / "Set" / "mine").write_text("mine")
    sources = [Source(f"{server.url}/gone", "mine"), Source(f"{server.url}/file", "a", DIGEST)]
    download(sources, tmp_path / "Set", ["a"])
    assert files_under(tmp_path / "Set") == ["a", "mine"]
    assert (tmp_path / "Set" / "mine").read_text() == "mine"


def archive(**members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as packed:
        for name, content in members.items():
            packed.writestr(name, content)
    return stream.getvalue()


def test_only_named_members_of_an_archive_are_unpacked(tmp_path, server):
    content = archive(**{"set/a": "A", "../evil": "E", "/tmp/evil": "E", "set/b": "B"})
    server.routes["/set.zip"] = (200, {}, content)
    members = {"raw/a": "set/a", "split/b": "set/b"}
    source = Source(f"{server.url}/set.zip", "set.zip", members=members)
    download([source], tmp_path / "Set", list(members))
    assert files_under(tmp_path / "Set") == ["raw", "raw/a", "set.zip.sha256", "split", "split/b"]
    assert files_under(tmp_path)[0] == "Set"
    assert (tmp_path / "Set" / "split" / "b").read_text() == "B"


@pytest.mark.parametrize(
    ("content", "message"),
    [(archive(a="A"), "no item named 'set/b'"), (archive(a="A")[:-9], "not a zip file")],
    ids=["member missing", "truncated"],
)
def test_a_bad_archive_leaves_nothing(tmp_path, server, content, message):
    server.routes["/set.zip"] = (200, {}, content)
    source = Source(f"{server.url}/set.zip", "set.zip", members={"raw/b": "set/b"})
    with pytest.raises(DownloadError, match=message):
        download([source], tmp_path / "new" / "Set", ["raw/b"])
    assert files_under(tmp_path) == []


def test_loading_downloads_missing_files(tmp_path, server, monkeypatch):
    name, entry = "computers", ENTRIES["computers"]
    (file,) = entry.files
    source = Source(f"{server.url}/file", file)
    monkeypatch.setitem(ENTRIES, name, Entry(entry.folder, entry.files, entry.reader, (source,)))
    assert missing_files(name, tmp_path).endswith("let `bliss data info computers` download them.")
    with pytest.raises(InputError, match="cannot be read as arrays"):  # the content is none
        load_dataset(name, tmp_path)
    assert missing_files(name, tmp_path) == ""


def test_a_failed_download_gets_one_sentence(tmp_path, server, monkeypatch):
    entry = ENTRIES["reddit"]
    source = Source(f"{server.url}/gone", "reddit.zip", members=entry.sources[0].members)
    monkeypatch.setitem(
        ENTRIES, "reddit", Entry(entry.folder, entry.files, entry.reader, (source,))
    )
    message = (
        r"reddit needs raw/reddit_data\.npz, .* \(the download failed: .* 404 .*\): put the files"
    )
    with pytest.raises(InputError, match=message) as caught:
        load_dataset("reddit", tmp_path / "new")
    assert "\n" not in str(caught.value)
    assert files_under(tmp_path) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_disk_that_fails_is_no_failure_of_the_download(tmp_path, server, monkeypatch, number):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("bliss.data.download.publish", fail)
    with pytest.raises(ResourceError, match=rf"Set cannot be written \({os.strerror(number)}\)"):
        download([Source(f"{server.url}/file", "raw/a", DIGEST)], tmp_path / "Set", ["raw/a"])


def test_every_address_is_https_and_every_needed_file_has_a_source():
    for name, entry in ENTRIES.items():
        assert all(source.url.startswith("https://") for source in entry.sources)
        if name not in ("ppi", "synthetic"):
            assert {file for source in entry.sources for file in source.files} == set(entry.files)


@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed"])
def test_known_digests_are_those_of_the_published_files(data_root, name):
    entry = ENTRIES[name]
    for source in entry.sources:
        content = (data_root / entry.folder / source.file).read_bytes()
        assert hashlib.sha256(content).hexdigest() == source.sha256, source.file
