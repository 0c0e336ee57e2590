"""Pages and figures of experiments show the results that are stored beside them."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch

from bliss import Graph
from bliss.data import Dataset, load_dataset
from bliss.train import resolve
from experiments.coins import run as coins
from experiments.links import page as links
from experiments.planetoid import run as planetoid
from experiments.scale import page as scale
from experiments.seconds import commands, defaults, figure, record, results, tables, validate
from experiments.seconds.cases import SAMPLERS
from experiments.seconds.copies import SIMILAR, copies
from experiments.seconds.results import GRID_SECONDS, GRID_SEED, key
from experiments.seconds.run import settings
from experiments.time import run as in_time
from experiments.types import page as types
from experiments.variance import run as variance

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "variance": variance.page,
    "coins": lambda: coins.page(coins.read()),
    "time": lambda: in_time.page(in_time.read()),
    "links": links.page,
    "scale": scale.page,
    "seconds": lambda: tables.page(results.STORED.read(), record.STORED.read()),
    "types": types.page,
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_its_notes_and_results_give(name):
    text = (ROOT / "experiments" / name / "README.md").read_text(encoding="utf-8")
    assert text == PAGES[name]()


def test_the_details_of_types_are_what_the_results_give():
    text = (ROOT / "experiments" / "types" / "details.md").read_text(encoding="utf-8")
    assert text == types.page("details.md")


def test_the_page_of_sizes_is_what_the_results_give():
    text = (ROOT / "experiments" / "seconds" / "sizes.md").read_text(encoding="utf-8")
    assert text == tables.sizes_page(results.STORED.read())


def test_the_advice_shows_what_its_commands_reached():
    found = commands.read()
    assert len(found.runs) == len(commands.MODELS) * len(commands.SAMPLERS) * len(commands.SEEDS)
    assert commands.table(found) in commands.PAGE.read_text(encoding="utf-8")


def test_the_advice_shows_its_validation():
    text = validate.PAGE.read_text(encoding="utf-8")
    assert validate.page(text, validate.STORED.read()) == text
    assert "| PPI, GraphSAGE | 10 |" in text


def test_the_page_of_defaults_is_what_the_results_give():
    text = (ROOT / "experiments" / "seconds" / "defaults.md").read_text(encoding="utf-8")
    found = defaults.STORED.read()
    assert text == defaults.page(found)
    assert "history, batch normalisation, no dropout (default)" in text
    assert all(run.steps == row.steps for row in found.rows for run in row.runs)


@pytest.mark.parametrize("network", defaults.DEFAULTS)
def test_the_defaults_on_the_page_are_those_of_a_graph_without_a_recipe(network):
    config = resolve(dataset="mine", model=network).fitted(10_000)
    sampler, own = config.sampler.config, config.network
    hops = sampler.first_hop, sampler.history
    found = own.normalisation, own.dropout, *hops, config.training.batch_size
    assert found == defaults.DEFAULTS[network]


def test_the_table_of_planetoid_is_of_every_cell_in_its_results():
    expected = {
        (name, model, sampler, seed)
        for name, model in product(planetoid.DATASETS, planetoid.MODELS)
        for sampler, seeds in planetoid.SEEDS.items()
        for seed in seeds
    }
    assert set(planetoid.finished()) <= expected  # cells that were not run are named in the table
    text = (ROOT / "experiments" / "planetoid" / "README.md").read_text(encoding="utf-8")
    assert text.endswith("\n".join(planetoid.table()) + "\n")


def test_steps_of_a_run_are_those_that_fit_into_its_seconds():
    found = results.STORED.read()
    for run in found.runs:
        time = found.time(run)
        spent = time.setup_s + run.steps * time.step_ms / 1e3
        assert run.seconds - time.step_ms / 1e3 < spent <= run.seconds


def test_runs_of_the_record_have_the_steps_that_fit_and_the_best_by_validation_is_chosen():
    found = record.STORED.read()
    for curve in found.curves:
        time = found.time(curve.name)
        assert curve.seconds - time.step_ms / 1e3 < time.seconds(curve.points[-1].step)
        assert time.seconds(curve.points[-1].step) <= curve.seconds
    for network in record.NETWORKS:
        for sampler, best in record.best(found, network).items():
            own = [one for one in found.curves if one.name.split(",")[0] == sampler]
            ends = {(one.seconds, one.points[-1].val_score) for one in own}
            assert (best.seconds, best.points[-1].val_score) == max(ends)


def test_copies_have_the_features_labels_and_neighbours_of_training_nodes():
    x = torch.eye(3)[[0, 1, 2, 0, 0, 1]]
    edges = torch.tensor([[1, 2, 1, 2, 1, 0], [0, 0, 3, 3, 4, 5]])
    splits = {
        "train": torch.arange(3),
        "val": torch.tensor([]).long(),
        "test": torch.tensor([3, 4, 5]),
    }
    whole = Dataset("toy", Graph.from_edge_index(edges, 6), x, x, splits, num_classes=3)
    assert copies(whole, "test") == (1, pytest.approx(1 / 3))  # of node 3; 4 lacks 2, 5 has 0
    y = x.clone()
    y[5] = 1
    assert copies(replace(whole, y=y), "test").same == pytest.approx(2 / 3)


@pytest.mark.slow
def test_the_notes_say_how_similar_the_splits_of_ppi_are(data_root):
    ppi = load_dataset("ppi", data_root)
    validation, test = (copies(ppi, split) for split in ("val", "test"))
    notes = " ".join((ROOT / "experiments/seconds/notes.md").read_text(encoding="utf-8").split())
    assert f"{test.same:.0%} of the test nodes and {validation.same:.0%} of the valid" in notes
    assert f"But {test.similar:.0%} of the test nodes have a copy with nearly" in notes
    assert f"(a Jaccard index of at least {SIMILAR:.0%}), and {validation.similar:.0%} of" in notes


def test_sizes_are_chosen_by_validation_scores_of_one_seed():
    found = results.STORED.read()
    for graph, network in {(run.graph, run.network) for run in found.runs}:
        tried = {key(one) for one in settings(graph, network)}
        for sampler in SAMPLERS[network]:
            own = [run for run in found.runs if key(run)[:3] == (graph, network, sampler)]
            grid = [run for run in own if (run.seconds, run.seed) == (GRID_SECONDS, GRID_SEED)]
            assert {key(run) for run in own} <= tried
            best = max((run.val_score for run in grid), default=None)
            (chosen,) = {key(run) for run in own if run not in grid} or {None}
            assert chosen in (None, *(key(run) for run in grid if run.val_score == best))


def test_rates_and_orders_of_time_are_chosen_by_validation_scores_of_one_seed():
    found = in_time.read()
    for cell in (one for one in found.runs if one.seed > 0):
        own = {"lr": cell.lr, "order": cell.order}
        assert own == in_time.chosen(found, cell.graph, cell.row)
        ms = in_time.step_ms(found, cell.graph, cell.row, cell.order)
        assert cell.steps == round(1e3 * in_time.CASES[cell.graph].seconds / ms)


def test_the_figure_has_the_numbers_of_the_results():
    text = html.unescape(figure.PATH.read_text(encoding="utf-8"))
    start = text.index("<dc:description>") + len("<dc:description>")
    shown = json.loads(text[start : text.index("</dc:description>")])
    points = figure.points(results.STORED.read())
    assert shown == json.loads(json.dumps(points))
    for network, axes in zip(points, figure.draw(points).axes, strict=True):
        lines = {
            line.get_label().replace("\n", " "): line.get_xydata().tolist() for line in axes.lines
        }
        expected = {figure.NAMES[k]: [list(p) for p in v] for k, v in points[network].items()}
        assert lines == expected


def test_the_first_page_names_every_sampler_of_its_figure():
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    (words,) = re.findall(r"!\[([^]]*)\]\(docs/figures/seconds\.svg\)", text)
    named = words.partition(": ")[2].removesuffix(".").split(", ")
    assert named == [figure.NAMES[sampler] for sampler in figure.SHOWN]


@pytest.mark.parametrize("shift", [0.0, 0.05])
def test_only_samplers_that_cannot_be_told_apart_are_tied(shift):
    best = [0.90, 0.91, 0.92]
    found = tables.ties({"a": best, "b": [score - shift for score in best], "c": [0.99]})
    assert found == ({"a"} if shift else {"a", "b"})
