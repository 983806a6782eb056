"""A router whose models are functions of numpy, computed in threads of this process."""

from __future__ import annotations

import io
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from udfs.serving import (
    BadRequestError,
    ModelFailedError,
    NoSuchModelError,
    OverloadedError,
    ServedModel,
    TensorSpec,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Outputs = Mapping[str, np.ndarray]
    Model = Callable[[Mapping[str, np.ndarray]], Outputs]

__all__ = ["SHORT_SLO_MS", "SLO_MS", "NumpyRouter"]

# Long, for a machine that is busy with other tests; and short for the model that never answers.
SLO_MS, SHORT_SLO_MS = 20_000.0, 300.0
_NUMBERS = ("bool", *(f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64)), "float16", "float32", "float64")


def _image_sizes(inputs: Mapping[str, np.ndarray]) -> Outputs:
    try:
        sizes = [Image.open(io.BytesIO(image)).size for image in inputs["image"]]
    except OSError as error:
        raise BadRequestError("row 0 is no image that can be decoded") from error
    return {"size": np.array(sizes, np.int64)}


def _fail(_inputs: Mapping[str, np.ndarray]) -> Outputs:
    raise ModelFailedError("/home/someone/weights.pt: the password is swordfish")


def _crash(_inputs: Mapping[str, np.ndarray]) -> Outputs:
    raise ZeroDivisionError("swordfish")


def _overloaded(_inputs: Mapping[str, np.ndarray]) -> Outputs:
    raise OverloadedError("no backend has time for it", retry_after_s=2.3)


class NumpyRouter:
    """Models by name: ``linear`` in two versions, ``echo_TYPE``, ``images``, and some that misbehave.

    Attributes
    ----------
    ready : bool
        What it says of itself.
    waiting : dict of str to Future
        Futures that model ``never`` returned and does not complete, by the first value of their input.
    budgets : list of float
        ``timeout_ms`` of each request.
    """

    def __init__(self) -> None:
        self.ready = True
        self.waiting: dict[float, Future[Outputs]] = {}
        self.budgets: list[float | None] = []
        self.release = threading.Event()
        self.gone: set[str] = set()
        self._threads = ThreadPoolExecutor(4)
        numbers = TensorSpec("x", "float32", (-1, 3))
        total = TensorSpec("y", "float32", (-1,))
        self._served: list[tuple[ServedModel, Model]] = []
        self._add("linear", lambda given: {"y": given["x"].sum(1), "x2": given["x"] * 2}, numbers, total, "1")
        self._add("linear", lambda given: {"y": -given["x"].sum(1), "x2": given["x"] * 2}, numbers, total, "2")
        for dtype in _NUMBERS:
            self._add(f"echo_{dtype}", _echo, TensorSpec("x", dtype, (-1, -1)), TensorSpec("x", dtype, (-1, -1)))
        for dtype in ("bytes", "str"):
            self._add(f"echo_{dtype}", _echo, TensorSpec("x", dtype, (-1,)), TensorSpec("x", dtype, (-1,)))
        image = TensorSpec("image", "bytes", (-1,))
        self._add("images", _image_sizes, image, TensorSpec("size", "int64", (-1, 2)))
        self._add("nan", lambda given: {"y": given["x"].sum(1) * np.nan}, numbers, total)
        self._add("fails", _fail, numbers, total)
        self._add("crashes", _crash, numbers, total)
        self._add("forgets", lambda _: {}, numbers, total)
        self._add("complex", lambda given: {"y": given["x"].sum(1) * 1j}, numbers, total)
        self._add("overloaded", _overloaded, numbers, total)
        self._add("never", _echo, numbers, total)
        self._add("late", self._late, numbers, total)
        opaque = ServedModel("opaque", "1", (numbers,), (), "opaque", SLO_MS)
        self._served.append((opaque, lambda given: {"doubled": 2 * given["x"], "count": np.array([len(given["x"])])}))
        both = ServedModel("both", "1", (numbers, TensorSpec("z", "int32", (-1,))), (total,), "opaque", SLO_MS)
        self._served.append((both, lambda given: {"y": given["x"].sum(1) + given["z"].astype(np.float32)}))

    @property
    def models(self) -> list[ServedModel]:
        return [model for model, _ in self._served]

    def submit(
        self,
        name: str,
        inputs: Mapping[str, np.ndarray],
        *,
        version: str | None = None,
        timeout_ms: float | None = None,
    ) -> Future[Outputs]:
        self.budgets.append(timeout_ms)
        if version in self.gone:
            self.gone.remove(version)
            self._served = [entry for entry in self._served if entry[0].version != version]
            raise NoSuchModelError(f"{name} {version} was undeployed just now")
        if name == "never":
            future: Future[Outputs] = Future()
            self.waiting[float(inputs["x"][0, 0])] = future
            return future
        compute = [entry for entry in self._served if entry[0].name == name and version in {None, entry[0].version}][-1]
        return self._threads.submit(compute[1], inputs)

    def close(self) -> None:
        self.release.set()
        self._threads.shutdown(cancel_futures=True)

    def _late(self, given: Mapping[str, np.ndarray]) -> Outputs:
        self.release.wait(0.02)
        return {"y": given["x"].sum(1)}

    def _add(self, name: str, model: Model, taken: TensorSpec, given: TensorSpec, version: str = "1") -> None:
        outputs = (given, TensorSpec("x2", "float32", (-1, 3))) if name == "linear" else (given,)
        slo_ms = SHORT_SLO_MS if name == "never" else SLO_MS
        self._served.append((ServedModel(name, version, (taken,), outputs, "opaque", slo_ms), model))


def _echo(inputs: Mapping[str, np.ndarray]) -> Outputs:
    return dict(inputs)
