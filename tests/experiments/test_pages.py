"""Pages of experiments show the results that are stored beside them."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from experiments.payoff import tables as payoff
from experiments.payoff.run import CASES, config
from experiments.planetoid import run as planetoid
from experiments.samplers import tables as samplers
from experiments.variance import run as variance

ROOT = Path(__file__).resolve().parents[2] / "experiments"


def pages() -> dict[str, str]:
    found = {"payoff/README.md": payoff.page(), "variance/README.md": variance.page()}
    return found | {f"samplers/{k}": v for k, v in samplers.pages(samplers.load()).items()}


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    return pages()


@pytest.mark.parametrize(
    "name", ["payoff/README.md", "variance/README.md", "samplers/README.md", "samplers/tables.md"]
)
def test_a_page_is_what_its_notes_and_results_give(written, name):
    assert (ROOT / name).read_text(encoding="utf-8") == written[name]


def test_the_table_of_planetoid_is_of_every_cell_in_its_results():
    expected = {
        (name, model, sampler, seed)
        for name, model in product(planetoid.DATASETS, planetoid.MODELS)
        for sampler, seeds in planetoid.SEEDS.items()
        for seed in seeds
    }
    assert set(planetoid.finished()) <= expected  # cells that were not run are named in the table
    text = (ROOT / "planetoid" / "README.md").read_text(encoding="utf-8")
    assert text.endswith("\n".join(planetoid.table()) + "\n")


def test_the_scores_of_the_readme_are_those_of_the_default_command():
    text = (ROOT.parent / "README.md").read_text(encoding="utf-8")
    assert "\n".join(planetoid.readme_table()) in text


@pytest.mark.parametrize("name", CASES)
def test_the_payoff_has_every_sampler_at_every_budget_with_three_seeds(name):
    case, (cells, ms) = CASES[name], payoff.load(name)
    found = {(cell.sampler, cell.share, cell.seed) for cell in cells}
    for sampler in case.samplers:
        for share in case.shares if sampler != "full" else (1.0,):
            assert {(sampler, share, seed) for seed in (0, 1, 2)} <= found
            assert (sampler, share) in ms
    for cell in cells:
        given = config(case, cell.sampler, cell.share, cell.seed)
        assert list(given.fitted(10**9).sampler.budgets) == cell.budgets
