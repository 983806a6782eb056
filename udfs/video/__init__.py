"""Video files in tasks: division into segments, decoding with PyAV, and detection of differences between frames."""

from udfs.video._decoding import decode
from udfs.video._difference import Difference, DifferenceDetector, Thumbnail, block_error, thumbnail
from udfs.video._errors import VIDEO_REASONS, VideoError
from udfs.video._frames import SEGMENT_SCHEMA, Frames, Segments
from udfs.video._names import ENDINGS
from udfs.video._pictures import IMAGE_SCHEMA
from udfs.video._sampling import Sampling
from udfs.video._segments import Segment, divide

__all__ = [
    "ENDINGS",
    "IMAGE_SCHEMA",
    "SEGMENT_SCHEMA",
    "VIDEO_REASONS",
    "Difference",
    "DifferenceDetector",
    "Frames",
    "Sampling",
    "Segment",
    "Segments",
    "Thumbnail",
    "VideoError",
    "block_error",
    "decode",
    "divide",
    "thumbnail",
]
