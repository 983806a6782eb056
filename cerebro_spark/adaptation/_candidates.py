"""Configurations opened on the driver: the graphs, and all else that the planner is told of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from cerebro_spark.adaptation._warm import layout_of
from cerebro_spark.errors import InvalidArgumentError, TrainerError
from optimizer.adaptation import Candidate, training_flops
from optimizer.errors import CerebroError
from optimizer.graph import LayerGraph, frontier, materialisable
from udfs.adaptation import column_names, input_specs
from udfs.handlers import ModelTrainer, open_adapted
from udfs.hopper import configuration_key
from udfs.training import initial_seed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from udfs.handlers import Adapted
    from udfs.shards import PreparedData

__all__ = ["Candidates", "OpenedCandidate"]

# Packages that compute for a framework.
_BESIDE = {"keras": ("tensorflow", "tensorflow-cpu")}


@dataclass(frozen=True, slots=True)
class OpenedCandidate:
    """What is known of a configuration without its weights.

    Parameters
    ----------
    params : dict
    graph : LayerGraph
        Of the whole model; with a freezing schedule, as it trains first.
    batch_size : int
    epochs : int or None
        As its trainer says.
    slots : int
        Tensors that the optimizer keeps for each trained parameter.
    whole : str
        Why it trains whole; ``""`` where it was opened.
    layout : str
        :func:`layout_of` its checkpoints, where it was asked for. Default ``""``.
    phases : tuple of (int, LayerGraph)
        Of a freezing schedule: from which epoch on, and the model with the layers frozen that were in all epochs so
        far. Default none.
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
        """Expressions of the frozen layers that the part that learns reads, without inputs; in topological order."""
        return [self.graph.expression(name) for name in frontier(self.graph) if name not in self.graph.inputs]

    @property
    def frozen_flops(self) -> int:
        """FLOPs of the layers that training never changes, for one record."""
        return self.graph.flops(materialisable(self.graph))

    @property
    def graphs(self) -> list[LayerGraph]:
        """The model as it trains in each phase."""
        return [graph for _, graph in self.phases] or [self.graph]

    def phase(self, epoch: int) -> int:
        """Number the phase of an epoch."""
        return max((place for place, (start, _) in enumerate(self.phases) if start <= epoch), default=0)

    def graph_in(self, epoch: int) -> LayerGraph:
        """Give the model as it trains in an epoch."""
        return self.phases[self.phase(epoch)][1] if self.phases else self.graph

    def learning_flops(self, epoch: int) -> int:
        """Count the FLOPs of a step of training for one record, without the layers that no training changed so far."""
        graph = self.graph_in(epoch)
        frozen = set(materialisable(graph))
        return sum(flops for name, flops in training_flops(graph).items() if name not in frozen)

    def candidate(self, name: str, epoch: int) -> Candidate:
        """Give what the planner takes, for one epoch."""
        return Candidate(name, self.graph_in(epoch), 1, self.batch_size, self.slots)

    def candidates(self, name: str, epochs: int) -> list[Candidate]:
        """Give what the planner takes for all epochs: of a freezing schedule a candidate for each phase."""
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
    """Opens each configuration once, and keeps its graph; the weights go.

    Parameters
    ----------
    trainer_fn : callable
    data : PreparedData
        Of which the columns count, not the rows.
    seed : int
        Of the campaign.
    layouts : bool
        Find the layouts of their checkpoints, for warm starts. Default false.

    Raises
    ------
    TrainerError
        ``trainer_fn`` raises, or gives no :class:`ModelTrainer`.
    InvalidArgumentError
        The trunk's weights are drawn at random, so that no two candidates share it.
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
        self._opened: dict[str, OpenedCandidate] = {}
        self._frameworks: set[str] = set()
        # Expressions of trunks that two seeds have drawn alike.
        self._seeded: set[str] = set()

    def open(self, params: Mapping[str, Any]) -> OpenedCandidate:
        """Open a configuration, or find what was opened before."""
        key = configuration_key(params)
        if key not in self._opened:
            adapted = self.build(params, "probe")
            trainer = adapted.trainer
            drawn = self._drawn(params, adapted)
            # Warm starts train on what earlier cycles have learned: only what no phase frees is as it was.
            cuts = adapted.cuts[-1:] if self._finds_layouts else adapted.cuts
            phases = tuple((cut.start, _without(cut.graph, drawn)) for cut in cuts)
            self._frameworks.add(str(trainer.framework))
            self._opened[key] = OpenedCandidate(
                dict(params),
                phases[0][1] if phases else adapted.graph,
                trainer.batch_size,
                trainer.epochs,
                adapted.slots,
                adapted.whole,
                layout_of(adapted.session.checkpoint()) if self._finds_layouts else "",
                phases,
            )
        return self._opened[key]

    def build(self, params: Mapping[str, Any], name: str) -> Adapted:
        """Build a configuration; what it draws follows from a name."""
        try:
            adapted = self.opener(params, seed=initial_seed(self._seed, name))
        except CerebroError:
            raise
        except Exception as error:
            raise TrainerError(f"trainer_fn({dict(params)}) raises {type(error).__name__}: {error}") from error
        if not isinstance(adapted.trainer, ModelTrainer):
            raise TrainerError(
                f"trainer_fn({dict(params)}) gave a {type(adapted.trainer).__name__}: an adaptation trains a "
                "ModelTrainer, whose steps it knows"
            )
        return adapted

    @property
    def opener(self) -> Callable[..., Adapted]:
        """The function that opens a configuration in a worker; the weights of what learns do not matter there."""
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
        """Say how many of the configurations opened so far train whole, and why, and how many by phases."""
        reasons = Counter(
            one.whole or "nothing below what learns is frozen"
            for one in self._opened.values()
            if one.whole or not (one.feeds or one.phases)
        )
        phased = sum(bool(one.phases) for one in self._opened.values())
        number = len(self._opened)
        whole = [f"note: {count} of {number} configurations train whole: {reason}" for reason, count in reasons.items()]
        told = f"note: {phased} of {number} configurations have a freezing schedule, and are planned by phases"
        return (*([told] if phased else []), *whole)

    @property
    def layouts(self) -> dict[str, str]:
        """Layouts that were found, by :func:`udfs.hopper.configuration_key`."""
        return {key: opened.layout for key, opened in self._opened.items() if opened.layout}

    def suits(self, trainer_fn: Callable[[dict[str, Any]], Any], *, seed: int, layouts: bool) -> bool:
        """Whether what was opened is what another cycle's settings would open."""
        return (self._trainer_fn, self._seed) == (trainer_fn, seed) and self._finds_layouts >= layouts

    @property
    def made_with(self) -> str:
        """Frameworks of the configurations opened so far, with their versions: others may give other bits."""
        packages = sorted({package for one in self._frameworks for package in (one, *_BESIDE.get(one, ()))})
        return ", ".join(f"{package} {version(package)}" for package in packages if _installed(package))

    def _drawn(self, params: Mapping[str, Any], adapted: Adapted) -> set[str]:
        """Give the frozen layers whose weights follow from the seed: no two candidates have the same ones.

        Raises
        ------
        InvalidArgumentError
            There are some that never learn: each candidate would have another trunk, silently.
        """
        graphs = [cut.graph for cut in adapted.cuts] or [adapted.graph]
        own = set().union(*map(_with_weights, graphs))
        if own <= self._seeded:
            return set()
        other = self.build(params, "another")
        theirs = set().union(*map(_with_weights, [cut.graph for cut in other.cuts] or [other.graph]))
        if not _with_weights(graphs[-1]) <= theirs:
            raise InvalidArgumentError(
                f"trainer_fn({dict(params)}) draws the weights of frozen layers at random, so that each candidate has "
                "others and nothing is shared: load pre-trained weights, or seed them (torch.manual_seed(0) before the "
                "trunk is built)"
            )
        self._seeded |= own & theirs
        return own - theirs


def _without(graph: LayerGraph, drawn: Collection[str]) -> LayerGraph:
    """Take layers for such as learn."""
    if not drawn:
        return graph
    layers = [replace(layer, frozen=layer.frozen and graph.expression(layer.name) not in drawn) for layer in graph]
    return LayerGraph(layers, graph.outputs)


def _with_weights(graph: LayerGraph) -> set[str]:
    """Give the expressions of the materialisable layers that have weights."""
    return {graph.expression(name) for name in materialisable(graph) if graph[name].param_bytes}


def _installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True
