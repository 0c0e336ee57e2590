"""A small portion of `make fuzz`: no damage is silent, crashes, hangs or takes all memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.fuzz.__main__ import OUTCOMES, is_failure, table
from tests.fuzz.mutations import FORMATS, mutate

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
CASES = 240


def test_damaged_files_give_one_sentence_or_the_same_result(tmp_path):
    log = tmp_path / "log.jsonl"
    command = [sys.executable, "-m", "tests.fuzz", "--count", str(CASES), "--log", str(log)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    outcomes = [json.loads(line) for line in log.read_text().splitlines()]
    assert [one["case"] for one in outcomes] == list(range(CASES))
    for kind in OUTCOMES[:3]:  # the cases are of every kind that may occur
        assert sum(one["outcome"] == kind for one in outcomes) > 5


def test_a_case_depends_on_the_seed_alone():
    for ending in FORMATS:
        content = bytes(range(64)) * 4
        first, again, other = (
            mutate(f"a{ending}", content, np.random.default_rng(seed)) for seed in (0, 0, 1)
        )
        assert first == again
        assert other not in (first, content)


@pytest.mark.parametrize(
    ("outcome", "digested", "expected"),
    [
        ("clean error", True, False),
        ("unchanged", True, False),
        ("changed", False, False),
        ("changed", True, True),
        ("wrong exception", False, True),
        ("crash", False, True),
        ("hang", False, True),
        ("memory", False, True),
    ],
)
def test_failures_are_counted(outcome, digested, expected):
    one = {"subject": "store", "outcome": outcome, "digested": digested}
    assert is_failure(one) == expected
    assert "| all | 1 |" in table([one])
