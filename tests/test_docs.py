"""Everything in the README and the docs runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from tests.conftest import heavy_tailed_pairs

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SNIPPETS = [
    pytest.param(code, id=f"{page.name}-{number}")
    for page in PAGES
    for number, code in enumerate(
        re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    )
]


@pytest.mark.parametrize("code", SNIPPETS)
def test_snippets_run(code):
    generator = torch.Generator().manual_seed(0)
    data = Data(
        x=torch.randn(300, 16, generator=generator),
        edge_index=torch.from_numpy(heavy_tailed_pairs(300, 2000)),
        y=torch.randint(0, 7, (300,), generator=generator),
        train_mask=torch.arange(300) < 100,
    )
    exec(compile(code, "snippet", "exec"), {"data": data})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert target.startswith("https://") or (page.parent / target).exists(), target


def test_make_targets_of_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for name in re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE):
        assert re.search(rf"^{name}:", makefile, re.MULTILINE)


def test_the_demo_shows_a_network_that_uses_the_graph_and_a_bandit_that_learnt():
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "bliss.demo"],
        capture_output=True,
        text=True,
        check=True,
    )

    def number(after: str) -> float:
        return float(re.search(rf"{after}\s+([\d.]+)", run.stdout)[1])

    assert number("test F1") > number("without graph") + 0.2
    learnt, limit = number("sampling error"), number("as many sources:")
    assert limit <= learnt < 0.7
    assert learnt < 1.3 * limit
