"""Headless Chromium, driven through the pipe of its DevTools protocol, without a package."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Page", "open_page"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
# The protocol's pipes are the descriptors 3 and 4. A container's root has no sandbox, and a small /dev/shm.
_START = (
    'exec "$0" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars '
    '--user-data-dir="$1" --remote-debugging-pipe about:blank 3<&{reads} 4>&{writes}'
)


class Page:
    """A page of a browser.

    Parameters
    ----------
    reader, writer : int
        Descriptors of the browser's pipes.
    """

    def __init__(self, reader: int, writer: int) -> None:
        self._reader, self._writer = os.fdopen(reader, "rb"), os.fdopen(writer, "wb")
        self._number, self._session = 0, ""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def visit(self, url: str, width: int = 1280, height: int = 900) -> None:
        """Open an address in a window of a size in pixels, and wait until its scripts ran once."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self._call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def value(self, expression: str) -> Any:
        """Evaluate JavaScript in the page, and return its value as plain data."""
        reply = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in reply, reply["exceptionDetails"]
        return reply["result"].get("value")

    def wait(self, expression: str, seconds: float = 30.0) -> Any:
        """Wait until JavaScript is true in the page, and return its value."""
        until = time.monotonic() + seconds
        while not (value := self.value(expression)):
            assert time.monotonic() < until, f"{expression} stayed {value}:\n{self.value('document.body.innerText')}"
            time.sleep(0.1)
        return value

    def picture(self, path: Path) -> None:
        """Write a picture of the whole page."""
        data = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def close(self) -> None:
        """Close the pipes, by which the browser ends."""
        self._writer.close()
        self._reader.close()

    def _call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._writer.write(json.dumps(message).encode() + b"\0")
        self._writer.flush()
        while True:
            reply = json.loads(self._line())
            if reply.get("id") == self._number:
                assert "error" not in reply, reply
                return reply["result"]

    def _line(self) -> bytes:
        read = bytearray()
        while (byte := self._reader.read(1)) != b"\0":
            assert byte, "the browser ended"
            read += byte
        return bytes(read)


@contextmanager
def open_page(folder: Path) -> Iterator[Page]:
    """Start a browser with a folder of its own for a ``with`` block; skip the test where none is installed."""
    browser = next(filter(None, map(shutil.which, _NAMES)), None)
    if browser is None:
        pytest.skip("no Chromium: apt-get install chromium")
    reads, writer = os.pipe()
    reader, writes = os.pipe()
    command = ["bash", "-c", _START.format(reads=reads, writes=writes), browser, str(folder)]
    with subprocess.Popen(command, pass_fds=(reads, writes), stderr=subprocess.DEVNULL) as process:
        os.close(reads)
        os.close(writes)
        page = Page(reader, writer)
        try:
            yield page
        finally:
            page.close()
            process.terminate()
