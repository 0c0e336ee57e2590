"""Everything in the README and the docs runs, and the README's example learns."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
ELSEWHERE = {"tutorial.md", "processes.md", "lightning.md"}  # in tests/test_site.py
ELSEWHERE |= {"ray.md"}  # in tests/engines/test_ray.py


def snippets(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def toy_data(seed: int) -> Data:
    """600 nodes of 7 classes: edges mostly within classes, few senders, messages of many sizes."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 7, 600)
    chance = np.arange(1, 601) ** -0.7
    pairs = np.stack(
        [random.choice(600, 7200, p=chance / chance.sum()), random.integers(0, 600, 7200)]
    )
    pairs = pairs[:, (y[pairs[0]] == y[pairs[1]]) | (random.random(7200) < 0.12)]
    x = 0.5 * random.normal(size=(7, 32))[y] + random.normal(size=(600, 32))
    x *= random.lognormal(0, 0.7, (600, 1))
    is_train = np.isin(np.arange(600), random.permutation(600)[:300])
    return Data(
        x=torch.from_numpy(x).float(),
        edge_index=torch.from_numpy(pairs),
        y=torch.from_numpy(y),
        train_mask=torch.from_numpy(is_train),
        test_mask=torch.from_numpy(~is_train),
    )


def run(code: str, seed: int = 0) -> dict[str, Any]:
    torch.manual_seed(seed)
    scope = {"data": toy_data(seed)}
    exec(compile(code, "snippet", "exec"), scope)
    return scope


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(code, id=f"{page.name}-{number}")
        for page in PAGES
        for number, code in enumerate(snippets(page))
        if page != README and page.name not in ELSEWHERE
    ],
)
def test_snippets_run(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(code)


def sides(diff: str) -> tuple[str, str]:
    """A script before and after a change, from the lines of a diff."""
    lines = diff.splitlines()
    before = [line[1:] for line in lines if not line.startswith("+")]
    return "\n".join(before), "\n".join(line[1:] for line in lines if not line.startswith("-"))


(SCRIPT,) = re.findall(r"```diff\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)

MUTANTS = {
    "none": ("", ""),
    "no negative features": ("model(batch.x,", "model(batch.x.relu(),"),
    "labels of other seeds": ("out, batch.y", "out, batch.y.flip(0)"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_only_the_readmes_script_as_it_stands_is_accurate(mutant):
    """Accuracy over three seeds: 0.837 as it stands, 0.790 and 0.107 with the mutants."""
    _, code = sides(SCRIPT)
    before, after = MUTANTS[mutant]
    assert before in code
    runs = (run(code.replace(before, after), seed) for seed in range(3))
    accuracy = mean(float(scope["accuracy"]) for scope in runs)
    assert (accuracy > 0.815) == (mutant == "none"), accuracy


def test_the_readmes_sampler_with_a_history_fits_its_script():
    _, code = sides(SCRIPT)
    (sampler,) = re.findall(
        r"`(bliss\.Bliss\([^`]*history=[^`]*)`", README.read_text(encoding="utf-8")
    )
    changed = re.sub(r"bliss\.Bliss\(.*?\]\)", sampler, code)
    assert changed != code
    assert float(run(changed, seed=0)["accuracy"]) > 0.8


def test_the_readmes_script_differs_from_one_with_neighbor_loader_in_five_lines():
    before, after = (compile(code, "README", "exec") for code in sides(SCRIPT))
    assert "NeighborLoader" in before.co_names
    assert "NeighborLoader" not in after.co_names
    assert len(re.findall(r"^\+", SCRIPT, re.MULTILINE)) == 5


def test_links_lead_somewhere():
    links = [
        (page, target)
        for page in PAGES
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))
        if not target.startswith("https://")
    ]
    assert [f"{p.name}: {target}" for p, target in links if not (p.parent / target).exists()] == []
    assert len(links) > 50


def test_make_targets_of_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for name in re.findall(r"^make (\w+)", README.read_text(), re.MULTILINE):
        assert re.search(rf"^{name}:", makefile, re.MULTILINE)


def full_help(command: str) -> str:
    """The option that shows all options of a command."""
    has_more = command in ("train", "compare", "advise", "variance")
    return "--help-all" if has_more else "--help"


def test_commands_of_the_readme_exist():
    from typer.testing import CliRunner

    from bliss.cli import app

    pattern = r"(?:^|`)bliss ((?:data )?\w+)([^`\n]*)"
    found = re.findall(pattern, README.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(found) > 5
    for command, rest in found:
        helped = CliRunner().invoke(
            app, [*command.split(), full_help(command)], env={"COLUMNS": "200"}
        )
        assert helped.exit_code == 0, command
        for option in re.findall(r"--[a-z-]+", rest.partition("#")[0]):
            assert option in helped.output, f"{command} {option}"
