"""Optimizers of a stack: torch's formulas on one matrix with a row for each model, with hyperparameters of its own.

The columns of a matrix are the scalars of the parameters, group by group, as the optimizer's ``param_groups`` have
them. Formulas are those of ``torch.optim``: SGD with momentum, dampening and Nesterov's momentum (Sutskever et al.,
2013), Adam (Kingma and Ba, 2015) with AMSGrad, and AdamW (Loshchilov and Hutter, 2019).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["RULES", "Hyperparameters", "Rule", "flags"]


class Hyperparameters:
    """Values of one parameter group, a row for each model; read again after a scheduler's step.

    Parameters
    ----------
    columns : slice
        Columns of the group.
    groups : sequence of mapping
        Group of each model's optimizer.
    like : torch.Tensor
        Tensor with the type and device of the values.
    """

    def __init__(self, columns: slice, groups: Sequence[Mapping[str, Any]], like: torch.Tensor) -> None:
        self.columns = columns
        self._groups = groups
        self._like = like
        self._numbers: dict[str, list[float]] = {}
        self._columns: dict[str, torch.Tensor] = {}

    def __getitem__(self, name: str) -> torch.Tensor:
        """Return a hyperparameter, of shape (models, 1)."""
        if name not in self._columns:
            self._columns[name] = self.column(self.numbers(name))
        return self._columns[name]

    def column(self, values: Sequence[float]) -> torch.Tensor:
        """Make a column of a value for each model."""
        return torch.tensor(values, dtype=self._like.dtype, device=self._like.device).unsqueeze(1)

    def numbers(self, name: str) -> list[float]:
        """Return a hyperparameter of each model, in double precision."""
        if name not in self._numbers:
            self._numbers[name] = [_number(group, name) for group in self._groups]
        return self._numbers[name]

    def refresh(self) -> None:
        """Forget the values: a scheduler has changed some."""
        self._numbers.clear()
        self._columns.clear()


class Rule(Protocol):
    """Update of the weights of all models of a stack by one step."""

    slots: Sequence[str]
    steps: list[int]

    def __init__(self, groups: Sequence[Hyperparameters], steps: Sequence[int]) -> None: ...

    def step(
        self, rows: slice, weights: torch.Tensor, gradients: torch.Tensor, slots: Mapping[str, torch.Tensor]
    ) -> None:
        """Take a step of the models ``rows``.

        Parameters
        ----------
        rows : slice
            Models that step.
        weights, gradients : torch.Tensor, shape (models, scalars)
            Rows of these models; the weights are changed.
        slots : mapping of str to torch.Tensor
            Rows of the optimizer's state, which are changed.
        """


class SGD:
    """``torch.optim.SGD``."""

    slots: Sequence[str] = ("momentum_buffer",)

    def __init__(self, groups: Sequence[Hyperparameters], steps: Sequence[int]) -> None:
        self._groups = groups
        self.steps = list(steps)

    def step(
        self, rows: slice, weights: torch.Tensor, gradients: torch.Tensor, slots: Mapping[str, torch.Tensor]
    ) -> None:
        """Take a step, see :class:`Rule`."""
        for group in self._groups:
            part = weights[:, group.columns]
            gradient = (gradients[:, group.columns] * group["sign"][rows]).addcmul_(part, group["weight_decay"][rows])
            if any(group.numbers("momentum")):
                buffer = slots["momentum_buffer"][:, group.columns]
                buffer.mul_(group["momentum"][rows])
                buffer.add_(self._undampened(gradient, group, rows))
                gradient = gradient * group["nesterov"][rows] + buffer * group["buffer share"][rows]
            part.addcmul_(gradient, group["lr"][rows], value=-1)
        for place in range(rows.start, rows.stop):
            self.steps[place] += 1

    def _undampened(self, gradient: torch.Tensor, group: Hyperparameters, rows: slice) -> torch.Tensor:
        dampening = group.numbers("dampening")[rows]
        if not any(dampening):
            return gradient
        # The first gradient becomes the buffer without dampening.
        steps = self.steps[rows]
        return gradient * group.column([1 - each if step else 1.0 for each, step in zip(dampening, steps, strict=True)])


class Adam:
    """``torch.optim.Adam`` and ``torch.optim.AdamW``."""

    slots: Sequence[str] = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")

    def __init__(self, groups: Sequence[Hyperparameters], steps: Sequence[int]) -> None:
        self._groups = groups
        self.steps = list(steps)

    def step(
        self, rows: slice, weights: torch.Tensor, gradients: torch.Tensor, slots: Mapping[str, torch.Tensor]
    ) -> None:
        """Take a step, see :class:`Rule`."""
        for place in range(rows.start, rows.stop):
            self.steps[place] += 1
        steps = self.steps[rows]
        for group in self._groups:
            part = weights[:, group.columns]
            part.mul_(1 - (group["lr"] * group["decoupled_decay"])[rows])
            gradient = (gradients[:, group.columns] * group["sign"][rows]).addcmul_(part, group["coupled_decay"][rows])
            average, square = (slots[name][:, group.columns] for name in self.slots[:2])
            average.lerp_(gradient, 1 - group["beta1"][rows])
            square.lerp_(gradient.square_(), 1 - group["beta2"][rows])
            if "max_exp_avg_sq" in slots:
                largest = slots["max_exp_avg_sq"][:, group.columns]
                square = largest.copy_(torch.maximum(largest, square))
            first, second = (
                [1 - beta**step for beta, step in zip(group.numbers(name)[rows], steps, strict=True)]
                for name in ("beta1", "beta2")
            )
            rates = [rate / each for rate, each in zip(group.numbers("lr")[rows], first, strict=True)]
            scale = group.column([each**-0.5 for each in second])
            change = average / square.sqrt().mul_(scale).add_(group["eps"][rows])
            part.addcmul_(change, group.column(rates), value=-1)


RULES: dict[type[torch.optim.Optimizer], type[SGD | Adam]] = {
    torch.optim.SGD: SGD,
    torch.optim.Adam: Adam,
    torch.optim.AdamW: Adam,
}
"""Rule by class of optimizer; subclasses may step in another way."""

# Options of a group that select a formula: sessions of a stack have the same.
_FLAGS = ("amsgrad",)


def flags(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a group in which the sessions of a stack agree."""
    return {name: group[name] for name in _FLAGS if name in group}


def _number(group: Mapping[str, Any], name: str) -> float:
    decoupled = bool(group.get("decoupled_weight_decay"))
    if name == "sign":
        return -1.0 if group["maximize"] else 1.0
    if name == "buffer share":
        return _buffer_share(group)
    if name == "nesterov":
        # A model without momentum steps by its gradient.
        return 1.0 if group["nesterov"] or not group["momentum"] else 0.0
    if name in {"beta1", "beta2"}:
        return float(group["betas"][int(name[-1]) - 1])
    if name in {"decoupled_decay", "coupled_decay"}:
        return float(group["weight_decay"]) if decoupled == (name == "decoupled_decay") else 0.0
    return float(group[name])


def _buffer_share(group: Mapping[str, Any]) -> float:
    return float(group["momentum"]) if group["nesterov"] else float(bool(group["momentum"]))
