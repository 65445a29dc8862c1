"""Videos of datasets: the same images give the same bytes."""

import threading
from fractions import Fraction

import numpy as np

from sensorium.datasets.image_formats import ImageEncoding
from sensorium.datasets.video_streams import VideoStream, read_video

COUNT = 96
"""Encodings of the same frames. With the macroblock tree of x264, 1 to 9 of 100 differed on CPUs with AVX-512."""


def moving_squares():
    """Return 41 frames (48, 64, 3) of squares that move to the right and flicker."""
    rng = np.random.default_rng(0)
    squares = np.kron(rng.integers(0, 255, (12, 16, 3)), np.ones((4, 4, 1)))
    frames = [np.roll(squares, step // 2, axis=1) + 10 * np.sin(step / 5) for step in range(41)]
    return np.clip(frames, 0, 255).astype(np.uint8)


def test_same_frames_give_the_same_bytes(tmp_path):
    frames, files = moving_squares(), {}
    numbers = iter(range(COUNT))
    form = ImageEncoding.of_kind("rgb", *frames.shape[1:3])
    lock = threading.Lock()

    def encode():
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            stream = VideoStream(tmp_path / f"{number}.mp4", form, Fraction(50))
            for frame in frames:
                stream.write(frame)
            stream.close(tmp_path)
            data = (tmp_path / f"{number}.mp4").read_bytes()
            with lock:
                files.setdefault(data, []).append(number)

    threads = [threading.Thread(target=encode) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(same) for same in files.values()] == [COUNT]
    read = read_video(tmp_path / "0.mp4")
    assert np.abs(read.astype(int) - frames).mean() < 14  # of 255: sharp edges of strong colours, chroma at half size
