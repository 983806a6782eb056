"""Signs of life of a long-lived worker, sent by a small process beside it, whatever the worker's own threads do.

Light on purpose: the small process imports this package and ``udfs.rpc`` alone.
"""

from udfs.heartbeat._heartbeat import Heartbeat
from udfs.heartbeat._messages import Abort, Acknowledged, Beat

__all__ = ["Abort", "Acknowledged", "Beat", "Heartbeat"]
