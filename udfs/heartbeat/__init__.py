"""Heartbeats of a long-lived worker and its last output, sent by a small child process.

The child sends them even while the threads of the worker are blocked, and after the worker has died.

The child imports only this package and ``udfs.rpc``, so keep their imports light.
"""

from udfs.heartbeat._heartbeat import Heartbeat
from udfs.heartbeat._messages import Abort, Acknowledged, Beat, Ended
from udfs.heartbeat._output import Output
from udfs.heartbeat._printed_output import Printed

__all__ = ["Abort", "Acknowledged", "Beat", "Ended", "Heartbeat", "Output", "Printed"]
