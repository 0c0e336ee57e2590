"""`python -m tests.faults.kills`: kill jobs with SIGKILL, go on with them, compare the results.

A job is killed after a random time, or before a random one of the operations that write: in the
middle of a write, before an fsync, a rename or a removal. Some are killed twice before they may
finish. Jobs are forks of this process, which has imported everything.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np

from tests.faults.disk import Trap, trapped
from tests.faults.jobs import JOBS


def forked(name: str, folder: Path, number: int | None = None) -> int:
    """Process id of a fork that runs a job, and kills itself before operation `number`."""
    pid = os.fork()
    if pid:
        return pid
    try:
        trap = Trap(-1 if number is None else number, lambda: os.kill(os.getpid(), signal.SIGKILL))
        with trapped(trap):
            JOBS[name].run(folder)
        digest = JOBS[name].digest(folder)
        (folder / "done").write_text(json.dumps([digest, trap.count]))
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def finished(name: str, folder: Path) -> tuple[str, int]:
    """Run a job to its end: the digest of its result, and the number of operations."""
    (folder / "done").unlink(missing_ok=True)
    code = os.waitstatus_to_exitcode(os.waitpid(forked(name, folder), 0)[1])
    if code:
        raise SystemExit(f"{name} could not go on in {folder} (exit code {code}).")
    digest, operations = json.loads((folder / "done").read_text())
    return digest, operations


def killed(name: str, folder: Path, random: np.random.Generator, seconds: float, most: int) -> str:
    """Run a job until it is killed; says when that was."""
    if random.random() < 0.5:
        number = int(random.integers(most))
        os.waitpid(forked(name, folder, number), 0)
        return f"operation {number}"
    pid, delay = forked(name, folder), float(random.random() * seconds)
    time.sleep(delay)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return f"{delay:.3f} s"


def main() -> int:
    """Kill jobs; the exit code is 1 if one ended with another result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=24, help="number of jobs to kill")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    failures, kills, early = 0, 0, 0
    with tempfile.TemporaryDirectory(prefix="bliss-kills-") as place:
        for name in ("train", "train, history", "import", "compare"):  # loads kernels, no threads
            folder = Path(place) / "first" / name
            folder.mkdir(parents=True)
            JOBS[name].run(folder)
        gc.collect()
        gc.freeze()
        known: dict[str, tuple[str, int, float]] = {}
        for name in JOBS:
            folder = Path(place) / "whole" / name
            folder.mkdir(parents=True)
            started = time.monotonic()
            known[name] = (*finished(name, folder), time.monotonic() - started)
        for trial in range(given.trials):
            random = np.random.default_rng([given.seed, trial])
            name = list(JOBS)[trial % len(JOBS)]
            expected, operations, seconds = known[name]
            folder = Path(place) / f"{trial}" / "job"
            folder.mkdir(parents=True)
            moments = []
            for _ in range(int(random.integers(1, 3))):
                moments.append(killed(name, folder, random, seconds, operations))
                kills += 1
                early += not (folder / "done").exists()
            digest, _ = finished(name, folder)
            left = [str(path) for path in folder.rglob("*.bliss-scratch")]
            is_same = digest == expected and not left
            failures += not is_same
            print(json.dumps({"job": name, "killed": moments, "same": is_same}), flush=True)
    summary = {"trials": given.trials, "kills": kills, "unfinished": early, "failures": failures}
    print(json.dumps(summary))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
