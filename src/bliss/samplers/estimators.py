"""Estimators: weights of kept edges, with which a sampled sum estimates the full one.

An estimator is an object with `weights(kept)`. To add one, write a class and add it to
`ESTIMATORS`, or pass an object as `estimator=` to a sampler. NumPy is imported only where weights
are computed, because settings import this module, and `--help` imports the settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from bliss import checks
from bliss.errors import InputError

if TYPE_CHECKING:
    from bliss.arrays import FloatArray
    from bliss.samplers.kept import KeptEdges


_NEEDED = ("name", "is_unbiased", "needs_prob", "weights")


class Estimator(Protocol):
    """Sets the weights of the kept edges of a layer."""

    name: ClassVar[str]
    is_unbiased: ClassVar[bool]
    """Whether, for fixed inputs, the expected aggregate is the full-neighbour one."""
    needs_prob: ClassVar[bool]
    """Whether the weights need inclusion probabilities of sources in closed form."""

    def weights(self, kept: KeptEdges) -> FloatArray:
        """Weights of the kept edges. float32[E']."""


@dataclass(frozen=True)
class HorvitzThompson:
    """alpha_ij / p_ij: unbiased. If sources are drawn, p_ij is p_j."""

    name: ClassVar[str] = "ht"
    is_unbiased: ClassVar[bool] = True
    needs_prob: ClassVar[bool] = False

    def weights(self, kept: KeptEdges) -> FloatArray:
        """The coefficients, times the correction of their source or divided by p_ij."""
        if kept.correction is not None:
            return kept.coefficients(kept.correction)
        weight = kept.coefficients()
        weight /= kept.edge_prob
        return weight


@dataclass(frozen=True)
class Debiased(HorvitzThompson):
    """alpha_ij w_j with the corrections of successive draws (`draws.Successive`): unbiased."""

    name: ClassVar[str] = "debiased"


@dataclass(frozen=True)
class Sketch(HorvitzThompson):
    """alpha_ij / (k q_j), q_j the distribution of one draw [eq:norm-prob-sketch].

    Biased, because draws are without replacement.
    """

    name: ClassVar[str] = "sketch"
    is_unbiased: ClassVar[bool] = False


@dataclass(frozen=True)
class Hajek(HorvitzThompson):
    """Horvitz-Thompson, rescaled so that a group's weights sum to the sum over N_g of alpha_ij.

    Biased by O(1/k), usually with less error.
    """

    name: ClassVar[str] = "hajek"
    is_unbiased: ClassVar[bool] = False

    def weights(self, kept: KeptEdges) -> FloatArray:
        """The rescaled weights."""
        return kept.rescaled(super().weights(kept), kept.rows.coefficient_sum())


@dataclass(frozen=True)
class Plain:
    """alpha_ij |N_g| / n_g, with n_g the number of kept edges. Ignores probabilities; biased."""

    name: ClassVar[str] = "plain"
    is_unbiased: ClassVar[bool] = False
    needs_prob: ClassVar[bool] = False

    def weights(self, kept: KeptEdges) -> FloatArray:
        """The weights that are right if the edges of a group have equal probabilities."""
        import numpy as np

        weight, number = kept.coefficients(), np.diff(kept.indptr)
        share = number / np.maximum(kept.rows.degree, 1)
        weight /= np.repeat(share, number).astype(np.float32)
        return weight


@dataclass(frozen=True)
class Released:
    """q_ij / p_j, rescaled so that a group's weights sum to 1, as in the paper's released code.

    The policy's q_ij takes the place of alpha_ij, so the expectation changes with the policy.
    """

    name: ClassVar[str] = "released"
    is_unbiased: ClassVar[bool] = False
    needs_prob: ClassVar[bool] = True

    def weights(self, kept: KeptEdges) -> FloatArray:
        """The policy's shares, corrected and rescaled."""
        import numpy as np

        if kept.prob is None or kept.edge_mass is None:
            raise InputError(
                "estimator 'released' needs the masses of a policy and inclusion probabilities of "
                "sources: choose sampler bliss or pladies, or another estimator."
            )
        offset, slope, value, table = kept.edge_mass
        number = np.diff(kept.indptr)
        share = np.repeat(offset, number)
        if value.size:
            values = table[value[kept.edge]] if table.size else value[kept.edge]
            share += np.repeat(slope, number) * values
        weight = (share / kept.prob[kept.row]).astype(np.float32)
        return kept.rescaled(weight, np.ones(number.size))


ESTIMATORS: dict[str, Estimator] = {
    "ht": HorvitzThompson(),
    "hajek": Hajek(),
    "debiased": Debiased(),
    "sketch": Sketch(),
    "released": Released(),
    "plain": Plain(),
}
"""Estimators by name."""


def estimator_of(given: Any) -> Estimator:
    """The estimator with a name, or the object itself."""
    if isinstance(given, str):
        return ESTIMATORS[checks.choice("estimator", given, list(ESTIMATORS))]
    missing = [name for name in _NEEDED if not hasattr(given, name)]
    if missing:
        raise InputError(
            f"estimator={given!r} has no {' and no '.join(missing)}: pass a name "
            f"({', '.join(ESTIMATORS)}) or an object like those of bliss.samplers.estimators."
        )
    estimator: Estimator = given
    return estimator
