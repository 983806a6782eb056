"""Networks by a hub's name: downloaded once, and in words where that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch", reason='pip install "cerebro-spark[torch]"')
pytest.importorskip("transformers", reason='pip install "cerebro-spark[pretrained]"')

from hubs import hub
from huggingface_hub import constants
from pretrained import IMAGES, saved

from udfs.images import Preprocessing
from vista_spark import roster
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = Preprocessing(crop=32)
CLOSED_PORT = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    serve_at(monkeypatch, CLOSED_PORT)


def serve_at(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")


def test_a_name_is_downloaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "written"
    saved(IMAGES["vit"], folder)
    (folder / "training_args.bin").write_bytes(b"not of the network")
    with hub({"us/vit-tiny": folder}) as (address, sent):
        serve_at(monkeypatch, address)
        card = roster.from_pretrained("us/vit-tiny")
        assert sorted(sent) == ["config.json", "model.safetensors", "preprocessor_config.json"]
        assert (card.name, card.kind) == ("vit_tiny", "image")
        roster.load(card, card.weights)
        with pytest.raises(InvalidArgumentError, match="neither a folder here nor a network of the hub"):
            roster.from_pretrained("us/vit-tinny")
        with pytest.raises(InvalidArgumentError, match="the hub has 'us/vit-tiny', but no revision 'v2' of it"):
            roster.from_pretrained("us/vit-tiny", revision="v2")
    serve_at(monkeypatch, CLOSED_PORT)
    # What was downloaded serves without network.
    assert roster.from_pretrained("us/vit-tiny", preprocessing=PLAIN).weights == card.weights
    assert len(sent) == 3


def test_weights_in_torchs_format_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch  # an optional extra

    folder = tmp_path / "written"
    model = saved(IMAGES["vit"], folder)
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    with hub({"us/old": folder}) as (address, _):
        serve_at(monkeypatch, address)
        weights = roster.from_pretrained("us/old", preprocessing=PLAIN).weights
    assert weights is not None
    assert weights.endswith("pytorch_model.bin")


@pytest.mark.parametrize("name", ["us/vit-tiny", "vit-tiny"])
def test_without_network_one_sentence(name: str) -> None:
    with pytest.raises(
        InvalidArgumentError, match=rf"'{name}' is not a folder here, and the hub cannot be reached \(ConnectError\)"
    ) as raised:
        roster.from_pretrained(name)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("folder", ["/no/such/folder", "./no_such_folder", "no/such/folder", "folder/"])
def test_a_folder_that_is_not_there_is_not_asked_for_at_the_hub(folder: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is not a folder here, and not a hub's name such as"):
        roster.from_pretrained(folder)
