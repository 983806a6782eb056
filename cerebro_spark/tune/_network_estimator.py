"""NetworkEstimator: a search for Spark ML's validators, with hyperparameters as Params."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, Self

from pyspark.ml import Estimator
from pyspark.ml.param import Param
from pyspark.ml.param.shared import HasPredictionCol, HasProbabilityCol, HasRawPredictionCol, HasWeightCol

from cerebro_spark.errors import InvalidArgumentError, NoModelError
from cerebro_spark.hopper import Interrupts, probe
from cerebro_spark.tune._grid import GridSearch
from cerebro_spark.tune._hyperparameters import checked_names, hyperparameter
from cerebro_spark.tune._missing_classes import MISSING_CLASSES, check_classes
from cerebro_spark.tune._model import TunedModel
from optimizer.arguments import one_of
from optimizer.errors import nearest
from udfs.driver import interruptible, setter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from cerebro_spark.hopper import SparkBackend
    from cerebro_spark.tune._selection import Selection
    from udfs.handlers import ModelTrainer
    from udfs.store import Store
    from udfs.training import TrainingFunctions

__all__ = ["NetworkEstimator"]

_LOG = logging.getLogger(__name__)

# A run holds the session's task slots, and a model is built with the process's random numbers: one at a time, also
# where a validator of pipelines fits from several threads. A thread that waits here holds no slot.
_TURN = threading.RLock()

_COLUMNS = ("predictionCol", "rawPredictionCol", "probabilityCol")


class NetworkEstimator(Estimator[TunedModel], HasPredictionCol, HasRawPredictionCol, HasProbabilityCol, HasWeightCol):
    """Spark ML estimator whose hyperparameters are Params, for ``CrossValidator`` and ``TrainValidationSplit``.

    Each name in ``hyperparameters`` becomes a Param of the instance: ``estimator.lr``. A validator of
    ``pyspark.ml.tuning`` hands over all param maps of a fold at once, and they train in one run on models that hop
    (:class:`GridSearch`): one copy of the fold's rows, all workers busy. The refit of the best one is a run of one
    configuration.

    ``fit`` and ``fitMultiple`` wait for each other across threads. A ``Pipeline`` within a validator fits map by map, a
    run each: put the validator into the pipeline instead. The validators of ``pyspark.ml.connect`` call ``fit`` for
    each map, too.

    Parameters
    ----------
    backend : SparkBackend
        Workers that train.
    store : Store
        Place of the prepared data, a copy of each fold's rows, and of the checkpoints.
    trainer_fn : callable
        Function that takes a dict of all hyperparameters, as for :class:`Search`.
    hyperparameters : mapping of str to object
        Defaults by name. The type of a default (bool, int, float or str) is the type of the Param; any other default
        makes a Param of plain data.
    num_epochs : int
        Number of epochs of each configuration.
    feature_columns, label_columns
        Columns that the model reads, and those that it predicts, as for :func:`prepare`. The weights of the rows are
        the Param ``weightCol``; without it all rows count alike.
    test_fraction : float
        Share of the rows of ``fit`` that is held out to follow the training. Default 0, because a validator holds out
        rows itself.
    missing_classes : {"raise", "allow"}
        Reaction to rows that lack a class, as those of a fold may. The classes are those in the metadata of the label
        column, which ``StringIndexer`` writes, or else those that the network has outputs for. Default ``"raise"``.
    **settings
        Other settings of :class:`Search`, except ``weight_column``.

    Raises
    ------
    InvalidArgumentError
        A value is not allowed, a hyperparameter's name is taken, or there is no such setting.
    TrainerError
        ``trainer_fn`` cannot be sent to the workers.

    Examples
    --------
    >>> import tempfile
    >>> from pyspark.ml.tuning import ParamGridBuilder
    >>> from pyspark.sql import SparkSession
    >>> from cerebro_spark import SparkBackend, Store
    >>> estimator = NetworkEstimator(
    ...     backend=SparkBackend(SparkSession.active(), num_workers=2),
    ...     store=Store.from_uri(tempfile.mkdtemp()),
    ...     trainer_fn=lambda params: ...,
    ...     hyperparameters={"lr": 1e-3, "hidden": 32},
    ...     num_epochs=5,
    ...     feature_columns=["age", "hours"],
    ...     label_columns=["label"],
    ... )
    >>> print(estimator.explainParam("lr"))
    lr: hyperparameter of trainer_fn: a finite number (default: 0.001)
    >>> len(ParamGridBuilder().addGrid(estimator.lr, [1e-2, 1e-3]).addGrid(estimator.hidden, [16, 64]).build())
    4
    """

    __module__ = "cerebro_spark"

    def __init__(  # noqa: PLR0913 - options by name
        self,
        *,
        backend: SparkBackend,
        store: Store,
        trainer_fn: Callable[[dict[str, Any]], ModelTrainer | TrainingFunctions],
        hyperparameters: Mapping[str, Any],
        num_epochs: int,
        feature_columns: Sequence[str] | Mapping[str, Sequence[str]],
        label_columns: Sequence[str],
        test_fraction: float = 0.0,
        missing_classes: str = "raise",
        **settings: Any,
    ) -> None:
        super().__init__()
        defaults = checked_names(hyperparameters, self, TunedModel)
        one_of("missing_classes", missing_classes, MISSING_CLASSES)
        if "search_space" in settings:
            raise InvalidArgumentError(
                "search_space must not be given to a NetworkEstimator. Its configurations are param maps: "
                "ParamGridBuilder().addGrid(estimator.lr, [...]).build()"
            )
        if "weight_column" in settings:
            raise InvalidArgumentError(
                f"weight_column must not be given to a NetworkEstimator, got {settings['weight_column']!r}. It is a "
                f"Param: setWeightCol({settings['weight_column']!r})"
            )
        self._missing_classes = missing_classes
        self._names = tuple(defaults)
        for name, default in defaults.items():
            setattr(self, name, hyperparameter(self, name, default))
        self._setDefault(
            predictionCol="prediction", rawPredictionCol="rawPrediction", probabilityCol="probability", **defaults
        )
        self._search = GridSearch(
            backend=backend,
            store=store,
            trainer_fn=trainer_fn,
            search_space=[self._configuration()],
            num_epochs=num_epochs,
            feature_columns=feature_columns,
            label_columns=label_columns,
            test_fraction=test_fraction,
            **settings,
        )

    def setParams(self, **params: Any) -> Self:
        """Set hyperparameters and column names.

        Raises
        ------
        InvalidArgumentError
            There is no such Param.
        TypeError
            A value is not like the Param's default.
        """
        for name in params:
            if not self.hasParam(name):
                known = [param.name for param in self.params]
                raise InvalidArgumentError(
                    f"{self.uid} has no Param {name!r}{nearest(name, known)}; Params: {', '.join(known)}"
                )
        return self._set(**params)

    setPredictionCol = setter(HasPredictionCol.predictionCol, "the models' column for predictions")
    setRawPredictionCol = setter(HasRawPredictionCol.rawPredictionCol, "the models' column for the network's outputs")
    setProbabilityCol = setter(HasProbabilityCol.probabilityCol, 'the models\' column for probabilities; "" for none')
    setWeightCol = setter(HasWeightCol.weightCol, 'the column of the rows\' weights; "" for none')

    def fit(self, dataset: DataFrame, params: Any = None) -> Any:
        """Train one configuration, or those of several param maps in one run.

        Parameters
        ----------
        dataset : DataFrame
            Rows with the feature and label columns.
        params : dict, or list or tuple of dict, optional
            One or several param maps; the other Params are those of the estimator.

        Returns
        -------
        TunedModel or list of TunedModel
            A list, in the order of the maps, if there is one of maps.

        Raises
        ------
        InvalidArgumentError
            A map has a Param of another stage.
        TypeError
            A value is not like its Param's default.
        ColumnError, EmptyInputError, LabelError, StoreError, TooFewSlotsError, TrainerError
            See :meth:`GridSearch.fit`; also if a class of a label has no rows. Nothing is trained before.
        NoModelError
            A configuration failed; the message has its traceback.
        RunError
            The run stopped.
        """
        if isinstance(params, dict):
            self._check_own(params, "the param map")
        return super().fit(dataset, params)

    def fitMultiple(self, dataset: DataFrame, paramMaps: Sequence[dict[Param[Any], Any]]) -> Iterator[tuple[int, Any]]:
        """Train the configurations of several param maps in one run.

        In the caller's thread, which hears an interrupt: a validator asks for the models from others.

        Parameters
        ----------
        dataset : DataFrame
            Rows with the feature and label columns.
        paramMaps : sequence of dict
            Maps of equal hyperparameters share one configuration of the run.

        Returns
        -------
        iterator of tuple of int and TunedModel
            Indices of the maps and their models. Threads may share it. A configuration that failed raises
            ``NoModelError`` in its place, and the next call goes on with the others.

        Raises
        ------
        InvalidArgumentError
            A map has a Param of another stage, or maps differ in ``weightCol``.
        TypeError
            A value is not like its Param's default.
        RunError, TooFewSlotsError
            And whatever else :meth:`GridSearch.fit` raises.
        """
        for number, params in enumerate(paramMaps):
            self._check_own(params, f"param map {number}")
        return _Fits([self.copy(params) for params in paramMaps], dataset)

    def _fit(self, dataset: DataFrame) -> TunedModel:
        ((_, model),) = _Fits([self.copy()], dataset)
        return model

    def write(self) -> NoReturn:
        """Refuse: ``trainer_fn`` is code, and no file of this project holds code.

        Raises
        ------
        InvalidArgumentError
        """
        raise InvalidArgumentError(
            f"{self.uid} holds your function trainer_fn, and a saved stage holds no code: save what it fits, "
            "model.save(path) or validatorModel.bestModel.save(path), and build the estimator anew"
        )

    def save(self, path: str) -> NoReturn:
        """Refuse, as :meth:`write`.

        Raises
        ------
        InvalidArgumentError
        """
        del path
        self.write()

    def _configuration(self) -> dict[str, Any]:
        params = [self.getParam(name) for name in self._names]
        # Spark ML lets a null pass unchecked.
        return {param.name: param.typeConverter(self.getOrDefault(param)) for param in params}

    def _check_own(self, params: Mapping[Any, Any], what: str) -> None:
        for param in params:
            if not isinstance(param, Param) or param.parent != self.uid or not self.hasParam(param.name):
                known = ", ".join(f"estimator.{each.name}" for each in self.params)
                raise InvalidArgumentError(
                    f"{what} sets {param!s}, which is no Param of {self.uid}: build the grid with this estimator's own "
                    f"({known})"
                )

    def _trained(self, dataset: DataFrame, configurations: list[dict[str, Any]]) -> Selection:
        search = replace(self._search, search_space=configurations, weight_column=self._weight)
        with Interrupts():
            prepared = interruptible(search.backend.spark, lambda: search.prepare(dataset))
            if self._missing_classes == "raise":
                limit_s, backend = search.unit_timeout_s, search.backend
                probed = probe(search.trainer_fn, configurations, prepared, search.seed, backend, limit_s=limit_s)
                check_classes(dataset, prepared, probed.session)
        return search.fit(prepared)

    @property
    def _weight(self) -> str | None:
        return (self.getWeightCol() or None) if self.isDefined(self.weightCol) else None

    def _named(self, model: TunedModel) -> TunedModel:
        """Set a model's uid and columns to those of this estimator."""
        model._resetUid(self.uid)  # noqa: SLF001 - as Spark ML's own models have their estimator's
        columns = {name: self.getOrDefault(name) for name in _COLUMNS if self.isSet(name)}
        return model._set(**columns)  # noqa: SLF001


