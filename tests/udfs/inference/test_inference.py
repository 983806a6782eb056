"""``Inference`` on Arrow batches, without Spark: the call that ``mapInArrow`` makes."""

from __future__ import annotations

import io
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

torch = pytest.importorskip("torch")

from torch import nn

from udfs.arrow import RowMap, RowPolicy, TensorError
from udfs.handlers import LayerLayout, TensorSpec
from udfs.images import (
    IMAGE_REASONS,
    ImageError,
    Preprocessing,
    decode,
)
from udfs.inference import (
    Feature,
    ImageFeed,
    Inference,
    Materialised,
    ModelSource,
    TensorFeed,
)
from udfs.inference import _inference as inference
from udfs.inference import _model as model
from udfs.inference._finite_records import finite_records

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PREPROCESSING = Preprocessing(crop=6, resize=None)
SPEC = TensorSpec(PREPROCESSING.shape)
BAD = b"no image"


def network() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)).eval()


SOURCE = ModelSource("small", "torch", (SPEC,), network)
NET = network()
IMAGE_FEED = ImageFeed("image", "input_1", PREPROCESSING)
HEAD = Feature("3", "head", "none", LayerLayout())


@pytest.fixture(autouse=True)
def _fresh() -> None:
    model._open.clear()


def run(errors: str = "null", keep: tuple[str, ...] = ("id",), **changed: Any) -> RowMap:
    whole = Inference(source=SOURCE, feeds=(IMAGE_FEED,), features=(HEAD,), materialised=(), batch_size=4, device="cpu")
    policy = RowPolicy(errors, "image_error", ImageError)  # type: ignore[arg-type]
    return RowMap(replace(whole, **changed), keep, policy)


def picture(i: int) -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(i).integers(0, 256, (9, 8, 3), np.uint8)
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def expected(i: int) -> np.ndarray:
    with torch.inference_mode():
        return NET(torch.from_numpy(decode(picture(i), PREPROCESSING))[None])[0].numpy()


def table(ids: list[int], bad: set[int] = frozenset(), *, null: set[int] = frozenset()) -> pa.RecordBatch:  # type: ignore[assignment]
    images = [None if i in null else BAD if i in bad else picture(i) for i in ids]
    return pa.record_batch({"id": pa.array(ids, pa.int64()), "image": pa.array(images, pa.binary())})


