"""Time, memory and traffic of importing and training on a graph that is made for it.

`python -m experiments.scale.run small --folder FOLDER` makes a graph of 11 million nodes, imports
it and trains on it; `large` does so with 40 million nodes and needs 50 GB of disk. Every command is
a process of its own with one thread, measured from outside and stored in results.json.
`python -m experiments.scale.page` writes README.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter, sleep

from bliss.data import open_graph
from bliss.studies.provenance import machine
from bliss.train import RunFolder
from experiments.scale.page import STORED, Measurement, Scale

THREADS = {"OMP_NUM_THREADS": "1"}
SIZES = {
    "small": {"nodes": "11e6", "edges": "160e6", "features": "32"},
    "large": {"nodes": "40e6", "edges": "600e6", "features": "128"},
}
IMPORT = {"small": [], "large": ["--feature-type", "float16"]}
TRAIN = {
    "small": [],
    "large": [
        *("--layers", "2", "--budgets", "4096,2048"),
        *("--batch-size", "1024", "--feature-cache", "1000000000"),
    ],
}
FILES = ("edges", "features", "labels", "train-nodes", "val-nodes", "test-nodes")
POLL = 0.1
"""Seconds between two readings of memory and traffic."""
COUNTERS = ("VmHWM", "RssAnon", "read_bytes", "write_bytes")
"""Counters of /proc: peak and anonymous memory, and bytes from and to the disk."""


def commands(size: str, folder: Path) -> dict[str, list[str]]:
    """The commands by name, without the interpreter."""
    raw, store = folder / "raw", str(folder / "store")
    sizes = [word for name, value in SIZES[size].items() for word in (f"--{name}", value)]
    files = [word for f in FILES for word in (f"--{f}", f"{raw}/{f.removesuffix('-nodes')}.npy")]
    network = ["--model", "sage", "--sampler", "bliss", "--policy", "node", "--features", "raw"]
    steps = ["--steps", "200", "--evaluate-every", "200"]
    train = ["bliss", "train", "--dataset", store, *network, *steps, *TRAIN[size]]
    return {
        "make": ["experiments.scale.make_graph", *sizes, "--out", str(raw)],
        "import": ["bliss", "data", "import", store, *files, "--undirected", "--memory", "4GiB"]
        + IMPORT[size],
        "train": [*train, "--out", str(folder / "run")],
    }


def measure(words: list[str]) -> Measurement:
    """Run a command with one thread, and read its memory and traffic until it ends."""
    before, started = os.times(), perf_counter()
    child = subprocess.Popen([sys.executable, "-m", *words], env=os.environ | THREADS)
    process = Path("/proc") / str(child.pid)
    read: dict[str, int] = {}
    while child.poll() is None:
        for line in (*lines(process / "status"), *lines(process / "io")):
            name, value = line.split(":")
            if name in COUNTERS:
                read[name] = max(read.get(name, 0), int(value.split()[0]))
        sleep(POLL)
    if child.returncode:
        raise SystemExit(f"{' '.join(words)} failed.")
    after = os.times()
    cpu = sum(after[2:4]) - sum(before[2:4])  # of children, user and system
    return Measurement(
        seconds=round(perf_counter() - started),
        cpu=round(cpu),
        peak_gib=round(read["VmHWM"] / 2**20, 2),
        anonymous_gib=round(read["RssAnon"] / 2**20, 2),
        read_gb=round(read["read_bytes"] / 1e9, 1),
        written_gb=round(read["write_bytes"] / 1e9, 1),
    )


def lines(file: Path) -> list[str]:
    """Lines of a file of /proc; none when the process has ended."""
    try:
        return file.read_text(encoding="ascii").splitlines()
    except OSError:
        return []


def forget(folder: Path) -> None:
    """Write the files of a folder to the disk, and drop them from the page cache."""
    for file in filter(Path.is_file, folder.iterdir()):
        with open(file, "rb") as stream:
            os.fsync(stream.fileno())
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def taken(folder: Path) -> float:
    """Gigabytes of a folder's files."""
    return round(sum(file.stat().st_size for file in folder.iterdir()) / 1e9, 1)


def run(size: str, folder: Path) -> Scale:
    """Run all commands of a size."""
    rows, (raw, store) = {}, (folder / "raw", folder / "store")
    for name, words in commands(size, folder).items():
        if name == "train":
            forget(store)
        rows[name] = measure(words)
        print(name, rows[name], flush=True)
    trained = RunFolder(folder / "run")
    steps, result = trained.times()[-1], trained.result()
    assert result is not None
    return Scale(
        machine=machine(),
        entries=open_graph(store).num_edges,
        raw_gb=taken(raw),
        store_gb=taken(store),
        rows=rows,
        steps_s=round(steps.seconds),
        step_ms=round(result.step_ms["total"]),
        val_score=result.val_score,
    )


def main() -> None:
    """Measure a size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("size", choices=SIZES)
    parser.add_argument("--folder", type=Path, required=True, help="new folder for all files")
    given = parser.parse_args()
    STORED[given.size].write(run(given.size, given.folder))


if __name__ == "__main__":
    main()
