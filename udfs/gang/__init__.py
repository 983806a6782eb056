"""Gang: the tasks of a barrier stage, connected for collective operations with torch.distributed or Horovod."""

from udfs.gang._errors import GangError
from udfs.gang._gang import BACKENDS, Backend, Gang, gang

__all__ = [
    "BACKENDS",
    "Backend",
    "Gang",
    "GangError",
    "gang",
]
