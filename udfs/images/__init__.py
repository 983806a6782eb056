"""Decode images of any kind that a DataFrame holds into a network's input, with numpy and Pillow alone."""

from udfs.images._decode import decode
from udfs.images._errors import IMAGE_REASONS, ImageError
from udfs.images._file_contents import FileContents
from udfs.images._file_reader import open_file
from udfs.images._geometry import PictureGeometry, Region, picture_geometry
from udfs.images._hog import hog, hog_length
from udfs.images._path_probe import PROBED_PATH, PROBED_REASON, probe_paths
from udfs.images._pillow import BYTES_PER_PIXEL, MAX_PIXELS
from udfs.images._preprocessing import Layout, Preprocessing, Preprocessings, Resample
from udfs.images._rgb import IMAGE_FIELDS, open_rgb

__all__ = [
    "BYTES_PER_PIXEL",
    "IMAGE_FIELDS",
    "IMAGE_REASONS",
    "MAX_PIXELS",
    "PROBED_PATH",
    "PROBED_REASON",
    "FileContents",
    "ImageError",
    "Layout",
    "PictureGeometry",
    "Preprocessing",
    "Preprocessings",
    "Region",
    "Resample",
    "decode",
    "hog",
    "hog_length",
    "open_file",
    "open_rgb",
    "picture_geometry",
    "probe_paths",
]
