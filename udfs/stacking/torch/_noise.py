"""Dropout of a stack: every model draws from its own random numbers, those that it draws when it trains alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from udfs.training import Session

__all__ = ["Noise"]

_DROPOUTS = (functional.dropout, functional.dropout1d, functional.dropout2d, functional.dropout3d)


class Noise(TorchFunctionMode):
    """Mode in which dropout multiplies the batch of each model by noise from the generators of its session.

    Parameters
    ----------
    sessions : sequence of Session
        Sessions in the order of the models; :meth:`write_back` sets their random numbers.
    """

    def __init__(self, sessions: Sequence[Session], take: Callable[[], Any], apply: Callable[[Any], None]) -> None:
        super().__init__()
        self._sessions = sessions
        self._take, self._apply = take, apply
        self._states = [session.random["torch"] for session in sessions]
        self._drawn = False
        self.rows = slice(0, len(sessions))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in _DROPOUTS:
            return func(*args, **(kwargs or {}))
        return self._dropped(func, *args, **(kwargs or {}))

    def write_back(self) -> None:
        """Set the random numbers of the sessions to those after the draws."""
        if self._drawn:
            for session, state in zip(self._sessions, self._states, strict=True):
                session.random = {**session.random, "torch": state}

    def _dropped(
        self, func: Any, values: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> torch.Tensor:
        if not training or not p:
            return func(values, p, training, inplace)  # type: ignore[no-any-return]
        noise: torch.Tensor = _Drawn.apply(values.detach(), lambda like: self._draw(func, p, like))  # type: ignore[no-untyped-call]
        return values.mul_(noise) if inplace else values * noise

    def _draw(self, func: Any, p: float, like: torch.Tensor) -> torch.Tensor:
        """Draw the noise of the models that step now, for values of shape (models, ...)."""
        self._drawn = True
        before = self._take()
        parts = []
        for place, ones in zip(range(self.rows.start, self.rows.stop), torch.ones_like(like), strict=True):
            self._apply(self._states[place])
            parts.append(func(ones, p, True))
            self._states[place] = self._take()
        self._apply(before)
        return torch.stack(parts)


class _Drawn(torch.autograd.Function):
    """Values that a function draws for all models at once."""

    @staticmethod
    def forward(values: torch.Tensor, _draw: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        raise RuntimeError(f"dropout must be of values of each model, got {tuple(values.shape)} that all share")

    @staticmethod
    def setup_context(ctx: Any, _inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def vmap(_info: Any, in_dims: Any, values: torch.Tensor, draw: Callable[[torch.Tensor], torch.Tensor]) -> Any:
        return draw(values.movedim(in_dims[0], 0).contiguous()), 0
