"""Run of a function on a sample record when it is deployed: check of the function, and description of its outputs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from udfs.serving import OpenModels, OutputError, Row, TensorSpec, output_specs
from vista_spark.errors import InvalidArgumentError
from vista_spark.serving._deployment import sample_row
from vista_spark.serving._trunk_grouping import group_recipe

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vista_spark.serving._deployment import Deployment

__all__ = ["learned_outputs", "with_learned_outputs"]


def with_learned_outputs(deployment: Deployment, *, strict: bool = False) -> Deployment:
    """Run a function on its sample, and add the outputs to the description of the model; keep a network unchanged.

    A function with a profile may fail on a sample that is made up, unless ``strict``: it may need a record of another
    kind, or the machine of a backend. Raise InvalidArgumentError if it fails on the session's own sample or returns
    outputs that cannot be sent.
    """
    session, served = deployment.session, deployment.served
    if deployment.network is not None:
        return deployment
    try:
        learned = learned_outputs(deployment)
    except OutputError as error:
        raise InvalidArgumentError(f"model must return outputs that can be sent. {error}") from error
    except (Exception, SystemExit) as error:
        if session.profile is not None and session.sample is None and not strict:
            return deployment
        record = "a made-up record" if session.sample is None else "its sample"
        why = str(error).rstrip(".")
        raise InvalidArgumentError(
            f"model must answer {record}, got {type(error).__name__} in session {session.name!r}: {why}. Set sample to "
            "a record that the model accepts."
        ) from error
    missing = {spec.name for spec in served.outputs} - {spec.name for spec in learned}
    if missing:
        raise InvalidArgumentError(
            f"outputs must be among {', '.join(spec.name for spec in learned)}, which the model returns, got "
            f"{', '.join(sorted(missing))} in session {session.name!r}."
        )
    return replace(deployment, served=replace(served, learned=learned))


def learned_outputs(deployment: Deployment) -> tuple[TensorSpec, ...]:
    """Run a function on a sample, or two of different sizes if its inputs have open ones; describe its outputs.

    Raises
    ------
    Exception
        Any error of the function.
    """
    name = deployment.served.name
    group = OpenModels("cpu", 1).open(group_recipe([deployment]))

    def answer(size: int) -> dict[str, NDArray[Any]]:
        arrays = group.readers[name].read(sample_row(deployment, size))
        (outputs,) = group.run([Row(name, "", arrays)])
        return outputs

    answers = [answer(1)]
    if deployment.session.sample is None and any(-1 in spec.shape[1:] for spec in deployment.served.inputs):
        with suppress(Exception):  # the sizes of several inputs may have to agree
            answers.append(answer(2))
    return output_specs(answers)
