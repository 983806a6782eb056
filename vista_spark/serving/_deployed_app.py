"""Deployment of an application on the driver: run it on its samples, record its calls, split its deadline."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.serving import CallCounts, CallTrace, split
from udfs.arrow import RowError
from udfs.serving import (
    Admission,
    BadRequestError,
    ModelFailedError,
    OpenModels,
    Row,
    ServedModel,
    TensorReader,
    TensorSpec,
)
from vista_spark.errors import InvalidArgumentError
from vista_spark.serving._app import CURRENT, CallAnswer
from vista_spark.serving._single_record import alone, batch_of_one
from vista_spark.serving._trunk_grouping import group_recipe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from optimizer.serving import BatchingProfile, QuerySplit
    from vista_spark.serving._app import App
    from vista_spark.serving._deployment import Deployment

__all__ = ["DeployedApp", "deployed_app", "outputs_of", "request_of"]

# A loop that reads each answer before the next call makes a chain as long as the loop.
_MOST_REPEATED = 4


@dataclass(slots=True)
class DeployedApp:
    """An application, and the calls that its requests make.

    ``served`` has name, version, inputs and outputs as callers see them, ``split`` the budgets of the models.
    """

    app: App
    served: ServedModel
    admission: Admission
    counts: CallCounts
    split: QuerySplit
    profiles: Mapping[str, BatchingProfile] = field(repr=False)

    @property
    def budgets(self) -> dict[str, float]:
        """Milliseconds of each called session: the smallest budget of its calls."""
        return {model: min(each) for model, each in self.counts.by_model(self.split.budgets).items()}

    @property
    def rates(self) -> dict[str, float]:
        """Calls per second of each called session, at the expected rate."""
        return {model: sum(each) for model, each in self.counts.by_model(self.split.query.rates).items()}


def deployed_app(
    app: App,
    deployments: Mapping[str, Deployment],
    profiles: Mapping[str, BatchingProfile],
    *,
    threads: int,
    device: str,
) -> DeployedApp:
    """Set an application up, and run it on its samples with models opened in this process.

    Raise InvalidArgumentError if the application fails on a sample, calls no model, calls one in a long chain, or
    returns no valid answer, and InfeasibleError if its deadline is too short for the models.
    """
    app.prepare(deployments)
    admission = Admission(app.name, tuple(app.inputs), {})
    counts = CallCounts()
    calls = _LocalCalls(deployments, threads, device)
    token = CURRENT.set(calls)
    answers: list[dict[str, NDArray[Any]]] = []
    try:
        for place, sample in enumerate(app.samples):
            calls.trace = CallTrace()
            try:
                (row,) = admission.rows(batch_of_one(sample, app.inputs))
                answers.append(outputs_of(app, app.process(request_of(app, row))))
            except Exception as error:
                raise InvalidArgumentError(
                    f"Application {app.name!r} fails on samples[{place}]: {type(error).__name__}: {error}"
                ) from error
            counts.add(calls.trace)
    finally:
        CURRENT.reset(token)
    if not counts.models:
        raise InvalidArgumentError(
            f"samples must make application {app.name!r} call a model, and none does. Give samples for which process() "
            "calls one."
        )
    if counts.repeated > _MOST_REPEATED:
        raise InvalidArgumentError(
            f"Application {app.name!r} calls a model {counts.repeated} times in a row, at most {_MOST_REPEATED} are "
            "allowed. Call execute() for all records first, then read the results."
        )
    query = counts.query(app.name, profiles, app.slo_ms, app.rate)
    served = ServedModel(app.name, app.version, tuple(app.inputs), _specs(app, answers), "application", app.slo_ms)
    return DeployedApp(app, served, admission, counts, split(query, by=app.split), profiles)


def request_of(app: App, row: Mapping[str, NDArray[Any]]) -> Any:
    """Convert a validated row to the argument of ``process``."""
    arrays = TensorReader(tuple(app.inputs)).read(row)
    # A single text, content or number is passed as itself, not as an array without axes.
    return alone({name: array[()] if array.ndim == 0 else array for name, array in arrays.items()})


def outputs_of(app: App, answer: Any) -> dict[str, NDArray[Any]]:
    """Convert the return value of ``process`` to arrays by name.

    Raises
    ------
    ModelFailedError
        A value is not an array, or does not match the application's `outputs`.
    """
    outputs = answer if isinstance(answer, dict) else {"output": answer}
    specs = {spec.name: spec for spec in app.outputs}
    if (
        not outputs
        or not all(isinstance(name, str) and name for name in outputs)
        or (specs and set(specs) != set(outputs))
    ):
        said = ", ".join(map(repr, outputs)) or "nothing"
        wanted = ", ".join(specs) if specs else "outputs with non-empty str names"
        raise ModelFailedError(f"Application {app.name!r} must return {wanted}, got {said}.")
    return {name: _array(app, name, value, specs.get(name)) for name, value in outputs.items()}


def _array(app: App, name: str, value: Any, spec: TensorSpec | None) -> NDArray[Any]:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ModelFailedError(f"Output {name!r} of application {app.name!r} is not an array: {error}") from error
    if array.dtype.kind in "US":
        array = array.astype(object)
    elif array.dtype.kind not in "biufO" or (
        array.dtype.kind == "O" and not all(isinstance(element, str | bytes) for element in array.reshape(-1))
    ):
        raise ModelFailedError(
            f"Output {name!r} of application {app.name!r} must be numbers, str or bytes, got {array.dtype}."
        )
    if spec is None:
        return array
    text = spec.dtype in {"bytes", "str"}
    wanted, shape = np.dtype(object if text else spec.dtype), spec.shape[1:]
    fits = len(shape) == array.ndim and all(want in (-1, size) for want, size in zip(shape, array.shape, strict=True))
    if not fits or not (np.can_cast(array.dtype, wanted, "same_kind") or (not array.size and not text)):
        raise ModelFailedError(
            f"Output {name!r} of application {app.name!r} must be {spec.dtype} of shape {shape}, got {array.dtype} of "
            f"shape {array.shape}."
        )
    return array.astype(wanted)


def _specs(app: App, answers: Sequence[Mapping[str, NDArray[Any]]]) -> tuple[TensorSpec, ...]:
    """Return the declared outputs, or those of the samples with every size open."""
    if app.outputs:
        return tuple(app.outputs)
    first = answers[0]
    kinds = {
        name: {(array.dtype.str, array.ndim) for answer in answers if (array := answer.get(name)) is not None}
        for name in first
    }
    if any(set(answer) != set(first) for answer in answers) or any(len(kind) > 1 for kind in kinds.values()):
        return ()
    return tuple(
        TensorSpec(name, "str" if array.dtype == object else array.dtype.name, (-1,) * (1 + array.ndim))
        for name, array in first.items()
    )


class _LocalCalls:
    """Models opened in this process, asked one row at a time."""

    def __init__(self, deployments: Mapping[str, Deployment], threads: int, device: str) -> None:
        self.trace = CallTrace()
        self._deployments = deployments
        traced = {
            deployment.network.source.key: deployment.network.traced
            for deployment in deployments.values()
            if deployment.network is not None
        }
        self._models = OpenModels(device, threads, traced if device == "cpu" else None)
        self._groups: dict[str, Any] = {}

    def execute(self, model: str, record: Any) -> Future[Any]:
        """Ask a model about one record, and wait for the answer."""
        deployment, trace = self._deployments[model], self.trace
        (row,) = deployment.admission.rows(batch_of_one(record, deployment.served.inputs))
        number = trace.call(model)
        answer = CallAnswer(lambda: trace.read(number))
        if model not in self._groups:
            self._groups[model] = self._models.open(group_recipe([deployment]))
        group = self._groups[model]
        try:
            (outputs,) = group.run([Row(model, "", group.readers[model].read(row))])
            answer.set_result(alone(outputs))
        except RowError as error:
            answer.set_exception(BadRequestError(f"{model}: {error}"))
        except Exception as error:  # noqa: BLE001 - whatever a model raises, as from a backend
            answer.set_exception(ModelFailedError(f"Model {model!r} failed: {type(error).__name__}: {error}"))
        return answer
