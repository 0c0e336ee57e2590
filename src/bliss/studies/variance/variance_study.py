"""Distance of each policy's probabilities from the best possible, and the error of gradients.

One network is trained with PLADIES. Every policy draws its own sample of each batch, sends it
through the network and learns from it, as it would in its own training. Each policy takes part
twice, the second time as "name+influence", with targets weighed by their influence on the loss.
With surveys, those that learn from them take part again as "name+survey"; with histories, each
policy takes part once more as "name+history". At checkpoints the policies, PLADIES and the limit
are evaluated in closed form on the same frontiers and exact embeddings. After the last step the
error of the gradient is measured for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import mean
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call

from bliss import checks
from bliss.arrays import NOTHING, FloatArray
from bliss.data import Dataset
from bliss.errors import InputError
from bliss.graph import Cutoff
from bliss.loader.seeds import SeedBatch, draw_blocks
from bliss.nn.block import Block
from bliss.nn.inference import evaluating
from bliss.policies import POLICIES
from bliss.rng import Stream
from bliss.samplers import PLADIES, Bliss, LayerSampler
from bliss.samplers.config_base import EstimatorConfig
from bliss.samplers.influence import of_sources
from bliss.studies.gradients import (
    full_gradients,
    shares_sources,
    squared_errors,
    training_batch,
)
from bliss.studies.layer_errors import Frontier, Targets, error, exact_frontiers, least_error
from bliss.studies.variance.variance_record import (
    AgeRatios,
    GradientError,
    LayerErrors,
    LayerRatios,
    Moment,
    PolicyRatios,
    Variance,
)
from bliss.train import Stepper, TrainConfig, build_task
from bliss.train.task import torch_seed

FRONTIERS = 4
"""Batches whose variance is summed at a checkpoint, and whose gradients are measured."""
DRAWS = 8
"""Draws of each batch whose gradients are measured."""


class VarianceStudy:
    """Trains one network, lets every policy learn from it, and measures their variance.

    Parameters
    ----------
    config
        Settings of the training; its sampler must be "pladies".
    dataset
        The graph, its features, and its labels or links.
    policies
        Names of policies to compare with PLADIES.
    every
        Steps between measurements.
    survey_every
        Steps between surveys with the current network; 0: none. A measurement at the step of a
        survey follows it.
    history
        Whether each policy also takes part with a history of every node. It then samples changes
        only, and nothing in the input layer, so its V can be below the limit, which is that of
        sampling without a history.
    """

    def __init__(
        self,
        config: TrainConfig,
        dataset: Dataset,
        policies: Sequence[str],
        every: int,
        survey_every: int = 0,
        history: bool = False,
    ) -> None:
        for name in policies:
            checks.choice("policies", name, list(POLICIES))
        self.every = checks.whole("every", every, least=1)
        self.survey_every = checks.whole("survey_every", survey_every)
        if config.training.shards > 1:
            raise InputError(
                f"shards={config.training.shards} must be 1 here, because variance is measured "
                "per batch: leave it out."
            )
        if (lasting := config.sampler.config.lasting) > 1:
            raise InputError(
                f"coin_steps={lasting} must be 1 here, because errors are measured over "
                "independent draws: leave it out."
            )
        self.task = build_task(config, dataset)
        if self.survey_every and not self.task.objective.is_survey:
            raise InputError(
                f"survey_every={survey_every} has no meaning here, because surveys see edges of "
                "any time, and nodes or links of this split those of their past: leave it out."
            )
        self.stepper = Stepper(self.task)
        self.config = config = self.task.config
        self.fixed = PLADIES(self.task.graph, config.sampler.budgets, **self._options)
        self.students = {name: self._student(name) for name in policies}
        self.students |= {f"{name}+influence": self._student(name, "prior") for name in policies}
        self.surveyed = self._surveyed_students() if self.survey_every else {}
        self.students |= self.surveyed
        if history:
            self.students |= {f"{name}+history": self._with_history(name) for name in policies}
        self.history: list[Moment] = []

    @property
    def _options(self) -> dict[str, Any]:
        """Options of all samplers of the study."""
        config = self.config.sampler.config
        assert isinstance(config, EstimatorConfig)
        return {"seed": self.config.seed, "estimator": config.estimator}

    def _student(self, policy: str, influence: str = "none") -> Bliss:
        return Bliss(
            self.task.graph,
            self.config.sampler.budgets,
            policy=policy,
            influence=influence,
            **self._options,
        )

    def _with_history(self, policy: str) -> Bliss:
        task, config = self.task, self.config
        if config.network.is_attention:
            raise InputError(
                f"history=True has no meaning for model={config.network.model!r}, which learns its "
                "coefficients: choose model sage, gcn or rsage, or leave it out."
            )
        is_learnt = task.embedding is not None or not config.network.has_linear_inputs
        made = Bliss(
            task.graph,
            config.sampler.budgets[0 if is_learnt else 1 :],
            policy=policy,
            influence="none",
            seed=config.seed,
            history="nodes",
            first_hop="history" if is_learnt else "exact",
            widths=task.model.widths[:-1],
            x=None if is_learnt else task.fixed_inputs,
        )
        if task.graph.has_times:
            made.check_times()
        return made

    def _surveyed_students(self) -> dict[str, Bliss]:
        learners = {n: one for n, one in self.students.items() if one.learns_from_surveys}
        if not learners:
            named = ", ".join(name for name in self.students if "+" not in name)
            raise InputError(
                f"survey_every={self.survey_every} has no effect, because none of the policies "
                f"{named} learns from surveys: add policy node, or leave it out."
            )
        return {
            f"{name}+survey": self._student(one.policy.name, one.config.influence)
            for name, one in learners.items()
        }

    def run(self, on_step: Callable[[int], None] | None = None) -> Variance:
        """Train, measure, and return the ratios and their history."""
        steps = self.config.training.steps
        for step in self._learning_steps():
            if self.survey_every and step % self.survey_every == 0:
                for student in self.surveyed.values():
                    student.survey(self.task.model, self.task.everywhere(), device=self.task.device)
            if step % self.every == 0 or step == steps:
                self.history.append(self._measure(step))
            if on_step:
                on_step(step)
        return self.summary()

    def _learning_steps(self) -> Iterator[int]:
        """Train, and let the students learn from each batch; gives the number of each step."""
        for (batch,) in self.stepper.batches():
            self.stepper.step([batch])
            step, loader = self.stepper.steps, self.stepper.loader
            seeds = loader.seeds.batch(batch.input_id.cpu().numpy(), loader.epoch)
            for student in self.students.values():
                self._teach(student, seeds, step)
            yield step

    def _teach(self, student: LayerSampler, seeds: SeedBatch, step: int) -> None:
        """Let a student learn from its own sample of a batch, with the current network.

        The network's buffers, such as the statistics of batch normalisation, do not change.
        """
        if not student.learns:
            return
        blocks = draw_blocks(student, seeds, step)
        inputs = self.task.at(blocks[0])
        blocks = [block.to(self.task.device) for block in blocks]
        torch.manual_seed(torch_seed(self.config.seed, Stream.DROPOUT, step))
        model = self.task.model.train()
        copies = {name: buffer.clone() for name, buffer in model.named_buffers()}
        with torch.no_grad():
            functional_call(model, copies, (inputs, blocks))
        student.update(blocks)

    def _measure(self, step: int) -> Moment:
        layers = self.config.network.layers
        batches = [self._targets(seeds, step) for seeds in self._seeds(step)]
        targets = [[batch[layer] for batch in batches] for layer in range(layers)]
        with torch.no_grad(), evaluating(self.task.model):
            histories = {
                n: student.history for n, student in self.students.items() if student.history
            }
            frontiers = exact_frontiers(
                self.task.model, self.task.graph, self.task.everywhere(), targets, histories
            )
        return Moment(
            step=step,
            layers=[
                self._layer([frontier for frontier in frontiers if frontier.layer == layer])
                for layer in range(layers)
            ],
        )

    def _seeds(self, step: int) -> list[SeedBatch]:
        """Batches of training nodes or links for a checkpoint."""
        return [training_batch(self.task, step, number) for number in range(FRONTIERS)]

    def _targets(self, seeds: SeedBatch, step: int) -> list[Targets]:
        """Targets of each layer of a draw and their influence, input layer first."""
        blocks, hidden = draw_blocks(self.fixed, seeds, Stream.MEASUREMENT + step), seeds.without
        ones = np.ones(blocks[-1].num_dst)
        found = [Targets(blocks[-1].dst.numpy(), ones, hidden, _cutoff(blocks[-1]))]
        for block in blocks[:0:-1]:
            influence = of_sources(
                block, found[-1].influence, has_attention=self.config.network.is_attention
            )
            found.append(Targets(block.src.numpy(), influence, hidden, block.cutoff))
        return found[::-1]

    def _gradient_errors(self) -> dict[str, GradientError]:
        """r of PLADIES and of every student, for the network as it is."""
        batches = self._seeds(self.stepper.steps)
        exact = full_gradients(self.task, batches, shares_sources(self.task, self.fixed))
        return {
            name: gradient_error(squared_errors(self.task, one, batches, exact, DRAWS), exact)
            for name, one in ({"pladies": self.fixed} | self.students).items()
        }

    def _layer(self, frontiers: list[Frontier]) -> LayerErrors:
        """Errors of one layer, summed over its frontiers."""
        errors: dict[str, Any] = {}
        for prefix, kind in (("", "absolute"), ("weighted_", "weighted")):
            errors[f"{prefix}pladies"], errors[f"{prefix}limit"] = _errors(
                self.fixed, frontiers, kind
            )
            pairs = {
                name: _errors(student, frontiers, kind, name)
                for name, student in self.students.items()
            }
            errors[f"{prefix}policies"] = {name: own for name, (own, _) in pairs.items()}
            errors[f"{prefix}limits"] = {name: least for name, (_, least) in pairs.items()}
        return LayerErrors(**errors)

    def summary(self) -> Variance:
        """The measurements, and their means over the second half of training."""
        config = self.config
        late = [moment for moment in self.history if moment.step > self.history[-1].step / 2]
        return Variance(
            dataset=config.data.dataset,
            model=config.network.model,
            budgets=list(config.sampler.budgets),
            batch_size=config.training.batch_size,
            steps=config.training.steps,
            seed=config.seed,
            layers=[
                layer_ratios(budget, [moment.layers[layer] for moment in late])
                for layer, budget in enumerate(self.fixed.budgets)  # of all types together
            ],
            history=self.history,
            gradient_error=self._gradient_errors(),
            survey_every=self.survey_every,
            ages=self._ages(),
        )

    def _ages(self) -> list[AgeRatios]:
        """V over the limit by the age of the survey, from the first survey on."""
        at: dict[int, list[Moment]] = {}
        for moment in self.history:
            if self.surveyed and moment.step >= self.survey_every:
                at.setdefault(moment.step % self.survey_every, []).append(moment)
        return [
            AgeRatios(
                age=age,
                layers=[
                    {
                        name: mean_ratio((at.policies[name], at.limits[name]) for at in layer)
                        for name in self.surveyed
                    }
                    for layer in zip(*(moment.layers for moment in at[age]), strict=True)
                ],
            )
            for age in sorted(at)
        ]


def _cutoff(block: Block) -> Cutoff | None:
    """Times that the targets of a block may see; None: all."""
    return None if block.rows is None else block.rows.cutoff


def _errors(
    sampler: LayerSampler, frontiers: list[Frontier], kind: str, name: str = ""
) -> tuple[float, float]:
    """V of a sampler and the least V at the same number of sources, summed over frontiers.

    The least V is that without a history. Both are 0 in an input layer with an exact first hop.
    """
    own = least = 0.0
    skipped = sampler.depth - sampler.layers  # 1 with an exact first hop
    for frontier in frontiers:
        stake = getattr(frontier.stake, kind)
        if frontier.layer < skipped:
            continue
        influence = frontier.influence if sampler.config.weighs_targets else NOTHING
        layer = frontier.layer - skipped
        seen = frontier.without, frontier.cutoff
        prob = sampler.inclusion(frontier.targets, layer, influence, *seen).prob
        changed = frontier.changed.get(name)
        sampled = stake if changed is None else getattr(changed, kind)
        own += error(prob, sampled)
        least += least_error(prob, frontier.num_targets, stake)
    return own, least


def layer_ratios(budget: int, checkpoints: Sequence[LayerErrors]) -> LayerRatios:
    """Means over checkpoints of a layer's ratios."""
    return LayerRatios(
        budget=budget,
        policies={
            name: PolicyRatios(
                over_pladies=mean_ratio((at.policies[name], at.pladies) for at in checkpoints),
                over_limit=mean_ratio((at.policies[name], at.limits[name]) for at in checkpoints),
                weighted_over_pladies=mean_ratio(
                    (at.weighted_policies[name], at.weighted_pladies) for at in checkpoints
                ),
                weighted_over_limit=mean_ratio(
                    (at.weighted_policies[name], at.weighted_limits[name]) for at in checkpoints
                ),
            )
            for name in checkpoints[0].policies
        },
        limit_over_pladies=mean_ratio((at.limit, at.pladies) for at in checkpoints),
        weighted_limit_over_pladies=mean_ratio(
            (at.weighted_limit, at.weighted_pladies) for at in checkpoints
        ),
    )


def mean_ratio(pairs: Iterable[tuple[float, float]]) -> float | None:
    """Mean of above / below over the pairs with below > 0; None without such a pair."""
    known = [above / below for above, below in pairs if below > 0]
    return mean(known) if known else None


def gradient_error(errors: FloatArray, exact: Tensor) -> GradientError:
    """r of some squared errors, with the t-interval of draws within batches.

    errors [batches, draws], exact [batches, P]
    """
    from scipy.stats import t  # loaded late, because reports do without scipy

    square = max(float(exact.square().sum(1).mean()), 1e-300)
    batches, draws = errors.shape
    deviation = float(np.sqrt(errors.var(1, ddof=1).mean() / errors.size))
    half = float(t.ppf(0.975, batches * (draws - 1))) * deviation
    mean = float(errors.mean())
    return GradientError(
        mean=mean / square, low=max(mean - half, 0.0) / square, high=(mean + half) / square
    )
