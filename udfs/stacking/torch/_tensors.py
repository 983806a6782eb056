"""Tensors of a stack: weights and optimizer state as one matrix each, and buffers, with a row for each model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.func import stack_module_state

from udfs.packing import StateError
from udfs.stacking.torch._optimizers import RULES, Hyperparameters

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from udfs.handlers.torch import TorchSession
    from udfs.stacking.torch._optimizers import Rule

__all__ = ["StackedTensors"]


@dataclass(slots=True, eq=False)
class StackedTensors:
    """State of several sessions, copied; :meth:`write_back` copies it to the sessions again.

    Attributes
    ----------
    weights : torch.Tensor, shape (models, scalars)
        Parameters that learn, group by group.
    learned, constant, buffers : dict of str to torch.Tensor, each of shape (models, ...)
        Views of the weights, other parameters, and buffers, by name.
    slots : dict of str to torch.Tensor, each of shape (models, scalars)
        State of the optimizers, which :meth:`read_slots` reads.
    """

    sessions: Sequence[TorchSession]
    weights: torch.Tensor
    learned: dict[str, torch.Tensor]
    constant: dict[str, torch.Tensor]
    buffers: dict[str, torch.Tensor]
    groups: list[Hyperparameters]
    named: list[list[list[tuple[str, Any]]]]
    slots: dict[str, torch.Tensor] = field(default_factory=dict)
    rule: Rule | None = None

    @classmethod
    def of_sessions(cls, sessions: Sequence[TorchSession], unused: frozenset[str] = frozenset()) -> StackedTensors:
        """Copy the state of sessions of one architecture; parameters ``unused`` get no gradient, and do not learn."""
        parameters, buffers = stack_module_state([session.model for session in sessions])
        named = [list(_learned_groups(session, unused)) for session in sessions]
        names = [[name for name, _ in group] for group in named[0]]
        weights = torch.cat(
            [parameters[name].detach().reshape(len(sessions), -1) for group in names for name in group], 1
        )
        learned: dict[str, torch.Tensor] = {}
        groups = []
        column = 0
        for number, group in enumerate(names):
            begin = column
            for name in group:
                shape = parameters[name].shape
                width = parameters[name][0].numel()
                learned[name] = weights[:, column : column + width].view(shape).requires_grad_()
                column += width
            of_group = [session.trainer.optimizer.param_groups[number] for session in sessions]
            if group:
                groups.append(Hyperparameters(slice(begin, column), of_group, weights))
        constant = {name: value.detach() for name, value in parameters.items() if name not in learned}
        return cls(sessions, weights, learned, constant, dict(buffers), groups, named)

    def write_back(self) -> None:
        """Copy weights, buffers and the state of the optimizers to the sessions."""
        with torch.no_grad():
            for place, session in enumerate(self.sessions):
                parameters = dict(session.model.named_parameters())
                for name, value in self.learned.items():
                    parameters[name].copy_(value[place])
                for name, buffer in session.model.named_buffers():
                    buffer.copy_(self.buffers[name][place])
                if self.rule is not None and self.rule.steps[place]:
                    self._write_slots(place, session, parameters, self.rule.steps[place])

    def _write_slots(self, place: int, session: TorchSession, parameters: dict[str, Any], steps: int) -> None:
        optimizer, column = session.trainer.optimizer, 0
        group_of = {id(each): group for group in optimizer.param_groups for each in group["params"]}
        for name, value in self.learned.items():
            parameter, width = parameters[name], value[place].numel()
            group, columns = group_of[id(parameter)], slice(column, column + width)
            column += width
            if isinstance(optimizer, torch.optim.SGD) and not group["momentum"]:
                continue
            state = optimizer.state[parameter]
            for slot, values in self.slots.items():
                state[slot] = values[place, columns].reshape(parameter.shape).clone()
            if isinstance(optimizer, torch.optim.SGD):
                continue
            known = state.get("step")
            # As Optimizer makes it: of double precision where this is the default.
            kind = torch.float64 if torch.get_default_dtype() == torch.float64 else torch.float32
            state["step"] = torch.tensor(float(steps), dtype=kind) if known is None else torch.full_like(known, steps)

    def read_slots(self) -> Rule:
        """Read the state of the optimizers, once it is known which parameters get a gradient.

        Raises
        ------
        udfs.packing.StateError
            Parameters of a model are at several numbers of steps.
        """
        kind = RULES[type(self.sessions[0].trainer.optimizer)]
        amsgrad = any(group.get("amsgrad") for group in self.sessions[0].trainer.optimizer.param_groups)
        for slot in kind.slots if amsgrad or kind.slots[-1] != "max_exp_avg_sq" else kind.slots[:-1]:
            self.slots[slot] = torch.zeros_like(self.weights)
        steps = []
        for place, (session, groups) in enumerate(zip(self.sessions, self.named, strict=True)):
            column, counts = 0, set()
            state = session.trainer.optimizer.state
            for _, parameter in (pair for group in groups for pair in group):
                known = state.get(parameter, {})
                columns = slice(column, column + parameter.numel())
                column += parameter.numel()
                for slot, values in self.slots.items():
                    if known.get(slot) is not None:
                        values[place, columns] = known[slot].reshape(-1)
                # SGD counts no steps: its buffer exists from the first one on.
                counts.add(int(known.get("step", known.get("momentum_buffer") is not None)))
            if len(counts) > 1:
                raise StateError(
                    "the state of the optimizer must be that of one number of steps for all parameters, got "
                    f"{sorted(counts)}"
                )
            steps.append(counts.pop())
        self.rule = kind(self.groups, steps)
        return self.rule


def _learned_groups(session: TorchSession, unused: frozenset[str]) -> Iterator[list[tuple[str, Any]]]:
    names = {id(parameter): name for name, parameter in session.model.named_parameters()}
    for group in session.trainer.optimizer.param_groups:
        named = [(names[id(parameter)], parameter) for parameter in group["params"] if parameter.requires_grad]
        yield [(name, parameter) for name, parameter in named if name not in unused]
