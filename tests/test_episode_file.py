"""Files of episodes: small ones are written at once, large ones grow on the disk, and both read alike."""

import h5py
import numpy as np
import pytest

from sensorium.datasets.episode_file import EpisodeFile, Skeleton
from sensorium.datasets.row_buffer import ROWS


def _write(path, n_rows, width):
    """Write rows and texts in blocks; returns the file, the rows and the texts."""
    skeleton = Skeleton()
    skeleton.set_attribute("seed", 3)
    skeleton.declare("obs/extra/x", (width,), np.dtype(np.float32), (width,), "m")
    file = EpisodeFile(path, 7, skeleton)
    file.add_text("obs_scene", "{}")
    rows = np.random.default_rng(0).standard_normal((n_rows, width)).astype(np.float32)
    texts = [f'{{"step": {step}}}'.encode() for step in range(n_rows)]
    for first in range(0, n_rows, ROWS):
        block = np.zeros((ROWS, width), np.float32)
        part = rows[first : first + ROWS]
        block[: len(part)] = part
        file.extend("obs/extra/x", first, block, len(part))
        file.extend_texts("obs/fixed", first, texts[first : first + ROWS], 32)
        file.extend_texts("obs/free", first, texts[first : first + ROWS], None)
    return file, rows, texts


@pytest.mark.parametrize(("n_rows", "width"), [(1, 3), (300, 7), (ROWS * 9, 512), (ROWS * 3 + 5, 4000)])
def test_content(tmp_path, n_rows, width):
    """2.4 and 6 MB are more than what is kept in memory."""
    file, rows, texts = _write(tmp_path / "a.h5", n_rows, width)
    on_disk = file.part.stat().st_size
    assert (on_disk > 0) == (rows.nbytes > 2**20)
    file.close()
    with h5py.File(file.part) as stored:
        top = stored["traj_7"]
        assert top.attrs["seed"] == 3
        assert top["obs_scene"].asstr()[()] == "{}"
        np.testing.assert_array_equal(top["obs/extra/x"][()], rows)
        assert top["obs/extra/x"].attrs["unit"] == "m"
        assert [bytes(each).rstrip(b"\0") for each in top["obs/fixed"][()]] == texts
        assert [each.encode() for each in top["obs/free"].asstr()[()]] == texts


@pytest.mark.parametrize("width", [7, 4000])
def test_equal_episodes_make_equal_files(tmp_path, width):
    contents = []
    for name in ("a.h5", "b.h5"):
        file, _, _ = _write(tmp_path / name, 300, width)
        file.close()
        contents.append(file.part.read_bytes())
    assert contents[0] == contents[1]


@pytest.mark.parametrize("width", [7, 4000])
def test_a_dropped_file_leaves_nothing(tmp_path, width):
    file, _, _ = _write(tmp_path / "a.h5", 300, width)
    file.drop()
    assert not list(tmp_path.iterdir())
