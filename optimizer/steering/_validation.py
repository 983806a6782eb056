"""Checks of a command against the state of an experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.errors import nearest
from optimizer.steering._commands import Add, Clone, Command, Extend, Pause, Resume, command_name, command_trial

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from optimizer.steering._progress import Configuration, Progress

__all__ = ["conflict", "refusal"]


def conflict(command: Command, based_on: int | None, progress: Progress) -> str | None:
    """Describe what has changed about a configuration since the revision that a command was based on.

    Parameters
    ----------
    command : Command
        Command to check. Those about the whole search conflict with nothing.
    based_on : int or None
        Revision of the configuration that the user saw; None to skip the check.
    progress : Progress
        State of the experiment.

    Returns
    -------
    str or None
        Changes since that revision; None without any.

    Examples
    --------
    >>> from optimizer.steering import Configuration, Pause, Progress
    >>> known = Configuration("c000", {}, 5)
    >>> known.record_change("started")
    >>> known.record_change("ada asked to stop it")
    >>> conflict(Pause("c000"), 1, Progress(configurations={"c000": known}))
    'c000 has changed since revision 1: ada asked to stop it. Load it again before you pause it'
    """
    known = progress.configurations.get(command_trial(command) or "")
    if based_on is None or known is None or based_on == known.revision:
        return None
    name = command_name(command)
    if based_on > known.revision:
        return (
            f"revision must be at most {known.revision}, the latest of {known.trial_id}, got {based_on}. Load it again "
            f"before you {name} it"
        )
    later = "; ".join(change.text for change in known.changes[max(0, based_on) :])
    return f"{known.trial_id} has changed since revision {based_on}: {later}. Load it again before you {name} it"


def refusal(command: Command, progress: Progress) -> str | None:
    """Explain why a command cannot be carried out.

    Parameters
    ----------
    command : Command
        Command to check. Pending commands are taken as carried out.
    progress : Progress
        State of the experiment.

    Returns
    -------
    str or None
        Reason with a remedy; None for a valid command.

    Examples
    --------
    >>> from optimizer.steering import Progress, Stop
    >>> refusal(Stop("c007"), Progress())
    "trial must be a configuration of the run, got 'c007'. The run has none yet"
    """
    if progress.over:
        return "run must be running, got one that is over. Resume the search first, or drill down in its pool"
    if isinstance(command, Add):
        return _params_refusal(command.params, progress, is_whole=True)
    trial = command_trial(command)
    if trial is None:
        return None
    known = progress.configurations.get(trial)
    if known is None:
        listed = nearest(trial, progress.configurations)
        none = "" if progress.configurations else " The run has none yet"
        return f"trial must be a configuration of the run, got {trial!r}{listed or '.'}{none}"
    if isinstance(command, Extend):
        return _extend_refusal(known)
    return _clone_refusal(command, known, progress) if isinstance(command, Clone) else _live_refusal(command, known)


def _extend_refusal(known: Configuration) -> str | None:
    if known.is_live or known.status in {"stopped", "finished"}:
        return None
    return (
        f"trial must have neither failed nor diverged, got {known.trial_id}, which has ({known.status}). Clone one of "
        "its finished epochs instead"
    )


def _clone_refusal(command: Clone, known: Configuration, progress: Progress) -> str | None:
    if not known.finished:
        return f"trial must have finished an epoch, got {known.trial_id}, which has none. Clone it after its first one"
    if command.epoch is not None and command.epoch > known.finished:
        return (
            f"epoch must be a finished epoch of {known.trial_id}, 1 to {known.finished}, got {command.epoch}. "
            "Leave it out for the last one"
        )
    for name in command.params:
        if name not in known.params:
            names = ", ".join(known.params) or "none"
            return f"params must be among {names}, got {name!r}{nearest(name, known.params) or '.'}"
    return _params_refusal(command.params, progress, is_whole=False)


def _params_refusal(params: Mapping[str, Any], progress: Progress, *, is_whole: bool) -> str | None:
    """Compare hyperparameters with those of the configurations so far, which the trainer has accepted."""
    examples = [each.params for each in progress.configurations.values() if each.is_live or each.finished]
    known = {name: [each[name] for each in examples if name in each] for each in examples for name in each}
    if not known:
        return None
    for name, value in params.items():
        if name not in known:
            return f"params must be among {', '.join(known)}, got {name!r}{nearest(name, known) or '.'}"
        kinds = {_kind(each) for each in known[name]}
        if len(kinds) == 1 and _kind(value) not in kinds and "" not in kinds:
            return f"{name} must be a {kinds.pop()}, such as {known[name][0]!r}, got {value!r}."
    # A space with branches gives configurations different names.
    missing = [name for name in known if name not in params and all(name in each for each in examples)]
    if is_whole and missing:
        return f"params must have {', '.join(missing)}, as all configurations of the run, got {', '.join(params)}."
    return None


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else "text" if isinstance(value, str) else ""


def _live_refusal(command: Command, known: Configuration) -> str | None:
    if not known.is_live:
        ended = known.status if known.reason in {"", known.status} else f"{known.status}: {known.reason}"
        return f"trial must be running or paused, got {known.trial_id}, which has ended ({ended}). Clone it instead"
    pending = list(known.pending.values())
    if "stop" in pending:
        return f"trial must have no pending stop, got {known.trial_id}. Withdraw that command first"
    holds = [name == "pause" for name in pending if name in {"pause", "resume"}]
    is_held = holds[-1] if holds else known.is_held
    if isinstance(command, Pause) and is_held:
        return f"trial must be running, got {known.trial_id}, which is paused already. Resume or stop it"
    if isinstance(command, Resume) and not is_held:
        waits = "paused by the procedure, which decides when it continues" if known.status == "paused" else "running"
        return f"trial must be paused by a user, got {known.trial_id}, which is {waits}."
    return None
