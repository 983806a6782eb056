"""Deployment of the variants of a catalog under one session name."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from optimizer.serving import InfeasibleError, Ladder
from optimizer.serving import Session as PlannedSession
from udfs.serving import TensorSpec
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optimizer.serving import BatchingProfile
    from vista_spark.serving._deployment import Deployment
    from vista_spark.serving._session import Session

__all__ = ["opened_catalog"]

_LOG = logging.getLogger(__name__)

_VARIANT = TensorSpec("variant", "str", (-1,))


def opened_catalog(
    session: Session, open_plain: Callable[[Session], tuple[Deployment, BatchingProfile]]
) -> tuple[Deployment, BatchingProfile]:
    """Open the variants of a session's catalog; return their deployment, and the profile of the most accurate one.

    Variants that miss the deadline on this machine, or that are not faster here than a more accurate one, are left out.

    Raises
    ------
    InvalidArgumentError
        Two variants have different outputs, or one has an output ``variant``.
    InfeasibleError
        Every variant misses the deadline.
    """
    names, accuracies, deployments, profiles = [], [], [], []
    fastest: PlannedSession | None = None
    late: InfeasibleError | None = None
    for variant in session.variants:
        plain = replace(session, catalog=None, min_accuracy=0.0, dollars_per_day=None, model=variant.model)
        try:
            deployment, profile = open_plain(plain)
            planned = PlannedSession(session.name, profile, float(session.slo_ms), float(session.rate))
        except InfeasibleError as error:
            _LOG.warning("variant %s of %s is left out: %s", variant.name, session.name, error)
            late = error
            continue
        if fastest is not None and not _is_faster(planned, fastest):
            _LOG.warning("variant %s of %s is left out: it is not faster here", variant.name, session.name)
            continue
        fastest = planned
        names.append(variant.name)
        accuracies.append(variant.measurement.accuracy)
        deployments.append(deployment)
        profiles.append(profile)
    if not deployments:
        raise InfeasibleError(
            f"slo_ms must be long enough for a variant of the catalog, got {session.slo_ms:g} in session "
            f"{session.name!r}. The fastest variant: {late}"
        ) from late
    _check_outputs(session, names, deployments)
    first = deployments[0]
    served = first.served
    # A function without declared outputs has those of its sample.
    served = (
        replace(served, outputs=(*served.outputs, _VARIANT))
        if served.outputs
        else replace(served, learned=(*served.learned, _VARIANT))
    )
    admission = first.admission
    if any(each.recipe.reader != first.recipe.reader for each in deployments):
        # Variants read images at several sizes, so a decoded image does not fit all of them.
        admission = replace(admission, decoded={})
    ladder = Ladder(tuple(names), tuple(accuracies), tuple(profiles))
    whole = replace(
        first,
        session=session,
        served=served,
        admission=admission,
        asked=session,
        variants=tuple(deployments),
        ladder=ladder,
    )
    return whole, profiles[0]


def _is_faster(variant: PlannedSession, accurate: PlannedSession) -> bool:
    return variant.peak_rate > accurate.peak_rate and variant.profile.latencies[1] <= accurate.profile.latencies[1]


def _check_outputs(session: Session, names: Sequence[str], deployments: Sequence[Deployment]) -> None:
    outputs = {
        name: sorted(spec.name for spec in each.served.described_outputs)
        for name, each in zip(names, deployments, strict=True)
    }
    first = next(iter(outputs.values()))
    if _VARIANT.name in first or any(each != first for each in outputs.values()):
        raise InvalidArgumentError(
            f"catalog must have variants with the same outputs, none of them named 'variant', got {outputs} in session "
            f"{session.name!r}."
        )
