"""What the roster asks of a framework: to build a card's network, to name its layers, to give it weights."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from optimizer.errors import nearest
from udfs.handlers import FRAMEWORKS
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from vista_spark.roster._card import ModelCard

__all__ = ["Architecture", "architecture"]


class Architecture(Protocol):
    """One framework's way with the networks of the roster."""

    def skeleton(self, card: ModelCard) -> Any:
        """Build the network for its structure alone."""

    def paths(self, card: ModelCard, network: Any) -> list[str]:
        """Paths of the modules that a card's layers may name."""

    def run_order(self, card: ModelCard) -> list[str]:
        """Paths of the modules that give a tensor at inference, in the order in which they give it."""

    def parameters(self, network: Any) -> int:
        """Count the scalars."""

    def random(self, card: ModelCard, seed: int) -> Any:
        """Build the network with the weights that its builder draws from a seed."""

    def load(self, card: ModelCard, weights: str | os.PathLike[str] | Mapping[str, Any], seed: int) -> Any:
        """Build the network with weights from a file, or from what was read of one."""


def architecture(framework: str) -> Architecture:
    """Find a framework's side; the framework is imported when a network is built, not before.

    Raises
    ------
    InvalidArgumentError
        There is no such framework.
    """
    if framework not in FRAMEWORKS:
        known = ", ".join(FRAMEWORKS)
        raise InvalidArgumentError(f"no framework {framework!r}{nearest(framework, FRAMEWORKS)}; frameworks: {known}")
    found: Architecture = import_module(f"vista_spark.roster._{framework}_architecture").ARCHITECTURE
    return found
