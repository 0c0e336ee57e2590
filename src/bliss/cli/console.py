"""Output of the command line: plain lines, live bars, and errors in one sentence."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any, NoReturn

from bliss.errors import DamagedError, InputError, Interrupted, LostError, ResourceError
from bliss.storage.files import DISK_ERRORS
from bliss.storage.limits import is_out_of_memory
from bliss.text import printable
from bliss.train.results import score_text, short_name

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from bliss.studies import StudyProgress
    from bliss.train import StepProgress


def make_console(**options: Any) -> Console:
    """A console that prints text as it is: no markup, and control characters as escapes."""
    from rich.console import Console
    from rich.text import Text

    class PlainConsole(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            plain = {"markup": False, "emoji": False, "highlight": False}
            return super().render_str(printable(text), **options | plain)

    return PlainConsole(**options)


@cache
def console() -> Console:
    """Console of standard output; 140 columns wide if it is not a terminal."""
    return make_console(width=None if sys.stdout.isatty() else 140)


_silent = False
PAUSE = 1.0
"""Seconds that a silent process waits before it ends with an error: a launcher ends the others at
once, and rank 0 must be able to say why."""


def silence() -> None:
    """Print nothing from now on, except that other processes are lost: for ranks above 0."""
    global _silent
    _silent = True


def leave(code: int) -> NoReturn:
    """End the process."""
    if _silent:
        sleep(PAUSE)
    sys.exit(code)


def say(text: str) -> None:
    """Print a plain line."""
    if not _silent:
        console().print(text, soft_wrap=True)


def complain(text: str) -> None:
    """Print a plain line to standard error."""
    if not _silent:
        make_console(stderr=True).print(text, soft_wrap=True)


def standing(now: StepProgress) -> str:
    """Loss, and score of the last evaluation, with its step if it is not the current one."""
    if now.evaluated == 0:
        return f"loss {now.loss:.4f}"
    when = "" if now.evaluated == now.step else f" (step {now.evaluated})"
    score = score_text(now.metric, now.val_score)
    return f"loss {now.loss:.4f}  val {short_name(now.metric, now.ranks)} {score}{when}"


@contextmanager
def shown(steps: int) -> Iterator[Callable[[StepProgress], None]]:
    """Progress of a run: a live bar on a terminal, plain lines elsewhere."""
    if _silent or not console().is_terminal:
        every = max(steps // 10, 1)

        def line(now: StepProgress) -> None:
            if now.step % every == 0 or now.step == now.steps:
                say(f"step {now.step}/{now.steps}  {standing(now)}")

        yield line
        return
    started, first = perf_counter(), 0
    with bar(steps) as (progress, task):

        def move(now: StepProgress) -> None:
            nonlocal started, first
            if first == 0:
                started, first = perf_counter(), now.step  # exclude compilation from the rate
            rate = (now.step - first) / max(perf_counter() - started, 1e-9)
            text = f"{standing(now)}  {rate:.1f} steps/s"
            progress.update(task, completed=now.step, description=text)

        yield move


@contextmanager
def shown_study() -> Iterator[Callable[[StudyProgress], None]]:
    """Progress of a study: a live bar on a terminal, a line per finished run elsewhere."""
    started = perf_counter()
    if not console().is_terminal:

        def line(now: StudyProgress) -> None:
            if now.is_new:
                passed = perf_counter() - started
                left = passed * (now.total - now.done) / max(now.done, 1)
                say(f"{now.text}  ({clock(passed)} so far, about {clock(left)} left)")

        yield line
        return
    with bar(1) as (progress, task):

        def move(now: StudyProgress) -> None:
            text = printable(now.text)
            progress.update(task, total=now.total, completed=now.done, description=text)

        yield move


@contextmanager
def shown_steps(steps: int, what: str) -> Iterator[Callable[[int], None]]:
    """Progress in steps: a live bar on a terminal, ten plain lines elsewhere."""
    started, every = perf_counter(), max(steps // 10, 1)
    if not console().is_terminal:

        def line(step: int) -> None:
            if step % every == 0 or step == steps:
                passed = perf_counter() - started
                say(f"{what} {step}/{steps}  (about {clock(passed * (steps / step - 1))} left)")

        yield line
        return
    with bar(steps) as (progress, task):
        yield lambda step: progress.update(task, completed=step, description=what)


@contextmanager
def shown_shares() -> Iterator[Callable[[str, float | None], None]]:
    """Progress in named parts, each with a share that is done: a bar on a terminal, else nothing.

    A share of None is one that is not known.
    """
    if not console().is_terminal:
        yield lambda what, share: None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = [BarColumn(), TaskProgressColumn(), TextColumn("{task.description}", markup=False)]
    with Progress(*columns, console=console(), transient=True) as progress:
        task = progress.add_task("")

        def move(what: str, share: float | None) -> None:
            total = None if share is None else 1.0
            progress.update(task, total=total, completed=share or 0.0, description=what)

        yield move


@contextmanager
def bar(total: int) -> Iterator[tuple[Progress, TaskID]]:
    """Live progress bar: completed and total, a description, and the time left."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = [
        TextColumn("{task.completed}/{task.total}"),
        BarColumn(),
        TextColumn("{task.description}", markup=False),
        TimeRemainingColumn(),
    ]
    with Progress(*columns, console=console()) as progress:
        yield progress, progress.add_task("", total=total)