def together(batches: Any) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def check(rows: list[dict[str, Any]], ids: list[int], bad: set[int] = frozenset()) -> None:  # type: ignore[assignment]
    assert [row["id"] for row in rows] == ids
    for row in rows:
        if row["id"] in bad:
            assert row["head"] is None
        else:
            np.testing.assert_allclose(row["head"], expected(row["id"]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("bad", [set(), {0}, {2, 3}, {6}, {0, 1, 2, 3}, set(range(7))])
@pytest.mark.parametrize("split", [(7,), (3, 0, 4), (1,) * 7])
def test_null_keeps_every_row_in_order_with_the_reason(bad: set[int], split: tuple[int, ...]) -> None:
    rows = together(run("null")(_split(table(list(range(7)), bad), split)))
    check(rows, list(range(7)), bad)
    assert [row["image_error"] is not None for row in rows] == [i in bad for i in range(7)]


@pytest.mark.parametrize("bad", [set(), {0}, {2, 3}, {6}, {0, 1, 2, 3}, set(range(7))])
def test_drop_keeps_the_good_rows_in_order(bad: set[int]) -> None:
    batches = list(run("drop")(_split(table(list(range(7)), bad), (3, 4))))
    check(together(batches), [i for i in range(7) if i not in bad])
    assert all(batch.schema.names == ["id", "head"] for batch in batches)


@pytest.mark.parametrize("null", [False, True])
def test_raise_names_the_row_after_the_good_batches(*, null: bool) -> None:
    batch = table([0, 1, 2, 3, 4, 5], set() if null else {5}, null={5} if null else set())
    found = run("raise")(_split(batch, (2, 2, 2)))
    check(next(found).to_pylist(), [0, 1, 2, 3])
    with pytest.raises(ImageError, match="row 5 of partition 0, column 'image'"):
        next(found)


def test_raise_says_nothing_of_good_rows() -> None:
    (batch,) = run("raise")([table([1, 2])])
    assert batch.schema.names == ["id", "head"]
    check(batch.to_pylist(), [1, 2])


def test_schema_does_not_depend_on_the_rows() -> None:
    wide = run(materialised=(Materialised("1", "t"),))
    schemas = {str(next(wide([table([0, 1], bad)])).schema) for bad in (set(), {0}, {0, 1})}
    assert len(schemas) == 1


def test_empty_partition_opens_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "open_model", lambda *_: pytest.fail("opened"))
    assert list(run()([])) == []
    assert list(run()([table([]), table([])])) == []


def test_batches_are_the_models_size(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    opened = model.open_model

    class Watched:
        def __init__(self, traced: Any) -> None:
            self.traced = traced

        def run(self, feeds: Any, want: Any) -> Any:
            sizes.append(len(feeds["input_1"]))
            return self.traced.run(feeds, want)

    monkeypatch.setattr(inference, "open_model", lambda *args: Watched(opened(*args)))
    check(together(run()(_split(table(list(range(10)), {1}), (3, 3, 3, 1)))), list(range(10)), {1})
    assert sizes == [3, 4, 2]


@pytest.mark.parametrize(("offset", "length"), [(1, 6), (3, 2), (6, 1)])
def test_slices_are_read_from_where_they_begin(offset: int, length: int) -> None:
    batch = table(list(range(7)), {0, 4}).slice(offset, length)
    check(together(run()([batch])), list(range(offset, offset + length)), {0, 4})


@pytest.mark.parametrize("layer", ["input_1", "0", "1", "2", "3"])
def test_continuing_from_a_materialised_layer_is_the_whole(layer: str) -> None:
    features = (Feature("1", "map", "mean", LayerLayout((1, 2))), HEAD)
    below = [name for name in ("1", "3") if name < layer] if layer != "input_1" else []
    wanted = tuple(feature for feature in features if feature.layer not in below)
    batches = _split(table(list(range(6))), (5, 1))
    whole = together(run(features=wanted)(batches))
    first = run("drop", features=(), materialised=(Materialised(layer, "t"),))
    shape = {"input_1": (3, 6, 6), "0": (4, 6, 6), "1": (4, 6, 6), "2": (144,), "3": (5,)}[layer]
    second = run(feeds=(TensorFeed("t", layer, TensorSpec(shape)),), features=wanted)
    model._open.clear()
    between = list(first(batches))
    assert between[0].schema.names == ["id", "t"]
    assert together(second(between)) == whole


def test_nulls_among_tensors_are_an_error_of_the_plan() -> None:
    batches = run(features=(), materialised=(Materialised("1", "t"),))([table([0, 1], {1})])
    second = run(feeds=(TensorFeed("t", "1", TensorSpec((4, 6, 6))),))
    with pytest.raises(TensorError, match="1 of 2 tensors are null"):
        list(second(batches))


def test_kept_and_new_columns_come_in_order() -> None:
    batch = table([0, 1]).append_column("label", pa.array(["x", "y"]))
    added = run(
        keep=("label", "id"),
        features=(HEAD, Feature("1", "map", "max2x2", LayerLayout((1, 2)))),
        materialised=(Materialised("0", "t"),),
    )
    (found,) = added([batch])
    assert found.schema.names == ["label", "id", "head", "map", "t", "image_error"]
    assert len(found.column("map")[0]) == 16
    assert found.schema.field("t").type == pa.binary()


def _struct(i: int) -> dict[str, Any]:
    pixels = np.asarray(Image.open(io.BytesIO(picture(i))))
    data = np.ascontiguousarray(pixels[:, :, ::-1]).tobytes()
    return {"origin": "", "height": 9, "width": 8, "nChannels": 3, "mode": 16, "data": data}


def _nested(i: int) -> list[Any]:
    return decode(picture(i), PREPROCESSING).tolist()


FLOATS = pa.list_(pa.list_(pa.list_(pa.float32())))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (_struct, None),
        (_nested, FLOATS),
        (_nested, pa.list_(pa.list_(pa.list_(pa.float64())))),
        (lambda i: np.ravel(_nested(i)).tolist(), pa.list_(pa.float32())),
    ],
    ids=["struct", "nested", "double", "flat"],
)
@pytest.mark.parametrize("offset", [0, 2])
def test_other_kinds_of_image(value: Callable[[int], Any], kind: pa.DataType | None, offset: int) -> None:
    values = [value(0), value(1), None, value(3)]
    batch = pa.record_batch({"id": list(range(4)), "image": pa.array(values, kind)}).slice(offset)
    check(together(run()([batch])), list(range(4))[offset:], {2})


def test_paths(tmp_path: Path) -> None:
    for i in (0, 2):
        (tmp_path / f"{i}.png").write_bytes(picture(i))
    paths = [str(tmp_path / "0.png"), str(tmp_path / "1.png"), f"file:{tmp_path}/2.png"]
    rows = together(run()([pa.record_batch({"id": [0, 1, 2], "image": paths})]))
    check(rows, [0, 1, 2], {1})
    assert rows[1]["image_error"] == "no such file"


