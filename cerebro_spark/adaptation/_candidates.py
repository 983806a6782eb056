"""Configurations opened on the driver, with their graphs for the planner."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from traceback import clear_frames
from typing import TYPE_CHECKING, Any

from cerebro_spark.adaptation._warm_start import layout_of
from cerebro_spark.errors import InvalidArgumentError, TrainerError
from cerebro_spark.hopper import run_trial
from optimizer.adaptation import Candidate, training_flops
from optimizer.errors import CerebroError
from optimizer.graph import LayerGraph, frontier, materialisable
from udfs.adaptation import column_names, input_specs
from udfs.handlers import ModelTrainer, open_adapted, settings_kept
from udfs.hopper import configuration_key
from udfs.training import initial_seed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from udfs.handlers import Adapted
    from udfs.shards import PreparedData

__all__ = ["Candidates", "OpenedCandidate"]

_LOG = logging.getLogger(__name__)

# Packages that compute for a framework, besides the framework itself.
_COMPUTING = {"keras": ("tensorflow", "tensorflow-cpu")}


class _RandomTrunkError(InvalidArgumentError):
    """Frozen weights that differ from call to call."""


@dataclass(frozen=True, slots=True)
class OpenedCandidate:
    """Configuration without its weights.

    ``graph`` is that of the whole model, in the first phase of a freezing schedule. ``phases`` are all phases with
    their first epochs, and the model with the layers frozen that were frozen in all epochs so far. ``slots`` is the
    number of tensors that the optimizer keeps for each trained parameter. ``whole`` is the reason for training the
    model whole, ``""`` if it is split. ``layout`` is :func:`layout_of` the checkpoints, for warm starts.
    """

    params: dict[str, Any]
    graph: LayerGraph
    batch_size: int
    epochs: int | None
    slots: int
    whole: str
    layout: str = ""
    phases: tuple[tuple[int, LayerGraph], ...] = ()

    @property
    def feeds(self) -> list[str]:
        """Expressions of the frozen layers that trained layers read, without inputs, in topological order."""
        return [self.graph.expression(name) for name in frontier(self.graph) if name not in self.graph.inputs]

    @property
    def frozen_flops(self) -> int:
        """FLOPs of the frozen layers for one record."""
        return self.graph.flops(materialisable(self.graph))

    @property
    def graphs(self) -> list[LayerGraph]:
        """Model of each phase."""
        return [graph for _, graph in self.phases] or [self.graph]

    def phase(self, epoch: int) -> int:
        """Return the number of an epoch's phase."""
        return max((place for place, (start, _) in enumerate(self.phases) if start <= epoch), default=0)

    def graph_in(self, epoch: int) -> LayerGraph:
        """Return the model of an epoch."""
        return self.phases[self.phase(epoch)][1] if self.phases else self.graph

    def learning_flops(self, epoch: int) -> int:
        """Count the FLOPs of a training step for one record, without layers that were frozen so far."""
        graph = self.graph_in(epoch)
        frozen = set(materialisable(graph))
        return sum(flops for name, flops in training_flops(graph).items() if name not in frozen)

    def candidate(self, name: str, epoch: int) -> Candidate:
        """Return the planner's candidate for one epoch."""
        return Candidate(name, self.graph_in(epoch), 1, self.batch_size, self.slots)

    def candidates(self, name: str, epochs: int) -> list[Candidate]:
        """Return the planner's candidates for all epochs, one for each phase of a freezing schedule."""
        starts = [start for start, _ in self.phases if start < epochs] or [0]
        return [
            Candidate(
                name if start == 0 else f"{name} from {start}",
                self.graph_in(start),
                end - start,
                self.batch_size,
                self.slots,
            )
            for start, end in zip(starts, [*starts[1:], epochs], strict=True)
        ]


