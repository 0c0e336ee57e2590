"""Draw the figures of docs/explanation.md from computations on small graphs.

    python docs/figures/explanation.py

Takes about a minute. Backgrounds are transparent and colours of middle brightness, for light and
dark pages.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from torch_geometric.data import Data

from bliss import PLADIES, Bliss, BlockLoader, Full, Graph
from bliss.data import Dataset
from bliss.nn import GNN, ModelConfig
from bliss.samplers.influence import of_sources
from bliss.studies import VarianceStudy
from bliss.studies.layer_errors import error, least_error, stakes
from bliss.train import resolve

FOLDER = Path(__file__).parent
GREY, ORANGE, BLUE, GREEN = "#767676", "#e07020", "#4080d0", "#30a060"
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "bliss",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    **{f"{part}.color": GREY for part in ("text", "xtick", "ytick")},
    **{f"axes.{part}": GREY for part in ("edgecolor", "labelcolor", "titlecolor")},
}


def save(figure, name: str) -> None:
    """Write an SVG file that is the same in every run."""
    figure.savefig(FOLDER / f"{name}.svg", transparent=True, metadata={"Date": None})
    plt.close(figure)


def toy_data(num_nodes: int, num_edges: int, seed: int = 0, tail: float = 1.0) -> Data:
    """Few popular senders, four classes, and features whose norms have a heavy tail."""
    random = np.random.default_rng(seed)
    popularity = np.arange(1, num_nodes + 1) ** -0.7
    source = random.choice(num_nodes, num_edges, p=popularity / popularity.sum())
    pairs = np.stack([source, random.integers(0, num_nodes, num_edges)])
    y = random.integers(0, 4, num_nodes)
    pairs = pairs[:, (y[pairs[0]] == y[pairs[1]]) | (random.random(num_edges) < 0.3)]
    x = 0.5 * random.normal(size=(4, 16))[y] + random.normal(size=(num_nodes, 16))
    x *= random.lognormal(0, tail, (num_nodes, 1))
    return Data(
        x=torch.from_numpy(x).float(),
        y=torch.from_numpy(y),
        edge_index=torch.from_numpy(pairs),
        num_nodes=num_nodes,
    )


def draw_frontier() -> None:
    """Two layers above three seeds: all candidates with their p_j, and one draw."""
    data = toy_data(40, 400, seed=3)
    graph, seeds = Graph.of(data, self_loops="add"), np.array([10, 20, 30])
    sampler = Bliss(graph, budgets=[9, 6], seed=1)
    for step in range(200):  # teach the input layer the norms of the features
        blocks = sampler.sample(np.arange(40)[step % 4 :: 4], step)
        for block in blocks:
            block.observe(data.x[block.src])
        sampler.update(blocks)
    full, kept = Full(graph, layers=2).sample(seeds, 0), sampler.sample(seeds, 9)
    figure, panels = plt.subplots(1, 2, figsize=(8, 4.2), sharey=True, layout="constrained")
    figure.get_layout_engine().set(wspace=0.12)
    titles = ("full neighbourhoods", "budgets 9 and 6")
    for axes, blocks, title in zip(panels, (full, kept), titles, strict=True):
        columns = [blocks[0].src, blocks[0].dst, blocks[1].dst]
        heights = [dict(zip(ids.tolist(), place(len(ids)), strict=True)) for ids in columns]
        for layer, block in enumerate(blocks):
            for j, i in block.edge_index.T.tolist():
                ends = heights[layer][int(block.src[j])], heights[layer + 1][int(block.dst[i])]
                axes.plot([layer, layer + 1], ends, color=GREY, lw=0.5, alpha=0.7, zorder=1)
        for layer, ids in enumerate(columns):
            prob = np.ones(len(ids))
            if blocks is kept and layer < 2:
                prob = kept[layer].prob.numpy()
            color = [ORANGE if j in columns[min(layer + 1, 2)] else BLUE for j in ids]
            axes.scatter(
                [layer] * len(ids), list(heights[layer].values()), 4 + 44 * prob, color, zorder=2
            )
        edges = sum(block.num_edges for block in blocks)
        axes.set_title(f"{title}: {len(columns[0])} nodes, {edges} edges", fontsize=9)
        axes.set_xticks([0, 1, 2], ["input", "hidden", "seeds"])
        axes.set_yticks([])
        axes.set_frame_on(False)
    save(figure, "frontier")


def place(count: int) -> list[float]:
    """Heights of a column's nodes, centred."""
    return ((np.arange(count) - (count - 1) / 2) / 40).tolist()


def draw_limit() -> None:
    """V of one layer against the budget: equal masses, PLADIES and the limit."""
    data = toy_data(2000, 20_000)
    graph, targets = Graph.of(data, self_loops="add"), np.arange(0, 2000, 20)
    (block,) = Full(graph, layers=1).sample(targets, 0)
    size = data.x.norm(dim=1)[block.src]
    stake = stakes(block, block.edge_weight, size, np.ones(block.num_dst)).absolute
    budgets = np.unique(np.geomspace(20, 200, 20).astype(int))
    curves = {"uniform": [], "static (PLADIES)": [], "limit": []}
    for k in budgets.tolist():
        prob = {
            name: PLADIES(graph, [k], policy=name).inclusion(targets, 0).prob
            for name in ("uniform", "static")
        }
        curves["uniform"].append(error(prob["uniform"], stake))
        curves["static (PLADIES)"].append(error(prob["static"], stake))
        curves["limit"].append(least_error(prob["static"], targets.size, stake))
    scale = curves["static (PLADIES)"][0]
    figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    for (name, values), color in zip(curves.items(), (GREY, BLUE, ORANGE), strict=True):
        axes.loglog(budgets, np.array(values) / scale, color=color, label=name)
    axes.fill_between(budgets, 1e-9, np.array(curves["limit"]) / scale, color=ORANGE, alpha=0.15)
    axes.set(xlabel="budget k", ylabel="V, PLADIES with k = 20: 1", ylim=(0.02, 3))
    ticks = [20, 50, 100, 200]
    axes.set_xticks(ticks, ticks)
    axes.set_xticks([], minor=True)
    axes.text(22, 0.06, "below the limit:\nout of reach", color=ORANGE)
    axes.legend()
    save(figure, "limit")
    print("limit / PLADIES:", np.round(np.divide(curves["limit"], curves["static (PLADIES)"]), 2))


