"""Network of a stage on the driver: checked weights and graph, ready for workers to build."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from optimizer.errors import GraphError
from udfs.handlers import LAYOUTS, LayerLayout, TensorSpec, framework, layer_layout
from udfs.inference import (
    TOKENIZER,
    Feature,
    ModelSource,
    NetworkFile,
    Tokenization,
    check_model,
    feature_length,
    open_tokenizer,
)
from udfs.weights import FOLDER_WEIGHTS, file_version
from vista_spark import roster
from vista_spark.errors import ColumnError, InvalidArgumentError
from vista_spark.network._inputs import Images, Layers, Texts, reads
from vista_spark.network._random import is_shipped
from vista_spark.sessions import ship_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from optimizer.graph import LayerGraph
    from udfs.handlers import TracedModel
    from udfs.images import Preprocessing
    from udfs.inference import Feed, Pooling
    from vista_spark.roster import FeatureLayer, ModelCard

__all__ = ["Network", "network"]

# Suffixes of weights files, which distinguish the URI of a file from that of a folder.
_FILES = (".safetensors", ".bin", ".pt", ".pth", ".npz", ".ckpt")


@dataclass(frozen=True, slots=True)
class Network:
    """Model with one set of weights for one size of its inputs."""

    card: ModelCard
    weights: str | None
    seed: int
    reads: Images | Texts | Layers
    source: ModelSource
    traced: TracedModel
    graph: LayerGraph
    # Layouts that the user states, by the graph's layers; the one of "" is that of all others.
    stated: Mapping[str, str] = field(default_factory=dict)

    @property
    def structure(self) -> str:
        """Key of everything but the weights."""
        structure = self.source.key.partition("|weights|")[0]
        return f"{structure}|{'+'.join(self.graph.inputs)}" if isinstance(self.reads, Layers) else structure

    def check(self) -> None:
        """Refuse a network whose features of a row would depend on other rows; it runs once per process.

        The architectures that ship are known not to.

        Raises
        ------
        udfs.handlers.UntraceableModelError
            A layer mixes the records of a batch, or draws random numbers; the message names it.
        """
        if not is_shipped(self.card):
            check_model(self.source, self.traced)

    @property
    def max_pixels(self) -> int | None:
        """Largest image that is decoded, in pixels; ``None`` where no image is."""
        return self.reads.max_pixels if isinstance(self.reads, Images) else None

    def limited(self, max_pixels: int | None) -> Network:
        """Return a copy with a maximum number of pixels per image; ``None`` stands for the limit of the model.

        Raises
        ------
        InvalidArgumentError
            The network reads text.
        """
        if max_pixels is None:
            return self
        if not isinstance(self.reads, Images):
            raise InvalidArgumentError(
                f"max_pixels must be None for {self.card.name}, which reads text, got {max_pixels}."
            )
        return replace(self, reads=self.reads.limited(max_pixels))

    def arranged(self, layout: str | Mapping[str, str] | None) -> Network:
        """Return a copy with the layouts that the user states, of all layers or by name.

        Raises
        ------
        InvalidArgumentError
            The network reads text, or there is no such layout.
        optimizer.errors.UnknownLayerError
            There is no such layer.
        """
        if layout is None:
            return self
        if not self.reads.has_layouts:
            raise InvalidArgumentError(f"layout must be None for {self.card.name}, which reads text, got {layout!r}.")
        if isinstance(layout, str):
            return replace(self, stated={"": layout})
        return replace(self, stated={self.layer(self.layers(name)[0]): text for name, text in layout.items()})

    def above(self, start: str | None) -> Network:
        """Cut off what lies below a layer that the user has materialised; all of it stays without one.

        Raise InvalidArgumentError if the network reads text, or if what is above the layer reads more than the layer.
        """
        if start is None:
            return self
        if not isinstance(self.reads, Images):
            raise InvalidArgumentError(
                f"start_layer must be None for {self.card.name}, which reads text, got {start!r}."
            )
        (feature,) = self.layers(start)
        layer = self.layer(feature)
        try:
            graph = self.graph.above([layer])
        except GraphError as error:
            raise InvalidArgumentError(
                f"start_layer must be a layer whose tensor is all that the layers above it read, got {start!r}: start "
                f"at another layer ({error})"
            ) from error
        spec = TensorSpec(self.graph[layer].output_shape, self.graph[layer].dtype)
        return replace(self, reads=Layers(self.reads, spec), graph=graph)

    @property
    def image(self) -> str:
        """The first of the graph's inputs."""
        return self.graph.inputs[0]

    @property
    def preprocessing(self) -> Preprocessing:
        """Preprocessing of a network that reads one image per record."""
        assert isinstance(self.reads, Images)
        (only,) = self.reads.preprocessing.parts
        return only

    @property
    def inputs(self) -> dict[str, str]:
        """The graph's inputs, and what the user calls them."""
        names = self.graph.inputs
        return {names[0]: self.reads.kind} if len(names) == 1 else {name: name for name in names}

    def feeds(self, *columns: str) -> tuple[Feed, ...]:
        """Feed the graph's inputs, however many they are, from the user's columns.

        Raise ColumnError for more or fewer columns than the network reads, WeightsError for a text encoder without a
        tokenizer.
        """
        if len(columns) != self.reads.columns:
            raise ColumnError(
                f"{self.card.name} reads {self.reads.columns} columns, and is given {len(columns)}: "
                f"{', '.join(columns)}"
            )
        return self.reads.feeds(self.graph.inputs, columns)

    def layers(self, wanted: int | str | Sequence[int | str]) -> tuple[FeatureLayer, ...]:
        """Return the feature layers for names or numbers from the top, from the bottom to the top."""
        return self.card.resolve(wanted)

    def layer(self, feature: FeatureLayer) -> str:
        """Return the graph's layer whose output a feature layer is."""
        return self.traced.layer(feature.module)

    def feature(self, layer: FeatureLayer, column: str, pooling: str | None) -> Feature:
        """Describe how the features of a layer are delivered.

        ``None`` is the first of ``reads.poolings``. Raise InvalidArgumentError for another pooling, or a layer below
        the one that the network begins at.
        """
        wanted = self.pooling(pooling)
        source = self.traced.layer(self.reads.pooled(self.card, layer, wanted))
        if source not in self.graph:
            begin = ", ".join(self.graph.inputs)
            raise InvalidArgumentError(f"layer {layer.name!r} lies below the start layer ({begin}): it is not computed")
        remaining = self.reads.remaining_pooling(wanted)
        return Feature(source, column, remaining, self.layout(source, remaining, layer.name))

    def layout(self, target: str, pooling: Pooling, name: str | None = None) -> LayerLayout:
        """Return the layout by which a layer of the graph is pooled: the stated or the recognised one.

        ``name`` is what the user calls the layer; by default its name in the graph.

        Raises
        ------
        InvalidArgumentError
            The layout is ambiguous or has no grid, and the pooling needs it.
        """
        layout, shape = self._layout(target), self.graph[target].output_shape
        if pooling == "none" or layout == LayerLayout():
            return layout or LayerLayout()
        name = name or target
        if layout is None:
            raise InvalidArgumentError(
                f"layout of layer {name!r} must be stated to pool it, because its output of shape {shape} may have "
                f'its channels on any axis. Pass layout={{{name!r}: "channels_last"}}, or another of '
                f'{", ".join(LAYOUTS)}, or pooling="none"'
            )
        if pooling == "max2x2" and not layout.has_grid:
            raise InvalidArgumentError(
                f'pooling of layer {name!r} must be "mean" or "none", because the places of its output, a '
                f'{layout.describe(shape)}, form no grid of rows and columns, got "max2x2".'
            )
        return layout

    def _layout(self, target: str) -> LayerLayout | None:
        if not self.reads.has_layouts:
            return LayerLayout()
        text = self.stated.get(target, self.stated.get(""))
        shape = self.graph[target].output_shape
        if text is not None and (target in self.stated or len(shape) > 1):
            return LayerLayout.stated(text, shape)
        return layer_layout(self.traced, target, channels_last=framework(self.card.framework).channels_last)

    def length(self, target: str, pooling: Pooling) -> int:
        """Return the number of features of a layer of the graph."""
        return feature_length(self.graph[target].output_shape, pooling, self.layout(target, pooling))

    def explain_layouts(self, wanted: int | str | Sequence[int | str], pooling: str | None) -> str:
        """Describe, a line per layer, what the layer's output was recognised as and how it is pooled."""
        remaining, lines = self.remaining_pooling(pooling), []
        for target, name in self.targets(wanted, pooling).items():
            layout, shape = self._layout(target), self.graph[target].output_shape
            text = layout.describe(shape) if layout is not None else f"{shape}, layout ambiguous"
            stated = " (stated)" if target in self.stated or ("" in self.stated and len(shape) > 1) else ""
            how = self.pooling(pooling) if layout is None or layout.places else "as it is"
            lines.append(f"  {name}: {text}{stated}; {how}: {self.length(target, remaining):,} numbers")
        return "\n".join(lines)

    def targets(self, wanted: int | str | Sequence[int | str], pooling: str | None) -> dict[str, str]:
        """The graph's layers that give the features of the wanted ones, bottom to top, and what the user calls them."""
        return {self.feature(layer, "", pooling).layer: layer.name for layer in self.layers(wanted)}

    def remaining_pooling(self, pooling: str | None) -> Pooling:
        """Return the pooling that remains for a target's tensor, which the network may have pooled itself."""
        return self.reads.remaining_pooling(self.pooling(pooling))

    def pooling(self, wanted: str | None) -> str:
        """Check a pooling; ``None`` is the network's usual one."""
        if wanted is None:
            return self.reads.poolings[0]
        if wanted not in self.reads.poolings:
            raise InvalidArgumentError(
                f"pooling must be one of {', '.join(self.reads.poolings)}, for {self.card.name} reads "
                f"{self.reads.kind}, got {wanted!r}."
            )
        return wanted

    def shipped(self, spark: SparkSession, ship: Callable[..., str | None] = ship_weights) -> Network:
        """Return the same network, built by the session's workers from what is in their reach."""
        weights = ship(spark, self.weights)
        inputs, card = self.reads, self.card
        if isinstance(inputs, Texts) and inputs.preprocessing.tokenizer is not None:
            inputs = Texts(replace(inputs.preprocessing, tokenizer=ship(spark, inputs.preprocessing.tokenizer)))
        if isinstance(card.builder, NetworkFile):
            file = ship(spark, card.builder.file) or card.builder.file
            card = replace(card, builder=card.builder.at(file))
        if weights == self.weights and card.builder is self.card.builder:
            return replace(self, reads=inputs)
        source = replace(
            self.source,
            key=f"{self.source.key}|{weights}",
            build=partial(roster.load, card, weights, seed=self.seed),
            skeleton=card.skeleton,
        )
        return replace(self, source=source, reads=inputs)


