"""``CloudSuffix``: the cloud's part of split variants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from udfs.device import SuffixServer
from udfs.driver import validate_arguments
from vista_spark.variants._runtime import installed_networks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vista_spark.variants._catalog import Catalog

__all__ = ["CloudSuffix"]


class CloudSuffix:
    """Arrow Flight server that runs the layers of variants above a cut.

    It listens from its construction until :meth:`close` or the end of the ``with`` block, and opens a variant at its
    first request. The connection is not encrypted.

    Parameters
    ----------
    catalogs : sequence of Catalog
        Catalogs that the devices have too.
    host : str
        Address to listen at. Default ``"127.0.0.1"``: only this machine.
    port : int
        Port. Default 0: a free one.
    token : str, optional
        Access token. Default: ``CEREBRO_TOKEN``, or the token file of this machine, which is created. It is required at
        an address that other machines reach.

    Raises
    ------
    InvalidArgumentError
        Other machines reach the address, and there is no token, or a network does not read one image.

    Examples
    --------
    >>> from vista_spark.variants import CloudSuffix, Device
    >>> with CloudSuffix([scene], token=api.token) as suffix:  # doctest: +SKIP
    ...     cloud = {"cloud": api.url, "suffix": suffix.address, "token": api.token}
    ...     with Device([scene], memory_bytes=60_000_000, joules=5_000, dollars=0.03, **cloud) as device:
    ...         print(device.submit("scene", image).result().place)
    """

    @validate_arguments
    def __init__(
        self, catalogs: Sequence[Catalog], *, host: str = "127.0.0.1", port: int = 0, token: str | None = None
    ) -> None:
        self._server = SuffixServer(installed_networks(catalogs), host, port, token)

    @property
    def address(self) -> str:
        """Address for `Device(suffix=...)`."""
        return self._server.address

    @property
    def token(self) -> str:
        """Access token."""
        return self._server.token

    def close(self) -> None:
        """Stop after the requests in progress."""
        self._server.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
