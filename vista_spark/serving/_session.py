"""``Session``: a model and its deadline, as a user of the server describes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.ml import Transformer

from optimizer.arguments import real
from udfs.driver import validate_arguments
from udfs.serving import TensorSpec
from vista_spark.errors import InvalidArgumentError
from vista_spark.serving._model_reference import is_reference

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from optimizer.serving import BatchingProfile
    from vista_spark.variants import Catalog, CatalogVariant

__all__ = ["Session"]

# Types of inputs and outputs of a function.
_TYPES = (
    "bytes",
    "str",
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *(f"float{bits}" for bits in (16, 32, 64)),
)


@validate_arguments
@dataclass(frozen=True, slots=True)
class Session:
    """A model that answers requests within a deadline.

    Parameters
    ----------
    name : str
        Name that callers use.
    model : str, ModelCard, model or function
        One of:

        * a network, as for :class:`vista_spark.CNNFeaturizer`: a name of the roster, a card, a model of torch or Keras;
        * with `inputs`, a function of whole batches that takes and returns arrays by name, each with the batch in
          front;
        * a fitted pipeline of Spark ML, or the result of :func:`vista_spark.compiling.compile_pipeline`;
        * the name of any of these in a registry: ``"models:/name@alias"`` or ``"models:/name/version"`` in MLflow's,
          ``"store:/name@alias"`` or ``"store:/name/version"`` in the server's store (:class:`ModelStore`). The version
          of the session is then the registry's, and a running server follows an alias that moves.
    weights : str or path, optional
        Weights of a network. Default: random ones, with a warning.
    head : str or path, optional
        File of a linear layer that replaces the layers above `layer`: the state dict of a ``torch.nn.Linear``. Sessions
        that differ only in their heads share everything else.
    slo_ms : float
        Milliseconds from a request to its answer. Default 500.
    rate : float
        Expected requests per second, replaced by the measured rate. Default 1.
    layer : str, optional
        Layer that the head reads. Default: the topmost layer with as many numbers as the head reads.
    inputs : sequence of TensorSpec, optional
        Inputs of a function. ``TensorSpec(..., missing=True)`` declares that it reads NaN, infinities and nulls (as
        NaN, or ``None`` in texts); else requests with them are refused. A pipeline has the inputs that it was fitted
        on, and refuses missing values itself.
    outputs : sequence of TensorSpec, optional
        Outputs of a function: numbers, texts or bytes. Default: those of its answer to `sample`.
    image_size : int, optional
        Height and width of a network's images, in pixels.
    max_length : int, optional
        Number of tokens of a network's texts.
    version : str
        Version of the model. Default ``"1"``.
    profile : BatchingProfile, optional
        Batching profile. Default: measured when the session is deployed.
    seed : int
        Seed of random weights. Default 0.
    sample : object, optional
        Record that the model accepts, as for :meth:`Model.execute`, for measurements and warm-up. Default: an image or
        text for a network, known categories for a pipeline, zeros and blanks for a function.
    catalog : vista_spark.variants.Catalog, optional
        Variants of a network, instead of `model`. Under overload cheaper variants answer; each answer has the output
        ``variant``, the name of the variant.
    min_accuracy : float
        Least accuracy of the variants that answer, from 0 to 1. Default 0: all on the catalog's front of accuracy and
        latency.
    dollars_per_day : float, optional
        Budget of the catalog for the busy time of backends, at the price of the server. If it is used up faster than
        evenly over the day, cheaper variants answer; once it is used up, requests are refused until the next day. The
        first day begins when the server starts, or when a running server gets the session. Default: no limit.

    Raises
    ------
    InvalidArgumentError
        An argument is not valid, or no variant of the catalog is as accurate as `min_accuracy`.

    Examples
    --------
    >>> Session("cats", model="mobilenet_v2", slo_ms=250).slo_ms
    250
    """

    name: str
    model: Any = None
    weights: str | os.PathLike[str] | None = None
    head: str | os.PathLike[str] | None = None
    slo_ms: float = 500.0
    rate: float = 1.0
    layer: str | None = None
    inputs: Sequence[TensorSpec] = ()
    outputs: Sequence[TensorSpec] = ()
    image_size: int | None = None
    max_length: int | None = None
    version: str = "1"
    profile: BatchingProfile | None = None
    seed: int = 0
    sample: Any = field(default=None, repr=False, compare=False)
    catalog: Catalog | None = None
    min_accuracy: float = 0.0
    dollars_per_day: float | None = None

    def __post_init__(self) -> None:
        for what, text in (("name", self.name), ("version", self.version)):
            if not text or "/" in text:
                raise InvalidArgumentError(f"{what} must be a non-empty str without a slash, got {text!r}.")
        for what, value in (("slo_ms", self.slo_ms), ("rate", self.rate)):
            real(what, value, 0, above=True)
        real("min_accuracy", self.min_accuracy, 0, 1)
        if self.dollars_per_day is not None:
            real("dollars_per_day", self.dollars_per_day, 0, above=True)
        self._check_catalog()
        _check_specs(self.inputs, self.outputs)
        runs = self.catalog is not None or callable(self.model) or is_reference(self.model) or _is_pipeline(self.model)
        if self.inputs and (not runs or self.head is not None or self.weights is not None):
            raise InvalidArgumentError(
                f"inputs must be empty for a network, and a function has neither weights nor a head, got "
                f"{list(self.inputs)} in session {self.name!r}."
            )
        if self.layer is not None and self.head is None:
            raise InvalidArgumentError(
                f"layer must be None without a head, got {self.layer!r}. Set head to the file of the head that "
                "reads it."
            )

    def _check_catalog(self) -> None:
        """Check that there is either a model or a catalog, and that the catalog has an accurate variant."""
        if self.catalog is None:
            if self.model is None:
                raise InvalidArgumentError(f"model must be set in session {self.name!r}, or a catalog, got None.")
            for what, value in (("min_accuracy", self.min_accuracy), ("dollars_per_day", self.dollars_per_day)):
                if value:
                    raise InvalidArgumentError(
                        f"{what} must not be set without a catalog, got {value} in session {self.name!r}."
                    )
            return
        from vista_spark.variants import Catalog  # few sessions need it

        if not isinstance(self.catalog, Catalog):
            raise InvalidArgumentError(
                f"catalog must be a vista_spark.variants.Catalog, got {type(self.catalog).__name__} in session "
                f"{self.name!r}."
            )
        for what in ("model", "weights", "head", "profile", "image_size", "max_length"):
            if getattr(self, what) is not None:
                raise InvalidArgumentError(
                    f"{what} must be None with a catalog, whose variants have their own, got {getattr(self, what)!r} "
                    f"in session {self.name!r}."
                )
        if not self.variants:
            known = ", ".join(f"{each.name} {each.measurement.accuracy:.3f}" for each in self.catalog)
            raise InvalidArgumentError(
                f"min_accuracy must be at most the accuracy of a variant of the catalog ({known}), got "
                f"{self.min_accuracy:g} in session {self.name!r}."
            )

    @property
    def variants(self) -> tuple[CatalogVariant, ...]:
        """Variants of the catalog that are used, from the most accurate to the fastest one."""
        front = () if self.catalog is None else self.catalog.pareto("latency")
        return tuple(each for each in reversed(front) if each.measurement.accuracy >= self.min_accuracy)


def _is_pipeline(model: Any) -> bool:
    """Return whether a model is a fitted Spark ML stage or a compiled pipeline."""
    from vista_spark.compiling import CompiledPipeline  # few sessions need it

    return isinstance(model, Transformer | CompiledPipeline)


def _check_specs(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
    for what, specs in (("inputs", inputs), ("outputs", outputs)):
        if not all(isinstance(spec, TensorSpec) for spec in specs):
            raise InvalidArgumentError(f"{what} must be udfs.serving.TensorSpec objects, got {specs!r}.")
    if outputs and not inputs:
        raise InvalidArgumentError(
            f"outputs must be empty for a network or a pipeline without inputs, got {outputs!r}."
        )
    unknown = [spec for spec in (*inputs, *outputs) if spec.dtype not in _TYPES or spec.shape[:1] != (-1,)]
    if unknown:
        raise InvalidArgumentError(
            f"A TensorSpec must have a dtype of {', '.join(_TYPES)} and a shape that begins with -1, the batch, got "
            f"{unknown[0]!r}."
        )