def network(
    model: Any,
    weights: str | os.PathLike[str] | None,
    seed: int,
    image_size: int | None = None,
    max_length: int | None = None,
) -> Network:
    """Build a network on the driver, so that a fault is found before Spark starts a job.

    Parameters
    ----------
    model : str, ModelCard, or a model
        See :func:`vista_spark.roster.of`.
    weights : str, path or None
        Path or URI; of a text encoder also that of a folder. ``None`` is the card's own weights, or random ones from
        ``seed``.
    image_size : int or None
        Height and width in pixels; ``None`` is the model's own.
    max_length : int or None
        Tokens of a text; ``None`` is the model's own.

    Raises
    ------
    vista_spark.errors.UnknownModelError
        No such model.
    vista_spark.errors.InvalidArgumentError
        A size that is not of what the model reads, or more tokens than it can take.
    udfs.weights.WeightsError
        Weights that cannot be read or do not fit.
    udfs.handlers.UntraceableModelError
        A registered model that cannot be opened into layers.
    """
    card = roster.of(model, image_size=image_size)
    inputs = reads(card).resized(image_size, max_length)
    if isinstance(card.builder, NetworkFile) and card.builder.inputs not in ((), inputs.preprocessing.inputs):
        raise InvalidArgumentError(
            f"model {card.name!r} was saved for {card.kind}s of {card.preprocessing.size}, not of "
            f"{inputs.preprocessing.size}: leave the size out, or save it anew from the network itself"
        )
    weights = card.weights if weights is None else os.fspath(weights)
    if isinstance(inputs, Texts):
        weights, inputs = _beside(card, weights, inputs)
    # Equal builders may lie in two places, and the one that was opened first may be gone.
    place = card.builder.file if isinstance(card.builder, NetworkFile) else ""
    return _network(replace(card, preprocessing=inputs.preprocessing), weights, _file_version(weights), seed, place)


