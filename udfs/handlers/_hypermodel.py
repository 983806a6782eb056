"""Networks of KerasTuner in a search of this project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from optimizer.space import HyperParameters, Space, discover_space
from udfs.handlers._trainer import ModelTrainer
from udfs.training import TrainerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["HyperModelTrainer"]


@dataclass(frozen=True)
class HyperModelTrainer:
    """Adapter of a ``HyperModel`` of KerasTuner: a search space, and the ``trainer_fn`` of a search.

    KerasTuner need not be installed, unless the model imports it. The model is built several times here, to discover
    its hyperparameters; see :func:`optimizer.space.discover_space`. A method ``fit`` of the model is not called.

    Parameters
    ----------
    hypermodel : object or callable
        Object with a method ``build(hp)``, such as a ``keras_tuner.HyperModel``, or the function itself. It returns a
        compiled model of Keras.
    metrics : sequence of str, Metric, callable or metric object, optional
        Metrics beside the loss; see :class:`ModelTrainer`. By default the metrics that ``compile`` has by name.
    batch_size : int
        Rows of a step, for models without a hyperparameter ``batch_size``. Default 32.

    Attributes
    ----------
    search_space : Space
        Hyperparameters that the model asks for, with the conditions under which it does.

    Raises
    ------
    TrainerError
        The hypermodel has no ``build``; when a network is built, ``build`` returns no compiled model.
    SpaceError
        ``build`` fails with the defaults, or its hyperparameters are not a space; see
        :func:`optimizer.space.discover_space`.

    Examples
    --------
    >>> import keras
    >>> def build(hp):
    ...     hidden = [keras.layers.Dense(hp.Choice("units", [8, 16])) for _ in range(hp.Int("layers", 1, 2))]
    ...     model = keras.Sequential([keras.Input((4,)), *hidden, keras.layers.Dense(2, "softmax")])
    ...     model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    ...     return model
    >>> adapted = HyperModelTrainer(build)
    >>> print(adapted.search_space)
    layers  integer 1 .. 2
    units   choice 8, 16
    >>> adapted({"layers": 2, "units": 8}).metrics
    ('accuracy',)
    """

    hypermodel: Any
    metrics: Sequence[Any] | None = None
    batch_size: int = 32
    search_space: Space = field(init=False)

    def __post_init__(self) -> None:
        if not callable(getattr(self.hypermodel, "build", self.hypermodel)):
            raise TrainerError(
                f"hypermodel must be an object with build(hp) or a function of hp, got {self.hypermodel!r}."
            )
        object.__setattr__(self, "search_space", discover_space(self._build))

    @property
    def _build(self) -> Callable[[HyperParameters], Any]:
        build: Callable[[HyperParameters], Any] = getattr(self.hypermodel, "build", self.hypermodel)
        return build

    def __call__(self, params: Mapping[str, Any]) -> ModelTrainer:
        """Build the network of a configuration."""
        model = self._build(HyperParameters(params))
        if not getattr(model, "compiled", False) or getattr(model, "loss", None) is None:
            raise TrainerError(
                f"build of the hypermodel must return a compiled model with a loss, got {model!r}. Call "
                "model.compile(optimizer=..., loss=...) in it"
            )
        metrics = _compiled_metrics(model) if self.metrics is None else tuple(self.metrics)
        trainer = ModelTrainer(model=model, optimizer=model.optimizer, loss=model.loss, metrics=metrics)
        return replace(trainer, batch_size=params.get("batch_size", self.batch_size))


def _compiled_metrics(model: Any) -> tuple[str, ...]:
    """Return the metrics that a model was compiled with by name, those of all outputs."""
    try:
        metrics = model.get_compile_config().get("metrics") or ()
    except Exception:  # noqa: BLE001 - a loss or a metric of the user without a configuration
        return ()
    return tuple(dict.fromkeys(metric for metric in _flat(metrics) if isinstance(metric, str)))


def _flat(metrics: Any) -> Iterator[Any]:
    if isinstance(metrics, Mapping):
        metrics = list(metrics.values())
    if not isinstance(metrics, (list, tuple)):
        yield metrics
        return
    for each in metrics:
        yield from _flat(each)
