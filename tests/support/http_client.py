"""A client of the Open Inference Protocol on the standard library alone."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["HttpClient", "Reply", "infer_body"]


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        assert list(self.json) == ["error"]
        return str(self.json["error"])


class HttpClient:
    """Requests over one connection."""

    def __init__(self, port: int, token: str | None) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        self.token = token

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Reply:
        said = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        self.connection.request(method, path, body, {**said, **(headers or {})})
        response = self.connection.getresponse()
        return Reply(response.status, {key.lower(): value for key, value in response.getheaders()}, response.read())

    def get(self, path: str, **headers: str) -> Reply:
        return self.ask("GET", path, headers=headers)

    def infer(self, model: str, document: Any, **headers: str) -> Reply:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        return self.ask("POST", f"/v2/models/{model}/infer", body, headers)


def infer_body(datatype: str, shape: list[int], data: Any = None, *, name: str = "x", **more: Any) -> dict[str, Any]:
    """Make the JSON of a request of one input."""
    tensor: dict[str, Any] = {"name": name, "datatype": datatype, "shape": shape}
    if data is not None:
        tensor["data"] = data
    return {"inputs": [tensor], **more}