def _beside(card: ModelCard, weights: str | None, texts: Texts) -> tuple[str | None, Texts]:
    """Return the file of weights and the tokenizer in the same folder."""
    longest = getattr(card.builder, "longest", texts.preprocessing.max_length)
    if texts.preprocessing.max_length > longest:
        raise InvalidArgumentError(
            f"max_length must be at most the {longest} tokens of {card.name}, got {texts.preprocessing.max_length}."
        )
    tokenizer = texts.preprocessing.tokenizer
    if weights is not None:
        folder, _, name = weights.rpartition("/")
        is_file = name.endswith(_FILES) if "://" in weights else not Path(weights).expanduser().is_dir()
        folder, weights = (folder or ".", weights) if is_file else (weights, f"{weights.rstrip('/')}/{FOLDER_WEIGHTS}")
        beside = f"{folder.rstrip('/')}/{TOKENIZER}"
        if tokenizer is None or not is_file:
            tokenizer = beside
    if tokenizer is None:
        return weights, texts
    tokenization = replace(texts.preprocessing, tokenizer=tokenizer, version=_file_version(tokenizer))
    _known(tokenization)
    return weights, Texts(tokenization)


# Opened on the driver only to say before a job starts that it is missing or damaged.
@lru_cache(maxsize=8)
def _known(tokenization: Tokenization) -> None:
    open_tokenizer(tokenization)


