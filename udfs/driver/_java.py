"""Find the Java that Spark starts, and check that Spark runs on it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from optimizer.errors import CerebroError

__all__ = ["JAVA_REMEDY", "JavaNotFoundError", "find_java", "major_version"]

JAVA_REMEDY = (
    "Debian and Ubuntu: sudo apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17; "
    "conda: conda install -c conda-forge openjdk=17. No root? Unpack any JDK 17 and set JAVA_HOME to its folder."
)
"""Ways to install a Java that Spark runs on."""

_LEAST = 17
_PATIENCE_S = 20.0


class JavaNotFoundError(CerebroError, RuntimeError):
    """Spark needs a Java runtime, and there is none, or none that Spark runs on."""


def find_java() -> str:
    """Return the path of the Java that Spark starts.

    Raises
    ------
    JavaNotFoundError
        There is none, JAVA_HOME has none, or it is older than 17.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        # Spark does not look further where JAVA_HOME is set.
        java, source = str(Path(home, "bin", "java")), f"JAVA_HOME={home}"
        if not Path(java).is_file():
            raise JavaNotFoundError(
                f"Spark needs Java 17 or 21, and {source} has no bin/java: set JAVA_HOME to the folder of a JDK, or "
                f"unset it. {JAVA_REMEDY}"
            )
    else:
        java = shutil.which("java") or ""
        source = f"{java} of PATH"
        if not java:
            raise JavaNotFoundError(
                f"Spark needs Java 17 or 21, and neither JAVA_HOME nor PATH leads to one. {JAVA_REMEDY}"
            )
    version = _version(java)
    if version is not None and major_version(version) < _LEAST:
        raise JavaNotFoundError(
            f"Spark needs Java 17 or 21, and {source} is Java {version}: set JAVA_HOME to the folder of a newer one. "
            f"{JAVA_REMEDY}"
        )
    return java


def major_version(version: str) -> int:
    """Return the major number of a version of Java; those before 9 begin with 1.

    Examples
    --------
    >>> [major_version(each) for each in ("1.8.0_392", "11.0.22", "17", "25-ea", "")]
    [8, 11, 17, 25, 0]
    """
    numbers = [int(each) for each in re.findall(r"\d+", version)]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def _version(java: str) -> str | None:
    """Read the version of a Java from the file beside it, which is fast, or ask it; None if it does not say."""
    try:
        release = Path(java).resolve().parents[1] / "release"
        written = re.search(r'^JAVA_VERSION="([^"]+)"', release.read_text(errors="replace"), re.MULTILINE)
        if written:
            return written[1]
    except OSError:
        pass
    try:
        # The Java that Spark is about to start.
        done = subprocess.run(  # noqa: S603
            [java, "-version"], capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    printed = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    return printed[1] if printed else None
