"""Settings ask the sampler: what budgets count, which policies and estimators there are."""

from __future__ import annotations

import json

import pytest

from bliss.errors import InputError
from bliss.samplers import SAMPLERS, sampler_class
from bliss.train import TrainConfig, Trainer, config, resolve
from tests.train.conftest import make_dataset
from tests.train.test_loop import SETTINGS, quiet, state, trained


def test_budgets_default_to_what_the_sampler_counts():
    assert TrainConfig().budgets == (2048, 1024, 512)
    assert TrainConfig(layers=2).budgets == (1024, 512)
    assert TrainConfig(sampler="neighbor", layers=2).budgets == (10, 10)
    assert TrainConfig(sampler="full").budgets == ()


def test_a_recipes_budgets_are_for_samplers_that_count_sources(monkeypatch):
    assert resolve(dataset="cora", sampler="pladies").budgets == (512, 256, 128)
    assert resolve(dataset="cora", sampler="labor-1").budgets == (10, 10, 10)
    assert resolve(dataset="cora", sampler="full").budgets == ()
    assert resolve(dataset="cora", sampler="neighbor", budgets=(3, 2, 1)).budgets == (3, 2, 1)
    recipe = {"budgets": [512, 256, 128], "fanouts": [15, 10, 5]}
    monkeypatch.setattr(config, "recipe", lambda *_: dict(recipe))
    assert resolve(dataset="cora", sampler="neighbor").budgets == (15, 10, 5)
    assert resolve(dataset="cora", sampler="bliss").budgets == (512, 256, 128)


def test_a_recipes_estimator_is_for_samplers_that_have_it(monkeypatch):
    monkeypatch.setattr(config, "recipe", lambda *_: {"estimator": "hajek", "policy": "node"})
    assert resolve(sampler="bliss").estimator == "hajek"
    assert resolve(sampler="bliss", estimator="ht").estimator == "ht"
    neighbor = resolve(sampler="neighbor")
    assert (neighbor.estimator, neighbor.policy) == ("hajek", "uniform")
    assert resolve(sampler="full").estimator == ""


@pytest.mark.parametrize("name", SAMPLERS)
def test_settings_of_every_sampler_survive_json(name):
    settings = TrainConfig(sampler=name)
    again = TrainConfig.from_dict(json.loads(json.dumps(settings.to_dict())))
    assert again == settings
    choices = sampler_class(name).choices
    assert bool(settings.policy) == ("policy" in choices)
    assert bool(settings.estimator) == ("estimator" in choices)


OPTIONS = {
    "ladies": {"replace": False},
    "bliss": {"eta": 0.2, "memory": 0.5},
    "neighbor": {"replace": True},
    "labor": {"iterations": 2, "shared": True},
    "labor-1": {"shared": True},
    "asgcn": {"rate": 0.1, "eta": 0.2},
    "gcn-bs": {"reward": "thanos", "restart": 7, "eta": 0.3, "delta": 0.1},
    "gat-bs": {"reward": "thanos"},
    "cluster": {"parts": 4, "partitioner": "propagation"},
    "saint-rw": {"length": 3, "coverage": 10},
    "vrgcn": {"replace": True},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_a_sampler_reach_it_and_survive_json(name, tmp_path):
    options = OPTIONS[name]
    given = SETTINGS | {"sampler": name, "sampler_options": options, "budgets": ()}
    settings = TrainConfig(**given)
    assert TrainConfig.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings
    sampler = Trainer(settings, make_dataset(), tmp_path, quiet).sampler
    policy = getattr(sampler, "policy", None)
    known = [sampler, policy, getattr(policy, "config", None), getattr(sampler, "draw", None)]
    for option, value in options.items():
        if option == "replace" and name == "ladies":
            assert type(sampler.draw).__name__ == "WithoutReplacement"
        else:
            found = [getattr(one, option) for one in known if hasattr(one, option)]
            assert value in found, option


REFUSED = {
    "an option of another": (
        {"sampler": "neighbor", "sampler_options": {"shared": True}},
        "shared=True, but sampler 'neighbor' takes replace with policy 'uniform'",
    ),
    "an option for full": ({"sampler": "full", "sampler_options": {"replace": 1}}, "takes none"),
    "an option the name fixes": (
        {"sampler": "labor-1", "sampler_options": {"iterations": 3}},
        "'labor-1' takes shared",
    ),
    "options without names": (
        {"sampler": "bliss", "sampler_options": ["eta"]},
        "must be names with values",
    ),
    "another policy's option": (
        {"sampler": "bliss", "policy": "exp3", "sampler_options": {"memory": 0.5}},
        "takes eta, delta with policy 'exp3'",
    ),
    "budgets for full": ({"sampler": "full", "budgets": (5, 5, 5)}, "leave them out"),
    "policy for full": ({"sampler": "full", "policy": "node"}, "'full' has no policy to choose"),
    "policy for labor": (
        {"sampler": "labor-1", "policy": "static"},
        r"no policy to choose \(it takes budgets, estimator\)",
    ),
    "estimator for full": ({"sampler": "full", "estimator": "ht"}, "no estimator to choose"),
    "another's policy": ({"sampler": "neighbor", "policy": "node"}, "uniform, static"),
    "another's estimator": ({"sampler": "gcn-bs", "estimator": "sketch"}, "ht, hajek"),
    "fanouts for other layers": ({"sampler": "neighbor", "budgets": (5,)}, "1 entries for 3"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_settings_get_one_sentence(case):
    options, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        TrainConfig(**options)


def test_full_batch_training_finds_its_blocks_once(tmp_path, monkeypatch):
    from bliss.kernels import nodewise

    dataset = make_dataset()
    calls = []
    original = nodewise.all_edges
    monkeypatch.setattr(nodewise, "all_edges", lambda *a: calls.append(1) or original(*a))
    options = SETTINGS | {"sampler": "full", "budgets": (), "batch_size": 500, "steps": 8}
    trainer = Trainer(TrainConfig(**options), dataset, tmp_path, quiet)
    for batch in trainer.batches():
        trainer.learn(batch)
    assert trainer.loader.step == 8
    assert len(calls) == 2  # one for each layer


@pytest.mark.parametrize("sampler", ["asgcn", "gcn-bs", "gat-bs", "fastgcn"])
def test_a_resumed_run_ends_as_if_it_had_not_stopped(tmp_path, sampler):
    dataset = make_dataset()
    budgets = {"sources": (60, 30), "neighbours": (5, 5)}[sampler_class(sampler).unit]
    options = {"sampler": sampler, "budgets": budgets, "model": "gat", "prefetch": 1}
    whole, _ = trained(dataset, tmp_path / "whole", **options)
    trained(dataset, tmp_path / "cut", **options)
    for name in ("config.json", "result.json"):  # as if stopped after its second checkpoint
        (tmp_path / "cut" / name).unlink()
    newest = max((tmp_path / "cut" / "checkpoints").glob("*.json"))
    newest.with_suffix(".safetensors").unlink()
    newest.unlink()
    settings = TrainConfig(**(SETTINGS | options))
    (tmp_path / "cut" / "config.json").write_text(json.dumps(settings.to_dict()))
    resumed, _ = trained(dataset, tmp_path / "cut", resume=True, **options)
    for name, tensor in state(whole).items():
        assert tensor.equal(state(resumed)[name]), name
