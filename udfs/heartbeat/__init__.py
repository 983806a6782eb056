"""Signs of life of a long-lived worker, and its last words, sent by a small process beside it.

The worker's own threads may be held meanwhile, and the worker may be dead.

Light on purpose: the small process imports this package and ``udfs.rpc`` alone.
"""

from udfs.heartbeat._heartbeat import Heartbeat
from udfs.heartbeat._messages import Abort, Acknowledged, Beat, Ended
from udfs.heartbeat._output import Output
from udfs.heartbeat._printed import Printed

__all__ = ["Abort", "Acknowledged", "Beat", "Ended", "Heartbeat", "Output", "Printed"]
