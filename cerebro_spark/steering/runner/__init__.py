"""Runners: links of searches and of pools of workers with a server, whose users' commands they carry out."""

from cerebro_spark.steering._http import Connection
from cerebro_spark.steering.runner._pool import Pool
from cerebro_spark.steering.runner._pool_request import PoolRequest, PoolResources
from cerebro_spark.steering.runner._runner import Runner, attach_runner, connect

__all__ = ["Connection", "Pool", "PoolRequest", "PoolResources", "Runner", "attach_runner", "connect"]
