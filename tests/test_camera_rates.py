"""What is rendered: cameras of different rates side by side, counted per camera and env by ``camera.render_count``."""

import numpy as np
import pytest
import torch
from camera_scenes import build_room, front
from gl import needs_gl

import sensorium as sn

RENDERERS = [pytest.param("raster", marks=needs_gl), "batch"]


def counts(*cameras):
    """Return the counts of all cameras, (cameras, B)."""
    return np.stack([camera.render_count.numpy() for camera in cameras])


def is_due(step, rate, dt=0.01):
    """Return whether the step that ends at ``step * dt`` contains a sample time."""
    return np.floor(step * dt * rate + 1e-6) > np.floor((step - 1) * dt * rate + 1e-6)


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.slow
def test_slow_cameras_are_not_rendered_when_a_neighbour_is_read(renderer):
    rates = {"live": None, "slow": 1.0, "medium": 10.0, "fast": 40.0}
    scene, *cameras = build_room(*(front(uuid=name, rate=rate, renderer=renderer) for name, rate in rates.items()))
    for camera in cameras:
        camera.read()
    previous = counts(*cameras)
    total = np.zeros(4, int)
    for step in range(1, 121):
        scene.step()
        for camera in cameras:
            camera.read()
        now = counts(*cameras)
        due = [1 if rate is None else int(is_due(step, rate)) for rate in rates.values()]
        assert np.array_equal(now - previous, np.repeat(np.array(due)[:, None], 3, 1)), step
        total += due
        previous = now
    assert total.tolist() == [120, 1, 12, 48]


@pytest.mark.parametrize("renderer", RENDERERS)
def test_each_camera_is_rendered_only_in_the_envs_that_are_due_after_a_partial_reset(renderer):
    """Sample times count from the reset of an env, so after a partial reset the envs of a camera are due apart."""
    rates = (10.0, 25.0)
    cameras = [front(uuid=f"c{rate:g}", rate=rate, renderer=renderer) for rate in rates]
    scene, live, *timed = build_room(front(uuid="live", renderer=renderer), *cameras, n_envs=3)
    for _ in range(2):
        scene.step()
        live.read()
    before = counts(live, *timed)
    scene.reset(envs=[1])
    assert np.array_equal(counts(live, *timed) - before, [[0, 0, 0], [0, 1, 0], [0, 1, 0]])  # the frame at reset
    live.read()
    assert np.array_equal(counts(live, *timed) - before, [[0, 1, 0], [0, 1, 0], [0, 1, 0]])
    age, apart = np.array([2, 0, 2]), 0
    for _ in range(40):
        previous = counts(live, *timed)
        scene.step()
        live.read()
        age += 1
        due = np.array([[1, 1, 1], *([int(is_due(step, rate)) for step in age] for rate in rates)])
        assert np.array_equal(counts(live, *timed) - previous, due), age
        apart += int(0 < due[1].sum() < 3 and 0 < due[2].sum() < 3 and (due[1] != due[2]).any())
    assert apart > 0  # some steps capture the cameras in different envs


@needs_gl
def test_ground_truth_of_a_slow_camera_is_current_and_counted():
    scene, live, slow = build_room(front(outputs=("depth",)), front(uuid="slow", rate=1.0, outputs=("depth",)))
    for _ in range(4):
        scene.step(count=20)
        live.read()
        start = counts(slow)
        assert not torch.equal(slow.read().depth, live.read().depth)  # the frame of the reset
        assert np.array_equal(counts(slow), start)
        assert torch.equal(slow.read_ground_truth().depth, live.read_ground_truth().depth)
        slow.read_ground_truth()
        assert np.array_equal(counts(slow), start + 1)


@needs_gl
def test_sub_frames_and_partial_changes_are_counted():
    scene, plain, blurred = build_room(front(), front(uuid="blurred", exposure=0.005))
    plain.read()
    start = counts(plain, blurred)
    scene["box"].set_pose(pos=(1, 0.1, 1.1), envs=[2])
    blurred.read()
    assert np.array_equal(counts(plain, blurred) - start, [[0, 0, 1], [0, 0, 1]])  # placed, which is not a motion
    scene.step(count=3)  # the box falls
    start = counts(plain, blurred)
    blurred.read()
    assert np.array_equal(counts(plain, blurred) - start, [[1, 1, 1], [8, 8, 8]])
    with pytest.raises(sn.NotBuiltError, match="render_count"):
        sn.Scene().add_sensor(front()).render_count  # noqa: B018
