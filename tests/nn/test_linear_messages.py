"""PyG's convolutions with a history and an exact first hop: outputs and gradients are unbiased."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch_geometric.nn.conv as convs
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from bliss import PLADIES, Bliss, Block, Graph, InputError
from bliss.nn.control import Control
from tests.statistics import heavy_tailed_graph, normal_limit

FALSE_ALARM = 1e-6  # chance that a correct convolution fails, all of its outputs together
DRAWS, WIDTH, TARGETS = 150, 4, np.arange(15)
LINEAR = {
    "SAGEConv": ("mean", lambda: convs.SAGEConv(WIDTH, 3)),
    "SAGEConv, sum": ("mean", lambda: convs.SAGEConv(WIDTH, 3, aggr="sum")),
    "GINConv": ("mean", lambda: convs.GINConv(nn.Linear(WIDTH, 3), train_eps=True)),
    "GraphConv": ("weights", lambda: convs.GraphConv(WIDTH, 3)),
    "GraphConv, mean": ("mean", lambda: convs.GraphConv(WIDTH, 3, aggr="mean")),
    "GCNConv": ("gcn", lambda: convs.GCNConv(WIDTH, 3)),
    "LGConv": ("gcn", convs.LGConv),
}


def inputs(seed: int = 1) -> Tensor:
    return 0.7 + torch.randn(60, WIDTH, generator=torch.Generator().manual_seed(seed))


def sampler_with_history(norm: str) -> PLADIES:
    """Budgets of a third of the nodes, and a history that differs from all inputs."""
    options = {"history": "nodes", "layers": 2, "widths": [WIDTH, WIDTH], "x": inputs().numpy()}
    sampler = PLADIES(heavy_tailed_graph(norm), [20], **options)
    sampler.history.value(0)[:] = inputs(2).numpy()
    return sampler


def plain(conv: nn.Module, graph: Graph, x: Tensor) -> Tensor:
    """The convolution on the whole graph."""
    takes_weight = "edge_weight" in conv.forward.__code__.co_varnames and graph.norm != "gcn"
    weight = {"edge_weight": graph.edge_weight} if takes_weight else {}
    out: Tensor = conv(x, graph.edge_index, **weight)
    return out


def output_and_gradients(conv: nn.Module, out: Tensor) -> Tensor:
    """The output, and the gradients of a fixed linear loss, in one row."""
    loss = (out * torch.linspace(-1, 2, out.numel()).view_as(out)).sum()
    wanted = tuple(conv.parameters())
    gradients = torch.autograd.grad(loss, wanted) if wanted else ()
    return torch.cat([out.detach().flatten(), *(one.flatten() for one in gradients)])


def worst_z(samples: Tensor, exact: Tensor) -> float:
    error = samples.std(0) / len(samples) ** 0.5 + 1e-5 * exact.abs().max()
    return float(((samples.mean(0) - exact).abs() / error).max())


def without_subtraction(block: Block) -> Block:
    """The mutant: the baseline is added, and the history is not subtracted."""
    control = block.control
    return replace(block, control=Control(control.baseline, 0 * control.history))


@pytest.mark.parametrize("name", LINEAR)
def test_with_a_history_outputs_and_gradients_are_unbiased(name):
    torch.manual_seed(0)
    norm, build = LINEAR[name]
    conv, sampler = build(), sampler_with_history(norm)
    exact = output_and_gradients(conv, plain(conv, sampler.graph, inputs())[TARGETS])
    samples, mutants = [], []
    for step in range(DRAWS):
        block = sampler.sample(TARGETS, step)[1]
        x = inputs()[block.src]
        for kept, one in ((samples, block), (mutants, without_subtraction(block))):
            kept.append(output_and_gradients(conv, one.propagate(conv, x)))
    limit = normal_limit(FALSE_ALARM, exact.numel())
    assert worst_z(torch.stack(samples), exact) < limit
    assert worst_z(torch.stack(mutants), exact) > limit


@pytest.mark.parametrize("name", LINEAR)
def test_with_an_exact_first_hop_outputs_and_gradients_are_those_of_the_graph(name):
    torch.manual_seed(0)
    norm, build = LINEAR[name]
    conv, sampler = build(), sampler_with_history(norm)
    block = sampler.sample(TARGETS, 0)[0]
    assert block.num_edges == 0
    outputs = block.propagate(conv, inputs()[block.src]), plain(conv, sampler.graph, inputs())
    found, expected = (
        output_and_gradients(conv, out) for out in (outputs[0], outputs[1][block.dst])
    )
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


class Own(MessagePassing):
    """A convolution of one's own, with a map of its messages."""

    def __init__(self, bias: bool, activation: nn.Module | None = None) -> None:
        super().__init__(aggr="mean")
        self.linear = nn.Linear(WIDTH, 3, bias=bias)
        self.activation = activation or nn.Identity()
        if bias:
            nn.init.zeros_(self.linear.bias)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x)

    def message(self, x_j):
        return self.activation(self.linear(x_j))


