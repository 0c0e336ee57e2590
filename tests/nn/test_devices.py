"""Networks and blocks on a device other than the CPU.

`FakeTensorMode` runs every operation on shapes and devices only. It refuses operations over two
devices and operations that read a value on the host. Torch's CPU build cannot index fake CUDA
tensors, so fake tensors on "meta" take the place of the GPU's: the library distinguishes the CPU
from all other devices only.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    FakeTensorDeviceMismatchError,
    FakeTensorMode,
    unset_fake_temporarily,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch_geometric.data import Data

from bliss import Graph, InputError
from bliss.nn import GNN, MODELS, ModelConfig, infer
from bliss.nn import attention as attention_module
from bliss.nn.aggregate import aggregate
from bliss.nn.block import Block, Observation
from bliss.nn.control import Control
from bliss.nn.convs import GATConv, GATv2Conv, GCNConv, SAGEConv
from bliss.nn.model_config import RELATIONAL
from bliss.samplers import SAMPLERS, Full, sampler_config
from tests.conftest import heavy_tailed_pairs

pytestmark = pytest.mark.slow

DEVICE, FEATURES, CLASSES = "meta", 6, 4
WITH_WEIGHTS = [  # they have the options below
    model for model in MODELS if model not in ("lightgcn", *RELATIONAL)
]
OPTIONS = {
    "batch": {"residual": True, "normalisation": "batch", "dropout": 0.5, "attention_dropout": 0.5},
    "layer": {"normalisation": "layer", "attention": "plain", "dropout": 0.0, "bias": False},
    "scores": {"feedback": "scores", "initialisation": "relu", "attention_dropout": 0.0},
}


@cache
def graph() -> Graph:
    return Graph.from_edge_index(heavy_tailed_pairs(50, 300), num_nodes=60)


@cache
def drawn(name: str) -> tuple[Block, ...]:
    """Blocks of two layers, drawn on the CPU after one update with random observations."""
    random, config = np.random.default_rng(0), sampler_config(name)
    budgets = {"sources": [20, 10], "neighbours": [3, 3], "none": []}[config.unit]
    budgets = budgets[2 - config.sampled_layers(2) :]
    x = random.standard_normal((60, FEATURES)).astype(np.float32)
    features = {"x": x} if config.needs_features else {}
    widths = (FEATURES, 8)
    sampler = config.build(graph(), budgets, layers=2, widths=widths, **features)
    seeds = np.arange(12)
    if config.makes_batches:
        sampler.prepare(np.arange(60), 20)
        seeds = sampler.batches(0)[0]
    blocks = sampler.sample(seeds, 0)
    for block, width in zip(blocks, widths, strict=True):
        shown = random.standard_normal((block.num_src, width)).astype(np.float32)
        block.observe(torch.from_numpy(shown), torch.full((block.num_edges,), 0.5))
    sampler.update(blocks)
    return tuple(sampler.sample(seeds, 1))


class Crossings(TorchDispatchMode):
    """Operations whose tensors, scalars aside, are on two devices, and copies between devices."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        tensors = [t for t in tree_leaves((args, kwargs, result)) if isinstance(t, Tensor)]
        if len({t.device.type for t in tensors if t.ndim}) > 1:
            self.found.append(str(function))
        return result


