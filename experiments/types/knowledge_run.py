"""Filtered MRR and Hits@K on CoDEx-S and FB15k-237, at equal seconds of training steps.

`python -m experiments.types.knowledge_run GRAPH recipes --root DATA` chooses width, dropout and the
like by validation; `... times` measures the steps of all samplers, alone on a machine; `... sizes`
chooses sizes by validation; `... train --seeds 0 1 2` trains and scores them. All add to the
results of their graph and skip what is there; `python -m experiments.types.page` writes README.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import msgspec
import torch

from bliss import samplers
from bliss.samplers import Sampler
from bliss.storage import records
from bliss.studies.provenance import Machine, machine
from experiments.results import Part
from experiments.types.knowledge import Batch, DistMult, Knowledge, scores

HERE = Path(__file__).parent
KINDS = {"bliss": samplers.Bliss, "pladies": samplers.PLADIES, "neighbor": samplers.Neighbor}
GRID_SEED = 100
"""Seed of the runs that settings are chosen by."""
VALIDATED = 2000
"""Triples that settings are chosen by, at most."""
WARM_UP, ROUNDS = 3, 15


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """Lengths of a graph's runs, and sizes of its samplers."""

    folder: str
    seconds: float
    grid_seconds: float  # of runs that choose sizes
    recipe_steps: int  # of runs that choose a recipe
    sizes: dict[str, list[tuple[int, str]]]  # budget of each layer, and estimator


CASES = {
    "codex-s": Case(
        folder="CoDExS",
        seconds=20,
        grid_seconds=4,
        recipe_steps=100,
        sizes={
            "bliss": [(128, "hajek"), (512, "ht")],
            "pladies": [(128, "hajek"), (512, "ht")],
            "neighbor": [(1, "ht"), (3, "ht")],
        },
    ),
    "fb15k-237": Case(
        folder="FB15k237",
        seconds=60,
        grid_seconds=8,
        recipe_steps=300,
        sizes={
            "bliss": [(512, "hajek"), (2048, "ht")],
            "pladies": [(512, "hajek"), (2048, "ht")],
            "neighbor": [(1, "ht"), (3, "ht")],
        },
    ),
}


class Recipe(records.Record, frozen=True, kw_only=True):
    """Settings that all samplers share."""

    width: int = 100
    layers: int = 1
    block: int = 2
    """Rows of a diagonal block."""
    dropout: float = 0.2
    batch: int = 512
    others: int = 512
    """Entities that are candidates beside those of the batch."""
    lr: float = 0.01
    weight_decay: float = 0.0


RECIPES = [
    Recipe(),
    Recipe(width=200),
    Recipe(dropout=0.4),
    Recipe(layers=2),
    Recipe(others=2048),
]
CHOOSER = ("neighbor", 1, "ht")
"""Sampler of the runs that choose a recipe."""


class Size(records.Record, frozen=True, kw_only=True):
    """A sampler of given size."""

    sampler: str
    budget: int
    estimator: str


class Time(Size, frozen=True, kw_only=True):
    """Median milliseconds of a step of the chosen recipe, alone on a machine."""

    step_ms: float


class Trial(Size, frozen=True, kw_only=True):
    """A run that settings are chosen by: its MRR on validation triples."""

    recipe: Recipe
    steps: int
    valid_mrr: float


class Run(Size, frozen=True, kw_only=True):
    """A run and its scores at the last step."""

    seed: int
    steps: int
    edges: float
    """Edges of a batch, summed over layers."""
    valid: dict[str, float]
    test: dict[str, float]


class Links(records.Record, frozen=True, kw_only=True):
    """Everything that was measured on a graph."""

    machine: Machine
    recipes: list[Trial] = msgspec.field(default_factory=list)
    times: list[Time] = msgspec.field(default_factory=list)
    sizes: list[Trial] = msgspec.field(default_factory=list)
    runs: list[Run] = msgspec.field(default_factory=list)

    @property
    def recipe(self) -> Recipe:
        """The recipe with the best validation MRR."""
        return max(self.recipes, key=lambda one: one.valid_mrr).recipe

    def chosen(self, sampler: str) -> Trial | None:
        """The size with the best validation MRR; None if untried."""
        own = [one for one in self.sizes if one.sampler == sampler]
        return max(own, key=lambda one: one.valid_mrr, default=None)

    def step_ms(self, one: Size) -> float:
        """Milliseconds of a step."""
        return next(time.step_ms for time in self.times if size_of(time) == size_of(one))


def size_of(one: Size) -> tuple[str, int, str]:
    """What identifies a size."""
    return one.sampler, one.budget, one.estimator


STORED = {graph: Part(HERE, graph, Links) for graph in CASES}


