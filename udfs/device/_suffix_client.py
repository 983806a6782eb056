"""Client of the server that runs the layers of a variant above a cut."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyarrow import flight

from udfs.access_tokens import program_token
from udfs.device._tensor_messages import AUTHORIZATION, pack_tensors

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["SuffixClient"]


class SuffixClient:
    """Client of a :class:`SuffixServer`.

    Parameters
    ----------
    address : str
        Address of the server, such as ``"grpc://127.0.0.1:8815"``.
    token : str, optional
        Access token. Default: that of :func:`udfs.access_tokens.program_token`.
    """

    def __init__(self, address: str, token: str | None = None) -> None:
        token = program_token(address) if token is None else token
        self._address = address
        self._headers = [(AUTHORIZATION.encode(), f"Bearer {token}".encode())] if token else []

    def scores(
        self, task: str, variant: str, tensors: Mapping[str, NDArray[np.generic]], seconds: float
    ) -> NDArray[np.floating]:
        """Return the scores of the classes for the tensors of a cut.

        Raises
        ------
        pyarrow.ArrowException
            The server does not answer in time, or refuses the request.
        """
        options = flight.FlightCallOptions(timeout=seconds, headers=self._headers)
        descriptor = flight.FlightDescriptor.for_command(json.dumps({"task": task, "variant": variant}))
        batch = pack_tensors(tensors)
        # A new connection for each request: one that was lost would be tried again only after a pause of gRPC.
        with flight.connect(self._address) as client:
            writer, reader = client.do_exchange(descriptor, options)
            with writer:
                writer.begin(batch.schema)
                writer.write_batch(batch)
                writer.done_writing()
                scores: NDArray[np.floating] = reader.read_all()["scores"].to_numpy()
        return scores