def _break(change: Callable[[np.ndarray], Any]) -> Any:
    return change(decode(picture(1), PREPROCESSING))


def _with_null(tensor: np.ndarray) -> Any:
    nested = tensor.tolist()
    nested[1][2][3] = None
    return nested


def _with_null_row(tensor: np.ndarray) -> Any:
    nested = tensor.tolist()
    nested[1][2] = None
    return nested


@pytest.mark.parametrize(
    "change",
    [_with_null, _with_null_row, lambda t: t[:, :, :5].tolist(), lambda t: (t * np.nan).tolist(), lambda _: []],
    ids=["null", "null row", "short", "nan", "empty"],
)
def test_bad_float_tensors_cost_only_their_own_row(change: Callable[[np.ndarray], Any]) -> None:
    values = pa.array([_nested(0), _break(change), _nested(2)], FLOATS)
    rows = together(run()([pa.record_batch({"id": [0, 1, 2], "image": values})]))
    check(rows, [0, 1, 2], {1})
    assert "tensor" in rows[1]["image_error"]


def test_a_row_is_as_good_as_its_worst_feed() -> None:
    """Two images a row: each feed has bad rows of its own."""

    def forward(left: bytes, right: bytes) -> list[float]:
        pair = [torch.from_numpy(decode(value, PREPROCESSING))[None] for value in (left, right)]
        with torch.inference_mode():
            return Difference()(*pair)[0].tolist()

    source = ModelSource("difference", "torch", (SPEC, SPEC), partial(_eval, Difference))
    feeds = (ImageFeed("image", "x", PREPROCESSING), ImageFeed("other", "y", PREPROCESSING))
    batch = table(list(range(5)), {1, 3}).append_column("other", table([9, 8, 7, 6, 5], {7, 6}).column("image"))
    twice = run(source=source, feeds=feeds, features=(Feature("flatten", "head", "none", LayerLayout()),), batch_size=8)
    rows = together(twice([batch]))
    assert [row["id"] for row in rows if row["head"] is not None] == [0, 4]
    assert [row["image_error"] is None for row in rows] == [True, False, False, False, True]
    for row, other in ((0, 9), (4, 5)):
        np.testing.assert_allclose(rows[row]["head"], forward(picture(row), picture(other)), rtol=1e-6)


class Difference(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.flatten(x - 2 * y, 1)


def _eval(make: Callable[[], nn.Module]) -> nn.Module:
    return make().eval()


def _split(batch: pa.RecordBatch, lengths: tuple[int, ...]) -> list[pa.RecordBatch]:
    starts = np.cumsum((0, *lengths))
    assert starts[-1] == batch.num_rows
    return [batch.slice(start, length) for start, length in zip(starts, lengths, strict=False)]


class Overflowing(nn.Module):
    """Gives infinities for bright pictures; its lower layer is finite."""

    def __init__(self) -> None:
        super().__init__()
        self.low, self.high = nn.Flatten(), nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.high(torch.where(self.low(x) > 1, torch.inf, self.low(x)))


def test_features_that_are_not_finite_are_a_reason() -> None:
    source = ModelSource("overflowing", "torch", (SPEC,), lambda: Overflowing().eval())
    features = (Feature("low", "low", "none", LayerLayout()), Feature("high", "high", "none", LayerLayout()))
    function = Inference(source, (replace(IMAGE_FEED, layer="x"),), features, (Materialised("low", "live"),), 2, "cpu")
    rows = RowMap(function, ("id",), RowPolicy("null", "why", ImageError))
    dark, bright = np.zeros(SPEC.shape), np.full(SPEC.shape, 9.0)
    images = pa.array([dark.ravel(), bright.ravel(), None, dark.ravel()], pa.list_(pa.float32()))
    batch = pa.record_batch([pa.array(range(4)), images], names=["id", "image"])
    found = pa.Table.from_batches(rows([batch])).to_pylist()
    assert [row["why"] for row in found] == [None, "features are not finite", "null", None]
    for column in ("low", "high", "live"):
        assert [row[column] is None for row in found] == [False, True, True, False], column
    assert found[3]["high"] == [0.0] * 108
    assert found[1]["why"] in IMAGE_REASONS
    with pytest.raises(ImageError, match="features are not finite"):
        list(RowMap(function, ("id",), RowPolicy("raise", None, ImageError))([batch]))


def test_a_materialised_tensor_may_hold_infinities_and_no_nan() -> None:
    tensors = np.zeros((5, 2, 2), np.float32)
    tensors[1, 0, 0], tensors[3, 1, 1] = -np.inf, np.nan
    assert finite_records(5, [], [tensors], None).tolist() == [True, True, True, False, True]
    assert finite_records(2, [], [tensors], np.array([2, 3])).tolist() == [True, False]
