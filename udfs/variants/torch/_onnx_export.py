"""Conversion of a network to ONNX Runtime, in floats or in integers of 8 bits."""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from optimizer.errors import InvalidArgumentError
from udfs.variants.torch._onnx_layer import OnnxLayer

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["to_onnx"]

_OPSET = 17
_BATCH = 8


def to_onnx(module: nn.Module, images: NDArray[np.float32], bits: int) -> nn.Sequential:
    """Convert a network to one that ONNX Runtime executes.

    Integers of 8 bits are computed as such: weights get a scale per output channel, and activations one per layer, from
    their range on calibration images (static quantisation). Results differ between processors.

    Parameters
    ----------
    module : torch.nn.Module
        Trained network, which is not changed.
    images : array of float32, shape (rows, channels, height, width)
        Preprocessed images for the calibration.
    bits : {32, 8}
        Bits of weights and activations.

    Returns
    -------
    torch.nn.Sequential
        Network of one layer, an :class:`OnnxLayer`.

    Raises
    ------
    InvalidArgumentError
        ONNX has no equal of one of the layers.
    """
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch advises another exporter, which needs another package
        exported = Path(folder) / "float.onnx"
        network = module.eval()
        try:
            torch.onnx.export(
                network, (torch.from_numpy(images[:2]),), str(exported), dynamo=False, opset_version=_OPSET,
                input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "rows"}, "y": {0: "rows"}},
            )  # fmt: skip
        except Exception as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise InvalidArgumentError(
                f"module must have layers that ONNX has, got {type(module).__name__}: {reason}"
            ) from error
        data = exported.read_bytes() if bits == 32 else _quantized(exported, images)
    with torch.inference_mode():
        outputs = network(torch.from_numpy(images[:1])).flatten(1).shape[1]
    layer = OnnxLayer(torch.frombuffer(bytearray(data), dtype=torch.uint8), outputs)
    return nn.Sequential(layer).eval()


def _quantized(exported: Path, images: NDArray[np.float32]) -> bytes:
    paths = sys.path.copy()
    try:
        return _statically_quantized(exported, images)
    finally:
        sys.path[:] = paths  # onnxruntime.transformers adds a folder with a module `optimizer`, which hides our package


def _statically_quantized(exported: Path, images: NDArray[np.float32]) -> bytes:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):  # type: ignore[misc]  # untyped
        def __init__(self) -> None:
            self._batches: Iterator[dict[str, Any]] = (
                {"x": images[start : start + _BATCH]} for start in range(0, len(images), _BATCH)
            )

        def get_next(self) -> dict[str, Any] | None:
            return next(self._batches, None)

    prepared, target = exported.with_name("prepared.onnx"), exported.with_name("int8.onnx")
    quant_pre_process(str(exported), str(prepared))
    quantize_static(
        str(prepared), str(target), Reader(), quant_format=QuantFormat.QDQ, per_channel=True,
        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
    )  # fmt: skip
    return target.read_bytes()
