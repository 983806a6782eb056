"""``Scorer``: a Transformer that scores the rows of a table or a stream with a deployed model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from pyspark.ml import Transformer
from pyspark.sql import is_remote

from optimizer.arguments import one_of, whole
from udfs.arrow import ERROR_POLICIES, ErrorPolicy, RowMap, RowPolicy
from udfs.driver import check_absent, check_present, map_rows
from udfs.handlers import LayerLayout
from udfs.inference import Feature, Inference
from udfs.serving import (
    Background,
    FunctionRecipe,
    FunctionScoring,
    HeadScoring,
    NetworkRecipe,
    TensorSpec,
)
from vista_spark.errors import ColumnError, InvalidArgumentError
from vista_spark.serving._deployment import shipping
from vista_spark.serving._sample_run import learned_outputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from udfs.arrow import BatchFunction
    from udfs.serving import Deliveries
    from vista_spark.network import Network
    from vista_spark.serving._deployment import Deployment

__all__ = ["Scorer", "ScorerSpec"]

_FORMATS = ("vector", "array")


@dataclass(frozen=True, slots=True)
class ScorerSpec:
    """Columns and policies of a scorer; see :meth:`Api.scorer` for their meaning and defaults."""

    inputs: Sequence[str] | None = None
    outputs: Sequence[str] | None = None
    errors: str = "null"
    error_column: str | None = None
    detail_column: str | None = None
    batch_size: int = 32
    output_format: str = "vector"

    def __post_init__(self) -> None:
        one_of("errors", self.errors, ERROR_POLICIES)
        one_of("outputFormat", self.output_format, _FORMATS)
        whole("batchSize", self.batch_size)


class Scorer(Transformer):
    """Transformer that scores a DataFrame, or a stream, with a deployed model; made by :meth:`Api.scorer`.

    The executors open the deployed model and compute in the task slots that the server leaves free, in threads of the
    lowest priority: a live batch takes precedence on a shared core. Rows do not pass through the backends, so a lost
    backend costs no row.

    Parameters
    ----------
    deployment : Deployment
        Deployed session.
    device : str
        Device that the model runs on.
    deliveries : Deliveries or None
        Store that brings files to the executors of a stream on Connect.
    spec : ScorerSpec
        Columns, error policy, batch size and output format.
    """

    def __init__(
        self,
        deployment: Deployment,
        device: str,
        deliveries: Deliveries | None,
        spec: ScorerSpec,
    ) -> None:
        super().__init__()
        self._deployment = deployment
        self._device = device
        self._deliveries = deliveries
        self._vectors = spec.output_format == "vector"
        self._batch_size = spec.batch_size
        served = deployment.served
        self._columns = _names("inputCols", spec.inputs, [tensor.name for tensor in served.inputs], served.name)
        self._outputs = served.described_outputs or _learned(deployment)
        single = len(self._outputs) == 1
        usual = [served.name] if single else [f"{served.name}_{tensor.name}" for tensor in self._outputs]
        self._added = _names("outputCols", spec.outputs, usual, served.name)
        net = deployment.network
        wide = [] if net is None else [tensor for tensor in self._outputs if not np.can_cast(tensor.dtype, np.float32)]
        if wide:
            raise InvalidArgumentError(
                f"The outputs of {served.name!r} must fit float32, got {wide[0].dtype} for {wide[0].name!r}."
            )
        kind = served.name if net is None else net.reads.kind
        error = RowPolicy("raise").error if net is None else net.reads.error
        self._policy = RowPolicy(
            cast("ErrorPolicy", spec.errors), spec.error_column or f"{kind}_error", error, spec.detail_column
        )

    @property
    def version(self) -> str:
        """Version of the model."""
        return self._deployment.served.version

    @property
    def outputCols(self) -> list[str]:
        """Columns of the outputs."""
        return list(self._added)

    def __call__(self, df: DataFrame) -> DataFrame:
        """Score a DataFrame; for ``df.transform(scorer)``."""
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
        function = Background(self.batch_function(dataset.sparkSession, streams=dataset.isStreaming and is_remote()))
        rows = RowMap(function, tuple(dataset.columns), policy)
        return map_rows(dataset, rows, vectors=self._sizes() if self._vectors else None)

    def batch_function(self, spark: SparkSession, *, streams: bool = False) -> BatchFunction:
        """Return the function that the executors run.

        On Connect a stream runs in a copy of its session, which has none of the files sent to the original one.
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
                f"store must be set to score a stream with {deployment.served.name!r} on Connect, got None. Set "
                "Server(store=...) to a folder that the driver and the executors can access."
            )
        ship = shipping(self._deliveries if streams else None)
        inference = self._inference(deployment.network.shipped(spark, ship), deployment.recipe)
        head = ship(spark, deployment.recipe.head)
        return inference if head is None else HeadScoring(inference, head)

    def _inference(self, net: Network, recipe: NetworkRecipe) -> Inference:
        # Values in C order, as in the answer to a request.
        features = tuple(
            Feature(layer, column, "none", LayerLayout())
            for (_, layer), column in zip(recipe.outputs, self._added, strict=True)
        )
        return Inference(net.source, net.feeds(*self._columns), features, (), self._batch_size, self._device)

    def _sizes(self) -> dict[str, int | None]:
        """Return the columns of floating-point numbers that become vectors, with their lengths."""
        network = self._deployment.network is not None
        sizes: dict[str, int | None] = {}
        for name, spec in zip(self._added, self._outputs, strict=True):
            if network:
                sizes[name] = int(np.prod(spec.shape[1:]))
            elif len(spec.shape) > 1 and spec.dtype not in {"bytes", "str"} and np.dtype(spec.dtype).kind == "f":
                # A function may return rows of different lengths.
                sizes[name] = None
        return sizes


def _names(argument: str, columns: Sequence[str] | None, usual: Sequence[str], session: str) -> tuple[str, ...]:
    names = tuple(usual if columns is None else columns)
    if len(names) != len(usual) or not all(isinstance(name, str) and name for name in names):
        raise InvalidArgumentError(
            f"{argument} must have a column name for each of {', '.join(usual)} of {session!r}, got {list(names)}."
        )
    if argument == "outputCols" and len(set(names)) < len(names):
        raise ColumnError(f"{argument} must be unique, got {list(names)}.")
    return names


def _learned(deployment: Deployment) -> tuple[TensorSpec, ...]:
    """Run a function that failed on its sample again, for the error."""
    try:
        return learned_outputs(deployment)
    except Exception as error:
        raise InvalidArgumentError(
            f"outputs must be set for session {deployment.served.name!r}, whose function fails on a sample record ("
            f"{type(error).__name__}: {error}). Set outputs=[TensorSpec(...)], or sample to a record that it accepts."
        ) from error
