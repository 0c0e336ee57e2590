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


def run_on_disk(disk: Path, size: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with a file system of so many bytes at `disk`, mounted for this process alone."""
    if shutil.which("unshare") is None or shutil.which("mount") is None:
        pytest.skip("full disks need the programs unshare and mount of Linux, to make a small one")
    private = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)]
    if subprocess.run([*private, *mount], capture_output=True).returncode:
        pytest.skip("full disks need a user who may mount a file system of memory (tmpfs)")
    both = f'mount -t tmpfs -o size={size} tmpfs "$1" && shift && exec "$@"'
    command = [*private, "sh", "-c", both, "sh", str(disk), sys.executable, "-W", "ignore"]
    return subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True)


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


def test_a_full_disk_ends_each_case_with_one_sentence(tmp_path):
    done = run_on_disk(tmp_path, 2 * MOST, "-m", "tests.faults.full_disks", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    outcomes = {one["case"]: one for one in map(json.loads, done.stdout.splitlines())}
    for name in CASES:
        print(outcomes[name])
        assert outcomes[name]["failures"] == []
        assert 0 < outcomes[name]["needs"] < MOST
    trials = sum(one["trials"] for one in outcomes.values())
    print(f"full disks: {len(places())} places that write, {len(CASES)} cases, {trials} trials")


def test_a_history_on_a_disk_of_200_kib_ends_the_command_with_one_sentence(tmp_path):
    disk, out = tmp_path / "disk", tmp_path / "run"
    disk.mkdir()
    options = ["--layers", "2", "--hidden", "64", "--history", "nodes", "--history-folder"]
    command = ["-m", "bliss", "train", *options, str(disk), "--out", str(out)]
    done = run_on_disk(disk, 200 * 1024, *command)
    assert done.returncode == 4, done.stderr
    assert done.stderr.count("\n") == 1
    assert "cannot be written (No space left on device): free disk space" in done.stderr
