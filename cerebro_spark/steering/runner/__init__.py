"""Runner: link between a search and a server, which reports its journal and carries out the commands of users."""

from cerebro_spark.steering.runner._link import LinkDownError, LinkRefusedError, ServerLink
from cerebro_spark.steering.runner._runner import Runner, attach_runner

__all__ = ["LinkDownError", "LinkRefusedError", "Runner", "ServerLink", "attach_runner"]
