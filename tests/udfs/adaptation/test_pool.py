from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from udfs.adaptation import (
    BestModel,
    FeatureStore,
    PoolCoreSet,
    PoolFeatures,
    PoolPass,
    PoolUncertainty,
    farthest_first,
    frozen_layers,
    input_specs,
)
from udfs.handlers import ModelTrainer, open_adapted
from udfs.inference import UNCERTAINTIES, OutputUncertainty, uncertainty
from udfs.node import CACHE_VARIABLE
from udfs.shards import TensorColumn, TensorGroup
from udfs.training import Task

if TYPE_CHECKING:
    from pathlib import Path

    from udfs.store import Store

TOKENS, WORDS, HIDDEN, CLASSES = 5, 11, 6, 3
INPUTS = tuple(TensorGroup(name, (TensorColumn(name, "int64", (TOKENS,)),)) for name in ("input_ids", "attention_mask"))


class Tagger(torch.nn.Module):
    """Frozen word vectors, and a head that learns; a word of padding has NaN."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = torch.nn.Embedding(WORDS, HIDDEN).requires_grad_(requires_grad=False)
        self.words.weight[0] = torch.nan
        self.head = torch.nn.Linear(HIDDEN, CLASSES)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        del attention_mask
        return self.head(self.words(input_ids))


class DeepTagger(Tagger):
    """Another frozen layer between the word vectors and the head."""

    def __init__(self) -> None:
        super().__init__()
        self.mixed = torch.nn.Linear(HIDDEN, HIDDEN).requires_grad_(requires_grad=False)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        del attention_mask
        return self.head(self.mixed(self.words(input_ids)))


class LastWord(Tagger):
    """A head on each text's last word, which reads the place of the text in its batch."""

    def __init__(self) -> None:
        super().__init__()
        self.words.weight[0] = 0.5
        self.mixed = torch.nn.Linear(HIDDEN, HIDDEN)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        words = self.mixed(self.words(input_ids))
        if input_ids.shape[1] < 2:  # torch.fx cannot open this, and torch.export can
            return self.head(words[:, 0])
        return self.head(words[torch.arange(input_ids.shape[0]), attention_mask.sum(1) - 1])


def trainer(params: dict[str, Any]) -> ModelTrainer:
    net = LastWord() if params.get("last") else DeepTagger() if params.get("deep") else Tagger()
    return ModelTrainer(
        model=net,
        optimizer=torch.optim.SGD([weight for weight in net.parameters() if weight.requires_grad], lr=0.1),
        loss=lambda scores, tags: torch.nn.functional.cross_entropy(scores.flatten(0, 1), tags.flatten()),
        batch_size=4,
    )


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))


def passed(features: FeatureStore, params: dict[str, Any]) -> PoolPass:
    data: Any = SimpleNamespace(inputs=INPUTS, num_shards=1)
    opener = partial(open_adapted, trainer, seed=0, inputs=input_specs(data), columns=["input_ids", "attention_mask"])
    state = opener(params).session.checkpoint()
    return PoolPass(BestModel(opener, params, lambda: state), data, features, {}, 0, (), batch_size=4)


@pytest.fixture
def source(store: Store) -> PoolPass:
    return passed(FeatureStore(store, "tags"), {})


def rows(texts: list[list[int] | None]) -> pa.RecordBatch:
    """Texts as Spark deals them; 0 is padding."""
    masks = [None if text is None else [int(word > 0) for word in text] for text in texts]
    return pa.RecordBatch.from_pydict(
        {
            "bucket": pa.array([0] * len(texts), pa.int32()),
            "id": [f"t{number}" for number in range(len(texts))],
            "features": pa.array(range(len(texts)), pa.int64()),
            "c0": pa.array(texts, pa.list_(pa.int64())),
            "c1": pa.array(masks, pa.list_(pa.int64())),
            "k0": [number * 10 for number in range(len(texts))],
        }
    )


TEXTS = [[3, 4, 0, 0, 0], [5, 6, 7, 8, 9], None, [3, 4, 0, 0, 0], [1, 2], [10, 1, 2, 0, 0]]


