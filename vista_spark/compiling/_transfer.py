"""The best model of a feature transfer as one graph, from a decoded image to a prediction."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa

from optimizer.compiling import BACKENDS, Program, UnsupportedOperatorError, make_plan
from udfs.handlers import TensorSpec, framework
from vista_spark import roster
from vista_spark.compiling._compiled import CompiledPipeline
from vista_spark.compiling._registry import lower_whole
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

__all__ = ["CompiledTransfer", "compiled_transfer"]

_BATCH = 32
_STAGES = 2
_IMAGE = 0


class CompiledTransfer(CompiledPipeline):
    """The best model of a feature transfer: a network for images and what reads its features, in one graph.

    :func:`compile_pipeline` makes it of :attr:`vista_spark.TransferResult.best_model`. The graph begins at the decoded
    image, ``float32`` as the network's preprocessing leaves it, beside the structured numbers of the row; images are
    decoded before it, by the code that decodes them for the transfer. Channels of the network that decide about no
    prediction are left out, with the filters that make them.

    It runs eagerly, 32 images at a time, by the strategies that its plan names.

    Attributes
    ----------
    module : torch.nn.Module
        ``module(images, numbers)`` gives each of :attr:`outputs`, and last which rows have no prediction.
    live, channels : int
        Channels of the layer that are left, and those that it has.
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
        from udfs.compiling.network import joined  # imports torch

        if backend not in {"auto", "eager"} and backend in BACKENDS:
            raise UnsupportedOperatorError(
                f"backend={backend!r}: {net.card.name} and what reads its features run eagerly: leave backend out"
            )
        if tree_strategy == "native":
            raise UnsupportedOperatorError(
                "tree_strategy='native': a graph of layers has tensor operators alone: leave tree_strategy out"
            )
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
        """The column of images, then the structured ones."""
        return (self._image, *self._inputs.structured)

    @property
    def graph(self) -> LayerGraph:
        """All layers from the image and the numbers to the results: it can be cut anywhere."""
        return self.traced.graph

    @cached_property
    def traced(self) -> TracedModel:
        """The module opened into layers, which runs between any two cuts."""
        specs = [*self._net.source.inputs, TensorSpec((self._inputs.structured_size,), "float64")]
        return framework("torch").trace(self.module, specs)

    def explain(self) -> str:
        """Describe the network, what is left of it, and the operators behind it."""
        begin, whole = self.graph.flops(), self._net.graph.subgraph([self._layer]).flops()
        shape = "x".join(map(str, self._net.source.inputs[_IMAGE].shape))
        read = f"{self.live} of {self.channels} channels are read"
        first = f"{self._net.card.name} from a decoded image ({shape}) to {self._layer}: {read}"
        flops = f"{begin / 1e9:.3f} GFLOPs per record, {whole / 1e9:.3f} before channels were left out"
        lines = [first, f"{flops}; {len(self.graph)} layers in one graph"]
        return "\n".join([*lines, super().explain()])

    def card(self, row: Any, output: str = "predict_proba") -> ModelCard:
        """Make a model of images alone for one row's numbers, as :class:`vista_spark.OcclusionExplainer` takes it.

        Parameters
        ----------
        row : mapping, or a row of a pandas DataFrame
            Has the structured columns.
        output : str
            One of :attr:`outputs` that gives numbers: ``"predict_proba"`` of classes, ``"predict"`` of values.

        Raises
        ------
        ColumnError
            A structured column is missing.
        """
        from udfs.compiling.network import OneRow  # imports torch

        if output not in self.program.outputs:
            self._refuse(output)
        numbers = self._numbers({name: [row[name]] for name in self._inputs.structured if name in row}, 1)
        place = list(self.program.outputs).index(output)
        name = f"{self._net.card.name}_transfer"
        one = OneRow(self.module, numbers[0], place).eval()
        return roster.of(one, preprocessing=self._net.preprocessing, name=name)

    def save(self, path: str | Path) -> None:
        """Refuse: a file of a compiled pipeline holds no network; save the PipelineModel that was compiled."""
        self._no_file("save", path)

    def to_onnx(self, path: str | Path, *, dtype: str = "float64") -> None:
        """Refuse: a network has operators that are not those of compiled pipelines."""
        self._no_file(f"to_onnx with dtype={dtype!r}", path)

    def __reduce__(self) -> NoReturn:
        self._no_file("pickle", "")

    def _no_file(self, what: str, path: str | Path) -> NoReturn:
        raise UnsupportedOperatorError(
            f"{what} {path}: {self._net.card.name} is a network, of which a compiled pipeline's file holds none: save "
            "the transfer's best_model, and compile it where it is needed"
        )

    def _run(self, method: str, table: ArrayLike) -> Any:
        if method not in self.program.outputs:
            self._refuse(method)
        frame: Any = table
        missing = [name for name in self.columns if name not in frame]
        if missing:
            raise ColumnError(f"columns {', '.join(map(repr, missing))} are missing: the transfer reads them")
        images = self._decoded(list(frame[self._image]))
        numbers = self._numbers(frame, len(images))
        place = list(self.program.outputs).index(method)
        from udfs.compiling.torch import torch_threads  # imports torch

        wanted = [self.traced.output_layer(key) for key in (place, len(self.program.outputs))]
        parts = []
        for at in range(0, max(len(images), 1), _BATCH):
            batch = images[at : at + _BATCH], numbers[at : at + _BATCH]
            feeds: dict[str, NDArray[Any]] = dict(zip(self.graph.inputs, batch, strict=True))
            with torch_threads(self.threads):
                given = self.traced.run(feeds, wanted)
            refused = given[wanted[1]]
            if refused.any():
                raise InvalidArgumentError(
                    f"row {at + int(np.argmax(refused))} has numbers, or features of its image, that the model refuses"
                )
            parts.append(given[wanted[0]])
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
            raise ColumnError(f"columns {', '.join(map(repr, absent))} are missing: the transfer reads them")
        held = [np.zeros((rows, 0))]
        for name in self._inputs.structured:
            values = [getattr(value, "toArray", lambda value=value: value)() for value in frame[name]]
            held.append(np.asarray(values, np.float64).reshape(rows, -1 if rows else 0))
        numbers = np.concatenate(held, axis=1)
        if rows and numbers.shape[1] != self._inputs.structured_size:
            raise ColumnError(
                f"{numbers.shape[1]} structured numbers; the transfer reads {self._inputs.structured_size}"
            )
        if np.isnan(numbers).any():
            raise InvalidArgumentError(f"row {int(np.isnan(numbers).any(axis=1).argmax())} has no structured number")
        return numbers if rows else np.zeros((0, self._inputs.structured_size))


