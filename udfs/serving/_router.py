"""Router protocol between front ends and backends, and the description of served models."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from udfs.serving._errors import BadRequestError, NoSuchModelError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    import numpy as np

__all__ = ["Router", "ServedModel", "TensorSpec"]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Input or output of a model."""

    name: str
    dtype: str  # numpy type ("float32", "uint8"), "bytes" for an encoded image, or "str"
    shape: tuple[int, ...]  # shape with the batch in front; -1 for any size
    # True if the model reads missing values: NaN, infinities and nulls in floats (a null becomes NaN), null texts.
    missing: bool = False


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A version of a model as callers see it."""

    name: str
    version: str
    inputs: tuple[TensorSpec, ...]  # tensors of a request and of an answer
    outputs: tuple[TensorSpec, ...]
    platform: str  # "torch", "keras", "opaque" for a function, or "application"
    slo_ms: float  # milliseconds for a request without a timeout of its own
    learned: tuple[TensorSpec, ...] = ()  # outputs that a function returned for a sample

    @property
    def described_outputs(self) -> tuple[TensorSpec, ...]:
        """Declared outputs, or those of a sample."""
        return self.outputs or self.learned

    def budget_ms(self, version: str | None, timeout_ms: float | None) -> float:
        """Check the version and the timeout of a request; return its milliseconds.

        Raises
        ------
        NoSuchModelError
            The version is not the deployed one.
        BadRequestError
            The timeout is not a positive finite number.
        """
        if version not in (None, self.version):
            raise NoSuchModelError(f"version of {self.name!r} must be {self.version!r}, got {version!r}.")
        budget = self.slo_ms if timeout_ms is None else timeout_ms
        if isinstance(budget, bool) or not isinstance(budget, int | float) or not 0 < budget < math.inf:
            raise BadRequestError(f"timeout_ms must be a positive finite number of milliseconds, got {timeout_ms!r}.")
        return budget


class Router(Protocol):
    """Interface for answering requests. Any thread may call every method, and none waits for an answer."""

    @property
    def models(self) -> Sequence[ServedModel]:
        """Deployed models by version; the last of a name answers requests without a version."""

    @property
    def ready(self) -> bool:
        """True if every deployed model has a backend."""

    def submit(
        self,
        name: str,
        inputs: Mapping[str, np.ndarray],
        *,
        version: str | None = None,
        timeout_ms: float | None = None,
    ) -> Future[Mapping[str, np.ndarray]]:
        """Submit a request.

        Parameters
        ----------
        name : str
            Name of the model.
        inputs : mapping of str to array
            Inputs with the batch in front, all of the same length; encoded images and texts are arrays of objects.
        version : str, optional
            Version. Default: the last one deployed.
        timeout_ms : float, optional
            Milliseconds for the answer. Default: the model's SLO.

        Returns
        -------
        Future
            Future of the outputs by name, or of a :class:`udfs.serving.RequestError`. A cancelled request that is in no
            batch yet is not computed.

        Raises
        ------
        NoSuchModelError, BadRequestError
            The request is not valid; raised at once.
        """
