"""Grouping of trials of one architecture, whose small models train as a stack."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from cerebro_spark.hopper._grouping import Group
from cerebro_spark.hopper._probe import OPENING
from udfs.handlers import open_session, settings_kept
from udfs.hopper import configuration_key
from udfs.stacking import stack_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cerebro_spark.hopper._trial import Trial

__all__ = ["STACKS", "StackedGroups"]

STACKS = ("off", "auto")
"""Ways to train configurations of one architecture: each alone, or as a stack where this is faster."""

_LOG = logging.getLogger(__name__)

# Sessions that a worker keeps open.
_MOST = 16


class StackedGroups:
    """Grouping of trials by architecture.

    A group has up to 16 trials whose sessions can be stacked, and there are as many groups as workers if there are
    enough trials. Trials that entered an epoch together enter the next one together. Those of a group that lost its
    worker or ran out of memory train one by one from then on.

    Parameters
    ----------
    trainer_fn : callable
        The user's function, called once for each configuration to see its architecture.
    num_workers : int
        Number of workers.

    Examples
    --------
    >>> import torch
    >>> from cerebro_spark import ModelTrainer
    >>> from cerebro_spark.hopper import Trial
    >>> def trainer_fn(params):
    ...     net = torch.nn.Linear(3, params["outputs"])
    ...     return ModelTrainer(model=net, optimizer=torch.optim.SGD(net.parameters()), loss=torch.nn.MSELoss())
    >>> groups = StackedGroups(trainer_fn, num_workers=1)
    >>> trials = [Trial(f"c{number}", {"outputs": outputs}) for number, outputs in enumerate((1, 2, 1))]
    >>> [[trial.trial_id for trial in group.trials] for group in groups.groups(trials)]
    [['c0', 'c2'], ['c1']]
    """

    def __init__(self, trainer_fn: Callable[[dict[str, Any]], Any], num_workers: int) -> None:
        self._trainer_fn = trainer_fn
        self._num_workers = num_workers
        # Key of the architecture, or reason to train alone, by configuration.
        self._keys: dict[str, tuple[str, str]] = {}
        self._numbers: dict[str, int] = {}
        self._last_number = 0
        # Other threads add to it during a call of `groups`.
        self._alone: set[str] = set()

    def groups(self, trials: Sequence[Trial]) -> list[Group]:
        """Group trials that enter an epoch together, see :class:`cerebro_spark.hopper.Grouping`."""
        alike: dict[str, list[Trial]] = {}
        for trial in trials:
            key = "" if trial.trial_id in self._alone else self.key_of(trial.params)[0]
            alike.setdefault(key or f"alone {trial.trial_id}", []).append(trial)
        numbers = {self._numbers.get(trial.trial_id) for trial in trials}
        if len(numbers) == 1 and None not in numbers and len(alike) == 1:
            return [Group(tuple(trials))]
        most = max(1, min(_MOST, len(trials) // self._num_workers))
        groups = []
        for members in alike.values():
            count = -(-len(members) // most)
            for number in range(count):
                part = members[number * len(members) // count : (number + 1) * len(members) // count]
                self._last_number += 1
                self._numbers |= dict.fromkeys((trial.trial_id for trial in part), self._last_number)
                groups.append(Group(tuple(part)))
        return groups

    def record_failure(self, group: Group, why: str) -> None:
        """Train the trials of a group one by one from now on."""
        self._alone |= {trial.trial_id for trial in group.trials}

    def key_of(self, params: Mapping[str, Any]) -> tuple[str, str]:
        """Return the key of a configuration's architecture, and the reason to train it alone; one of them is ``""``."""
        name = configuration_key(params)
        if name not in self._keys:
            try:
                with OPENING, settings_kept():
                    self._keys[name] = stack_key(open_session(self._trainer_fn, params, 0))
            except Exception as error:  # noqa: BLE001 - the worker reports it
                _LOG.debug("configuration %s cannot be opened on the driver: %s", dict(params), error)
                self._keys[name] = "", f"it cannot be opened on the driver: {error}"
        return self._keys[name]

    def explain(self, configurations: Sequence[Mapping[str, Any]]) -> list[str]:
        """Describe in lines of text which configurations can train as stacks, and why others train alone."""
        keys = [self.key_of(params) for params in configurations]
        sizes = [sum(key == known for key, _ in keys) for known in dict.fromkeys(key for key, _ in keys if key)]
        stacked = [size for size in sizes if size > 1]
        summary = f"stack: {sum(stacked)} of {len(keys)} configurations share {len(stacked)} architectures"
        lines = [f"{summary}; workers measure whether a stack is faster"]
        reasons = [reason or "no other configuration has its architecture" for key, reason in keys]
        alone = [not key or sum(key == other for other, _ in keys) == 1 for key, _ in keys]
        for reason in dict.fromkeys(reason for reason, single in zip(reasons, alone, strict=True) if single):
            count = sum(reason == each and single for each, single in zip(reasons, alone, strict=True))
            lines.append(f"  {count} train one by one: {reason}")
        return lines
