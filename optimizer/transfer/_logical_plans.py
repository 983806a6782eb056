"""Logical plans of a feature transfer (Vista, section 4.2.1): the layers that each pass over the data computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.arguments import choice_error
from optimizer.errors import CerebroError
from optimizer.memory import LOGICAL_PLANS
from optimizer.notebook import ExplainedInNotebooks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optimizer.graph import LayerGraph
    from optimizer.memory import Logical

__all__ = ["InferenceStage", "LogicalPlan", "plan_layers"]

_BEFORE_JOIN = ("lazy", "eager", "pre-materialised", "staged-before-join")

_DESCRIPTIONS = {
    "lazy": "one inference per layer, each from the images, joined afterwards (Figure 5A)",
    "lazy-reordered": "one inference per layer, each from the joined images (Figure 5B)",
    "eager": "one inference for every layer at once, joined afterwards (Figure 5C)",
    "eager-reordered": "one inference for every layer at once, from the joined images (Figure 5D)",
    "pre-materialised": "the lowest layer is materialised, and one inference per layer starts from it (section 5)",
    "staged": "one partial inference per stage, each from what the stage before it materialised (Figure 5E)",
    "staged-before-join": "staged, joined after each inference (Staged/BJ of section 5.3)",
}


@dataclass(frozen=True, slots=True)
class InferenceStage:
    """Pass over the joined data, after which the downstream model is trained on ``targets``.

    The pass reads the graph's inputs or tensors that an earlier stage (``source``, from 0) materialised, runs layers,
    and writes the live tensors of the cut, no others. FLOPs and bytes are per record; a multiply-add is 2 FLOPs; images
    are counted as decoded tensors.
    """

    targets: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    runs: tuple[str, ...]
    flops: int
    read_bytes: int
    write_bytes: int
    source: int | None = None


@dataclass(frozen=True, slots=True)
class LogicalPlan(ExplainedInNotebooks):
    """Order of inference and training.

    ``names`` are the user's names of some layers. ``lazy_flops`` are FLOPs per record of the lazy plan, for comparison.
    """

    logical: Logical
    model: str
    stages: tuple[InferenceStage, ...]
    lazy_flops: int
    names: Mapping[str, str]

    @property
    def joins_first(self) -> bool:
        """True if the structured rows are joined with the images before any inference."""
        return self.logical not in _BEFORE_JOIN

    @property
    def targets(self) -> tuple[str, ...]:
        """The layers that are transferred, from the bottom to the top."""
        return tuple(target for stage in self.stages for target in stage.targets)

    def last_reader(self, stage: int) -> int:
        """Return the number of the last stage that reads the output of a stage, or its own number."""
        return max([stage, *(number for number, later in enumerate(self.stages) if later.source == stage)])

    @property
    def flops(self) -> int:
        """FLOPs per record, all stages together."""
        return sum(stage.flops for stage in self.stages)

    @property
    def speedup(self) -> float:
        """FLOPs of the lazy plan over those of this plan."""
        return self.lazy_flops / self.flops if self.flops else 1.0

    def explain(self) -> str:
        """Describe the plan, one line per stage."""
        lines = [
            f"{self.logical} plan for {self.model}: {_DESCRIPTIONS[self.logical]}",
            "  join structured data with images, once, before any inference"
            if self.joins_first
            else "  join structured data with the result of each inference",
        ]
        for number, stage in enumerate(self.stages, 1):
            targets = self._named(stage.targets)
            lines.append(
                f"  {number}. {self._named(stage.reads)} -> {targets}: {len(stage.runs)} operations, "
                f"{stage.flops / 1e9:.3g} GFLOPs per record; train downstream on {targets}"
            )
            if stage.writes:
                materialised = self._named(stage.writes)
                until = "the next stage" if self.last_reader(number - 1) == number else "every later stage"
                lines.append(f"     keep {materialised} for {until}: {stage.write_bytes / 2**10:,.0f} KiB per record")
        lines.append(
            f"  in all {self.flops / 1e9:.3g} GFLOPs per record; the lazy plan takes {self.lazy_flops / 1e9:.3g} "
            f"({self.speedup:.2f} times as many)"
        )
        return "\n".join(lines)

    def _named(self, layers: Sequence[str]) -> str:
        return " + ".join(self.names.get(layer, layer) for layer in layers)


def plan_layers(
    graph: LayerGraph,
    targets: Sequence[str],
    logical: Logical,
    *,
    model: str = "the model",
    names: Mapping[str, str] | None = None,
    grouped: Sequence[int] | None = None,
) -> LogicalPlan:
    """Plan the passes that compute some layers.

    ``targets`` are from the bottom to the top. ``model`` and ``names``, the user's names of some layers, are for
    :meth:`LogicalPlan.explain`. ``grouped`` are layers per stage of a staged plan, from the bottom; one each by
    default, as in the paper. Raise CerebroError for no layer, or groups that do not add up to the layers.

    Examples
    --------
    >>> from optimizer.graph import Layer, LayerGraph
    >>> chain = LayerGraph(
    ...     [
    ...         Layer("image", "input", output_shape=(4,)),
    ...         Layer("fc7", "Linear", ("image",), (2,), flops=16),
    ...         Layer("fc8", "Linear", ("fc7",), (1,), flops=4),
    ...     ],
    ...     ["fc8"],
    ... )
    >>> plan_layers(chain, ["fc7", "fc8"], "staged").flops, plan_layers(chain, ["fc7", "fc8"], "lazy").flops
    (20, 36)
    """
    if logical not in LOGICAL_PLANS:
        raise CerebroError(choice_error("logical", logical, LOGICAL_PLANS))
    if not targets:
        raise CerebroError("targets must name at least one layer to transfer, got none.")
    separate = [_stage(graph, graph.inputs, [target]) for target in targets]
    if logical.startswith("lazy"):
        stages = separate
    elif logical.startswith("eager"):
        stages = [_stage(graph, graph.inputs, targets)]
    elif logical == "pre-materialised":
        stages = _from_base(graph, targets)
    else:
        stages = _staged(graph, targets, grouped or [1] * len(targets))
    return LogicalPlan(logical, model, tuple(stages), sum(stage.flops for stage in separate), dict(names or {}))


def _from_base(graph: LayerGraph, targets: Sequence[str]) -> list[InferenceStage]:
    base, *above = targets
    writes = _materialised(graph, [base], above) if above else ()
    rest = [_stage(graph, writes, [target], source=0) for target in above]
    return [_stage(graph, graph.inputs, [base], writes), *rest]


def _staged(graph: LayerGraph, targets: Sequence[str], grouped: Sequence[int]) -> list[InferenceStage]:
    if min(grouped) < 1 or sum(grouped) != len(targets):
        raise CerebroError(
            f"grouped must be positive integers that add up to the {len(targets)} targets, got {list(grouped)}."
        )
    stages: list[InferenceStage] = []
    at_hand: tuple[str, ...] = graph.inputs
    done = 0
    for count in grouped:
        group, rest = targets[done : done + count], targets[done + count :]
        done += count
        writes = _materialised(graph, targets[:done], rest) if rest else ()
        stages.append(_stage(graph, at_hand, group, writes, source=len(stages) - 1 if stages else None))
        at_hand = writes
    return stages


def _materialised(graph: LayerGraph, done: Sequence[str], rest: Sequence[str]) -> tuple[str, ...]:
    """List the tensors that cross the cut, unread graph inputs included: the next stage has no images to read."""
    cut = graph.cut(done, towards=rest)
    crossing = {*cut.live, *(name for name in cut.above if name in graph.inputs)}
    return tuple(name for name in graph.names if name in crossing)


def _stage(
    graph: LayerGraph,
    have: Sequence[str],
    targets: Sequence[str],
    writes: Sequence[str] = (),
    source: int | None = None,
) -> InferenceStage:
    part = graph.part(have, [*targets, *(name for name in writes if name not in targets)])
    return InferenceStage(
        tuple(targets),
        part.inputs,
        tuple(writes),
        part.layers,
        part.flops,
        sum(graph[name].activation_bytes for name in part.inputs),
        sum(graph[name].activation_bytes for name in writes),
        source,
    )
