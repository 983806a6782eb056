"""The paradigm: an expert that steers a search by rules, grid search and TPE, with the same budget of epochs.

All train the same networks on scikit-learn's digits. The expert sees learning curves alone. It begins with a part of
the grid, stops what lags behind, and clones the trained state of the best with another learning rate.
"""

from __future__ import annotations

import copy
import random
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from sklearn.datasets import load_digits

from optimizer.procedures import Added, EpochResult, Listed, Sequential, Source, Start, Stopped
from optimizer.procedures.studies import OptunaSampler
from optimizer.space import Space, choice, log_uniform

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from optimizer.procedures import Procedure, Result, Trial

__all__ = ["BUDGET", "compare"]

BUDGET = 96
"""Epochs of each method: those of a grid of 16 configurations with 6 epochs."""

_EPOCHS = 6
_RATES, _WIDTHS = (1e-4, 1e-3, 1e-2, 1e-1), (8, 16, 32, 64)


@dataclass
class _Digits:
    """Networks of a search on the digits, by id, and the best error after each epoch of the search."""

    seed: int
    models: dict[str, list[tuple[Any, Any]]] = field(default_factory=dict)
    best: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        inputs, labels = load_digits(return_X_y=True)
        order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(self.seed))
        self._x = torch.tensor(inputs, dtype=torch.float32)[order] / 16
        self._y = torch.tensor(labels)[order]
        self._train = 1000

    def begin(self, start: Start) -> None:
        """Build a network, or copy the state of the source."""
        if start.source is None:
            torch.manual_seed(self.seed * 1000 + int(start.trial_id[1:]))
            width = int(start.params["width"])
            net = torch.nn.Sequential(torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, 10))
            optimizer = torch.optim.Adam(net.parameters(), lr=start.params["lr"])
        else:
            net, optimizer = copy.deepcopy(self.models[start.source.trial_id][start.source.epoch])
            optimizer.param_groups[0]["lr"] = start.params["lr"]
        self.models[start.trial_id] = [(net, optimizer)]

    def train(self, trial: Trial) -> float:
        """Train an epoch, and return the error on the validation rows."""
        net, optimizer = copy.deepcopy(self.models[trial.trial_id][-1])
        for rows in torch.arange(self._train).split(32):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(self._x[rows]), self._y[rows]).backward()
            optimizer.step()
        self.models[trial.trial_id].append((net, optimizer))
        with torch.no_grad():
            wrong = net(self._x[self._train :]).argmax(1) != self._y[self._train :]
        error = float(wrong.float().mean())
        self.best.append(min([error, *self.best[-1:]]))
        return error


def _grid(seed: int) -> list[dict[str, Any]]:
    """List the grid in random order: where it begins must not decide."""
    configurations = [{"lr": rate, "width": width} for rate in _RATES for width in _WIDTHS]
    random.Random(seed).shuffle(configurations)
    return configurations


def _search(seed: int, procedure: Procedure, steer: Callable[[Procedure], list[Result]]) -> list[float]:
    """Train an epoch of each running configuration in turn, until the budget is spent."""
    digits = _Digits(seed)
    decisions = procedure.ask([], idle=2)
    while len(digits.best) < BUDGET and not procedure.done:
        for start in decisions:
            if isinstance(start, Start):
                digits.begin(start)
        decisions = []
        for trial in procedure.ledger.running[:2]:
            error = digits.train(trial)
            decisions += procedure.ask([EpochResult(trial.trial_id, trial.finished + 1, {"error": error})], idle=1)
        # One after the other, as an experiment carries requests out.
        for request in [] if procedure.done else steer(procedure):
            decisions += procedure.ask([request])
    return (digits.best + digits.best[-1:] * BUDGET)[:BUDGET]


def _unsteered(_: Procedure) -> list[Result]:
    return []


class _Expert:
    """Rules of an expert, who looks at the curves after each epoch.

    It stops a configuration that is behind twice the best error after two epochs, and one without progress in three.
    In its place it clones the trained state of the best with a rate that this lineage has not had: a third of it where
    the error no longer falls, three times it otherwise.
    """

    def __init__(self) -> None:
        self._tried: set[tuple[str, float]] = set()

    def __call__(self, procedure: Procedure) -> list[Result]:
        known = [trial for trial in procedure.ledger if trial.scores]
        if not known:
            return []
        best = max(known, key=lambda trial: (trial.best_score, -trial.number))
        requests: list[Result] = []
        for trial in procedure.ledger.running:
            behind = trial.finished >= 2 and -trial.best_score > 2 * -best.best_score + 0.01
            stalled = trial.finished >= 4 and max(trial.scores[-3:]) < trial.best_score
            if behind or stalled:
                requests.append(Stopped(trial.trial_id, "the expert: behind" if behind else "the expert: no progress"))
        busy = procedure.ledger.runs - len(requests)
        if busy < 4 and (clone := self._clone(best)) is not None:
            requests.append(clone)
        return requests

    def _clone(self, best: Trial) -> Added | None:
        epoch = best.best_epoch or best.finished
        falls = best.finished < 2 or best.scores[-1] > best.scores[-2]
        for factor in (3.0, 1 / 3) if falls else (1 / 3, 3.0):
            rate = round(best.params["lr"] * factor, 9)
            if 1e-4 <= rate <= 0.1 and (best.trial_id, rate) not in self._tried:
                self._tried.add((best.trial_id, rate))
                return Added({**best.params, "lr": rate}, _EPOCHS, Source(best.trial_id, epoch))
        return None


def compare(seeds: int) -> dict[str, list[float]]:
    """Return the best error after each epoch of the budget by method: the median of several seeds."""
    space = Space({"lr": log_uniform(1e-4, 0.1), "width": choice(list(_WIDTHS))})
    settings: Mapping[str, Any] = {"metric": "error", "mode": "min"}
    makers: dict[str, Callable[[int], tuple[Procedure, Callable[[Procedure], list[Result]]]]] = {
        "grid": lambda seed: (Listed(_grid(seed), epochs=_EPOCHS, concurrency=2, **settings), _unsteered),
        "tpe": lambda seed: (
            Sequential(OptunaSampler(space, "tpe", seed=seed), configurations=16, epochs=_EPOCHS, **settings),
            _unsteered,
        ),
        # A part of the grid: clones reach other rates.
        "expert": lambda seed: (Listed(_grid(seed)[:5], epochs=_EPOCHS, concurrency=4, **settings), _Expert()),
    }
    curves = {name: [_search(seed, *make(seed)) for seed in range(seeds)] for name, make in makers.items()}
    return {name: [statistics.median(each) for each in zip(*runs, strict=True)] for name, runs in curves.items()}
