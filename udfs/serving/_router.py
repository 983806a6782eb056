"""The interface between whoever takes requests in and whoever has the backends answer them."""

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
    """An input or output of a model.

    Parameters
    ----------
    name : str
    dtype : str
        A numpy type (``"float32"``, ``"uint8"``), ``"bytes"`` for an encoded image, or ``"str"``.
    shape : tuple of int
        With the batch in front; -1 where any size is taken.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A version of a model as callers see it.

    Parameters
    ----------
    name : str
    version : str
    inputs, outputs : tuple of TensorSpec
    platform : str
        ``"torch"``, ``"keras"``, ``"opaque"``, or ``"application"``.
    slo_ms : float
        A request without a deadline of its own has this one.
    """

    name: str
    version: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    platform: str
    slo_ms: float

    def budget_ms(self, version: str | None, timeout_ms: float | None) -> float:
        """Check which version a request asks for, and its time; gives its milliseconds.

        Raises
        ------
        NoSuchModelError
            Another version.
        BadRequestError
            No time, or none that ends.
        """
        if version not in (None, self.version):
            raise NoSuchModelError(f"{self.name!r} has the version {self.version!r} alone, not {version!r}")
        budget = self.slo_ms if timeout_ms is None else timeout_ms
        if isinstance(budget, bool) or not isinstance(budget, int | float) or not 0 < budget < math.inf:
            raise BadRequestError(f"timeout_ms={timeout_ms!r}: milliseconds, above 0")
        return budget


class Router(Protocol):
    """Whoever answers requests. Every method may be called from any thread, and none blocks for an answer."""

    @property
    def models(self) -> Sequence[ServedModel]:
        """All versions that are deployed; of a name, the last is the one that answers by default."""

    @property
    def ready(self) -> bool:
        """Whether every deployed model has a backend."""

    def submit(
        self,
        name: str,
        inputs: Mapping[str, np.ndarray],
        *,
        version: str | None = None,
        timeout_ms: float | None = None,
    ) -> Future[Mapping[str, np.ndarray]]:
        """Have a model answer a request.

        Parameters
        ----------
        name : str
        inputs : mapping of str to array
            Each with the batch in front, all of one length; encoded images and texts are arrays of objects.
        version : str, optional
            Default: the last one deployed.
        timeout_ms : float, optional
            Time that is left for the answer. Default: the model's SLO.

        Returns
        -------
        Future
            Of the outputs by name; or one of :class:`udfs.serving.RequestError`'s kinds. A future that its caller
            cancels is not computed if no batch has it yet.

        Raises
        ------
        NoSuchModelError, BadRequestError
            At once, before anything waits.
        """
