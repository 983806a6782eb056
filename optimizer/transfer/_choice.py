"""Choice of a feature transfer's plan: logical plans compared by predicted seconds, each with its memory plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.memory import InfeasiblePlanError
from optimizer.notebook import ExplainedInNotebooks
from optimizer.transfer._logical_plans import plan_layers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from optimizer.graph import LayerGraph
    from optimizer.memory import Logical, TransferPlan
    from optimizer.transfer._logical_plans import LogicalPlan
    from optimizer.transfer._profile import ModelProfile

__all__ = ["Choice", "TransferCost", "choose_transfer"]

_GROUPED = ", layers a stage: "

_COMPARED: tuple[Logical, ...] = ("staged", "eager-reordered", "lazy-reordered")


@dataclass(frozen=True, slots=True)
class TransferCost:
    """Cost model of a plan: measured inference, and the overhead of each pass over the data.

    ``job_seconds`` start a pass: a Spark job, its tasks and the first batch. ``copy_bytes_per_second`` is the rate at
    which one task slot moves tensors between Python and Spark's cache, ``spill_bytes_per_second`` that at which a node
    writes and reads cached tables that do not fit into Storage Memory.

    Examples
    --------
    >>> from optimizer.transfer import ModelProfile
    >>> cost = TransferCost(ModelProfile("cnn", "cpu", 1, 32, 1, 1, 0, 0, 0.0, ((10, 0.01),)))
    >>> cost.job_seconds
    0.35
    """

    profile: ModelProfile
    # Measured on local[2], MobileNetV2 and 512 images: docs/benchmarks.md.
    job_seconds: float = 0.35
    copy_bytes_per_second: float = 300e6
    spill_bytes_per_second: float = 100e6

    def seconds(self, logical: LogicalPlan, physical: TransferPlan) -> float:
        """Predict the seconds of a plan's passes, without downstream training, which is the same in all plans."""
        slots = physical.slots
        rows = physical.workload.structured_rows
        by_target = dict(zip(logical.targets, physical.workload.layers, strict=True))
        depths: list[int] = []
        record = 0.0
        for stage in logical.stages:
            start = 0 if stage.source is None else depths[stage.source]
            depths.append(start + stage.flops)
            moved = stage.write_bytes + (0 if stage.source is None else stage.read_bytes)
            moved += sum(by_target[target].tensor_bytes for target in stage.targets)
            record += self.profile.between(start, start + stage.flops) + moved / self.copy_bytes_per_second
            record += self.profile.input_seconds if stage.source is None else 0.0
        spilled = max(0, physical.cached_bytes - physical.storage_bytes * physical.executors)
        nodes = min(physical.cluster.nodes, physical.executors)
        spilling = 2 * spilled / nodes / self.spill_bytes_per_second
        return self.job_seconds * len(logical.stages) + rows * record / slots + spilling


@dataclass(frozen=True, slots=True)
class Choice(ExplainedInNotebooks):
    """Chosen logical plan with its memory plan, and the plans it was compared with.

    ``seconds`` are predicted for the passes of inference. ``considered`` has the name of each plan with its predicted
    seconds, or the reason why it does not fit.
    """

    logical: LogicalPlan
    physical: TransferPlan
    seconds: float
    considered: tuple[tuple[str, float | str], ...]

    def explain(self) -> str:
        """Describe the comparison, the logical plan and the memory plan."""
        plain = [(name, result) for name, result in self.considered if _GROUPED not in name]
        merged = [(name, result) for name, result in self.considered if _GROUPED in name and isinstance(result, float)]
        lines = []
        for name, result in [*plain, *sorted(merged, key=lambda entry: entry[1])[:1]]:
            lines.append(f"  {name}: {f'{result:,.1f} s' if isinstance(result, float) else f'refused: {result}'}")
        if len(merged) > 1:
            lines.append(f"  and {len(merged) - 1} other ways to merge stages, none of them sooner")
        comparison = ["plans compared, by predicted seconds of inference:", *lines] if lines else []
        return "\n".join([*comparison, self.logical.explain(), self.physical.explain()])


def choose_transfer(
    graph: LayerGraph,
    targets: Sequence[str],
    apportion: Callable[[LogicalPlan], TransferPlan],
    cost: TransferCost,
    *,
    model: str = "the model",
    names: Mapping[str, str] | None = None,
) -> Choice:
    """Choose the plan with the fewest predicted seconds among those that fit into memory.

    The candidates are lazy, eager and staged, joined before inference (the paper's section 5.3 finds nothing faster),
    and staged plans with merged stages. Merging is greedy: it starts from one layer per stage and merges the two
    neighbours that save most, until no merger saves anything. A stage that computes little does not pay for its own
    pass, which the paper's staged plan always gives it. ``targets`` are from the bottom to the top. ``apportion``
    returns the memory plan of a logical plan, or raises InfeasiblePlanError; if no plan fits, the error is that of the
    staged plan.
    """
    compared = _Comparison(graph, targets, apportion, cost, model, names)
    for logical in _COMPARED:
        compared.add(logical)
    grouped = [1] * len(targets)
    while len(grouped) > 1:
        merged = [_merged(grouped, place) for place in range(len(grouped) - 1)]
        choices = [compared.add("staged", groups) if len(groups) > 1 else None for groups in merged]
        seconds = [choice.seconds if choice else float("inf") for choice in choices]
        best = min(range(len(merged)), key=seconds.__getitem__)
        current = compared.choices.get(("staged", tuple(grouped)))
        if current is not None and seconds[best] >= current.seconds:
            break
        grouped = merged[best]
    return compared.best()


def _merged(grouped: Sequence[int], place: int) -> list[int]:
    return [*grouped[:place], grouped[place] + grouped[place + 1], *grouped[place + 2 :]]


class _Comparison:
    """Candidates so far, and their results by name."""

    def __init__(
        self,
        graph: LayerGraph,
        targets: Sequence[str],
        apportion: Callable[[LogicalPlan], TransferPlan],
        cost: TransferCost,
        model: str,
        names: Mapping[str, str] | None,
    ) -> None:
        self._graph, self._targets, self._apportion, self._cost = graph, targets, apportion, cost
        self._model, self._names = model, names
        self.choices: dict[tuple[str, tuple[int, ...]], Choice] = {}
        self._results: dict[str, float | str] = {}
        self._refusal: InfeasiblePlanError | None = None

    def add(self, logical: Logical, grouped: Sequence[int] | None = None) -> Choice | None:
        """Plan a candidate and predict its seconds; ``None`` if it does not fit."""
        groups = tuple(grouped or [1] * len(self._targets))
        plan = plan_layers(self._graph, self._targets, logical, model=self._model, names=self._names, grouped=grouped)
        name = logical if grouped is None else f"{logical}{_GROUPED}{' + '.join(map(str, groups))}"
        try:
            physical = self._apportion(plan)
        except InfeasiblePlanError as error:
            self._results[name] = str(error)
            self._refusal = self._refusal or error
            return None
        seconds = self._cost.seconds(plan, physical)
        self._results[name] = seconds
        self.choices[logical, groups] = choice = Choice(plan, physical, seconds, ())
        return choice

    def best(self) -> Choice:
        """Return the fastest candidate, with the results of all."""
        if not self.choices:
            assert self._refusal is not None  # at least one candidate was added
            raise self._refusal
        # Among equals the first, which is the paper's choice.
        fastest = min(self.choices.values(), key=lambda choice: choice.seconds)
        return Choice(fastest.logical, fastest.physical, fastest.seconds, tuple(self._results.items()))
