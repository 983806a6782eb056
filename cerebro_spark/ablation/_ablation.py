"""Ablation: an Estimator that trains a network without each of its parts, and compares the results."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from cerebro_spark.ablation._paired import Paired
from cerebro_spark.ablation._result import AblationResult
from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.tune import Search, Strategy
from optimizer.ablation import REMOVED, REPEAT, VARIANT, Removal, Variant, configurations, design
from optimizer.arguments import real, whole
from optimizer.procedures import Listed
from udfs.ablation import AblatedTrainer
from udfs.driver import validate_arguments
from udfs.handlers import call_trainer, settings_kept
from udfs.training import RANDOM_STREAM, initial_seed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from pyspark.sql import DataFrame

    from cerebro_spark.hopper import Probed
    from udfs.shards import PreparedData

__all__ = ["Ablation"]

# Hyperparameters that the ablation sets.
_RESERVED = (VARIANT, REPEAT, REMOVED, RANDOM_STREAM, "without")


@validate_arguments
@dataclass(kw_only=True, eq=False)
class Ablation(Search):
    """Train a network without each of its parts, several times, and compare the results with those of the full network.

    A part is a group of feature columns, a group of modules, or anything that ``trainer_fn`` leaves out when
    ``params["without"]`` names it. In each repeat, all variants have the same initial weights, visit the shards in the
    same order, and read the rows in the same order, so that their differences are paired. Random controls remove
    equally many columns or parameters at random.

    All settings of :class:`Search` are keyword arguments too.

    Parameters
    ----------
    features : sequence of str, or mapping of str to sequence of str, optional
        Feature columns to remove one by one, or groups of them by name. The network reads zeros in their place, in
        training and in prediction.
    modules : sequence of str, or mapping of str to sequence of str, optional
        Modules to remove, by their paths in the network, or groups of them by name.
    params : sequence of str, or mapping of str to sequence of str, optional
        Names that ``trainer_fn`` gets in the list ``params["without"]``, which is empty otherwise.
    hyperparameters : mapping of str to object
        Hyperparameters of all configurations. Default none.
    num_epochs : int
        Number of epochs of each configuration.
    repeats : int
        Number of trainings of each variant, with different random numbers; at least 2. Default 5.
    controls : bool
        Whether to train random controls. Default ``True``.
    confidence : float
        Probability with which no interval of a part without an effect excludes zero (Holm). Default 0.95.
    schedule : str
        Scheduling policy, as for :class:`Search`. Default ``"fixed"``, by which the variants of a repeat visit the
        shards in the same order.

    Raises
    ------
    InvalidArgumentError
        A value is not allowed, a column is unknown, a group has all columns, or the search has no such parameter.
    TrainerError
        ``trainer_fn`` cannot be sent to the workers.

    Examples
    --------
    >>> import tempfile
    >>> from pyspark.sql import SparkSession
    >>> from cerebro_spark import SparkBackend, Store
    >>> ablation = Ablation(
    ...     backend=SparkBackend(SparkSession.active(), num_workers=2),
    ...     store=Store.from_uri(tempfile.mkdtemp()),
    ...     trainer_fn=lambda params: ...,
    ...     features={"capital": ["gain", "loss"], "age": ["age"]},
    ...     num_epochs=5,
    ...     repeats=3,
    ...     feature_columns=["age", "gain", "loss", "hours"],
    ...     label_columns=["label"],
    ...     metric="accuracy",
    ... )
    >>> [variant.name for variant in ablation.variants]
    ['full', 'capital', 'age', '2 random features', '1 random feature']
    >>> ablation.plan().configurations
    15
    """

    features: Sequence[str] | Mapping[str, str | Sequence[str]] | None = None
    modules: Sequence[str] | Mapping[str, str | Sequence[str]] | None = None
    # Spark ML's property of this name lists Params, of which a search has none.
    params: Sequence[str] | Mapping[str, str | Sequence[str]] = ()  # type: ignore[assignment]
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    num_epochs: int
    repeats: int = 5
    controls: bool = True
    confidence: float = 0.95
    schedule: str = "fixed"

    def __post_init__(self) -> None:
        super().__post_init__()
        first = {f"repeat {repeat}": f"c{repeat * len(self.variants):03d}" for repeat in range(self.repeats)}
        result_of = partial(AblationResult, variants=self.variants, confidence=self.confidence)
        self._extension = Paired(first, result_of)

    def copy(self, extra: Mapping[Any, Any] | None = None) -> Self:
        """Copy the ablation, which has no Params: Spark ML's ``copy`` reads them from ``params``.

        Raises
        ------
        InvalidArgumentError
            ``extra`` is not empty.
        """
        if extra:
            raise InvalidArgumentError(f"extra must be empty, got {extra!r}. Set the ablation's own settings instead")
        return copy(self)

    def explainParams(self) -> str:
        """Return an empty text: an ablation has no Params."""
        return ""

    def _check(self) -> None:
        whole("repeats", self.repeats, 2, "One training of each variant has no confidence interval.")
        whole("num_epochs", self.num_epochs)
        real("confidence", self.confidence, 0.5, 0.9999)
        if self.stack != "off":
            raise InvalidArgumentError(
                f"stack must be 'off' in an ablation, whose variants are compared bit by bit, got {self.stack!r}."
            )
        if not isinstance(self.hyperparameters, Mapping):
            raise InvalidArgumentError(f"hyperparameters must be a mapping, got {self.hyperparameters!r}.")
        for name in _RESERVED:
            if name in self.hyperparameters:
                raise InvalidArgumentError(
                    f"hyperparameters must not have {name!r}, which the ablation sets, got "
                    f"{self.hyperparameters[name]!r}. Rename it"
                )
        super()._check()

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The full model, the model without each part, and random controls, as :class:`optimizer.ablation.Variant`."""
        return design(
            features=self.features,
            modules=self.modules,
            params=self.params or None,
            columns=self._columns,
            controls=self.controls,
        )

    @property
    def configurations(self) -> list[dict[str, Any]]:
        """The params of each configuration: all variants of a repeat, then those of the next one."""
        listed = configurations(
            self.variants, self.hyperparameters, repeats=self.repeats, columns=self._columns, seed=self.seed
        )
        return [{**params, RANDOM_STREAM: f"repeat {params[REPEAT]}"} for params in listed]

    @property
    def strategy(self) -> Strategy:
        """See :attr:`Search.strategy`."""
        configurations = self.configurations
        return Strategy(partial(Listed, configurations, epochs=self.num_epochs), lambda: configurations)

    @property
    def _columns(self) -> list[str]:
        """Feature columns of all inputs, each once."""
        if isinstance(self.feature_columns, Mapping):
            return list(dict.fromkeys(name for names in self.feature_columns.values() for name in names))
        return list(self.feature_columns)

    def _prepared(self, data: DataFrame | PreparedData) -> PreparedData:
        # A module that does not exist is refused before hours of preparation.
        self._check_variants(self._trainer())
        return super()._prepared(data)

    def _probed(
        self, configurations: Sequence[Mapping[str, Any]], prepared: PreparedData, epochs: int | None = None
    ) -> Probed:
        probed = super()._probed(configurations, prepared, epochs)
        self._check_variants(self._trainer(prepared))
        return probed

    def _check_variants(self, trainer: AblatedTrainer) -> None:
        """Build the network of each variant that changes it, so that errors show before a worker starts."""
        changed = [each for each in self.configurations if not each[REPEAT] and _changes(each)]
        for params in changed:
            with settings_kept():
                call_trainer(trainer, params, initial_seed(self.seed, "probe"))

    def _trainer(self, prepared: PreparedData | None = None) -> AblatedTrainer:
        return AblatedTrainer(self.trainer_fn, prepared)


def _changes(params: Mapping[str, Any]) -> bool:
    """Return whether a configuration removes a part of the network itself."""
    removal = Removal.from_dict(params[REMOVED])
    return bool(removal.features or removal.modules or removal.parameters_of)
