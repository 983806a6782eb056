"""Variants in memory, whole or the layers below a cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from udfs import images
from udfs.handlers import framework
from udfs.inference import Tokenization
from udfs.roster import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from optimizer.graph import Cut, LayerGraph
    from udfs.handlers import TracedModel
    from udfs.roster import ModelCard

__all__ = ["OpenVariant", "open_variant"]


class OpenVariant:
    """Network of a variant, ready to run.

    Parameters
    ----------
    card : ModelCard
        Card of the network, which reads one image.
    model : TracedModel
        The opened network.
    graph : LayerGraph
        Its layers.
    """

    def __init__(self, card: ModelCard, model: TracedModel, graph: LayerGraph) -> None:
        assert not isinstance(card.preprocessing, Tokenization)
        (self._preprocessing,) = card.preprocessing.parts
        self._model = model
        self.graph = graph

    def scores(self, image: Any) -> NDArray[np.floating]:
        """Return the scores of the classes for an encoded image.

        Raises
        ------
        udfs.images.ImageError
            The image cannot be decoded.
        """
        return self.finish(self._read(image))

    def prefix(self, image: Any, cut: Cut) -> dict[str, NDArray[np.generic]]:
        """Return the tensors of a cut for an encoded image, each with a batch axis."""
        feeds = self._read(image)
        layers = [name for name in cut.live if name not in feeds]
        return {name: feeds[name] for name in cut.live if name in feeds} | self._model.run(feeds, layers)

    def finish(self, tensors: Mapping[str, NDArray[np.generic]]) -> NDArray[np.floating]:
        """Return the scores of the classes for the tensors of a cut."""
        output = self.graph.outputs[0]
        scores: NDArray[np.floating] = np.asarray(self._model.run(tensors, [output])[output][0]).ravel()
        return scores

    def drop(self, layers: Iterable[str]) -> None:
        """Free the parameters of layers that will not run. Only torch supports it; others keep them."""
        module_of = getattr(self._model, "module_of", None)
        if module_of is None:
            return
        dropped = set(layers)
        modules = {name: module_of(name) for name in self.graph.names if name not in self.graph.inputs}
        kept = {
            id(tensor)
            for name, module in modules.items()
            if module is not None and name not in dropped
            for tensor in (*module.parameters(), *module.buffers())
        }
        for name in dropped:
            module = modules.get(name)
            for tensor in () if module is None else (*module.parameters(), *module.buffers()):
                if id(tensor) not in kept:
                    tensor.data = tensor.data.new_empty(0)

    def close(self) -> None:
        """Free the memory; the variant cannot run any more."""
        self.drop(self.graph.names)

    def _read(self, image: Any) -> dict[str, NDArray[np.generic]]:
        return {self.graph.inputs[0]: images.decode(image, self._preprocessing)[None]}


def open_variant(card: ModelCard, *, graph: LayerGraph | None = None, cut: Cut | None = None) -> OpenVariant:
    """Open a variant from its file.

    Parameters
    ----------
    card : ModelCard
        Card of the network.
    graph : LayerGraph, optional
        Layers of the network, if they are known from an earlier load. Default: measured, which takes longer than
        reading the weights.
    cut : Cut, optional
        Keep only the layers below this cut in memory. Default: all.

    Raises
    ------
    udfs.weights.WeightsError
        The file of the weights is missing, damaged, or does not fit the network.
    udfs.handlers.UntraceableModelError
        The network cannot be opened into layers.
    """
    handler = framework(card.framework)
    model = handler.trace(load(card), card.preprocessing.inputs).prepare(handler.threads())
    variant = OpenVariant(card, model, model.graph if graph is None else graph)
    if cut is not None:
        variant.drop(cut.above)
    return variant
