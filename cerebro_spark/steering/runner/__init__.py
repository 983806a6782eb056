"""Runner: link between a search and a server, which reports its journal and carries out the commands of users."""

from cerebro_spark.steering._http import Connection
from cerebro_spark.steering.runner._runner import Runner, attach_runner, connect

__all__ = ["Connection", "Runner", "attach_runner", "connect"]
