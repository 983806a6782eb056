from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark.ml.feature import Normalizer
from real_inputs import minilm
from texts import ANIMALS, MARKETS, sentences, tiny_bert

torch = pytest.importorskip("torch")
pytest.importorskip("tokenizers", reason='pip install "cerebro-spark[text]"')

from optimizer.errors import UnknownLayerError
from udfs.handlers import TensorSpec
from udfs.inference import Tokenization, open_tokenizer
from udfs.testing import assert_same_bits
from udfs.weights import WeightsError
from vista_spark import CNNFeaturizer, TextFeaturizer, roster
from vista_spark.errors import ColumnError, InvalidArgumentError
from vista_spark.network import network

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.usefixtures("_tiny_bert")

REAL = (
    "A man is playing the guitar.",
    "Someone plays a stringed instrument.",
    "The stock market fell sharply on Monday.",
    "Shares lost much of their value at the start of the week.",
    "",
    "A very long one, " * 60,
)


def table(spark: SparkSession, texts: list[Any]) -> DataFrame:
    return spark.createDataFrame(list(enumerate(texts)), "id long, text string").repartition(2)


def features(df: DataFrame, column: str) -> list[Any]:
    rows = {row["id"]: row[column] for row in df.select("id", column).collect()}
    return [None if rows[key] is None else np.asarray(rows[key], np.float32) for key in sorted(rows)]


