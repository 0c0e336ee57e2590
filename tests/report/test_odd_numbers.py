"""Odd numbers, wherever they stand, neither stop a page nor show as words."""

from __future__ import annotations

import json
import random
import re

import pytest

from bliss.report import write_report
from tests.report import factory

ODD = (None, float("nan"), float("inf"), 0, -1, 1e300, 1e-300, -1e12)
WHOLE = {"seed", "seeds"}  # must stay whole numbers


def spoil(values, generator, share):
    """Replace a share of all numbers by odd ones."""
    if isinstance(values, dict):
        return {k: v if k in WHOLE else spoil(v, generator, share) for k, v in values.items()}
    if isinstance(values, list):
        return [spoil(value, generator, share) for value in values]
    is_number = isinstance(values, (int, float)) and not isinstance(values, bool)
    return generator.choice(ODD) if is_number and generator.random() < share else values


@pytest.mark.parametrize("share", [0.03, 0.3, 1.0])
@pytest.mark.parametrize("kind", ["run", "comparison", "reproduction", "variance"])
def test_odd_numbers_neither_stop_a_page_nor_show(tmp_path, kind, share):
    (path,) = factory.every_kind(tmp_path / "results")[kind]
    generator = random.Random(f"{kind} {share}")
    for file in [path] if path.is_file() else path.glob("*.json"):
        file.write_text(json.dumps(spoil(json.loads(file.read_text()), generator, share)))
    html = write_report([path], tmp_path / "report.html").read_text(encoding="utf-8")
    shown = re.sub(r"<(style|script|details)>.*?</\1>|<[^>]*>", " ", html, flags=re.DOTALL)
    assert not re.search(r"\b(nan|inf|none|null)\b", shown, re.IGNORECASE)
    told = " ".join(re.findall(r'aria-label="([^"]*)"', html))
    assert not re.search(r"\b(nan|inf)\b", told, re.IGNORECASE)
