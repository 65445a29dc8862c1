"""``VideoFiles``: numbered video files of one camera, which hold the frames of many episodes one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from av.container import OutputContainer


@dataclass(frozen=True)
class VideoSpan:
    """Location of an episode's frames: chunk and file number, start and end time in the file in seconds."""

    chunk: int
    file: int
    start: float
    end: float


class VideoFiles:
    """Base of the writers of a camera's videos.

    Args:
        folder: output folder of the camera; the files are ``chunk-000/file-000.mp4``, ...
        rate: frames per second.
        max_bytes: size at which a new file begins.
        max_files: files per chunk folder.
    """

    def __init__(self, folder: Path, rate: Fraction, max_bytes: int, max_files: int) -> None:
        self._folder, self._rate = folder, rate
        self._max_bytes, self._max_files = max_bytes, max_files
        self._number = -1
        self._output: OutputContainer | None = None
        self._count = self._bytes = 0

    def _open_next(self) -> OutputContainer:
        """Complete the current file, and begin the next one."""
        import av

        self.close()
        self._number += 1
        chunk, file = divmod(self._number, self._max_files)
        target = self._folder / f"chunk-{chunk:03d}" / f"file-{file:03d}.mp4"
        target.parent.mkdir(parents=True, exist_ok=True)
        self._output = av.open(str(target), "w", format="mp4")
        self._count = self._bytes = 0
        return self._output

    def _span(self, first: int) -> VideoSpan:
        """Return where the frames of the current file from number ``first`` on are."""
        chunk, file = divmod(self._number, self._max_files)
        return VideoSpan(chunk, file, float(first / self._rate), float(self._count / self._rate))

    def close(self) -> None:
        """Complete the current file."""
        if self._output is not None:
            self._output.close()
            self._output = None
