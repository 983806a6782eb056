"""Optuna's samplers as samplers of a procedure."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from optimizer.arguments import whole, whole_or_none
from optimizer.errors import InvalidArgumentError, nearest
from optimizer.procedures._sampling import Sampler, check_space
from optimizer.procedures.studies._follower import Follower, new_study
from optimizer.procedures.studies._optuna import load_optuna
from optimizer.procedures.studies._translation import Translation
from optimizer.space import SpaceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optimizer.procedures._ledger import Ledger
    from optimizer.procedures._objectives import Objective
    from optimizer.procedures._trial import Trial
    from optimizer.space import Space

__all__ = ["SAMPLERS", "OptunaSampler", "ended_trials"]

#: Samplers by name: those of Optuna that need no further package.
SAMPLERS = {"tpe": "TPESampler", "nsgaii": "NSGAIISampler"}

# Suggestions that the space's condition refuses, before a random configuration is taken.
_ATTEMPTS = 100

# Configurations of which at least one differs where a sampler has no seed.
_TRIED = 5


def ended_trials(study: Any, count: int | None = None) -> list[Any]:
    """List the complete and the pruned trials of a study in the order in which they ended.

    Parameters
    ----------
    study : optuna.Study
    count : int, optional
        Only the first ones; by default all.

    Raises
    ------
    InvalidArgumentError
        It is no study, or has fewer such trials.
    """
    optuna = load_optuna(f"study={study!r}")
    if not isinstance(study, optuna.Study):
        raise InvalidArgumentError(f"study={study!r}: an optuna.Study")
    states = optuna.trial.TrialState
    trials: list[Any] = study.get_trials(states=(states.COMPLETE, states.PRUNED))
    if count is not None and count > len(trials):
        raise InvalidArgumentError(f"study_trials={count}: the study has {len(trials)} that are complete or pruned")
    return sorted(trials, key=lambda trial: (trial.datetime_complete, trial.number))[:count]


class OptunaSampler(Sampler):
    """Ask Optuna for the next configuration, and tell it of each epoch.

    Optuna hears the metric of each epoch, with steps from 1 on. A configuration that comes to the end of the
    procedure's epochs is complete; one that is stopped before, or paused, is pruned, with its last value; one that
    fails or diverges has failed. Suggestions are a function of the sampler's seed and of what it was told: a run that
    is resumed gets the same ones, of the same version of Optuna.

    With several objectives it hears all of them, of configurations that come to the end: Optuna takes none for single
    epochs then, nor for a pruned trial.

    Parameters
    ----------
    space : Space
    sampler : str or optuna.samplers.BaseSampler
        ``"tpe"`` (default; with several objectives MOTPE), ``"nsgaii"``, or a sampler of your own settings, as
        ``NSGAIIISampler(seed=7)``, with a seed. It is copied: one object serves any number of searches.
    seed : int
        Of a sampler that is given by name. Default 0.
    study : optuna.Study, optional
        Its complete and pruned trials are known from the start. They are copied now: what the study learns later does
        not count.
    study_trials : int, optional
        How many of these, in the order in which they ended; by default all.

    Raises
    ------
    InvalidArgumentError
        Optuna is not installed; there is no such sampler; it has no seed, or cannot sample this space; a trial of the
        study has other parameters, or is outside the space; the study has fewer trials. With a procedure: it cannot
        sample for several objectives, or the study has another number of them. At the first suggestion: the study's
        directions are not those of the search.

    Examples
    --------
    >>> from optimizer.procedures import Sequential
    >>> from optimizer.space import Space, log_uniform
    >>> space = Space({"lr": log_uniform(1e-5, 1e-1)})
    >>> search = Sequential(OptunaSampler(space, "tpe", seed=7), configurations=20, epochs=5, concurrency=2)
    >>> [decision.trial_id for decision in search.ask()]
    ['c000', 'c001']
    """

    learns = True

    def __init__(
        self, space: Space, sampler: Any = "tpe", *, seed: int = 0, study: Any = None, study_trials: int | None = None
    ) -> None:
        self._space = check_space(space)
        self._seed = whole("seed", seed, 0)
        self._optuna = load_optuna(f"sampler={sampler!r}")
        self._translation = Translation(space)
        self._sampler = self._checked(sampler)
        self._study = study
        self._known = [] if study is None else self._trials(study, study_trials)
        name = type(self._sampler).__name__
        self.notes = (self._note("have ended or wait at a rung"),)
        self._follower: Follower | None = None
        self._asked: Any = None
        if isinstance(sampler, str):
            return
        try:
            unseeded = self._first_ones(["min"]) != self._first_ones(["min"])
        except (ArithmeticError, ImportError, LookupError, TypeError, ValueError) as error:
            raise InvalidArgumentError(f"sampler={sampler!r} cannot sample this space: {error}") from error
        if unseeded:
            raise InvalidArgumentError(
                f"sampler={sampler!r} has no seed, and a run that is resumed would be another one: give it one, as "
                f"{name}(seed={self._seed})"
            )

    def admit(self, objectives: Sequence[Objective]) -> None:
        """See :meth:`Sampler.admit`."""
        count = len(objectives)
        if self._study is not None and len(self._study.directions) != count:
            raise InvalidArgumentError(
                f"study: it has {_objectives(len(self._study.directions))}, and the search has {_objectives(count)}: "
                f"{', '.join(each.metric for each in objectives)}"
            )
        if count == 1:
            return
        try:
            self._first_ones([each.mode for each in objectives])
        except (ArithmeticError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"sampler={type(self._sampler).__name__} cannot sample for {_objectives(count)}: {error}; "
                f"{', '.join(SAMPLERS)} can"
            ) from error
        self.notes = (self._note("have come to the end"),)

    def _note(self, heard: str) -> str:
        known = f", and knows {len(self._known)} trials of a study" if self._known else ""
        return f"{type(self._sampler).__name__} learns from configurations that {heard}{known}"

    def suggest(self, number: int, ledger: Ledger) -> Mapping[str, Any]:
        """See :meth:`Sampler.suggest`."""
        if self._follower is None:
            self._follower = self._following(ledger)
        self._follower.follow(self._begun)
        self._follower.again(self._translation)
        self._asked, params = self._accepted(self._follower.study, number)
        return params

    def _checked(self, sampler: Any) -> Any:
        if isinstance(sampler, self._optuna.samplers.BaseSampler):
            return sampler
        if not isinstance(sampler, str):
            raise InvalidArgumentError(
                f"sampler={sampler!r}: a name, or a sampler of Optuna, as TPESampler(seed=0, n_startup_trials=5)"
            )
        if sampler not in SAMPLERS:
            raise InvalidArgumentError(
                f"sampler={sampler!r}{nearest(sampler, SAMPLERS)}; one of: random, {', '.join(SAMPLERS)}; or a sampler "
                "of Optuna"
            )
        return getattr(self._optuna.samplers, SAMPLERS[sampler])(seed=self._seed)

    def _trials(self, study: Any, count: int | None) -> list[Any]:
        known = []
        for trial in ended_trials(study, whole_or_none("study_trials", count, 0)):
            parameters, distributions = self._translation.parameters(self._translation.configuration(trial))
            known.append(
                self._optuna.trial.create_trial(
                    state=trial.state,
                    values=trial.values,
                    params=parameters,
                    distributions=distributions,
                    intermediate_values=trial.intermediate_values,
                )
            )
        return known

    def _following(self, ledger: Ledger) -> Follower:
        directions = () if self._study is None else self._study.directions
        for direction, objective in zip(directions, ledger.objectives, strict=False):
            if direction.name != f"{objective.mode}imize".upper():
                raise InvalidArgumentError(
                    f"study: its direction is {direction.name.lower()}, and the search's {objective.metric} is to be "
                    f"{objective.mode}imized"
                )
        study = new_study([each.mode for each in ledger.objectives], sampler=copy.deepcopy(self._sampler))
        study.add_trials(self._known)
        return Follower(study, ledger, closes_paused=True, guests=False)

    def _begun(self, trial: Trial) -> Any:
        """Give the Optuna trial of a configuration that has started: what was asked last; of a clone, one like it."""
        asked, self._asked = self._asked, None
        if asked is not None:
            return asked
        assert self._follower is not None  # it is who calls
        study = self._follower.study
        try:
            return self._given(study, trial.params)[0]
        except SpaceError:
            return study.ask()

    def _accepted(self, study: Any, number: int) -> tuple[Any, dict[str, Any]]:
        for _ in range(_ATTEMPTS):
            trial = study.ask()
            params = self._translation.suggest(trial)
            try:
                self._space.check(params)
            except SpaceError:
                study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
            else:
                return trial, params
        return self._given(study, self._space.sample(self._seed, number))

    def _given(self, study: Any, params: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        parameters, _ = self._translation.parameters(params)
        study.enqueue_trial(parameters)
        trial = study.ask()
        return trial, self._translation.suggest(trial)

    def _first_ones(self, modes: Sequence[str]) -> list[dict[str, Any]]:
        study = new_study(modes, sampler=copy.deepcopy(self._sampler))
        found = []
        for number in range(_TRIED):
            trial = study.ask()
            found.append(self._translation.suggest(trial))
            study.tell(trial, [float(number)] * len(modes))
        return found


def _objectives(count: int) -> str:
    return "one objective" if count == 1 else f"{count} objectives"