class Candidates:
    """Cache of opened configurations without their weights.

    ``layouts`` computes the layouts of checkpoints, for warm starts. A configuration that cannot be opened is tried
    once in a cycle: its error is kept until :meth:`begin_cycle`.
    """

    def __init__(
        self,
        trainer_fn: Callable[[dict[str, Any]], Any],
        data: PreparedData,
        *,
        seed: int,
        layouts: bool = False,
    ) -> None:
        self._trainer_fn = trainer_fn
        self._finds_layouts = layouts
        self._data = data
        self._seed = seed
        self._limit_s: float | None = None
        self._opened: dict[str, OpenedCandidate] = {}
        # Configurations that cannot be opened, with their errors.
        self._failed: dict[str, tuple[Mapping[str, Any], CerebroError]] = {}
        self._frameworks: set[str] = set()
        # Expressions of frozen layers that are the same with two seeds.
        self._seeded: set[str] = set()

    def begin_cycle(self, limit_s: float | None) -> None:
        """Forget the errors of the last cycle; ``limit_s`` limits the seconds in which a configuration is built."""
        self._limit_s = limit_s
        self._failed.clear()

    def open_all(self, configurations: Sequence[Mapping[str, Any]]) -> list[OpenedCandidate | None]:
        """Open configurations; ``None`` stands for those that cannot be opened.

        Raises
        ------
        InvalidArgumentError
            The frozen weights of a configuration are random, so that the others do not share them.
        CerebroError
            No configuration can be opened; the error is that of the first one.
        """
        known = set(self._failed)
        opened = [self.find(params) for params in configurations]
        failed = {key: failure for key, failure in self._failed.items() if key not in known}
        errors = [error for _, error in failed.values()]
        random = [error for error in errors if isinstance(error, _RandomTrunkError)]
        for error in random if any(opened) else errors:
            raise error
        for params, error in failed.values():
            _LOG.warning("configuration %s is in no group, because it cannot be opened: %s", dict(params), error)
            # A partly built model is not kept with its error.
            for each in (error, error.__cause__):
                clear_frames(None if each is None else each.__traceback__)
        return opened

    def find(self, params: Mapping[str, Any]) -> OpenedCandidate | None:
        """Open a configuration, or return the cached one; ``None`` if it cannot be opened."""
        try:
            return self.open(params)
        except CerebroError:
            return None

    def open(self, params: Mapping[str, Any]) -> OpenedCandidate:
        """Open a configuration, or return the cached one; raise its error if it cannot be opened."""
        key = configuration_key(params)
        if key in self._failed:
            raise self._failed[key][1]
        if key not in self._opened:
            try:
                self._opened[key] = self._open(params)
            except CerebroError as error:
                self._failed[key] = params, error
                raise
        return self._opened[key]

    def _open(self, params: Mapping[str, Any]) -> OpenedCandidate:
        adapted = self.build(params, "probe")
        trainer = adapted.trainer
        drawn = self._drawn(params, adapted)
        # Warm starts begin with learned weights: only layers that no phase trains are still frozen.
        cuts = adapted.cuts[-1:] if self._finds_layouts else adapted.cuts
        phases = tuple((cut.start, _without(cut.graph, drawn)) for cut in cuts)
        self._frameworks.add(str(trainer.framework))
        return OpenedCandidate(
            dict(params),
            phases[0][1] if phases else adapted.graph,
            trainer.batch_size,
            trainer.epochs,
            adapted.slots,
            adapted.whole,
            layout_of(adapted.session.checkpoint()) if self._finds_layouts else "",
            phases,
        )

    def build(self, params: Mapping[str, Any], name: str) -> Adapted:
        """Build a configuration with random numbers that follow from a name."""
        try:
            with settings_kept():
                work = partial(self.opener, params, seed=initial_seed(self._seed, name))
                adapted = run_trial(work, params, self._limit_s)
        except CerebroError:
            raise
        except Exception as error:
            raise TrainerError(f"trainer_fn({dict(params)}) raises {type(error).__name__}: {error}") from error
        if not isinstance(adapted.trainer, ModelTrainer):
            raise TrainerError(
                f"trainer_fn must return a ModelTrainer in an adaptation, got {type(adapted.trainer).__name__} for "
                f"{dict(params)}"
            )
        return adapted

    @property
    def opener(self) -> Callable[..., Adapted]:
        """Function that opens a configuration in a worker, where trained weights do not matter."""
        return partial(
            open_adapted,
            self._trainer_fn,
            seed=initial_seed(self._seed, "probe"),
            inputs=input_specs(self._data),
            columns=column_names(self._data),
            weighted=self._data.weights is not None,
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Messages about configurations that train whole or cannot be opened, and about freezing schedules."""
        reasons = Counter(
            opened.whole or "nothing below what learns is frozen"
            for opened in self._opened.values()
            if opened.whole or not (opened.feeds or opened.phases)
        )
        phased = sum(bool(opened.phases) for opened in self._opened.values())
        number = len(self._opened)
        whole = [f"note: {count} of {number} configurations train whole: {reason}" for reason, count in reasons.items()]
        note = f"note: {phased} of {number} configurations have a freezing schedule, and are planned by phases"
        failed = [
            f"note: configuration {dict(params)} is in no group, because the driver cannot open it: {error}"
            for params, error in self._failed.values()
        ]
        return (*([note] if phased else []), *whole, *failed)

    @property
    def layouts(self) -> dict[str, str]:
        """Layouts of checkpoints, by :func:`udfs.hopper.configuration_key`."""
        return {key: opened.layout for key, opened in self._opened.items() if opened.layout}

    def suits(self, trainer_fn: Callable[[dict[str, Any]], Any], *, seed: int, layouts: bool) -> bool:
        """Return True if the cache is valid for the settings of another cycle."""
        return (self._trainer_fn, self._seed) == (trainer_fn, seed) and self._finds_layouts >= layouts

    @property
    def made_with(self) -> str:
        """Frameworks of the configurations with their versions, which may change the bits of outputs."""
        packages = sorted({package for name in self._frameworks for package in (name, *_COMPUTING.get(name, ()))})
        return ", ".join(f"{package} {version(package)}" for package in packages if _installed(package))

    def _drawn(self, params: Mapping[str, Any], adapted: Adapted) -> set[str]:
        """Return the frozen layers whose weights follow from the seed, so that candidates do not share them.

        Raises
        ------
        _RandomTrunkError
            Such a layer never trains: each candidate would have another trunk.
        """
        graphs = [cut.graph for cut in adapted.cuts] or [adapted.graph]
        expressions = set().union(*map(_with_weights, graphs))
        if expressions <= self._seeded:
            return set()
        other = self.build(params, "another")
        theirs = set().union(*map(_with_weights, [cut.graph for cut in other.cuts] or [other.graph]))
        if not _with_weights(graphs[-1]) <= theirs:
            raise _RandomTrunkError(
                f"trainer_fn must build the same frozen weights each time, got random ones for {dict(params)}: load "
                "pre-trained weights, or seed them with torch.manual_seed(0) before the layers are built"
            )
        self._seeded |= expressions & theirs
        return expressions - theirs


def _without(graph: LayerGraph, drawn: Collection[str]) -> LayerGraph:
    """Mark drawn layers as trainable."""
    if not drawn:
        return graph
    layers = [replace(layer, frozen=layer.frozen and graph.expression(layer.name) not in drawn) for layer in graph]
    return LayerGraph(layers, graph.outputs)


def _with_weights(graph: LayerGraph) -> set[str]:
    """Return the expressions of the materialisable layers with weights."""
    return {graph.expression(name) for name in materialisable(graph) if graph[name].param_bytes}


def _installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True
