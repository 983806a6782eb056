"""Arrow Flight server that runs the layers of a variant above a cut."""

from __future__ import annotations

import hmac
import json
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import flight

from optimizer.errors import CerebroError, InvalidArgumentError
from udfs.access_tokens import LOOPBACK_HOSTS, create_program_token
from udfs.device._open_variant import OpenVariant, open_variant
from udfs.device._tensor_messages import AUTHORIZATION, unpack_tensors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from udfs.device._installed import Installed

__all__ = ["SuffixServer"]

_Key = tuple[str, str]


class SuffixServer(flight.FlightServerBase):  # type: ignore[misc]
    """Server of the upper parts of variants. It starts when it is made, and opens a variant at its first request.

    A request is an exchange whose descriptor has the task and the variant as JSON, with one batch of the tensors of a
    cut; the answer is a batch with the column ``scores``. A client needs the access token. The connection is not
    encrypted.

    Parameters
    ----------
    installed : mapping of str to Installed
        Networks by task.
    host : str
        Address to listen at. Default ``"127.0.0.1"``: only this machine.
    port : int
        Port. Default 0: any that is free, see the attribute ``port``.
    token : str, optional
        Access token. Default: that of :func:`udfs.access_tokens.create_program_token`, only at a loopback address.

    Raises
    ------
    InvalidArgumentError
        The address is not a loopback address, and there is no token.
    """

    def __init__(
        self, installed: Mapping[str, Installed], host: str = "127.0.0.1", port: int = 0, token: str | None = None
    ) -> None:
        if not token and host not in LOOPBACK_HOSTS:
            raise InvalidArgumentError(
                f"token must be a non-empty str at {host!r}, which other machines reach, got {token!r}. Pass a secret "
                f"that the devices have too."
            )
        self._installed = installed
        self._open: dict[_Key, OpenVariant] = {}
        self._locks = {(task, name): threading.Lock() for task, each in installed.items() for name in each.models}
        self.token = token or create_program_token()
        middleware = {AUTHORIZATION: _TokenCheck(self.token)}
        super().__init__(f"grpc://{host}:{port}", middleware=middleware)
        self.address = f"grpc://{host}:{self.port}"

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Answer a request."""
        del context
        try:
            asked = json.loads(descriptor.command)
            key = task, name = str(asked["task"]), str(asked["variant"])
            batch = reader.read_chunk().data
            if key not in self._locks:
                raise InvalidArgumentError(f"variant must be installed in the cloud, got {name!r} of {task!r}.")
            with self._locks[key]:
                if key not in self._open:
                    self._open[key] = open_variant(self._installed[task].models[name])
                variant = self._open[key]
                scores = variant.finish(unpack_tensors(batch, variant.graph))
        except (CerebroError, OSError, KeyError, ValueError, pa.ArrowException) as error:
            raise flight.FlightServerError(str(error)) from error
        answer = pa.RecordBatch.from_arrays([pa.array(np.ascontiguousarray(scores))], ["scores"])
        writer.begin(answer.schema)
        writer.write_batch(answer)


class _TokenCheck(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Check of the access token of each call."""

    def __init__(self, token: str) -> None:
        self._expected = f"Bearer {token}".encode()

    def start_call(self, info: Any, headers: Mapping[str, list[str]]) -> None:
        """Refuse a call without the token."""
        del info
        sent = headers.get(AUTHORIZATION) or [""]
        if not hmac.compare_digest(str(sent[0]).encode(), self._expected):
            raise flight.FlightUnauthenticatedError("The token must be that of the server. Set CEREBRO_TOKEN.")
