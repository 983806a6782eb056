"""Compiler of the JVM plugin with the Scala of pyspark's jars: sbt is not needed.

``make jvm`` runs it: compile ``src/main/scala``, run the suites of ``src/test/scala``, and write the jar to the package
that locates it. The same sources and the same compiler give the same bytes.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

__all__ = ["compile_sources", "jar_name", "pack", "pyspark_jars", "run_suites"]

ROOT = Path(__file__).resolve().parents[1]
MAIN, TEST = ROOT / "src" / "main" / "scala", ROOT / "src" / "test" / "scala"
RESOURCES = ROOT / "src" / "main" / "resources"
PACKAGE = ROOT / "udfs" / "driver"
SUITES = "org.cerebro.spark.Suites"
# Compilation takes seconds: a better just-in-time compiler and a parallel collector do not pay off.
JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
# Options of build.sbt, as text.
SCALA_OPTIONS = ("-release", "17", "-deprecation", "-feature", "-Xlint", "-Werror")


def jar_name() -> str:
    """Return the file name of the jar of this version."""
    version = re.search(r'^__version__ = "(.+)"$', (ROOT / "optimizer" / "_version.py").read_text(), re.MULTILINE)
    if version is None:
        raise ValueError('optimizer/_version.py must have a line __version__ = "..."')
    return f"cerebro-spark_2.13-{version[1]}.jar"


def pyspark_jars() -> Path:
    """Return the folder of the jars of the pyspark of this Python."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("pyspark must be installed, its jars have the Scala compiler: pip install pyspark")
    return Path(spec.origin).parent / "jars"


def compile_sources(sources: Path, classes: Path, *class_path: str | Path) -> None:
    """Compile a folder of Scala sources against pyspark's jars and further entries of the class path."""
    classes.mkdir(parents=True, exist_ok=True)
    # Relative to the folder, so that class files do not depend on the place of the checkout.
    files = sorted(str(path.relative_to(sources)) for path in sources.rglob("*.scala"))
    options = [*SCALA_OPTIONS, "-classpath", _joined(*class_path, pyspark_jars() / "*"), "-d", str(classes)]
    _java(pyspark_jars() / "*", "scala.tools.nsc.Main", *options, *files, cwd=sources)


def run_suites(*class_path: str | Path) -> None:
    """Run the Scala suites."""
    _java(_joined(*class_path, pyspark_jars() / "*"), SUITES, cwd=ROOT)


def pack(classes: Path, jar: Path) -> None:
    """Write class files and resources to a jar: sorted, with the time stamps of 1980, and the licence."""
    entries = {path.relative_to(classes).as_posix(): path.read_bytes() for path in classes.rglob("*.class")}
    resources = (path for path in RESOURCES.rglob("*") if path.is_file())
    entries |= {path.relative_to(RESOURCES).as_posix(): path.read_bytes() for path in resources}
    entries["META-INF/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    manifest = (
        f"Manifest-Version: 1.0\r\nImplementation-Title: cerebro-spark\r\nImplementation-Version: {jar.stem}\r\n\r\n"
    )
    jar.parent.mkdir(parents=True, exist_ok=True)
    # Under its name only once it is complete: a session may be starting with the one before.
    partial = jar.with_suffix(".partial")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        # The manifest comes first, as java.util.jar reads it.
        for name, content in [("META-INF/MANIFEST.MF", manifest.encode()), *sorted(entries.items())]:
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    partial.replace(jar)


def _joined(*entries: str | Path) -> str:
    return os.pathsep.join(map(str, entries))


def _java(class_path: str | Path, *command: str, cwd: Path) -> None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java") or "java"
    # The Java that Spark starts, on sources of this project.
    subprocess.run([java, *JAVA_OPTIONS, "-cp", str(class_path), *command], cwd=cwd, check=True)  # noqa: S603


def main() -> None:
    """Compile, test and pack."""
    parser = argparse.ArgumentParser(description="Build the jar of the JVM plugin.")
    parser.add_argument("--out", type=Path, default=PACKAGE, help="folder for the jar, default %(default)s")
    out: Path = parser.parse_args().out
    with tempfile.TemporaryDirectory(prefix="cerebro-jvm-") as scratch:
        classes, tests = Path(scratch, "classes"), Path(scratch, "test-classes")
        compile_sources(MAIN, classes)
        compile_sources(TEST, tests, classes)
        run_suites(tests, classes)
        for former in out.glob("cerebro-spark_*.jar"):
            former.unlink()
        pack(classes, out / jar_name())
    sys.stdout.write(f"{out / jar_name()}\n")


if __name__ == "__main__":
    main()
