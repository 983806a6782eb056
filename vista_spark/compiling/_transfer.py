"""Compiled feature transfer: one graph from a decoded image to a prediction."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa

from optimizer.compiling import BACKENDS, Program, UnsupportedOperatorError, make_plan
from udfs.handlers import TensorSpec, framework
from vista_spark import roster
from vista_spark.compiling._compiled_pipeline import CompiledPipeline
from vista_spark.compiling._program import program_of
from vista_spark.compiling._refusals import refusal
from vista_spark.errors import ColumnError, InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray

    from optimizer.compiling import Plan
    from optimizer.graph import LayerGraph
    from udfs.compiling.network import JoinedModule
    from udfs.handlers import TracedModel
    from udfs.inference import Feature
    from vista_spark.network import Network
    from vista_spark.roster import ModelCard
    from vista_spark.transfer import TransferPredictor

__all__ = ["CompiledTransfer", "compile_transfer", "is_transfer"]

_BATCH = 32
_STAGES = 2

# Axes of the places of a map as convolutions of torch make it.
_CHANNELS_FIRST = (1, 2)
_IMAGE = 0


class CompiledTransfer(CompiledPipeline):
    """Best model of a feature transfer: a network of images and the model of its features, in one graph.

    :func:`compile_pipeline` builds it from :attr:`vista_spark.TransferResult.best_model`. Inputs of the graph are the
    decoded image, ``float32`` after the network's preprocessing, and the structured numbers of the row. The code of the
    transfer decodes images. Channels of the network that no prediction depends on are removed with their filters.

    It runs eagerly, 32 images at a time.

    Attributes
    ----------
    module : torch.nn.Module
        Module with the signature ``module(images, numbers)``, which returns each of :attr:`outputs`, and a mask of the
        rows without a prediction.
    live, channels : int
        Remaining channels of the layer, and all its channels.
    """

    def __init__(
        self,
        program: Program,
        net: Network,
        feature: Feature,
        predictor: TransferPredictor,
        image: str,
        *,
        tree_strategy: str = "auto",
        backend: str = "auto",
        threads: int | None = None,
    ) -> None:
        from udfs.compiling.network import joined

        if backend not in {"auto", "eager"} and backend in BACKENDS:
            raise refusal(f"A transfer with backend={backend!r}", "a network runs eagerly", "Leave backend out.")
        if tree_strategy == "native":
            reason = "a graph of layers has tensor operators alone"
            raise refusal("A transfer with tree_strategy='native'", reason, "Leave tree_strategy out.")
        # The module has the operators as they were compiled.
        super().__init__(
            program,
            tree_strategy=tree_strategy,
            backend="eager" if backend == "auto" else backend,
            threads=threads,
            rewrites=False,
        )
        self._net, self._inputs, self._layer, self._image = net, predictor.inputs, feature.layer, image
        traced: Any = net.traced
        self.module: JoinedModule
        self.module, self.live, self.channels = joined(
            traced,
            feature.layer,
            feature.pooling,
            program,
            self._inputs.structured_size,
            self.plan.strategies,
        )

    @property
    def plan(self) -> Plan:
        """Plan of the program behind the network, without native code: no tracer sees into that."""
        return make_plan(self.program, tree_strategy=self.tree_strategy, backend=self.backend, native=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """Column of images, then the structured columns."""
        return (self._image, *self._inputs.structured)

    @property
    def graph(self) -> LayerGraph:
        """Graph of all layers, from the image and the numbers to the results, which can be cut anywhere."""
        return self.traced.graph

    @cached_property
    def traced(self) -> TracedModel:
        """Module as layers, which runs between any two cuts."""
        specs = [*self._net.source.inputs, TensorSpec((self._inputs.structured_size,), "float64")]
        return framework("torch").trace(self.module, specs)

    def explain(self) -> str:
        """Describe the network, its remaining channels, and the operators behind it."""
        begin, whole = self.graph.flops(), self._net.graph.subgraph([self._layer]).flops()
        shape = "x".join(map(str, self._net.source.inputs[_IMAGE].shape))
        read = f"{self.live} of {self.channels} channels are read"
        first = f"{self._net.card.name} from a decoded image ({shape}) to {self._layer}: {read}"
        flops = f"{begin / 1e9:.3f} GFLOPs per record, {whole / 1e9:.3f} before channels were left out"
        lines = [first, f"{flops}; {len(self.graph)} layers in one graph"]
        return "\n".join([*lines, super().explain()])

    def card(self, row: Any, output: str = "predict_proba") -> ModelCard:
        """Return a model of images alone for the numbers of one row, for :class:`vista_spark.OcclusionExplainer`.

        Parameters
        ----------
        row : mapping, or a row of a pandas DataFrame
            Row with the structured columns.
        output : str
            Output to explain, one of :attr:`outputs` that holds numbers. Default ``"predict_proba"``.

        Raises
        ------
        ColumnError
            A structured column is missing.
        """
        from udfs.compiling.network import OneRow

        if output not in self.program.outputs:
            self._refuse(output)
        numbers = self._numbers({name: [row[name]] for name in self._inputs.structured if name in row}, 1)
        place = list(self.program.outputs).index(output)
        name = f"{self._net.card.name}_transfer"
        model = OneRow(self.module, numbers[0], place).eval()
        return roster.of(model, preprocessing=self._net.preprocessing, name=name)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Raise UnsupportedOperatorError: files of compiled pipelines hold no networks. Save the PipelineModel."""
        self._no_file("save", path)

    def to_onnx(self, path: str | Path, *, dtype: str = "float64", overwrite: bool = False) -> None:
        """Raise UnsupportedOperatorError: networks have other operators than compiled pipelines."""
        self._no_file(f"to_onnx with dtype={dtype!r}", path)

    def __reduce__(self) -> NoReturn:
        self._no_file("pickle", "")

    def _no_file(self, what: str, path: str | Path) -> NoReturn:
        raise UnsupportedOperatorError(
            f"{what} {path} must be called on a pipeline without a network, got {self._net.card.name}. Save the "
            "best_model of the transfer, and compile it in the process that needs it."
        )

    def _run(self, method: str, table: ArrayLike) -> Any:
        if method not in self.program.outputs:
            self._refuse(method)
        frame: Any = table
        missing = [name for name in self.columns if name not in frame]
        if missing:
            raise ColumnError(f"X must have the columns that the transfer reads, got none of {missing}.")
        images = self._decoded(list(frame[self._image]))
        numbers = self._numbers(frame, len(images))
        place = list(self.program.outputs).index(method)
        from udfs.compiling.torch import torch_threads

        wanted = [self.traced.output_layer(key) for key in (place, len(self.program.outputs))]
        parts = []
        for at in range(0, max(len(images), 1), _BATCH):
            batch = images[at : at + _BATCH], numbers[at : at + _BATCH]
            feeds: dict[str, NDArray[Any]] = dict(zip(self.graph.inputs, batch, strict=True))
            with torch_threads(self.threads):
                results = self.traced.run(feeds, wanted)
            refused = results[wanted[1]]
            if refused.any():
                raise InvalidArgumentError(
                    f"row {at + int(np.argmax(refused))} has numbers, or features of its image, that the model refuses"
                )
            parts.append(results[wanted[0]])
        return self.program.outputs[method].answer(np.concatenate(parts))

    def _decoded(self, images: list[Any]) -> NDArray[np.float32]:
        (feed,) = self._net.feeds(self._image)
        decoder: Any = feed
        array, reasons = decoder.read(pa.array(images))
        bad = [(row, reason) for row, reason in enumerate(reasons) if reason is not None]
        if bad:
            raise InvalidArgumentError(f"row {bad[0][0]}, column {self._image!r}: {bad[0][1]}")
        decoded: NDArray[np.float32] = array
        return decoded

    def _numbers(self, frame: Any, rows: int) -> NDArray[np.float64]:
        absent = [name for name in self._inputs.structured if name not in frame]
        if absent:
            raise ColumnError(f"X must have the columns that the transfer reads, got none of {absent}.")
        parts = [np.zeros((rows, 0))]
        for name in self._inputs.structured:
            values = [getattr(value, "toArray", lambda value=value: value)() for value in frame[name]]
            parts.append(np.asarray(values, np.float64).reshape(rows, -1 if rows else 0))
        numbers = np.concatenate(parts, axis=1)
        if rows and numbers.shape[1] != self._inputs.structured_size:
            raise ColumnError(
                f"X must have {self._inputs.structured_size} structured numbers per row, got {numbers.shape[1]}."
            )
        if np.isnan(numbers).any():
            raise InvalidArgumentError(f"row {int(np.isnan(numbers).any(axis=1).argmax())} has no structured number")
        return numbers if rows else np.zeros((0, self._inputs.structured_size))


