"""Variants of a model, and the places in which each can run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from optimizer.arguments import real, whole
from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Option", "Split", "Variant", "dominated", "pareto", "split_place"]


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """A variant in a place, with the costs of one request (section 4.2.2).

    Options are equal only to themselves, so that caches find them quickly.

    Attributes
    ----------
    task, variant : str
        Names of the task and the variant.
    place : str
        ``"device"``, ``"cloud"`` or ``"split 0.4"``, whose number is the share of the work on the device.
    accuracy : float
        Share of correct answers.
    memory_bytes : int
        Bytes on the device: s; 0 in the cloud, whose memory is not limited.
    load_joules, load_seconds : float
        Energy and time to load these bytes: e.
    joules : float
        Energy of the device for a request, sending included: c.
    dollars : float
        Price of the cloud for a request: d.
    seconds : float
        Time from arrival to answer without a load: l.
    """

    task: str
    variant: str
    place: str
    accuracy: float
    memory_bytes: int
    load_joules: float
    load_seconds: float
    joules: float
    dollars: float
    seconds: float

    @property
    def needs_link(self) -> bool:
        """True if a request needs the connection to the cloud."""
        return self.place != "device"

    def __str__(self) -> str:
        return f"{self.variant} ({self.place})"


@dataclass(frozen=True, slots=True)
class Split:
    """A cut of a variant: the prefix runs on the device, the rest in the cloud.

    Parameters
    ----------
    prefix : float
        Share of the variant's memory, load and run on the device: t of Algorithm 4.1, above 0 and below 1.
    send_joules : float
        Energy to send the tensors of the cut.
    """

    prefix: float
    send_joules: float

    def __post_init__(self) -> None:
        if not 0 < real("prefix", self.prefix) < 1:
            raise InvalidArgumentError(f"prefix must be above 0 and below 1, got {self.prefix!r}.")
        real("send_joules", self.send_joules, 0)


@dataclass(frozen=True, slots=True)
class Variant:
    """An approximate version of a model, with measured accuracy and costs.

    Parameters
    ----------
    name : str
        Name of the variant, unique in its task.
    accuracy : float
        Share of correct answers, above 0 and at most 1.
    memory_bytes : int
        Resident bytes on the device.
    load_joules, run_joules : float
        Energy of the device for a load and for a run.
    load_seconds, run_seconds : float
        Time of a load and of a run on the device. Default 0.
    on_device : bool
        Whether it can run on the device. Default True.
    cloud_dollars : float, optional
        Price of a run in the cloud. Default: it cannot run there.
    cloud_seconds : float
        Time of a request to the cloud, the link included. Default 0.
    send_joules : float
        Energy of the device to send a request to the cloud. Default 0.
    splits : tuple of Split
        Cuts at which device and cloud can share a request. Default: none.

    Raises
    ------
    InvalidArgumentError
        A value is not valid.

    Examples
    --------
    >>> small = Variant("small", 0.81, 40_000_000, load_joules=1.2, run_joules=0.4)
    >>> [str(option) for option in small.in_cloud(dollars=1e-6, seconds=0.2, send_joules=0.5).options("scene")]
    ['small (device)', 'small (cloud)']
    """

    name: str
    accuracy: float
    memory_bytes: int
    load_joules: float
    run_joules: float
    load_seconds: float = 0.0
    run_seconds: float = 0.0
    on_device: bool = True
    cloud_dollars: float | None = None
    cloud_seconds: float = 0.0
    send_joules: float = 0.0
    splits: tuple[Split, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidArgumentError(f"name must be a non-empty str, got {self.name!r}.")
        real("accuracy", self.accuracy, 0, 1, above=True)
        whole("memory_bytes", self.memory_bytes)
        for name in ("load_joules", "run_joules", "load_seconds", "run_seconds", "cloud_seconds", "send_joules"):
            real(name, getattr(self, name), 0)
        if self.cloud_dollars is not None:
            real("cloud_dollars", self.cloud_dollars, 0)
        elif self.splits or not self.on_device:
            raise InvalidArgumentError(
                f"cloud_dollars of {self.name!r} must be a price, got None. A split variant, and one that does not run "
                f"on the device, run in the cloud."
            )

    def in_cloud(self, *, dollars: float, seconds: float, send_joules: float, splits: Iterable[Split] = ()) -> Variant:
        """Return the variant with a price for runs in the cloud."""
        return replace(
            self, cloud_dollars=dollars, cloud_seconds=seconds, send_joules=send_joules, splits=tuple(splits)
        )

    def options(self, task: str) -> tuple[Option, ...]:
        """List the places in which the variant can serve a task.

        A split pays for its share of the run in each place, and its time is at most that of its prefix and of a whole
        run in the cloud.
        """
        load = self.memory_bytes, self.load_joules, self.load_seconds
        places = []
        if self.on_device:
            places.append(
                Option(task, self.name, "device", self.accuracy, *load, self.run_joules, 0.0, self.run_seconds)
            )
        if self.cloud_dollars is None:
            return tuple(places)
        price, seconds = self.cloud_dollars, self.cloud_seconds
        places.append(Option(task, self.name, "cloud", self.accuracy, 0, 0.0, 0.0, self.send_joules, price, seconds))
        for cut in self.splits:
            part = cut.prefix
            places.append(
                Option(
                    task,
                    self.name,
                    split_place(part),
                    self.accuracy,
                    max(1, round(part * self.memory_bytes)),
                    part * self.load_joules,
                    part * self.load_seconds,
                    part * self.run_joules + cut.send_joules,
                    (1 - part) * price,
                    part * self.run_seconds + seconds,
                )
            )
        return tuple(places)


def split_place(prefix: float) -> str:
    """Return the place of an option that runs this share of the work on the device."""
    return f"split {prefix:g}"


def dominated(variant: Variant, other: Variant) -> bool:
    """Return whether another variant is at least as accurate, and costs as little or less in each measure."""
    if other.accuracy < variant.accuracy or variant.splits or (variant.on_device and not other.on_device):
        return False
    if variant.cloud_dollars is not None and (
        other.cloud_dollars is None
        or other.cloud_dollars > variant.cloud_dollars
        or other.cloud_seconds > variant.cloud_seconds
        or other.send_joules > variant.send_joules
    ):
        return False
    names = ("memory_bytes", "load_joules", "run_joules", "load_seconds", "run_seconds")
    return not variant.on_device or all(getattr(other, name) <= getattr(variant, name) for name in names)


def pareto(variants: Iterable[Variant]) -> tuple[Variant, ...]:
    """Drop variants that another one dominates; of equal ones the first stays.

    A variant with splits always stays, because its cuts are choices of their own.

    Examples
    --------
    >>> full = Variant("full", 0.9, 500, load_joules=5, run_joules=2)
    >>> worse = Variant("worse", 0.8, 600, load_joules=6, run_joules=2)
    >>> [variant.name for variant in pareto([worse, full])]
    ['full']
    """
    stay: list[Variant] = []
    for variant in variants:
        if not any(dominated(variant, other) for other in stay):
            stay = [other for other in stay if not dominated(other, variant)] + [variant]
    return tuple(stay)
