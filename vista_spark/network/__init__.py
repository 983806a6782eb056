"""A network of the roster made ready on the driver: its inputs, Params, weights, graph and measured profile."""

from vista_spark.network._inputs import TEXT_POOLINGS, Layers
from vista_spark.network._network import Network, network
from vista_spark.network._params import HasImageSize, HasNetwork, HasNetworkInput, layer_list, layouts_by_layer
from vista_spark.network._profile import profile, profile_network
from vista_spark.network._random import has_random_weights, warn_of_random_weights
from vista_spark.network._saved_stages import (
    NetworkPersistable,
    describe_preprocessing,
    read_folder,
    read_preprocessing,
    write_folder,
)

__all__ = [
    "TEXT_POOLINGS",
    "HasImageSize",
    "HasNetwork",
    "HasNetworkInput",
    "Layers",
    "Network",
    "NetworkPersistable",
    "describe_preprocessing",
    "has_random_weights",
    "layer_list",
    "layouts_by_layer",
    "network",
    "profile",
    "profile_network",
    "read_folder",
    "read_preprocessing",
    "warn_of_random_weights",
    "write_folder",
]
