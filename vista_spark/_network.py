"""A model of the roster made ready on the driver: weights checked, graph at hand, and what workers build it from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import cloudpickle

from udfs.handlers import TensorSpec
from udfs.model import ModelSource
from vista_spark import roster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.graph import LayerGraph
    from udfs.handlers import TracedModel
    from udfs.preprocessing import Preprocessing
    from vista_spark.roster import FeatureLayer, ModelCard

__all__ = ["Network", "network"]


@dataclass(frozen=True, slots=True)
class Network:
    """One model with one set of weights for one image size."""

    card: ModelCard
    preprocessing: Preprocessing
    source: ModelSource
    traced: TracedModel

    @property
    def graph(self) -> LayerGraph:
        """The whole network."""
        return self.traced.graph

    @property
    def image(self) -> str:
        """The graph's input."""
        return self.graph.inputs[0]

    def layers(self, wanted: int | str | Sequence[int | str]) -> tuple[FeatureLayer, ...]:
        """The feature layers for names or numbers from the top, from the bottom to the top."""
        return self.card.resolve(wanted)

    def layer(self, feature: FeatureLayer) -> str:
        """The graph's layer whose output a feature layer is."""
        return self.traced.layer(feature.module)


def network(model: str, weights: str | None, seed: int, image_size: int | None) -> Network:
    """Build a model of the roster on the driver, so that what is wrong with it is said before Spark starts a job.

    Parameters
    ----------
    model : str
        A name of the roster.
    weights : str or None
        Path or URI; ``None`` gives random weights from ``seed``.
    image_size : int or None
        Height and width in pixels; ``None`` is the model's own.

    Raises
    ------
    vista_spark.errors.UnknownModelError
        No such model.
    udfs.weights.WeightsError
        Weights that cannot be read or do not fit.
    udfs.handlers.UntraceableModelError
        A registered model that cannot be opened into layers.
    """
    card = roster.card(model)
    return _network(card, weights, _version(weights), seed, image_size)


# Each holds its weights; two serve a featurizer beside the transfer that made it.
@lru_cache(maxsize=2)
def _network(card: ModelCard, weights: str | None, version: str, seed: int, image_size: int | None) -> Network:
    preprocessing = card.preprocessing if image_size is None else card.preprocessing.with_size(image_size)
    builder = hashlib.blake2b(_pickled(card.builder), digest_size=8).hexdigest()
    source = ModelSource(
        key="|".join(map(str, (card.name, builder, weights, version, seed, preprocessing.crop))),
        framework="torch",
        inputs=(TensorSpec(preprocessing.shape),),
        build=partial(roster.load, card, weights, seed=seed),
    )
    return Network(card, preprocessing, source, source.open("cpu"))


def _pickled(builder: object) -> bytes:
    """What Spark's own closures would send."""
    return bytes(cloudpickle.dumps(builder))  # type: ignore[no-untyped-call]


def _version(weights: str | None) -> str:
    """Changes when a local file of weights does, so that no cache serves the old one."""
    path = Path(weights) if weights else None
    if path is None or not path.is_file():
        return ""
    status = path.stat()
    return f"{status.st_size}-{status.st_mtime_ns}"