def is_transfer(model: Any) -> bool:
    """Return whether a model is the result of a feature transfer, or its best model."""
    stages = getattr(getattr(model, "best_model", model), "stages", ())
    return isinstance(stages, list | tuple) and bool(stages) and type(stages[-1]).__name__ == "TransferPredictor"


def compile_transfer(model: Any, example: Any, *, rewrites: bool, **options: Any) -> CompiledPipeline:
    """Compile the best model of a feature transfer.

    Raises
    ------
    UnsupportedOperatorError
        The network is not a network of torch for one image per record, or the downstream model cannot be compiled.
    """
    stages = getattr(model, "best_model", model).stages
    predictor = stages[-1]
    program = program_of(predictor.model, example)
    inputs = predictor.inputs
    width = inputs.structured_size + inputs.image_size
    if program.columns is not None or program.width != width:
        columns = ", ".join(inputs.carried) or program.width
        raise refusal(
            f"{type(predictor.model).__name__} of a transfer",
            f"it reads columns beside the vector of features ({columns})",
            "Use replace_stages.",
        )
    if len(stages) == 1 and inputs.image is None:
        named = inputs.structured if len(inputs.structured) == width else None
        named_program = Program(program.width, named, program.nodes, program.outputs)
        return CompiledPipeline(named_program, rewrites=rewrites, **options)
    featurizer = stages[0]
    if len(stages) != _STAGES or type(featurizer).__name__ != "CNNFeaturizer":
        raise refusal(f"{type(featurizer).__name__} before TransferPredictor", remedy="Use a CNNFeaturizer.")
    net: Network = featurizer.open_network()
    several = len(getattr(net.reads.preprocessing, "parts", ())) != 1
    if net.card.framework != "torch" or net.reads.kind != "image" or several:
        raise refusal(
            f"CNNFeaturizer with model={net.card.name!r}",
            f"it is a network of {net.card.framework} that reads {net.reads.kind}s",
            "Use a network of torch for one image per record, without startLayer.",
        )
    (layer,) = net.layers(featurizer.getLayers())
    feature = net.feature(layer, "", featurizer.getPooling())
    if feature.pooling != "none" and feature.layout.places not in ((), _CHANNELS_FIRST):
        raise refusal(
            f"CNNFeaturizer with layer {layer.name!r}",
            f"its output is a {feature.layout.describe(net.graph[feature.layer].output_shape)}",
            "Use a layer with the channels first, or pooling='none'.",
        )
    return CompiledTransfer(program, net, feature, predictor, featurizer.getInputCol(), **options)
