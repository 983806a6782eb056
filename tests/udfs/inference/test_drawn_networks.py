"""Drawn networks as features over Arrow batches: what their framework gives, or a refusal in a sentence."""

from __future__ import annotations

import os
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

torch = pytest.importorskip("torch")

from drawn_networks import draw_torch, plain_torch

from optimizer.errors import CerebroError
from udfs.arrow import RowMap, RowPolicy
from udfs.handlers import LayerLayout, framework
from udfs.images import ImageError
from udfs.inference import Feature, Inference, ModelSource, NumbersFeed, check_model

if TYPE_CHECKING:
    from collections.abc import Callable

_NETWORKS = int(os.environ.get("DRAWN_NETWORKS", "4"))
_ROWS = 5


def outcome(seed: int, name: str = "torch") -> str:
    """Featurize with a drawn network: ``"same"``, ``"refused"``, or what is wrong."""
    drawn, plain = draw(name, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        records = [
            np.random.default_rng(seed + place).normal(0.4, 0.5, (_ROWS, *spec.shape)).astype(np.float32)
            for place, spec in enumerate(drawn.inputs)
        ]
        try:
            table, keys = features(name, drawn, records, seed)
        except CerebroError as error:
            return _judged_refusal(drawn, str(error), partial(plain, records))
        except Exception as error:  # a raw error is what this test looks for
            return f"raw {type(error).__name__}: {error}"
        if drawn.refused:
            return f"accepted in spite of {drawn.refused}"
        return _judged_rows(drawn, table, keys, plain(records))


def draw(name: str, seed: int) -> tuple[Any, Callable[[list[np.ndarray]], list[dict[str, np.ndarray]]]]:
    """Draw a network of a framework, and the plain call of it."""
    if name == "torch":
        drawn = draw_torch(seed)

        def plain(records: list[np.ndarray]) -> list[dict[str, np.ndarray]]:
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(seed)
                return plain_torch(drawn.build(), records)

        return drawn, plain
    from drawn_keras_networks import draw_keras, plain_keras  # imports TensorFlow

    own = draw_keras(seed)
    return own, lambda records: plain_keras(framework("keras").build(own.build, own.inputs, seed), records)


def features(name: str, drawn: Any, records: list[np.ndarray], seed: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Run the driver's checks, and the workers' function in batches of another size than the driver's."""
    own = framework(name)
    own.paths(own.skeleton(drawn.build, drawn.inputs), drawn.inputs)
    source = ModelSource(
        f"drawn {name} {seed}", name, drawn.inputs, lambda: own.build(drawn.build, drawn.inputs, seed),
        lambda: own.skeleton(drawn.build, drawn.inputs),
    )  # fmt: skip
    traced = source.open()
    check_model(source, traced)
    keys = [str(place) for place in range(len(traced.graph.outputs))] if name == "keras" else []
    keys = [str(key) for key in traced.output_keys] or keys or [""]
    layers = [traced.output_layer(key) for key in traced.output_keys] or list(traced.graph.outputs)
    feeds = tuple(
        NumbersFeed(f"column{place}", layer, spec)
        for place, (layer, spec) in enumerate(zip(traced.graph.inputs, drawn.inputs, strict=True))
    )
    wanted = tuple(
        Feature(layer, f"feature {key}", "none", LayerLayout()) for layer, key in zip(layers, keys, strict=True)
    )
    function = Inference(source, feeds, wanted, (), 3, "cpu")
    columns = [pa.array(list(array.reshape(_ROWS, -1)), pa.list_(pa.float32())) for array in records]
    batch = pa.record_batch(columns, names=[f"column{place}" for place in range(len(records))])
    rows = RowMap(function, (), RowPolicy("null", "why", error=ImageError))
    return pa.Table.from_batches(rows([batch])).to_pylist(), keys


def _judged_refusal(drawn: Any, message: str, plain: Callable[[], object]) -> str:
    if "\n" in message or len(message) < 40:
        return f"no sentence: {message}"
    if drawn.refused | drawn.refusable:
        return "refused"
    try:
        plain()
    except Exception:  # what its own framework does not run is refused with cause
        return "refused"
    return f"refused without cause: {message}"


def _judged_rows(drawn: Any, table: list[dict[str, Any]], keys: list[str], plain: list[dict[str, np.ndarray]]) -> str:
    tolerance = 2e-2 if {"half", "float16"} & set(drawn.kinds) else 1e-4
    for number, (row, expected) in enumerate(zip(table, plain, strict=True)):
        finite = all(np.isfinite(array).all() for array in expected.values())
        if (row["why"] is None) != finite:
            return f"row {number} is said to be {row['why'] or 'good'}"
        if not finite:
            continue
        for key, other in zip(keys, expected, strict=False):
            wanted = expected.get(key, expected[other]).ravel()
            largest = max(1e-3, float(np.abs(wanted).max()))
            found = np.array(row[f"feature {key}"])
            if found.shape != wanted.shape or np.abs(found - wanted).max() > tolerance * largest:
                return f"row {number}: {key!r} is {found[:3]}, not {wanted[:3]}"
    return "same"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEREBRO_SPARK_CACHE", str(tmp_path))


def _wrong(name: str, seeds: range) -> dict[int, tuple[list[str], str]]:
    found = {seed: outcome(seed, name) for seed in seeds}
    return {seed: (draw(name, seed)[0].kinds, told) for seed, told in found.items() if told not in ("same", "refused")}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_drawn_networks_are_right_or_refused() -> None:
    assert not _wrong("torch", range(1010, 1010 + _NETWORKS))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_drawn_networks_of_keras_are_right_or_refused() -> None:
    pytest.importorskip("tensorflow")
    assert not _wrong("keras", range(1000, 1002))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("name", "count"), [("torch", 150), ("keras", 50)])
def test_many_drawn_networks_are_right_or_refused(name: str, count: int) -> None:
    pytest.importorskip({"torch": "torch", "keras": "tensorflow"}[name])
    assert not _wrong(name, range(1000, 1000 + count))
