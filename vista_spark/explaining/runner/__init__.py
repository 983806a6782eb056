"""Request handlers of the explanation page: heat maps, estimates, and the list of networks."""

from udfs.requests import RequestHandler
from vista_spark.explaining.runner._handlers import Explanations
from vista_spark.explaining.runner._networks import WEIGHTS_VARIABLE, Networks

__all__ = ["ESTIMATE", "EXPLAIN", "NETWORKS", "WEIGHTS_VARIABLE", "Explanations", "Networks"]

_EXPLANATIONS = Explanations()

EXPLAIN = RequestHandler("explain", _EXPLANATIONS.explain)
"""Handler of heat maps."""

ESTIMATE = RequestHandler("explain_estimate", _EXPLANATIONS.estimate)
"""Handler of estimates of their seconds."""

NETWORKS = RequestHandler("explain_networks", _EXPLANATIONS.networks)
"""Handler of the list of networks and the names of their classes."""
