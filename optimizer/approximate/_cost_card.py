"""Cost card of a device, its link and the cloud: energy, seconds and dollars from FLOPs and bytes."""

from __future__ import annotations

from dataclasses import dataclass, fields

from optimizer.approximate._variant import Variant
from optimizer.arguments import real

__all__ = ["CostCard"]

_MB = 1e6
_SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class CostCard:
    """Prices of work on a device, on its link and in the cloud (section 4.1 and 4.3.1).

    The defaults describe the board of the thesis, an NVIDIA Tegra K1 that draws 10 W, over WiFi. Its 100 ms for AlexNet
    (1.4 GFLOP) and 900 ms for VGG16 (31 GFLOP) are 0.7 and 0.3 J per GFLOP; the default is between them. Loads take 2
    to 5 times the energy of a run there: 0.01 to 0.02 J per MB for AlexNet (244 MB), 0.03 to 0.08 for VGG16 (553 MB).

    Parameters
    ----------
    joules_per_gflop : float
        Energy of a run on the device. Default 0.5.
    joules_per_mb_loaded : float
        Energy to load 10^6 bytes of weights into the device's memory. Default 0.03.
    joules_per_kb_sent : float
        Energy to send 10^3 bytes. Default 0.05: a packet of 10 kB takes 0.5 J over WiFi, and 0.9 J over LTE.
    watts : float
        Power of the working device, which converts energy to seconds. Default 10.
    cloud_gflops : float
        GFLOP per second in the cloud. Default 85: VGG16 takes 364 ms on the K20 of section 4.4.3.
    dollars_per_hour : float
        Price of that machine. Default 0.28: 9.7 ms for each event of 10 hours a day at one per second is $10 a year.
    link_seconds : float
        Round trip between device and cloud. Default 0.1.

    Raises
    ------
    InvalidArgumentError
        A price is negative, or a speed is not positive.

    Examples
    --------
    >>> vgg16 = CostCard().variant("vgg16", accuracy=0.69, gflop=31, memory_bytes=553_000_000, sent_bytes=10_000)
    >>> f"{vgg16.run_joules:.1f} J to run, {vgg16.load_joules:.1f} J to load, {vgg16.send_joules:.1f} J to send"
    '15.5 J to run, 16.6 J to load, 0.5 J to send'
    """

    joules_per_gflop: float = 0.5
    joules_per_mb_loaded: float = 0.03
    joules_per_kb_sent: float = 0.05
    watts: float = 10.0
    cloud_gflops: float = 85.0
    dollars_per_hour: float = 0.28
    link_seconds: float = 0.1

    def __post_init__(self) -> None:
        for each in fields(self):
            real(each.name, getattr(self, each.name), 0, above=each.name in {"watts", "cloud_gflops"})

    def variant(
        self, name: str, *, accuracy: float, gflop: float, memory_bytes: int, sent_bytes: int | None = None
    ) -> Variant:
        """Price a variant.

        Parameters
        ----------
        name : str
            Name of the variant.
        accuracy : float
            Share of correct answers.
        gflop : float
            10^9 floating-point operations of a run, two for each multiply-accumulate.
        memory_bytes : int
            Resident bytes, all of which a load reads.
        sent_bytes : int, optional
            Bytes of a request to the cloud. Default: the variant never runs in the cloud.

        Returns
        -------
        Variant
            The variant with its energy, seconds and dollars.
        """
        real("gflop", gflop, 0)
        run, load = gflop * self.joules_per_gflop, memory_bytes / _MB * self.joules_per_mb_loaded
        priced = Variant(
            name, accuracy, memory_bytes, load, run, load_seconds=load / self.watts, run_seconds=run / self.watts
        )
        if sent_bytes is None:
            return priced
        seconds = gflop / self.cloud_gflops
        return priced.in_cloud(
            dollars=seconds / _SECONDS_PER_HOUR * self.dollars_per_hour,
            seconds=seconds + self.link_seconds,
            send_joules=real("sent_bytes", sent_bytes, 0) / 1e3 * self.joules_per_kb_sent,
        )
