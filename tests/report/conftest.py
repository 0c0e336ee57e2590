"""Example results and their pages."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from bliss.report.build import build
from bliss.report.page import page
from bliss.report.sections import Section
from tests.report.factory import every_kind


@pytest.fixture(scope="session")
def results(tmp_path_factory) -> dict[str, list[Path]]:
    """Folders of each kind of result, and all together."""
    return every_kind(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="session")
def sections_of(results) -> Callable[[str], list[Section]]:
    """The sections of a kind of result, built once."""
    return cache(lambda kind: build(results[kind]))


@pytest.fixture(scope="session")
def sections(sections_of) -> list[Section]:
    """The sections of all results together."""
    return sections_of("together")


@pytest.fixture(scope="session")
def page_of(sections_of, tmp_path_factory) -> Callable[[str], Path]:
    """The page of a kind of result, written once."""
    folder = tmp_path_factory.mktemp("pages")

    @cache
    def written(kind: str) -> Path:
        path: Path = folder / f"{kind}.html"
        path.write_text(page(sections_of(kind)), encoding="utf-8")
        return path

    return written
