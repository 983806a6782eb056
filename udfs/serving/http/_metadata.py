"""Endpoints for health, server and model metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optimizer import __version__
from udfs.serving import NoSuchModelError
from udfs.serving.http._datatypes import datatype_of_spec
from udfs.serving.http._errors import reason_of, refusal_of
from udfs.serving.http._model_lookup import find_model, versions_of
from udfs.serving.http._responses import json_reply

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from udfs.serving import Router, ServedModel, TensorSpec
    from udfs.serving.http._traffic import Counts

__all__ = ["Metadata"]

_NOT_READY = 503


class Metadata:
    """Endpoints that are answered from the router's list of models."""

    def __init__(self, router: Router, traffic: Counts) -> None:
        self._router, self._traffic = router, traffic

    async def live(self, _request: Request) -> Response:
        """Report that this process answers."""
        return json_reply({"live": True})

    async def ready(self, _request: Request) -> Response:
        """Report whether every model has a backend."""
        return self._readiness({})

    async def server(self, _request: Request) -> Response:
        """Return the name, version and extensions of the server."""
        extensions = ["binary_tensor_data", "parameters", "schedule_policy"]
        return json_reply({"name": "cerebro-spark", "version": __version__, "extensions": extensions})

    async def index(self, _request: Request) -> Response:
        """Return all versions of all models, like Triton's repository index."""
        state = {"state": "READY", "reason": ""} if self._router.ready else {"state": "LOADING", "reason": "no backend"}
        return json_reply([{"name": model.name, "version": model.version, **state} for model in self._router.models])

    async def model_ready(self, request: Request) -> Response:
        """Report whether a model is deployed and the server is ready."""
        try:
            model = self._model(request)
        except NoSuchModelError as error:
            return self._unknown(error)
        return self._readiness({"name": model.name})

    async def model(self, request: Request) -> Response:
        """Return a model's inputs and outputs."""
        try:
            model = self._model(request)
            versions = versions_of(self._router, model.name)
        except NoSuchModelError as error:
            return self._unknown(error)
        return json_reply(_described(model, versions))

    def _model(self, request: Request) -> ServedModel:
        return find_model(self._router, request.path_params["name"], request.path_params.get("version"))

    def _readiness(self, named: dict[str, str]) -> Response:
        ready = self._router.ready
        return json_reply({**named, "ready": ready}, 200 if ready else _NOT_READY)

    def _unknown(self, error: NoSuchModelError) -> Response:
        self._traffic.refused(reason_of(error))
        return refusal_of(error)


def _described(model: ServedModel, versions: list[ServedModel]) -> dict[str, Any]:
    return {
        "name": model.name,
        "versions": [other.version for other in versions],
        "platform": model.platform,
        "inputs": [_tensor(spec) for spec in model.inputs],
        "outputs": [_tensor(spec) for spec in model.described_outputs],
    }


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": datatype_of_spec(spec), "shape": list(spec.shape)}
