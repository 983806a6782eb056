from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from texts import TOKENIZERS, tiny_bert

from vista_spark import Attributor, text_attributor
from vista_spark.errors import InvalidArgumentError

pytestmark = pytest.mark.skipif(not TOKENIZERS, reason="needs tokenizers and torch")

TEXT, LIKE = "the cat sat on the mats", "a dog ran after the cat"


def opened(**arguments: Any) -> Attributor:
    tiny_bert()
    return text_attributor(**{"text": TEXT, "model": "tiny_bert", **arguments})


def test_a_token_is_replaced_by_padding_that_nothing_attends_to() -> None:
    attributor = opened(like=LIKE)
    attribution = attributor.ablation()
    assert attribution.labels[:9] == ("[CLS]", "the", "cat", "sat", "on", "the", "mat", "##s", "[SEP]")
    assert np.isnan(attribution.values[[0, 8, 9, 10, 11]]).all()
    ids, mask = (array.copy() for array in attributor.inputs.values())
    assert mask.sum() == 9
    mask[2] = 0  # whatever its id is: nothing attends to it
    outputs = attributor.model.run({"input_ids": ids[None], "attention_mask": mask[None]}, [attributor.settled.layer])
    without = attributor.settled(outputs[attributor.settled.layer])[0, 0]
    assert attribution.values[2] == pytest.approx(attributor.whole - without, abs=1e-6)
    assert attribution.baseline == "padding that no token attends to"
    assert "cosine similarity to 'a dog ran after the cat'" in attribution.score


def test_a_text_is_most_like_itself() -> None:
    attributor = opened()
    assert attributor.whole == pytest.approx(1.0, abs=1e-6)
    attribution = attributor.ablation()
    assert np.nanmin(attribution.values) > 0
    assert "most: " in attribution.explain()
    assert attribution.plot().axes


def test_a_words_tokens_are_replaced_together() -> None:
    attribution = opened(unit="word").ablation()
    assert attribution.values[6] == attribution.values[7]  # mat, ##s
    assert attribution.evaluations == 1 + 6


def test_lime_and_curves_replace_tokens_as_ablation_does() -> None:
    attributor = opened(like=LIKE)
    surrogate = attributor.lime(samples=60, ridge=0.0)
    assert np.isfinite(surrogate.values[1:8]).all()
    assert np.isnan(surrogate.values[0])
    curve = attributor.deletion(attributor.ablation())
    assert len(curve.scores) == 8
    empty = {
        name: np.where((np.arange(12) < 1) | (np.arange(12) > 7), array, 0)[None]
        for name, array in attributor.inputs.items()
    }
    outputs = attributor.model.run(empty, [attributor.settled.layer])[attributor.settled.layer]
    assert curve.scores[-1] == pytest.approx(attributor.settled(outputs)[0, 0], abs=1e-5)


def test_a_folder_has_the_weights_and_the_tokenizer() -> None:
    by_folder = opened(weights=tiny_bert(), like=LIKE, pooling="cls")
    assert by_folder.whole == opened(like=LIKE, pooling="cls").whole != opened(like=LIKE).whole


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"unit": "letter"}, "unit must be .* got 'letter'"),
        ({"pooling": "max"}, "pooling must be .* got 'max'"),
        ({"replacement": "mask"}, "replacement must be .* got 'mask'"),  # this tokenizer has no mask token
        ({"text": ""}, "text must have a token"),
        ({"model": "squeezenet1_1"}, "reads images"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        opened(**arguments)


def test_methods_of_halves_are_refused() -> None:
    for method in ("rise", "integrated_gradients"):
        with pytest.raises(InvalidArgumentError, match="use ablation or lime"):
            getattr(opened(), method)()