@pytest.mark.parametrize("how", UNCERTAINTIES)
def test_padding_has_no_part_in_a_taggers_uncertainty(source: PoolPass, how: str) -> None:
    measure = OutputUncertainty(how, Task("multiclass", outputs="logits", num_outputs=CLASSES, tokens=TOKENS))
    (first, second) = PoolUncertainty(source, measure, ("number",), "score")([rows(TEXTS)])
    assert first.schema.names == ["number", "score"]
    found = pa.Table.from_batches([first, second]).to_pylist()
    assert [row["number"] for row in found] == [0, 10, 20, 30, 40, 50]
    net = Tagger()
    net.load_state_dict(source.model.open().model.state_dict())
    for row, text in zip(found, TEXTS, strict=True):
        if text is None or len(text) < TOKENS:
            assert row["score"] is None
            continue
        words = torch.tensor([[word for word in text if word]])
        with torch.no_grad():
            chances = net(words, words).softmax(-1).numpy()
        assert row["score"] == pytest.approx(float(uncertainty(chances, how)[0]), rel=1e-5)


def test_a_layer_above_a_rounded_one_is_that_of_training(store: Store) -> None:
    """The stored layer is below the one that the model reads: what is fresh passes through its rounding too."""
    source = passed(FeatureStore(store, "tags", "bfloat16"), {"deep": True})
    net = source.model.open()
    (key,) = (key for key, name in frozen_layers(net).items() if name == "words")
    source = replace(source, stored={key: source.model.params}, room=1 << 20)
    adapted = source.open()
    fresh, kept = ([*source.batches([rows(TEXTS)], adapted)] for _ in range(2))
    assert not PoolFeatures(source.features).is_empty
    for first, second in zip(fresh, kept, strict=True):
        np.testing.assert_array_equal(first.feeds, second.feeds)


def test_what_a_network_cannot_say_has_no_score(source: PoolPass) -> None:
    """The words that count have NaN: Spark would take it for the largest number."""
    broken = rows([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    ones = pa.array([[1] * TOKENS] * 2, pa.list_(pa.int64()))
    broken = pa.RecordBatch.from_arrays([*broken.columns[:4], ones, broken.column(5)], names=broken.schema.names)
    measure = OutputUncertainty("entropy", Task("multiclass", outputs="logits", num_outputs=CLASSES, tokens=TOKENS))
    (found,) = PoolUncertainty(source, measure, ("number",), "score")([broken])
    assert found["score"].is_null().to_pylist() == [True, False]


def test_texts_that_differ_in_padding_alone_are_one_place(source: PoolPass) -> None:
    chosen = PoolCoreSet(source, np.zeros((1, HIDDEN), np.float32), 9, seed=0)
    (found,) = chosen([rows(TEXTS)])
    vectors = dict(zip(found["id"].to_pylist(), found["vector"].to_pylist(), strict=True))
    assert set(vectors) == {"t0", "t1", "t3", "t5"}
    assert vectors["t0"] == vectors["t3"]
    words = Tagger().words.weight.detach().numpy()
    np.testing.assert_allclose(vectors["t0"], words[[3, 4]].mean(axis=0), rtol=1e-6)
    assert list(PoolCoreSet(source, np.zeros((1, HIDDEN), np.float32), 9, seed=0)([])) == []


def test_copies_of_labelled_texts_have_no_distance_to_them(store: Store) -> None:
    """The place of a text in its batch is a layer of the model, and no feature of the text."""
    source = passed(FeatureStore(store, "tags"), {"last": True})
    assert not source.open().whole
    labelled = [text for text in TEXTS if text is not None and len(text) == TOKENS][::-1]
    (known,) = PoolCoreSet(source, np.full((1, HIDDEN + 1), 99, np.float32), 9, seed=0)([rows([*labelled])])
    centres = np.array(known["vector"].to_pylist(), np.float32)
    (found,) = PoolCoreSet(source, centres, 9, seed=0)([rows([*labelled[1:], *labelled, *labelled])])
    vectors = np.array(found["vector"].to_pylist(), np.float32)
    _, scores = farthest_first(vectors, centres, len(vectors))
    np.testing.assert_allclose(scores, 0, atol=1e-6)