def test_the_rule_is_linearity_not_a_name():
    """A bias in messages is not linear, because weights of kept edges do not sum to 1."""
    block = sampler_with_history("mean").sample(TARGETS, 0)[1]
    x = inputs()[block.src]
    block.propagate(Own(bias=False), x)
    block.propagate(Own(bias=False, activation=nn.Dropout(0.5)).eval(), x)
    block.propagate(convs.GINConv(nn.Sequential(nn.Linear(WIDTH, 3), nn.Dropout(0.5))), x)
    for conv in (
        Own(bias=True),  # zero as it is built, and trained later
        Own(bias=False, activation=nn.ReLU()),
        convs.SAGEConv(WIDTH, 3, project=True),
        convs.GATv2Conv(WIDTH, 3),
        convs.LEConv(WIDTH, 3),
        convs.GeneralConv(WIDTH, 3),
        Own(bias=False, activation=nn.Dropout(0.5)),  # in training
    ):
        with pytest.raises(InputError, match="is not linear in the inputs of its sources"):
            block.propagate(conv, x)


def test_what_a_history_was_not_summed_with_is_refused():
    block = sampler_with_history("mean").sample(TARGETS, 0)[1]
    x = inputs()[block.src]
    with pytest.raises(InputError, match="edge_weight of GraphConv has a value per edge"):
        block.propagate(convs.GraphConv(WIDTH, 3), x, edge_weight=torch.ones(block.num_edges))
    block = sampler_with_history("gcn").sample(TARGETS, 0)[1]
    with pytest.raises(InputError, match=r"GINConv weighs its messages equally.*norm='gcn'"):
        block.propagate(convs.GINConv(nn.Linear(WIDTH, 3)), inputs()[block.src])


def test_the_policy_and_the_history_learn_from_the_input_before_dropout():
    sampler = Bliss(
        heavy_tailed_graph(), [20], history="nodes", layers=2, widths=[4, 3], x=inputs().numpy()
    )
    first, second = convs.SAGEConv(WIDTH, 3), convs.SAGEConv(3, 2)
    blocks = sampler.sample(TARGETS, 0)
    hidden = blocks[0].propagate(first, inputs()[blocks[0].src])
    dropped = nn.functional.dropout(hidden, 0.5)
    blocks[1].propagate(second, dropped, observed=hidden)
    sampler.update(blocks)
    np.testing.assert_allclose(
        sampler.history.value(0)[blocks[1].src.numpy()], hidden.detach().numpy(), rtol=1e-6
    )


def test_dropout_is_not_divided_by_the_probability_with_a_history():
    """Variance over draws and masks of a history that equals the input: that of dropout alone.

    The variance of a sum over all edges is sum_j alpha_ij^2 v_j, which sampling does not change;
    dropout divided by p_ij would give sum_j alpha_ij^2 v_j / p_j. False-alarm rate below 1e-6: the
    mean of 15 x 4 variance ratios, each with a standard error of sqrt(2 / DRAWS), is within 20%.
    """
    torch.manual_seed(0)
    sampler, conv, ratios = sampler_with_history("mean"), convs.SimpleConv(aggr="sum"), {}
    sampler.history.value(0)[:] = inputs().numpy()
    edges, coefficient = sampler.graph.edge_index, sampler.graph.edge_weight
    per_edge = (coefficient[:, None] * inputs()[edges[0]]).square()  # rate 1/2: variance x_j^2
    expected = torch.zeros(60, WIDTH).index_add(0, edges[1], per_edge)[TARGETS]
    for name in ("observed", "mutant"):
        samples = []
        for step in range(DRAWS):
            block = sampler.sample(TARGETS, step)[1]
            x = inputs()[block.src]
            dropped = nn.functional.dropout(x, 0.5)
            mean = {"observed": x} if name == "observed" else {}
            samples.append(block.propagate(conv, dropped, **mean))
        ratios[name] = float((torch.stack(samples).var(0) / expected).mean())
    assert abs(ratios["observed"] - 1) < 0.2
    assert ratios["mutant"] > 1.3


@pytest.mark.parametrize("name", LINEAR)
def test_sums_of_inputs_replace_messages_unless_a_hook_wants_to_see_them(name):
    torch.manual_seed(0)
    norm, build = LINEAR[name]
    conv, graph = build(), heavy_tailed_graph(norm)
    (block,) = PLADIES(graph, [20]).sample(TARGETS, 0)
    x = inputs()[block.src]
    found = block.propagate(conv, x)
    seen = []
    hook = conv.register_message_forward_hook(lambda module, given, out: seen.append(out))
    expected = block.propagate(conv, x)
    hook.remove()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert [len(out) for out in seen] == [block.num_edges]
