"""Shipping of weights and packages to the workers' nodes."""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
import zipfile
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pyspark.sql import is_remote

from optimizer import __version__
from udfs.driver import is_local
from udfs.weights import SHIPPED, WeightsError
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

__all__ = ["ship_packages", "ship_weights", "write_packages"]

_PACKAGES = ("cerebro_spark", "optimizer", "udfs", "vista_spark")

_sent: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()


def ship_weights(spark: SparkSession, weights: str | None) -> str | None:
    """Ship a weights file to the nodes of the workers, once per session and content.

    A path of this machine is shipped unless the session is local. A URI stays as it is, ``file://`` included: the user
    says by it that every node has the file. Return the argument of :func:`udfs.weights.read_state_dict` on a worker. An
    executor fetches a shipped file with its first task and keeps it in a folder of its own, so there are as many copies
    on a node as it has executors; the Python workers of an executor share one.

    Raises
    ------
    udfs.weights.WeightsError
        The file cannot be read.
    """
    if weights is None or "://" in weights or _shares_this_disk(spark):
        return weights
    path = Path(weights).expanduser()
    try:
        status = path.stat()
        staged = _staged_weights(path.resolve(), status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise WeightsError(f"{weights} cannot be shipped to the workers: {error}") from error
    _send(spark, staged, pyfile=False)
    return SHIPPED + staged.name


def ship_packages(spark: SparkSession) -> None:
    """Ship these packages to the workers of the session, which then need only third-party packages."""
    _send(spark, _staged_packages(), pyfile=True)


def write_packages(folder: Path) -> Path:
    """Write the four packages as one ``.zip`` that Python imports from, as ``spark-submit --py-files`` takes it.

    The same sources give the same bytes. Make the folder if it is not there. Raise InvalidArgumentError if it cannot be
    written to.
    """
    archive = folder / f"cerebro_spark-{__version__}.zip"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Under its own name only once it is complete: another process may be reading the one before.
        with tempfile.TemporaryDirectory(dir=folder, prefix=".") as scratch:
            partial = Path(scratch) / archive.name
            with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as target:
                for name, content in _sources():
                    entry = zipfile.ZipInfo(name)  # of 1980: a time of writing would change the bytes
                    entry.compress_type = zipfile.ZIP_DEFLATED
                    entry.external_attr = 0o644 << 16
                    target.writestr(entry, content)
            partial.replace(archive)
    except OSError as error:
        raise InvalidArgumentError(f"{archive} cannot be written: {error}; name another folder") from error
    return archive


def _sources() -> Iterator[tuple[str, bytes]]:
    """Yield the names within the archive and contents, sorted, wherever this code was itself imported from."""
    root = Path(__file__).parents[2]
    if root.is_file():  # a submitted archive
        with zipfile.ZipFile(root) as archive:
            yield from (
                (name, archive.read(name)) for name in sorted(archive.namelist()) if name.split("/")[0] in _PACKAGES
            )
        return
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*")):
            # Spark loads the plugin's jar from a file, not from an archive.
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".jar":
                yield path.relative_to(root).as_posix(), path.read_bytes()


def _shares_this_disk(spark: SparkSession) -> bool:
    """Return whether the workers certainly run on this machine; for a Connect server this is unknown."""
    return not is_remote() and is_local(spark)


def _send(spark: SparkSession, file: Path, *, pyfile: bool) -> None:
    sent = _sent.setdefault(spark, set())
    if file.name not in sent:
        spark.addArtifacts(str(file), pyfile=pyfile, file=not pyfile)
        sent.add(file.name)


@cache
def _staging() -> Path:
    """A folder for as long as this process lives: classic Spark's driver serves its files from where they lie."""
    folder = Path(tempfile.mkdtemp(prefix="cerebro-shipped-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


# A copy: the user may overwrite, move or delete the original while executors are still to come and fetch it. Sessions
# tell shipped files apart by their names, so the name is the content's.
@lru_cache(maxsize=32)
def _staged_weights(path: Path, _size: int, _mtime_ns: int) -> Path:
    digest = hashlib.sha256()
    with path.open("rb") as source, tempfile.NamedTemporaryFile(dir=_staging(), delete=False) as target:
        while chunk := source.read(1 << 20):
            digest.update(chunk)
            target.write(chunk)
    return Path(target.name).replace(_staging() / f"cerebro-weights-{digest.hexdigest()[:32]}")


@cache
def _staged_packages() -> Path:
    archive = write_packages(_staging())
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()[:16]
    return archive.replace(archive.with_name(f"{archive.stem}-{digest}.zip"))
