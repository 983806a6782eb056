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
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["Page", "open_page"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
# The protocol's pipes are the descriptors 3 and 4. A container's root has no sandbox, and a small /dev/shm.
_START = (
    'exec "$0" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars '
    '--user-data-dir="$1" --remote-debugging-pipe about:blank 3<&{reads} 4>&{writes}'
)


# Virtual key codes of keys that are no characters.
_KEYS = {
    "Tab": 9,
    "Enter": 13,
    "Escape": 27,
    "Space": 32,
    "PageUp": 33,
    "PageDown": 34,
    "End": 35,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
}
_TEXTS = {"Enter": "\r", "Space": " "}


class ProtocolError(AssertionError):
    """Error that the browser replied."""


class _Pipe:
    """Pipe to the browser, which its pages share."""

    def __init__(self, reader: int, writer: int) -> None:
        self._reader, self._writer = os.fdopen(reader, "rb"), os.fdopen(writer, "wb")
        self._number, self._rest = 0, b""
        self.listeners: dict[str, Callable[[str, dict[str, Any]], None]] = {}

    def call(self, session: str, method: str, parameters: dict[str, Any]) -> Any:
        """Call a method of the protocol; events that arrive meanwhile go to their sessions."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        self._writer.write(json.dumps(message).encode() + b"\0")
        self._writer.flush()
        while True:
            reply = json.loads(self._line())
            if reply.get("id") == self._number:
                if "error" in reply:
                    raise ProtocolError(reply["error"])
                return reply["result"]
            if listener := self.listeners.get(reply.get("sessionId", "")):
                listener(reply["method"], reply["params"])

    def close(self) -> None:
        self._writer.close()
        self._reader.close()

    def _line(self) -> bytes:
        parts = [self._rest]
        while b"\0" not in parts[-1]:
            parts.append(os.read(self._reader.fileno(), 1 << 16))
            assert parts[-1], "the browser ended"
        line, _, self._rest = b"".join(parts).partition(b"\0")
        return line


class Page:
    """A page of a browser.

    Parameters
    ----------
    pipe : _Pipe
        Pipe to the browser.
    context : str, optional
        Browser context, which has cookies of its own. Default: that of the browser.
    """

    def __init__(self, pipe: _Pipe, context: str = "") -> None:
        self._pipe, self._session, self._context = pipe, "", context
        self.problems: list[str] = []
        self.hosts: set[str] = set()
        self.opened_streams = 0
        where = {"browserContextId": context} if context else {}
        self._target = self._call("Target.createTarget", url="about:blank", **where)["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        self._pipe.listeners[self._session] = self._hear

    def tab(self) -> Page:
        """Open another tab of the same user."""
        return Page(self._pipe, self._context)

    def another_user(self) -> Page:
        """Open a page without the cookies of this one."""
        return Page(self._pipe, self._pipe.call("", "Target.createBrowserContext", {})["browserContextId"])

    def watch(self) -> None:
        """Collect errors of the console and hosts of requests, and count event streams."""
        for domain in ("Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

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
        while not (value := self._value_or_none(expression)):
            assert time.monotonic() < until, f"{expression} stayed {value}:\n{self.value('document.body.innerText')}"
            time.sleep(0.1)
        return value

    def _value_or_none(self, expression: str) -> Any:
        """Evaluate JavaScript; None if the page is left meanwhile."""
        try:
            return self.value(expression)
        except ProtocolError as error:
            if not any(word in str(error) for word in ("context", "navigated")):
                raise
            return None

    def click(self, selector: str) -> None:
        """Click the middle of an element with the mouse."""
        self.wait(f"document.querySelector({json.dumps(selector)}) !== null")
        box = f"document.querySelector({json.dumps(selector)})"
        x, y = self.value(
            f"(box => [box.x + box.width / 2, box.y + box.height / 2])(({box}.scrollIntoView({{block: 'nearest'}}), "
            f"{box}.getBoundingClientRect()))"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def drag(self, selector: str, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drag from a point of an element to another one; points are shares of its width and height."""
        box = f"document.querySelector({json.dumps(selector)}).getBoundingClientRect()"
        x, y, width, height = self.value(f"(box => [box.x, box.y, box.width, box.height])({box})")
        for kind, (across, down) in (("mousePressed", start), ("mouseMoved", end), ("mouseReleased", end)):
            point = {"x": x + across * width, "y": y + down * height}
            self._call("Input.dispatchMouseEvent", type=kind, **point, button="left", buttons=1, clickCount=1)

    def press(self, *keys: str) -> None:
        """Press keys one after the other: names such as ``"ArrowDown"`` or ``"Shift+Tab"``, or single characters."""
        for name in keys:
            modifiers, key = (8, name.removeprefix("Shift+")) if name.startswith("Shift+") else (0, name)
            code = {"windowsVirtualKeyCode": _KEYS.get(key) or ord(key.upper()), "code": key, "modifiers": modifiers}
            word = " " if key == "Space" else key
            self._call("Input.dispatchKeyEvent", type="keyDown", key=word, text=_TEXTS.get(key, ""), **code)
            self._call("Input.dispatchKeyEvent", type="keyUp", key=word, **code)

    def write(self, text: str) -> None:
        """Type text into the element with the focus, in place of its text."""
        self.value("document.activeElement.select?.()")
        self._call("Input.insertText", text=text)

    def offline(self, *, offline: bool = True) -> None:
        """Cut the network of the page, or restore it."""
        self._call(
            "Network.emulateNetworkConditions", offline=offline, latency=0, downloadThroughput=-1, uploadThroughput=-1
        )

    def allow_downloads(self, folder: Path) -> None:
        """Save downloads in a folder."""
        where = {"browserContextId": self._context} if self._context else {}
        self._pipe.call("", "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder), **where})

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Write a picture of the page, by default also of the parts outside the window."""
        data = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def close_tab(self) -> None:
        """Close the page, and leave the browser open."""
        self._pipe.call("", "Target.closeTarget", {"targetId": self._target})

    def close(self) -> None:
        """Close the pipes, by which the browser ends."""
        self._pipe.close()

    def _call(self, method: str, **parameters: Any) -> Any:
        return self._pipe.call(self._session, method, parameters)

    def _hear(self, method: str, event: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = event["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and event["type"] in {"error", "warning", "assert"}:
            self.problems.append(" ".join(str(each.get("value", each)) for each in event["args"]))
        elif method == "Log.entryAdded" and event["entry"]["level"] in {"error", "warning"}:
            self.problems.append(f"{event['entry']['text']} {event['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.opened_streams += event.get("type") == "EventSource"
            if host := urlsplit(event["request"]["url"]).netloc:
                self.hosts.add(host)


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
        page = Page(_Pipe(reader, writer))
        try:
            yield page
        finally:
            page.close()
            process.terminate()
