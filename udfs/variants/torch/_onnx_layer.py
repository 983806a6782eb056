"""A network that ONNX Runtime executes, as one layer of a torch network."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["OnnxLayer"]

# Open sessions of this process, each with its weights in memory; a cascade or a device uses a few.
_MOST_SESSIONS = 16
_sessions: OrderedDict[str, Any] = OrderedDict()


class OnnxLayer(nn.Module):
    """A whole network as bytes of ONNX in a buffer.

    Parameters
    ----------
    model : torch.Tensor
        Bytes of the ONNX file, of shape (size,) and type uint8. Input ``x`` and output ``y`` have the batch in front.
    outputs : int
        Number of class outputs.
    """

    def __init__(self, model: Tensor, outputs: int) -> None:
        super().__init__()
        self.outputs = outputs
        self.register_buffer("model", model)

    def forward(self, x: Tensor) -> Tensor:
        """Map a batch of images to class outputs of shape (batch, outputs)."""
        result: Tensor = torch.ops.cerebro_spark.run_onnx(x, self.model, self.outputs)
        return result


def _run(x: torch.Tensor, model: torch.Tensor, outputs: int) -> torch.Tensor:
    (answer,) = _session(model).run(None, {"x": x.contiguous().numpy()})
    return torch.from_numpy(answer).reshape(len(x), outputs)


def _shape(x: torch.Tensor, _: torch.Tensor, outputs: int) -> torch.Tensor:
    return x.new_empty(x.shape[0], outputs)


# Operators of `torch.library.custom_op` import torch._dynamo with their first call: a second and 70 MB.
_LIBRARY: Any = torch.library.Library("cerebro_spark", "FRAGMENT")  # type: ignore[no-untyped-call]
_LIBRARY.define("run_onnx(Tensor x, Tensor model, int outputs) -> Tensor")
_LIBRARY.impl("run_onnx", _run, "CPU")
_LIBRARY.impl("run_onnx", _shape, "Meta")


def _session(model: Tensor) -> Any:
    import onnxruntime  # half a second

    content = memoryview(model.numpy().data)
    # The address alone is not enough: another network may get the memory of one that is gone.
    key = f"{model.data_ptr()} {hashlib.blake2b(content[-4096:], digest_size=16).hexdigest()} {len(content)}"
    if key not in _sessions:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        _sessions[key] = onnxruntime.InferenceSession(bytes(content), options, providers=["CPUExecutionProvider"])
        while len(_sessions) > _MOST_SESSIONS:
            _sessions.popitem(last=False)
    return _sessions[key]
