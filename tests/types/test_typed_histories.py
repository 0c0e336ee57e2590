"""Exact first hops and histories of graphs with types: sums by relation, widths by type."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch_geometric.nn.conv as convs
from torch import Tensor
from torch_geometric.data import HeteroData
from torch_geometric.nn import GraphSAGE, to_hetero

import bliss
from bliss.arrays import NOTHING
from bliss.errors import InputError
from bliss.feedback import Survey
from bliss.graph import Graph
from bliss.nn import Blockwise, ModelConfig, RelationalGNN, RGATConv, RSAGEConv, infer
from bliss.nn.aggregate import aggregate, aggregate_groups
from bliss.nn.block import Block
from bliss.nn.control import Control, of_relation
from bliss.samplers import Sampler, first_hop, group_sums, sampler_config
from bliss.train import TrainConfig
from tests.statistics import ROUNDING, normal_limit
from tests.types.graphs import SIZES, WIDTHS, hetero, relation_means

pytestmark = pytest.mark.filterwarnings("ignore:There exist node types")
FALSE_ALARM = 1e-6  # chance that a correct sampler fails, in each case
DATA, SEEDS = hetero(), np.arange(45, 60)
WEIGHTED = hetero(weighted=True)  # the same graph
GRAPH = Graph.of(DATA)
FIRST = dict(zip(SIZES, GRAPH.types.node_ptr.tolist(), strict=False))
X = {name: DATA[name].x for name in SIZES}
MEANS = relation_means(DATA, X)
ALL = 10_000  # a budget that keeps every source


def rows_of(x: dict[str, Tensor], block: Block) -> dict[str, Tensor]:
    return {name: x[name][ids - FIRST[name]] for name, ids in block.split(block.src).items()}


# --- the exact first hop -----------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["mean", "weights", "weighted-mean"])
@pytest.mark.parametrize("where", ["memory", "file"])
def test_a_first_hop_is_the_sum_of_each_relation(norm, where, tmp_path, monkeypatch):
    """Also without some edges: that of the graph that does not have them."""
    graph = Graph.of(WEIGHTED, norm)
    monkeypatch.setattr(group_sums, "_CHUNK", 100)  # a few nodes at a time
    if where == "file":
        monkeypatch.setattr(first_hop, "SUM_BYTES_IN_MEMORY", 0)
    options: dict[str, Any] = {"x": X, "first_hop": "exact", "folder": tmp_path}
    sampler = bliss.PLADIES(graph, [8], **options)
    assert len(list(tmp_path.glob("*.npy"))) == (3 if where == "file" else 0)
    hidden = np.arange(3, graph.num_edges, 5)
    for without in (None, hidden):
        first, _ = sampler.sample(SEEDS, 0, without=without)
        assert (first.num_edges, first.num_src) == (0, first.num_dst)
        rows = graph.rows(first.dst.numpy(), without)
        for number, (edge_type, own) in enumerate(first.relations.items()):
            value = X[edge_type[0]].numpy()
            place = np.flatnonzero(rows.relation == number)
            some = rows.of_groups(place)
            indptr, edge = some.edges()
            ids = graph.indices[edge] - FIRST[edge_type[0]]
            alpha = some.coefficients(np.arange(105), indptr, graph.indices[edge], edge)
            expected = np.zeros((place.size, value.shape[1]))
            np.add.at(
                expected,
                np.repeat(np.arange(place.size), np.diff(indptr)),
                alpha[:, None] * value[ids],
            )
            found = own.control.baseline.numpy()
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
            if without is None and norm == "mean":  # from the data
                wanted = MEANS[edge_type][own.dst.numpy() - FIRST[edge_type[2]]]
                sums = aggregate(own, torch.zeros(own.num_src, value.shape[1]))
                np.testing.assert_allclose(sums, wanted, rtol=1e-4, atol=1e-5)


class Layers(torch.nn.Module):
    """Two layers of a convolution for each relation, or of RGCNConv."""

    def __init__(self, build: Any) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([build(0), build(1)])

    def forward(self, x: Any, edges: Any) -> Any:
        x = {name: out.relu() for name, out in self.layers[0](x, edges).items()}
        return self.layers[1](x, edges)


class Joint(Layers):
    """The same over the rows of all types."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        return self.layers[1](
            self.layers[0](x, edge_index, edge_type).relu(), edge_index, edge_type
        )


