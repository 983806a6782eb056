"""Population-based training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.arguments import one_of, real, whole
from optimizer.errors import InvalidArgumentError
from optimizer.procedures._decisions import Source
from optimizer.procedures._plan import Plan, Stage
from optimizer.procedures._sampled_procedure import Sampled
from optimizer.procedures._sampling import RandomSampler
from optimizer.procedures._trial import WORST

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from optimizer.procedures._trial import Trial
    from optimizer.space import Space

__all__ = ["PBT"]


class PBT(Sampled):
    """Train a population whose worst members become changed clones of its best (Jaderberg et al., 2017).

    After every ``ready`` epochs the members of the lowest ``quantile`` stop. In the place of each a clone of one of the
    highest ``quantile`` starts, drawn at random, from the last finished epoch of its source. Each of its values is
    drawn anew with probability ``resample``; otherwise it is multiplied by one of ``factors``, or moves to a neighbour
    where the values are a list. A member that failed is replaced too. :func:`schedule_of` gives the lineage of the best
    one. The first generation is random.

    Parameters
    ----------
    population : int
        Number of members, at least 2.
    epochs : int
        Epochs of each member along its lineage.
    ready : int
        Epochs between decisions. Default 1.
    quantile : float
        Share of members to replace, above 0 and at most 0.5; at least one member. Default 0.25.
    resample : float
        Probability of drawing a value anew, from 0 to 1. Default 0.25.
    factors : sequence of float
        Factors of a changed value, above 0. Default 0.8 and 1.2.
    only : collection of str, optional
        Names of the values to change: leave out what shapes the network, for a clone takes over weights. By default
        all.
    generations : {"together", "rolling"}
        ``"together"`` (default) decides once all members are ready, so that the result does not depend on their speed.
        With ``"rolling"`` each is compared, as soon as it is ready, with what the others have measured last.
    seed : int
        Seed of configurations and changes. Default 0.
    **settings
        Settings of :class:`Procedure`.

    Raises
    ------
    InvalidArgumentError
        A value that is not allowed.
    SpaceError
        The space has no dimension of a name in ``only``.

    Examples
    --------
    >>> from optimizer.procedures import EpochResult
    >>> from optimizer.space import Space, log_uniform
    >>> search = PBT(Space({"lr": log_uniform(1e-5, 1e-1)}), population=2, epochs=4, factors=[0.8])
    >>> _ = search.ask()
    >>> for decision in search.ask([EpochResult("c000", 1, {"loss": 0.5}), EpochResult("c001", 1, {"loss": 0.7})]):
    ...     print(type(decision).__name__, decision.trial_id, decision.reason)
    Continue c000 epoch 1: place 1 of 2, goes on
    Stop c001 epoch 1: among the worst, replaced by a clone of c000
    Start c002 clone of c000 after epoch 1: lr 0.0001226 -> 9.807e-05
    """

    def __init__(  # noqa: PLR0913 - options by name
        self,
        space: Space,
        *,
        population: int,
        epochs: int,
        ready: int = 1,
        quantile: float = 0.25,
        resample: float = 0.25,
        factors: Sequence[float] = (0.8, 1.2),
        only: Collection[str] | None = None,
        generations: str = "together",
        seed: int = 0,
        **settings: Any,
    ) -> None:
        super().__init__(RandomSampler(space, seed), **settings)
        self._space = space
        self.population = whole("population", population, 2, "The worst members become clones of others.")
        self.epochs = whole("epochs", epochs)
        self.ready = whole("ready", ready, why="It is the number of epochs between decisions.")
        if self.ready > self.epochs:
            raise InvalidArgumentError(f"ready must be at most epochs={epochs}, got {ready}")
        self._count = max(1, int(real("quantile", quantile, 0, 0.5, above=True) * population))
        self._resample = real("resample", resample, 0, 1)
        self._factors = tuple(real("factors", factor, 0, above=True) for factor in factors)
        if not self._factors:
            raise InvalidArgumentError("factors must have at least one number, such as (0.8, 1.2), got none")
        if isinstance(only, str):
            raise InvalidArgumentError(f"only must be a list of names, such as [{only!r}], got {only!r}")
        self._only = None if only is None else tuple(only)
        if self._only == ():
            raise InvalidArgumentError("only must have at least one name, got none: None changes all values")
        self._together = one_of("generations", generations, ("together", "rolling")) == "together"
        self._seed = whole("seed", seed, 0)
        self._clones = 0
        self._perturb(space.sample(self._seed, 0))  # validate the names of only before the first clone
        self._members: list[Trial] = []
        # Members that ended before any other had a result.
        self._lost: set[Trial] = set()

    def decide(self, fresh: Sequence[Trial], idle: int) -> None:  # the population is set
        """See :meth:`Procedure.decide`."""
        if not self.started:
            while len(self._members) < self.population:
                trial = self.draw(self.ready, "generation 0")
                if trial is None:
                    break
                self._members.append(trial)
        elif self._together:
            self._generation(fresh)
        else:
            self._finish_old([trial for trial in fresh if trial.waiting])
            # Only members with new results can have changed: skip the others of a large population.
            met = {trial for trial in fresh if trial.waiting or not trial.competes} | self._lost
            for member in [member for member in self._members if member in met]:
                self._meet(member)

    def _generation(self, fresh: Sequence[Trial]) -> None:
        training = sum(1 for member in self._members if member.running and not member.waiting)
        if training:
            for trial in fresh:
                if trial.waiting:
                    self.pause(trial, f"epoch {len(trial.curve)}: waits for {training} others")
            return
        ranked = self.ledger.ranked(member for member in self._members if member.competes)
        self._finish_old(ranked)
        if not any(trial.competes for trial in ranked):
            return
        best, rest = ranked[: self._count], ranked[self._count :]
        dead = [member for member in self._members if not member.competes]
        failing = max(0, self._count - len(dead))
        worst = set(rest[max(0, len(rest) - failing) :])
        members = [
            self._replace(member, best)
            if member in worst or not member.competes
            else self._go_on(member, _place(member, ranked))
            for member in self._members
        ]
        self._members = [member for member in members if member is not None]

    def _finish_old(self, trials: Sequence[Trial]) -> None:
        old = {trial for trial in trials if len(trial.curve) >= self.epochs}
        for trial in trials:
            if trial in old:
                self.stop(trial, f"finished its {self.epochs} epochs")
        self._members = [member for member in self._members if member not in old]

    def _meet(self, trial: Trial) -> None:
        """Decide about one member, by what the others have measured last."""
        place = self._members.index(trial)
        ranked = self.ledger.ranked(member for member in self._members if member.competes and member.score > WORST)
        count = min(self._count, len(ranked) // 2)
        lost = not trial.competes or trial in ranked[len(ranked) - count :]
        best = ranked[: count if trial.competes else self._count] if lost else []
        self._lost.discard(trial)
        if not trial.competes and not best:
            self._lost.add(trial)  # until another member has a result
            return
        member = self._replace(trial, best) if lost and best else self._go_on(trial, _place(trial, ranked))
        self._members[place : place + 1] = [] if member is None else [member]

    def _replace(self, member: Trial, best: Sequence[Trial]) -> Trial | None:
        if not self.may_start:
            return self._go_on(member, f"among the worst, but no clone may start ({self._limit})")
        source = best[int(np.random.default_rng([self._seed, self._clones]).integers(len(best)))]
        params = self._perturb(source.params)
        self._clones += 1
        if member.competes:
            self.stop(member, f"epoch {len(member.curve)}: among the worst, replaced by a clone of {source.trial_id}")
        return self.start(
            params,
            self._next(source),
            source=Source(source.trial_id, source.finished),
            reason=f"clone of {source.trial_id} after epoch {source.finished}: {_changes(source.params, params)}",
        )

    def _perturb(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return self._space.perturb(
            params, self._seed, self._clones, factors=self._factors, resample=self._resample, only=self._only
        )

    def _go_on(self, member: Trial, why: str) -> Trial | None:
        reason = f"epoch {len(member.curve)}: {why}, goes on"
        return member if member.competes and self.carry_on(member, self._next(member), reason) else None

    def _next(self, trial: Trial) -> int:
        return min(self.ready, self.epochs - len(trial.curve))

    def plan(self) -> Plan:
        """See :meth:`Procedure.plan`."""
        meetings = -(-self.epochs // self.ready) - 1
        return Plan(
            procedure=type(self).__name__,
            stages=tuple(
                Stage(f"generation {number}", self.population, reaches - number * self.ready, reaches)
                for number in range(meetings + 1)
                for reaches in (min(self.epochs, (number + 1) * self.ready),)
            ),
            epochs_each=self.epochs,
            chain=self.epochs,
            configurations=self.population,
            clones=meetings * self._count if self._together else None,
            most_epochs=self.population * self.epochs if self._together else None,
            limits=self.limits,
            notes=(f"the worst {self._count} of a generation go on as clones of the best {self._count}",),
        )


def _place(member: Trial, ranked: Sequence[Trial]) -> str:
    return f"place {ranked.index(member) + 1} of {len(ranked)}" if member in ranked else "no other has a result"


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Describe the values that differ: ``"lr 0.1 -> 0.08"``."""
    names = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    return ", ".join(f"{name} {_shown(old.get(name))} -> {_shown(new.get(name))}" for name in names) or "unchanged"


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
