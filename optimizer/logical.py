"""Logical execution plans for feature transfer (Vista, section 4.2.1): what each pass over the data computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from optimizer.errors import CerebroError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optimizer.graph import LayerGraph

__all__ = ["LOGICAL_PLANS", "InferenceStage", "Logical", "LogicalPlan", "plan_layers"]

Logical = Literal["staged", "lazy", "eager"]
LOGICAL_PLANS: tuple[str, ...] = get_args(Logical)

_SAYS = {
    "staged": "one partial inference a layer, each from what the one before it materialised (Figure 5E)",
    "lazy": "one inference a layer, each from the images (Figure 5B)",
    "eager": "one inference that materialises the features of every layer at once (Figure 5D)",
}


@dataclass(frozen=True, slots=True)
class InferenceStage:
    """One pass over the joined data, after which the downstream model is trained on ``targets``.

    Attributes
    ----------
    targets : tuple of str
        Layers whose features this pass delivers.
    reads : tuple of str
        Tensors fed: the graph's inputs (decoded from the images) or tensors that the stage before materialised.
    writes : tuple of str
        Tensors materialised whole for the next stage: the live ones of the cut, no others.
    runs : tuple of str
        Layers computed.
    flops, read_bytes, write_bytes : int
        Per record; a multiply-add is 2 FLOPs; images are counted as decoded tensors.
    """

    targets: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    runs: tuple[str, ...]
    flops: int
    read_bytes: int
    write_bytes: int


@dataclass(frozen=True, slots=True)
class LogicalPlan:
    """An order of inference and training, as a value.

    Attributes
    ----------
    logical : {"staged", "lazy", "eager"}
    model : str
        Name, for :meth:`explain`.
    names : mapping of str to str
        What the user calls some of the layers, for :meth:`explain`.
    stages : tuple of InferenceStage
        In the order of execution.
    lazy_flops : int
        FLOPs a record of the lazy plan, the yardstick.
    """

    logical: Logical
    model: str
    stages: tuple[InferenceStage, ...]
    lazy_flops: int
    names: Mapping[str, str]

    @property
    def flops(self) -> int:
        """FLOPs a record, all stages together."""
        return sum(stage.flops for stage in self.stages)

    @property
    def speedup(self) -> float:
        """How many times fewer FLOPs than the lazy plan."""
        return self.lazy_flops / self.flops if self.flops else 1.0

    def explain(self) -> str:
        """The plan in words, a line a stage.

        Returns
        -------
        str
            Several lines, without a newline at the end.
        """
        lines = [
            f"{self.logical} plan for {self.model}: {_SAYS[self.logical]}",
            "  join structured data with images, once, before any inference",
        ]
        for number, stage in enumerate(self.stages, 1):
            targets = self._said(stage.targets)
            lines.append(
                f"  {number}. {self._said(stage.reads)} -> {targets}: {len(stage.runs)} operations, "
                f"{stage.flops / 1e9:.3g} GFLOPs a record; train downstream on {targets}"
            )
            if stage.writes:
                kept = self._said(stage.writes)
                lines.append(f"     keep {kept} for the next stage: {stage.write_bytes / 2**10:,.0f} KiB a record")
        lines.append(
            f"  in all {self.flops / 1e9:.3g} GFLOPs a record; the lazy plan takes {self.lazy_flops / 1e9:.3g} "
            f"({self.speedup:.2f} times as many)"
        )
        return "\n".join(lines)

    def _said(self, layers: Sequence[str]) -> str:
        return " + ".join(self.names.get(layer, layer) for layer in layers)


def plan_layers(
    graph: LayerGraph,
    targets: Sequence[str],
    logical: Logical,
    *,
    model: str = "the model",
    names: Mapping[str, str] | None = None,
) -> LogicalPlan:
    """Lay out the passes that deliver some layers.

    Parameters
    ----------
    graph : LayerGraph
        The whole network.
    targets : sequence of str
        Layers to transfer, from the bottom to the top.
    logical : {"staged", "lazy", "eager"}
    model : str
        Name for :meth:`LogicalPlan.explain`.
    names : mapping of str to str, optional
        What the user calls some of the layers, for :meth:`LogicalPlan.explain`.

    Raises
    ------
    CerebroError
        No layer, or a logical plan that does not exist.
    optimizer.errors.UnknownLayerError
        A target that the graph does not have.

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
        raise CerebroError(f"no plan {logical!r}{nearest(logical, LOGICAL_PLANS)}; plans: {', '.join(LOGICAL_PLANS)}")
    if not targets:
        raise CerebroError("no layer to transfer: name at least one")
    alone = [_stage(graph, graph.inputs, [target]) for target in targets]
    if logical == "lazy":
        stages = alone
    elif logical == "eager":
        stages = [_stage(graph, graph.inputs, targets)]
    else:
        stages = []
        have: tuple[str, ...] = graph.inputs
        for number, target in enumerate(targets):
            rest = targets[number + 1 :]
            writes = _kept(graph, targets[: number + 1], rest) if rest else ()
            stages.append(_stage(graph, have, [target], writes))
            have = writes
    return LogicalPlan(logical, model, tuple(stages), sum(stage.flops for stage in alone), dict(names or {}))


def _kept(graph: LayerGraph, done: Sequence[str], rest: Sequence[str]) -> tuple[str, ...]:
    """What crosses the cut, with the graph's inputs that so far nothing has read: the next stage has no images."""
    cut = graph.cut(done, towards=rest)
    crossing = {*cut.live, *(name for name in cut.above if name in graph.inputs)}
    return tuple(name for name in graph.names if name in crossing)


def _stage(
    graph: LayerGraph, have: Sequence[str], targets: Sequence[str], writes: Sequence[str] = ()
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
    )
