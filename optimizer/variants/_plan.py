"""Combinations of transformations: the variants to build."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.arguments import whole
from optimizer.errors import InvalidArgumentError
from optimizer.variants._transformations import Step, Transformation

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FULL", "Recipe", "plan_recipes"]

FULL = "full"
"""Name of the original network with its head."""

_ORDER = ("resize", "shorten", "coarsen", "narrow", "factorize", "quantize", "compile")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Steps that make a variant, in the order in which they are applied.

    Parameters
    ----------
    steps : tuple of Step
        Nothing for the original network.
    """

    steps: tuple[Step, ...] = ()

    @property
    def name(self) -> str:
        """Name of the variant, such as ``"160px-rank0.5-8bit"``."""
        return "-".join(map(str, self.steps)) or FULL

    @property
    def is_possible(self) -> bool:
        """False if weights are stored in fewer bits and compiled too: each of them replaces the other."""
        return len(self.steps) - len(self.trained.steps) <= 1

    @property
    def trained(self) -> Recipe:
        """The steps that are followed by training; variants that differ in other steps share them."""
        return Recipe(tuple(step for step in self.steps if step.is_trained))


def plan_recipes(apply: Sequence[Transformation], depth: int = 2, limit: int = 68) -> tuple[Recipe, ...]:
    """Combine transformations to variants.

    Parameters
    ----------
    apply : sequence of Transformation
        At most one of each kind.
    depth : int
        Largest number of steps that need training in a variant; bits per weight are free. Default 2.
    limit : int
        Largest number of variants, as in the largest catalog of the thesis. Default 68.

    Returns
    -------
    tuple of Recipe
        The original network, then variants with few steps before those with many.

    Raises
    ------
    InvalidArgumentError
        Two transformations are of one kind, something is no transformation, or there are more than `limit` variants.

    Examples
    --------
    >>> from optimizer.variants import Narrow, Quantize
    >>> [recipe.name for recipe in plan_recipes([Quantize(8), Narrow(0.5)])]
    ['full', '8bit', 'width0.5', 'width0.5-8bit']
    """
    whole("depth", depth)
    whole("limit", limit)
    apply = list(apply)
    wrong = [entry for entry in apply if not isinstance(entry, Transformation)]
    if wrong:
        raise InvalidArgumentError(
            f"apply must be a list of transformations such as Factorize() or Quantize(8), got {wrong[0]!r}."
        )
    kinds = [entry.kind for entry in apply]
    twice = sorted({kind for kind in kinds if kinds.count(kind) > 1})
    if twice:
        raise InvalidArgumentError(
            f"apply must have each transformation once, got {', '.join(twice)} several times. Give one several "
            "strengths, as Factorize(0.5, 0.25)."
        )
    ordered = sorted(apply, key=lambda entry: _ORDER.index(entry.kind))
    choices: list[tuple[Step | None, ...]] = [(None, *entry.steps()) for entry in ordered]
    recipes = [Recipe(tuple(step for step in steps if step is not None)) for steps in itertools.product(*choices)]
    recipes = [recipe for recipe in recipes if len(recipe.trained.steps) <= depth and recipe.is_possible]
    if len(recipes) > limit:
        raise InvalidArgumentError(
            f"apply must make at most {limit} variants with depth={depth}, got {len(recipes)}. Choose fewer "
            "strengths or a smaller depth."
        )
    return tuple(sorted(recipes, key=lambda recipe: (len(recipe.trained.steps), len(recipe.steps))))
