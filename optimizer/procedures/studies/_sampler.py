"""Optuna samplers as samplers of a procedure."""

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

#: Optuna samplers that need no further package, by name.
SAMPLERS = {"tpe": "TPESampler", "nsgaii": "NSGAIISampler"}

# Number of suggestions that the space may refuse before a random configuration is drawn.
_ATTEMPTS = 100

# Number of configurations to compare; at least one differs if a sampler has no seed.
_TRIED = 5


def ended_trials(study: Any, count: int | None = None) -> list[Any]:
    """List the complete and the pruned trials of a study in the order in which they ended.

    Parameters
    ----------
    count : int, optional
        Number of first trials to return; by default all.

    Raises
    ------
    InvalidArgumentError
        ``study`` is not a study, or has fewer such trials.
    """
    optuna = load_optuna(f"study={study!r}")
    if not isinstance(study, optuna.Study):
        raise InvalidArgumentError(f"study must be an optuna.Study, got {study!r}")
    states = optuna.trial.TrialState
    trials: list[Any] = study.get_trials(states=(states.COMPLETE, states.PRUNED))
    if count is not None and count > len(trials):
        raise InvalidArgumentError(
            f"study_trials must be at most {len(trials)}, the complete and pruned trials of the study, got {count}"
        )
    return sorted(trials, key=lambda trial: (trial.datetime_complete, trial.number))[:count]


class OptunaSampler(Sampler):
    """Sampler that asks Optuna for the next configuration, and reports each epoch to it.

    Optuna receives the metric of each epoch, with steps from 1. A configuration that trains all epochs of the procedure
    is complete; one that is stopped before, or paused, is pruned, with its last value; one that fails or diverges has
    failed. Suggestions depend on the sampler's seed and on the reported results, so a resumed run gets the same
    suggestions from the same version of Optuna.

    Configurations that the user adds or clones teach the sampler once they have ended, if they belong to the space.

    With several objectives Optuna receives only the results of finished configurations, since it then accepts no values
    of single epochs or pruned trials.

    Parameters
    ----------
    space : Space
        Search space.
    sampler : str or optuna.samplers.BaseSampler
        ``"tpe"`` (default; MOTPE with several objectives), ``"nsgaii"``, or a sampler with a seed such as
        ``NSGAIIISampler(seed=7)``, which is copied, so that one object serves any number of searches.
    seed : int
        Seed of a sampler that is set by name. Default 0.
    study : optuna.Study, optional
        Study whose complete and pruned trials the sampler knows from the start. They are copied now, so later trials of
        the study do not count.
    study_trials : int, optional
        Number of these trials, in the order in which they ended; by default all.

    Raises
    ------
    InvalidArgumentError
        Optuna is not installed, the sampler is unknown, has no seed or does not support the space, a trial of the study
        does not belong to the space, or the study has fewer trials. In a procedure: the sampler does not support
        several objectives, or the study has another number of objectives. At the first suggestion: the directions of
        the study and of the search differ.

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
            raise InvalidArgumentError(f"sampler must support the search space, got {sampler!r}: {error}") from error
        if unseeded:
            raise InvalidArgumentError(
                f"sampler must have a seed, so that a resumed run is the same, got {sampler!r}: use "
                f"{name}(seed={self._seed})"
            )

    def admit(self, objectives: Sequence[Objective]) -> None:
        """See :meth:`Sampler.admit`."""
        count = len(objectives)
        if self._study is not None and len(self._study.directions) != count:
            raise InvalidArgumentError(
                f"study must have the objectives of the search, {', '.join(each.metric for each in objectives)}, got "
                f"{_objectives(len(self._study.directions))}"
            )
        if count == 1:
            return
        try:
            self._first_ones([each.mode for each in objectives])
        except (ArithmeticError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"sampler must support {_objectives(count)}, as {', '.join(SAMPLERS)} do, got "
                f"{type(self._sampler).__name__}: {error}"
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
        self._follower.add_continued(self._translation)
        self._follower.add_guests(self._translation)
        self._asked, params = self._accepted(self._follower.study, number)
        return params

    def _checked(self, sampler: Any) -> Any:
        if isinstance(sampler, self._optuna.samplers.BaseSampler):
            return sampler
        if not isinstance(sampler, str):
            raise InvalidArgumentError(
                f"sampler must be a name or a sampler of Optuna, such as TPESampler(seed=0), got {sampler!r}"
            )
        if sampler not in SAMPLERS:
            raise InvalidArgumentError(
                f"sampler must be one of random, {', '.join(SAMPLERS)}, or a sampler of Optuna, got {sampler!r}"
                f"{nearest(sampler, SAMPLERS)}"
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
                    f"direction of the study must be {objective.mode}imize, as for {objective.metric}, got "
                    f"{direction.name.lower()}"
                )
        study = new_study([each.mode for each in ledger.objectives], sampler=copy.deepcopy(self._sampler))
        study.add_trials(self._known)
        return Follower(study, ledger, closes_paused=True, guests=False)

    def _begun(self, trial: Trial) -> Any:
        """Return the Optuna trial of a configuration that has started: the last asked one, or a new one for a clone."""
        asked, self._asked = self._asked, None
        if asked is not None:
            return asked
        assert self._follower is not None
        study = self._follower.study
        try:
            return self._enqueued(study, trial.params)[0]
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
        return self._enqueued(study, self._space.sample(self._seed, number))

    def _enqueued(self, study: Any, params: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        parameters, _ = self._translation.parameters(params)
        study.enqueue_trial(parameters)
        trial = study.ask()
        return trial, self._translation.suggest(trial)

    def _first_ones(self, modes: Sequence[str]) -> list[dict[str, Any]]:
        study = new_study(modes, sampler=copy.deepcopy(self._sampler))
        configurations = []
        for number in range(_TRIED):
            trial = study.ask()
            configurations.append(self._translation.suggest(trial))
            study.tell(trial, [float(number)] * len(modes))
        return configurations


def _objectives(count: int) -> str:
    return "one objective" if count == 1 else f"{count} objectives"
