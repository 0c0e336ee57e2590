"""Training learns with every sampler and network, and refuses what it cannot train."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torchmetrics.functional.classification import multiclass_f1_score, multilabel_f1_score

from bliss.errors import InputError, ResourceError
from bliss.samplers import SAMPLERS
from bliss.train import PARTS, LoopConfig, TrainConfig, micro_f1, resolve
from tests.build import make_dataset
from tests.train.runs import BUDGETS, SETTINGS, make_trainer, state, trained

pytestmark = pytest.mark.slow

# Every sampler with one network, and every network with a sampler of each kind: layer-wise with
# a policy that sees attention, node-wise, and subgraphs.
PAIRS = [
    *((name, "sage") for name in SAMPLERS),
    *((name, m) for name in ("bliss", "neighbor", "cluster") for m in ("gcn", "gat", "gatv2")),
    ("vrgcn", "gcn"),
]


@pytest.mark.parametrize("out", ["", None, b"run", "x" * 5000])
def test_a_run_needs_the_name_of_a_folder(dataset, out):
    with pytest.raises(InputError, match=r"^out="):
        make_trainer(dataset, out)


@pytest.mark.parametrize(("sampler", "model"), PAIRS)
def test_every_sampler_and_every_network_learns(dataset, tmp_path, sampler, model):
    kind = SAMPLERS[sampler]
    # for samplers of subgraphs half of the training nodes, or as many draws
    budgets = BUDGETS[kind.unit][-kind.sampled_layers(2) :]
    options = {"budgets": budgets, "batch_size": 60 if kind.makes_batches else 40}
    _, result = trained(dataset, tmp_path, model=model, sampler=sampler, steps=60, **options)
    assert result.val_score > 0.75  # least squares on the features alone: 0.68
    assert set(result.step_ms) == set(PARTS)


@pytest.mark.parametrize("model", ["gat", "gatv2"])
@pytest.mark.parametrize("sampler", [name for name, kind in SAMPLERS.items() if kind.linear_only])
def test_samplers_that_need_fixed_coefficients_refuse_attention(sampler, model):
    with pytest.raises(InputError, match=f"model='{model}' learns its coefficients"):
        TrainConfig.of(model=model, sampler=sampler)


def test_multi_label_data_trains(tmp_path):
    _, result = trained(make_dataset(multilabel=True), tmp_path, steps=60)
    assert result.test_score > 0.7


def test_bfloat16_trains_too(dataset, tmp_path):
    _, result = trained(dataset, tmp_path, precision="bfloat16", model="gatv2", steps=60)
    assert result.val_score > 0.7


def test_micro_f1_is_torchmetrics():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(500, 7, generator=generator)
    classes = torch.randint(0, 7, (500,), generator=generator)
    several = (torch.rand(500, 7, generator=generator) < 0.3).float()
    expected = multiclass_f1_score(logits, classes, num_classes=7, average="micro")
    assert micro_f1(logits, classes) == pytest.approx(expected.item())
    expected = multilabel_f1_score(logits.sigmoid(), several.long(), num_labels=7, average="micro")
    assert micro_f1(logits, several) == pytest.approx(expected.item())


def test_two_runs_with_one_seed_are_equal_and_with_two_are_not(dataset, tmp_path):
    first, again = (make_trainer(dataset, tmp_path / name) for name in "ab")
    other = make_trainer(dataset, tmp_path / "c", seed=1)
    weight = "model.convs.0.own.weight"
    assert not torch.equal(state(first)[weight], state(other)[weight])
    first.run()
    again.run()
    for name, tensor in state(first).items():
        assert torch.equal(tensor, state(again)[name]), name


REFUSED = {
    "budgets for other layers": ({"budgets": (5, 5, 5)}, "3 entries"),
    "unknown sampler": ({"sampler": "neighbour"}, "sampler='neighbour'"),
    "no steps": ({"steps": 0}, "steps=0"),
    "no learning": ({"lr": 0.0}, "lr=0.0"),
    "unknown precision": ({"precision": "float8"}, "precision='float8'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_settings_get_one_sentence(case):
    changes, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        TrainConfig.of(**(SETTINGS | changes))


def test_an_empty_split_and_a_missing_gpu_are_refused(dataset, tmp_path):
    empty = dataclasses.replace(dataset, splits={**dataset.splits, "val": torch.arange(0)})
    with pytest.raises(InputError, match="the val split of 'toy' is empty"):
        make_trainer(empty, tmp_path)
    if not torch.cuda.is_available():
        with pytest.raises(ResourceError, match="torch sees no GPU"):
            make_trainer(dataset, tmp_path, device="cuda")


def test_settings_come_from_options_then_recipe_then_defaults():
    plain = resolve(dataset="somewhere/else")
    assert plain.training.lr == LoopConfig.lr
    recipe = resolve(dataset="Cora", model="sage")
    assert recipe.training.batch_size == 32
    assert recipe.sampler.budgets == (512, 256, 128)
    assert resolve(dataset="cora", model="sage", batch_size=7).training.batch_size == 7


@pytest.mark.parametrize(
    ("value", "lr", "cause"),
    [
        (float("nan"), 0.02, "features hold NaN or infinity, replace them"),
        (float("inf"), 0.02, "features hold NaN or infinity, replace them"),
        (6e37, 0.02, r"features reach \d\S*e\+38, scale them"),
        (1.0, 1e30, r"the network has diverged, lower lr \(now 1e\+30\)"),
    ],
)
def test_a_loss_that_is_not_finite_names_its_cause(tmp_path, value, lr, cause):
    dataset = make_dataset()
    dataset.x.mul_(value)
    with pytest.raises(InputError, match=rf"^loss=\S+ at step \d+: {cause}"):
        trained(dataset, tmp_path, lr=lr, sampler="full", budgets=())
