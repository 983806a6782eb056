"""Descriptions of built-in models, and the networks that they build."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from places import ROOT

from cerebro_spark.builtin import MODEL_SETTINGS, builtin_model, builtin_models
from cerebro_spark.builtin.models import shipped_models
from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

torch = pytest.importorskip("torch")

from real_inputs import mobilenet_v2_weights
from texts import TOKENIZERS, tiny_bert

from udfs.handlers import open_session, try_step
from udfs.shards import Tensors

COLUMNS: dict[str, Any] = {"column": "content", "label": "label", "num_classes": 3}


def trainable(model: torch.nn.Module) -> list[str]:
    return [name for name, weight in model.named_parameters() if weight.requires_grad]


def test_descriptions_are_plain_data_and_import_no_framework() -> None:
    code = (
        "import json, sys; from cerebro_spark.builtin import builtin_models; text = json.dumps(builtin_models()); "
        "print(sorted({'torch', 'tensorflow', 'pyspark', 'numpy', 'pandas', 'pyarrow'} & sys.modules.keys())); "
        "print(text)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    heavy, text = done.stdout.splitlines()
    assert heavy == "[]"
    assert json.loads(text) == builtin_models()


@pytest.mark.parametrize("model", shipped_models().values(), ids=lambda model: model.name)
def test_each_model_has_both_trainings_and_the_rates_of_the_thesis(model: Any) -> None:
    assert list(model.search_spaces) == ["full", "frozen"]
    for training, space in model.search_spaces.items():
        assert {"lr", "batch_size", "weight_decay"} <= space.keys()
        assert ("trainable_blocks" in space) == (training == "frozen")
        assert all(entry["kind"] == "choice" and entry["values"] for entry in space.values())


def test_a_new_file_is_a_new_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is not listed anywhere else."""
    from cerebro_spark.builtin import models

    (tmp_path / "_mine.py").write_text(
        "from dataclasses import replace\n"
        "from cerebro_spark.builtin.models._resnet50 import MODEL as RESNET50\n"
        "MODEL = replace(RESNET50, name='mine', network='resnet18')\n"
    )
    monkeypatch.setattr(models, "__path__", [*models.__path__, str(tmp_path)])
    shipped_models.cache_clear()
    try:
        model = builtin_model("mine", **COLUMNS, training="full")
        assert sum(weight.numel() for weight in model.trainer_fn({"lr": 0.1}).model.parameters()) < 12_000_000
    finally:
        shipped_models.cache_clear()


def test_frozen_layers_keep_the_pretrained_weights() -> None:
    weights = mobilenet_v2_weights()
    model = builtin_model("mobilenet_v2", **COLUMNS, weights=str(weights))
    head = model.trainer_fn({"lr": 0.1, "trainable_blocks": 0}).model
    assert trainable(head) == ["network.head.classifier.weight", "network.head.classifier.bias"]
    trainer = model.trainer_fn({"lr": 0.01, "batch_size": 7, "weight_decay": 0.5, "trainable_blocks": 2})
    assert {name.split(".")[1:4:2][-1] for name in trainable(trainer.model) if "features" in name} == {"17", "18"}
    assert trainer.batch_size == 7
    assert trainer.optimizer.defaults["weight_decay"] == 0.5
    published = torch.load(weights, weights_only=True)["features.3.conv.0.0.weight"]
    assert torch.equal(trainer.model.get_parameter("network.trunk.features.3.conv.0.0.weight"), published)


def test_images_are_normalised_for_the_pretrained_network() -> None:
    """The published network on the roster's preprocessing is the reference."""
    from vista_spark import roster

    weights = str(mobilenet_v2_weights())
    card = roster.card("mobilenet_v2")
    network = roster.load(card, weights)
    model = (
        builtin_model("mobilenet_v2", **COLUMNS, weights=weights).trainer_fn({"lr": 0.1, "trainable_blocks": 0}).model
    )
    pixels = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    mean, std = (torch.tensor(part).view(3, 1, 1) for part in (card.preprocessing.mean, card.preprocessing.std))
    expected = network.pool(network.features((pixels - mean) / std)).flatten(1)
    with torch.no_grad():
        scores = model.network.head.classifier(expected)
        torch.testing.assert_close(model(pixels), scores)


def test_full_training_learns_everything_and_leaves_the_file_alone() -> None:
    weights = mobilenet_v2_weights()
    before = weights.read_bytes()
    trainer = builtin_model("mobilenet_v2", **COLUMNS, weights=str(weights), training="full").trainer_fn({"lr": 0.1})
    assert len(trainable(trainer.model)) == len(list(trainer.model.parameters()))
    trainer.model.train()
    trainer.loss(trainer.model(torch.rand(2, 3, 32, 32)), torch.tensor([0, 2])).backward()
    trainer.optimizer.step()
    assert weights.read_bytes() == before


def rows() -> Tensors:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 3, 32, 32), dtype=np.uint8)
    return Tensors((pixels,), (np.array([0, 1, 2, 0]),), 4)


