"""Customers as somebody would export them: names, amounts, categories, gaps, and very unlike units.

The class of a customer shows in age and income, whose spread between classes is small beside that
between customers, and in the payments, most of which stay in the class.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

CUSTOMERS = 3000
PAYMENTS = 39_000
SEGMENTS = ("gold", "new", "regular", "risk")
CITIES = ("Bern", "Graz", "Lyon", "Oslo", "Turin")
AT_HOME = 0.9  # share of the payments within a segment


def write_customers(folder: Path, seed: int = 0) -> dict[str, Path]:
    """Write customers.csv and two files of payments; returns their paths by name."""
    random = np.random.default_rng(seed)
    segment = random.integers(0, len(SEGMENTS), CUSTOMERS)
    high, rich = segment // 2, segment % 2
    age = random.normal(38 + 14 * high, 9)
    income = np.exp(random.normal(10.4 + 0.7 * rich, 0.35))
    city = random.integers(0, len(CITIES), CUSTOMERS)
    names = [f"C-{number:05d}" for number in random.permutation(CUSTOMERS)]
    rows = [
        [
            "" if random.random() < 0.05 else f"{age[v]:.1f}",
            names[v],
            f"{income[v]:.2f}",
            "" if random.random() < 0.1 else CITIES[city[v]],
            SEGMENTS[segment[v]],
        ]
        for v in range(CUSTOMERS)
    ]
    files = {"customers": folder / "customers.csv"}
    _write(files["customers"], ["age", "customer", "income", "city", "segment"], rows)
    payer = random.integers(0, CUSTOMERS, PAYMENTS)
    payee = random.integers(0, CUSTOMERS, PAYMENTS)
    home = random.random(PAYMENTS) < AT_HOME
    for kind in range(len(SEGMENTS)):
        members = np.flatnonzero(segment == kind)
        own = home & (segment[payer] == kind)
        payee[own] = random.choice(members, int(own.sum()))
    amount = np.minimum(np.exp(random.normal(4, 1.2, PAYMENTS)), 1201)
    for half, part in enumerate(np.array_split(np.arange(PAYMENTS), 2)):
        files[f"payments{half}"] = folder / f"payments{half}.csv"
        lines = [[names[payer[e]], names[payee[e]], f"{amount[e]:.2f}", "transfer"] for e in part]
        _write(files[f"payments{half}"], ["payer", "payee", "amount", "kind"], lines)
    return files


def _write(file: Path, header: list[str], rows: list[list[str]]) -> None:
    with file.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([header, *rows])
