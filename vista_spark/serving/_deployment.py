"""Deployment of a session on the driver: open and check its model, describe its inputs and outputs, ship its files."""

from __future__ import annotations

import itertools
import math
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.handlers import framework_of
from udfs.inference import ImageFeed
from udfs.serving import (
    Admission,
    FeedReader,
    FunctionRecipe,
    NetworkRecipe,
    ServedModel,
    TensorReader,
    TensorSpec,
    read_head,
)
from vista_spark.errors import InvalidArgumentError
from vista_spark.network import Network, network, warn_of_random_weights
from vista_spark.serving._pipelines import PipelineFunction
from vista_spark.serving._single_record import batch_of_one
from vista_spark.sessions import ship_weights

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from optimizer.serving import Ladder
    from udfs.serving import Deliveries
    from vista_spark.serving._session import Session

__all__ = ["Deployment", "opened", "sample_row", "shipping"]


@dataclass(frozen=True, slots=True)
class Deployment:
    """A session with its model opened on the driver.

    ``recipe`` is that for this process; :meth:`shipped` returns the one for workers. ``network`` is ``None`` for a
    function. ``asked`` is the session as its user wrote it, if a registry has the model. ``variants`` are those of a
    catalog, and ``ladder`` their names, accuracies and profiles; the fields above are those of the first one.
    ``number`` is unique in this process.
    """

    session: Session
    served: ServedModel
    admission: Admission
    recipe: NetworkRecipe | FunctionRecipe
    network: Network | None = None
    asked: Session | None = None
    variants: tuple[Deployment, ...] = ()
    ladder: Ladder | None = None
    number: int = field(default_factory=itertools.count().__next__)

    def shipped(self, spark: SparkSession, deliveries: Deliveries | None = None) -> NetworkRecipe | FunctionRecipe:
        """Make the model's files available to the workers, and return the recipe that finds them there.

        Workers that run already receive no files from Spark, but through ``deliveries``.
        """
        ship = shipping(deliveries)
        if self.network is None or isinstance(self.recipe, FunctionRecipe):
            return self.recipe.placed(lambda file: ship(spark, file) or file)  # type: ignore[union-attr]
        net = self.network.shipped(spark, ship)
        return replace(self.recipe, source=net.source, reader=_reader(net), head=ship(spark, self.recipe.head))


def shipping(deliveries: Deliveries | None) -> Callable[[SparkSession, str | None], str | None]:
    """Return the function that ships files: with the next Spark task, or through a store."""
    return ship_weights if deliveries is None else lambda _, file: deliveries.place(file)


def opened(session: Session) -> Deployment:
    """Open a session's model.

    Raises
    ------
    InvalidArgumentError
        The model is a function without inputs, or the head does not fit.
    vista_spark.errors.VistaError, udfs.weights.WeightsError, udfs.handlers.UntraceableModelError
        See :class:`vista_spark.CNNFeaturizer`.
    """
    return _function(session) if session.inputs else _network(session)


def _function(session: Session) -> Deployment:
    if framework_of(session.model) is not None:
        raise InvalidArgumentError(
            f"inputs must be empty for a network, got {list(session.inputs)} in session {session.name!r}. A network "
            "has its own inputs."
        )
    inputs = tuple(session.inputs)
    outputs = tuple(session.outputs)
    served = ServedModel(session.name, session.version, inputs, outputs, "opaque", float(session.slo_ms))
    recipe = FunctionRecipe(session.model, TensorReader(inputs))
    return Deployment(session, served, Admission(session.name, inputs, {}), recipe)


def _network(session: Session) -> Deployment:
    if callable(session.model) and not isinstance(session.model, str) and framework_of(session.model) is None:
        builds = getattr(session.model, "__name__", type(session.model).__name__)
        raise InvalidArgumentError(
            f"model must be a network if inputs is empty, got {builds} in session {session.name!r}. For a function set "
            "inputs=[TensorSpec(...)]."
        )
    net = network(session.model, session.weights, session.seed, session.image_size, session.max_length)
    warn_of_random_weights(net.card, net.weights, net.seed)
    net.check()
    outputs, shapes = _outputs(session, net)
    reader = _reader(net)
    image = net.reads.kind == "image"
    specs = tuple(TensorSpec(feed.columns[0], "bytes" if image else "str", (-1,)) for feed in reader.feeds)
    decoded = {
        feed.column: ("float32", feed.preprocessing.shape) for feed in reader.feeds if isinstance(feed, ImageFeed)
    }
    results = tuple(TensorSpec(name, dtype, (-1, *shape)) for name, (dtype, shape) in shapes.items())
    served = ServedModel(session.name, session.version, specs, results, net.card.framework, float(session.slo_ms))
    head = None if session.head is None else os.fspath(session.head)
    recipe = NetworkRecipe(net.source, reader, outputs, head)
    return Deployment(session, served, Admission(session.name, specs, decoded), recipe, net)


def _reader(net: Network) -> FeedReader:
    names = [net.reads.kind] if net.reads.columns == 1 else list(net.graph.inputs)
    return FeedReader(net.feeds(*names))


def _outputs(
    session: Session, net: Network
) -> tuple[tuple[tuple[str, str], ...], dict[str, tuple[str, tuple[int, ...]]]]:
    """Return the layer, and the type and shape, of each output."""
    if session.head is not None:
        head = read_head(os.fspath(session.head))
        layer = _head_layer(session, net, head.features)
        return (("output", layer),), {"output": ("float32", (len(head.bias),))}
    keys = net.traced.output_keys
    layers = {"output": net.graph.outputs[0]} if not keys else {str(key): net.traced.output_layer(key) for key in keys}
    shapes = {name: (net.graph[layer].dtype, net.graph[layer].output_shape) for name, layer in layers.items()}
    return tuple(layers.items()), shapes


def _head_layer(session: Session, net: Network, features: int) -> str:
    """Return the layer that a head reads."""
    wanted = net.layers(session.layer) if session.layer is not None else net.card.layers
    sizes: dict[str, int] = {}
    for feature in reversed(wanted):
        layer = net.layer(feature)
        sizes[feature.name] = math.prod(net.graph[layer].output_shape)
        if sizes[feature.name] == features:
            return layer
    known = ", ".join(f"{name} {size:,}" for name, size in list(sizes.items())[:6])
    raise InvalidArgumentError(
        f"head must read as many numbers as a layer of {net.card.name} has ({known}), got {features:,} in session "
        f"{session.name!r}. Train the head on the features of one of these layers."
    )


def sample_row(deployment: Deployment, size: int = 1) -> dict[str, Any]:
    """Return a row for measurements and warm-up: the session's, or one made up of what the model reads.

    Open sizes of a made-up row are ``size``.
    """
    session, specs = deployment.session, deployment.served.inputs
    if session.sample is not None:
        inputs = batch_of_one(session.sample, specs)
    elif isinstance(session.model, PipelineFunction):
        inputs = batch_of_one(session.model.sample(specs), specs)
    else:
        inputs = {spec.name: _made_up(spec, deployment.network, size) for spec in specs}
    (row,) = deployment.admission.rows(inputs)
    return row


def _made_up(spec: TensorSpec, net: Network | None, size: int) -> NDArray[Any]:
    shape = (1, *(size if axis == -1 else axis for axis in spec.shape[1:]))
    if net is None and spec.dtype not in {"bytes", "str"}:
        return np.zeros(shape, spec.dtype)
    value = np.empty(shape, object)
    value.fill(b" " if net is None else net.reads.sample())
    return value
