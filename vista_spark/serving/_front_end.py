"""A running server over HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from optimizer.arguments import one_of, whole
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from udfs.serving import Router
    from udfs.serving.http import FrontEnd, FrontEndProcesses, Gauge, HttpLimits
    from vista_spark.serving._front_end_tasks import FrontEndTasks

    AnyFrontEnd = FrontEnd | FrontEndProcesses | FrontEndTasks

__all__ = ["FrontEndOptions"]

_HOSTS_OF_TASKS = ("127.0.0.1", "0.0.0.0")  # noqa: S104 - only compared with


@dataclass(frozen=True, slots=True)
class FrontEndOptions:
    """Where and how HTTP is answered.

    Parameters
    ----------
    port : int or None
        ``None``: nowhere.
    host : str
    token : str, False or None
    limits : HttpLimits or None
    count : int
        Of processes or tasks; 0: a thread of this process.
    kind : str
        ``"processes"`` or ``"tasks"``.

    Raises
    ------
    InvalidArgumentError
        A value that is not allowed.
    """

    port: int | None
    host: str
    token: str | Literal[False] | None
    limits: HttpLimits | None
    count: int
    kind: str

    def __post_init__(self) -> None:
        whole("front_ends", self.count, 0)
        one_of("front_ends_as", self.kind, ("processes", "tasks"))
        if self.port is None and self.count:
            raise InvalidArgumentError(f"front_ends={self.count}, and no port: say where they listen, 0 for any")
        if self.tasks and self.host not in _HOSTS_OF_TASKS:
            raise InvalidArgumentError(
                f"host={self.host!r} with front ends as tasks: each listens at the address of its node that leads to "
                "this process, or with host='0.0.0.0' at all of them"
            )

    @property
    def tasks(self) -> int:
        """Task slots that they take."""
        return self.count if self.kind == "tasks" else 0

    def check(self) -> None:
        """Try whether they could start, before the backends do.

        Raises
        ------
        udfs.serving.http.PortTakenError
            Another process listens there.
        InvalidArgumentError
            A host, port or token that cannot be.
        """
        if self.port is None:
            return
        from udfs.serving.http import check_address  # noqa: PLC0415 - an optional extra

        # Of a node it is not known whether the port is free, and any may be given to it.
        check_address(self.host, 0 if self.tasks else self.port, self.token)

    def start(
        self,
        router: Router,
        gauges: Callable[[], list[Gauge]],
        spark: SparkSession,
        driver_host: str,
        *,
        encrypted: bool,
    ) -> AnyFrontEnd | None:
        """Start them.

        Raises
        ------
        udfs.serving.http.PortTakenError
            Another process listens there.
        InvalidArgumentError
            A host, port or token that cannot be.
        TimeoutError
            A process or a task did not start.
        """
        if self.port is None:
            return None
        from udfs.serving.http import FrontEnd, FrontEndProcesses  # noqa: PLC0415 - an optional extra

        host, port, token, limits = self.host, self.port, self.token, self.limits
        if not self.count:
            return FrontEnd(router, host=host, port=port, token=token, limits=limits, gauges=gauges).start()
        if not self.tasks:
            several = FrontEndProcesses(
                router, self.count, host=host, port=port, token=token, limits=limits, gauges=gauges
            )
            return several.start()
        from vista_spark.serving._front_end_tasks import FrontEndTasks  # noqa: PLC0415 - as above

        tasks = FrontEndTasks(
            spark,
            router,
            self.count,
            driver_host=driver_host,
            encrypted=encrypted,
            host=host,
            port=port,
            token=token,
            limits=limits,
            gauges=gauges,
        )
        return tasks.start()
