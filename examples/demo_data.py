"""Cache folder, fetching, output layout and atomic writing that the data sets of the examples share.

A prepared folder holds ``images/<id>.png`` and ``table.csv``. The table's first three columns are ``id``, ``label`` and
``caption``; every further column is a number and a structured feature.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import fcntl
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

LEADING = ("id", "label", "caption")
"""The columns that are not features, in every table."""


class DataError(RuntimeError):
    """The data cannot be had or the output cannot be written; the message says why and is meant for the user."""


def cache_folder(given: Path | None) -> Path:
    """Say where fetched packages are kept.

    Parameters
    ----------
    given : Path or None
        The folder from the command line, or None.

    Returns
    -------
    Path
        ``given``, else ``$CEREBRO_SPARK_CACHE``, else ``.cache`` under the repository.
    """
    chosen = given or os.environ.get("CEREBRO_SPARK_CACHE") or Path(__file__).resolve().parent.parent / ".cache"
    return Path(chosen).expanduser().resolve()


def run(command: Sequence[str | Path], *, cwd: Path, timeout: float) -> str:
    """Run one command of a fetch.

    Parameters
    ----------
    command : sequence of str or Path
        The program, by its full path, and its arguments.
    cwd : Path
        The folder to run it in.
    timeout : float
        Seconds after which it is killed.

    Returns
    -------
    str
        What it wrote to standard output and standard error.

    Raises
    ------
    DataError
        If it cannot be started, fails or takes too long; the message ends with its last lines.
    """
    name = Path(command[0]).name
    try:
        # LC_ALL: the message quotes the last lines, so they must be in the language of the message
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DataError(f"{name} took longer than {timeout:.0f} s") from error
    except OSError as error:
        raise DataError(f"{name} cannot be started: {error}") from error
    if done.returncode:
        last = " | ".join(done.stdout.strip().splitlines()[-3:])
        raise DataError(f"{name} exited with {done.returncode}: {last}")
    return done.stdout


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    # the kernel drops a flock with its process, so a killed run never locks out the next one
    with path.open("a", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def make_once(target: Path, fill: Callable[[Path], None]) -> Path:
    """Make a folder unless it is there: filled under another name, then renamed, so that it is whole or absent.

    Parameters
    ----------
    target : Path
        The folder to make.
    fill : callable
        Fills the empty folder that it is given; if it raises, ``target`` stays absent.

    Returns
    -------
    Path
        ``target``.

    Raises
    ------
    DataError
        If the folder cannot be written.
    """
    if target.is_dir():
        return target
    part = target.with_name(f".{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.with_name(f".{target.name}.lock")):
            if not target.is_dir():  # else another run made it while this one waited for the lock
                if part.exists():  # left by a killed run: no other run writes it under the lock
                    shutil.rmtree(part)
                part.mkdir()
                try:
                    fill(part)
                    part.rename(target)
                finally:
                    shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        raise DataError(f"cannot make {target}: {error}") from error
    return target


def debian_package(package: str, folder: Path, cache: Path) -> Path:
    """Get a Debian package's files: from the cache, or fetched and unpacked into it once, without root.

    Parameters
    ----------
    package : str
        Its name.
    folder : Path
        The wanted folder inside the package; without it, it is not the package expected.
    cache : Path
        The cache folder.

    Returns
    -------
    Path
        The wanted folder, unpacked.

    Raises
    ------
    DataError
        If a tool is missing, the package cannot be fetched, or it is not the package expected.
    """

    def fill(part: Path) -> None:
        apt_get, dpkg_deb = shutil.which("apt-get"), shutil.which("dpkg-deb")
        if apt_get is None or dpkg_deb is None:
            raise DataError("apt-get and dpkg-deb are not both on PATH (this is no Debian-like system)")
        work = part / "fetch"
        lists, archives = work / "lists", work / "cache"
        for made in (lists, archives):
            (made / "partial").mkdir(parents=True)
        (archives / "archives" / "partial").mkdir(parents=True)
        options = [
            *("-o", f"Dir::State::lists={lists}"),
            *("-o", f"Dir::Cache={archives}"),
            # started by root, apt would fetch as a user who may not enter these folders; signatures are checked anyway
            *("-o", "APT::Sandbox::User=root"),
            *("-o", "Acquire::http::Timeout=30"),
            *("-o", "Acquire::https::Timeout=30"),
        ]
        stale = ""
        try:
            run([apt_get, "-q", *options, "update"], cwd=work, timeout=600)
        except DataError as error:
            # one unreachable source fails the update; the package's own may be fine
            stale = f" (before that, {error})"
        try:
            run([apt_get, "-q", *options, "download", package], cwd=work, timeout=1800)
        except DataError as error:
            raise DataError(f"{error}{stale}") from error
        archives = list(work.glob(f"{package}_*.deb"))
        if len(archives) != 1:
            raise DataError(f"apt-get download left {len(archives)} archives instead of 1{stale}")
        run([dpkg_deb, "-x", archives[0], part], cwd=work, timeout=600)
        if not (part / folder).is_dir():
            raise DataError(f"the package {package} has no folder {folder}")
        shutil.rmtree(work)  # the archive is as large again as what came out of it

    return make_once(cache / package, fill) / folder


def prepared(out: Path) -> tuple[list[str], list[str]] | None:
    """Read what an earlier run left in the output folder.

    Parameters
    ----------
    out : Path
        The output folder.

    Returns
    -------
    tuple of list of str and list of str or None
        The table's columns and each row's label; None where the folder is absent or empty.

    Raises
    ------
    DataError
        If the folder holds anything but a whole data set: it is never written over.
    """
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    table = out / "table.csv"
    if table.is_file():
        with table.open(encoding="utf-8", newline="") as handle:
            reader = csv.DictReader(handle)
            columns = list(reader.fieldnames or ())
            rows = list(reader) if tuple(columns[: len(LEADING)]) == LEADING else []
        if rows and all((out / "images" / f"{row['id']}.png").is_file() for row in rows):
            return columns, [row["label"] for row in rows]
    raise DataError(f"{out} is not empty and holds no whole data set of this program: remove it or name another --out")


def publish(
    out: Path,
    columns: Sequence[str],
    rows: Sequence[Mapping[str, object]],
    write_image: Callable[[str, Path], object],
) -> None:
    """Write a data set in one step: a killed run leaves no ``out`` rather than half of one.

    Parameters
    ----------
    out : Path
        The output folder, absent or empty.
    columns : sequence of str
        The table's columns.
    rows : sequence of mapping
        The table's rows, in the order to write them.
    write_image : callable
        Called with a row's id and the file to write.
    """
    with contextlib.suppress(OSError):
        out.rmdir()  # only an empty folder goes; the rename needs the name free

    def fill(part: Path) -> None:
        (part / "images").mkdir()
        for row in rows:
            write_image(str(row["id"]), part / "images" / f"{row['id']}.png")
        with (part / "table.csv").open("w", encoding="utf-8", newline="") as handle:
            writer = csv.DictWriter(handle, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    make_once(out, fill)
    out.with_name(f".{out.name}.lock").unlink(missing_ok=True)  # nothing is left beside a user's folder


def summary(labels: Sequence[str], kind: str, out: Path) -> str:
    """Say in one line what a prepared folder holds.

    Parameters
    ----------
    labels : sequence of str
        Each row's label.
    kind : str
        What the images are.
    out : Path
        The output folder.

    Returns
    -------
    str
        Rows, classes with their counts, and where.
    """
    counts = sorted(Counter(labels).items())
    listed = ", ".join(f"{name} {count}" for name, count in counts)
    return f"{len(labels)} {kind} in {len(counts)} classes ({listed}): {out}"


def run_fetch(
    description: str,
    fetch: Callable[[Path], Path],
    describe: Callable[[Path], object] = str,
    arguments: Sequence[str] | None = None,
) -> int:
    """Run the command line of a program that fetches data into the cache folder, and print what it has fetched.

    Parameters
    ----------
    description : str
        Sentence for the help.
    fetch : callable
        Function of the cache folder that returns the folder of the data.
    describe : callable
        Function of the folder of the data that returns the line to print; by default the folder.
    arguments : sequence of str, optional
        Arguments, by default those of the process.

    Returns
    -------
    int
        Exit status: 1 if the data cannot be fetched, with the reason on standard error.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--cache", type=Path, help="folder of packages (default: $CEREBRO_SPARK_CACHE, .cache)")
    try:
        folder = fetch(cache_folder(parser.parse_args(arguments).cache))
    except DataError as error:
        note(f"error: {error}")
        return 1
    print(describe(folder))
    return 0


def note(message: str) -> None:
    """Tell the user something that is not the result.

    Parameters
    ----------
    message : str
        One line for standard error.
    """
    print(message, file=sys.stderr, flush=True)
