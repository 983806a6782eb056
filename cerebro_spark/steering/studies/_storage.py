"""Read-only storage of Optuna whose studies are the experiments of a server."""

from __future__ import annotations

import copy
import json
import math
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.study._frozen import FrozenStudy
from optuna.trial import FrozenTrial, TrialState

from cerebro_spark.steering._client import Client
from optimizer.errors import CerebroError, nearest

if TYPE_CHECKING:
    from collections.abc import Container

    from optuna.distributions import BaseDistribution

__all__ = ["ExperimentStorage", "ReadOnlyStorageError"]

# Ids of trials are that of their study times this number, plus their own.
_TRIALS = 1_000_000
_STATES = {"running": TrialState.RUNNING, "paused": TrialState.RUNNING}
_ENDED = ("finished", "stopped")
_NUMBERS = (int, float)


class ReadOnlyStorageError(CerebroError, RuntimeError):
    """Write to a storage that can only be read."""


class ExperimentStorage(BaseStorage):
    """Storage of Optuna that reads the experiments of a server.

    A study is an experiment, and has its name. A trial has the last value of the metric that decides, and its values by
    epoch as steps from 1. Configurations that ended with a finished epoch are complete, those that failed or diverged
    have failed. Each call reads the present state. Writing raises :class:`ReadOnlyStorageError`.

    Parameters
    ----------
    client : Client, optional
        Client of the server. Default: ``Client()``.

    Examples
    --------
    >>> def best_params(run):
    ...     import optuna
    ...
    ...     return optuna.load_study(study_name=run, storage=ExperimentStorage()).best_params
    """

    def __init__(self, client: Client | None = None) -> None:
        self._client = client or Client()

    def get_all_studies(self) -> list[FrozenStudy]:
        """Return all experiments, the first one first."""
        return [
            FrozenStudy(
                study_name=each["run"],
                direction=None,
                directions=[_direction(each)],
                user_attrs=_attributes(each),
                system_attrs={},
                study_id=number,
            )
            for number, each in enumerate(self._experiments())
        ]

    def get_study_id_from_name(self, study_name: str) -> int:
        """Return the number of an experiment."""
        names = [each["run"] for each in self._experiments()]
        if study_name not in names:
            hint = nearest(study_name, names) or "."
            raise KeyError(f"study_name must be an experiment of the server, got {study_name!r}{hint}")
        return names.index(study_name)

    def get_study_name_from_id(self, study_id: int) -> str:
        """Return the name of an experiment."""
        return str(self._experiment(study_id)["run"])

    def get_study_directions(self, study_id: int) -> list[StudyDirection]:
        """Return the direction of the metric that decides."""
        return [_direction(self._experiment(study_id))]

    def get_study_user_attrs(self, study_id: int) -> dict[str, Any]:
        """Return the store, procedure and metric of an experiment."""
        return _attributes(self._experiment(study_id))

    def get_study_system_attrs(self, study_id: int) -> dict[str, Any]:
        """Return the name of the metric, for Optuna's plots."""
        return {"study:metric_names": [self._experiment(study_id)["metric"]]}

    def get_all_trials(
        self,
        study_id: int,
        deepcopy: bool = True,
        states: Container[TrialState] | None = None,
    ) -> list[FrozenTrial]:
        """Return the configurations of an experiment in the order of their starts."""
        experiment = self._experiment(study_id)
        configurations = self._client.configurations(experiment["run"])
        curves = self._client.metrics(experiment["run"])["curves"]
        distributions = _distributions(configurations)
        trials = [
            _trial(study_id, number, each, curves.get(each["trial"]), distributions, experiment["created"])
            for number, each in enumerate(configurations)
        ]
        chosen = [trial for trial in trials if states is None or trial.state in states]
        return copy.deepcopy(chosen) if deepcopy else chosen

    def get_trial(self, trial_id: int) -> FrozenTrial:
        """Return a configuration."""
        trials = self.get_all_trials(trial_id // _TRIALS)
        if trial_id % _TRIALS >= len(trials):
            raise KeyError(f"trial_id must be a trial of the study, got {trial_id}.")
        return trials[trial_id % _TRIALS]

    def _experiments(self) -> list[dict[str, Any]]:
        return sorted(self._client.experiments(), key=lambda each: each["created"])

    def _experiment(self, study_id: int) -> dict[str, Any]:
        experiments = self._experiments()
        if not 0 <= study_id < len(experiments):
            raise KeyError(f"study_id must be below {len(experiments)}, got {study_id}.")
        return experiments[study_id]

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise ReadOnlyStorageError(
            "storage must be read only, got a write of Optuna. Send commands with cerebro_spark.steering.Client"
        )

    create_new_study = delete_study = set_study_user_attr = set_study_system_attr = _refuse
    create_new_trial = set_trial_param = set_trial_state_values = set_trial_intermediate_value = _refuse
    set_trial_user_attr = set_trial_system_attr = _refuse


def _direction(experiment: dict[str, Any]) -> StudyDirection:
    return StudyDirection.MAXIMIZE if experiment["mode"] == "max" else StudyDirection.MINIMIZE


def _attributes(experiment: dict[str, Any]) -> dict[str, Any]:
    return {name: experiment[name] for name in ("store", "procedure", "metric", "state")}


def _distributions(configurations: list[dict[str, Any]]) -> dict[str, BaseDistribution]:
    """Return the ranges and options that the configurations have; the server need not know their space."""
    values: dict[str, list[Any]] = {}
    for each in configurations:
        for name, value in each["params"].items():
            values.setdefault(name, []).append(_value(value))
    return {name: _distribution(tried) for name, tried in values.items()}


def _distribution(tried: list[Any]) -> BaseDistribution:
    if not all(isinstance(value, _NUMBERS) and not isinstance(value, bool) for value in tried):
        return CategoricalDistribution(list({repr(value): value for value in tried}.values()))
    low, high = min(tried), max(tried)
    log = low > 0 and high > 10 * low
    if all(isinstance(value, int) for value in tried):
        return IntDistribution(low, high, log=log)
    return FloatDistribution(low, high, log=log)


def _value(value: Any) -> Any:
    return value if isinstance(value, str | bool | int | float) or value is None else json.dumps(value)


def _trial(
    study_id: int,
    number: int,
    configuration: dict[str, Any],
    curve: dict[str, list[Any]] | None,
    distributions: dict[str, BaseDistribution],
    created: float,
) -> FrozenTrial:
    values = {} if curve is None else dict(zip(curve["epochs"], map(float, curve["values"]), strict=True))
    last = values[max(values)] if values else math.nan
    is_complete = configuration["status"] in _ENDED and math.isfinite(last)
    state = _STATES.get(configuration["status"], TrialState.COMPLETE if is_complete else TrialState.FAIL)
    start = datetime.fromtimestamp(created)  # noqa: DTZ006 - Optuna's times have no zone
    params = {name: _value(value) for name, value in configuration["params"].items()}
    attributes = {name: configuration[name] for name in ("trial", "owner", "parent", "reason")}
    return FrozenTrial(
        number=number,
        state=state,
        value=last if state == TrialState.COMPLETE else None,
        datetime_start=start,
        datetime_complete=start + timedelta(seconds=configuration["seconds"]) if state.is_finished() else None,
        params=params,
        distributions={name: distributions[name] for name in params},
        user_attrs=attributes,
        system_attrs={},
        intermediate_values=values,
        trial_id=study_id * _TRIALS + number,
    )
