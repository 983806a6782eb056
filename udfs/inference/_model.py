"""A model as a value that travels to the workers: how to build it, never its weights."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from udfs.handlers import TensorSpec, TracedModel, handler

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ModelSource", "open_model"]

# Models that a Python worker keeps open between tasks. Spark reuses its workers, and a job or two share one; each more
# would hold its weights for a plan that is over.
_KEPT = 2

_open: OrderedDict[tuple[str, str], TracedModel] = OrderedDict()


@dataclass(frozen=True, slots=True)
class ModelSource:
    """How a worker comes by a model.

    Parameters
    ----------
    key : str
        Tells models apart: two sources with one key build equal models.
    framework : str
        The handler's name.
    inputs : tuple of TensorSpec
        One for each input of the network.
    build : callable
        Returns the framework's model with its weights, in inference mode. It is pickled by Spark's own closures: by
        reference for what is installed, by value for what a notebook defined.
    skeleton : callable, optional
        Returns a torch model without its weights, on the meta device: they are then resident once a node
        (:mod:`udfs.weights.shared`). Without it each process has its own.
    """

    key: str
    framework: str
    inputs: tuple[TensorSpec, ...]
    build: Callable[[], object] = field(compare=False, repr=False)
    skeleton: Callable[[], Any] | None = field(default=None, compare=False, repr=False)

    def open(self, device: str = "cpu") -> TracedModel:
        """Build and trace the model anew."""
        return handler(self.framework).trace(self._built(), self.inputs, device=device)

    def _built(self) -> object:
        if self.skeleton is None:
            return self.build()
        from udfs.weights.shared import open_shared  # noqa: PLC0415 - imports torch, an optional extra

        return open_shared(self.key, self.build, self.skeleton)


def open_model(source: ModelSource, device: str, threads: int) -> TracedModel:
    """Give the traced model, prepared to run, from this process's cache where it is there."""
    key = (source.key, device)
    if key not in _open:
        while len(_open) >= _KEPT:
            _open.popitem(last=False)
        _open[key] = source.open(device)
    _open.move_to_end(key)
    return _open[key].prepare(threads)
