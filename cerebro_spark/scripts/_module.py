"""Modules of uploaded scripts, under names made of their content."""

from __future__ import annotations

import hashlib
import linecache
import sys
import threading
from dataclasses import dataclass
from types import ModuleType
from typing import Any

__all__ = ["ScriptFunction", "script_module", "script_name"]

_TURN = threading.RLock()


def script_name(text: str) -> str:
    """Return the name of a script's module: never that of the user's file, which could hide another module.

    Examples
    --------
    >>> script_name("lr = 1")
    'cerebro_script_0747b7d138d687ee'
    """
    return f"cerebro_script_{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def script_module(text: str) -> ModuleType:
    """Run a script once per process, and return its module.

    A script that fails raises its error each time. Its traceback shows the lines of the script.
    """
    name = script_name(text)
    with _TURN:
        if name in sys.modules:
            return sys.modules[name]
        module = ModuleType(name)
        module.__file__ = file = f"<{name}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        sys.modules[name] = module  # dataclasses and pickles look their module up
        try:
            exec(compile(text, file, "exec"), module.__dict__)  # noqa: S102 - a script of an editor, on an allowing pool
        except BaseException:
            del sys.modules[name]
            raise
        return module


@dataclass(frozen=True)
class ScriptFunction:
    r"""Function of a script, which any process can call: the text travels, and runs where the function is called.

    Parameters
    ----------
    text : str
        Script.
    name : str
        Name of the function.

    Examples
    --------
    >>> double = ScriptFunction("def double(x):\n    return 2 * x", "double")
    >>> double(4)
    8
    """

    text: str
    name: str

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        return getattr(script_module(self.text), self.name)(*arguments)
