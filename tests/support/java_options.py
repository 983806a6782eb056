"""Options of every JVM of a test: it is young, so that its best compiler and a collector of many threads do not pay."""

from __future__ import annotations

from places import ROOT

__all__ = ["QUIET", "java_options"]

QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Says nothing of an archive of classes that does not fit."""

_ARCHIVE = ROOT / ".cache" / "spark.jsa"


def java_options() -> str:
    """Return the options, with the archive that ``make test`` writes if it is there."""
    options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    if not _ARCHIVE.is_file() or not _ARCHIVE.stat().st_size:
        return options
    return f'{options} "-XX:SharedArchiveFile={_ARCHIVE}" {QUIET}'
