"""How long dropout takes, forward and backward, with hashed coins and with torch's generator.

Inputs have the sizes of a training step: features of the first layer's sources, and hidden
vectors. One thread; both take turns on the same input; numbers are medians, ratios within the run.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from bliss.nn.dropout import dropout

SIZES = ((20_000, 602), (4_000, 256))
RATES = (0.1, 0.5)
WARM_UP = 5
WAYS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "hashed": lambda x, rate: dropout(x, rate, training=True),
    "torch": functional.dropout,
}


def run(repeats: int) -> dict[str, Any]:
    """Time all sizes and rates; returns what is written as JSON."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    result: dict[str, Any] = {"settings": {"repetitions": repeats, "threads": 1}}
    for rows, columns in SIZES:
        for rate in RATES:
            name = f"{rows}x{columns}, rate {rate}"
            result[name] = measure(rows, columns, rate, repeats)
            print(name, result[name], flush=True)
    return result


def measure(rows: int, columns: int, rate: float, repeats: int) -> dict[str, Any]:
    """Median milliseconds of each way, and how many times longer torch takes."""
    x = torch.randn(rows, columns, requires_grad=True)
    gradient = torch.randn(rows, columns)
    taken: dict[str, dict[str, list[float]]] = {
        name: {"forward": [], "backward": [], "both": []} for name in WAYS
    }
    for number in range(WARM_UP + repeats):
        for name in sorted(WAYS, reverse=bool(number % 2)):
            x.grad = None
            started = perf_counter()
            out = WAYS[name](x, rate)
            middle = perf_counter()
            out.backward(gradient)
            ended = perf_counter()
            parts = {
                "forward": middle - started,
                "backward": ended - middle,
                "both": ended - started,
            }
            for part, seconds in parts.items():
                taken[name][part].append(seconds)
    ms = {
        name: {part: median(times[WARM_UP:]) * 1e3 for part, times in parts.items()}
        for name, parts in taken.items()
    }
    ratios = {part: ms["torch"][part] / ms["hashed"][part] for part in ms["torch"]}
    return {"ms": ms, "torch_over_hashed": ratios}
