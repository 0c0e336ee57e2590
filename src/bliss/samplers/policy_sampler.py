"""Samplers whose masses come from a policy."""

from __future__ import annotations

from bliss.errors import InputError
from bliss.policies.base import Policy
from bliss.policies.learner import Learner
from bliss.samplers.base import Sampler
from bliss.samplers.config_base import PolicySamplerConfig


class PolicySampler(Sampler):
    """A sampler whose masses come from a policy, the first of its learners."""

    policy: Policy

    def _make_learners(self) -> tuple[Learner, ...]:
        self.policy = self._make_policy()
        unit = self.config.unit
        if unit not in self.policy.pairs_with:
            raise InputError(
                f"policy {self.policy.name!r} learns from draws of "
                f"{' or '.join(self.policy.pairs_with)}, but {type(self).__name__} draws {unit}: "
                "choose policy node or static, or another sampler."
            )
        if self.config.lasting > 1 and self.policy.divides_rewards:
            raise InputError(
                f"coin_steps={self.config.lasting} is not possible with policy "
                f"{self.policy.name!r}, which divides rewards by probabilities and so assumes new "
                "coins in every step: choose policy node or static, or coin_steps 1."
            )
        return (self.policy, *super()._make_learners())

    def _has_attention(self, layer: int) -> bool:
        return self.policy.has_attention(layer)

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
