"""Concatenation of the videos of episodes into one file, without encoding them again.

The packets of an episode's video are copied, except for its last frame, which no action follows. If earlier frames were
predicted from that frame, the frames since the last key frame (at most 4) are encoded again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from sensorium.datasets.export.video_files import VideoFiles, VideoSpan
from sensorium.datasets.image_formats import ImageEncoding
from sensorium.datasets.video_streams import VideoStream
from sensorium.errors import DatasetError

if TYPE_CHECKING:
    from av import Packet, VideoFrame
    from av.video.stream import VideoStream as Stream


@dataclass
class _Piece:
    """Packets in decoding order, the frame number of each, and the codec parameters (extradata)."""

    packets: list[Packet]
    frames: list[int]
    parameters: bytes


class VideoJoiner(VideoFiles):
    """Concatenates the videos of one camera; the arguments are those of :class:`VideoFiles`."""

    def __init__(self, folder: Path, rate: Fraction, max_bytes: int, max_files: int) -> None:
        super().__init__(folder, rate, max_bytes, max_files)
        self._stream: Stream
        self._parameters = b""

    def add(self, path: Path, n_frames: int) -> VideoSpan:
        """Append the first ``n_frames`` frames of a video that has one frame more; return where they are.

        Raises:
            DatasetError: the video has another number of frames.
        """
        pieces = _cut(path, n_frames, self._rate)
        fits = self._parameters == pieces[0].parameters
        if self._output is None or not fits or self._bytes >= self._max_bytes:
            self._next(path, pieces[0])
        first = self._count
        for piece in pieces:
            self._write(piece)
        return self._span(first)

    def _next(self, path: Path, piece: _Piece) -> None:
        import av

        output = self._open_next()
        with av.open(str(path)) as like:
            self._stream = output.add_stream_from_template(like.streams.video[0])
            self._stream.codec_context.extradata = piece.parameters
        self._stream.time_base = 1 / (self._rate * _TICKS)
        self._parameters = piece.parameters

    def _write(self, piece: _Piece) -> None:
        first = self._count
        assert self._output is not None
        for packet, frame in zip(piece.packets, piece.frames, strict=True):
            packet.stream = self._stream
            packet.time_base = 1 / (self._rate * _TICKS)
            packet.pts = (first + frame) * _TICKS
            packet.dts = (self._count - _DECODE_DELAY) * _TICKS
            packet.duration = _TICKS
            self._output.mux(packet)
            self._count += 1
            self._bytes += packet.size


_TICKS = 256
"""Ticks of the file's clock per frame."""
_DECODE_DELAY = 2
"""Frames from decoding to display that x264 needs with the settings of ``VideoStream``."""
_QUANTIZER = 16
"""Quantizer of frames that are encoded again. ``VideoStream`` has about 26; a value 6 lower is twice as fine."""


def _cut(path: Path, n_frames: int, rate: Fraction) -> list[_Piece]:
    """Return the packets of the first frames of a video that has one frame more."""
    whole = _packets(path)
    if sorted(whole.frames) != list(range(n_frames + 1)):
        folder = path.parent
        raise DatasetError(
            f"{path} has {len(whole.frames)} frames instead of {n_frames + 1}; run `sensorium validate {folder}`"
        )
    if whole.frames[-1] == n_frames:  # no other frame was predicted from it
        return [_Piece(whole.packets[:-1], whole.frames[:-1], whole.parameters)]
    keys = [position for position, packet in enumerate(whole.packets) if packet.is_keyframe]
    start = keys[-1]
    tail = _reencode(path, whole.frames[start], n_frames, rate)
    closed = sorted(whole.frames[:start]) == list(range(start))
    if closed and tail.parameters == whole.parameters:
        return [_Piece(whole.packets[:start], whole.frames[:start], whole.parameters), tail]
    return [_reencode(path, 0, n_frames, rate)]  # written by another encoder: old and new packets cannot be mixed


def _packets(path: Path) -> _Piece:
    import av

    with av.open(str(path)) as file:
        stream = file.streams.video[0]
        packets = [packet for packet in file.demux(stream) if packet.size]
        tick = frame_ticks(stream)
        frames = [round((packet.pts or 0) / tick) for packet in packets]
        return _Piece(packets, frames, bytes(stream.codec_context.extradata or b""))


def _reencode(path: Path, start: int, stop: int, rate: Fraction) -> _Piece:
    """Encode frames ``start`` to ``stop - 1`` of a video again, with a fine quantizer that loses almost nothing."""
    from av.video.frame import PictureType

    fine = f"zones=0,{stop - start - 1},q={_QUANTIZER}"
    with tempfile.TemporaryDirectory() as folder:
        stream: VideoStream | None = None
        for frame in _decoded(path, start, stop):
            form = ImageEncoding.of_kind("rgb", frame.height, frame.width)
            stream = stream or VideoStream(Path(folder) / path.name, form, rate, fine)
            frame.pict_type = PictureType.NONE  # let the encoder choose
            stream.write_frame(frame)
        assert stream is not None
        stream.close(Path(folder))
        return _packets(Path(folder) / path.name)


def _decoded(path: Path, start: int, stop: int) -> Iterator[VideoFrame]:
    import av

    with av.open(str(path)) as file:
        stream = file.streams.video[0]
        tick = frame_ticks(stream)
        file.seek(int(start * tick), stream=stream, backward=True)
        for frame in file.decode(stream):
            if start <= round((frame.pts or 0) / tick) < stop:
                yield frame


def frame_ticks(stream: Stream) -> Fraction:
    """Return the duration of a frame in units of the stream's time base."""
    assert stream.average_rate is not None  # every video has both
    assert stream.time_base is not None
    return 1 / (stream.average_rate * stream.time_base)