def spread(value: float, deviation: float | None, places: int) -> str:
    """Mean with its standard deviation or interval, if there is more than one seed."""
    return f"{value:.{places}f}" + ("" if deviation is None else f" ± {deviation:.{places}f}")


def clock(seconds: float) -> str:
    """Minutes and seconds, or hours and minutes."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"


@contextmanager
def errors(debug: bool, remedy: str = "Run the same command again to continue.") -> Iterator[None]:
    """Turn errors into one sentence and an exit code; `debug` shows tracebacks instead.

    Codes: 1 a fault of the program, 2 bad input, 3 damaged state, 4 resources, 130 and 143 signals.
    """
    try:
        yield
    except Interrupted as stop:
        complain(f"Interrupted; progress is saved. {remedy}")
        leave(128 + stop.number)
    except KeyboardInterrupt:
        complain("Interrupted.")
        sys.exit(130)
    except LostError as error:
        make_console(stderr=True).print(f"Error: {error} {remedy}", soft_wrap=True)
        sys.exit(4)
    except BrokenPipeError:
        raise  # the reader of a pipe has ended; typer ends without a word
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # it fell into the body of a class
            complain("Interrupted.")
            sys.exit(130)
        if debug:
            raise
        code, sentence = _explain(error)
        several = getattr(error, "problems", ())  # of the files of an import
        complain(f"Error: {len(several)} problems" if several else f"Error: {sentence}")
        for number, problem in enumerate(several, 1):
            complain(f"{number}. {problem}")
        leave(code)


def _explain(error: Exception) -> tuple[int, str]:
    """Exit code and sentence of an error."""
    for kind, code in ((InputError, 2), (DamagedError, 3), (ResourceError, 4)):
        if isinstance(error, kind):
            return code, str(error)
    if is_out_of_memory(error):
        return 4, (
            "the machine does not have enough memory: lower --hidden, --batch-size or --budgets, "
            "or convert the graph to a memory-mapped folder with `bliss data import`."
        )
    if isinstance(error, OSError) and error.errno in DISK_ERRORS:
        file = error.filename or "a file, such as a compiled kernel in NUMBA_CACHE_DIR,"
        return 4, f"{file} cannot be used ({error.strerror}): free disk space or check the disk."
    if isinstance(error, OSError) and error.filename is not None:
        return 4, f"{error.filename} cannot be used ({error.strerror}): check its permissions."
    lines = str(error).splitlines() or ["no message"]
    return 1, (
        f"{type(error).__name__} ({lines[0]}): this is a bug in bliss; run the same command with "
        "--debug, and report what it prints."
    )
