"""Planning of a feature transfer: workload, cost and choice of a plan."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from optimizer.memory import SPARK4, Downstream, InfeasiblePlanError, plan_inside, plan_transfer
from optimizer.transfer import Choice, TransferCost, choose_transfer, plan_layers, size_workload
from udfs.driver import validate_arguments
from udfs.images import BYTES_PER_PIXEL, MAX_PIXELS
from udfs.node import check_device
from vista_spark.network import network, profile_network

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from optimizer.memory import (
        ClusterSpec,
        Constants,
        Envelope,
        Join,
        Logical,
        Persistence,
        TransferPlan,
        TransferWorkload,
    )
    from optimizer.transfer import LogicalPlan, ModelProfile
    from udfs.inference import Pooling
    from vista_spark.network import Network

__all__ = [
    "Decisions",
    "TransferData",
    "TransferProblem",
    "choose",
    "downstream_size",
    "in_session",
    "named_size",
    "plan_feature_transfer",
]

_LOG = logging.getLogger(__name__)

# Nodes that Spark's trees split at a time by default, in units of all features: the 16 of the last level, in a forest
# of 20 trees on a third of the features, or for a classifier on their square root (less than a tenth, in a transfer).
_TREE_NODES = {"RandomForestRegressor": 107, "RandomForestClassifier": 32}

# Tried in this order; activations shrink with the batch.
_BATCHES = (32, 8, 2)

# Hidden layers of an MLPClassifier by default (Vista, section 5).
_HIDDEN = (1024, 1024, 1024)

# The envelope of a plan that was asked for by name and fits nowhere: nothing is short.
_BOUNDLESS = 1 << 50


@dataclass(frozen=True, slots=True)
class TransferData:
    """Sizes of the tables.

    ``rows`` are the ids that both tables have; ``structured_features`` counts columns, or the length of the vector;
    ``image_bytes`` is the mean size of an encoded image.
    """

    rows: int
    structured_features: int
    image_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Decisions:
    """Decisions of the user; the planner makes the others.

    ``None`` and ``plan="auto"`` leave a decision to the planner, which tries smaller batches as long as memory keeps a
    core idle.
    """

    plan: str = "auto"
    join: Join | None = None
    persistence: Persistence | None = None
    partitions: int | None = None
    batch_size: int | None = None
    device: str = "auto"


@dataclass(frozen=True, kw_only=True, slots=True)
class TransferProblem:
    """Transfer to plan.

    ``targets`` are the graph's layers to transfer, from the bottom to the top, and what the user calls them;
    ``pooling`` of their tensors is outside of the network.
    """

    network: Network
    targets: Mapping[str, str]
    pooling: Pooling
    data: TransferData
    downstream: Downstream
    decisions: Decisions


@validate_arguments
def plan_feature_transfer(  # noqa: PLR0913 - every option by its name
    model: Any,
    cluster: ClusterSpec,
    *,
    rows: int,
    structured_features: int,
    image_bytes: int,
    weights: str | os.PathLike[str] | None = None,
    layers: int | str | Sequence[int | str] = 4,
    pooling: str | None = None,
    layout: str | Mapping[str, str] | None = None,
    image_size: int | None = None,
    max_pixels: int | None = None,
    start_layer: str | None = None,
    max_length: int | None = None,
    plan: str = "auto",
    batch_size: int | None = None,
    device: str = "auto",
    downstream: Downstream | None = None,
    constants: Constants = SPARK4,
) -> Choice:
    """Plan a feature transfer for machines on which no Spark runs yet.

    Parameters
    ----------
    model : str, ModelCard, or a model
        See :class:`vista_spark.FeatureTransfer`.
    cluster : ClusterSpec
        Machines to plan for.
    rows : int
        Ids that both tables have.
    structured_features : int
        Columns beside the id and the label.
    image_bytes : int
        Mean size of an encoded image; with `start_layer`, of its tensor.
    weights, layers, pooling, layout, image_size, max_pixels, start_layer, max_length, plan, batch_size, device
        See :class:`vista_spark.FeatureTransfer`.
    downstream : Downstream, optional
        A logistic regression of two classes by default.
    constants : Constants
        Constants of the memory model.

    Returns
    -------
    Choice
        ``choice.physical`` is what :func:`vista_spark.session` takes as ``plan``; ``print(choice.explain())``.

    Raises
    ------
    InfeasiblePlanError
        No plan fits; the message has the smallest machines on which one would.
    UnknownModelError, UnknownLayerError, WeightsError, InvalidArgumentError
        As everywhere.

    Examples
    --------
    >>> from optimizer.memory import ClusterSpec
    >>> choice = plan_feature_transfer(
    ...     "squeezenet1_1",
    ...     ClusterSpec(nodes=2, cores=4, memory_bytes=32 << 30),
    ...     layers=2,
    ...     batch_size=2,
    ...     rows=10_000,
    ...     structured_features=20,
    ...     image_bytes=50_000,
    ... )
    >>> choice.physical.cores, choice.physical.join
    (4, 'broadcast')
    """
    check_device(device)
    net = network(model, weights, 0, image_size, max_length).limited(max_pixels).arranged(layout).above(start_layer)
    problem = TransferProblem(
        network=net,
        targets=net.targets(layers, pooling),
        pooling=net.remaining_pooling(pooling),
        data=TransferData(rows, structured_features, image_bytes),
        downstream=downstream or Downstream.logistic_regression(),
        decisions=Decisions(plan=plan, batch_size=batch_size, device=device),
    )

    def apportion(workload: TransferWorkload, logical: Logical) -> TransferPlan:
        return plan_transfer(workload, cluster, constants, logical=logical)

    return choose(problem, apportion)


def choose(problem: TransferProblem, apportion: Callable[[TransferWorkload, Logical], TransferPlan]) -> Choice:
    """Choose a plan, or lay out the one that was asked for, with the batch that gives the fewest seconds.

    ``apportion`` makes the memory plan of a workload. Raise InfeasiblePlanError if nothing fits.
    """
    best: Choice | None = None
    refusal: InfeasiblePlanError | None = None
    decisions = problem.decisions
    for size in (decisions.batch_size,) if decisions.batch_size else _BATCHES:
        profile = profile_network(problem.network, batch_size=size, device=decisions.device)
        try:
            choice = _with_profile(problem, profile, apportion)
        except InfeasiblePlanError as error:
            refusal = error
            continue
        if best is None or choice.seconds < best.seconds:
            best = choice
        if not choice.physical.memory_bound:
            break
    if best is None:
        assert refusal is not None  # some batch was tried
        raise refusal
    return best


def _with_profile(
    problem: TransferProblem, profile: ModelProfile, apportion: Callable[[TransferWorkload, Logical], TransferPlan]
) -> Choice:
    net, targets, data = problem.network, list(problem.targets), problem.data
    graph = net.graph
    lengths = {target: net.length(target, problem.pooling) for target in targets}

    footprint = profile.footprint
    if net.max_pixels is not None and net.max_pixels != MAX_PIXELS:
        # A limit suggests images just below it; each worker decodes one image at a time.
        decoding = net.max_pixels * BYTES_PER_PIXEL
        footprint = replace(footprint, runtime_bytes=footprint.runtime_bytes + decoding)

    def planned(logical: LogicalPlan) -> TransferPlan:
        workload = size_workload(
            graph,
            logical,
            footprint,
            problem.downstream,
            structured_rows=data.rows,
            # The label is a column too.
            structured_features=data.structured_features + 1,
            image_bytes=data.image_bytes,
            features=lengths,
        )
        return apportion(workload, logical.logical)

    names = {**net.inputs, **problem.targets}
    cost = TransferCost(profile)
    if problem.decisions.plan == "auto":
        return choose_transfer(graph, targets, planned, cost, model=net.card.name, names=names)
    logical = plan_layers(graph, targets, cast("Logical", problem.decisions.plan), model=net.card.name, names=names)
    physical = planned(logical)
    return Choice(logical, physical, cost.seconds(logical, physical), ())


def in_session(envelope: Envelope, decisions: Decisions) -> Callable[[TransferWorkload, Logical], TransferPlan]:
    """Apportion memory within a session.

    A plan that was asked for by name is laid out even where memory is short, and the log says what is.
    """
    inside = partial(
        plan_inside, join=decisions.join, persistence=decisions.persistence, partitions=decisions.partitions
    )

    def apportion(workload: TransferWorkload, logical: Logical) -> TransferPlan:
        try:
            return inside(workload, envelope, logical=logical)
        except InfeasiblePlanError as error:
            if decisions.plan == "auto" or error.constraint == "partition":
                raise
            _LOG.warning('plan="%s" was asked for and may run out of memory: %s', logical, error)
            boundless = replace(
                envelope,
                heap_bytes=_BOUNDLESS,
                beside_bytes=_BOUNDLESS,
                driver_heap_bytes=_BOUNDLESS,
                gpu_memory_bytes=envelope.gpu_memory_bytes and _BOUNDLESS,
            )
            # All of it is storage, so that tables are held as the user's plan would hold them.
            return inside(workload, boundless, logical=logical)

    return apportion


def downstream_size(estimator: Any, classes: int) -> Downstream:
    """Size the memory of an estimator as far as it is known.

    An estimator may hold another: the inner one counts. ``classes`` is the largest label + 1; a regression has none.
    """
    if estimator.hasParam("estimator") and estimator.isDefined("estimator"):
        return downstream_size(estimator.getOrDefault("estimator"), classes)
    if estimator.hasParam("classifier") and estimator.isDefined("classifier"):
        # OneVsRest: each of its models tells one class from all others.
        return downstream_size(estimator.getOrDefault("classifier"), 2)
    if hasattr(estimator, "getStages") and estimator.getStages():
        return downstream_size(estimator.getStages()[-1], classes)
    hidden = estimator.getOrDefault("layers") if estimator.hasParam("layers") else ()
    return named_size(type(estimator).__name__, classes, hidden)


def named_size(kind: str, classes: int, hidden: Sequence[int] = ()) -> Downstream:
    """Size the memory of an estimator by the name of its class, without a Spark session."""
    regression = kind.endswith(("Regressor", "Regression")) and kind != "LogisticRegression"
    classes = 0 if regression else max(2, classes)
    if kind.startswith("MLP"):
        return Downstream.mlp(hidden or _HIDDEN, max(1, classes))
    if kind.startswith("GBT"):
        # Its trees fit residuals, which are numbers, for a classifier too.
        return Downstream.trees(kind, 0)
    if kind.startswith(("RandomForest", "DecisionTree")):
        return Downstream.trees(kind, classes, nodes=_TREE_NODES.get(kind, 16))
    return replace(Downstream.logistic_regression(classes), name=kind)