@contextmanager
def fake_device():
    """Fake tensors; new ones are on the CPU unless a device is named."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield


def network(model: str, options: str, device: str = DEVICE) -> GNN:
    torch.manual_seed(0)
    config = ModelConfig(model=model, layers=2, hidden=8, heads=2, **OPTIONS[options])
    with torch.device(device):
        return GNN(FEATURES, CLASSES, config)


def tensors_of(record: object) -> dict[str, Tensor]:
    """Tensors of a dataclass, those of nested ones included; not those of `origin`."""
    found = {}
    for one in fields(record):
        value = getattr(record, one.name)
        if isinstance(value, Tensor):
            found[one.name] = value
        elif isinstance(value, (Control, Observation)):
            found |= {f"{one.name}.{k}": v for k, v in tensors_of(value).items()}
    return found


def train_step(model: str, options: str, sampler: str) -> list[str]:
    """Forward and backward pass on the device; returns the crossings."""
    gnn = network(model, options)
    blocks = [block.to(DEVICE) for block in drawn(sampler)]
    x = torch.empty(blocks[0].num_src, FEATURES, device=DEVICE, requires_grad=True)
    with Crossings() as crossings:
        out = gnn(x, blocks)
        out.sum().backward()
    assert out.shape == (blocks[-1].num_dst, CLASSES)
    parameters = [parameter.grad for parameter in gnn.parameters()]
    if (model, blocks[0].num_edges) != ("gcn", 0):  # GCN with an exact first hop does not read x
        parameters.append(x.grad)
    for tensor in (out, *parameters):
        assert tensor.device.type == DEVICE
    for block in blocks:
        assert {tensor.device.type for tensor in tensors_of(block).values()} == {DEVICE}
        assert block.observation is not None
    gnn.eval()
    with torch.no_grad():
        assert gnn(x, blocks).device.type == DEVICE
    return crossings.found


LINEAR = ("sage", "gcn")
# Every sampler with one network, and every network with blocks of each kind: with probabilities of
# sources, of edges alone, without them, with weights of targets, and with control variates.
KINDS = ("bliss", "neighbor", "sketch", "saint-rw", "vrgcn")
PAIRS = [(LINEAR[0], sampler) for sampler in SAMPLERS]
PAIRS += [
    (model, sampler)
    for sampler in KINDS
    for model in WITH_WEIGHTS
    if model in LINEAR[1:] or (model not in LINEAR and not SAMPLERS[sampler].linear_only)
]


@pytest.mark.parametrize(("model", "sampler"), PAIRS)
def test_a_training_step_stays_on_its_device(model, sampler):
    drawn(sampler)
    with fake_device():
        assert train_step(model, "batch", sampler) == []


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("model", WITH_WEIGHTS)
def test_every_option_of_a_network_stays_on_its_device(model, options):
    drawn("bliss")
    with fake_device():
        assert train_step(model, options, "bliss") == []


def test_the_drawn_blocks_cover_what_a_block_can_hold():
    """Otherwise the tests above would leave fields unmoved without notice."""
    blocks = [block for name in SAMPLERS for block in drawn(name)]
    optional = {"control", "prob", "dst_weight"}
    for name in optional:
        assert any(getattr(block, name) is not None for block in blocks), name
    assert all(block.control is not None for block in drawn("vrgcn"))
    assert any(block.keeps_input for block in blocks)


def stays_behind(name: str) -> property:
    """A property of Block that is computed on the CPU, whatever the block's device."""
    found = getattr(Block, name)
    original = found.fget if isinstance(found, property) else found.func

    def on_host(self: Block) -> object:
        values = original(self)
        return tuple(v.cpu() for v in values) if isinstance(values, tuple) else values.cpu()

    return property(on_host)


def round_trip() -> property:
    """Grouping by source as computed on the host, with the result on the block's device."""
    on_host = stays_behind("by_source").fget
    return property(lambda self: tuple(value.to(self.row.device) for value in on_host(self)))


MUTANTS = {
    "targets of edges": (Block, "col", lambda: stays_behind("col"), WITH_WEIGHTS),
    "edges by source": (Block, "by_source", lambda: stays_behind("by_source"), LINEAR),
    "a round trip": (Block, "by_source", round_trip, LINEAR),
    "a buffer": (Tensor, "new_zeros", lambda: lambda self, *shape: torch.zeros(*shape), ("gat",)),
    "a kernel of the CPU": (
        attention_module,
        "_is_compiled",
        lambda: lambda tensor: True,
        ("gat", "gatv2"),
    ),
    "control variates": (
        Block,
        "to",
        lambda: lambda self, device: replace(TO(self, device), control=self.control),
        LINEAR,
    ),
}
TO = Block.to


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_tensor_left_on_the_cpu_is_noticed(mutant, monkeypatch):
    where, name, make, models = MUTANTS[mutant]
    sampler = "vrgcn" if mutant == "control variates" else "bliss"
    drawn(sampler)
    monkeypatch.setattr(where, name, make())
    for model in models:
        with fake_device():
            try:
                noticed = train_step(model, "batch", sampler)  # crossings
            except (InputError, RuntimeError, FakeTensorDeviceMismatchError) as error:
                noticed = re.findall("device|numpy", str(error))
        assert noticed, model


@pytest.mark.parametrize("model", WITH_WEIGHTS)
def test_inference_computes_on_the_device_and_returns_to_the_cpu(model, monkeypatch):
    sample, layer, devices = Full.sample, GNN.layer, []

    def real_draw(self, seeds, step):
        with unset_fake_temporarily():
            return sample(self, seeds, step)

    def watched(self, number, x, block):
        out = layer(self, number, x, block)
        devices.extend((x.device.type, block.row.device.type, out.device.type))
        return out

    monkeypatch.setattr(Full, "sample", real_draw)
    monkeypatch.setattr(GNN, "layer", watched)
    with fake_device():
        gnn = network(model, "batch")
        for device in ("cpu", DEVICE):  # features on either
            x = torch.empty(60, FEATURES, device=device)
            out = infer(gnn, graph(), x, chunk_edges=50, device=DEVICE)
            assert (out.device.type, out.shape) == ("cpu", (60, CLASSES))
    assert len(devices) > 4 * 3  # several chunks
    assert set(devices) == {DEVICE}
    assert gnn.training


