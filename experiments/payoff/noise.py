"""Gradient error of samplers in a short pilot: it shows whether the variance of sampling matters.

`python -m experiments.payoff.noise CASE --root DATA` trains a pilot of 60 steps, fixes the weights,
and writes r = E|g^ - g|^2 / E|g|^2 of each cell to results/CASE-noise.json; g is the gradient of a
batch with full neighbourhoods. It takes seconds, where the cells themselves take minutes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from bliss.storage import records
from bliss.studies.advice.pilot import Pilot
from experiments.payoff.run import CASES, HERE, config, missing

STEPS = 60
SAMPLERS = ("bliss", "bliss+history", "pladies", "vrgcn", "neighbor")


class Error(records.Record, frozen=True, kw_only=True):
    """Gradient error of one cell."""

    sampler: str
    share: float
    error: float


class Errors(records.Record, frozen=True, kw_only=True):
    """Gradient errors of a case, and the variance of g between batches, both over |g|^2."""

    batch_noise: float
    errors: list[Error]


def main() -> None:
    """Measure a case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--root", type=Path, help="folder of data sets")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    case = CASES[arguments.case]
    dataset = case.load(arguments.root)
    teacher = "bliss+history" if "bliss+history" in case.samplers else "bliss"
    pilot = Pilot(config(case, teacher, max(case.shares), 0), dataset, STEPS)
    found = []
    for _, share, sampler in missing(case, [0], []):
        if sampler in SAMPLERS:
            settings = config(case, sampler, share, 0)
            error = pilot.gradient_error(pilot.sampler(settings), settings.sampler.budgets)
            found.append(Error(sampler=sampler, share=share, error=error))
            print(sampler, f"{share:.4f}", f"r {error:.3f}", flush=True)
    noise = pilot.noise.batch / pilot.noise.square
    records.write(
        HERE / "results" / f"{arguments.case}-noise.json", Errors(batch_noise=noise, errors=found)
    )


if __name__ == "__main__":
    main()
