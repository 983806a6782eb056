"""PyTorch as a framework of the registry: everything that the project asks of torch."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from udfs.handlers._framework import Framework
from udfs.handlers._protocol import UntraceableModelError
from udfs.handlers.torch import _export, _exported_program, _last_features, _networks, _program, _settings
from udfs.handlers.torch import _pickling as _travel
from udfs.handlers.torch._fx import capture, unwrapped
from udfs.handlers.torch._hidden_modules import has_meta_tensor
from udfs.handlers.torch._model import TorchModel
from udfs.node import DeviceError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from udfs.handlers._adapted_trainer import Adapted
    from udfs.handlers._framework import Builder, Exported, Reloadable
    from udfs.tensors import TensorSpec
    from udfs.training import Session, Trainer

__all__ = ["FRAMEWORK", "TorchFramework"]


class TorchFramework(Framework):
    """Torch's side of :class:`udfs.handlers.Framework`."""

    name = "torch"
    suffix = ".pt2"
    incremental = True
    sample_weights = True
    freezing_schedules = True
    disk_offload = True

    def recognises(self, model: object) -> bool:
        """Return whether it is a ``torch.nn.Module`` or an ``ExportedProgram``."""
        return isinstance(model, nn.Module | torch.export.ExportedProgram)

    def trace(self, model: object, inputs: Sequence[TensorSpec], *, device: str = "cpu") -> TorchModel:
        """Open ``model`` (in eval mode) into a graph; parameters are shared, not copied.

        Raise UntraceableModelError if it is not a module, is in training mode, or cannot be traced, and DeviceError if
        this process has no such device.
        """
        if _exported_program.is_exported(model):
            model = _exported_program.opened(model, inputs)
        if not isinstance(model, nn.Module):
            raise UntraceableModelError(f"expected a torch.nn.Module, got {type(model).__name__}")
        return TorchModel(capture(model, inputs), inputs, self.device(device), original=unwrapped(model))

    def device(self, wanted: str) -> str:
        """Resolve torch's name of a device; ``"auto"`` is the current GPU where there is one."""
        if wanted == "auto":
            return "cuda" if torch.cuda.is_available() else "cpu"
        try:
            device = torch.device(wanted)
        except RuntimeError as error:
            raise DeviceError(
                f"device must be a torch device such as 'auto', 'cpu' or 'cuda:0', got {wanted!r}"
            ) from error
        if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
            raise DeviceError(
                f"device must be one of this process ({torch.cuda.device_count()} GPUs seen), got "
                f"{wanted!r}: use 'cpu' or 'auto'"
            )
        return wanted

    def device_of(self, model: Any) -> str | None:
        """Name the device of a module's first parameter, unless it is the CPU."""
        first = next(iter(model.parameters()), None)
        return None if first is None or first.device.type == "cpu" else str(first.device)

    def seed(self, seed: int) -> None:
        """Seed torch on all devices."""
        torch.manual_seed(seed)

    def take_random(self) -> Any:
        """Copy the states of torch's generators: of the CPU, and of the current GPU once this process uses one."""
        state = torch.get_rng_state().numpy()
        return [state, torch.cuda.get_rng_state().numpy()] if torch.cuda.is_initialized() else state  # type: ignore[no-untyped-call]

    def apply_random(self, state: Any) -> None:
        """Set torch's generators; a GPU's follows from the CPU's where the state comes from a process without one."""
        cpu, *gpu = state if isinstance(state, (list, tuple)) else [state]
        torch.set_rng_state(torch.from_numpy(cpu.copy()))
        if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            return
        if gpu:
            torch.cuda.set_rng_state(torch.from_numpy(gpu[0].copy()))
        else:
            torch.cuda.manual_seed(int.from_bytes(hashlib.blake2b(cpu.tobytes(), digest_size=7).digest()))

    def take_settings(self) -> dict[str, Any]:
        """Read torch's default dtype and device, threads, and flags of determinism, gradients and precision."""
        return _settings.take_settings()

    def apply_settings(self, settings: Mapping[str, Any]) -> None:
        """Set some of torch's settings."""
        _settings.apply_settings(settings)

    def threads(self) -> int:
        """Count the threads that an operation of torch uses now."""
        return torch.get_num_threads()

    def accelerator_bytes(self) -> int:
        """Measure the most memory that torch has reserved on the current GPU."""
        return int(torch.cuda.max_memory_reserved()) if torch.cuda.is_initialized() else 0  # type: ignore[no-untyped-call]

    def open_training(self, trainer: Trainer, device: str) -> Session:
        """Open a session of torch; the model is moved to the device in place."""
        if trainer.offload is not None:
            from udfs.handlers.torch._offloaded_session import OffloadedSession  # few models are larger than memory

            return OffloadedSession(trainer, device)
        from udfs.handlers.torch._session import TorchSession  # inference needs nothing of training

        return TorchSession(trainer, device)

    def build_variables(self, model: nn.Module, inputs: Sequence[TensorSpec]) -> None:
        """Call a module once on zeros if it has lazy parameters."""
        from udfs.handlers.torch._modes import build_lazy_parameters  # inference needs nothing of training

        build_lazy_parameters(model, inputs)

    def refusal_of_one_row(self, model: nn.Module, inputs: Sequence[TensorSpec]) -> str:
        """Return the error of batch normalisation if a module meets it on one row; empty without one."""
        from udfs.handlers.torch._modes import refusal_of_one_row  # inference needs nothing of training

        return refusal_of_one_row(model, inputs)

    def check_mini_batches(self, optimizer: Any) -> None:
        """Refuse L-BFGS without a line search."""
        from udfs.handlers.torch._steppers import check_mini_batches  # inference needs nothing of training

        check_mini_batches(optimizer)

    def open_adapted(
        self, trainer: Trainer, inputs: Sequence[TensorSpec], columns: Sequence[str], device: str
    ) -> Adapted:
        """Open a trainer of torch where its frozen layers end; its model is moved to the device in place."""
        from udfs.handlers.torch._adapted_trainer import open_adapted  # inference needs nothing of training

        return open_adapted(trainer, inputs, columns, device)

    @contextmanager
    def frozen(self, model: nn.Module) -> Iterator[None]:
        """Keep a module in evaluation mode, with parameters that require no gradient, for a block."""
        learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
        training = model.training
        for parameter in learning:
            parameter.requires_grad_(False)
        model.eval()
        try:
            yield
        finally:
            for parameter in learning:
                parameter.requires_grad_(True)
            model.train(training)

    def export(self, model: Any, inputs: Sequence[NDArray[Any]]) -> bytes:
        """Write a ``.pt2`` archive of ``torch.export``; its forward pass has no control flow over data."""
        return _export.export(model, inputs)

    def open_export(self, data: bytes) -> Exported:
        """Open a ``.pt2`` archive."""
        return _export.open_export(data)

    def open_reloadable(self, data: bytes) -> Reloadable:
        """Open a ``.pt2`` archive whose weights can be replaced."""
        return _export.open_reloadable(data)

    def open_features(self, data: bytes) -> Exported:
        """Open a ``.pt2`` archive up to its last layer with parameters."""
        return _last_features.open_features(data)

    def is_exported(self, model: Any) -> bool:
        """Return whether a model is a program of ``torch.export``."""
        return _exported_program.is_exported(model)

    def image_shape(self, model: Any) -> tuple[int, ...] | None:
        """Return the shape of the image that an exported program reads."""
        return _exported_program.image_shape(model) if _exported_program.is_exported(model) else None

    def fingerprint(self, model: nn.Module) -> str:
        """Hash code, structure and the values of all tensors."""
        return _travel.fingerprint(model)

    def pack(self, model: nn.Module, inputs: Sequence[TensorSpec], path: Path) -> bytes:  # a module knows them
        """Write all tensors of a module, those outside of its state dict included."""
        return _travel.pack(model, path)

    def unpack(self, code: bytes, path: Path) -> nn.Module:
        """Open a module on tensors that are pages of a file."""
        return _travel.unpack(code, path)

    def write_network(self, model: nn.Module, inputs: Sequence[TensorSpec], path: Path) -> None:
        """Write a ``.pt2`` archive of ``torch.export`` that knows which tensor each module returned."""
        _program.write_network(model, inputs, path)

    def open_network(self, path: Path) -> nn.Module:
        """Open a ``.pt2`` archive as a module."""
        return _program.open_network(path)

    def parameters(self, network: nn.Module) -> int:
        """Count the scalars of parameters, without buffers."""
        return sum(parameter.numel() for parameter in network.parameters())

    def build(self, builder: Builder, inputs: Sequence[TensorSpec], seed: int) -> nn.Module:
        """Build in evaluation mode with torch's generator at a seed, and put the generator back.

        The modules are copies, which share the memory of the weights: a builder may return its author's own network.
        """
        return _networks.build(builder, inputs, seed)

    def skeleton(self, builder: Builder, inputs: Sequence[TensorSpec]) -> nn.Module:
        """Build in evaluation mode on the meta device: all of the structure, none of the memory.

        A builder that does not run there, as one that calls ``from_pretrained``, builds with memory.
        """
        return _networks.skeleton(builder, inputs)

    def load(
        self,
        builder: Builder,
        inputs: Sequence[TensorSpec],
        weights: str | os.PathLike[str] | Mapping[str, torch.Tensor],
        seed: int,
        name: str,
    ) -> nn.Module:
        """Load a state dict into the skeleton."""
        return _networks.load(builder, inputs, weights, seed, name)

    def share(self, key: str, build: Callable[[], Any], skeleton: Callable[[], Any]) -> nn.Module:
        """Map the weights from a file of the node's cache folder; not where tensors are no parameters or buffers."""
        from udfs.weights.shared import open_shared  # only workers share

        network = open_shared(key, build, skeleton)
        return build() if has_meta_tensor(network) else network

    def paths(self, network: nn.Module, inputs: Sequence[TensorSpec]) -> list[str]:
        """Name modules by their paths, in the order in which they return a tensor.

        Raise UntraceableModelError if the network does not run on such inputs, or cannot be opened.
        """
        try:
            return _networks.run_order(network, inputs)
        except Exception:  # noqa: BLE001 - the user's own forward; a trace says in words what is wrong
            graph = self.trace(network, inputs).graph
        return [path for path, _ in network.named_modules() if path and path in graph]


FRAMEWORK: Framework = TorchFramework()
