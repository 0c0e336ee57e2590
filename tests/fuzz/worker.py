"""Child process: damages files, reads them, and prints the outcome of each case on a line."""

from __future__ import annotations

import gc
import json
import os
import resource
import shutil
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from bliss.errors import DamagedError, InputError, ResourceError
from tests.fuzz.saved import SAVED
from tests.fuzz.subjects import READERS, Subject

SUBJECTS: dict[str, Subject] = READERS | SAVED
MEMORY = 1 << 30
"""Bytes by which a case may make the process grow."""
SENTENCE = 3000
"""Largest length of a message."""


class Workplace:
    """Sound files of every subject, and the digests that they are read to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.expected: dict[str, str] = {}

    def base(self, name: str) -> Path:
        """Folder with sound files; made when it is first asked for."""
        base = self.folder / f"base-{list(SUBJECTS).index(name)}"
        if name not in self.expected:
            base.mkdir()
            SUBJECTS[name].make(base)
            self.expected[name] = SUBJECTS[name].read(self.copy(base))
            if self.expected[name] != SUBJECTS[name].read(self.copy(base)):
                raise AssertionError(f"{name} is not read to the same result twice")
        return base

    def copy(self, base: Path) -> Path:
        """A copy that may be damaged."""
        place = self.folder / "case"
        shutil.rmtree(place, ignore_errors=True)
        return Path(shutil.copytree(base, place))


def run_case(work: Workplace, seed: int, number: int) -> dict[str, Any]:
    """Damage one file of one subject and read it."""
    random = np.random.default_rng([seed, number])
    name = list(SUBJECTS)[number % len(SUBJECTS)]
    subject, base = SUBJECTS[name], work.base(name)
    folder = work.copy(base)
    files = sorted(file for file in folder.rglob(subject.files) if file.stat().st_size)
    files = [file for file in files if file.is_file()]
    file = files[int(random.integers(len(files)))]
    before = file.read_bytes()
    after = subject.change(file.name, before, random)
    file.write_bytes(after)
    subject.mend(folder)
    forget_peak()
    start, held = time.monotonic(), memory()
    outcome, detail = _read(subject, folder, work.expected[name])
    grown = memory() - held
    if grown > MEMORY:
        outcome, detail = "memory", f"{grown / 2**20:.0f} MB: {outcome} {detail}"
    return {
        "case": number,
        "subject": name,
        "file": str(file.relative_to(folder)),
        "outcome": outcome,
        "digested": subject.is_digested,
        "detail": detail,
        "seconds": round(time.monotonic() - start, 3),
    }


def _read(subject: Subject, folder: Path, expected: str) -> tuple[str, str]:
    try:
        found = subject.read(folder)
    except (InputError, DamagedError, ResourceError) as error:
        if _is_memory(error):
            return "memory", str(error)
        text = str(error)
        is_clean = "\n" not in text and len(text) < SENTENCE
        return ("clean error" if is_clean else "wrong exception"), text[:SENTENCE]
    except Exception as error:
        kind = "memory" if _is_memory(error) else "wrong exception"
        return kind, f"{type(error).__name__}: {error}"[:400] + _where(error)
    return ("unchanged" if found == expected else "changed"), ""


def _is_memory(error: BaseException | None) -> bool:
    """Whether the limit of the process's memory was met."""
    while error is not None:
        if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
            return True
        error = error.__cause__
    return False


def _where(error: BaseException) -> str:
    trace, places = error.__traceback__, []
    while trace is not None:
        code = trace.tb_frame.f_code
        if "/bliss/" in code.co_filename:
            places.append(f"{Path(code.co_filename).name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f" at {' '.join(places[-4:])}"


def memory() -> int:
    """Largest number of bytes held since `forget_peak`."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def forget_peak() -> None:
    """Let `memory` count from now on, where Linux allows it."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def limit_memory() -> None:
    """Refuse to allocate much more than a case may use."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + 3 * MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main(seed: int, first: int, last: int, every: int) -> None:
    """Run the cases first, first + every, ... below last."""
    warnings.simplefilter("ignore")
    os.fsync = lambda handle: None  # durability is tested elsewhere
    with tempfile.TemporaryDirectory(prefix="bliss-fuzz-") as folder:
        work = Workplace(Path(folder))
        os.chdir(folder)
        for name in SUBJECTS:
            work.base(name)
        gc.collect()
        gc.freeze()
        limit_memory()
        for number in range(first, last, every):
            name = list(SUBJECTS)[number % len(SUBJECTS)]
            print(json.dumps({"starts": number, "subject": name}), flush=True)
            print(json.dumps(run_case(work, seed, number)), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
