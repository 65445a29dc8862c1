"""Depth videos of LeRobot: 12-bit logarithmic codes as lossless HEVC.

LeRobot (0.6.2, ``datasets/depth_utils.py``) maps the logarithm of depth plus :data:`SHIFT` linearly to the codes 0 (at
:data:`MIN`) to 4095 (at :data:`MAX`), and clips what lies outside. The numbers are in ``meta/info.json``, from which
its reader takes them. Near :data:`MIN` a step is 1.2 mm, at 10 m it is 4.4 mm.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from sensorium.datasets.export.video_files import VideoFiles, VideoSpan

if TYPE_CHECKING:
    import av
    from av.video.stream import VideoStream as Stream

MIN, MAX, SHIFT = 0.01, 10.0, 3.5
"""Depths of the lowest and the highest code, and the offset before the logarithm, m."""
CODES = 1 << 12
PIXEL_FORMAT = "gray12le"
_LOWEST, _HIGHEST = np.log(MIN + SHIFT), np.log(MAX + SHIFT)
MIN_SIZE = 16
"""Minimum width and height of a video in pixels, which x265 accepts."""
_KEY_FRAMES = 2
"""Frames from one key frame to the next, as in LeRobot: few frames are decoded to read one."""


def to_codes(depth: np.ndarray) -> np.ndarray:
    """Return depth in metres as codes, uint16. Nothing hit (infinite) is the highest code, no reading (0) is 0."""
    scaled = (np.log(depth.astype(np.float64) + SHIFT) - _LOWEST) / (_HIGHEST - _LOWEST)
    return np.rint(np.clip(scaled, 0.0, 1.0) * (CODES - 1)).astype(np.uint16)


def from_codes(codes: np.ndarray) -> np.ndarray:
    """Return the depth of codes in metres, float64."""
    depth = np.exp(codes * ((_HIGHEST - _LOWEST) / (CODES - 1)) + _LOWEST) - SHIFT
    return np.asarray(np.clip(depth, MIN, MAX))


class DepthVideo(VideoFiles):
    """Writes the depth images of one camera; the arguments are those of :class:`VideoFiles`."""

    _stream: Stream

    def add(self, images: Iterable[np.ndarray]) -> VideoSpan:
        """Append the codes of depth images, (H, W) uint16; return where they are."""
        import av

        first: int | None = None
        for image in images:
            if self._output is None or (first is None and self._bytes >= self._max_bytes):
                self._next(*image.shape)
            first = self._count if first is None else first
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format=PIXEL_FORMAT)
            frame.pts, frame.time_base = self._count, 1 / self._rate
            self._mux(frame)
            self._count += 1
        return self._span(first or 0)

    def close(self) -> None:
        """Complete the current file."""
        if self._output is not None:
            self._mux(None)
        super().close()

    def _next(self, height: int, width: int) -> None:
        from av.video.stream import VideoStream as Stream

        stream = self._open_next().add_stream("libx265", rate=self._rate)
        assert isinstance(stream, Stream)
        stream.width, stream.height, stream.pix_fmt = width, height, PIXEL_FORMAT
        stream.codec_context.gop_size = _KEY_FRAMES
        parameters = f"lossless=1:bframes=0:keyint={_KEY_FRAMES}:min-keyint={_KEY_FRAMES}:log-level=none"
        stream.options = {"x265-params": parameters}
        stream.codec_context.codec_tag = "hvc1"  # the tag that players expect in MP4 files
        self._stream = stream

    def _mux(self, frame: av.VideoFrame | None) -> None:
        assert self._output is not None
        for packet in self._stream.encode(frame):
            self._bytes += packet.size
            self._output.mux(packet)