def draw_influence() -> None:
    """Neighbours kept per target of the input layer, by the influence of the target."""
    graph = Graph.of(toy_data(2000, 20_000), self_loops="add")
    kinds = {"none": (BLUE, "none: all targets alike"), "prior": (ORANGE, "prior: by influence")}
    figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    for place, (kind, (color, label)) in enumerate(kinds.items()):
        sampler, influence, kept = PLADIES(graph, [150, 100, 60], influence=kind), [], []
        for step in range(60):
            seeds = np.random.default_rng(step).permutation(2000)[:30]
            below, middle, above = sampler.sample(seeds, step)
            influence.append(np.sqrt(of_sources(middle, of_sources(above))))
            kept.append(below.indptr.diff().numpy() - 1)  # without the self-loop
        influence, kept = np.concatenate(influence), np.concatenate(kept)
        groups = np.array_split(np.argsort(influence), 6)
        at = np.arange(6) + 0.4 * place - 0.2
        axes.bar(at, [kept[group].mean() for group in groups], 0.38, color=color, label=label)
    middles = [f"{np.median(influence[group]):.2g}" for group in groups]
    axes.set_xticks(np.arange(6), middles)
    axes.set(xlabel="influence g of a sixth of the targets, median", ylabel="kept neighbours")
    axes.legend()
    save(figure, "influence")


def draw_history(steps: int = 150) -> None:
    """What is sampled during a training, with a history and without: sum_j (1/p_j - 1) c_j."""
    torch.manual_seed(0)
    data = toy_data(2000, 20_000)
    model = GNN(16, 4, ModelConfig(model="sage", layers=2, hidden=32))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    sampler = Bliss(data, [200], history="nodes", widths=[16, 32], self_loops="add")
    loader = BlockLoader(data, sampler, None, batch_size=200, shuffle=True)
    curves: list[tuple[float, float]] = []
    while len(curves) < steps:
        for batch in loader:
            x = batch.x
            for layer, block in zip(model, batch.blocks, strict=True):
                h, x = x, layer(x, block)
            loss = torch.nn.functional.cross_entropy(x, batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            curves.append(sampled_variance(block, h.detach()))
            sampler.update(batch.blocks)
    whole, change = np.array(curves[:steps]).T
    figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
    axes.semilogy(whole / whole[0], color=BLUE, label=r"sampled: $h_j$")
    axes.semilogy(change / whole[0], color=ORANGE, label=r"sampled: the change, $h_j - \tilde h_j$")
    axes.set(xlabel="step", ylabel="V of the second layer, first step = 1")
    axes.legend()
    save(figure, "history")
    print("history: share of V", round(float((change / whole)[steps // 2 :].mean()), 4))


def sampled_variance(block, h: torch.Tensor) -> tuple[float, float]:
    """Estimates of V from the kept sources, for h_j and for its change, with the same p_j.

    sum over the kept j of (1 / p_j) (1 / p_j - 1) |.|^2 sum_i alpha_ij^2, where the weights are
    alpha_ij / p_j.
    """
    weight = torch.zeros(block.num_src).index_add_(0, block.row, block.edge_weight.square())
    factor = (1 / block.prob - 1) * block.prob * weight
    change = h - block.control.history
    return tuple(float((factor * part.square().sum(1)).sum()) for part in (h, change))


def draw_survey() -> None:
    """Distance of the node bandit from the limit during a training, surveyed and not."""
    data = toy_data(3000, 120_000, tail=0.7)
    ids = torch.from_numpy(np.random.default_rng(1).permutation(3000))
    splits = {"train": ids[:2000], "val": ids[2000:2500], "test": ids[2500:]}
    dataset = Dataset("toy", Graph.of(data, self_loops="add"), data.x, data.y, splits, 4)
    config = resolve(
        sampler="pladies", model="gatv2", layers=2, hidden=16, heads=2, lr=0.002,
        normalisation="none", budgets=(200, 100), batch_size=64, steps=120, evaluate_every=120,
    )  # fmt: skip
    study = VarianceStudy(config, dataset, ["node"], every=4, survey_every=40)
    found = study.run()
    figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
    for name, color in (("node", BLUE), ("node+survey", ORANGE)):
        moments = [(m.step, m.layers[1]) for m in found.history]
        ratio = [layer.policies[name] / layer.limits[name] for _, layer in moments]
        axes.semilogy([step for step, _ in moments], ratio, color=color, label=name)
        print(name, np.round(ratio, 2))
    for step in (40, 80):
        axes.axvline(step, color=GREY, lw=0.8, ls=":")
    axes.set(xlabel="step", ylabel="V / limit, second layer")
    axes.set_yticks(ticks := [1, 2, 5, 10, 100, 1000], ticks)
    axes.set_yticks([], minor=True)
    axes.legend()
    save(figure, "survey")


if __name__ == "__main__":
    with plt.rc_context(STYLE):
        draw_frontier()
        draw_limit()
        draw_influence()
        draw_history()
        draw_survey()
