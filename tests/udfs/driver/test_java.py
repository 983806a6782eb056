"""The Java that Spark would start is checked before it starts, by its version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from udfs.driver import JavaNotFoundError
from udfs.driver._java import find_java, major_version

if TYPE_CHECKING:
    from pathlib import Path


def java(folder: Path, version: str, *, release: bool) -> Path:
    """Make a folder of a JDK; without the file of its release it answers when it is asked."""
    (folder / "bin").mkdir(parents=True)
    file = folder / "bin" / "java"
    file.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-16' >&2\n")
    file.chmod(0o755)
    if release:
        (folder / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.mark.parametrize("release", [True, False])
@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.22", "16", "9-ea"])
def test_an_old_java_is_refused_by_its_version(
    version: str, release: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = java(tmp_path / "jdk", version, release=release)
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(JavaNotFoundError, match=f"needs Java 17 or 21, and JAVA_HOME={home} is Java {version}: "):
        find_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", f"{home}/bin:/usr/bin:/bin")
    with pytest.raises(JavaNotFoundError, match=f"{home}/bin/java of PATH is Java {version}"):
        find_java()


@pytest.mark.parametrize("version", ["17.0.9", "21", "25-ea"])
def test_a_java_that_fits_passes(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = java(tmp_path / "jdk", version, release=False)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java() == f"{home}/bin/java"


def test_a_home_that_is_gone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark does not look at PATH then."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    monkeypatch.setenv("PATH", f"{java(tmp_path / 'jdk', '17', release=True)}/bin")
    with pytest.raises(JavaNotFoundError, match=r"JAVA_HOME=.*gone has no bin/java.*unset it"):
        find_java()


def test_a_java_that_does_not_answer_is_left_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = java(tmp_path / "jdk", "17", release=False)
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java()


def test_versions() -> None:
    assert [major_version(text) for text in ("1.7", "17.0.1+12", "21.0.2", "24")] == [7, 17, 21, 24]
