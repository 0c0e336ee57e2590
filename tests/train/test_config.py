"""Settings ask the sampler: what budgets count, which policies and estimators there are."""

from __future__ import annotations

import json

import pytest

from bliss.errors import InputError
from bliss.samplers import SAMPLERS, sampler_config
from bliss.train import TrainConfig, config, resolve
from tests.train.runs import make_trainer, settings

pytestmark = pytest.mark.slow


def test_default_budgets_are_filled_in_for_the_graph_and_count_what_the_sampler_counts():
    assert TrainConfig().budgets == ()
    assert TrainConfig().fitted(10**6).budgets == (2048, 1024, 512)
    assert TrainConfig(layers=2).fitted(10**6).budgets == (1024, 512)
    assert TrainConfig(layers=2).fitted(800).budgets == (100, 50)  # at most an eighth of the nodes
    assert TrainConfig(sampler="neighbor", layers=2).fitted(10**6).budgets == (10, 10)
    assert TrainConfig(sampler="vrgcn", layers=2).fitted(10**6).budgets == (2,)
    assert TrainConfig(sampler="full").fitted(10**6).budgets == ()
    assert TrainConfig(budgets=(3, 2, 1)).fitted(10).budgets == (3, 2, 1)


def test_a_run_writes_the_budgets_it_has_used(dataset, tmp_path):
    trainer = make_trainer(dataset, tmp_path, budgets=(), steps=1)
    trainer.run()
    assert trainer.folder.settings().budgets == (30, 15)  # 240 nodes
    assert tuple(trainer.stepper.sampler.budgets) == (30, 15)


def test_a_recipes_budgets_are_for_samplers_that_count_sources(monkeypatch):
    assert resolve(dataset="cora", sampler="pladies").budgets == (512, 256, 128)
    assert resolve(dataset="cora", sampler="labor-1").fitted(2708).budgets == (10, 10, 10)
    assert resolve(dataset="cora", sampler="full").budgets == ()
    assert resolve(dataset="cora", sampler="neighbor", budgets=(3, 2, 1)).budgets == (3, 2, 1)
    recipe = {"budgets": [512, 256, 128], "fanouts": [15, 10, 5]}
    monkeypatch.setattr(config, "recipe", lambda *_: dict(recipe))
    assert resolve(dataset="cora", sampler="neighbor").budgets == (15, 10, 5)
    assert resolve(dataset="cora", sampler="bliss").budgets == (512, 256, 128)


def test_a_recipes_options_are_for_samplers_that_have_them(monkeypatch):
    monkeypatch.setattr(config, "recipe", lambda *_: {"estimator": "hajek", "policy": "exp3"})
    bliss = resolve(sampler="bliss")
    assert (bliss.sampler_options["estimator"], bliss.policy) == ("hajek", "exp3")
    assert resolve(sampler="bliss", estimator="ht").sampler_options["estimator"] == "ht"
    neighbor = resolve(sampler="neighbor")
    assert (neighbor.sampler_options["estimator"], neighbor.policy) == ("hajek", "uniform")
    assert resolve(sampler="full").sampler_options == {}


@pytest.mark.parametrize("name", SAMPLERS)
def test_settings_of_every_sampler_survive_json(name):
    settings = TrainConfig(sampler=name)
    again = TrainConfig.from_dict(json.loads(json.dumps(settings.to_dict())))
    assert again == settings
    assert again.sampler_config.to_dict() == SAMPLERS[name].to_dict()
    assert bool(settings.policy) == ("policy" in SAMPLERS[name].options())


