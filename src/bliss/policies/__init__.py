"""Policies: where the masses come from. One file each; none imports torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bliss.lazy import lazy_names
from bliss.policies.configs import (
    POLICIES,
    Exp3Config,
    LinearConfig,
    NodeConfig,
    PolicyConfig,
    ScaleFreeConfig,
    TargetBanditConfig,
    policy_config,
)

if TYPE_CHECKING:
    from bliss.feedback import Feedback, News
    from bliss.policies.base import Policy, State

__all__ = [
    "POLICIES",
    "Exp3Config",
    "Feedback",
    "LinearConfig",
    "News",
    "NodeConfig",
    "Policy",
    "PolicyConfig",
    "ScaleFreeConfig",
    "State",
    "TargetBanditConfig",
    "policy_config",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Feedback": "bliss.feedback",
        "News": "bliss.feedback",
        "Policy": "bliss.policies.base",
        "State": "bliss.policies.base",
    },
)