def compiled_transfer(model: Any, example: Any = None, **options: Any) -> CompiledPipeline | None:
    """Compile the best model of a feature transfer, with options of a compiled pipeline; ``None`` for any other model.

    Raises
    ------
    UnsupportedOperatorError
        The network is not one of torch for one image a record, or the downstream model has no translation.
    """
    model = getattr(model, "best_model", model)
    stages = getattr(model, "stages", ())
    if not isinstance(stages, list | tuple) or not stages or type(stages[-1]).__name__ != "TransferPredictor":
        return None
    predictor = stages[-1]
    program = lower_whole(predictor.model, example)
    assert program is not None  # a model of Spark ML
    inputs = predictor.inputs
    width = inputs.structured_size + inputs.image_size
    if program.columns is not None or program.width != width:
        raise UnsupportedOperatorError(
            f"{type(predictor.model).__name__} of the transfer reads columns beside the vector of features "
            f"({', '.join(inputs.carried) or program.width}), which is compiled with replace_stages alone"
        )
    if len(stages) == 1 and inputs.image is None:
        named = inputs.structured if len(inputs.structured) == width else None
        return CompiledPipeline(Program(program.width, named, program.nodes, program.outputs), **options)
    featurizer = stages[0]
    if len(stages) != _STAGES or type(featurizer).__name__ != "CNNFeaturizer":
        raise UnsupportedOperatorError(
            f"{type(featurizer).__name__} before TransferPredictor is not compiled: CNNFeaturizer alone is"
        )
    net: Network = featurizer.open_network()
    several = len(getattr(net.reads.preprocessing, "parts", ())) != 1
    if net.card.framework != "torch" or net.reads.kind != "image" or several:
        raise UnsupportedOperatorError(
            f"CNNFeaturizer with model={net.card.name!r} ({net.card.framework}, reads {net.reads.kind}s): networks of "
            "torch for one image a record are compiled, without startLayer"
        )
    (layer,) = net.layers(featurizer.getLayers())
    feature = net.feature(layer, "", featurizer.getPooling())
    # Rewrites are of a table: in a network, channels are left out instead.
    options.pop("rewrites", None)
    return CompiledTransfer(program, net, feature, predictor, featurizer.getInputCol(), **options)
