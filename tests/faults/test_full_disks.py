"""Every file that bliss writes or maps, on a disk that is too small: one sentence, no signal."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.full_disks import CASES, ELSEWHERE, MOST
from tests.faults.places import places

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def test_every_place_that_writes_is_tried_on_a_full_disk():
    covered = {place for _, places in CASES.values() for place in places}
    assert not covered & ELSEWHERE.keys()
    known, found = covered | ELSEWHERE.keys(), places()
    for place, calls in found.items():
        assert place in known, (
            f"{place} writes by {', '.join(sorted(calls))}, and no test fills the disk under it: "
            "add it to a case of tests/faults/full_disks.py."
        )
    assert known - found.keys() == set()  # places that are gone


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory) -> dict[str, dict]:
    """What each case ended with on a file system of 32 MiB, mounted for this process alone."""
    place = tmp_path_factory.mktemp("disk")
    if shutil.which("unshare") is None or shutil.which("mount") is None:
        pytest.skip("full disks need the programs unshare and mount of Linux, to make a small one")
    private = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    mount = ["mount", "-t", "tmpfs", "-o", f"size={2 * MOST}", "tmpfs", str(place)]
    if subprocess.run([*private, *mount], capture_output=True).returncode:
        pytest.skip("full disks need a user who may mount a file system of memory (tmpfs)")
    shell = '"$@" && exec ' + f'"{sys.executable}" -W ignore -m tests.faults.full_disks "{place}"'
    command = [*private, "sh", "-c", shell, "sh", *mount]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    first, *others = map(json.loads, done.stdout.splitlines())
    return {"command line": first} | {one["case"]: one for one in others}


def test_a_full_disk_ends_each_case_with_one_sentence(outcomes):
    for name in CASES:
        print(outcomes[name])
        assert outcomes[name]["failures"] == []
        assert outcomes[name]["needs"] < MOST
    full = [one for name, one in outcomes.items() if name in CASES and one["needs"]]
    assert len(full) > 0.8 * len(CASES)
    trials = sum(one["trials"] for one in full)
    print(f"full disks: {len(CASES)} kinds of files, {trials} disks too small or just large enough")


def test_a_history_on_a_small_disk_ends_the_command_with_one_sentence(outcomes):
    found = outcomes["command line"]
    assert found["code"] == 4, found
    assert found["error"].count("\n") == 1
    assert "free disk space" in found["error"]
