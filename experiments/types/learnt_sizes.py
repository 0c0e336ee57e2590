"""The policy `node` with sizes of messages against sizes of inputs, on three graphs.

A network is trained with PLADIES while each policy learns from its own draws of the same batches.
Then, for equal numbers of sources,

    V = sum_j (1 / p_j - 1) sum_e alpha_e^2 |W_r(e) h_j|^2

over the least possible V, in closed form, and the error r of the gradient, whose draws use the same
coins for all policies. Networks are also trained with both.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
from scipy.stats import t

from bliss.arrays import FloatArray
from bliss.data import Dataset
from bliss.nn.block import Block
from bliss.samplers import Bliss
from bliss.studies.gradients import full_gradients, squared_errors
from bliss.studies.layer_errors import error, least_error
from bliss.studies.variance.variance_study import VarianceStudy
from bliss.train import Stepper, resolve
from bliss.train.assessment import assess
from bliss.train.task import Task
from experiments.types.cases import CASES
from experiments.types.divisions import COMMON, OWN, STEPS
from experiments.types.messages import Messages, bliss_of, exact_messages, survey
from experiments.types.results import LearntSizes, Results, Trial
from experiments.types.run import ROUNDS, WARM_UP, task, trained

BUDGETS = {"imdb": (256, 128), "acm": (256, 128), "library": (4096, 2048)}
NETWORKS = {"imdb": 3, "acm": 3, "library": 1}
"""Trained networks of each graph, with seeds of their own."""
DRAWS = {"imdb": 40, "acm": 40, "library": 10}
"""Draws of each of 4 batches and network."""
SEEDS = 3
"""Trained networks whose scores are compared, on IMDB and ACM."""
KINDS = ("input", "message")
VARIANTS: dict[str, dict[str, Any]] = {
    "batches": {},
    "survey": {},
    "influence": {"influence": "prior"},
}


class SizesStudy(VarianceStudy):
    """Trains a network and lets both policies learn, each in three variants."""

    def __init__(self, graph: str, model: str, dataset: Dataset, seed: int) -> None:
        settings = COMMON | OWN[graph] | {"model": model, "budgets": BUDGETS[graph], "seed": seed}
        super().__init__(resolve(dataset=graph, **settings), dataset, [], every=STEPS)
        self.students = {
            f"{kind}, {variant}": bliss_of(self.task, messages=kind == "message", **options)
            for variant, options in VARIANTS.items()
            for kind in KINDS
        }

    def learn(self) -> None:
        """Train and teach, with a survey after half of the steps."""
        for step in self._learning_steps():
            if step == STEPS // 2:
                layers = exact_messages(self.task)
                for name, student in self.students.items():
                    if name.endswith("survey"):
                        survey(student, layers)
        self.task.model.eval()

    def over_limit(self) -> dict[str, list[float]]:
        """V over its least value by layer, of the variants without influence."""
        layers = exact_messages(self.task)
        batches = [self._targets(seeds, STEPS) for seeds in self._seeds(STEPS)]
        found = {}
        for name, student in self.students.items():
            if student.config.weighs_targets:
                continue
            found[name] = []
            for layer, messages in enumerate(layers):
                own = least = 0.0
                for targets in batches:
                    above, below = v_of(student, messages, layer, targets[layer].node)
                    own, least = own + above, least + below
                found[name].append(own / least)
        return found

    def gradient(self, draws: int) -> dict[str, FloatArray]:
        """|g^ - g|^2 over the mean of |g|^2, by policy. float64[batches, draws]."""
        batches = self._seeds(STEPS)
        exact = full_gradients(self.task, batches)
        square = float(exact.square().sum(1).mean())
        return {
            name: squared_errors(self.task, one, batches, exact, draws) / square
            for name, one in self.students.items()
        }


def v_of(sampler: Bliss, messages: Messages, layer: int, targets: Any) -> tuple[float, float]:
    """V of a sampler at some targets, and the least V with as many sources."""
    graph = sampler.graph
    candidate, prob = sampler.inclusion(targets, layer)
    _, edge = graph.rows(targets).edges()
    value = messages.alpha[edge].astype(np.float64) ** 2 * messages.squares[edge]
    stake = np.bincount(graph.indices[edge], value, graph.num_nodes)[candidate]
    return error(prob, stake), least_error(prob, targets.size, stake)


def interval(values: FloatArray) -> list[float]:
    """Mean and 95% interval over draws within batches. values [batches, draws]."""
    batches, draws = values.shape
    deviation = np.sqrt(values.var(1, ddof=1).mean() / values.size)
    half = t.ppf(0.975, batches * (draws - 1)) * deviation
    return [float(values.mean() + shift) for shift in (0, -half, half)]


def ratio(above: FloatArray, below: FloatArray) -> list[float]:
    """Ratio of two means over the same draws, and its interval, linearised."""
    center = above.mean() / below.mean()
    return [float(center + one) for one in interval((above - center * below) / below.mean())]


def measure(found: Results, graph: str, model: str, dataset: Dataset) -> LearntSizes:
    """V and r of all policies; of rgat the time of a step and, on small graphs, scores, too."""
    sizes = variances(graph, model, dataset)
    print(sizes, flush=True)
    if model != "rgat":  # sizes of messages are not observed elsewhere
        return sizes
    step_ms = step_times(found, graph, dataset)
    accuracy, macro_f1 = ({}, {}) if graph == "library" else scores(found, graph, model, dataset)
    print(step_ms, accuracy, macro_f1, flush=True)
    return msgspec.structs.replace(sizes, step_ms=step_ms, accuracy=accuracy, macro_f1=macro_f1)


def variances(graph: str, model: str, dataset: Dataset) -> LearntSizes:
    """V and r of all policies, over some trained networks."""
    over_limit: dict[str, list[list[float]]] = {}
    errors: dict[str, list[FloatArray]] = {}
    for seed in range(NETWORKS[graph]):
        study = SizesStudy(graph, model, dataset, seed)
        study.learn()
        for name, layers in study.over_limit().items():
            over_limit.setdefault(name, []).append(layers)
        for name, own in study.gradient(DRAWS[graph]).items():
            errors.setdefault(name, []).append(own)
    r = {name: np.concatenate(own) for name, own in errors.items()}
    return LearntSizes(
        graph=graph,
        model=model,
        budgets=list(BUDGETS[graph]),
        over_limit=over_limit,
        gradient={name: interval(own) for name, own in r.items()},
        gradient_ratio={
            variant: ratio(r[f"message, {variant}"], r[f"input, {variant}"]) for variant in VARIANTS
        },
    )


def step_times(found: Results, graph: str, dataset: Dataset) -> dict[str, float]:
    """Median milliseconds of a step of rgat, in turns: without its maps observed, and with them."""
    size = chosen(found, graph, "rgat")
    observe = Block.observe

    def without_maps(block: Block, x: Any, attention: Any = None, maps: Any = None) -> None:
        observe(block, x, attention)

    steppers = {kind: Stepper(task(dataset, size)) for kind in KINDS}
    turns = {kind: stepper.batches() for kind, stepper in steppers.items()}
    taken: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(WARM_UP + ROUNDS):
        for kind, stepper in steppers.items():
            with patch.object(Block, "observe", without_maps if kind == "input" else observe):
                started = perf_counter()
                stepper.step(next(turns[kind]))
                taken[kind].append(1e3 * (perf_counter() - started))
    return {kind: median(own[WARM_UP:]) for kind, own in taken.items()}


def scores(
    found: Results, graph: str, model: str, dataset: Dataset
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Test accuracy and macro-F1 of each seed by size, with the chosen settings of `bliss`."""
    choice = chosen(found, graph, model)
    recipe = {name: getattr(choice, name) for name in ("lr", "weight_decay", "dropout")}
    recipe["steps"] = found.time(choice).steps(CASES[graph].seconds)
    accuracy: dict[str, list[float]] = {kind: [] for kind in KINDS}
    macro_f1: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for seed in range(SEEDS):
        for kind in KINDS:
            stepper, _ = trained(dataset, choice, _maker(kind), **recipe, seed=seed)
            test = assess(stepper.task, ("test",)).splits["test"].scores
            accuracy[kind].append(test["accuracy"])
            macro_f1[kind].append(test["macro_f1"])
    return accuracy, macro_f1


def chosen(found: Results, graph: str, model: str) -> Trial:
    """The chosen settings of `bliss`."""
    choice = found.chosen(graph, model, "bliss")
    assert choice is not None
    return choice


def _maker(kind: str) -> Callable[[Task], Bliss]:
    return lambda own: bliss_of(own, messages=kind == "message", influence="auto")
