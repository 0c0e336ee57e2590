"""What the command line says: plain lines, live bars, and errors in one sentence."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from bliss.errors import DamagedError, InputError, ResourceError
from bliss.studies import Standing as StudyStanding
from bliss.train import Interrupted
from bliss.train import Progress as Standing

console = Console(width=None if sys.stdout.isatty() else 140)  # tables need room in a file too
complaints = Console(stderr=True)


def say(text: str) -> None:
    """Print a plain line."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def standing(now: Standing) -> str:
    """Loss and F1 in a few words."""
    score = "-" if now.val_f1 != now.val_f1 else f"{now.val_f1:.4f}"  # NaN before the first
    return f"loss {now.loss:.4f}  val F1 {score}"


@contextmanager
def shown(steps: int) -> Iterator[Callable[[Standing], None]]:
    """A run's progress: a live bar on a terminal, plain lines elsewhere."""
    if not console.is_terminal:
        every = max(steps // 10, 1)

        def line(now: Standing) -> None:
            if now.step % every == 0 or now.step == now.steps:
                say(f"step {now.step}/{now.steps}  {standing(now)}")

        yield line
        return
    started, first = perf_counter(), 0
    with bar(steps) as (progress, task):

        def move(now: Standing) -> None:
            nonlocal started, first
            if first == 0:
                started, first = perf_counter(), now.step  # compilation is not counted
            rate = (now.step - first) / max(perf_counter() - started, 1e-9)
            text = f"{standing(now)}  {rate:.1f} steps/s"
            progress.update(task, completed=now.step, description=text)

        yield move


@contextmanager
def shown_study() -> Iterator[Callable[[StudyStanding], None]]:
    """A study's progress: a live bar on a terminal, a line for each finished run elsewhere."""
    started = perf_counter()
    if not console.is_terminal:

        def line(now: StudyStanding) -> None:
            if now.is_new:
                passed = perf_counter() - started
                left = passed * (now.total - now.done) / max(now.done, 1)
                say(f"{now.text}  ({clock(passed)} so far, about {clock(left)} left)")

        yield line
        return
    with bar(1) as (progress, task):

        def move(now: StudyStanding) -> None:
            progress.update(task, total=now.total, completed=now.done, description=now.text)

        yield move


@contextmanager
def shown_steps(steps: int, what: str) -> Iterator[Callable[[int], None]]:
    """Steps of something: a live bar on a terminal, ten plain lines elsewhere."""
    started, every = perf_counter(), max(steps // 10, 1)
    if not console.is_terminal:

        def line(step: int) -> None:
            if step % every == 0 or step == steps:
                passed = perf_counter() - started
                say(f"{what} {step}/{steps}  (about {clock(passed * (steps / step - 1))} left)")

        yield line
        return
    with bar(steps) as (progress, task):
        yield lambda step: progress.update(task, completed=step, description=what)


@contextmanager
def bar(total: int) -> Iterator[tuple[Progress, TaskID]]:
    """A live bar: how much of how much, what it is about, and the time left."""
    columns = [
        TextColumn("{task.completed}/{task.total}"),
        BarColumn(),
        TextColumn("{task.description}"),
        TimeRemainingColumn(),
    ]
    with Progress(*columns, console=console) as progress:
        yield progress, progress.add_task("", total=total)


def clock(seconds: float) -> str:
    """Minutes and seconds, or hours and minutes."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"


@contextmanager
def errors(debug: bool) -> Iterator[None]:
    """One sentence and a code: 2 bad input, 3 damaged state, 4 resources, 130 and 143 signals."""
    try:
        yield
    except Interrupted as stop:
        complaints.print(
            f"Stopped after a whole step; the same command goes on, `bliss train` with --resume "
            f"({stop}).",
            markup=False,
            soft_wrap=True,
        )
        sys.exit(128 + stop.number)
    except (InputError, DamagedError, ResourceError, MemoryError, RuntimeError) as error:
        codes = {InputError: 2, DamagedError: 3, ResourceError: 4}
        code = codes.get(type(error))
        if debug or (code is None and not _is_out_of_memory(error)):
            raise
        text = str(error) if code else _OUT_OF_MEMORY
        complaints.print(f"Error: {text}", markup=False, highlight=False, soft_wrap=True)
        sys.exit(code or 4)


_OUT_OF_MEMORY = (
    "the machine has not enough memory for this: lower --hidden, --batch-size or --budgets, or "
    "bring the graph as a store with `bliss data import`."
)


def _is_out_of_memory(error: Exception) -> bool:
    """NumPy's and torch's ways of saying so; on the CPU, torch has no error of its own for it."""
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    return any(text in str(error) for text in ("can't allocate memory", "Storage size calculation"))
