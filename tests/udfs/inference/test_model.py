from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from udfs.handlers import TensorSpec
from udfs.inference import ModelSource, open_model
from udfs.inference import _model as model

if TYPE_CHECKING:
    from collections.abc import Iterator

INPUTS = (TensorSpec((4,)),)


@dataclass
class Traced:
    """Traced model that records its calls."""

    build: object
    device: str
    prepared: list[int] = field(default_factory=list)

    def prepare(self, threads: int) -> Traced:
        self.prepared.append(threads)
        return self


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Traced]]:
    found: list[Traced] = []

    class Fake:
        def trace(self, built: object, inputs: Any, *, device: str) -> Traced:
            assert inputs == INPUTS
            # While the next one opens, those kept and it are all that hold weights.
            assert len(model._open) < model._KEPT
            found.append(Traced(built, device))
            return found[-1]

    monkeypatch.setattr(model, "framework", lambda name: {"fake": Fake()}[name])
    model._open.clear()
    yield found
    model._open.clear()


def source(key: str) -> ModelSource:
    return ModelSource(key, "fake", INPUTS, lambda: f"built {key}")


def test_a_model_is_opened_once(opened: list[Traced]) -> None:
    assert open_model(source("a"), "cpu", 1) is open_model(source("a"), "cpu", 1)
    assert [found.build for found in opened] == ["built a"]


def test_threads_are_those_of_the_last_call(opened: list[Traced]) -> None:
    open_model(source("a"), "cpu", 1)
    open_model(source("a"), "cpu", 2)
    assert opened[0].prepared == [1, 2]


def test_each_device_has_its_own(opened: list[Traced]) -> None:
    assert open_model(source("a"), "cpu", 1) is not open_model(source("a"), "cuda", 1)
    assert [found.device for found in opened] == ["cpu", "cuda"]


def test_the_least_recently_used_is_closed(opened: list[Traced]) -> None:
    for key in "abacabd":
        open_model(source(key), "cpu", 1)
        assert len(model._open) <= model._KEPT == 2
    assert [found.build[-1] for found in opened] == ["a", "b", "c", "b", "d"]


def test_a_model_that_does_not_open_is_not_kept() -> None:
    broken = ModelSource("broken", "fake", INPUTS, lambda: 1 / 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            open_model(broken, "cpu", 1)
    assert not model._open


def test_sources_are_equal_by_key_and_not_by_function() -> None:
    assert source("a") == source("a")
    assert hash(source("a")) == hash(source("a"))
    assert source("a") != source("b")
    assert source("a") != ModelSource("a", "fake", (TensorSpec((5,)),), list)


@dataclass(frozen=True)
class FromFile:
    path: str

    def __call__(self) -> Any:
        return np.load(self.path)


def test_what_travels_is_how_to_build_and_no_weights(tmp_path: Any, opened: list[Traced]) -> None:
    path = str(tmp_path / "weights.npy")
    np.save(path, np.arange(100_000.0))
    made = ModelSource("file", "fake", INPUTS, FromFile(path))
    open_model(made, "cpu", 1)
    sent = pickle.dumps(made)
    assert len(sent) < 1000
    received = pickle.loads(sent)  # our own bytes
    assert received == made
    assert open_model(received, "cpu", 1) is opened[0]
    assert "FromFile" not in repr(made)
