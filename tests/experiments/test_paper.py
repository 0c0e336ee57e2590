"""The paper's settings and numbers, the presets, and a small rerun beside them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from bliss.errors import InputError
from bliss.studies.comparison import runs
from experiments.paper import record
from experiments.paper.complexity import Setting, config, line, measure, row
from experiments.paper.record import Reproduction
from experiments.paper.reproduction import paper, preset_config, reproduce

pytestmark = pytest.mark.slow

SMALL: dict[str, Any] = {
    "datasets": ["cora", "yelp"],
    "models": ["sage"],
    "tables": ["f1", "time"],
    "seeds": 2,
    "steps": 3,
}
SIX = ("citeseer", "cora", "flickr", "pubmed", "reddit", "yelp")


def quiet(_: str) -> None:
    pass


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory, data_root) -> tuple[Path, Reproduction]:
    """The folder of a reproduction, and what `reproduce` returned."""
    out = tmp_path_factory.mktemp("reproduction")
    return out, reproduce(out, root=data_root, say=quiet, **SMALL)


def options(config, *names: str) -> list[object]:
    return [config.flat()[name] for name in names]


def test_every_published_number_is_there():
    facts = paper()
    assert tuple(facts["f1"]) == tuple(facts["time"]) == SIX == tuple(facts["datasets"])
    for dataset in SIX:
        for sampler in ("bliss", "pladies"):
            assert set(facts["time"][dataset][sampler]) == {"gat", "sage"}
            for split in ("train", "val", "test"):
                for score, deviation in facts["f1"][dataset][sampler][split].values():
                    assert 0.4 < score < 1
                    assert 0 <= deviation < 0.07


def test_published_numbers_are_in_the_paper(data_root):
    source = data_root.parent / "paper" / "bliss.tex"
    if not source.exists():
        if os.environ.get("CI"):
            pytest.fail(f"under CI the paper must be there, and {source} is no file")
        pytest.skip("the paper is not beside the data")
    text = source.read_text(encoding="utf-8")
    for table in ("f1", "time"):
        for numbers in _leaves(paper()[table]):
            assert f"{numbers[0]:.3f} ± {numbers[1]:.3f}" in text


def _leaves(tree):
    if isinstance(tree, list):
        yield tree
        return
    for branch in tree.values():
        yield from _leaves(branch)


def test_the_paper_preset_is_the_released_code():
    bliss = preset_config("paper", "cora", "gat", "bliss", 0)
    names = ("policy", "estimator", "thinning")
    assert options(bliss, *names) == ["exp3-released", "released", "paper"]
    assert options(bliss, "hidden", "heads", "residual", "bias") == [1024, 4, True, False]
    assert options(bliss, "lr", "lr_decay", "decay_epochs") == [0.002, 0.01, 5]
    assert options(bliss, "attention", "feedback", "evaluate") == ["plain", "scores", "sampled"]
    assert bliss.network.initialisation == "relu"
    assert options(bliss, "batch_size", "budgets", "steps") == [32, [512, 256, 128], 1000]
    fixed = preset_config("paper", "reddit", "sage", "pladies", 3)
    assert options(fixed, "dataset", "policy", "estimator") == ["reddit2", "static", "ht"]
    assert options(fixed, "batch_size", "budgets", "steps") == [256, [4096, 2048, 1024], 3000]


def test_our_preset_is_our_recipe_at_the_published_sizes():
    ours = preset_config("ours", "cora", "gat", "bliss", 1)
    assert options(ours, "policy", "estimator", "attention") == ["node", "ht", "hajek"]
    assert options(ours, "batch_size", "budgets", "seed") == [32, [512, 256, 128], 1]
    assert ours.training.weight_decay > 0


def test_each_number_stands_beside_the_published_one(reproduced):
    out, found = reproduced
    facts = paper()
    assert len(found.tables.f1) == 2 * 2 * 3
    for one in found.tables.f1:
        path = out / "runs" / one.preset / "cora" / "sage" / one.sampler
        scores = [
            json.loads((path / str(seed) / "result.json").read_text())[f"{one.split}_score"]
            for seed in range(2)
        ]
        assert one.ours == pytest.approx(sum(scores) / 2)
        assert one.published == facts["f1"]["cora"][one.sampler][one.split]["sage"][0]
        assert one.difference == pytest.approx(one.ours - one.published)
    for pace in found.tables.time:
        assert pace.ratio == pytest.approx(pace.ours / pace.published)
    assert found.tables.variance == []
    assert {curve.sampler for curve in found.figures} == {"bliss", "pladies"}


def test_it_is_read_as_it_was_returned(reproduced):
    out, found = reproduced
    stored = record.reproduction(out).read()
    assert stored.tables == found.tables
    assert stored.figures == found.figures
    assert stored.missing == found.missing


def test_missing_data_is_listed_with_its_files(reproduced):
    _, found = reproduced
    (missing,) = found.missing
    assert missing.dataset == "yelp"
    assert "adj_full.npz" in missing.remedy
    assert all(one.dataset != "yelp" for one in found.tables.f1)


def test_finished_runs_are_not_repeated(reproduced, data_root, monkeypatch):
    out, found = reproduced

    def never(*_):
        raise AssertionError("a finished run was run again")

    monkeypatch.setattr(runs.Trainer, "run", never)
    again = reproduce(out, root=data_root, say=quiet, **SMALL)
    assert again.tables.f1 == found.tables.f1


@pytest.mark.parametrize(
    "bad",
    [
        {"presets": ["theirs"]},
        {"tables": ["f2"]},
        {"datasets": ["karate"]},
        {"models": ["gin"]},
        {"seeds": 0},
    ],
)
def test_bad_input_gets_one_sentence(tmp_path, bad):
    with pytest.raises(InputError, match=next(iter(bad)).rstrip("s")):
        reproduce(tmp_path / "study", say=quiet, **bad)
    assert not (tmp_path / "study").exists()


def test_exponents_are_slopes_of_logarithms():
    stated = {"bliss": {"time": {"budget": "1 to 2"}}}
    found = row(stated, "time", "bliss", "budget", [(1, 3.0), (2, 12.0), (4, 48.0)])
    assert found.exponent == pytest.approx(2)
    assert found.stated == "1 to 2"


def test_each_line_changes_one_thing():
    for axis in ("edges", "budget", "width", "depth"):
        settings = line(axis)
        assert len({getattr(one, axis) for one in settings}) >= 3
        for other in {"edges", "budget", "width", "depth"} - {axis}:
            assert {getattr(one, other) for one in settings} == {getattr(Setting(), other)}


def test_memory_of_the_edge_bandit_grows_with_edges_and_that_of_pladies_does_not():
    few, many = (Setting(edges=edges, width=8, budget=64) for edges in (20_000, 80_000))
    bandit = [measure("bliss", one)[1] for one in (few, many)]
    fixed = [measure("pladies", one)[1] for one in (few, many)]
    assert bandit[1] - bandit[0] > 0.9 * 60_000 * 8 * 2  # 8 bytes an edge and layer
    assert fixed[1] - fixed[0] < 0.1 * (bandit[1] - bandit[0])
    assert config("neighbor", Setting(budget=1024)).sampler.budgets == (8, 8)