class Training:
    """The model, its sampler and its optimiser."""

    def __init__(self, knowledge: Knowledge, size: Size, recipe: Recipe, seed: int) -> None:
        self.knowledge, self.recipe, self.seed = knowledge, recipe, seed
        budgets = [size.budget] * recipe.layers
        options: dict[str, Any] = {"estimator": size.estimator, "seed": seed}
        self.sampler: Sampler = KINDS[size.sampler](knowledge.graph, budgets, **options)
        torch.manual_seed(seed)
        layers = {"layers": recipe.layers, "block": recipe.block, "dropout": recipe.dropout}
        self.model = DistMult(knowledge, recipe.width, **layers)
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay
        )
        self.step, self.edges = 0, 0

    def take(self, rate: float) -> None:
        """Take a step with a share of the learning rate."""
        recipe = self.recipe
        batch = Batch.draw(self.knowledge, recipe.batch, recipe.others, self.seed, self.step)
        blocks = self.sampler.sample(batch.seeds, self.step, without=batch.without)
        loss = self.model.loss(blocks, batch)
        self.optimizer.param_groups[0]["lr"] = rate * recipe.lr
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.sampler.update(blocks)
        self.step += 1
        self.edges += sum(block.num_edges for block in blocks)

    def run(self, steps: int) -> None:
        """Take so many steps, with a learning rate that falls to 0."""
        for step in range(steps):
            self.take(1 - step / steps)

    def scores(self, split: str, most: int = 0) -> dict[str, float]:
        """Filtered scores of a split."""
        self.model.eval()
        return scores(self.model, self.knowledge, split, most)


def sizes_of(graph: str) -> list[Size]:
    """Candidates of all samplers."""
    return [
        Size(sampler=sampler, budget=budget, estimator=estimator)
        for sampler, sizes in CASES[graph].sizes.items()
        for budget, estimator in sizes
    ]


def fields(one: Size) -> dict[str, Any]:
    """The fields of a size."""
    return dict(zip(("sampler", "budget", "estimator"), size_of(one), strict=True))


def tried(knowledge: Knowledge, size: Size, recipe: Recipe, steps: int) -> Trial:
    """Validation MRR of a size and a recipe."""
    training = Training(knowledge, size, recipe, GRID_SEED)
    training.run(steps)
    found = training.scores("valid", min(VALIDATED, len(knowledge.splits["valid"])))
    return Trial(**fields(size), recipe=recipe, steps=steps, valid_mrr=found["mrr"])


def choose_recipe(graph: str, found: Links, knowledge: Knowledge) -> None:
    """Train with every recipe, with one sampler and equally many steps."""
    size = Size(**dict(zip(("sampler", "budget", "estimator"), CHOOSER, strict=True)))
    for recipe in RECIPES:
        if recipe not in [one.recipe for one in found.recipes]:
            found.recipes.append(tried(knowledge, size, recipe, CASES[graph].recipe_steps))
            STORED[graph].write(found)


def measure(graph: str, found: Links, knowledge: Knowledge) -> None:
    """Median milliseconds of a step of every size, in turns."""
    sizes = sizes_of(graph)
    trainings = [Training(knowledge, size, found.recipe, GRID_SEED) for size in sizes]
    taken: list[list[float]] = [[] for _ in sizes]
    for _ in range(WARM_UP + ROUNDS):
        for training, own in zip(trainings, taken, strict=True):
            started = perf_counter()
            training.take(1.0)
            own.append(1e3 * (perf_counter() - started))
    found.times[:] = [
        Time(**fields(size), step_ms=median(own[WARM_UP:]))
        for size, own in zip(sizes, taken, strict=True)
    ]
    STORED[graph].write(found)


def choose_sizes(graph: str, found: Links, knowledge: Knowledge) -> None:
    """Train with every size for equal seconds."""
    for size in sizes_of(graph):
        if size_of(size) not in [size_of(one) for one in found.sizes]:
            steps = int(1e3 * CASES[graph].grid_seconds / found.step_ms(size))
            found.sizes.append(tried(knowledge, size, found.recipe, steps))
            STORED[graph].write(found)


def train_all(graph: str, found: Links, knowledge: Knowledge, seeds: list[int]) -> None:
    """Train the chosen size of every sampler, and score it at the end."""
    for seed in seeds:
        for sampler in CASES[graph].sizes:
            known = [(one.sampler, one.seed) for one in found.runs]
            size = found.chosen(sampler)
            if size is None or (sampler, seed) in known:
                continue
            steps = int(1e3 * CASES[graph].seconds / found.step_ms(size))
            training = Training(knowledge, size, found.recipe, seed)
            training.run(steps)
            own = {split: training.scores(split) for split in ("valid", "test")}
            counts = {"steps": steps, "edges": training.edges / steps}
            found.runs.append(Run(**fields(size), seed=seed, **counts, **own))
            STORED[graph].write(found)


def main() -> None:
    """Measure and train what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph", choices=CASES)
    parser.add_argument("part", choices=["recipes", "times", "sizes", "train"])
    parser.add_argument("--root", type=Path)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    given = parser.parse_args()
    torch.set_num_threads(1)
    stored = STORED[given.graph]
    own = stored.read() if stored.exists() else Links(machine=machine())
    knowledge = Knowledge.read(given.root, CASES[given.graph].folder)
    if given.part == "train":
        train_all(given.graph, own, knowledge, given.seeds)
        return
    parts = {"recipes": choose_recipe, "times": measure, "sizes": choose_sizes}
    parts[given.part](given.graph, own, knowledge)


if __name__ == "__main__":
    main()