def reference(folder: Path, texts: tuple[str, ...], length: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Hidden states of ``transformers``' own model, and the mask of its own tokenizer."""
    transformers = pytest.importorskip("transformers", reason='pip install "cerebro-spark[text]"')
    transformers.logging.disable_progress_bar()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    encoded = tokenizer(list(texts), padding="max_length", truncation=True, max_length=length, return_tensors="pt")
    with torch.inference_mode():
        states = model(**encoded, output_hidden_states=True).hidden_states
    return [state.numpy() for state in states[1:]], encoded["attention_mask"].numpy()


def mean(state: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return (state * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)


# ---- the numbers


def test_sentence_embeddings_are_those_of_transformers(spark: SparkSession) -> None:
    folder = minilm()
    states, mask = reference(folder, REAL, 128)
    featurizer = TextFeaturizer(model="minilm_l6", weights=str(folder), layers=["layer3", "layer6"], batchSize=4)
    found = featurizer.transform(table(spark, list(REAL)))
    found = Normalizer(inputCol="minilm_l6_layer6", outputCol="embedding").transform(found).cache()
    expected = mean(states[5], mask)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    embedding = np.stack(features(found, "embedding"))
    np.testing.assert_allclose(embedding, expected, atol=1e-5)
    np.testing.assert_allclose(np.stack(features(found, "minilm_l6_layer3")), mean(states[2], mask), atol=1e-5)
    found.unpersist()
    near = embedding @ embedding.T
    assert min(near[0, 1], near[2, 3]) > 0.5
    assert max(near[0, 2], near[0, 3], near[1, 2], near[1, 3]) < 0.2


@pytest.mark.parametrize(("pooling", "length"), [("mean", 12), ("cls", 6), ("none", 20)])
def test_every_layer_and_pooling_of_a_registered_encoder(spark: SparkSession, pooling: str, length: int) -> None:
    texts = (*ANIMALS, *MARKETS, "a zebra", "")
    featurizer = TextFeaturizer(model="tiny_bert", layers=3, pooling=pooling, maxLength=length, batchSize=4)
    found = featurizer.transform(table(spark, list(texts))).cache()
    net = network("tiny_bert", None, 0, max_length=length)
    tokens = open_tokenizer(net.reads.preprocessing).encode_batch(list(texts))
    ids, mask = (np.array([getattr(one, name) for one in tokens]) for name in ("ids", "attention_mask"))
    assert ids.shape == (10, length)
    assert ids[9, :3].tolist() == [2, 3, 0]
    states = _by_hand(str(tiny_bert()), ids, mask)
    pooled = {"mean": lambda x: mean(x, mask), "cls": lambda x: x[:, 0], "none": lambda x: x.reshape(len(x), -1)}
    for layer, state in enumerate(states, start=1):
        rows = np.stack(features(found, f"tiny_bert_layer{layer}"))
        np.testing.assert_allclose(rows, pooled[pooling](state), atol=1e-5)
    found.unpersist()


def _by_hand(folder: str, ids: np.ndarray, mask: np.ndarray) -> list[np.ndarray]:
    """Blocks of an ordinary forward pass, without padding where there is any: it must make no difference."""
    net = roster.load("tiny_bert", f"{folder}/model.safetensors")
    states = [np.zeros((*ids.shape, 16), np.float32) for _ in range(3)]
    hooks = [
        block.register_forward_hook(lambda _m, _i, out, place=place: seen.__setitem__(place, out.numpy()))
        for place, block in enumerate(net.encoder.layer)
    ]
    with torch.inference_mode():
        for row in range(len(ids)):
            seen: dict[int, np.ndarray] = {}
            count = int(mask[row].sum())
            net(torch.from_numpy(ids[row : row + 1]), torch.from_numpy(mask[row : row + 1]))
            full = dict(seen)
            net(torch.from_numpy(ids[row : row + 1, :count]), torch.from_numpy(mask[row : row + 1, :count]))
            for place in range(3):
                np.testing.assert_allclose(full[place][0, :count], seen[place][0], atol=1e-5)
                states[place][row] = full[place][0]
    for hook in hooks:
        hook.remove()
    return states


def test_parts_continue_bit_by_bit() -> None:
    net = network("minilm_l6", str(minilm()), 0, max_length=32)
    batch = {
        "input_ids": np.random.default_rng(0).integers(0, 30_000, (3, 32)),
        "attention_mask": (np.arange(32) < np.array([[4], [32], [17]])).astype(np.int64),
    }
    assert net.source.inputs == (TensorSpec((32,), "int64"),) * 2
    top = [net.feature(layer, "", pooling).layer for layer in net.layers("layer6") for pooling in ("mean", "cls")]
    whole = net.traced.run(batch, top)
    middle = [net.layer(layer) for layer in net.layers("layer3")]
    cut = net.traced.run(batch, middle)
    bias = next(name for name in net.graph.names if net.graph[name].op == "mul" and "." not in name)
    cut |= net.traced.run(batch, [bias]) | {"attention_mask": batch["attention_mask"]}
    continued = net.traced.run(cut, top)
    for name in top:
        assert_same_bits(continued[name], whole[name], name)


@pytest.mark.parametrize(("kind", "head"), [("Bert", "ForMaskedLM"), ("Roberta", "ForSequenceClassification")])
def test_a_folder_that_transformers_wrote(kind: str, head: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason='pip install "cerebro-spark[text]"')
    transformers.logging.disable_progress_bar()
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24, "hidden_act": "gelu_new"}
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=40, hidden_size=16, max_position_embeddings=20, initializer_range=0.4, **sizes
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = getattr(transformers, f"{kind}{head}")(config).eval()
    model.save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((tiny_bert() / "tokenizer.json").read_bytes())
    card = roster.text_encoder(str(tmp_path), "written", max_length=9)
    net = network("written", None, 0)
    roster.unregister("written")
    assert card.parameters == sum(parameter.numel() for parameter in roster.load(card).parameters())
    ids = np.random.default_rng(1).integers(5, 40, (3, 9))
    mask = (np.arange(9) < np.array([[9], [4], [6]])).astype(np.int64)
    ids[mask == 0] = config.pad_token_id
    with torch.inference_mode():
        states = model.base_model(torch.from_numpy(ids), torch.from_numpy(mask), output_hidden_states=True)
    for pooling in ("mean", "cls"):
        targets = list(net.targets(2, pooling))
        found = net.traced.run({"input_ids": ids, "attention_mask": mask}, targets)
        for target, state in zip(targets, states.hidden_states[1:], strict=True):
            expected = mean(state.numpy(), mask) if pooling == "mean" else state[:, 0].numpy()
            np.testing.assert_allclose(found[target], expected, atol=1e-5)


def test_random_weights_have_the_shape_of_the_real_ones() -> None:
    card = roster.card("minilm_l6")
    assert card.parameters == sum(parameter.numel() for parameter in roster.load(card, seed=1).parameters())
    assert [layer.name for layer in card.resolve(2)] == ["layer5", "layer6"]


# ---- columns and rows


def test_nulls_have_their_reason_and_empty_texts_are_texts(spark: SparkSession) -> None:
    df = table(spark, ["the cat", None, ""])
    rows = {row["id"]: row for row in TextFeaturizer(model="tiny_bert", outputCols=["f"]).transform(df).collect()}
    assert [rows[key]["text_error"] for key in range(3)] == [None, "null", None]
    assert [rows[key]["f"] is None for key in range(3)] == [False, True, False]
    dropped = TextFeaturizer(model="tiny_bert", errors="drop").transform(df)
    assert sorted(row["id"] for row in dropped.collect()) == [0, 2]
    with pytest.raises(Exception, match=r"TextError: null: row \d of partition \d, column 'text'"):
        TextFeaturizer(model="tiny_bert", errors="raise").transform(df).collect()


def test_what_is_wrong_is_said_before_a_job(spark: SparkSession, no_job: Any, tmp_path: Path) -> None:
    df = table(spark, ["a"])
    good = {"model": "tiny_bert"}
    with no_job():
        for params, column, error, message in (
            (good | {"inputCol": "id"}, "id", ColumnError, "column 'id' of .* must be a string, got bigint"),
            (
                good | {"maxLength": 25},
                "text",
                InvalidArgumentError,
                "at most the 24 tokens of tiny_bert, got 25",
            ),
            (good | {"layers": "layer9"}, "text", UnknownLayerError, "no layer 'layer9'.*layer1, layer2, layer3"),
            (good | {"layers": "embeddings"}, "text", InvalidArgumentError, 'embeddings.*take pooling="none"'),
            (good | {"weights": str(tmp_path)}, "text", WeightsError, "tokenizer.json is not there"),
            ({"model": "minilm_l6"}, "text", WeightsError, "needs the tokenizer"),
            ({"model": "resnet18"}, "text", InvalidArgumentError, "reads image: take CNNFeaturizer"),
            ({}, "text", InvalidArgumentError, "no model: give a network of your own, or set one of minilm_l6"),
        ):
            with pytest.raises(error, match=message):
                TextFeaturizer(**params).transform(df.select("id", column))
        with pytest.raises(InvalidArgumentError, match="'tiny_bert' reads text: take TextFeaturizer"):
            CNNFeaturizer(model="tiny_bert").transform(df.withColumnRenamed("text", "image"))


def test_a_folder_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    with pytest.raises(InvalidArgumentError, match="'gpt2'; use an encoder of bert"):
        roster.text_encoder(str(tmp_path), "other")
    assert "other" not in roster.names()


def test_a_damaged_tokenizer_is_named(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(WeightsError, match=r"is no tokenizer.json"):
        open_tokenizer(Tokenization(8, str(tmp_path / "tokenizer.json")))


# ---- several layers in one column


@pytest.mark.parametrize("combine", ["concat", "sum"])
def test_layers_in_one_column(spark: SparkSession, combine: str) -> None:
    df = table(spark, [text for _, text in sentences(5)] + [None])
    apart = TextFeaturizer(model="tiny_bert", layers=3).transform(df).cache()
    rows = [features(apart, f"tiny_bert_layer{layer}") for layer in (1, 2, 3)]
    combined = TextFeaturizer(model="tiny_bert", layers=3, combine=combine).transform(df)
    assert (
        combined.schema[f"tiny_bert_{combine}"].metadata["ml_attr"]["num_attrs"] == {"concat": 48, "sum": 16}[combine]
    )
    for place, found in enumerate(features(combined, f"tiny_bert_{combine}")):
        parts = [of[place] for of in rows]
        if place == 5:
            assert found is None
            continue
        expected = np.concatenate(parts) if combine == "concat" else np.sum(parts, axis=0)
        np.testing.assert_allclose(found, expected, atol=1e-5)
    apart.unpersist()