@pytest.mark.parametrize(("training", "blocks"), [("full", 1), ("frozen", 0), ("frozen", 2)])
def test_a_network_trains_a_step_and_its_frozen_layers_do_not(training: str, blocks: int) -> None:
    source = builtin_model("mobilenet_v2", **COLUMNS, weights=str(mobilenet_v2_weights()), training=training)
    session = open_session(source.trainer_fn, {"lr": 0.1, "trainable_blocks": blocks}, 3)
    before = {name: value.clone() for name, value in session.model.state_dict().items()}
    try_step(session, rows())
    changed = {name for name, value in session.model.state_dict().items() if not torch.equal(value, before[name])}
    stem = {name for name in before if "features.0." in name}
    top = {name for name in before if "features.18." in name}
    assert stem <= changed if training == "full" else not changed & stem
    assert top <= changed if blocks else not changed & top


@pytest.mark.slow
@pytest.mark.parametrize("training", ["full", "frozen"])
def test_resnet50_reads_a_state_dict_and_trains_its_last_blocks(training: str, tmp_path: Path) -> None:
    from vista_spark import roster

    path = tmp_path / "resnet50.pth"
    torch.save(roster.load("resnet50", seed=5).state_dict(), path)
    source = builtin_model("resnet50", **COLUMNS, weights=str(path), training=training)
    session = open_session(source.trainer_fn, {"lr": 1e-4, "trainable_blocks": 3}, 3)
    learning = {name.split(".")[3] for name in trainable(session.model) if ".layer" in name}
    assert ("layer1" in {name.split(".")[2] for name in trainable(session.model)}) == (training == "full")
    assert learning
    try_step(session, rows())


def test_random_frozen_layers_are_refused_and_random_full_ones_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(InvalidArgumentError, match=r"weights must be .* got none.*training='full'"):
        builtin_model("resnet50", **COLUMNS)
    assert not caplog.records
    builtin_model("resnet50", **COLUMNS, training="full")
    assert "ResNet50 begins with random weights" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "resnet"}, r"builtin must be one of .*got 'resnet'; did you mean 'resnet50'"),
        ({"training": "half"}, r"training must be one of full, frozen, got 'half'"),
        ({"num_classes": 1}, r"num_classes must be a whole number of at least 2, got 1"),
        ({"name": "bert_base", "training": "full"}, r"tokenizer must be .*save_pretrained"),
        ({"name": "bert_base", "weights": "/no/such/folder"}, r"/no/such/folder"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        builtin_model(**{"name": "resnet50", "training": "full", **COLUMNS, **arguments})


def test_settings_of_a_model_are_no_settings_of_a_search() -> None:
    model = builtin_model("resnet50", **COLUMNS, training="full", image_size=32, num_epochs=2)
    assert model.settings == {
        "image_size": 32,
        "num_epochs": 2,
        "metric": "accuracy",
        "feature_columns": ["content"],
        "label_columns": ["label"],
    }
    assert not model.settings.keys() & set(MODEL_SETTINGS)


@pytest.mark.skipif(not TOKENIZERS, reason='needs the extra "text"')
def test_an_encoder_is_that_of_its_folder() -> None:
    folder = tiny_bert()
    model = builtin_model("bert_base", **COLUMNS, weights=str(folder), max_length=10)
    assert model.settings["feature_columns"] == ["input_ids", "attention_mask"]
    top = model.trainer_fn({"lr": 0.1, "trainable_blocks": 1}).model
    assert {name.rpartition("layer.")[2].split(".")[0] for name in trainable(top) if "encoder" in name} == {"2"}
    with pytest.raises(InvalidArgumentError, match="must be a folder with a DistilBERT"):
        builtin_model("distilbert", **COLUMNS, weights=str(folder))


@pytest.mark.skipif(not TOKENIZERS, reason='needs the extra "text"')
def test_distilbert_is_read_from_a_folder_of_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32, "vocab_size": 40, "max_position_embeddings": 24}
    torch.manual_seed(0)
    reference = transformers.DistilBertModel(transformers.DistilBertConfig(**sizes)).eval()
    reference.save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((tiny_bert() / "tokenizer.json").read_bytes())
    model = builtin_model("distilbert", **COLUMNS, weights=str(tmp_path), max_length=6)
    net = model.trainer_fn({"lr": 0.1, "trainable_blocks": 0}).model
    ids, mask = torch.tensor([[2, 5, 9, 0]]), torch.tensor([[1, 1, 1, 0]])
    with torch.no_grad():
        tokens = reference(ids, mask).last_hidden_state
        torch.testing.assert_close(net(ids, mask), net.head(tokens, attention_mask=mask))


def test_unknown_hyperparameters_are_refused() -> None:
    model = replace(shipped_models()["resnet50"])
    model.check_parameters("full", {"lr": 1})
    with pytest.raises(InvalidArgumentError, match=r"got 'trainable_blocks'"):
        model.check_parameters("full", {"trainable_blocks": 1})
