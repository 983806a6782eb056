"""``FeatureTransfer``: comparison of the layers of a pre-trained network (Vista, equations 1 to 4)."""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, cast, get_args

from pyspark.ml import Estimator, PipelineModel
from pyspark.sql import functions as F

from optimizer.memory import LOGICAL_PLANS, Join, Persistence
from optimizer.transfer import plan_layers
from udfs.driver import (
    Progress,
    check_paths,
    check_present,
    check_tracking,
    holds_image_lists,
    quoted,
    validate_arguments,
)
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
from vista_spark.transfer._run import Run, RunSpec
from vista_spark.transfer._tracking import log

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.ml.evaluation import Evaluator
    from pyspark.sql import DataFrame, Row

    from optimizer.memory import Logical
    from optimizer.transfer import Choice
    from udfs.inference import Reduction
    from vista_spark.network import Network
    from vista_spark.transfer._inputs import Matched
    from vista_spark.transfer._result import LayerResult

__all__ = ["FeatureTransfer"]

_LOG = logging.getLogger(__name__)

_ERRORS = ("drop", "raise")

_AUTO = (
    'plan="auto": the order of passes is chosen at run time, by the sizes of the tables and of the machines. It may '
    "differ from this one, which the choice starts from"
)


@validate_arguments
@dataclass(kw_only=True, eq=False, repr=False)
class FeatureTransfer(Estimator[FeatureTransferModel]):
    """Compare layers of a pre-trained network as features of a downstream model.

    For each layer, the downstream model is trained on the structured features joined with the features of that layer.
    Images or texts pass through the network once, however many layers are named. :meth:`run` joins two tables and
    returns all scores; :meth:`fit` takes one table and returns a model, so that a transfer is a stage of a
    ``Pipeline``.

    Parameters
    ----------
    model : str, ModelCard, torch.nn.Module or keras.Model
        Name of a network of the roster, a folder of transformers, ``package.module:function``, or a network. Everything
        that :func:`vista_spark.roster.of` accepts; a network is copied.
    weights : str or path, optional
        Path or URI of a state dict. By default those of the card or network.
    layers : int, str or sequence of int and str
        Layer names, numbers from the top, or a bare ``k`` for the top ``k`` layers.
    downstream : pyspark.ml.Estimator
        Any Spark ML estimator, including a ``CrossValidator`` or a ``Pipeline``. A pipeline reads the assembled vector
        from ``"transfer_features"`` in every stage whose ``featuresCol`` is not set. Its stages may read other columns
        of the structured table by name, for example to index them or as weights (``weightCol``).
    evaluator : pyspark.ml.evaluation.Evaluator, optional
        Evaluator of the held-out rows. Default: F1 for a classifier, root mean squared error otherwise.
    pooling : {"max2x2", "mean", "none", "cls"}, optional
        Pooling of a layer's output; ``max2x2`` by default for images, ``mean`` for texts. Images take ``max2x2``,
        ``mean`` and ``none``, as :class:`vista_spark.CNNFeaturizer`; texts ``mean``, ``cls`` and ``none``, as
        :class:`vista_spark.TextFeaturizer`.
    layout : str or mapping of str to str, optional
        Layout of the output of all layers, or of layers by name: ``channels_first``, ``channels_last``, ``tokens``,
        ``tokens+1`` (one class token first; any number may follow) or ``vector``. By default it is recognised, and
        :meth:`explain` shows it.
    plan : str
        Order of inference and training: ``auto``, ``staged``, ``staged-before-join``, ``eager``, ``eager-reordered``,
        ``lazy``, ``lazy-reordered`` or ``pre-materialised`` (Vista, section 4.2.1 and Figure 5). All give the same
        models (to 1e-5). ``"auto"`` (default) takes the plan with the fewest predicted seconds that fits into the
        session's memory and raises ``InfeasiblePlanError`` if none does; a plan chosen by name that does not fit runs
        with a warning.
    join : {"broadcast", "shuffle"}, optional
        Join of the two tables. The planner chooses `join`, `persistence` and `partitions` by default and plans around
        those that are set (Vista, section 4.2.3).
    persistence : {"deserialized", "serialized"}, optional
        Format of the tables that are cached between stages.
    partitions : int, optional
        Number of partitions of the cached tables; too few for the largest table raise ``InfeasiblePlanError``.
    test_fraction : float
        Share of rows held out for the score, chosen by a hash of the id and ``seed``.
    errors : {"drop", "raise"}
        Policy for bad rows. Bad images, null ids, labels and features, and rows without a counterpart are dropped and
        counted in :attr:`TransferResult.dropped`, or raise an error. Duplicate ids are always an error. The best model
        keeps such rows with a null prediction and the reason, or raises.
    hog : bool
        Score histograms of oriented gradients as a second baseline (needs scikit-image).
    image_size : int, optional
        Height and width of the network's input, in pixels; the model's own by default.
    max_pixels : int, optional
        Largest number of pixels of an image; larger images are bad rows. The memory plan counts the decoding of an
        image of this size in each worker; by default the limit is 178,956,970 pixels, and the plan counts photographs
        of ordinary size.
    start_layer : str, optional
        Layer that was materialised before. The image column then holds its tensors, as
        :class:`vista_spark.CNNFeaturizer` reads them with ``startLayer``, and only the network above it runs.
    max_length : int, optional
        Number of tokens that a text is cut or padded to, for text encoders; the model's own by default.
    image_aggregation : {"mean", "max"}
        Aggregation of the features of several images of a record to one vector. Used if the image column has arrays of
        images, as ``imageAggregation`` of :class:`vista_spark.CNNFeaturizer`.
    batch_size : int, optional
        Images per run of the network; 32 by default, or fewer where memory is short.
    device : str
        Device of the network: ``auto`` (an accelerator if there is one), ``cpu``, ``cuda``, ...
    experiment : str or None
        MLflow experiment to log to. ``None`` (default) logs nothing. If MLflow fails, the error goes to Python's
        logging and the result is returned.
    progress : bool
        Whether to show a progress bar, in a terminal or a notebook.
    seed : int
        Seed of the split and of random weights.
    on : str
        Column of the id, of one type in both tables. Default ``"id"``.
    feature_columns : str or sequence of str
        One Spark ML vector column, or numeric columns. With an empty sequence the model reads images alone, and the
        baseline predicts from the labels alone. Default ``"features"``.
    label_column : str
        Numeric or boolean column; strings if a ``StringIndexer`` of the downstream ``Pipeline`` reads it. Default
        ``"label"``.
    image_column : str
        Column of images or texts: encoded bytes, paths, Spark ``image`` structs, arrays of floats, arrays of one of the
        first three (several images of a record), or strings for a text encoder. Default ``"image"``.

    Raises
    ------
    InvalidArgumentError
        An argument is invalid.

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
    layout: str | Mapping[str, str] | None = None
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
                raise InvalidArgumentError(f"{name} must be one of {', '.join(map(str, allowed))}, got {value!r}.")
        check_device(self.device)
        if not 0 < self.test_fraction < 1:
            raise InvalidArgumentError(
                f"test_fraction must be between 0 and 1, both excluded, got {self.test_fraction}."
            )
        for name, number in (
            ("batch_size", self.batch_size),
            ("partitions", self.partitions),
            ("max_pixels", self.max_pixels),
        ):
            if number is not None and number < 1:
                raise InvalidArgumentError(f"{name} must be a positive integer, got {number}.")

    def explain(self) -> str:
        """Describe the logical plan that :meth:`run` follows; needs no data.

        With ``plan="auto"`` the plan is chosen at run time, by the sizes of the tables and of the machines; the text
        then describes the staged plan, from which the choice starts. :attr:`TransferResult.choice` has the plan that
        ran; :func:`plan_feature_transfer` and ``vista plan`` choose in advance.
        """
        net = self._network()
        logical = "staged" if self.plan == "auto" else cast("Logical", self.plan)
        names = net.targets(self.layers, self.pooling)
        shown = {**net.inputs, **names}
        text = plan_layers(net.graph, list(names), logical, model=net.card.name, names=shown).explain()
        before = [f"{net.card.name}: nothing says how its images are prepared; assumed is {net.card.assumed}"]
        layouts = net.explain_layouts(self.layers, self.pooling) if net.reads.has_layouts else ""
        before = before if net.card.assumed else []
        before += ["layers and their pooling:", layouts] if layouts else []
        return "\n".join([*before, *([_AUTO] if self.plan == "auto" else ()), text])

    def copy(self, extra: Any = None) -> FeatureTransfer:
        """Copy the estimator; ``extra`` Params go to the downstream estimator and the evaluator, which have them."""
        twin: FeatureTransfer = super().copy(extra)
        twin.downstream = self.downstream.copy(extra)
        twin.evaluator = None if self.evaluator is None else self.evaluator.copy(extra)
        return twin

    def save(self, path: str) -> None:
        """Raise an error: save the fitted model instead.

        Raises
        ------
        InvalidArgumentError
            Always.
        """
        raise InvalidArgumentError(
            f"a FeatureTransfer must be created from its arguments, so it is not saved to {path}; save the model of "
            "fit(), or the best_model of run()."
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

    @validate_arguments
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
            Columns, as for the transfer, which has the defaults.
        on_plan : callable, optional
            Function that is called with the chosen plan before it runs.

        Returns
        -------
        TransferResult
            Scores of all layers, the best model and the plan that ran.

        Raises
        ------
        ColumnError, EmptyInputError, DuplicateIdError, MissingIdError, LabelError
            The tables are invalid; raised before any image is read.
        InfeasiblePlanError
            With ``plan="auto"``, no plan fits into the session's memory.
        TrackingError
            ``experiment`` is set and MLflow's server does not answer within 10 seconds.
        udfs.images.ImageError, udfs.inference.TextError
            A bad image or text, with ``errors="raise"``.
        """
        if self.experiment is not None:
            check_tracking(self.experiment)
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
                raise InvalidArgumentError("hog must be False for lists of images and for texts, got True.")
            matched = match(structured, images, columns, self.errors, classification=is_classification(self.downstream))
            if net.reads.kind == "image" and self.start_layer is None:
                check_paths(images, columns.image, "image_column")
            check_width(self.downstream, FEATURES, lambda: matched.width(columns.structured))
            bar.step("planning")
            choice = self._choice(net, matched, columns)
            stages = choice.logical.stages
            _LOG.info("the plan that runs: %s", choice.explain())
            if on_plan is not None:
                on_plan(choice)
            bar.step(f"{choice.logical.logical} plan: {len(stages)} passes for {len(choice.logical.targets)} layers")
            bar.expect(4 + len(stages) + sum(len(stage.targets) for stage in stages) + self.hog)
            spec = RunSpec(
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
            )
            ran = Run(spec, bar.step).execute(matched)
        best = best_of((ran.baseline, *ran.layers), larger_is_better=evaluator.isLargerBetter())
        result = TransferResult(
            layers=ran.layers,
            passes=ran.passes,
            baseline=ran.baseline,
            hog=ran.hog,
            best=best,
            best_model=self._pipeline(best, net, spec, ran.example),
            metric=metric_name(evaluator),
            larger_is_better=evaluator.isLargerBetter(),
            choice=choice,
            train_rows=ran.train_rows,
            test_rows=ran.test_rows,
            dropped=ran.dropped,
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
        roles = (self.on if on is None else on, self.label_column if label is None else label)
        target = learned_column(self.downstream, roles[1], present)
        others = [name for name in present if name not in roles]
        evaluator = None if self.evaluator is None else point_at(self.evaluator, FEATURES, target)
        return Columns(
            on=roles[0],
            features=wanted if isinstance(wanted, str) else tuple(wanted),
            label=roles[1],
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
        return net.limited(self.max_pixels).arranged(self.layout).above(self.start_layer)

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

    def _pipeline(self, best: LayerResult, net: Network, spec: RunSpec, example: Row) -> PipelineModel:
        """Assemble the stages from a joined DataFrame to predictions, without what only the training needed."""
        # Rows that the training left out stay, so that users see that they have no prediction.
        errors = "raise" if self.errors == "raise" else "null"
        columns = spec.columns
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
        extra_params: dict[str, Any] = {"maxLength": self.max_length} if of_text else {"imageSize": self.image_size}
        stage = TextFeaturizer if of_text else CNNFeaturizer
        if not of_text:
            extra_params |= {
                "imageAggregation": self.image_aggregation,
                "startLayer": self.start_layer,
                "maxPixels": self.max_pixels,
                "layout": self.layout,
            }
        featurizer = stage(
            model=self.model,
            weights=self.weights,
            layers=[best.name],
            inputCol=columns.image,
            outputCols=["transfer_image"],
            pooling=self.pooling,
            batchSize=spec.batch_size,
            device=self.device,
            errors=errors,
            errorCol=PREDICTION_ERROR,
            seed=self.seed,
            **extra_params,
        )
        return PipelineModel([featurizer, predictor])

    def _parameters(self, columns: Columns) -> dict[str, Any]:
        parameters = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        shown = {
            name: value for name, value in parameters.items() if name not in ("evaluator", "experiment", "progress")
        }
        used = {
            "on": columns.on,
            "feature_columns": columns.features,
            "label_column": columns.label,
            "image_column": columns.image,
        }
        named = {"model": getattr(self.model, "name", self.model), "downstream": type(self.downstream).__name__}
        return shown | used | named