def by_relation(kind: Any) -> Any:
    return lambda layer: convs.HeteroConv({one: kind() for one in full_data().edge_types})


def joint(kind: Any, **options: Any) -> Any:
    return lambda layer: kind((4, 6)[layer], 6, 5, **options)


MODELS = {
    "HeteroConv": lambda: Layers(by_relation(lambda: convs.SAGEConv((-1, -1), 8))),
    "HeteroConv, weights": lambda: Layers(by_relation(lambda: convs.GraphConv((-1, -1), 8))),
    "to_hetero": lambda: to_hetero(GraphSAGE((-1, -1), 8, 2, 3), full_data().metadata()),
    "RGCNConv": lambda: Joint(joint(convs.RGCNConv, num_bases=2)),
    "RGCNConv, add": lambda: Joint(joint(convs.RGCNConv, aggr="add")),
    "FastRGCNConv": lambda: Joint(joint(convs.FastRGCNConv)),
}


def full_data(width: int | None = None) -> HeteroData:
    data = hetero(width)
    data["paper", "back", "venue"].edge_index = data["venue", "publishes", "paper"].edge_index.flip(
        0
    )
    if width is not None:
        del data["paper", "back", "venue"]
    return data


@pytest.mark.parametrize("name", MODELS)
def test_models_of_pyg_take_a_first_hop_and_a_history(name):
    """With all sources kept in the second layer, both are the model on full neighbourhoods."""
    torch.manual_seed(1)
    is_joint = "RGCN" in name
    data = full_data(4 if is_joint else None)
    graph, model = Graph.of(data), Blockwise(MODELS[name]())
    x = {one: data[one].x for one in SIZES}
    joined = torch.cat([*x.values()]) if is_joint else torch.empty(0)
    with torch.no_grad():
        exact = infer(model, graph, joined if is_joint else x)
        exact = exact[SEEDS] if is_joint else exact["paper"][SEEDS - 40]
        for options in (
            {"first_hop": "exact"},
            {"history": "nodes", "widths": [4, 6 if is_joint else 8]},
        ):
            sampler = bliss.PLADIES(
                graph,
                [ALL],
                x=joined if options.get("history") and is_joint else x,
                estimator="ht",
                **options,
            )
            if sampler.history is not None:  # something wrong, which p = 1 corrects
                values = np.random.default_rng(0).normal(size=(105, options["widths"][1]))
                sampler.history.survey(0, Survey(NOTHING, input=values.astype(np.float32)))
            blocks = sampler.sample(SEEDS, 0)
            rows = rows_of(x, blocks[0])
            found = model(joined[blocks[0].src] if is_joint else rows, blocks)
            found = found if is_joint else found["paper"]
            torch.testing.assert_close(found, exact, rtol=1e-3, atol=1e-4)


def network(**options: Any) -> RelationalGNN:
    torch.manual_seed(0)
    given = {"model": "rsage", "layers": 2, "hidden": 8, "dropout": 0.0} | options
    return RelationalGNN(WIDTHS, GRAPH.types.edge_types, 3, ModelConfig(**given))


@pytest.mark.parametrize("norm", ["mean", "weights"])
def test_rsage_with_linear_projections_takes_a_first_hop(norm):
    """Weights do not add up to 1, so that the bias of a projection counts their sum."""
    graph, net = Graph.of(WEIGHTED, norm), network(projection="linear")
    sampler = bliss.Bliss(graph, [ALL], x=X, first_hop="exact")
    blocks = sampler.sample(SEEDS, 0)
    full = bliss.Full(graph, layers=2).sample(SEEDS, 0)
    exact = net(rows_of(X, full[0]), full)
    found = net(rows_of(X, blocks[0]), blocks)
    torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-5)
    wanted, given = (
        torch.autograd.grad(out.square().sum(), [*net.parameters()]) for out in (exact, found)
    )
    torch.testing.assert_close(given, wanted, rtol=1e-3, atol=1e-4)
    sampler.update(blocks)
    with pytest.raises(InputError, match="takes an activation of them"):
        network()(rows_of(X, blocks[0]), blocks)
    dropped = network(projection="linear", dropout=0.5)
    out = dropped.layer(
        0, dropped.embed(rows_of(X, blocks[0]), blocks[0]), dropped._projected(blocks[0])
    )
    assert (
        out - net.layer(0, net.embed(rows_of(X, blocks[0]), blocks[0]), net._projected(blocks[0]))
    ).abs().max() > 0.01


