"""`python -m benchmarks NAME --json FILE`; `--help` lists the names."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch starts its pool


def main() -> None:
    """Run one benchmark and write what it measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = [
        *("sampling", "samplers", "step", "threads", "dropout", "inference", "pyg", "dgl"),
        *(
            "blockwise",
            "neighbor_loader",
            "links",
            "types",
            "time",
            "scale",
            "disk",
            "soak",
            "load",
        ),
    ]
    parser.add_argument("name", choices=names, help="what to measure")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    parser.add_argument("--batches", type=int, default=41, help="batches timed after warm-up")
    parser.add_argument("--dgl", type=Path, help="dgl: environment with DGL 2.1.0")
    parser.add_argument("--make", action="store_true", help="dgl: make the environment if missing")
    parser.add_argument("--steps", type=int, default=100_000, help="soak: training steps")
    parser.add_argument(
        "--part",
        action="append",
        help="load, disk, sampling, step, blockwise, neighbor_loader: one of its parts, added to "
        "FILE; default: all",
    )
    arguments = parser.parse_args()

    started = time.time()
    benchmark = importlib.import_module(f"benchmarks.{arguments.name}")
    if arguments.name == "soak":
        result = benchmark.run(arguments.steps)
    elif arguments.name == "load":
        result = benchmark.run(arguments.part)
    elif arguments.name == "dgl":
        home = arguments.dgl or benchmark.HOME
        result = benchmark.run(arguments.batches, environment=home, make=arguments.make)
    elif arguments.part:
        result = benchmark.run(arguments.batches, arguments.part)
    else:
        result = benchmark.run(arguments.batches)
    result["machine"] = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    result["seconds"] = round(time.time() - started, 1)
    if arguments.json:
        if arguments.part and arguments.json.exists():
            result = merged(json.loads(arguments.json.read_text(encoding="utf-8")), result)
        arguments.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Both, the new one where they differ; seconds add up."""
    found = old | new
    for name in old.keys() & new.keys():
        if isinstance(old[name], dict) and name != "settings":
            found[name] = merged(old[name], new[name])
        elif name == "seconds":
            found[name] = round(old[name] + new[name], 1)
    return found


if __name__ == "__main__":
    main()
