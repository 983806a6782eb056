"""The command line of the occlusion figures."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.weights import found_weights
from udfs.occlusion import PRECISIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["FIGURES", "Options", "parse"]

# Default networks of each figure. The default figure, 6.10, has two, so that it ends within five minutes.
FIGURES: Mapping[str, str] = {
    "6.3": "alexnet,vgg16,resnet18,resnet50,inception_v3,mobilenet_v2,squeezenet1_1",
    "6.7": "vgg16,resnet18,inception_v3,mobilenet_v2",
    "6.9": "mobilenet_v2",
    "6.10": "resnet18,mobilenet_v2",
    "6.11": "vgg16,resnet18,inception_v3",
    "6.12": "vgg16,resnet18,inception_v3",
    "6.13": "vgg16,resnet18,inception_v3",
    "b.1": "vgg16,resnet18",
    "b.8": "mobilenet_v2",
    "norms": "resnet18,resnet18_gn,se_resnet18",
}

# Of the small run, and of the full one: what the paper has, with as many naive places as a median needs.
_STRIDE = (16, 4)
_IMAGES = (6, 30)
_SAMPLE = (32, 64)


@dataclass(frozen=True)
class Options:
    """Options of the command line.

    Attributes
    ----------
    figure : str
    models : tuple of str
    patch, stride : int
    images : int
        Photographs of Figures 6.7 and 6.9 (there as many again are held out).
    sample : int
        Places that the naive way computes each time.
    naive_batch : int or None
        Places at a time of the naive way; ``None`` tries several.
    patches : tuple of int
        Of Figure 6.11.
    batch_size, threads, repeats : int
    weights : mapping of str to str
        Files by network; another has its own (MobileNetV2) or random ones.
    random : bool
        Random weights for every network.
    target_ssim : float
        Of the default of the approximate way, in Figure 6.10.
    tau, fraction, target : float
        Of the other approximate way of Figure 6.10.
    precision : str
        Of that one.
    full : bool
    picture : Path or None
    json : bool
    memory_of : str or None
        The way whose memory this process measures.
    """

    figure: str
    models: tuple[str, ...]
    patch: int
    stride: int
    images: int
    sample: int
    naive_batch: int | None
    patches: tuple[int, ...]
    batch_size: int
    threads: int
    repeats: int
    weights: Mapping[str, str]
    random: bool
    target_ssim: float
    tau: float
    fraction: float
    target: float
    precision: str
    full: bool
    picture: Path | None
    json: bool
    memory_of: str | None

    def weights_of(self, model: str) -> str | None:
        """The file of a network's weights; ``None`` for random ones."""
        return found_weights("random" if self.random else self.weights.get(model, "auto"), model)


def parse(description: str | None, arguments: Sequence[str] | None) -> Options:
    """Read the command line; a wrong value ends the process with a message."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", default="6.10", help=f"one of {', '.join(FIGURES)}")
    parser.add_argument("--full", action="store_true", help="at the paper's stride and numbers of photographs")
    parser.add_argument("--models", help="names of the roster or folders of transformers, with commas")
    parser.add_argument("--patch", type=int, default=16)
    parser.add_argument("--stride", type=int, help=f"{_STRIDE[0]} by default, {_STRIDE[1]} with --full")
    parser.add_argument("--images", type=int, help=f"photographs of 6.7 and 6.9: {_IMAGES[0]}, {_IMAGES[1]} in full")
    parser.add_argument("--sample", type=int, help=f"places of the naive way: {_SAMPLE[0]}, {_SAMPLE[1]} in full")
    parser.add_argument("--naive-batch", type=int, help="its places at a time, channels last; the fastest by default")
    parser.add_argument("--patches", default="4,8,16,32", help="of Figure 6.11, with commas")
    parser.add_argument("--batch-size", type=int, default=32, help="places at a time, at most")
    parser.add_argument("--threads", type=int, default=2, help="with 1 the process's own CPU time counts")
    parser.add_argument("--repeats", type=int, default=1, help="turns; medians count")
    parser.add_argument("--weights", default="auto", help='"random", "auto", or NAME=FILE, with commas')
    parser.add_argument("--target-ssim", type=float, default=0.9, help="of the default approximate way of 6.10")
    parser.add_argument("--tau", type=float, default=1.0, help="of the other approximate way of 6.10")
    parser.add_argument("--fraction", type=float, default=0.25, help="of the heat map, in its second stage")
    parser.add_argument("--target", type=float, default=2.0, help="its speed-up by drill-down; 1 is without")
    parser.add_argument("--precision", choices=PRECISIONS, default="bfloat16", help="its precision")
    parser.add_argument("--picture", type=Path, help="where to save the figure")
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    given = vars(parser.parse_args(arguments))
    figure = given["figure"] = given["figure"].lower()
    if figure not in FIGURES:
        parser.error(f"--figure {figure}: one of {', '.join(FIGURES)}")
    for name, (small, full) in (("stride", _STRIDE), ("images", _IMAGES), ("sample", _SAMPLE)):
        if given[name] is None:
            given[name] = full if given["full"] else small
    for name in ("patch", "stride", "images", "sample", "batch_size", "threads", "repeats"):
        if given[name] < 1:
            parser.error(f"--{name.replace('_', '-')} {given[name]}: at least 1")
    weights = given["weights"]
    files = {} if weights in {"auto", "random"} else dict(part.partition("=")[::2] for part in weights.split(","))
    if not all(files.values()):
        parser.error(f'--weights {weights}: "random", "auto", or NAME=FILE, with commas')
    if not 0 < given["target_ssim"] < 1:
        parser.error(f"--target-ssim {given['target_ssim']:g}: above 0, below 1")
    if (given["naive_batch"] or 1) < 1:
        parser.error(f"--naive-batch {given['naive_batch']}: at least 1")
    patches = tuple(int(patch) for patch in given["patches"].split(",") if patch.isdecimal())
    if min(patches, default=0) < 1:
        parser.error(f"--patches {given['patches']}: whole numbers from 1 on, with commas")
    models = tuple((given["models"] or FIGURES[figure]).split(","))
    return Options(**{**given, "models": models, "patches": patches, "weights": files, "random": weights == "random"})
