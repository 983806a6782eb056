"""Predicted effect of a command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optimizer.steering._commands import (
    Add,
    Clone,
    Command,
    End,
    Extend,
    Pause,
    Prioritise,
    Resume,
    Stop,
    command_name,
    command_trial,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.steering._progress import Configuration, Progress

__all__ = ["Effect", "effect", "effects_of"]


# Ids in a sentence about many configurations.
_LISTED = 20


@dataclass(frozen=True, slots=True)
class Effect:
    """Predicted effect of a command.

    Parameters
    ----------
    epochs : int
        Number of epochs that are trained in addition; negative for saved ones.
    seconds : float or None
        Work on workers that is added; negative for saved work, None before the first epoch has been measured.
    end_seconds : float or None
        Delay of the expected end of the search; negative for an earlier end, None where ``seconds`` is None.
    sentences : tuple of str
        Description for the user.
    """

    epochs: int
    seconds: float | None
    end_seconds: float | None
    sentences: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Write the effect as plain data."""
        return {
            "epochs": self.epochs,
            "seconds": self.seconds,
            "end_seconds": self.end_seconds,
            "sentences": list(self.sentences),
        }


def effect(command: Command, progress: Progress) -> Effect:
    """Predict the effect of a valid command from the mean time of an epoch so far.

    The prediction takes the epochs that are granted now; a procedure may grant others later.

    Parameters
    ----------
    command : Command
        Command that :func:`refusal` has no objection to.
    progress : Progress
        State of the experiment.

    Returns
    -------
    Effect
        Epochs, work and end of the search.

    Examples
    --------
    >>> from optimizer.steering import Configuration, Progress
    >>> running = Configuration("c000", {"lr": 0.1}, 5, history=[{"loss": 0.7}])
    >>> progress = Progress(workers=2, seconds=60.0, configurations={"c000": running})
    >>> for sentence in effect(Stop("c000"), progress).sentences:
    ...     print(sentence)
    c000 keeps 1 finished epoch; 4 granted epochs are not trained.
    This saves about 4 min of work; the search ends about 2 min earlier on 2 workers.
    """
    if isinstance(command, Add):
        return _added(command.epochs or progress.epochs, progress, "A new configuration trains for")
    if isinstance(command, End):
        live = sum(each.is_live for each in progress.configurations.values())
        text = f"The search ends; {_count(live, 'configuration')} keep their finished epochs"
        return _predicted(-progress.remaining, progress, f"{text}; {_untrained(progress.remaining)}.")
    known = progress.configurations[command.trial_id]
    if isinstance(command, Clone):
        return _cloned(command, known, progress)
    if isinstance(command, Extend):
        return _predicted(command.epochs, progress, _extended(command, known))
    if isinstance(command, Stop):
        text = f"{known.trial_id} keeps {_count(known.finished, 'finished epoch')}; {_untrained(known.remaining)}."
        return _predicted(-known.remaining, progress, text)
    return Effect(0, 0.0, 0.0, _order_of_work(command, known, progress))


def effects_of(commands: Sequence[Command], progress: Progress) -> Effect:
    """Predict the effect of several valid commands.

    Parameters
    ----------
    commands : sequence of Command
        Commands of one kind, for different configurations.
    progress : Progress
        State of the experiment.

    Returns
    -------
    Effect
        Sums of their effects, and the ids of their configurations.

    Examples
    --------
    >>> from optimizer.steering import Configuration, Progress
    >>> both = {name: Configuration(name, {}, 5, history=[{"loss": 0.7}]) for name in ("c000", "c001")}
    >>> progress = Progress(workers=2, seconds=60.0, configurations=both)
    >>> effects_of([Stop("c000"), Stop("c001")], progress).sentences[0]
    'stop 2 configurations: c000, c001.'
    """
    names = [trial for command in commands if (trial := command_trial(command))]
    listed = f": {', '.join(names[:_LISTED])}{', ...' if len(names) > _LISTED else ''}" if names else ""
    verb = command_name(commands[0]) if commands else "change"
    return _predicted(
        sum(effect(command, progress).epochs for command in commands),
        progress,
        f"{verb} {_count(len(commands), 'configuration')}{listed}.",
    )


def _order_of_work(command: Pause | Resume | Prioritise, known: Configuration, progress: Progress) -> tuple[str, ...]:
    name, epochs = known.trial_id, _count(known.remaining, "granted epoch")
    match command:
        case Pause():
            return (
                f"{name} pauses after its unit in flight; {epochs} wait until a user resumes it.",
                "Other configurations use its share of the workers.",
            )
        case Resume():
            return (f"{name} continues with {epochs}.",)
        case Prioritise():
            others = sum(each.is_live and each is not known for each in progress.configurations.values())
            return (
                f"Units of {name} are assigned before those of {_count(others, 'other configuration')}.",
                "The amount of work stays the same.",
            )


def _extended(command: Extend, known: Configuration) -> str:
    more = _count(command.epochs, "more epoch")
    if not known.is_live:
        return f"{known.trial_id}, which is {known.status}, continues after epoch {known.finished} for {more}."
    if known.owner:
        return f"{known.trial_id} trains for {more}, {known.granted + command.epochs} in all."
    return f"{known.trial_id} trains for {more}, once the procedure has ended it."


def _cloned(command: Clone, parent: Configuration, progress: Progress) -> Effect:
    changed = ", ".join(
        f"{name} = {value!r} instead of {parent.params.get(name)!r}" for name, value in command.params.items()
    )
    text = f"A copy of {parent.trial_id} after epoch {command.epoch or parent.finished} trains for"
    return _added(command.epochs or progress.epochs, progress, text, changed)


def _added(epochs: int, progress: Progress, text: str, changed: str = "") -> Effect:
    details = f" with {changed}" if changed else ""
    return _predicted(epochs, progress, f"{text} {_count(epochs, 'epoch')}{details}.")


def _predicted(epochs: int, progress: Progress, text: str) -> Effect:
    mean = progress.epoch_seconds
    if mean is None:
        return Effect(epochs, None, None, (text, "The time is unknown until the first epoch has finished."))
    seconds = epochs * mean
    end = seconds / max(1, progress.workers)
    verb, way = ("adds", "later") if epochs > 0 else ("saves", "earlier")
    work = (
        f"This {verb} about {_duration(abs(seconds))} of work; the search ends about {_duration(abs(end))} {way} on "
        f"{_count(progress.workers, 'worker')}."
    )
    return Effect(epochs, seconds, end, (text, work) if epochs else (text,))


def _untrained(epochs: int) -> str:
    return f"{_count(epochs, 'granted epoch')} {'is' if epochs == 1 else 'are'} not trained"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _duration(seconds: float) -> str:
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
