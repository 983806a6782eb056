"""Variants that are installed on a device: the networks of a task, and where they can be cut."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.approximate import SplitCut
    from udfs.roster import ModelCard

__all__ = ["Installed"]


@dataclass(frozen=True, slots=True)
class Installed:
    """Networks of a task.

    Parameters
    ----------
    models : mapping of str to ModelCard
        Network of each variant. Its topmost layer returns the scores of the classes.
    classes : tuple of str or float
        Labels, in the order of the scores.
    cuts : mapping of str to tuple of SplitCut
        Cuts of each variant at which requests may be split. Default: none.
    """

    models: Mapping[str, ModelCard]
    classes: tuple[str | float, ...]
    cuts: Mapping[str, tuple[SplitCut, ...]] = field(default_factory=dict)

    def cut(self, variant: str, place: str) -> SplitCut | None:
        """Return the cut of a variant in a place; None for the whole variant."""
        return next((cut for cut in self.cuts.get(variant, ()) if cut.place == place), None)