# --- histories ---------------------------------------------------------------------------------

HIDDEN = {"author": 4, "paper": 6, "venue": 3}
SAMPLERS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "bliss": ("bliss", 25, {}),
    "pladies": ("pladies", 25, {}),
    "vrgcn": ("vrgcn", 2, {}),
    "pladies by type": ("pladies", {"author": 12, "paper": 9, "venue": 3}, {}),
    "one width": ("bliss", 25, {}),
    "surveys": ("pladies", 25, {"history": "surveys"}),
}


def inputs(width: int | None) -> dict[str, Tensor]:
    """Inputs of a layer: a column of ones, which shows errors of scale, and signed numbers."""
    generator = torch.Generator().manual_seed(5)
    found = {n: torch.randn(SIZES[n], width or HIDDEN[n], generator=generator) for n in SIZES}
    for value in found.values():
        value[:, 0] = 1
    return found


def one_layer(name: str, known: dict[str, Tensor], steps: int = 15) -> Sampler:
    """A sampler with one sampled layer, a trained policy, and a given history of its inputs."""
    kind, budget, own = SAMPLERS[name]
    width = 5 if name == "one width" else None
    options = {"history": "nodes", "first_hop": "history", **own}
    sampler = sampler_config(kind, **options).build(GRAPH, [budget], widths=[width or HIDDEN])
    for step in range(steps):
        (block,) = sampler.sample(SEEDS, 10_000 + step)
        block.observe({n: (step + 1) * v for n, v in rows_of(inputs(width), block).items()})
        sampler.update([block])
    values = GRAPH.types.padded({n: value.numpy() for n, value in known.items()})
    sampler.history.survey(0, Survey(NOTHING, input=values))
    if sampler.history.kind == "nodes":
        sampler.state_dict()["history.0.stamp"].copy_(torch.arange(105) % 7 - 1)
    return sampler


def relation_sums(block: Block, x: dict[str, Tensor], control: Any) -> np.ndarray:
    """Aggregates of the relations into papers, side by side. [D, sum of F]."""
    found = []
    changed = replace(block, control=control)
    for edge_type, own in changed.relations.items():
        if edge_type[2] == "paper":
            found.append(aggregate(own, x[edge_type[0]]).numpy())
    return np.concatenate(found, axis=1)


def mutants(block: Block) -> dict[str, Any]:
    """The control variate; with the degree of all relations; with groups of another relation."""
    control, view = block.control, block.by_type
    degree = torch.from_numpy(view.rows.degree.astype(np.float32))
    share = degree / torch.zeros(block.num_dst).index_add(0, view.owner, degree)[view.owner]
    is_one = isinstance(control, Control)
    parts = [control] if is_one else list(control.parts)
    groups = [torch.arange(degree.numel())] if is_one else view.groups_by_source
    scaled = [
        replace(p, baseline=p.baseline * share[g, None]) for p, g in zip(parts, groups, strict=True)
    ]
    swapped = []  # sums of writes and of reviews, of the same targets
    relation, owner = torch.from_numpy(view.rows.relation.astype(np.int64)), view.owner
    for part, own in zip(parts, groups, strict=True):
        baseline, at = (
            part.baseline.clone(),
            {(int(owner[g]), int(relation[g])): n for n, g in enumerate(own)},
        )
        for (target, number), place in at.items():
            if number == 0 and (target, 3) in at:
                other = at[target, 3]
                baseline[place], baseline[other] = part.baseline[other], part.baseline[place]
        swapped.append(replace(part, baseline=baseline))
    if is_one:
        return {"true": control, "degree": scaled[0], "group": swapped[0]}
    typed = {"degree": scaled, "group": swapped}
    return {"true": control} | {n: replace(control, parts=tuple(p)) for n, p in typed.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLERS)
