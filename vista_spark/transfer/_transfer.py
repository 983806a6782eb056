"""``FeatureTransfer``: which layer of a pre-trained CNN helps a downstream model most (Vista, equations 1 to 4)."""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, cast, get_args

from pyspark.ml import Estimator, PipelineModel
from pyspark.sql import functions as F

from optimizer.logical import LOGICAL_PLANS, plan_layers
from optimizer.memory import Join, Persistence
from udfs.driver import Progress, check_present, hint_keywords, holds_image_lists, quoted
from udfs.inference import POOLINGS, REDUCTIONS
from udfs.node import check_device
from vista_spark import roster
from vista_spark.errors import InvalidArgumentError
from vista_spark.features import CNNFeaturizer, TextFeaturizer
from vista_spark.network import TEXT_POOLINGS, has_random_weights, network, warn_of_random_weights
from vista_spark.sessions import envelope
from vista_spark.transfer._columns import Columns
from vista_spark.transfer._downstream import (
    check_estimator,
    check_width,
    columns_read,
    default_evaluator,
    is_classification,
    learned_column,
    metric_name,
    point_at,
)
from vista_spark.transfer._inputs import match
from vista_spark.transfer._model import FeatureTransferModel
from vista_spark.transfer._planning import (
    Decisions,
    TransferData,
    TransferProblem,
    choose,
    downstream_size,
    in_session,
)
from vista_spark.transfer._predictor import FEATURES, PREDICTION_ERROR, PredictorInputs, TransferPredictor, plain
from vista_spark.transfer._result import TransferResult, best_of
from vista_spark.transfer._run import Run
from vista_spark.transfer._tracking import log

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from pyspark.ml.evaluation import Evaluator
    from pyspark.sql import DataFrame, Row

    from optimizer.logical import Logical
    from optimizer.transfer import Choice
    from udfs.inference import Reduction
    from vista_spark.network import Network
    from vista_spark.transfer._inputs import Matched
    from vista_spark.transfer._result import LayerResult

__all__ = ["FeatureTransfer"]

_LOG = logging.getLogger(__name__)

_ERRORS = ("drop", "raise")

_AUTO = (
    'plan="auto": the order of passes is chosen at run time, by the sizes of the tables and of the machines, and may '
    "differ from this one, which the choice starts from"
)


