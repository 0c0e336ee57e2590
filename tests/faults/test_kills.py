"""Jobs that are killed at any moment, even twice, end with the result of one that was not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import TIMES
from tests.faults.jobs import JOBS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def test_killed_jobs_end_as_if_they_had_not_been():
    """Most kills hit a job that is not finished; otherwise the test would say little."""
    trials = len(JOBS) * (1 if TIMES == 1 else 2 * TIMES)
    command = [sys.executable, "-W", "ignore", "-m", "tests.faults.kills", "--trials", str(trials)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    *_, summary = map(json.loads, done.stdout.splitlines())
    print(f"killed: {summary}")
    assert summary["failures"] == 0
    assert summary["unfinished"] > 0.6 * summary["kills"]
