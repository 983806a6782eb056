"""``FeatureTransfer``: which layer of a pre-trained CNN helps a downstream model most (Vista, equations 1 to 4)."""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, cast, get_args

from pyspark.ml import PipelineModel
from pyspark.ml.feature import VectorAssembler

from optimizer.logical import LOGICAL_PLANS, plan_layers
from optimizer.memory import Join, Persistence
from udfs.driver import Progress, holds_several
from udfs.inference import POOLINGS, REDUCTIONS
from vista_spark import roster
from vista_spark.errors import InvalidArgumentError
from vista_spark.features import CNNFeaturizer, TextFeaturizer
from vista_spark.network import TEXT_POOLINGS, network
from vista_spark.sessions import envelope
from vista_spark.transfer._downstream import check_estimator, default_evaluator, is_classification, metric_name
from vista_spark.transfer._inputs import Columns, match
from vista_spark.transfer._planning import TransferData, choose, downstream_size, in_session
from vista_spark.transfer._result import TransferResult
from vista_spark.transfer._run import FEATURES, Run
from vista_spark.transfer._tracking import log

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.ml import Estimator
    from pyspark.ml.evaluation import Evaluator
    from pyspark.sql import DataFrame

    from optimizer.logical import Logical
    from optimizer.transfer import Choice
    from udfs.inference import Reduction
    from vista_spark.network import Network
    from vista_spark.transfer._inputs import Matched
    from vista_spark.transfer._result import LayerResult

__all__ = ["FeatureTransfer"]

_LOG = logging.getLogger(__name__)

_ERRORS = ("drop", "raise")


