"""All problems of a user's files in one error, instead of the first one alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bliss.errors import InputError


class ImportProblems(InputError):
    """Several problems of files: one sentence each, those first that hide others."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        numbered = [f"({n}) {problem}" for n, problem in enumerate(problems, 1)]
        super().__init__(" ".join([f"{len(problems)} problems:", *numbered]))


def problems_of(error: InputError) -> tuple[str, ...]:
    """The problems that an error names."""
    return error.problems if isinstance(error, ImportProblems) else (str(error),)


def raise_problems(problems: Sequence[str]) -> None:
    """Raise an error that names these problems, if there are any."""
    if len(problems) == 1:
        raise InputError(problems[0])
    if problems:
        raise ImportProblems(problems)


class Problems:
    """Collects the problems of checks that do not depend on each other."""

    def __init__(self) -> None:
        self.found: list[str] = []

    @contextmanager
    def collecting(self, prefix: str = "") -> Iterator[None]:
        """Context manager in which an `InputError` is collected, after a prefix, and not raised."""
        try:
            yield
        except InputError as error:
            named = [f"{prefix}{one}" for one in problems_of(error)]
            self.found += [one for one in named if one not in self.found]
