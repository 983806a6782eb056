"""A model as a value that travels to the workers: how to build it, never its weights."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from udfs.handlers import (
    Framework,
    TensorSpec,
    TracedModel,
    check_records,
    framework,
    register_framework,
    registered_frameworks,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ModelSource", "check_model", "open_model"]

# Models that a Python worker keeps open between tasks. Spark reuses its workers, and a job or two share one; each more
# would hold its weights for a plan that is over.
_KEPT = 2

_open: OrderedDict[tuple[str, str], TracedModel] = OrderedDict()

# Keys of models whose records were seen to be apart.
_checked: set[str] = set()


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Everything that a worker needs to open a model."""

    key: str  # tells models apart: two sources with one key build equal models
    framework: str
    inputs: tuple[TensorSpec, ...]  # one for each input of the network
    # Returns the framework's model with its weights, in inference mode. It is pickled by Spark's own closures: by
    # reference for what is installed, by value for what a notebook defined.
    build: Callable[[], object] = field(compare=False, repr=False)
    # Returns the model without its weights. A framework that can (torch) then has them resident once per node; see
    # udfs.handlers.Framework.share. Without it each process has its own.
    skeleton: Callable[[], Any] | None = field(default=None, compare=False, repr=False)
    # Frameworks that were registered by hand, for the worker to register too; by default those of this process.
    registered: tuple[Framework, ...] = field(default_factory=registered_frameworks, compare=False, repr=False)

    def open(self, device: str = "cpu") -> TracedModel:
        """Build and trace the model anew."""
        register_framework(*self.registered)
        handler = framework(self.framework)
        model = self.build() if self.skeleton is None else handler.share(self.key, self.build, self.skeleton)
        return handler.trace(model, self.inputs, device=device)


def open_model(source: ModelSource, device: str, threads: int) -> TracedModel:
    """Open a model prepared to run, or take it from this process's cache."""
    key = (source.key, device)
    if key not in _open:
        while len(_open) >= _KEPT:
            _open.popitem(last=False)
        _open[key] = source.open(device)
    _open.move_to_end(key)
    return _open[key].prepare(threads)


def check_model(source: ModelSource, model: TracedModel) -> None:
    """Refuse a model whose records see each other, before Spark starts a job; it runs once per model and process.

    Raises
    ------
    udfs.handlers.UntraceableModelError
        A record's features would depend on the records beside it, or be other ones each time.
    """
    if source.key not in _checked:
        check_records(model, source.inputs)
        _checked.add(source.key)