def test_the_sum_of_each_relation_is_unbiased_whatever_the_history(name):
    """z-test over 250 draws. Mutants: |N_i| of all relations, sums of another relation, no 1/p."""
    width = 5 if name == "one width" else None
    x, generator = inputs(width), torch.Generator().manual_seed(8)
    known = {n: 1 + 2 * torch.randn(v.shape, generator=generator) for n, v in x.items()}
    sampler = one_layer(name, known)
    names = ("true", "degree", "group", "without 1 / p")
    samples: dict[str, list[np.ndarray]] = {one: [] for one in names}
    for step in range(250):
        (block,) = sampler.sample(SEEDS, step)
        own = rows_of(x, block)
        for one, control in mutants(block).items():
            samples[one].append(relation_sums(block, own, control))
        light = replace(block, edge_weight=block.edge_weight * block.edge_prob)
        samples["without 1 / p"].append(relation_sums(light, own, block.control))
    means = relation_means(DATA, x)
    exact = np.concatenate(
        [means[one][SEEDS - 40] for one in DATA.edge_types if one[2] == "paper"], 1
    )
    limit = normal_limit(FALSE_ALARM, exact.size)
    for one, found in samples.items():
        draws = np.stack(found)
        error = np.hypot(draws.std(0, ddof=1) / len(draws) ** 0.5, 200 * ROUNDING)
        worst = np.abs((draws.mean(0) - exact) / error).max()
        assert (worst < limit) == (one == "true"), one


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_sum_of_each_relation_is_exact_where_the_history_is_right(name):
    width = 5 if name == "one width" else None
    x = inputs(width)
    sampler, means = one_layer(name, x), relation_means(DATA, x)
    (block,) = sampler.sample(SEEDS, 0)
    assert block.num_edges < GRAPH.degree[SEEDS].sum()
    for edge_type, own in block.relations.items():
        expected = means[edge_type][own.dst.numpy() - FIRST[edge_type[2]]]
        found = aggregate(own, rows_of(x, block)[edge_type[0]])
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    if width is None:
        with pytest.raises(InputError, match=r"width per type, so that it has no sums"):
            aggregate(block, torch.zeros(block.num_src, 4))
    if sampler.history.kind == "surveys":
        hidden = np.arange(3, GRAPH.num_edges, 5)
        (block,) = sampler.sample(SEEDS, 0, without=hidden)
        rows = GRAPH.rows(SEEDS, hidden)
        for part, own in zip(block.control.parts, sampler.history._parts[0], strict=True):
            value = x[GRAPH.types.node_types[own[0].node_type]].numpy()
            wanted = own[0].full_sums(own[0].own(rows), value)
            np.testing.assert_allclose(part.baseline, wanted, rtol=1e-4, atol=1e-5)


def test_one_relation_is_the_plain_graph_bit_for_bit():
    """Draws, sums, what is learnt and the state are those of the graph without types."""
    generator = np.random.default_rng(2)
    pairs = torch.from_numpy(np.unique(generator.integers(0, 30, (2, 200)), axis=1))
    data = HeteroData()
    data["node"].x = torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
    data["node", "to", "node"].edge_index = pairs
    plain = Graph.from_edge_index(pairs, 30, self_loops="keep")
    seeds, x = np.arange(6), data["node"].x
    for kind, budgets in {"bliss": [9, 7], "pladies": [9, 7]}.items():
        config = sampler_config(kind, history="nodes")
        pair = [
            config.build(graph, budgets, x=x, widths=[3, 4, 4]) for graph in (plain, Graph.of(data))
        ]
        for step in range(4):
            ours, theirs = (sampler.sample(seeds, step) for sampler in pair)
            for one, two in zip(ours, theirs, strict=True):
                for name in ("src", "row", "edge", "edge_weight"):
                    assert torch.equal(getattr(one, name), getattr(two, name))
                value = torch.sin(step + torch.arange(4.0) * (one.src[:, None] + 1))
                if one is ours[0]:
                    value = x[one.src]
                torch.testing.assert_close(
                    aggregate(one, value), aggregate(two, value), rtol=0, atol=0
                )
                one.observe(value), two.observe({"node": value})
            pair[0].update(ours), pair[1].update(theirs)
        states = [sampler.state_dict() for sampler in pair]
        assert states[0].keys() == states[1].keys()
        assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def with_history(
    net: RelationalGNN, kind: str = "vrgcn", budgets: Any = (2, 2), **options: Any
) -> Sampler:
    given = {"history": "nodes", "first_hop": "history", **options}
    return sampler_config(kind, **given).build(GRAPH, budgets, widths=net.widths[:-1], seed=1)