# Each holds its weights; two serve a featurizer beside the transfer that made it.
@lru_cache(maxsize=2)
def _network(card: ModelCard, weights: str | None, version: str, seed: int, _place: str) -> Network:
    inputs = reads(card)
    structure, values = _told_apart(card.builder)
    source = ModelSource(
        key="|".join(
            map(str, (card.name, structure, inputs.preprocessing.size, "weights", values, weights, version, seed))
        ),
        framework=card.framework,
        inputs=inputs.preprocessing.inputs,
        build=partial(roster.load, card, weights, seed=seed),
        skeleton=card.skeleton,
    )
    traced = source.open("cpu")
    return Network(card, weights, seed, inputs, source, traced, traced.graph)


def _told_apart(builder: object) -> tuple[str, str]:
    """Hash a builder's code, and name the weights that it brings along."""
    if isinstance(builder, NetworkFile):
        code, values = builder.code or builder.digest.encode(), builder.digest
    else:  # as Spark's own closures would have it
        code, values = bytes(cloudpickle.dumps(builder)), ""  # type: ignore[no-untyped-call]
    return hashlib.blake2b(code, digest_size=8).hexdigest(), values


def _file_version(weights: str | None) -> str:
    """Changes when a file of weights does, so that no cache serves the old one."""
    return file_version(weights) if weights else ""
