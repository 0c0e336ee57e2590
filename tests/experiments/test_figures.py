"""Text in figures can be read on light and on dark pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.report.test_figures import contrast

ROOT = Path(__file__).resolve().parents[2]
GROUNDS = {"#ffffff": 4.5, "#121212": 3.5, "#1e2129": 3.5}
"""Least contrast by the colour of the page; WCAG 2 asks for 4.5 of small text and 3 of large."""


@pytest.mark.parametrize("file", ["experiments/figures.py", "docs/figures/explanation.py"])
def test_the_grey_of_text_has_enough_contrast(file):
    (grey,) = re.findall(r"^GREY\b.*?= \"(#\w{6})\"", (ROOT / file).read_text(), re.MULTILINE)
    for ground, least in GROUNDS.items():
        assert contrast(grey, ground) >= least, ground


@pytest.mark.parametrize("grey", ["#808080", "#606060"])
def test_greys_without_enough_contrast_are_noticed(grey):
    assert any(contrast(grey, ground) < least for ground, least in GROUNDS.items())
