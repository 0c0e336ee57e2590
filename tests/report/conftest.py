"""Example results, and a browser to look at pages with."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from bliss.report import write_report
from bliss.report.build import build
from bliss.report.sections import Section
from tests.report.factory import every_kind

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def results(tmp_path_factory) -> dict[str, list[Path]]:
    """Folders of each kind of result, and all together."""
    return every_kind(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="session")
def sections(results) -> list[Section]:
    """What a page of all results together is made of."""
    return build(results["together"])


@pytest.fixture(scope="session")
def page_of(results, tmp_path_factory) -> Callable[[str], Path]:
    """The page of a kind of result, written when it is first asked for."""
    folder = tmp_path_factory.mktemp("pages")
    return cache(lambda kind: write_report(results[kind], folder / f"{kind}.html"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium; a missing one fails under CI and skips elsewhere."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("under CI there must be a browser, and none of " + ", ".join(NAMES) + " is")
        pytest.skip("there is no browser here: install Debian's chromium to look at pages")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()
