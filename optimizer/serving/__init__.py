"""Serving of many models within deadlines: profiles, plans of backends, dispatch and simulation.

The global scheduler of Nexus (Shen, *System for Serving Deep Neural Networks Efficiently*, chapter 3), with
its equation 3.1 mended. Times are milliseconds, rates are requests per second.
"""

from ._errors import InfeasibleError, ServingError
from ._plan import NodePlan, Placement, ServingPlan
from ._planner import lower_bound, plan
from ._profile import BatchingProfile
from ._session import Backend, Session

__all__ = [
    "Backend",
    "BatchingProfile",
    "InfeasibleError",
    "NodePlan",
    "Placement",
    "ServingError",
    "ServingPlan",
    "Session",
    "lower_bound",
    "plan",
]
