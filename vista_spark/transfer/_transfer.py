"""``FeatureTransfer``: which layer of a pre-trained CNN helps a downstream model most (Vista, equations 1 to 4)."""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, cast

from pyspark.ml import PipelineModel
from pyspark.ml.feature import VectorAssembler

from optimizer.logical import LOGICAL_PLANS, plan_layers
from udfs.pooling import POOLINGS
from vista_spark._network import network
from vista_spark._progress import Progress
from vista_spark.errors import InvalidArgumentError
from vista_spark.featurizer import CNNFeaturizer
from vista_spark.transfer._downstream import check_estimator, default_evaluator, is_classification, metric_name
from vista_spark.transfer._inputs import Columns, join
from vista_spark.transfer._result import TransferResult
from vista_spark.transfer._run import FEATURES, Run
from vista_spark.transfer._tracking import log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.ml import Estimator
    from pyspark.ml.evaluation import Evaluator
    from pyspark.sql import DataFrame

    from optimizer.logical import Logical, LogicalPlan
    from udfs.pooling import Pooling
    from vista_spark._network import Network
    from vista_spark.transfer._result import LayerResult

__all__ = ["FeatureTransfer"]

_LOG = logging.getLogger(__name__)

_ERRORS = ("drop", "raise")


@dataclass(frozen=True, kw_only=True)
class FeatureTransfer:
    """Train a downstream model on the structured features joined with each of some layers of a CNN, and compare them.

    The images pass through the network once, however many layers are named.

    Parameters
    ----------
    model : str
        A name of :func:`vista_spark.roster.names`, a registered model's included.
    weights : str, optional
        Path or URI of a state dict, readable by every worker; random weights without it.
    layers : int, str or sequence of int and str
        Names; ``n`` in a sequence is the n-th layer from the top; a bare ``k`` stands for the top ``k`` layers.
    downstream : pyspark.ml.Estimator
        Any; a ``CrossValidator`` or a ``Pipeline`` too. A pipeline finds the assembled vector in
        ``"transfer_features"`` wherever a stage's ``featuresCol`` was not set.
    evaluator : pyspark.ml.evaluation.Evaluator, optional
        F1 for a classifier by default, the root mean squared error for anything else.
    pooling : {"max2x2", "avg", "none"}
        As for :class:`vista_spark.CNNFeaturizer`.
    plan : {"staged", "lazy", "eager"}
        The order of inference and training; all give the same models (to 1e-5). Vista, section 4.2.1.
    test_fraction : float
        Share of rows held out for the score, chosen by a hash of the id and ``seed``.
    errors : {"drop", "raise"}
        What becomes of bad images, null ids, labels and features, and rows without a counterpart: they are left out and
        counted in :attr:`TransferResult.dropped`, or an error is raised. Duplicate ids are always an error.
    hog : bool
        Score histograms of oriented gradients as a second baseline (needs scikit-image).
    image_size : int, optional
        Height and width of the network's input, in pixels; the model's own by default.
    batch_size : int
        Images a run of the network.
    device : str
        ``"auto"``, ``"cpu"``, ``"cuda"``, ...
    experiment : str or None
        MLflow experiment to log to; ``None`` logs nothing. Should MLflow fail, the error is logged by Python's logging
        and the result is returned all the same.
    progress : bool
        Show a bar, in a terminal or a notebook.
    seed : int
        Of the split and of random weights.

    Raises
    ------
    InvalidArgumentError
        A value that cannot be.

    Examples
    --------
    >>> from pyspark.ml.classification import LogisticRegression
    >>> transfer = FeatureTransfer(
    ...     model="mobilenet_v2",
    ...     layers=["block13", "block17", "pool"],
    ...     downstream=LogisticRegression(maxIter=10),
    ... )
    >>> print(transfer.explain().splitlines()[-1])
      in all 0.599 GFLOPs a record; the lazy plan takes 1.58 (2.63 times as many)
    """

    model: str
    downstream: Estimator[Any]
    weights: str | None = None
    layers: int | str | Sequence[int | str] = 4
    evaluator: Evaluator | None = None
    pooling: str = "max2x2"
    plan: str = "staged"
    test_fraction: float = 0.2
    errors: str = "drop"
    hog: bool = False
    image_size: int | None = None
    batch_size: int = 32
    device: str = "auto"
    experiment: str | None = "feature-transfer"
    progress: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        check_estimator(self.downstream)
        for name, value, allowed in (
            ("pooling", self.pooling, POOLINGS),
            ("plan", self.plan, LOGICAL_PLANS),
            ("errors", self.errors, _ERRORS),
        ):
            if value not in allowed:
                raise InvalidArgumentError(f"{name}={value!r}; one of: {', '.join(allowed)}")
        if not 0 < self.test_fraction < 1:
            raise InvalidArgumentError(f"test_fraction={self.test_fraction}: a share between 0 and 1")
        if self.batch_size < 1:
            raise InvalidArgumentError(f"batch_size={self.batch_size}: at least 1")

    def explain(self) -> str:
        """The plan that :meth:`run` would follow, in words; needs no data."""
        return self._plan(self._network()).explain()

    def run(
        self,
        structured: DataFrame,
        images: DataFrame,
        *,
        on: str = "id",
        featuresCol: str | Sequence[str] = "features",
        labelCol: str = "label",
        imageCol: str = "image",
    ) -> TransferResult:
        """Join, infer, train and score.

        Parameters
        ----------
        structured : DataFrame
            One row an example: ``on``, ``featuresCol`` and ``labelCol``.
        images : DataFrame
            One row an image: ``on`` and ``imageCol``.
        on : str
            The id, of one type in both tables.
        featuresCol : str or sequence of str
            One Spark ML vector, or the numeric columns.
        labelCol : str
            Numeric; ``StringIndexer`` makes one of strings.
        imageCol : str
            Encoded bytes, paths, Spark ``image`` structs, or arrays of floats.

        Returns
        -------
        TransferResult

        Raises
        ------
        ColumnError, EmptyInputError, DuplicateIdError, MissingIdError, LabelError
            What is wrong with the tables, before any image is read.
        udfs.images.ImageError
            A bad image, with ``errors="raise"``.
        """
        net = self._network()
        plan = self._plan(net)
        features = featuresCol if isinstance(featuresCol, str) else tuple(featuresCol)
        columns = Columns(on, features, labelCol, imageCol)
        evaluator = self.evaluator or default_evaluator(self.downstream)
        steps = 2 + len(plan.stages) + sum(len(stage.targets) for stage in plan.stages) + self.hog
        with Progress(f"{self.model} {self.plan}", steps, shown=self.progress) as bar:
            bar.step("checking and joining the tables")
            joined = join(structured, images, columns, self.errors, classification=is_classification(self.downstream))
            run = Run(
                network=net,
                plan=plan,
                columns=columns,
                downstream=self.downstream,
                evaluator=evaluator,
                pooling=cast("Pooling", self.pooling),
                batch_size=self.batch_size,
                device=self.device,
                errors=self.errors,
                test_fraction=self.test_fraction,
                seed=self.seed,
                hog=self.hog,
                tick=bar.step,
            )
            baseline, hog, layers = run.execute(joined)
        pick = max if evaluator.isLargerBetter() else min
        best = pick(layers, key=lambda layer: layer.score)
        result = TransferResult(
            layers=layers,
            baseline=baseline,
            hog=hog,
            best=best,
            best_model=self._pipeline(best, columns),
            metric=metric_name(evaluator),
            larger_is_better=evaluator.isLargerBetter(),
            plan=plan,
            train_rows=run.train_rows,
            test_rows=run.test_rows,
            dropped=run.dropped,
        )
        if self.experiment is not None:
            self._track(result, self.experiment)
        return result

    def _track(self, result: TransferResult, experiment: str) -> None:
        try:
            log(result, self._parameters(), experiment)
        except Exception:  # noqa: BLE001 - whatever a tracking server does, hours of inference must not go with it
            _LOG.exception("the transfer is done, but MLflow could not log it to experiment %r", experiment)

    def _network(self) -> Network:
        return network(self.model, self.weights, self.seed, self.image_size)

    def _plan(self, net: Network) -> LogicalPlan:
        names = {net.layer(layer): layer.name for layer in net.layers(self.layers)}
        return plan_layers(
            net.graph,
            list(names),
            cast("Logical", self.plan),
            model=self.model,
            names={net.image: "image", **names},
        )

    def _pipeline(self, best: LayerResult, columns: Columns) -> PipelineModel:
        """From a joined DataFrame to predictions, with nothing that the training alone needed."""
        featurizer = CNNFeaturizer(
            model=self.model,
            weights=self.weights,
            layers=[best.name],
            inputCol=columns.image,
            outputCols=["transfer_image"],
            pooling=self.pooling,
            imageSize=self.image_size,
            batchSize=self.batch_size,
            device=self.device,
            errors=self.errors,
            seed=self.seed,
        )
        joint = VectorAssembler(inputCols=["transfer_structured", "transfer_image"], outputCol=FEATURES)
        return PipelineModel([columns.assembler("transfer_structured"), featurizer, joint, best.model])

    def _parameters(self) -> dict[str, Any]:
        held = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        shown = {name: value for name, value in held.items() if name not in ("evaluator", "experiment", "progress")}
        return shown | {"downstream": type(self.downstream).__name__}