def test_a_move_keeps_every_field_and_the_block_it_came_from():
    block = drawn("vrgcn")[1]
    observation = Observation(torch.ones(block.num_src), torch.ones(block.num_edges))
    block = replace(block, observation=observation)
    moved = block.to(DEVICE)
    assert tensors_of(moved).keys() == tensors_of(block).keys()
    assert {tensor.device.type for tensor in tensors_of(moved).values()} == {DEVICE}
    assert moved.origin is block
    assert moved.to(DEVICE).origin is block
    assert moved.keeps_input == block.keeps_input


def test_feedback_reads_the_draw_from_the_block_on_the_host():
    block = drawn("bliss")[0]
    observation = Observation(torch.ones(block.num_src))
    moved = replace(block.to(DEVICE), observation=observation)
    feedback = moved.feedback()  # a copy from the meta device would raise
    assert feedback.row.base is not None
    assert np.shares_memory(feedback.row, block.row.numpy())


def test_comparing_pyg_edges_with_those_of_the_block_reads_the_device():
    """docs/devices.md says so; passing attention alone does not."""
    with fake_device():
        block = drawn("bliss")[0].to(DEVICE)
        x = torch.empty(block.num_src, 3, device=DEVICE)
        attention = torch.empty(block.num_edges, 2, device=DEVICE)
        block.observe(x, attention)
        with pytest.raises(DataDependentOutputException):
            block.observe(x, (block.edge_index, attention))


CONVOLUTIONS = {
    "aggregate": lambda: aggregate_module(),
    "sage": lambda: SAGEConv(FEATURES, CLASSES),
    "gcn": lambda: GCNConv(FEATURES, CLASSES),
    "gat": lambda: GATConv(FEATURES, CLASSES),
    "gatv2": lambda: GATv2Conv(FEATURES, CLASSES),
}


def aggregate_module() -> nn.Module:
    module = nn.Module()
    module.forward = lambda x, block: aggregate(block, x)
    return module


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", CONVOLUTIONS)
@pytest.mark.parametrize(("x_device", "block_device"), [("cpu", DEVICE), (DEVICE, "cpu")])
def test_a_block_on_another_device_gets_one_sentence(kind, training, x_device, block_device):
    block = drawn("bliss")[0].to(block_device)
    with torch.device(x_device):
        conv = CONVOLUTIONS[kind]().train(training)
        x = torch.zeros(block.num_src, FEATURES)
    message = (
        f"x is on {x_device}, but the block is on {block_device}: move both to the same device"
    )
    with pytest.raises(InputError, match=message):
        conv(x, block)


@pytest.mark.parametrize("what", ["x", "attention", "edge_index"])
def test_an_observation_on_another_device_gets_one_sentence(what):
    block = drawn("bliss")[0]
    given = {
        "x": torch.zeros(block.num_src, 3),
        "attention": torch.zeros(block.num_edges),
        "edge_index": block.edge_index,
    }
    given[what] = given[what].to(DEVICE)
    with pytest.raises(InputError, match=f"{what} is on {DEVICE}"):
        block.observe(given["x"], (given["edge_index"], given["attention"]))


class Unmovable(Block):
    def to(self, device, non_blocking=False):
        raise RuntimeError("out of memory")


@pytest.mark.parametrize("model", WITH_WEIGHTS)
def test_blocks_that_pyg_could_not_move_are_refused_by_the_network(model):
    # Data.to ignores an exception of a value's `to` and leaves the value where it was.
    source = drawn("bliss")
    blocks = [
        Unmovable(**{one.name: getattr(block, one.name) for one in fields(block)})
        for block in source
    ]
    data = Data(x=torch.zeros(blocks[0].num_src, FEATURES), blocks=blocks).to(DEVICE)
    assert data.x.device.type == DEVICE
    assert data.blocks[0].row.device.type == "cpu"
    with pytest.raises(InputError, match=f"x is on {DEVICE}, but the block is on cpu"):
        network(model, "batch")(data.x, data.blocks)


NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NO_GPU)])
@pytest.mark.parametrize("model", WITH_WEIGHTS)
def test_gradients_and_observations_are_those_of_the_cpu(model, device):
    results = []
    for where in ("cpu", device):
        gnn = network(model, "layer", "cpu").to(where)
        blocks = [block.to(where) for block in drawn("pladies")]
        generator = torch.Generator().manual_seed(1)
        x = torch.randn(blocks[0].num_src, FEATURES, generator=generator).to(where)
        out = gnn(x, blocks)
        out.pow(2).sum().backward()
        gradients = [parameter.grad for parameter in gnn.parameters()]
        shown = [block.observation.norm for block in blocks]
        results.append([tensor.cpu() for tensor in (out, *gradients, *shown)])
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
