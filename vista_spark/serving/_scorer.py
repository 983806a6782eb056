"""``Scorer``: a deployed model over the rows of a table or a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
from pyspark.ml import Transformer
from pyspark.sql import is_remote

from optimizer.arguments import one_of, whole
from udfs.arrow import ERROR_POLICIES, ErrorPolicy, RowMap, RowPolicy
from udfs.driver import check_absent, check_present, map_rows
from udfs.inference import Feature, Inference
from udfs.serving import (
    Background,
    FunctionRecipe,
    FunctionScoring,
    HeadScoring,
    NetworkRecipe,
    OpenModels,
    Row,
    TensorSpec,
)
from vista_spark.errors import ColumnError, InvalidArgumentError
from vista_spark.serving._deployment import sample_row, shipping
from vista_spark.serving._grouping import group_recipe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from udfs.arrow import BatchFunction
    from udfs.serving import Deliveries
    from vista_spark.network import Network
    from vista_spark.serving._deployment import Deployment

__all__ = ["Scorer"]

_FORMATS = ("vector", "array")


class Scorer(Transformer):
    """Scores the rows of a DataFrame, or of a stream, with a deployed model. Made by :meth:`Api.scorer`.

    The executors open the deployed model and compute in the task slots that the server leaves free, in threads of the
    least priority: on a core that both want, a live batch comes first. No row waits in a backend's queue, and a lost
    backend costs no row.

    Parameters
    ----------
    deployment : Deployment
    device : str
    deliveries : Deliveries or None
        Bring files to the executors of a stream on Connect.
    columns : sequence of str
        One for each input.
    added : sequence of str
        One for each output.
    errors, error_column, detail_column
        As for :class:`udfs.arrow.RowPolicy`.
    batch_size : int
    output_format : {"vector", "array"}
    """

    def __init__(
        self,
        deployment: Deployment,
        device: str,
        deliveries: Deliveries | None,
        *,
        columns: Sequence[str] | None = None,
        added: Sequence[str] | None = None,
        errors: str = "null",
        error_column: str | None = None,
        detail_column: str | None = None,
        batch_size: int = 32,
        output_format: str = "vector",
    ) -> None:
        super().__init__()
        one_of("errors", errors, ERROR_POLICIES)
        one_of("outputFormat", output_format, _FORMATS)
        whole("batchSize", batch_size)
        self._deployment = deployment
        self._device = device
        self._deliveries = deliveries
        self._vectors = output_format == "vector"
        self._batch_size = batch_size
        served = deployment.served
        self._columns = _names("inputCols", columns, [spec.name for spec in served.inputs], served.name)
        self._outputs = served.outputs or _learned(deployment)
        single = len(self._outputs) == 1
        usual = [served.name] if single else [f"{served.name}_{spec.name}" for spec in self._outputs]
        self._added = _names("outputCols", added, usual, served.name)
        net = deployment.network
        wide = [] if net is None else [spec for spec in self._outputs if not np.can_cast(spec.dtype, np.float32)]
        if wide:
            raise InvalidArgumentError(
                f"{served.name!r} gives {wide[0].name!r} of {wide[0].dtype}: a vector has floats"
            )
        kind = served.name if net is None else net.reads.kind
        error = RowPolicy("raise").error if net is None else net.reads.error
        self._policy = RowPolicy(cast("ErrorPolicy", errors), error_column or f"{kind}_error", error, detail_column)

    @property
    def version(self) -> str:
        """Version of the model that scores."""
        return self._deployment.served.version

    @property
    def outputCols(self) -> list[str]:
        """Columns of the outputs."""
        return list(self._added)

    def __call__(self, df: DataFrame) -> DataFrame:
        """Score a DataFrame, so that ``df.transform(scorer)`` does."""
        return self.transform(df)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        deployment, policy = self._deployment, self._policy
        what = f"the scorer of {deployment.served.name!r}"
        if deployment.network is None:
            check_present(dataset, self._columns, what)
        else:
            for column in self._columns:
                deployment.network.reads.check(dataset, column, what)
        reasons = [policy.error_column, policy.detail_column] if policy.errors == "null" else []
        extra = [name for name in reasons if name is not None]
        check_absent(dataset, [*self._added, *extra], "set outputCols or errorCol, or drop it first")
        function = Background(self._function(dataset.sparkSession, streams=dataset.isStreaming and is_remote()))
        rows = RowMap(function, tuple(dataset.columns), policy)
        return map_rows(dataset, rows, vectors=self._sizes() if self._vectors else None)

    def _function(self, spark: SparkSession, *, streams: bool) -> BatchFunction:
        """Describe what the executors run.

        On Connect a stream runs in a copy of its session, which has none of the files that this one was sent.
        """
        deployment = self._deployment
        if deployment.network is None or isinstance(deployment.recipe, FunctionRecipe):
            return FunctionScoring(
                deployment.served.name,
                cast("FunctionRecipe", deployment.shipped(spark, self._deliveries if streams else None)),
                deployment.served.inputs,
                self._columns,
                tuple(self._outputs),
                self._added,
                self._batch_size,
            )
        if streams and self._deliveries is None:
            raise InvalidArgumentError(
                f"{deployment.served.name!r} cannot reach a stream's executors on Connect: Server(store=...) names a "
                "folder that they and this process reach"
            )
        ship = shipping(self._deliveries if streams else None)
        inference = self._inference(deployment.network.shipped(spark, ship), deployment.recipe)
        head = ship(spark, deployment.recipe.head)
        return inference if head is None else HeadScoring(inference, head)

    def _inference(self, net: Network, recipe: NetworkRecipe) -> Inference:
        # In C order, as a request's answer has it.
        features = tuple(
            Feature(layer, column, "none") for (_, layer), column in zip(recipe.outputs, self._added, strict=True)
        )
        return Inference(net.source, net.feeds(*self._columns), features, (), self._batch_size, self._device)

    def _sizes(self) -> dict[str, int | None]:
        """Give the columns of floating numbers that become vectors, and their lengths."""
        network = self._deployment.network is not None
        sizes: dict[str, int | None] = {}
        for name, spec in zip(self._added, self._outputs, strict=True):
            if network:
                sizes[name] = int(np.prod(spec.shape[1:]))
            elif len(spec.shape) > 1 and np.dtype(spec.dtype).kind == "f":
                # A function may give a row more numbers than the last one.
                sizes[name] = None
        return sizes


def _names(what: str, given: Sequence[str] | None, usual: Sequence[str], session: str) -> tuple[str, ...]:
    names = tuple(usual if given is None else given)
    if len(names) != len(usual) or not all(isinstance(name, str) and name for name in names):
        raise InvalidArgumentError(
            f"{what}={list(names)}: {session!r} has {len(usual)} ({', '.join(usual)}); give a column's name for each"
        )
    if what == "outputCols" and len(set(names)) < len(names):
        raise ColumnError(f"{what}={list(names)}: each once")
    return names


def _learned(deployment: Deployment) -> tuple[TensorSpec, ...]:
    """Run a function on a row of zeros to see what it gives."""
    name = deployment.served.name
    group = OpenModels("cpu", 1).open(group_recipe([deployment]))
    try:
        arrays = group.readers[name].read(sample_row(deployment))
        (answer,) = group.run([Row(name, "", arrays)])
    except Exception as error:
        raise InvalidArgumentError(
            f"session {name!r} has no answer for a row of zeros ({type(error).__name__}: {error}): say what it gives, "
            "outputs=[TensorSpec(...)]"
        ) from error
    return tuple(TensorSpec(key, str(array.dtype), (-1, *array.shape)) for key, array in answer.items())
