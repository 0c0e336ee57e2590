"""Extreme and missing numbers neither stop a page nor show as words."""

from __future__ import annotations

import random
import re

import pytest

from bliss.report import write_report
from tests.report import factory

pytestmark = pytest.mark.slow

ODD = (0.0, -1.0, 1e300, 1e-300, -1e12)
ODD_WHOLE = (0, -1, 10**12)
MAY_BE_MISSING = re.compile(r"(\w+_score|loss)_std|p_value|seconds_to_target|\w*over_\w+")


def spoil(values, generator, share, name=""):
    """Replace a share of all numbers by extreme ones, or by null where that is allowed."""
    if isinstance(values, dict):
        return {key: spoil(value, generator, share, key) for key, value in values.items()}
    if isinstance(values, list):
        return [spoil(value, generator, share, name) for value in values]
    if not isinstance(values, (int, float)) or isinstance(values, bool):
        return values
    if generator.random() >= share:
        return values
    odd = ODD_WHOLE if isinstance(values, int) else ODD
    return generator.choice((*odd, None, None) if MAY_BE_MISSING.fullmatch(name) else odd)


@pytest.mark.parametrize("share", [0.1, 1.0])
@pytest.mark.parametrize("kind", ["run", "comparison", "variance"])
def test_odd_numbers_neither_stop_a_page_nor_show(tmp_path, kind, share):
    (path,) = factory.every_kind(tmp_path / "results")[kind]
    generator = random.Random(f"{kind} {share}")
    factory.alter(path, lambda values: spoil(values, generator, share))
    html = write_report([path], tmp_path / "report.html").read_text(encoding="utf-8")
    shown = re.sub(r"<(style|script|details)>.*?</\1>|<[^>]*>", " ", html, flags=re.DOTALL)
    assert not re.search(r"\b(nan|inf|none|null)\b", shown, re.IGNORECASE)
    told = " ".join(re.findall(r'aria-label="([^"]*)"', html))
    assert not re.search(r"\b(nan|inf)\b", told, re.IGNORECASE)
