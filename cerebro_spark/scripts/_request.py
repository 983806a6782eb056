"""Requests of the kind ``script``: the check of an upload before its use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cerebro_spark.scripts._import_script import import_script
from cerebro_spark.scripts._limits import ScriptLimits
from optimizer.errors import InvalidArgumentError
from udfs.requests import RequestHandler

if TYPE_CHECKING:
    from collections.abc import Mapping

    from udfs.requests import RequestContext

__all__ = ["HANDLER", "checked_script"]


def checked_script(sha256: Any, context: RequestContext) -> dict[str, Any]:
    """Import an uploaded script in a process of its own, and describe it.

    Parameters
    ----------
    sha256 : str
        Hash of the upload.
    context : RequestContext
        Context of the request, with the uploads of the server.

    Returns
    -------
    dict
        Description by :func:`import_script`, and the ``text``.

    Raises
    ------
    InvalidArgumentError
        The pool runs no scripts, the upload is no text of a permitted length, or the script fails.
    """
    if not context.allows_scripts:
        raise InvalidArgumentError(
            "this pool must be started with --allow-scripts to run uploaded scripts, which may do all that the pool's "
            "user may. Use a built-in model, or cerebro tune"
        )
    if not isinstance(sha256, str):
        raise InvalidArgumentError(f"script must be the SHA-256 of an upload, got {sha256!r}.")
    content, most = context.blob(sha256), ScriptLimits().text_bytes
    if len(content) > most:
        raise InvalidArgumentError(f"script must have at most {most:,} bytes, got {len(content):,}.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InvalidArgumentError(
            f"line {line}: script must be UTF-8 text, got the byte {content[error.start]:#x}."
        ) from None
    return {**import_script(text), "text": text}


def _handle(document: Mapping[str, Any], context: RequestContext) -> dict[str, Any]:
    return checked_script(document.get("script"), context)


HANDLER = RequestHandler("script", _handle)
