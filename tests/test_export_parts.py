"""Statistics and concatenated videos of exports."""

import numpy as np
import pytest
from test_export import FPS, QUANTILES, SIZE, encode, picture

from sensorium.datasets.export.stats import ImageStats, RunningStats
from sensorium.datasets.export.videos import VideoJoiner
from sensorium.datasets.video_streams import read_video
from sensorium.errors import DatasetError

# -- statistics -------------------------------------------------------------------------------------------------------


def test_running_statistics_equal_numpy():
    rows = np.random.default_rng(0).normal(5.0, 3.0, (1000, 2, 3)).astype(np.float32)
    running = RunningStats((2, 3), len(rows))
    for part in np.split(rows, [1, 10, 400]):
        running.add(part)
    found = running.get()
    exact = rows.astype(np.float64)
    assert found["count"].tolist() == [1000]
    for name, value in {"min": exact.min(0), "max": exact.max(0), "mean": exact.mean(0), "std": exact.std(0)}.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-12)
    for name, which in QUANTILES.items():
        np.testing.assert_allclose(found[name], np.quantile(exact, which, axis=0), rtol=1e-12)


def test_statistics_ignore_values_that_are_not_finite():
    rows = np.array([[1.0, np.inf], [np.nan, np.inf], [3.0, -np.inf]])
    running = RunningStats((2,), 3)
    running.add(rows[:1])
    running.add(rows[1:])
    found = running.get()
    assert found["mean"].tolist() == [2.0, 0.0]
    assert found["std"].tolist() == [1.0, 0.0]
    assert found["q50"].tolist() == [2.0, 0.0]
    assert (found["min"].tolist(), found["max"].tolist()) == ([1.0, 0.0], [3.0, 0.0])


def test_quantiles_of_many_steps_use_every_kth_step():
    values = np.random.default_rng(1).normal(size=300_000)
    running = RunningStats((1,), len(values))
    for part in np.split(values[:, None], 77 * np.arange(1, 3000)):
        running.add(part)
    found = running.get()
    for name, which in QUANTILES.items():
        assert found[name][0] == np.quantile(values[::5], which)
    np.testing.assert_allclose(found["mean"], values.mean(), atol=1e-12)
    np.testing.assert_allclose(found["std"], values.std(), rtol=1e-12)


def test_image_statistics_equal_numpy():
    images = np.random.default_rng(2).integers(0, 256, (5, 40, 30, 3)).astype(np.uint8)
    images[..., 2] //= 4
    stats, rest = ImageStats(), ImageStats()
    for image in images[:2]:
        stats.add(image)
    for image in images[2:]:
        rest.add(image)
    stats.merge(rest)
    found, plain = stats.get(), images / 255.0
    assert found["count"].tolist() == [5]
    for name, call in {"min": np.min, "max": np.max, "mean": np.mean, "std": np.std}.items():
        np.testing.assert_allclose(found[name][:, 0, 0], call(plain, axis=(0, 1, 2)), rtol=1e-12)
    for name, which in QUANTILES.items():
        expected = np.quantile(plain, which, axis=(0, 1, 2), method="lower")
        np.testing.assert_allclose(found[name][:, 0, 0], expected, rtol=1e-12)


# -- videos -----------------------------------------------------------------------------------------------------------


def test_joined_videos_have_every_frame_once_and_unchanged(tmp_path):
    lengths = [12, 25, 1, 30]
    videos = [
        encode(tmp_path / f"{number}.mp4", [picture("rgb", step, number) for step in range(length + 1)])
        for number, length in enumerate(lengths)
    ]
    joiner = VideoJoiner(tmp_path / "joined", FPS, 1 << 30, 1000)
    spans = [joiner.add(path, length) for path, length in zip(videos, lengths, strict=True)]
    joiner.close()
    frames = read_video(tmp_path / "joined" / "chunk-000" / "file-000.mp4").astype(int)
    assert len(frames) == sum(lengths)
    start = 0
    for path, length, span in zip(videos, lengths, spans, strict=True):
        assert (span.chunk, span.file) == (0, 0)
        assert (span.start * 50, span.end * 50) == pytest.approx((start, start + length))
        was, now = read_video(path)[:length].astype(int), frames[start : start + length]
        copied = length - length % 12
        assert (now[:copied] == was[:copied]).all()
        assert np.abs(now - was).mean() < 1.5  # one step off would be 1.9
        start += length


def test_full_file_or_another_encoder_begins_a_new_file(tmp_path):
    images = [picture("rgb", step) for step in range(14)]
    first = encode(tmp_path / "first.mp4", images)
    other = tmp_path / "other.mp4"
    import av

    with av.open(str(other), "w") as file:  # with other codec parameters
        stream = file.add_stream("libx264", rate=FPS)
        stream.height, stream.width, stream.pix_fmt = *SIZE, "yuv420p"
        stream.options = {"preset": "ultrafast", "crf": "5"}
        for image in images:
            file.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        file.mux(stream.encode())
    joiner = VideoJoiner(tmp_path / "joined", FPS, 1 << 30, 2)
    spans = [joiner.add(path, 13) for path in (first, other, first, first)]
    joiner.close()
    assert [(span.chunk, span.file, span.start) for span in spans[:3]] == [(0, 0, 0), (0, 1, 0), (1, 0, 0)]
    assert (spans[3].chunk, spans[3].file, spans[3].start) == (1, 0, 0.26)
    for name, source, count in (("000/file-000", first, 13), ("000/file-001", other, 13), ("001/file-000", first, 26)):
        frames = read_video(tmp_path / "joined" / f"chunk-{name}.mp4").astype(int)
        assert len(frames) == count
        assert np.abs(frames[:13] - read_video(source)[:13]).mean() < 1.5

    small = VideoJoiner(tmp_path / "small", FPS, 1, 1000)
    assert [small.add(first, 13).file for _ in range(3)] == [0, 1, 2]
    small.close()
    with pytest.raises(DatasetError, match="14 frames instead of 21; run `sensorium validate"):
        small.add(first, 20)
