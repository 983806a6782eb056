"""Networks that requests may explain, and their open sessions."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimizer.errors import InvalidArgumentError, nearest
from vista_spark import roster
from vista_spark.explaining.runner._trained import trained_card

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vista_spark.occlusion import ExplainerSession

__all__ = ["WEIGHTS_VARIABLE", "Networks"]

WEIGHTS_VARIABLE = "CEREBRO_WEIGHTS"
"""Environment variable of a runner: folder with the weights of networks, one file ``<network>.<suffix>`` each."""

# Networks that stay open; the least recently used one is dropped for another.
_OPEN = 2


class Networks:
    """Networks of the roster that read images, with weights from a folder.

    Parameters
    ----------
    folder : str or path, optional
        Folder of the files of weights. Default: that of the environment variable ``CEREBRO_WEIGHTS``. A network without
        a file has the weights of its card, or random ones.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self._sessions: OrderedDict[tuple[Any, ...], ExplainerSession] = OrderedDict()

    def describe(self) -> list[dict[str, Any]]:
        """List the networks for images, those with trained weights first."""
        cards = [roster.card(name) for name in roster.names()]
        networks = [
            {
                "name": card.name,
                "framework": card.framework,
                "has_weights": (self._weights(card.name) or card.weights) is not None,
                "size": getattr(card.preprocessing, "crop", None),
            }
            for card in cards
            if card.kind == "image"
        ]
        return sorted(networks, key=lambda network: not network["has_weights"])

    def class_names(self, network: str | Mapping[str, str]) -> tuple[str, ...]:
        """Return the names of a network's classes, empty where they are unknown."""
        names = self._card(network).class_names if isinstance(network, str) else None
        return () if names is None else roster.read_class_names(names)

    def open(self, network: str | Mapping[str, str], searches: Mapping[str, Any]) -> ExplainerSession:
        """Return the open session of a network, which stays open for the next requests.

        Parameters
        ----------
        network : str or mapping
            Name in the roster, or ``run`` and ``trial`` of a search.
        searches : mapping
            Searches of the pool by run.

        Raises
        ------
        InvalidArgumentError
            There is no such network, or it reads no images.
        """
        from vista_spark.occlusion import open_explainer

        card = self._card(network) if isinstance(network, str) else None
        weights = self._weights(card.name) if card else None
        key = (str(network), weights, weights and Path(weights).stat().st_mtime_ns)
        with self._lock:
            if key not in self._sessions:
                trained = {} if isinstance(network, str) else network
                self._sessions[key] = open_explainer(card or trained_card(searches, **trained), weights)
            self._sessions.move_to_end(key)
            while len(self._sessions) > _OPEN:
                # A request may be using it: it is freed after that one.
                self._sessions.popitem(last=False)
            return self._sessions[key]

    def _card(self, name: str) -> roster.ModelCard:
        if name not in roster.names():
            raise InvalidArgumentError(
                f"network must be in the roster of the runner, got {name!r:.80}{nearest(name, roster.names())}."
            )
        return roster.card(name)

    def _weights(self, name: str) -> str | None:
        folder = self._folder if self._folder is not None else os.environ.get(WEIGHTS_VARIABLE)
        if not folder:
            return None
        return next((str(path) for path in sorted(Path(folder).glob(f"{name}.*")) if path.is_file()), None)
