"""Adam without torch's compiler makes the steps of torch's Adam."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch import nn

from bliss.train.adam import Adam

pytestmark = pytest.mark.slow

OPTIONS = {"lr": 0.1, "weight_decay": 0.01, "fused": True}


def train(optimizer: torch.optim.Optimizer, model: nn.Module, steps: range) -> None:
    for step in steps:
        optimizer.param_groups[0]["lr"] = 0.1 / (1 + step)
        optimizer.zero_grad(set_to_none=True)
        x = torch.randn(8, 5, generator=torch.Generator().manual_seed(step))
        model(x).square().mean().backward()
        optimizer.step()


def made(
    kind: type[torch.optim.Optimizer], **changes: bool
) -> tuple[torch.optim.Optimizer, nn.Module]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 2))
    return kind(model.parameters(), **OPTIONS | changes), model


def test_the_steps_are_those_of_torch_also_after_loading_a_state():
    (ours, own), (theirs, other) = made(Adam), made(torch.optim.Adam)
    train(ours, own, range(3))
    train(theirs, other, range(3))
    resumed, model = made(Adam)
    model.load_state_dict(own.state_dict())
    saved = io.BytesIO()
    torch.save(ours.state_dict(), saved)
    saved.seek(0)
    resumed.load_state_dict(torch.load(saved, weights_only=True))
    train(theirs, other, range(3, 6))
    train(resumed, model, range(3, 6))
    for mine, wanted in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, wanted)
    moments = [copy.deepcopy(one.state_dict()["state"]) for one in (resumed, theirs)]
    for number, state in moments[1].items():
        for name, value in state.items():
            assert torch.equal(moments[0][number][name], value), name


def test_a_step_records_no_gradient():
    optimizer, model = made(Adam, fused=False)  # fused kernels are never recorded
    train(optimizer, model, range(1))  # otherwise, torch refuses to change weights in place
    assert all(one.grad_fn is None and one.requires_grad for one in model.parameters())
