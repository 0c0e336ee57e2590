"""VR-GCN: a few neighbours per target, and a history that stands in for the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from bliss.samplers.control import ControlVariate
from bliss.samplers.neighbor import Neighbor


class VRGCN(ControlVariate, Neighbor):
    """Neighbour sampling with control variates (Chen, Zhu and Song, 2018).

    Each target keeps `budgets[layer]` of its in-edges, by default 2, as `Neighbor` draws them with
    weights alpha_ij / p_ij; `ControlVariate` has the estimator, its state and its cost. Unbiased
    for fixed inputs; adaptive in that the history learns, while chances stay as they are. The
    paper's treatment of dropout is included; its preprocessing of the first layer is not needed,
    because the features are their own history.
    """

    choices: ClassVar[Mapping[str, Sequence[str]]] = {
        "policy": Neighbor.choices["policy"],
        "estimator": ("ht",),
    }

    def __init__(
        self,
        data: Any,
        budgets: Sequence[int],
        *,
        x: Any,
        policy: str = "uniform",
        replace: bool = False,
        estimator: str = "ht",
        **options: Any,
    ) -> None:
        own = {"policy": policy, "replace": replace, "estimator": estimator}
        super().__init__(data, budgets, x=x, **own, **options)

    @classmethod
    def default_budgets(cls, layers: int) -> tuple[int, ...]:
        """2 neighbours a layer."""
        return (2,) * layers