@dataclass(frozen=True, kw_only=True)
class FeatureTransfer:
    """Train a downstream model on the structured features joined with each of some layers of a network, and compare.

    The images, or the texts, pass through the network once, however many layers are named.

    Parameters
    ----------
    model : str
        A name of :func:`vista_spark.roster.names`, a registered model's included.
    weights : str, optional
        As for :class:`vista_spark.CNNFeaturizer` and :class:`vista_spark.TextFeaturizer`.
    layers : int, str or sequence of int and str
        Names; ``n`` in a sequence is the n-th layer from the top; a bare ``k`` stands for the top ``k`` layers.
    downstream : pyspark.ml.Estimator
        Any; a ``CrossValidator`` or a ``Pipeline`` too. A pipeline finds the assembled vector in
        ``"transfer_features"`` wherever a stage's ``featuresCol`` was not set.
    evaluator : pyspark.ml.evaluation.Evaluator, optional
        F1 for a classifier by default, the root mean squared error for anything else.
    pooling : str, optional
        As for :class:`vista_spark.CNNFeaturizer` (``"max2x2"`` by default), or of a text encoder as for
        :class:`vista_spark.TextFeaturizer` (``"mean"``).
    plan : str
        The order of inference and training; all give the same models (to 1e-5). ``"auto"`` (default) takes the one with
        the fewest predicted seconds among those that fit into the session's memory, and raises
        ``InfeasiblePlanError`` where none does. By name: ``"staged"``, ``"staged-before-join"``, ``"eager"``,
        ``"eager-reordered"``, ``"lazy"``, ``"lazy-reordered"``, ``"pre-materialised"`` (Vista, section 4.2.1 and
        Figure 5); one that does not fit is run all the same, with a warning.
    join : {"broadcast", "shuffle"}, optional
        How the tables are joined. Like the next two left to the planner by default; one given by hand is kept, and what
        is left open is planned around it (Vista, section 4.2.3).
    persistence : {"deserialized", "serialized"}, optional
        Format of the tables that are cached between stages.
    partitions : int, optional
        Of those tables; too few for the largest of them raises ``InfeasiblePlanError``.
    test_fraction : float
        Share of rows held out for the score, chosen by a hash of the id and ``seed``.
    errors : {"drop", "raise"}
        What becomes of bad images, null ids, labels and features, and rows without a counterpart: they are left out and
        counted in :attr:`TransferResult.dropped`, or an error is raised. Duplicate ids are always an error.
    hog : bool
        Score histograms of oriented gradients as a second baseline (needs scikit-image).
    image_size : int, optional
        Height and width of the network's input, in pixels; the model's own by default.
    start_layer : str, optional
        A layer that was materialised before: the image column then holds its tensors, as
        :class:`vista_spark.CNNFeaturizer` reads them with ``startLayer``, and only the network above it runs.
    max_length : int, optional
        Of a text encoder, the tokens that a text is cut or padded to; the model's own by default.
    several : {"mean", "max"}
        What makes one vector of a record's images, where the column has several; as for
        :class:`vista_spark.CNNFeaturizer`.
    batch_size : int, optional
        Images a run of the network. By default 32, or fewer where that would take more memory, or fewer cores, than
        there are.
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
    pooling: str | None = None
    plan: str = "auto"
    join: str | None = None
    persistence: str | None = None
    partitions: int | None = None
    test_fraction: float = 0.2
    errors: str = "drop"
    hog: bool = False
    image_size: int | None = None
    start_layer: str | None = None
    max_length: int | None = None
    several: str = "mean"
    batch_size: int | None = None
    device: str = "auto"
    experiment: str | None = "feature-transfer"
    progress: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        check_estimator(self.downstream)
        for name, value, allowed in (
            ("pooling", self.pooling, (None, *dict.fromkeys((*POOLINGS, *TEXT_POOLINGS)))),
            ("several", self.several, REDUCTIONS),
            ("plan", self.plan, ("auto", *LOGICAL_PLANS)),
            ("errors", self.errors, _ERRORS),
            ("join", self.join, (None, *get_args(Join))),
            ("persistence", self.persistence, (None, *get_args(Persistence))),
        ):
            if value not in allowed:
                raise InvalidArgumentError(f"{name}={value!r}; one of: {', '.join(map(str, allowed))}")
        if not 0 < self.test_fraction < 1:
            raise InvalidArgumentError(f"test_fraction={self.test_fraction}: a share between 0 and 1")
        for name, number in (("batch_size", self.batch_size), ("partitions", self.partitions)):
            if number is not None and number < 1:
                raise InvalidArgumentError(f"{name}={number}: at least 1")

    def explain(self) -> str:
        """The logical plan that :meth:`run` would follow, in words; needs no data.

        With ``plan="auto"`` it is the staged plan, which the choice starts from: the choice itself needs the sizes of
        the tables and of the machines, and is in :attr:`TransferResult.choice`, in :func:`plan_feature_transfer` and in
        ``vista plan``.
        """
        net = self._network()
        logical = "staged" if self.plan == "auto" else cast("Logical", self.plan)
        names = net.targets(self.layers, self.pooling)
        said = {**net.inputs, **names}
        return plan_layers(net.graph, list(names), logical, model=self.model, names=said).explain()

    def run(
        self,
        structured: DataFrame,
        images: DataFrame,
        *,
        on: str = "id",
        featuresCol: str | Sequence[str] = "features",
        labelCol: str = "label",
        imageCol: str = "image",
        on_plan: Callable[[Choice], object] | None = None,
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
            What the model reads: encoded bytes, paths, Spark ``image`` structs, arrays of floats, arrays of one of the
            first three (several images a record), or strings for a text encoder.
        on_plan : callable, optional
            Called with the plan that was chosen, before it runs.

        Returns
        -------
        TransferResult

        Raises
        ------
        ColumnError, EmptyInputError, DuplicateIdError, MissingIdError, LabelError
            What is wrong with the tables, before any image is read.
        InfeasiblePlanError
            With ``plan="auto"``, no plan fits into the session's memory.
        udfs.images.ImageError, udfs.inference.TextError
            A bad image or text, with ``errors="raise"``.
        """
        net = self._network()
        features = featuresCol if isinstance(featuresCol, str) else tuple(featuresCol)
        columns = Columns(on, features, labelCol, imageCol)
        evaluator = self.evaluator or default_evaluator(self.downstream)
        steps = 3 + 2 * len(net.targets(self.layers, self.pooling)) + self.hog
        with Progress(f"{self.model} {self.plan}", steps, shown=self.progress) as bar:
            bar.step("checking and matching the tables")
            net.reads.check(images, imageCol, f"the {net.reads.kind} table")
            several = net.reads.kind == "image" and holds_several(images, imageCol)
            if self.hog and (several or net.reads.kind != "image"):
                raise InvalidArgumentError("hog=True describes one image a record: leave it out here")
            matched = match(structured, images, columns, self.errors, classification=is_classification(self.downstream))
            bar.step("planning")
            choice = self._choice(net, matched, columns)
            if on_plan is not None:
                on_plan(choice)
            stages = choice.logical.stages
            bar.expect(3 + len(stages) + sum(len(stage.targets) for stage in stages) + self.hog)
            run = Run(
                network=net.shipped(structured.sparkSession),
                choice=choice,
                columns=columns,
                downstream=self.downstream,
                evaluator=evaluator,
                pooling=net.left(self.pooling),
                several=cast("Reduction", self.several) if several else None,
                batch_size=choice.physical.workload.model.batch_size,
                device=self.device,
                errors=self.errors,
                test_fraction=self.test_fraction,
                seed=self.seed,
                hog=self.hog,
                tick=bar.step,
            )
            baseline, hog, layers = run.execute(matched)
        pick = max if evaluator.isLargerBetter() else min
        best = pick(layers, key=lambda layer: layer.score)
        result = TransferResult(
            layers=layers,
            baseline=baseline,
            hog=hog,
            best=best,
            best_model=self._pipeline(best, columns, run.batch_size),
            metric=metric_name(evaluator),
            larger_is_better=evaluator.isLargerBetter(),
            choice=choice,
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
        whole = network(self.model, self.weights, self.seed, self.image_size, self.max_length)
        return whole.above(self.start_layer)

    def _choice(self, net: Network, matched: Matched, columns: Columns) -> Choice:
        there = envelope(matched.structured.sparkSession)
        return choose(
            net,
            net.targets(self.layers, self.pooling),
            self.plan,
            TransferData(matched.rows, matched.width(columns.structured), matched.image_bytes(columns.image)),
            downstream_size(self.downstream, matched.classes),
            net.left(self.pooling),
            in_session(
                there,
                insist=self.plan != "auto",
                join=cast("Join | None", self.join),
                persistence=cast("Persistence | None", self.persistence),
                partitions=self.partitions,
            ),
            batch_size=self.batch_size,
            device=self.device,
            cores=there.slots,
        )

    def _pipeline(self, best: LayerResult, columns: Columns, batch_size: int) -> PipelineModel:
        """From a joined DataFrame to predictions, with nothing that the training alone needed."""
        of_text = roster.card(self.model).kind == "text"
        own: dict[str, Any] = {"maxLength": self.max_length} if of_text else {"imageSize": self.image_size}
        stage = TextFeaturizer if of_text else CNNFeaturizer
        if not of_text:
            own |= {"several": self.several, "startLayer": self.start_layer}
        featurizer = stage(
            model=self.model,
            weights=self.weights,
            layers=[best.name],
            inputCol=columns.image,
            outputCols=["transfer_image"],
            pooling=self.pooling,
            batchSize=batch_size,
            device=self.device,
            errors=self.errors,
            seed=self.seed,
            **own,
        )
        joint = VectorAssembler(inputCols=["transfer_structured", "transfer_image"], outputCol=FEATURES)
        return PipelineModel([columns.assembler("transfer_structured"), featurizer, joint, best.model])

    def _parameters(self) -> dict[str, Any]:
        held = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        shown = {name: value for name, value in held.items() if name not in ("evaluator", "experiment", "progress")}
        return shown | {"downstream": type(self.downstream).__name__}
