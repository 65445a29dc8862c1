"""Videos of episodes one behind the other in one file, without a second loss of quality.

The packets of an episode's video are copied as they are, but for its last frame, which no action follows. Where frames
before it were predicted from that one, the last run of frames from a key frame on (at most a dozen) is encoded again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from sensorium.datasets.video_streams import VideoStream
from sensorium.errors import DatasetError


@dataclass(frozen=True)
class VideoSpan:
    """Where an episode's frames are: in which file, and from when to when, in seconds."""

    chunk: int
    file: int
    start: float
    end: float


@dataclass
class _Piece:
    """Packets in the order of decoding, which frame each is, and what a decoder must know beforehand."""

    packets: list[Any]
    frames: list[int]
    parameters: bytes


class VideoJoiner:
    """Joins the videos of one camera.

    Args:
        folder: of the camera; files are ``chunk-000/file-000.mp4``, ...
        rate: frames in a second.
        most_bytes: a file that has grown to this gets no further episode.
        most_files: in a chunk.
    """

    def __init__(self, folder: Path, rate: Fraction, most_bytes: int, most_files: int) -> None:
        self._folder, self._rate = folder, rate
        self._most_bytes, self._most_files = most_bytes, most_files
        self._number = -1
        self._output: Any = None
        self._parameters = b""
        self._count = self._bytes = 0

    def add(self, path: Path, n_frames: int) -> VideoSpan:
        """Append the first ``n_frames`` of a video."""
        pieces = _cut(path, n_frames, self._rate)
        fits = self._parameters == pieces[0].parameters
        if self._output is None or not fits or self._bytes >= self._most_bytes:
            self._next(path, pieces[0])
        first = self._count
        for piece in pieces:
            self._write(piece)
        chunk, file = divmod(self._number, self._most_files)
        return VideoSpan(chunk, file, float(first / self._rate), float(self._count / self._rate))

    def close(self) -> None:
        """Complete the file."""
        if self._output is not None:
            self._output.close()
            self._output = None

    def _next(self, path: Path, piece: _Piece) -> None:
        import av

        self.close()
        self._number += 1
        chunk, file = divmod(self._number, self._most_files)
        target = self._folder / f"chunk-{chunk:03d}" / f"file-{file:03d}.mp4"
        target.parent.mkdir(parents=True, exist_ok=True)
        self._output = av.open(str(target), "w", format="mp4")
        with av.open(str(path)) as like:
            self._stream = self._output.add_stream_from_template(like.streams.video[0])
            self._stream.codec_context.extradata = piece.parameters
        self._stream.time_base = 1 / (self._rate * _TICKS)
        self._parameters = piece.parameters
        self._count = self._bytes = 0

    def _write(self, piece: _Piece) -> None:
        first = self._count
        for packet, frame in zip(piece.packets, piece.frames, strict=True):
            packet.stream = self._stream
            packet.time_base = 1 / (self._rate * _TICKS)
            packet.pts = (first + frame) * _TICKS
            packet.dts = (self._count - _WAIT) * _TICKS
            packet.duration = _TICKS
            self._output.mux(packet)
            self._count += 1
            self._bytes += packet.size


_TICKS = 256
"""Of the file's clock, in a frame."""
_WAIT = 2
"""Frames by which decoding begins before showing: what x264 needs, as the recorder uses it."""
_FINE = 16
"""Quantiser of frames that are encoded once more; the recorder's is about 23, and 6 less is twice as fine."""


def _cut(path: Path, n_frames: int, rate: Fraction) -> list[_Piece]:
    """The first frames of a video that has one more."""
    whole = _packets(path)
    if sorted(whole.frames) != list(range(n_frames + 1)):
        folder = path.parent
        raise DatasetError(
            f"{path} has {len(whole.frames)} frames instead of {n_frames + 1}; run `sensorium validate {folder}`"
        )
    if whole.frames[-1] == n_frames:  # nothing was predicted from it
        return [_Piece(whole.packets[:-1], whole.frames[:-1], whole.parameters)]
    keys = [position for position, packet in enumerate(whole.packets) if packet.is_keyframe]
    start = keys[-1]
    tail = _encoded(path, whole.frames[start], n_frames, rate)
    closed = sorted(whole.frames[:start]) == list(range(start))
    if closed and tail.parameters == whole.parameters:
        return [_Piece(whole.packets[:start], whole.frames[:start], whole.parameters), tail]
    return [_encoded(path, 0, n_frames, rate)]  # another encoder wrote it: its packets cannot stand beside new ones


def _packets(path: Path) -> _Piece:
    import av

    with av.open(str(path)) as file:
        stream: Any = file.streams.video[0]
        packets = [packet for packet in file.demux(stream) if packet.size]
        tick = 1 / (stream.average_rate * stream.time_base)
        frames = [round(packet.pts / tick) for packet in packets]
        return _Piece(packets, frames, bytes(stream.codec_context.extradata or b""))


def _encoded(path: Path, start: int, stop: int, rate: Fraction) -> _Piece:
    """Some frames of a video, encoded once more as the recorder does, but so finely that they lose next to nothing."""
    fine = f"zones=0,{stop - start - 1},q={_FINE}"
    with tempfile.TemporaryDirectory() as folder:
        stream: VideoStream | None = None
        for frame in _decoded(path, start, stop):
            stream = stream or VideoStream(Path(folder) / path.name, "rgb", (frame.height, frame.width), rate, fine)
            frame.pict_type = 0  # the encoder's choice, as it was
            stream.write_frame(frame)
        assert stream is not None
        stream.close(Path(folder))
        return _packets(Path(folder) / path.name)


def _decoded(path: Path, start: int, stop: int) -> Iterator[Any]:
    import av

    with av.open(str(path)) as file:
        stream: Any = file.streams.video[0]
        tick = 1 / (stream.average_rate * stream.time_base)
        file.seek(int(start * tick), stream=stream, backward=True)
        for frame in file.decode(stream):
            if start <= round(frame.pts / tick) < stop:
                yield frame
