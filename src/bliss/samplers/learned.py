"""Samplers whose masses come from a policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bliss.errors import InputError
from bliss.feedback import SURVEY, Feedback, News, is_survey
from bliss.policies.base import Policy, RowSets, State
from bliss.samplers.base import Sampler
from bliss.samplers.config_base import PolicySamplerConfig
from bliss.storage.memory import SharedMemory


class PolicySampler(Sampler):
    """A sampler whose masses come from a policy, which does all the learning."""

    policy: Policy

    def __init__(self, data: Any, budgets: Sequence[int] = (), **options: Any) -> None:
        super().__init__(data, budgets, **options)
        self.policy = self._make_policy()
        unit = self.config.unit
        if unit not in self.policy.pairs_with:
            raise InputError(
                f"policy {self.policy.name!r} learns from draws of "
                f"{' or '.join(self.policy.pairs_with)}, but {type(self).__name__} draws {unit}: "
                "choose policy node or static, or another sampler."
            )

    def _make_policy(self) -> Policy:
        config = self.config
        assert isinstance(config, PolicySamplerConfig)
        if not config.is_built:
            return config.policy_config.build(self.graph, self.layers)
        policy: Policy = config.policy
        if policy.graph is not self.graph or policy.layers != self.layers:
            raise InputError(
                f"policy {policy.name!r} was built for {policy.layers} layers of {policy.graph!r}, "
                f"not for these {self.layers} layers of {self.graph!r}: pass its name or its "
                "config instead."
            )
        return policy

    @property
    def _adapts(self) -> bool:
        return self.policy.learns

    @property
    def learns_from_surveys(self) -> bool:
        """Whether the policy learns from surveys, or histories are written."""
        return self.policy.learns_from_surveys or super().learns_from_surveys

    def is_shareable(self, memory: SharedMemory) -> bool:
        """Whether the policy says so of its state, and all learnt arrays are in `memory`."""
        is_known = type(self)._apply is PolicySampler._apply
        says_so = not self.policy.learns or vars(type(self.policy)).get("shares_state", False)
        return is_known and bool(says_so) and memory.holds(self._arrays().values())

    def _digest(self, layer: int, feedback: Feedback) -> News:
        return self.policy.digest(layer, feedback)

    def _apply(self, layer: int, news: Sequence[News]) -> None:
        if not is_survey(news[0]):
            self.policy.apply(layer, news)
        elif self.history is None:
            self.policy.survey(layer, news[0][f"{SURVEY}norm"], news[0].get(f"{SURVEY}attention"))

    def _changed_rows(self, layer: int, news: Sequence[News]) -> RowSets | None:
        if not is_survey(news[0]):
            return self.policy.changed_rows(layer, news)
        return None if self.history is None else {}

    def _learnt(self) -> State:
        return self.policy.state_dict()

    def _load(self, learnt: Mapping[str, Any]) -> None:
        self.policy.load_state_dict(learnt)
