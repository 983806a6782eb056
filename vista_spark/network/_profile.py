"""Footprint and speed of a network of the roster, measured once on this machine and remembered."""

from __future__ import annotations

import hashlib
import json
import platform
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from optimizer import __version__
from optimizer.errors import InvalidArgumentError
from optimizer.transfer import ModelProfile
from udfs.driver import validate_arguments
from udfs.inference import Inference
from udfs.inference.profiling import ProfilingRequest, measure
from udfs.node import check_device, node_folder, written_once
from vista_spark.network._network import network

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from udfs.inference import Feature
    from vista_spark.network._network import Network

__all__ = ["profile", "profile_network"]


@validate_arguments
def profile(
    model: Any,
    *,
    weights: str | os.PathLike[str] | None = None,
    image_size: int | None = None,
    batch_size: int = 32,
    device: str = "auto",
    fresh: bool = False,
) -> ModelProfile:
    """Measure a model's costs: bytes per worker and per node, and seconds per image by depth.

    In a process of its own that does what a Spark worker does, with one thread. Remembered in the node's cache folder
    (``CEREBRO_SPARK_CACHE``) until the network, its input's size, the batch, the device or a version changes; the
    values of the weights make no difference.

    Parameters
    ----------
    model : str, ModelCard, or a model
        See :class:`vista_spark.FeatureTransfer`.
    weights, image_size, batch_size, device
        See :class:`vista_spark.FeatureTransfer`.
    fresh : bool
        Measure again.

    Returns
    -------
    optimizer.transfer.ModelProfile
        Memory and speed of the network.

    Raises
    ------
    InvalidArgumentError
        No such device.
    udfs.inference.profiling.ProfilingError
        The measuring process failed, for example for lack of memory.
    vista_spark.errors.UnknownModelError, optimizer.errors.UnknownLayerError, udfs.weights.WeightsError
        As everywhere.

    Examples
    --------
    >>> squeezenet = profile("squeezenet1_1", batch_size=2)
    >>> squeezenet.serialized_bytes
    4941984
    """
    check_device(device)
    return profile_network(network(model, weights, 0, image_size), batch_size=batch_size, device=device, fresh=fresh)


def profile_network(net: Network, *, batch_size: int, device: str, fresh: bool = False) -> ModelProfile:
    """Measure a network that is open already, as :func:`profile` does."""
    targets = [name for name in map(net.layer, net.card.layers) if name in net.graph]
    path = _path(net, batch_size, device)
    if path.is_file() and not fresh:
        return ModelProfile.from_dict(json.loads(path.read_text()))
    samples = [f"sample{number}" for number in range(net.reads.columns)]
    inference = Inference(
        source=net.source,
        feeds=net.feeds(*samples),
        # Features of lower layers are counted with the tables that they go into.
        features=(_top(net),),
        materialised=(),
        batch_size=batch_size,
        device=device,
    )
    batch = pa.RecordBatch.from_pydict({name: [net.reads.sample()] * batch_size for name in samples})
    measured = measure(ProfilingRequest(net.card.name, inference, batch, tuple(targets)))
    with written_once(path) as partial:
        partial.write_text(json.dumps(measured.to_dict()))
    return measured


def _top(net: Network) -> Feature:
    """Return the features of the topmost layer, unpooled if its layout allows no pooling."""
    try:
        return net.feature(net.card.layers[-1], "top", None)
    except InvalidArgumentError:
        return net.feature(net.card.layers[-1], "top", "none")


def _path(net: Network, batch_size: int, device: str) -> Path:
    identity = (net.structure, batch_size, device, __version__, platform.processor(), platform.machine())
    return node_folder("profiles") / f"{hashlib.sha256(repr(identity).encode()).hexdigest()}.json"
