"""Settings of the HTTP front end of a server, checked before the backends start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from optimizer.arguments import whole
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from udfs.serving import Router
    from udfs.serving.http import FrontEnd, FrontEndProcesses, Gauge, HttpLimits

__all__ = ["FrontEndSpec"]


@dataclass(frozen=True, slots=True)
class FrontEndSpec:
    """Settings of an HTTP front end.

    ``port`` is 0 for a free one, and ``None`` starts no front end. ``token`` is drawn if ``None``; ``False`` asks for
    none. ``limits`` are those of each process. ``processes`` share the port; 0 is a thread of this process.

    Raises
    ------
    InvalidArgumentError
        The number of processes is negative, or is above 0 without a port.
    """

    port: int | None
    host: str
    token: str | Literal[False] | None
    limits: HttpLimits | None
    processes: int

    def __post_init__(self) -> None:
        whole("front_ends", self.processes, 0)
        if self.port is None and self.processes:
            raise InvalidArgumentError(
                f"front_ends must be 0 without a port, got {self.processes}. Set port, or port=0 for a free one."
            )

    def check(self) -> None:
        """Check that a front end could start at this address with this token.

        Raises
        ------
        udfs.serving.http.PortTakenError
            Another process listens at the port.
        InvalidArgumentError
            The host, the port or the token is not valid.
        """
        if self.port is None:
            return
        from udfs.serving.http import check_address  # an optional extra

        check_address(self.host, self.port, self.token)

    def start(self, router: Router, gauges: Callable[[], list[Gauge]]) -> FrontEnd | FrontEndProcesses | None:
        """Start the front end; return ``None`` without a port.

        Raises
        ------
        udfs.serving.http.PortTakenError
            Another process listens at the port.
        TimeoutError
            The thread or a process did not start in time.
        """
        if self.port is None:
            return None
        from udfs.serving.http import FrontEnd, FrontEndProcesses  # an optional extra

        if self.processes:
            several = FrontEndProcesses(
                router,
                self.processes,
                host=self.host,
                port=self.port,
                token=self.token,
                limits=self.limits,
                gauges=gauges,
            )
            return several.start()
        thread = FrontEnd(router, host=self.host, port=self.port, token=self.token, limits=self.limits, gauges=gauges)
        return thread.start()
