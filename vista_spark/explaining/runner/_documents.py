"""Documents of requests for heat maps: validation, and translation to options."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optimizer.arguments import one_of
from optimizer.errors import InvalidArgumentError
from udfs.occlusion import MODES

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PATCHES", "STRIDES", "HeatMapRequest"]

PATCHES = (4, 8, 16, 32)
"""Sides of the patch that a request may choose, in pixels of the network's input (Krypton, section 7.1.2)."""

STRIDES = (2, 4, 8, 16)
"""Distances between two places that a request may choose."""

_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True)
class HeatMapRequest:
    """Validated request for a heat map. Made by :meth:`read`.

    ``image`` is the hash of an uploaded image, or ``""`` for an estimate. ``target`` is an element of the score, the
    name of a class, or ``None`` for the largest element. ``region`` is left, top, right and bottom in pixels of the
    upright photograph, half-open.

    Examples
    --------
    >>> HeatMapRequest.read({"network": "mobilenet_v2", "patch": 16, "stride": 8}).mode
    'exact'
    >>> HeatMapRequest.read({"network": "mobilenet_v2", "patch": 5, "stride": 4})
    Traceback (most recent call last):
    optimizer.errors.InvalidArgumentError: patch must be 4, 8, 16 or 32, got 5.
    """

    network: str | dict[str, str]
    patch: int
    stride: int
    mode: str
    image: str = ""
    target: int | str | None = None
    region: tuple[int, int, int, int] | None = None

    @classmethod
    def read(cls, document: Mapping[str, Any], *, with_image: bool = False) -> HeatMapRequest:
        """Validate a document.

        Parameters
        ----------
        document : mapping
            Document of a request of kind ``explain`` or ``explain_estimate``.
        with_image : bool
            Whether the document must name an image. Default false.

        Raises
        ------
        InvalidArgumentError
            A value is missing or invalid.
        """
        image = document.get("image") or ""
        if (with_image or image) and not (isinstance(image, str) and _SHA256.match(image)):
            raise InvalidArgumentError(
                f"image must be the SHA-256 of an uploaded image, got {image!r:.80}. Upload it with POST blobs."
            )
        patch = _choice("patch", document.get("patch", 16), PATCHES)
        stride = _choice("stride", document.get("stride", 8), STRIDES)
        if stride > patch:
            raise InvalidArgumentError(f"stride must be at most the patch of {patch}, got {stride}. Use a smaller one.")
        mode = document.get("mode", "exact")
        one_of("mode", mode, MODES)
        return cls(
            _network(document.get("network")),
            patch,
            stride,
            mode,
            image,
            _target(document.get("class")),
            _region(document.get("region")),
        )


def _choice(name: str, value: Any, allowed: tuple[int, ...]) -> int:
    if isinstance(value, bool) or value not in allowed:
        *most, last = allowed
        raise InvalidArgumentError(f"{name} must be {', '.join(map(str, most))} or {last}, got {value!r:.80}.")
    return int(value)


def _network(value: Any) -> str | dict[str, str]:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, dict) and value.keys() == {"run", "trial"} and all(isinstance(v, str) for v in value.values()):
        return value
    raise InvalidArgumentError(
        f"network must be the name of a network or {{'run': ..., 'trial': ...}}, got {value!r:.80}."
    )


def _target(value: Any) -> int | str | None:
    if value is None or (isinstance(value, int | str) and not isinstance(value, bool)):
        return value
    raise InvalidArgumentError(f"class must be a number or a name, got {value!r:.80}. Leave it out for the likeliest.")


def _region(value: Any) -> tuple[int, int, int, int] | None:
    if value is None:
        return None
    whole = isinstance(value, list | tuple) and len(value) == 4
    if not whole or not all(isinstance(edge, int) and not isinstance(edge, bool) for edge in value):
        raise InvalidArgumentError(
            f"region must be four integers: left, top, right and bottom in pixels of the image, got {value!r:.80}."
        )
    left, top, right, bottom = value
    if not (0 <= left < right and 0 <= top < bottom):
        raise InvalidArgumentError(f"region must have 0 <= left < right and 0 <= top < bottom, got {list(value)}.")
    return left, top, right, bottom
