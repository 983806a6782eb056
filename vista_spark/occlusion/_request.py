"""A request for explanations of one image: all that may differ between two questions to one open network."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from optimizer.errors import nearest
from vista_spark.errors import InvalidArgumentError
from vista_spark.occlusion._arguments import check_callable, whole_number
from vista_spark.occlusion._options import OcclusionOptions

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from udfs.images import PictureGeometry, Region
    from udfs.occlusion import Output
    from vista_spark.occlusion._options import Content
    from vista_spark.occlusion._progress import Progress
    from vista_spark.roster import ClassNames

__all__ = ["COORDINATES", "Request", "takes_request"]

Coordinates = Literal["input", "photograph"]
COORDINATES: tuple[str, ...] = get_args(Coordinates)

# Options that have the same name for an image as for any tensor.
_OPTIONS = {each.name for each in fields(OcclusionOptions)} - {"patch", "stride", "region"}


# What is called while a heat map is computed, and with what.
_CALLED = {"on_update": "the heat map so far", "on_estimate": "seconds", "on_progress": "a vista_spark.Progress"}

_Function = TypeVar("_Function", bound="Callable[..., Any]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """The keywords of :func:`vista_spark.explain_image` that say what is asked, with its defaults and documentation.

    Raises
    ------
    InvalidArgumentError
        Unknown coordinates, a `cancel` that is no event, a callback that is no function. Other options are checked by
        :meth:`options`.
    """

    target: int | None = None
    output: Output | None = None
    head: str | int | None = None
    patch_size: int = 16
    stride: int = 4
    perturbation: Content = "color"
    patch_color: tuple[int, int, int] = (128, 128, 128)
    region: Region | None = None
    coordinates: Coordinates = "input"
    mode: str = "exact"
    target_ssim: float | None = None
    tau: float | None = None
    target_speedup: float | None = None
    drill_down_fraction: float | None = None
    precision: str | None = None
    batch_size: int = 32
    on_update: Callable[[NDArray[np.float32]], object] | None = None
    on_estimate: Callable[[float], object] | None = None
    on_progress: Callable[[Progress], object] | None = None
    cancel: threading.Event | None = None
    verify: int | None = None
    seed: int = 0
    class_names: ClassNames | None = None

    def __post_init__(self) -> None:
        if self.coordinates not in COORDINATES:
            hint = nearest(str(self.coordinates), COORDINATES)
            raise InvalidArgumentError(f"coordinates={self.coordinates!r}{hint}; one of: {', '.join(COORDINATES)}")
        if self.cancel is not None and not hasattr(self.cancel, "is_set"):
            raise InvalidArgumentError(f"cancel={self.cancel!r}: an event, as threading.Event()")
        for name, gets in _CALLED.items():
            check_callable(name, getattr(self, name), gets)

    @property
    def is_watched(self) -> bool:
        """Whether the caller follows the heat map while it is computed, or its seconds."""
        return any(each is not None for each in (self.on_update, self.on_estimate, self.on_progress))

    def options(self, patch_size: int, geometry: PictureGeometry | None = None) -> OcclusionOptions:
        """Check the options for one size of the patch.

        Parameters
        ----------
        patch_size : int
        geometry : PictureGeometry, optional
            Of the photograph, where the region is in its coordinates.

        Raises
        ------
        InvalidArgumentError
            As :class:`OcclusionOptions`.
        """
        same = {name: getattr(self, name) for name in _OPTIONS}
        patch = (whole_number("patch_size", patch_size, 1),) * 2
        checked = partial(OcclusionOptions, patch=patch, stride=(self.stride,) * 2, **same)
        options = checked(region=self.region)
        if geometry is None or options.region is None:
            return options
        rows, columns = options.region
        return checked(region=geometry.to_input((rows, columns)))


def takes_request(*left_out: str) -> Callable[[_Function], _Function]:
    """Give a function with ``**options`` the signature that has the keywords of a :class:`Request`, but for some."""

    def extended(function: _Function) -> _Function:
        own = [each for each in signature(function).parameters.values() if each.kind is not each.VAR_KEYWORD]
        names = {each.name for each in own} | set(left_out)
        rest = [
            Parameter(each.name, Parameter.KEYWORD_ONLY, default=each.default, annotation=each.type)
            for each in fields(Request)
            if each.name not in names
        ]
        with_request: Any = function
        with_request.__signature__ = signature(function).replace(parameters=[*own, *rest])
        return function

    return extended
