"""Task that builds variants: transforms, fine-tunes, evaluates and saves them."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import logging
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from optimizer.variants import FULL
from udfs.variants._labelled_images import LabelledImages, read_images
from udfs.variants._structure import Structure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import nn

    from optimizer.variants import Recipe, Step, Tuning
    from udfs.images import Preprocessing
    from udfs.store import Store

__all__ = ["BUILT", "TRAIN", "VALID", "WEIGHTS", "BuildTask"]

_LOG = logging.getLogger(__name__)

BUILT = pa.schema([pa.field("built", pa.string())])
"""Schema of what a task returns: a JSON document per variant."""

WEIGHTS, TRAIN, VALID = "weights", "train", "valid"
"""Folders of the catalog: the weights of its variants, and while it is built, its images."""

_TEACHER, _FULL_WEIGHTS = "teacher.npy", "full.pt"

# Images that show the range and the directions of activations, which settle after some.
_CALIBRATION_ROWS = 128


@dataclass(frozen=True, slots=True)
class BuildTask:
    """Builder of variants. Call it with ``mapInArrow`` on the numbers of work items.

    The original network is an item of its own: the others start from its weights, and learn from its scores.

    Parameters
    ----------
    base : callable
        Builder of the network with its pre-trained weights.
    preprocessing : Preprocessing
        Conversion of images for the original network.
    classes : int
        Number of classes.
    items : tuple of tuple of Recipe
        For each item a trained recipe, and the variants that have its weights in fewer bits.
    store : Store
        Folder of the catalog.
    tuning : Tuning
        Settings of the training.
    as_program : bool
        Whether networks are saved as exported programs; else as weights for the base network and a structure.
    """

    base: Callable[[], Any]
    preprocessing: Preprocessing
    classes: int
    items: tuple[tuple[Recipe, ...], ...]
    store: Store
    tuning: Tuning
    as_program: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Build the variants of each item."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                documents = [json.dumps(document) for document in self._build(self.items[number])]
                yield pa.record_batch([pa.array(documents, pa.string())], schema=BUILT)

    def _build(self, recipes: tuple[Recipe, ...]) -> Iterator[dict[str, Any]]:
        trained = recipes[0].trained
        preprocessing = self._resized(trained)
        try:
            images = read_images(self.store, TRAIN, preprocessing)
            network, structure = self._trained(trained, images)
        except Exception as error:  # noqa: BLE001 - a network's code may raise anything; other variants go on
            _LOG.warning("the variant %s cannot be built", trained.name, exc_info=True)
            for recipe in recipes:
                yield {"name": recipe.name, "error": f"{type(error).__name__}: {error}"}
            return
        sample, skipped = _first(images, _CALIBRATION_ROWS), images.skipped
        del images  # the training is over, and the decoded images are large
        valid = read_images(self.store, VALID, preprocessing)
        for recipe in recipes:
            try:
                yield self._saved(recipe, network, structure, sample, valid) | {"skipped": skipped + valid.skipped}
            except Exception as error:  # noqa: BLE001 - exporters raise anything
                _LOG.warning("the variant %s cannot be built", recipe.name, exc_info=True)
                yield {"name": recipe.name, "error": f"{type(error).__name__}: {error}"}

    def _trained(self, recipe: Recipe, images: LabelledImages) -> tuple[nn.Module, Structure]:
        import torch

        from udfs.variants.torch import fine_tune, replace_head, scores, train_head

        base = self.base()
        outputs = scores(base, _first(images, 1)).shape[1]
        structure = Structure()
        if outputs != self.classes:
            base, structure = replace_head(base, self.classes)
        base = _trainable(base)
        if recipe.name == FULL:
            if structure.changes:
                train_head(base, images)
            network = base.eval().requires_grad_(False)
            buffer = io.BytesIO()
            np.save(buffer, scores(network, images))
            self.store.write(buffer.getvalue(), TRAIN, _TEACHER)
            buffer = io.BytesIO()
            torch.save(network.state_dict(), buffer)
            self.store.write(buffer.getvalue(), TRAIN, _FULL_WEIGHTS)
            return network, structure
        weights = torch.load(io.BytesIO(self.store.read(TRAIN, _FULL_WEIGHTS)), weights_only=True)
        base.load_state_dict(weights)
        network = base.eval().requires_grad_(False)
        example = torch.from_numpy(_first(images, _CALIBRATION_ROWS).batch())
        for step in recipe.steps:
            network, changes = _apply(network, step, example)
            structure += changes
        if recipe.steps:
            teacher = np.load(io.BytesIO(self.store.read(TRAIN, _TEACHER)))
            network = _trainable(network)
            fine_tune(network, images, teacher, self.tuning)
        return network, structure

    def _saved(
        self,
        recipe: Recipe,
        network: nn.Module,
        structure: Structure,
        sample: LabelledImages,
        valid: LabelledImages,
    ) -> dict[str, Any]:
        import torch
        from torch.utils.flop_counter import FlopCounterMode

        from udfs.variants.torch import scores, store, to_onnx

        preprocessing = self._resized(recipe)
        document: dict[str, Any] = {"name": recipe.name, "steps": [str(step) for step in recipe.steps]}
        counted = network
        for step in recipe.steps[len(recipe.trained.steps) :]:
            if step.kind == "quantize":
                network, changes = store(network, int(step.value))
                structure += changes
            else:
                network = to_onnx(network, sample.batch(), int(step.value))
                document["onnx"] = {"size": network[0].get_buffer("model").numel(), "outputs": self.classes}
        answers = scores(network, valid).argmax(1) if len(valid) else np.zeros(0)
        with FlopCounterMode(display=False) as flops, torch.inference_mode():
            counted(torch.zeros(1, *preprocessing.shape))  # other runtimes are not counted, but compute the same
        as_program = self.as_program and "onnx" not in document
        data, fingerprint = self._bytes(network, preprocessing, as_program=as_program)
        document["file"] = recipe.name + (".pt2" if as_program else ".safetensors")
        self.store.write(data, WEIGHTS, document["file"])
        return document | {
            "hits": int((answers == valid.labels).sum()),
            "rows": len(valid),
            "gflop": flops.get_total_flops() / 1e9,
            "stored_bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
            "fingerprint": fingerprint,
            "image_size": preprocessing.crop,
            "structure": asdict(structure),
        }

    def _bytes(self, network: nn.Module, preprocessing: Preprocessing, *, as_program: bool) -> tuple[bytes, str]:
        from safetensors.torch import save

        from udfs.handlers import framework
        from udfs.inference import NetworkFile, files_of_this_process

        if not as_program:
            # Tensors of a file do not share memory.
            return save({name: tensor.contiguous().clone() for name, tensor in network.state_dict().items()}), ""
        path = files_of_this_process() / "variant.pt2"
        file = NetworkFile.without_code(network, framework("torch"), preprocessing.inputs, path)
        data = path.read_bytes()
        path.unlink()
        return data, file.digest

    def _resized(self, recipe: Recipe) -> Preprocessing:
        for step in recipe.steps:
            if step.kind == "resize":
                return self.preprocessing.with_size(int(step.value))
        return self.preprocessing


def _apply(network: nn.Module, step: Step, example: Any) -> tuple[nn.Module, Structure]:
    from udfs.variants import torch as transformations

    if step.kind == "resize":
        return network, Structure()
    if step.kind == "factorize":
        return transformations.factorize(network, step.value, example)
    if step.kind == "narrow":
        return transformations.narrow(network, example, step.value)
    if step.kind == "shorten":
        return transformations.shorten(network, example, int(step.value))
    return transformations.coarsen(network, example, int(step.value))


def _trainable(network: nn.Module) -> nn.Module:
    """Return a copy whose weights may be changed: opened weights are pages of a shared file."""
    return copy.deepcopy(network)


def _first(images: LabelledImages, rows: int) -> LabelledImages:
    decoded = None if images.decoded is None else images.decoded[:rows].copy()
    return replace(images, column=images.column[:rows], labels=images.labels[:rows], decoded=decoded)
