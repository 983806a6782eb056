"""Fetch the published weights of a network, and hold them to their digest."""

from __future__ import annotations

import base64
import hashlib
import http.client
import logging
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from optimizer import __version__
from optimizer.errors import InvalidArgumentError
from udfs.node import written_once
from udfs.roster._published_weights import PUBLISHED, UNPUBLISHED
from udfs.roster._registry import card
from udfs.weights import WeightsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from udfs.roster._published_weights import PublishedWeights

__all__ = ["fetch_weights", "fetched_weights", "published_weights"]

_LOG = logging.getLogger(__name__)
_TIMEOUT_S = 30
_CHUNK = 1 << 20


def published_weights(model: str) -> PublishedWeights:
    """Return where a network's weights are published.

    Parameters
    ----------
    model : str
        A name of the roster.

    Raises
    ------
    udfs.roster.UnknownModelError
        There is no such network.
    optimizer.errors.InvalidArgumentError
        No published weights fit; the message says what to do instead.

    Examples
    --------
    >>> published_weights("resnet18").file
    'resnet18-f37072fd.pth'
    """
    if model in PUBLISHED:
        return PUBLISHED[model]
    card(model)
    reason = UNPUBLISHED.get(model, "it is one of your own: name its weights by path or URI")
    raise InvalidArgumentError(f"weights of {model!r} cannot be fetched: {reason}")


def fetch_weights(
    model: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    mirror: str | None = None,
    on_progress: Callable[[int, int | None], object] | None = None,
) -> Path:
    """Fetch the ImageNet weights of a network of the roster from their publisher, once.

    Parameters
    ----------
    model : str
        A name of the roster.
    folder : path, optional
        Folder of the file; by default ``cerebro-spark/weights`` in the user's cache (``XDG_CACHE_HOME``, or
        ``~/.cache``), where ``--weights imagenet`` finds it.
    mirror : str, optional
        Address of a folder with copies of the files under their own names, instead of the publisher's.
    on_progress : callable, optional
        Called with the bytes so far, and with all of them or ``None``.

    Returns
    -------
    Path
        Path of the file. One that is there and has the publisher's digest is not fetched again.

    Raises
    ------
    udfs.roster.UnknownModelError, optimizer.errors.InvalidArgumentError
        As :func:`published_weights`; or a mirror that is no address of HTTP.
    udfs.weights.WeightsError
        The address cannot be reached or has no such file, the file cannot be written, or its digest is another one; the
        message says how to get the file without a network.

    Examples
    --------
    >>> from vista_spark import CNNFeaturizer, roster
    >>> featurizer = CNNFeaturizer(
    ...     model="resnet18", weights=roster.fetch_weights("resnet18"), layers=["pool5"]
    ... )  # doctest: +SKIP
    """
    published = published_weights(model)
    url = published.url if mirror is None else f"{_checked(mirror).rstrip('/')}/{published.file}"
    target = _target(published, folder)
    if target.is_file() and published.digest and _digest(target, published).startswith(published.digest):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with written_once(target) as partial:
            said = _download(url, partial, on_progress)
            _check(partial, published, said, url)
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise WeightsError(_unreachable(model, published, url, target, error)) from error
    except OSError as error:
        if isinstance(error, WeightsError):
            raise
        raise WeightsError(f"{target} cannot be written: {error.strerror or error}; name another folder") from error
    return target


def fetched_weights(model: str) -> Path:
    """Find what :func:`fetch_weights` left in the user's cache; nothing is fetched.

    Raises
    ------
    udfs.roster.UnknownModelError, optimizer.errors.InvalidArgumentError
        As :func:`published_weights`.
    udfs.weights.WeightsError
        It is not there.
    """
    target = _target(published_weights(model), None)
    if not target.is_file():
        raise WeightsError(f"the ImageNet weights of {model} are not on this machine: vista weights fetch {model}")
    return target


def _target(published: PublishedWeights, folder: str | os.PathLike[str] | None) -> Path:
    if folder is not None:
        return Path(folder).expanduser() / published.file
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "cerebro-spark" / "weights" / published.file


def _checked(mirror: str) -> str:
    if not mirror.startswith(("http://", "https://")):
        raise InvalidArgumentError(f"mirror must be the address of a folder, http://... or https://..., got {mirror!r}")
    return mirror


def _download(url: str, target: Path, on_progress: Callable[[int, int | None], object] | None) -> str:
    """Copy a file, and return the MD5 that its server gives of it, in hexadecimal; empty where it gives none."""
    request = urllib.request.Request(url, headers={"User-Agent": f"cerebro-spark/{__version__}"})  # noqa: S310 - http(s)
    done = 0
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer, target.open("wb") as file:  # noqa: S310
        length = answer.headers.get("Content-Length")
        total = int(length) if length else None
        while chunk := answer.read(_CHUNK):
            file.write(chunk)
            done += len(chunk)
            if on_progress is not None:
                on_progress(done, total)
        hashes = answer.headers.get_all("x-goog-hash") or []
    if total is not None and done != total:
        raise http.client.IncompleteRead(b"", total - done)
    for entry in ",".join(hashes).split(","):
        name, _, value = entry.strip().partition("=")
        if name == "md5":
            return base64.b64decode(value).hex()
    return ""


def _check(path: Path, published: PublishedWeights, said: str, url: str) -> None:
    expected = published.digest or said
    if not expected:
        _LOG.warning("%s: neither the publisher nor the server gives a digest; its content was not checked", url)
        return
    digest = _digest(path, published)
    if not digest.startswith(expected):
        raise WeightsError(
            f"{url} is not the published file: its {published.algorithm} is {digest}, not {expected}"
            f"{'...' if len(expected) < len(digest) else ''}. It was not kept; fetch it again, or from another address"
        )


def _digest(path: Path, published: PublishedWeights) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, published.algorithm).hexdigest()


def _unreachable(model: str, published: PublishedWeights, url: str, target: Path, error: Exception) -> str:
    reason = getattr(error, "reason", None) or str(error) or type(error).__name__
    if isinstance(error, urllib.error.HTTPError):
        reason = f"HTTP {error.code} {error.reason}"
    check = f" (its {published.algorithm} begins with {published.digest})" if published.digest else ""
    return (
        f"the weights of {model} cannot be fetched from {url}: {reason}. Without a network here, fetch {published.url} "
        f"elsewhere{check} and put it at {target}, or name it with weights= (--weights). A proxy is taken from "
        "https_proxy, and mirror= (--mirror) names another folder of such files"
    )
