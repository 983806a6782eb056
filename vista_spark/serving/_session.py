"""A session as its user writes it: a model within a deadline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.ml import Transformer

from optimizer.arguments import real
from optimizer.serving import BatchingProfile
from udfs.serving import TensorSpec
from vista_spark.errors import InvalidArgumentError
from vista_spark.serving._reference import is_reference

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

__all__ = ["Session"]

# What a request may have.
_TYPES = (
    "bytes",
    "str",
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *(f"float{bits}" for bits in (16, 32, 64)),
)


@dataclass(frozen=True, slots=True)
class Session:
    """A model that answers requests within a deadline.

    Parameters
    ----------
    name : str
        By which callers ask for it.
    model : str, ModelCard, model or function
        A network as for :class:`vista_spark.CNNFeaturizer`: a name of the roster, a card, a model of torch or Keras.
        With `inputs` a function of whole batches: it takes and gives arrays by name, each with the batch in front. A
        fitted pipeline of Spark ML, or what :func:`vista_spark.compiling.compile_pipeline` made of another one. Or the
        name of any of them in a registry: ``"models:/name@alias"`` or ``"models:/name/version"`` of MLflow's,
        ``"store:/name@alias"`` or ``"store:/name/version"`` of the server's store (:class:`ModelStore`). The session's
        version is then the registry's, and a server that runs follows an alias that moves.
    weights : str or path, optional
        Of a network; random ones without them, with a warning.
    head : str or path, optional
        File of one linear layer that takes the place of what lies above `layer`: the state dict of a
        ``torch.nn.Linear``. Sessions that differ in their heads alone share everything else.
    slo_ms : float
        Milliseconds from a request to its answer. Default 500.
    rate : float
        Requests per second that are expected; the rates that are measured take its place. Default 1.
    layer : str, optional
        Layer that the head reads; by default the topmost one that has as many numbers as the head.
    inputs : sequence of TensorSpec, optional
        Of a function.
    outputs : sequence of TensorSpec, optional
        Of a function; where they are not given, whoever needs them runs it on a row of zeros.
    image_size : int, optional
        Height and width of a network's images in pixels.
    max_length : int, optional
        Tokens of a network's texts.
    version : str
        Default ``"1"``.
    profile : BatchingProfile, optional
        By default measured when the session is deployed.
    seed : int
        Of random weights.

    Raises
    ------
    InvalidArgumentError
        A value that is not allowed.

    Examples
    --------
    >>> Session("cats", model="mobilenet_v2", slo_ms=250).slo_ms
    250
    """

    name: str
    model: Any
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

    def __post_init__(self) -> None:
        for what, text in (("name", self.name), ("version", self.version)):
            if not isinstance(text, str) or not text or "/" in text:
                raise InvalidArgumentError(f"{what}={text!r}: a text without a slash")
        for what, value in (("slo_ms", self.slo_ms), ("rate", self.rate)):
            real(what, value, 0, above=True)
        if self.profile is not None and not isinstance(self.profile, BatchingProfile):
            raise InvalidArgumentError(f"profile={self.profile!r}: a BatchingProfile of optimizer.serving")
        _check_specs(self.inputs, self.outputs)
        runs = callable(self.model) or is_reference(self.model) or isinstance(self.model, Transformer)
        if self.inputs and (not runs or self.head is not None or self.weights is not None):
            raise InvalidArgumentError(
                f"session {self.name!r} has inputs, which a function has; a network knows its own, and a function has "
                "neither weights nor a head"
            )
        if self.layer is not None and self.head is None:
            raise InvalidArgumentError(f"layer={self.layer!r} without a head: name the head that reads it")


def _check_specs(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
    for what, specs in (("inputs", inputs), ("outputs", outputs)):
        if not all(isinstance(spec, TensorSpec) for spec in specs):
            raise InvalidArgumentError(f"{what}={specs!r}: TensorSpecs of udfs.serving, one for each of them")
    if outputs and (not inputs or any(spec.dtype in {"bytes", "str"} for spec in outputs)):
        raise InvalidArgumentError(f"outputs={outputs!r}: of a function, and numbers")
    unknown = [spec for spec in (*inputs, *outputs) if spec.dtype not in _TYPES or spec.shape[:1] != (-1,)]
    if unknown:
        raise InvalidArgumentError(
            f"{unknown[0]!r}: a type of {', '.join(_TYPES)}, and a shape that begins with -1, the batch"
        )