OPTIONS = {
    "ladies": {"replace": True},
    "bliss": {
        "eta": 0.2,
        "memory": 0.5,
        "survey_attention": "node",
        "thinning": "paper",
        "estimator": "hajek",
    },
    "neighbor": {"replace": True, "policy": "static"},
    "labor": {"iterations": 2, "shared": True},
    "labor-1": {"shared": True},
    "fastgcn": {"mass": "norm", "replace": False},
    "saint-node": {"mass": "degree"},
    "asgcn": {"rate": 0.1, "eta": 0.2, "combine": "root", "shared_parameters": True},
    "gcn-bs": {"reward": "thanos", "restart": 7, "eta": 0.3, "delta": 0.1, "policy": "exp3-single"},
    "gat-bs": {"reward": "thanos"},
    "cluster": {"parts": 4, "renormalise": "symmetric"},
    "saint-rw": {"length": 3, "coverage": 10},
    "vrgcn": {"replace": True},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_a_sampler_reach_it_and_survive_json(name, dataset, tmp_path):
    options = OPTIONS[name]
    chosen = settings(sampler=name, budgets=(), **options)
    assert TrainConfig.from_dict(json.loads(json.dumps(chosen.to_dict()))) == chosen
    assert options.items() <= chosen.sampler_options.items()
    sampler = make_trainer(dataset, tmp_path, sampler=name, budgets=(), **options).stepper.sampler
    assert sampler.config == sampler_config(name, **options)
    policy = getattr(getattr(sampler, "policy", None), "config", None)
    for option, value in options.items():
        assert getattr(policy, option, value) == value
    if name == "ladies":
        assert type(sampler.draw).__name__ == "WithReplacement"


REFUSED = {
    "an option of another": (
        {"sampler": "neighbor", "sampler_options": {"shared": True}},
        "shared=True is not an option of Neighbor, which takes estimator, first_hop",
    ),
    "an option for full": (
        {"sampler": "full", "sampler_options": {"replace": True}},
        "is not an option of Full, which takes none",
    ),
    "an option the name fixes": (
        {"sampler": "labor-1", "sampler_options": {"iterations": 3}},
        "iterations=3 contradicts sampler 'labor-1', which has iterations=1",
    ),
    "options without names": (
        {"sampler": "bliss", "sampler_options": ["eta"]},
        "must be a mapping",
    ),
    "another policy's option": (
        {"sampler": "bliss", "sampler_options": {"policy": "exp3", "memory": 0.5}},
        "memory=0.5 is not an option of Bliss, which takes .*eta, delta",
    ),
    "budgets for full": ({"sampler": "full", "budgets": (5, 5, 5)}, "leave them out"),
    "policy for full": (
        {"sampler": "full", "sampler_options": {"policy": "node"}},
        "policy='node' is not an option of Full",
    ),
    "policy for labor": (
        {"sampler": "labor-1", "sampler_options": {"policy": "static"}},
        "policy='static' is not an option of LABOR, which takes estimator, first_hop",
    ),
    "estimator for full": (
        {"sampler": "full", "sampler_options": {"estimator": "ht"}},
        "estimator='ht' is not an option of Full",
    ),
    "another's policy": (
        {"sampler": "neighbor", "sampler_options": {"policy": "node"}},
        "uniform, static",
    ),
    "another's estimator": (
        {"sampler": "gcn-bs", "sampler_options": {"estimator": "sketch"}},
        "ht, hajek",
    ),
    "fanouts for other layers": ({"sampler": "neighbor", "budgets": (5,)}, "1 entries for 3"),
    "an empty exploration": (
        {"sampler": "bliss", "sampler_options": {"eta": 0}},
        "eta=0",
    ),
    "a negative penalty": (
        {"weight_decay": -0.1},
        r"weight_decay=-0.1 must be a finite number, 0 or larger: 0 adds no penalty\.$",
    ),
    "an infinite penalty": ({"weight_decay": float("inf")}, "weight_decay=inf .*: 0 adds"),
    "no number as a penalty": ({"weight_decay": "0.1"}, "weight_decay='0.1' .*: 0 adds"),
    "far ahead": ({"prefetch": 2}, "prefetch=2 must be 0 or 1: pass 1 to .*, or 0 to draw"),
    "no number of batches": ({"prefetch": True}, "prefetch=True must be 0 or 1: pass"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_settings_get_one_sentence(case):
    options, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        TrainConfig(**options)


def test_a_name_that_is_no_setting_and_no_option_is_refused():
    with pytest.raises(InputError, match="unheard=1 is not an option of Bliss"):
        resolve(unheard=1)
    with pytest.raises(InputError, match="unheard=1 is not a setting"):
        TrainConfig.from_dict({"unheard": 1})


def test_full_batch_training_finds_its_blocks_once(dataset, tmp_path, monkeypatch):
    from bliss.kernels import nodewise

    calls = []
    original = nodewise.all_edges
    monkeypatch.setattr(nodewise, "all_edges", lambda *a: calls.append(1) or original(*a))
    options = {"sampler": "full", "budgets": (), "batch_size": 500, "steps": 8}
    stepper = make_trainer(dataset, tmp_path, **options).stepper
    for batch in stepper.batches():
        stepper.step(batch)
    assert stepper.steps == 8
    assert len(calls) == 2  # one for each layer


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "\ud800", "../recipes/cora"])
def test_odd_names_of_data_have_no_recipe(name):
    assert config.recipe(name, "sage", "bliss") == {}
