"""Configurations of an ablation: each variant in each repeat, with the part that it removes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optimizer.ablation._variants import Variant

__all__ = ["REMOVED", "REPEAT", "VARIANT", "Removal", "configurations"]

VARIANT = "variant"
"""Hyperparameter of a configuration: the name of its variant."""

REPEAT = "repeat"
"""Hyperparameter of a configuration: the number of its repeat, from 0."""

REMOVED = "_removed"
"""Hyperparameter of a configuration: the fields of its :class:`Removal`."""


@dataclass(frozen=True, slots=True)
class Removal:
    """Part that a configuration removes from the model.

    Parameters
    ----------
    features : tuple of str
        Columns whose values the network reads as zeros.
    modules : tuple of str
        Paths of modules that are replaced.
    parameters_of : tuple of str
        Paths of modules; as many parameters as they have are set to zero at random places of the network.
    without : tuple of str
        Names that ``trainer_fn`` gets as ``params["without"]``.
    seed : int
        Seed of random places. Default 0.
    """

    features: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    parameters_of: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    seed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Removal:
        """Read the result of :meth:`to_dict`."""
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in data.items()
        }
        return cls(**fields)


def configurations(
    variants: Sequence[Variant],
    hyperparameters: Mapping[str, Any],
    *,
    repeats: int,
    columns: Sequence[str],
    seed: int,
) -> list[dict[str, Any]]:
    """List the configurations of all variants in all repeats, repeat by repeat.

    Controls draw other columns and places in each repeat.

    Parameters
    ----------
    hyperparameters : mapping of str to object
        Hyperparameters that all configurations have.
    columns : sequence of str
        Feature columns, from which controls draw.
    seed : int
        Seed of the draws.

    Examples
    --------
    >>> from optimizer.ablation import design
    >>> variants = design(features=["age"], columns=["age", "hours"], controls=False)
    >>> for params in configurations(variants, {"lr": 0.1}, repeats=2, columns=["age", "hours"], seed=0):
    ...     print(params["repeat"], params["variant"], params["_removed"]["features"])
    0 full []
    0 age ['age']
    1 full []
    1 age ['age']
    """
    return [
        {
            **hyperparameters,
            VARIANT: variant.name,
            REPEAT: repeat,
            REMOVED: _removal(variant, columns, np.random.default_rng((seed, repeat, place))).to_dict(),
        }
        for repeat in range(repeats)
        for place, variant in enumerate(variants)
    ]


def _removal(variant: Variant, columns: Sequence[str], random: np.random.Generator) -> Removal:
    """Return the part that a variant removes in one repeat."""
    if variant.kind == "features":
        return Removal(features=variant.removed)
    if variant.kind == "modules":
        return Removal(modules=variant.removed)
    if variant.kind == "params":
        return Removal(without=variant.removed)
    if variant.kind == "random features":
        places = sorted(random.choice(len(columns), variant.count, replace=False).tolist())
        return Removal(features=tuple(columns[place] for place in places))
    if variant.kind == "random parameters":
        return Removal(parameters_of=variant.removed, seed=int(random.integers(2**31)))
    return Removal()