def test_rsage_at_rest_becomes_exact_layer_by_layer():
    """The input layer has a history of the projections, and the dropout of streams is right."""
    net = network()
    sampler, nodes = with_history(net), np.arange(105)
    full = bliss.Full(GRAPH, layers=2).sample(nodes, 0)
    exact = net(rows_of(X, full[0]), full)
    for step in range(4):
        blocks = sampler.sample(nodes, step)
        out = net(rows_of(X, blocks[0]), blocks)
        sampler.update(blocks)
        assert torch.allclose(out, exact, atol=1e-5) == (step > 1)
    h = net.embed_all(X, torch.device("cpu"))
    np.testing.assert_allclose(sampler.history.value(0), h.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_gradients_of_rsage_are_those_of_full_neighbourhoods():
    """z-test of the mean gradient of relations' maps, 400 draws; the mutant scales it by 1.1."""
    net = network()
    sampler = with_history(net, "pladies", (30, 20))
    h = net.embed_all(X, torch.device("cpu"))
    surveys: list[Any] = []
    infer(net, GRAPH, h, observer=lambda layer, survey: surveys.append(survey))
    sampler.learn_survey(surveys)
    net.train()
    weight = net.convs[0].others.matrix
    full = bliss.Full(GRAPH, layers=2).sample(SEEDS, 0)
    (exact,) = torch.autograd.grad(net(rows_of(X, full[0]), full).square().sum(), weight)
    samples = []
    for step in range(400):
        blocks = sampler.sample(SEEDS, step)
        loss = net(rows_of(X, blocks[0]), blocks).square().sum()
        samples.append(torch.autograd.grad(loss, weight)[0].numpy())
    draws = np.stack(samples)
    error = draws.std(0, ddof=1) / len(draws) ** 0.5 + 1e-5 * exact.abs().numpy() + 1e-7
    limit = normal_limit(FALSE_ALARM, exact.numel())
    assert (np.abs(draws.mean(0) - exact.numpy()) <= limit * error).all()
    assert not (np.abs(1.1 * draws.mean(0) - exact.numpy()) <= limit * error).all()


def test_both_streams_are_plain_layers_where_everything_is_kept():
    conv = RSAGEConv(4, 3, 3, 5)
    (block,) = bliss.Full(GRAPH, layers=1).sample(SEEDS, 0)
    generator = torch.Generator().manual_seed(0)
    x, mean, known = (torch.randn(block.num_src, 4, generator=generator) for _ in range(3))
    control = Control(aggregate_groups(block, known), known)
    found = conv.streams(x, mean, replace(block, control=control))
    wanted = tuple(conv(one, block) for one in (x, mean))
    torch.testing.assert_close(found, wanted)
    mutant = conv.streams(mean, mean, replace(block, control=control))
    assert not torch.allclose(mutant[0], wanted[0], atol=0.01)


def test_surveys_of_a_model_write_the_history_of_each_type():
    """Of a model of dictionaries with types of different widths, which resumes from its state."""
    torch.manual_seed(0)
    first = {one: convs.SAGEConv((-1, -1), HIDDEN[one[2]]) for one in DATA.edge_types}
    others = [one for one in DATA.edge_types if one[0] != "venue"]  # which is no target
    second = {one: convs.SAGEConv((-1, -1), 2) for one in others}
    model = Blockwise(Layers(lambda layer: convs.HeteroConv((first, second)[layer])))
    infer(model, GRAPH, X)
    widths = [WIDTHS, {name: HIDDEN[name] for name in ("author", "paper")}]
    options: dict[str, Any] = {"x": X, "widths": widths, "history": "nodes"}
    sampler = bliss.Bliss(GRAPH, [10], **options)
    sampler.survey(model, X)
    blocks = sampler.sample(SEEDS, 0)
    exact = infer(model, GRAPH, X)["paper"][SEEDS - 40]
    found = model(rows_of(X, blocks[0]), blocks)["paper"]
    torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-5)
    sampler.update(blocks)
    twin = bliss.Bliss(GRAPH, [10], **options)
    twin.load_state_dict(sampler.state_dict())
    for one, two in zip(sampler.sample(SEEDS, 1), twin.sample(SEEDS, 1), strict=True):
        for ours, theirs in zip(one.control.parts, two.control.parts, strict=True):
            assert torch.equal(ours.baseline, theirs.baseline)
    names = [name for name in sampler.state_dict() if ".value" in name]
    assert names == ["history.0.value.0", "history.0.value.1", "history.0.value.2"]
    moved = blocks[1].to("cpu", non_blocking=True)
    assert all(part.history is not None for part in moved.control.parts)