class _Fits(Iterator[tuple[int, TunedModel]]):
    """Train some settings of one estimator in one run, and give their models; threads may share it."""

    def __init__(self, estimators: Sequence[NetworkEstimator], dataset: DataFrame) -> None:
        self._estimators = estimators
        self._configurations = [estimator._configuration() for estimator in estimators]  # noqa: SLF001
        self._given = 0
        weights = list(dict.fromkeys(estimator._weight for estimator in estimators))  # noqa: SLF001
        if len(weights) > 1:
            raise InvalidArgumentError(
                f"the param maps have several weightCol ({', '.join(map(repr, weights))}): one run has one copy of "
                "the rows; fit each by itself"
            )
        if estimators:
            with _TURN:
                self._selection = estimators[0]._trained(dataset, list(self._distinct.values()))  # noqa: SLF001
            _LOG.info("run %s trained %d configurations", self._selection.run_id, len(self._distinct))

    def __next__(self) -> tuple[int, TunedModel]:
        with _TURN:
            if self._given == len(self._estimators):
                raise StopIteration
            index = self._given
            self._given += 1
            return index, self._model(self._selection, index)

    @property
    def _distinct(self) -> dict[str, dict[str, Any]]:
        return {_key(configuration): configuration for configuration in self._configurations}

    def _model(self, selection: Selection, index: int) -> TunedModel:
        configuration = self._configurations[index]
        place = list(self._distinct).index(_key(configuration))
        trial_id = list(selection.history())[place]
        trial = next(trial for trial in selection.trials if trial.trial_id == trial_id)
        if trial.status != "finished":
            raise NoModelError(
                f"param map {index}, {configuration}, has no model: {trial_id} of run {selection.run_id} "
                f"{trial.status}. {trial.traceback or trial.reason}"
            )
        return self._estimators[index]._named(selection.model(trial_id))  # noqa: SLF001


def _key(configuration: Mapping[str, Any]) -> str:
    return json.dumps(configuration, sort_keys=True)
