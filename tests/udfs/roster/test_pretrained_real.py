"""Real weights and photographs in folders of ``transformers``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from real_inputs import foolbox_images, minilm, mobilenet_v2_weights

torch = pytest.importorskip("torch", reason='pip install "cerebro-spark[torch]"')
transformers = pytest.importorskip("transformers", reason='pip install "cerebro-spark[pretrained]"')

from udfs.images import decode
from vista_spark import roster
from vista_spark.network import network

if TYPE_CHECKING:
    from pathlib import Path


def write_mobilenet(folder: Path) -> None:
    """Write torchvision's MobileNetV2 with its ImageNet weights as ``transformers`` does."""
    transformers.logging.disable_progress_bar()
    config = transformers.MobileNetV2Config(tf_padding=False, layer_norm_eps=1e-5, hidden_act="relu6", num_labels=1000)
    model = transformers.MobileNetV2ForImageClassification(config)
    theirs = torch.load(mobilenet_v2_weights(), weights_only=True)
    # Both name their layers in the order in which they run.
    model.load_state_dict(dict(zip(model.state_dict(), theirs.values(), strict=True)))
    model.save_pretrained(folder)
    imagenet = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
    transformers.MobileNetV2ImageProcessorPil(**imagenet).save_pretrained(folder)


def test_a_real_mobilenet_knows_the_photographs(tmp_path: Path) -> None:
    write_mobilenet(tmp_path)
    card = roster.from_pretrained(tmp_path)
    own = roster.card("mobilenet_v2")
    assert card.parameters == own.parameters
    pixels = np.stack([decode(path.read_bytes(), card.preprocessing) for path, _ in foolbox_images()])
    batch, labels = torch.from_numpy(pixels), torch.tensor([label for _, label in foolbox_images()])
    logits = roster.load(card, card.weights)(batch)
    assert int((logits.argmax(1) == labels).sum()) >= 17
    # The same network as the roster's, layer by layer under the same names.
    expected = roster.load(own, mobilenet_v2_weights())(batch)
    np.testing.assert_allclose(logits.numpy(), expected.numpy(), atol=1e-3)
    names = [layer.name for layer in own.layers]
    assert [layer.name for layer in card.layers] == names[1:]
    found, roster_own = network(card, None, 0), network(own, str(mobilenet_v2_weights()), 0)
    for name in ("block3", "block17", "conv18", "pool"):
        ours, known = (
            net.traced.run({net.graph.inputs[0]: pixels[:2]}, [layer])[layer]
            for net in (found, roster_own)
            for layer in [net.layer(net.layers(name)[0])]
        )
        np.testing.assert_allclose(ours.ravel(), known.ravel(), atol=1e-4 * np.abs(known).max())


def test_a_real_text_encoder_has_the_card_that_text_encoder_registers() -> None:
    card = roster.from_pretrained(minilm(), name="sentences")
    registered = roster.text_encoder(str(minilm()), "sentences")
    roster.unregister("sentences")
    assert card == registered
    assert card.builder == roster.card("minilm_l6").builder
