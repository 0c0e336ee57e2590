"""`python -m tests.fuzz`: damage files in child processes and count what comes of it.

Outcomes: a clean error (one sentence), an unchanged result, a changed result, a wrong exception, a
crash, a hang, and growth by more than 1 GB of memory. The last four must not occur, nor a changed
result where digests stand. A case is a function of the seed and its number: `--only NUMBER` runs it
again.
"""

from __future__ import annotations

import argparse
import json
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

OUTCOMES = ("clean error", "unchanged", "changed", "wrong exception", "crash", "hang", "memory")
PATIENCE = 60
"""Seconds that one case may take; on a busy machine a case waits, too."""
START = 600
"""Seconds until the first case, including compilation of kernels."""


def run_cases(seed: int, numbers: range) -> Iterator[dict[str, Any]]:
    """Outcomes of the cases; a child that crashes or hangs is replaced by another."""
    while numbers:
        done = 0
        for outcome in _child(seed, numbers):
            done += 1
            yield outcome
        if done == 0:
            raise SystemExit("the child process ended before its first case: see above.")
        numbers = numbers[done:]


def _child(seed: int, numbers: range) -> Iterator[dict[str, Any]]:
    """Outcomes until the child ends, crashes or hangs."""
    arguments = [seed, numbers.start, numbers.stop, numbers.step]
    command = [sys.executable, "-m", "tests.fuzz.worker", *map(str, arguments)]
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as child:
        lines: queue.Queue[str] = queue.Queue()
        assert child.stdout is not None
        threading.Thread(target=_forward, args=(child.stdout, lines), daemon=True).start()
        current: dict[str, Any] | None = None
        while True:
            line = _next(lines, START if current is None else PATIENCE)
            if line is None:
                child.kill()
                if current is not None:
                    yield _lost(current, "hang")
                return
            if not line:
                if current is not None and child.wait() != 0:
                    yield _lost(current, "crash", f"exit code {child.returncode}")
                return
            values = json.loads(line)
            if "starts" in values:
                current = values
            else:
                yield values


def _next(lines: queue.Queue[str], seconds: int) -> str | None:
    """The next line, or None; time in which this process is stopped does not count."""
    for _ in range(seconds):
        with suppress(queue.Empty):
            return lines.get(timeout=1.0)
    return None


def _forward(stream: Iterable[str], lines: queue.Queue[str]) -> None:
    for line in stream:
        lines.put(line)
    lines.put("")


def _lost(current: dict[str, Any], outcome: str, detail: str = "") -> dict[str, Any]:
    names = {"case": current["starts"], "subject": current["subject"], "file": ""}
    return {**names, "outcome": outcome, "digested": False, "detail": detail}


def is_failure(outcome: dict[str, Any]) -> bool:
    """Whether an outcome must not occur."""
    kind = outcome["outcome"]
    return kind in OUTCOMES[3:] or (kind == "changed" and outcome["digested"])


def table(outcomes: Iterable[dict[str, Any]]) -> str:
    """Counts of outcomes by subject, as a table in Markdown."""
    counts: dict[str, Counter[str]] = {}
    for one in outcomes:
        counts.setdefault(one["subject"], Counter())[one["outcome"]] += 1
    total = sum(counts.values(), Counter())
    lines = [f"| files | cases | {' | '.join(OUTCOMES)} |", "|---" * (len(OUTCOMES) + 2) + "|"]
    for name, row in [*counts.items(), ("all", total)]:
        cells = [str(row[outcome]) for outcome in OUTCOMES]
        lines.append(f"| {name} | {row.total()} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    """Run the cases and show the table; the exit code is 1 if one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000, help="number of cases")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="number of one case to run")
    parser.add_argument("--log", type=Path, help="file for the outcome of each case, as JSON lines")
    given = parser.parse_args()
    first, count = (given.first, given.count) if given.only is None else (given.only, 1)
    numbers = range(first, first + count)
    started, outcomes = time.monotonic(), []
    for one in run_cases(given.seed, numbers):
        outcomes.append(one)
        if given.log:
            with given.log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(one) + "\n")
        if is_failure(one) or given.only is not None:
            print(json.dumps(one, indent=1), flush=True)
    print(table(outcomes))
    failures = sum(map(is_failure, outcomes))
    spent = time.monotonic() - started
    print(f"\nseed {given.seed}: {len(outcomes)} cases, {failures} failures, {spent:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