@hint_keywords
@dataclass(kw_only=True, eq=False, repr=False)
class FeatureTransfer(Estimator[FeatureTransferModel]):
    """Train a downstream model on the structured features joined with each of some layers of a network, and compare.

    The images, or the texts, pass through the network once, however many layers are named. :meth:`run` joins two tables
    and returns all scores; :meth:`fit` takes one table and returns a model, so that a transfer is a stage of a
    ``Pipeline``.

    Parameters
    ----------
    model : str, ModelCard, or a model
        A name of :func:`vista_spark.roster.names`, or a ``torch.nn.Module`` or ``keras.Model`` as it is, a card, or
        ``"package.module:function"``: all that :func:`vista_spark.roster.of` takes. A model is copied here.
    weights : str or path, optional
        As for :class:`vista_spark.CNNFeaturizer` and :class:`vista_spark.TextFeaturizer`.
    layers : int, str or sequence of int and str
        Names; ``n`` in a sequence is the n-th layer from the top; a bare ``k`` stands for the top ``k`` layers.
    downstream : pyspark.ml.Estimator
        Any; a ``CrossValidator`` or a ``Pipeline`` too. A pipeline finds the assembled vector in
        ``"transfer_features"`` wherever a stage's ``featuresCol`` was not set. Its stages may read other columns of the
        structured table by name: index one of them or the label, or take weights (``weightCol``).
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
        Join of the tables. By default the planner chooses this and the next two; it keeps those given by hand, and
        plans the others around them (Vista, section 4.2.3).
    persistence : {"deserialized", "serialized"}, optional
        Format of the tables that are cached between stages.
    partitions : int, optional
        Of those tables; too few for the largest of them raises ``InfeasiblePlanError``.
    test_fraction : float
        Share of rows held out for the score, chosen by a hash of the id and ``seed``.
    errors : {"drop", "raise"}
        Policy for bad images, null ids, labels and features, and rows without a counterpart: they are left out and
        counted in :attr:`TransferResult.dropped`, or an error is raised. Duplicate ids are always an error. The best
        model keeps such rows, with a null prediction and the reason, or raises.
    hog : bool
        Score histograms of oriented gradients as a second baseline (needs scikit-image).
    image_size : int, optional
        Height and width of the network's input, in pixels; the model's own by default.
    max_pixels : int, optional
        An image of more pixels is a bad one. The memory plan counts what decoding such an image takes in each worker;
        without a number the limit is 178,956,970 pixels, and the plan counts photographs of ordinary size.
    start_layer : str, optional
        A layer that was materialised before: the image column then holds its tensors, as
        :class:`vista_spark.CNNFeaturizer` reads them with ``startLayer``, and only the network above it runs.
    max_length : int, optional
        Of a text encoder, the tokens that a text is cut or padded to; the model's own by default.
    image_aggregation : {"mean", "max"}
        How the features of a record's images are aggregated to one vector, where the column has arrays of images; as
        ``imageAggregation`` of :class:`vista_spark.CNNFeaturizer`.
    batch_size : int, optional
        Images per run of the network. By default 32, or fewer where that would take more memory, or fewer cores, than
        there are.
    device : str
        ``"auto"``, ``"cpu"``, ``"cuda"``, ...
    experiment : str or None
        MLflow experiment to log to; ``None`` (default) logs nothing. Should MLflow fail, Python's logging has the
        error, and the result is returned all the same.
    progress : bool
        Show a bar, in a terminal or a notebook.
    seed : int
        Of the split and of random weights.
    on : str
        Column of the id, of one type in both tables. Default ``"id"``.
    feature_columns : str or sequence of str
        One Spark ML vector, or the numeric columns; of an empty sequence the images are all there is, and the baseline
        a guess by the labels alone. Default ``"features"``.
    label_column : str
        Numeric or boolean; of strings where a ``StringIndexer`` of the downstream ``Pipeline`` reads it. Default
        ``"label"``.
    image_column : str
        Images or texts, as the model reads them: encoded bytes, paths, Spark ``image`` structs, arrays of floats,
        arrays of one of the first three (a record's images), or strings for a text encoder. Default ``"image"``.

    Raises
    ------
    InvalidArgumentError
        A value that does not do.

    Examples
    --------
    >>> from pyspark.ml.classification import LogisticRegression
    >>> transfer = FeatureTransfer(
    ...     model="mobilenet_v2",
    ...     layers=["block13", "block17", "pool"],
    ...     downstream=LogisticRegression(maxIter=10),
    ... )
    >>> print(transfer.explain().splitlines()[-1])
      in all 0.599 GFLOPs per record; the lazy plan takes 1.58 (2.63 times as many)
    """

    __module__ = "vista_spark"

    model: Any
    downstream: Estimator[Any]
    weights: str | os.PathLike[str] | None = None
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
    max_pixels: int | None = None
    start_layer: str | None = None
    max_length: int | None = None
    image_aggregation: str = "mean"
    batch_size: int | None = None
    device: str = "auto"
    experiment: str | None = None
    progress: bool = True
    seed: int = 0
    on: str = "id"
    feature_columns: str | Sequence[str] = "features"
    label_column: str = "label"
    image_column: str = "image"

    def __post_init__(self) -> None:
        super().__init__()
        check_estimator(self.downstream)
        if not roster.is_name(self.model):
            self.model = roster.of(self.model, image_size=self.image_size)
        for name, value, allowed in (
            ("pooling", self.pooling, (None, *dict.fromkeys((*POOLINGS, *TEXT_POOLINGS)))),
            ("image_aggregation", self.image_aggregation, REDUCTIONS),
            ("plan", self.plan, ("auto", *LOGICAL_PLANS)),
            ("errors", self.errors, _ERRORS),
            ("join", self.join, (None, *get_args(Join))),
            ("persistence", self.persistence, (None, *get_args(Persistence))),
        ):
            if value not in allowed:
                raise InvalidArgumentError(f"{name}={value!r}; one of: {', '.join(map(str, allowed))}")
        check_device(self.device)
        if not 0 < self.test_fraction < 1:
            raise InvalidArgumentError(f"test_fraction={self.test_fraction}: a share between 0 and 1")
        for name, number in (
            ("batch_size", self.batch_size),
            ("partitions", self.partitions),
            ("max_pixels", self.max_pixels),
        ):
            if number is not None and number < 1:
                raise InvalidArgumentError(f"{name}={number}: at least 1")

    def explain(self) -> str:
        """The logical plan that :meth:`run` will follow, in words; needs no data.

        With ``plan="auto"`` the choice is made at run time, by the sizes of the tables and of the machines: the text
        says so, and has the staged plan, which the choice starts from. The plan that ran is in
        :attr:`TransferResult.choice`; :func:`plan_feature_transfer` and ``vista plan`` choose beforehand.
        """
        net = self._network()
        logical = "staged" if self.plan == "auto" else cast("Logical", self.plan)
        names = net.targets(self.layers, self.pooling)
        shown = {**net.inputs, **names}
        text = plan_layers(net.graph, list(names), logical, model=net.card.name, names=shown).explain()
        before = [f"{net.card.name}: nothing says how its images are prepared; assumed is {net.card.assumed}"]
        return "\n".join([*(before if net.card.assumed else ()), *([_AUTO] if self.plan == "auto" else ()), text])

    def copy(self, extra: Any = None) -> FeatureTransfer:
        """Copy it; ``extra`` Params go to the downstream estimator and the evaluator, which have them."""
        twin: FeatureTransfer = super().copy(extra)
        twin.downstream = self.downstream.copy(extra)
        twin.evaluator = None if self.evaluator is None else self.evaluator.copy(extra)
        return twin

    def save(self, path: str) -> None:
        """Refuse: its arguments hold estimators of any kind; the model that it fits is what is saved.

        Raises
        ------
        InvalidArgumentError
            Always.
        """
        raise InvalidArgumentError(
            f"{path}: a FeatureTransfer is not saved, but made anew from its arguments; save the model of fit(), or "
            "the best_model of run()"
        )

    def _fit(self, dataset: DataFrame) -> FeatureTransferModel:
        features = [self.feature_columns] if isinstance(self.feature_columns, str) else list(self.feature_columns)
        columns = self._columns(dataset.columns)
        structured = [self.on, self.label_column, *features, *columns.read.training]
        check_present(dataset, [*structured, self.image_column], type(self).__name__)
        pair = (
            dataset.select(*(F.col(quoted(name)) for name in dict.fromkeys(names)))
            for names in (structured, [self.on, self.image_column])
        )
        result = self.run(*pair)
        model = FeatureTransferModel(result.best_model, result)
        model._resetUid(self.uid)  # noqa: SLF001 - as Spark ML's own models have their estimator's
        return model

    @hint_keywords
    def run(
        self,
        structured: DataFrame,
        images: DataFrame,
        *,
        on: str | None = None,
        feature_columns: str | Sequence[str] | None = None,
        label_column: str | None = None,
        image_column: str | None = None,
        on_plan: Callable[[Choice], object] | None = None,
    ) -> TransferResult:
        """Join, infer, train and score.

        Parameters
        ----------
        structured : DataFrame
            One row per example: `on`, `feature_columns` and `label_column`.
        images : DataFrame
            One row per image: `on` and `image_column`.
        on, feature_columns, label_column, image_column
            As of the transfer, which has the defaults.
        on_plan : callable, optional
            Called with the plan that was chosen, before it runs.

        Returns
        -------
        TransferResult

        Raises
        ------
        ColumnError, EmptyInputError, DuplicateIdError, MissingIdError, LabelError
            The tables do not do; raised before any image is read.
        InfeasiblePlanError
            With ``plan="auto"``, no plan fits into the session's memory.
        udfs.images.ImageError, udfs.inference.TextError
            A bad image or text, with ``errors="raise"``.
        """
        net = self._network()
        columns = self._columns(structured.columns, on, feature_columns, label_column, image_column)
        evaluator = self.evaluator or default_evaluator(self.downstream)
        steps = 4 + 2 * len(net.targets(self.layers, self.pooling)) + self.hog
        with Progress(f"{net.card.name} {self.plan}", steps, shown=self.progress) as bar:
            warn_of_random_weights(net.card, net.weights, net.seed)
            net.check()
            bar.step("checking and matching the tables")
            net.reads.check(images, columns.image, f"the {net.reads.kind} table")
            has_arrays = net.reads.kind == "image" and holds_image_lists(images, columns.image)
            if self.hog and (has_arrays or net.reads.kind != "image"):
                raise InvalidArgumentError("hog=True describes one image a record: leave it out here")
            matched = match(structured, images, columns, self.errors, classification=is_classification(self.downstream))
            check_width(self.downstream, FEATURES, lambda: matched.width(columns.structured))
            bar.step("planning")
            choice = self._choice(net, matched, columns)
            stages = choice.logical.stages
            _LOG.info("the plan that runs: %s", choice.explain())
            if on_plan is not None:
                on_plan(choice)
            bar.step(f"{choice.logical.logical} plan: {len(stages)} passes for {len(choice.logical.targets)} layers")
            bar.expect(4 + len(stages) + sum(len(stage.targets) for stage in stages) + self.hog)
            run = Run(
                network=net.shipped(structured.sparkSession),
                choice=choice,
                columns=columns,
                downstream=self.downstream,
                evaluator=evaluator,
                pooling=net.remaining_pooling(self.pooling),
                image_aggregation=cast("Reduction", self.image_aggregation) if has_arrays else None,
                batch_size=choice.physical.workload.model.batch_size,
                device=self.device,
                errors=self.errors,
                test_fraction=self.test_fraction,
                seed=self.seed,
                hog=self.hog,
                tick=bar.step,
            )
            outcome = run.execute(matched)
        best = best_of((outcome.baseline, *outcome.layers), larger_is_better=evaluator.isLargerBetter())
        result = TransferResult(
            layers=outcome.layers,
            passes=outcome.passes,
            baseline=outcome.baseline,
            hog=outcome.hog,
            best=best,
            best_model=self._pipeline(best, net, columns, outcome.example, choice.physical.workload.model.batch_size),
            metric=metric_name(evaluator),
            larger_is_better=evaluator.isLargerBetter(),
            choice=choice,
            train_rows=outcome.train_rows,
            test_rows=outcome.test_rows,
            dropped=outcome.dropped,
            random_weights=has_random_weights(net.card, net.weights),
            has_structured=bool(columns.structured),
        )
        if self.experiment is not None:
            self._track(result, columns, self.experiment)
        return result

    def _columns(
        self,
        present: Sequence[str],
        on: str | None = None,
        features: str | Sequence[str] | None = None,
        label: str | None = None,
        image: str | None = None,
    ) -> Columns:
        """Name the columns of a structured table that the transfer reads."""
        wanted = self.feature_columns if features is None else features
        own = (self.on if on is None else on, self.label_column if label is None else label)
        target = learned_column(self.downstream, own[1], present)
        others = [name for name in present if name not in own]
        evaluator = None if self.evaluator is None else point_at(self.evaluator, FEATURES, target)
        return Columns(
            on=own[0],
            features=wanted if isinstance(wanted, str) else tuple(wanted),
            label=own[1],
            image=self.image_column if image is None else image,
            read=columns_read(point_at(self.downstream, FEATURES, target), evaluator, others),
            target=target,
        )

    def _track(self, result: TransferResult, columns: Columns, experiment: str) -> None:
        try:
            log(result, self._parameters(columns), experiment)
        except Exception:  # noqa: BLE001 - whatever a tracking server does, hours of inference must not go with it
            _LOG.exception("the transfer is done, but MLflow could not log it to experiment %r", experiment)

    def _network(self) -> Network:
        net = network(self.model, self.weights, self.seed, self.image_size, self.max_length)
        return net.limited(self.max_pixels).above(self.start_layer)

    def _choice(self, net: Network, matched: Matched, columns: Columns) -> Choice:
        machines = envelope(matched.structured.sparkSession)
        decisions = Decisions(
            plan=self.plan,
            join=cast("Join | None", self.join),
            persistence=cast("Persistence | None", self.persistence),
            partitions=self.partitions,
            batch_size=self.batch_size,
            device=self.device,
        )
        problem = TransferProblem(
            network=net,
            targets=net.targets(self.layers, self.pooling),
            pooling=net.remaining_pooling(self.pooling),
            data=TransferData(matched.rows, matched.width(columns.structured), matched.image_bytes(columns.image)),
            downstream=downstream_size(self.downstream, matched.classes),
            decisions=decisions,
        )
        return choose(problem, in_session(machines, decisions))

    def _pipeline(
        self, best: LayerResult, net: Network, columns: Columns, example: Row, batch_size: int
    ) -> PipelineModel:
        """Assemble the stages from a joined DataFrame to predictions, without what only the training needed."""
        # Rows that the training left out stay here: whoever asks for a prediction has to see that there is none.
        errors = "raise" if self.errors == "raise" else "null"
        needs_image = best.inference_pass is not None
        # Without structured features the baseline learned from a constant, which a model of images does not read.
        reads_numbers = bool(columns.structured) or not needs_image
        numbers = example[FEATURES].toArray().tolist() if reads_numbers else []
        inputs = PredictorInputs(
            structured=columns.structured,
            structured_size=len(numbers),
            image="transfer_image" if needs_image else None,
            image_size=best.size,
            kind=net.reads.kind,
            label=columns.label if columns.learned != columns.label else None,
            target=columns.learned,
            known_label=plain(example[columns.label]),
            carried={name: plain(example[name]) for name in columns.read.prediction},
            nullable=columns.read.nullable,
            example=PredictorInputs.short(numbers),
        )
        predictor = TransferPredictor(best.model, inputs).setErrors(errors)
        if not needs_image:
            return PipelineModel([predictor])
        of_text = net.card.kind == "text"
        own: dict[str, Any] = {"maxLength": self.max_length} if of_text else {"imageSize": self.image_size}
        stage = TextFeaturizer if of_text else CNNFeaturizer
        if not of_text:
            own |= {
                "imageAggregation": self.image_aggregation,
                "startLayer": self.start_layer,
                "maxPixels": self.max_pixels,
            }
        featurizer = stage(
            model=self.model,
            weights=self.weights,
            layers=[best.name],
            inputCol=columns.image,
            outputCols=["transfer_image"],
            pooling=self.pooling,
            batchSize=batch_size,
            device=self.device,
            errors=errors,
            errorCol=PREDICTION_ERROR,
            seed=self.seed,
            **own,
        )
        return PipelineModel([featurizer, predictor])

    def _parameters(self, columns: Columns) -> dict[str, Any]:
        held = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        shown = {name: value for name, value in held.items() if name not in ("evaluator", "experiment", "progress")}
        used = {
            "on": columns.on,
            "feature_columns": columns.features,
            "label_column": columns.label,
            "image_column": columns.image,
        }
        named = {"model": getattr(self.model, "name", self.model), "downstream": type(self.downstream).__name__}
        return shown | used | named
