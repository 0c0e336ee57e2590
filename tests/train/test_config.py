"""Settings ask the sampler: what budgets count, which policies and estimators there are."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from bliss.errors import InputError
from bliss.samplers import SAMPLERS, sampler_config
from bliss.train import TrainConfig, Trainer, recipe, resolve
from bliss.train import config as config_module
from bliss.train.config import PARTS, PLACES
from tests.train.runs import make_trainer, settings

pytestmark = pytest.mark.slow


def budgets_of(config: TrainConfig) -> tuple[int, ...]:
    return config.sampler.budgets


def test_default_budgets_are_filled_in_for_the_graph_and_count_what_the_sampler_counts():
    assert budgets_of(TrainConfig()) == ()
    assert budgets_of(TrainConfig().fitted(10**6)) == (1024, 512)  # the first hop is exact
    assert budgets_of(TrainConfig.of(sampler="pladies").fitted(10**6)) == (2048, 1024, 512)
    two = TrainConfig.of(layers=2, first_hop="sampled")
    assert budgets_of(two.fitted(10**6)) == (1024, 512)
    assert budgets_of(two.fitted(800)) == (100, 50)  # at most an eighth of the nodes
    assert budgets_of(two.with_settings(sampler="neighbor").fitted(10**6)) == (10, 10)
    assert budgets_of(two.with_settings(sampler="vrgcn").fitted(10**6)) == (2,)
    assert budgets_of(TrainConfig.of(sampler="full").fitted(10**6)) == ()
    assert budgets_of(TrainConfig.of(budgets=(3, 2, 1)).fitted(10)) == (3, 2, 1)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "exact"),
        ({"model": "gcn"}, "exact"),
        ({"budgets": (30, 20)}, "exact"),  # none for the input layer
        ({"budgets": (40, 30, 20)}, "sampled"),
        ({"first_hop": "sampled"}, "sampled"),
        ({"model": "gatv2"}, "sampled"),
        ({"layers": 1}, "sampled"),
        ({"policy": "exp3"}, "sampled"),  # as published
        ({"sampler": "pladies"}, "sampled"),
        ({"sampler": "pladies", "first_hop": "exact"}, "exact"),
        ({"dataset": "cora"}, "sampled"),  # the recipe has budgets for all layers
        ({"task": "link"}, "exact"),
        ({"task": "link", "embedding": 8}, "sampled"),  # inputs change
    ],
)
def test_the_first_hop_is_exact_where_it_can_be(given, expected):
    config = resolve(**given).fitted(1000, 16)
    assert config.sampler.config.first_hop == expected
    assert TrainConfig.from_dict(config.to_dict()) == config


def test_the_first_hop_is_sampled_where_sums_of_features_are_large(dataset, tmp_path, monkeypatch):
    monkeypatch.setattr(config_module, "LARGE_BYTES", 4 * 240 * dataset.num_features)
    said: list[str] = []
    for place in ("exact", "sampled"):
        trainer = Trainer(settings(budgets=()), dataset, tmp_path / place, said.append)
        assert trainer.config.sampler.config.first_hop == place
        assert ["first hop is sampled" in one for one in said] == [True] * (place == "sampled")
        monkeypatch.setattr(config_module, "LARGE_BYTES", 4 * 240 * dataset.num_features - 1)


HISTORIES = {
    "nodes": [
        {},
        {"first_hop": "exact"},
        {"budgets": (30, 20)},
        {"history_type": "float16"},
        {"dropout": 0.1, "history": "nodes"},  # it was given
        {"sampler": "pladies", "history": "nodes"},
    ],
    "none": [
        {"history": "none"},
        {"dropout": 0.1},
        {"model": "gcn"},
        {"model": "gatv2"},
        {"layers": 1},
        {"first_hop": "sampled"},
        {"budgets": (40, 30, 20)},
        {"policy": "exp3"},
        {"estimator": "hajek"},
        {"coin_steps": 8},
        {"shards": 2},
        {"task": "link"},
        {"task": "link", "model": "lightgcn", "embedding": 8},
        {"sampler": "pladies", "first_hop": "exact"},
        {"sampler": "pladies", "history": "auto", "first_hop": "exact"},
        {"dataset": "cora"},
        {"dataset": "ppi"},
    ],
}


@pytest.mark.parametrize(
    ("given", "expected"), [(one, name) for name, all_of in HISTORIES.items() for one in all_of]
)
def test_a_history_is_the_default_where_it_pays(given, expected):
    config = resolve(**{"dropout": 0.0} | given).fitted(1000, 16)
    assert config.sampler.config.history == expected
    assert config.fitted(10**9, 16).sampler.config.history == expected  # it is decided once
    assert TrainConfig.from_dict(config.to_dict()) == config


def test_a_history_is_no_default_of_data_with_times():
    for given in ({}, {"first_hop": "exact"}):  # the latter is refused elsewhere
        config = resolve(dropout=0.0, **given)
        assert config.fitted(1000, 16).sampler.config.has_history
        assert not config.fitted(1000, 16, has_times=True).sampler.config.has_history


def test_a_history_that_takes_much_memory_is_no_default(dataset, tmp_path, monkeypatch):
    given = {"budgets": (), "dropout": 0.0}
    size = settings(**given).history_bytes(240)
    assert size == 4 * 240 * settings().network.hidden  # of one of two layers
    said: list[str] = []
    for place, most in (("nodes", size), ("none", size - 1)):
        monkeypatch.setattr(config_module, "LARGE_HISTORY", most)
        trainer = Trainer(settings(**given), dataset, tmp_path / place, said.append)
        trainer.run()
        assert trainer.folder.settings().sampler.config.history == place
        assert [one.startswith("There is no history") for one in said].count(True) == (
            place == "none"
        )
    for smaller in ({"history_type": "float16"}, {"history_folder": str(tmp_path)}):
        assert settings(**given, **smaller).fitted(240).sampler.config.has_history


def test_a_budget_is_missing_with_attention_which_has_no_exact_first_hop():
    with pytest.raises(InputError, match="3 layers"):
        resolve(model="gatv2", budgets=(30, 20))


def test_a_run_writes_the_budgets_it_has_used(dataset, tmp_path):
    trainer = make_trainer(dataset, tmp_path, budgets=(), steps=1)
    trainer.run()
    assert trainer.folder.settings().sampler.budgets == (30,)  # 240 nodes, an exact first hop
    assert tuple(trainer.stepper.sampler.budgets) == (30,)


def test_a_recipes_budgets_are_for_samplers_that_count_sources(monkeypatch):
    assert budgets_of(resolve(dataset="cora", sampler="pladies")) == (512, 256, 128)
    assert budgets_of(resolve(dataset="cora", sampler="labor-1").fitted(2708)) == (10, 10, 10)
    assert budgets_of(resolve(dataset="cora", sampler="full")) == ()
    given = resolve(dataset="cora", sampler="neighbor", budgets=(3, 2, 1))
    assert budgets_of(given) == (3, 2, 1)
    found = {"budgets": [512, 256, 128], "fanouts": [15, 10, 5]}
    monkeypatch.setattr(recipe, "recipe", lambda *_: dict(found))
    assert budgets_of(resolve(dataset="cora", sampler="neighbor")) == (15, 10, 5)
    assert budgets_of(resolve(dataset="cora", sampler="bliss")) == (512, 256, 128)


def test_a_recipes_options_are_for_samplers_that_have_them(monkeypatch):
    monkeypatch.setattr(recipe, "recipe", lambda *_: {"estimator": "hajek", "policy": "exp3"})
    bliss = resolve(sampler="bliss").sampler.config
    assert (bliss.estimator, bliss.policy_name) == ("hajek", "exp3")
    assert resolve(sampler="bliss", estimator="ht").sampler.config.estimator == "ht"
    neighbor = resolve(sampler="neighbor").sampler.config
    assert (neighbor.estimator, neighbor.policy_name) == ("hajek", "uniform")
    assert resolve(sampler="full").sampler.config == SAMPLERS["full"]


@pytest.mark.parametrize("name", SAMPLERS)
def test_settings_of_every_sampler_survive_json(name):
    settings = TrainConfig.of(sampler=name)
    assert settings.sampler.config == SAMPLERS[name]
    again = TrainConfig.from_dict(json.loads(json.dumps(settings.to_dict())))
    assert again == settings
    assert TrainConfig.of(**settings.flat()) == settings
    assert bool(settings.sampler.config.policy_name) == ("policy" in SAMPLERS[name].options())


def test_flat_names_are_distinct():
    names = [name for part, kind in PARTS.items() for name in (one.name for one in fields(kind))]
    assert len(names) == len(set(names))
    options = {n for one in SAMPLERS.values() for n in one.known_options()}
    options |= {n for one in SAMPLERS.values() for p in one.policies.values() for n in p.options()}
    assert not options & set(PLACES)
    assert set(PLACES) - set(names) == {"sampler"}  # it is the sampler's name


def test_a_change_by_flat_names_leaves_everything_else_as_it_is():
    config = TrainConfig.of(lr=0.1, budgets=[3, 2, 1], eta=0.3, estimator="hajek", hidden=8)
    changed = config.with_settings(steps=7, memory=0.5, class_weights=[1, 2.5], model="gcn")
    expected = {"steps": 7, "memory": 0.5, "class_weights": [1.0, 2.5], "model": "gcn"}
    assert changed.flat() == config.flat() | expected
    assert config.flat().items() >= {"lr": 0.1, "eta": 0.3, "estimator": "hajek"}.items()
    assert config.with_settings() == config
    assert sorted(changed.differences(config)) == [
        "class_weights: [1.0, 2.5], none",
        "memory: 0.5, 0.1",
        "model: gcn, sage",
        "steps: 7, 300",
    ]


def test_another_sampler_has_its_own_defaults():
    config = TrainConfig.of(sampler="bliss", eta=0.3, estimator="hajek", lr=0.1)
    other = config.with_settings(sampler="labor", shared=True)
    assert other == TrainConfig.of(sampler="labor", shared=True, lr=0.1)
    assert config.with_settings(sampler="bliss", memory=0.2).sampler.config.estimator == "hajek"
    assert "iterations: None, 0" in config.differences(other)


def test_settings_cannot_be_assigned():
    config = TrainConfig()
    for part in (config.data, config.network, config.sampler, config.training):
        with pytest.raises(FrozenInstanceError):
            setattr(part, fields(part)[0].name, "x")
    assert len({config, TrainConfig.of(seed=1), TrainConfig()}) == 2  # hashable, too


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
    assert options.items() <= chosen.flat().items()
    sampler = make_trainer(dataset, tmp_path, sampler=name, budgets=(), **options).stepper.sampler
    assert sampler.config == sampler_config(name, **options).decided(True, False)
    policy = getattr(getattr(sampler, "policy", None), "config", None)
    for option, value in options.items():
        assert getattr(policy, option, value) == value
    if name == "ladies":
        assert type(sampler.draw).__name__ == "WithReplacement"


REFUSED = {
    "an option of another": (
        {"sampler": "neighbor", "shared": True},
        "shared=True is not an option of Neighbor, which takes estimator, first_hop",
    ),
    "an option for full": (
        {"sampler": "full", "replace": True},
        "is not an option of Full, which takes none",
    ),
    "an option the name fixes": (
        {"sampler": "labor-1", "iterations": 3},
        "iterations=3 contradicts sampler 'labor-1', which has iterations=1",
    ),
    "another policy's option": (
        {"sampler": "bliss", "policy": "exp3", "memory": 0.5},
        "memory=0.5 is not an option of Bliss, which takes .*eta, delta",
    ),
    "budgets for full": ({"sampler": "full", "budgets": (5, 5, 5)}, "leave them out"),
    "no budgets": ({"budgets": None}, "budgets=None must be a list"),
    "policy for full": (
        {"sampler": "full", "policy": "node"},
        "policy='node' is not an option of Full",
    ),
    "policy for labor": (
        {"sampler": "labor-1", "policy": "static"},
        "policy='static' is not an option of LABOR, which takes estimator, first_hop",
    ),
    "estimator for full": (
        {"sampler": "full", "estimator": "ht"},
        "estimator='ht' is not an option of Full",
    ),
    "another's policy": ({"sampler": "neighbor", "policy": "node"}, "uniform, static"),
    "another's estimator": ({"sampler": "gcn-bs", "estimator": "sketch"}, "ht, hajek"),
    "fanouts for other layers": ({"sampler": "neighbor", "budgets": (5,)}, "1 entries for 3"),
    "an empty exploration": ({"sampler": "bliss", "eta": 0}, "eta=0"),
    "no sampler": ({"sampler": "blis"}, "sampler='blis' is not known: choose one of ladies"),
    "no data": ({"dataset": ""}, "dataset='' must be the name of a data set"),
    "no device": ({"device": None}, "device=None is not known"),
    "no rate of dropout": ({"dropout": "x"}, "dropout='x' must be a finite number"),
    "no flag": ({"residual": 1}, "residual=1 must be True or False"),
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
        TrainConfig.of(**options)
    if "sampler" in options:  # the change of a config is checked like a new one
        sampler, others = options["sampler"], {k: v for k, v in options.items() if k != "sampler"}
        if others:
            with pytest.raises(InputError, match=message):
                TrainConfig.of(sampler=sampler).with_settings(**others)


def test_a_name_that_is_no_setting_and_no_option_is_refused():
    with pytest.raises(InputError, match="unheard=1 is not an option of Bliss"):
        resolve(unheard=1)
    with pytest.raises(InputError, match=r"sampler_options=\{\} is not an option of Bliss"):
        resolve(sampler_options={})


WRONG = {
    "no entries": (lambda d: [], "the settings must be entries by name"),
    "an unknown part": (lambda d: d | {"unheard": 1}, "unheard=1 is not a setting: remove it"),
    "a missing part": (lambda d: {k: d[k] for k in d if k != "data"}, "data is missing"),
    "a part without entries": (lambda d: d | {"network": None}, "network must be entries by name"),
    "an unknown setting": (
        lambda d: d | {"network": d["network"] | {"unheard": 1}},
        "network.unheard=1 is not a setting",
    ),
    "a setting of another part": (
        lambda d: d | {"network": d["network"] | {"lr": 1.0}},
        "network.lr=1.0 is not a setting",
    ),
    "a missing setting": (
        lambda d: d | {"training": {k: v for k, v in d["training"].items() if k != "lr"}},
        "training.lr is missing",
    ),
    "a wrong setting": (lambda d: d | {"training": d["training"] | {"lr": 0}}, "lr=0 must be"),
    "an unknown option": (lambda d: with_options(d, unheard=1), "unheard=1 is not an option of"),
    "a missing option": (lambda d: with_options(d, eta=...), r"sampler\.config\.eta is missing"),
    "no options": (lambda d: d | {"sampler": d["sampler"] | {"config": []}}, "sampler.config must"),
    "the name among options": (lambda d: with_options(d, name="bliss"), "name='bliss' is not"),
    "an unknown sampler": (
        lambda d: d | {"sampler": d["sampler"] | {"name": ["bliss"]}},
        "is not known: choose one of",
    ),
}


def with_options(settings: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Settings with changed options of the sampler; ... removes one."""
    options = settings["sampler"]["config"] | changes
    kept = {name: value for name, value in options.items() if value is not ...}
    return settings | {"sampler": settings["sampler"] | {"config": kept}}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_entries_of_a_file_get_one_sentence(case):
    change, message = WRONG[case]
    with pytest.raises(InputError, match=message):
        TrainConfig.from_dict(change(TrainConfig().to_dict()))


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


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"dataset": "mine"}, ("batch", 0.0)),
        ({"dataset": "mine", "model": "gatv2"}, ("batch", 0.1)),
        ({"dataset": "mine", "model": "gcn"}, ("none", 0.1)),
        ({"dataset": "mine", "model": "rgat"}, ("none", 0.1)),
        ({"dataset": "mine", "task": "link"}, ("none", 0.1)),
        ({"dataset": "cora"}, ("none", 0.5)),  # its recipe says so
        ({"dataset": "mine", "normalisation": "layer", "dropout": 0.2}, ("layer", 0.2)),
    ],
)
def test_the_recipe_for_all_data_sets_applies_unless_another_one_or_a_setting_does(given, wanted):
    network = resolve(**given).network
    assert (network.normalisation, network.dropout) == wanted


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "\ud800", "../recipes/cora"])
def test_odd_names_of_data_have_no_recipe(name):
    assert recipe.recipe(name, "sage", "bliss") == {}
