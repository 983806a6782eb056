"""Clients of a cloud that serves whole variants."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

import numpy as np

from optimizer.errors import InvalidArgumentError
from udfs.access_tokens import program_token
from udfs.serving import BadRequestError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Cloud", "HttpCloud", "ServedCloud", "served_name"]


def served_name(task: str, variant: str) -> str:
    """Return the name under which a server deploys a variant.

    Examples
    --------
    >>> served_name("scene", "8 bits")
    'scene-8 bits'
    """
    return f"{task}-{variant}"


class Cloud(Protocol):
    """Client of a cloud."""

    def scores(self, task: str, variant: str, image: bytes, seconds: float) -> NDArray[np.floating]:
        """Return the scores of the classes for an encoded image.

        Raises
        ------
        udfs.serving.BadRequestError
            The cloud does not accept the image.
        Exception
            The cloud does not answer in time.
        """


class ServedCloud:
    """Cloud served by a server of this process.

    Parameters
    ----------
    api : vista_spark.serving.Api
        Interface of the server.
    """

    def __init__(self, api: Any) -> None:
        self._api = api

    def scores(self, task: str, variant: str, image: bytes, seconds: float) -> NDArray[np.floating]:
        """Return the scores of the classes; see :class:`Cloud`."""
        answer = self._api[served_name(task, variant)].execute(image, timeout_ms=1e3 * seconds)
        return np.asarray(answer.result(timeout=seconds + 1)).ravel()


class HttpCloud:
    """Cloud at an HTTP address, which speaks the Open Inference Protocol as `Server.start(port=...)` does.

    Parameters
    ----------
    url : str
        Address, such as ``"http://127.0.0.1:8080"``.
    token : str, optional
        Access token. Default: that of :func:`udfs.access_tokens.program_token`.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
            raise InvalidArgumentError(f"url must be an address such as 'http://127.0.0.1:8080', got {url!r}.")
        self._url = url.rstrip("/")
        token = program_token(url) if token is None else token
        self._headers = {"Content-Type": "image/*"} | ({"Authorization": f"Bearer {token}"} if token else {})

    def scores(self, task: str, variant: str, image: bytes, seconds: float) -> NDArray[np.floating]:
        """Return the scores of the classes; see :class:`Cloud`."""
        url = f"{self._url}/v2/models/{quote(served_name(task, variant), safe='')}/infer"
        request = Request(url, image, self._headers)  # noqa: S310 - the constructor checks the scheme
        try:
            with urlopen(request, timeout=seconds) as response:  # noqa: S310
                output = json.load(response)["outputs"][0]
        except HTTPError as error:
            if error.code == HTTPStatus.BAD_REQUEST:
                raise BadRequestError(error.read().decode(errors="replace")) from error
            raise
        return np.asarray(output["data"], output["datatype"].replace("FP", "float").lower()).ravel()
