"""The studies, for the command line and for reports."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import resolve_name
from typing import Any

PACKAGES = ("advice", "comparison", "variance")
"""Packages of `bliss.studies`, in the order of their commands. Each declares a `STUDY`."""


@dataclass(frozen=True)
class Study:
    """Declaration of a study for the command line and reports.

    A reference is "module:name". It is imported when it is used, so that `bliss --help` and reports
    load neither torch nor the study itself.
    """

    kind: str
    """The `kind` in its file: the tag of its record."""
    file: str
    """Name of its file in a folder of results."""
    record: str
    """Reference to the class of its record."""
    command: str
    """Reference to the function of its command, which also prints its tables on the terminal."""
    section: str = ""
    """Reference to the function (record, supplements, names) -> Section of a report. Empty: the
    study is not shown in reports."""
    supplement: str = ""
    """Reference to the function (record, names) -> Supplement. With one, a file in the folder of a
    run or of another study is shown in the section of that."""

    @property
    def command_name(self) -> str:
        """Name of the command: `bliss NAME`."""
        return self.command.rpartition(":")[2]


@cache
def studies() -> tuple[Study, ...]:
    """All studies."""
    return tuple(import_module(f"bliss.studies.{name}").STUDY for name in PACKAGES)


def imported(reference: str) -> Any:
    """What a reference "module:name" names."""
    return resolve_name(reference)