def test_bad_input_gets_one_sentence():
    with pytest.raises(InputError, match="x has no features of type 'author'"):
        bliss.Bliss(GRAPH, [10], x={"paper": X["paper"], "venue": X["venue"]}, first_hop="exact")
    with pytest.raises(InputError, match="'editor' is not a type of nodes"):
        bliss.Bliss(GRAPH, [10], x={**X, "editor": X["paper"]}, first_hop="exact")
    with pytest.raises(InputError, match="'editor' is not a type of nodes"):
        bliss.Bliss(GRAPH, [10], x=X, history="nodes", widths=[4, {"editor": 3}])
    with pytest.raises(InputError, match="has no types of nodes: pass a number"):
        bliss.Bliss(
            Graph([0, 1], [0]), [3], x=X["paper"][:1], history="nodes", widths=[6, {"a": 3}]
        )
    with pytest.raises(InputError, match="first_hop='history' has no effect without a history"):
        bliss.Bliss(GRAPH, [10], first_hop="history")
    with pytest.raises(InputError, match=r"one width, but those of the types have the widths \[\d"):
        bliss.ASGCN(GRAPH, [10], x=X, first_hop="exact")
    sampler = one_layer("bliss", inputs(None), steps=0)
    (block,) = sampler.sample(SEEDS, 0)
    wrong = rows_of(inputs(None), block) | {"author": torch.zeros(block.num_src_dict["author"], 5)}
    with pytest.raises(InputError, match=r"x\['author'\] has width 5, but its history has width 4"):
        block.observe(wrong)
    with pytest.raises(InputError, match="observe inputs by type"):
        block.observe(torch.zeros(block.num_src, 6))
    assert of_relation(block.control, block.by_type, 0).history.size(1) == 4
    attention = convs.HeteroConv(
        {one: convs.GATv2Conv((-1, -1), 4, add_self_loops=False) for one in DATA.edge_types}
    )
    hgt = convs.HGTConv(HIDDEN, 4, DATA.metadata())
    for conv in (attention, hgt):
        with pytest.raises(InputError, match="not linear in the inputs of its sources"):
            block.propagate(conv, rows_of(inputs(None), block))
    (block,) = one_layer("one width", inputs(5), steps=0).sample(SEEDS, 0)
    with pytest.raises(InputError, match="sums over all relations at once"):
        block.propagate(convs.SAGEConv(5, 4), torch.zeros(block.num_src, 5))
    with pytest.raises(InputError, match="this layer learns its attention"):
        RGATConv(5, 4, 3, 5)(torch.zeros(block.num_src, 5), block)
    with pytest.raises(InputError, match="projection linear"):
        TrainConfig.of(model="rsage", first_hop="exact", budgets=(10, 10))
    with pytest.raises(InputError, match="learns its coefficients"):
        TrainConfig.of(model="rgat", history="nodes")
    with pytest.raises(InputError, match="projection='linear' has no effect with model='sage'"):
        ModelConfig(projection="linear")
