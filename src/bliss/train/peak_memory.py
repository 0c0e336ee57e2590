"""Peak memory of a run."""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
from contextlib import suppress
from pathlib import Path

import torch

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def forget_peak(device: torch.device) -> None:
    """Reset the peak. If the system cannot, the peak remains that of the whole process.

    Unused memory of earlier runs is returned to the system first, so that it is not counted.
    """
    gc.collect()
    with suppress(OSError, AttributeError):  # only glibc has malloc_trim
        ctypes.CDLL(None).malloc_trim(0)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    elif _CLEAR.exists():
        with suppress(OSError):  # a container may forbid it
            _CLEAR.write_text("5", encoding="ascii")  # Linux: resets the high-water mark


def peak_mb(device: torch.device) -> float:
    """Peak memory in MiB: of the GPU for a CUDA device, otherwise of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    if _STATUS.exists():
        for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 2**10
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
