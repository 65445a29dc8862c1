"""Cameras with a shutter: rate, delay, jitter, drop-outs and history, by the light of a thing that moves."""

import numpy as np
import pytest
import torch
from gl import needs_gl

import sensorium as sn

pytestmark = needs_gl
DT = 0.01
SPEED = 0.02
"""Metres per step that the bar moves."""


def moving(n_envs=2, **options):
    """A bar that crosses the view: one pixel a step, so that its column tells when the image was taken."""
    scene = sn.Scene(dt=DT, substeps=1, gravity=(0, 0, 0))
    model = f"""<mujoco><worldbody><body name="bar" pos="1 0 0"><joint name="y" type="slide" axis="0 -1 0"/>
    <geom type="box" size="0.0001 {SPEED / 2 * 0.9} 1"/></body></worldbody></mujoco>"""
    bar = scene.add_robot(model, name="rig")
    # at 1 m a pixel is SPEED wide: after k steps the bar fills column k
    defaults = {
        "uuid": "c",
        "lookat": (1, 0, 0),
        "focal_length": 1 / SPEED,
        "resolution": (60, 2),
        "principal_point": (0.5, 1.0),
        "outputs": ("segmentation",),
    }
    camera = scene.add_sensor(sn.Camera(**(defaults | options)))
    scene.build(n_envs=n_envs, seed=7)
    bar.set_joint_velocities(SPEED / DT)
    scene.forward()
    return scene, camera


def columns(image):
    """Step at which each env's image (B, 2, 60, 2) was taken."""
    return (image[:, 0, :, 0] >= 0).int().argmax(dim=1).tolist()


def run(scene, camera, steps=12):
    taken = [columns(camera.read().segmentation)]
    for _ in range(steps):
        scene.step()
        taken.append(columns(camera.read().segmentation))
    return np.array(taken)


def test_the_bar_tells_the_time():
    scene, camera = moving()
    assert run(scene, camera)[:, 1].tolist() == list(range(13))


def test_rate_captures_at_its_instants_whoever_reads():
    scene, camera = moving(rate=30.0)
    expected, latest = [], 0
    for step in range(13):
        if np.floor(step * DT * 30 + 1e-6) > np.floor((step - 1) * DT * 30 + 1e-6):
            latest = step
        expected.append(latest)
    assert run(scene, camera)[:, 0].tolist() == expected
    scene, camera = moving(rate=30.0)
    scene.step(count=9)  # nobody reads
    assert columns(camera.read().segmentation) == [expected[9]] * 2
    assert columns(camera.read_ground_truth().segmentation) == [9, 9]


def test_a_rate_renders_at_its_instants_alone():
    scene, camera = moving(rate=10.0)
    start = camera._block.passes
    scene.step(count=9)
    assert camera._block.passes == start
    scene.step()
    assert camera._block.passes == start + 1
    camera.read(), camera.read_ground_truth()
    assert camera._block.passes == start + 1


def test_delay_shows_where_the_bar_was():
    scene, camera = moving(delay=0.03)
    assert run(scene, camera)[:, 0].tolist() == [0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert columns(camera.read_ground_truth().segmentation) == [12, 12]


def test_rate_and_delay_together():
    rate, lag = 40.0, 3
    scene, camera = moving(rate=rate, delay=lag * DT)
    held, latest = [], 0
    for step in range(13):
        if np.floor(step * DT * rate + 1e-6) > np.floor((step - 1) * DT * rate + 1e-6):
            latest = step
        held.append(latest)
    assert run(scene, camera)[:, 1].tolist() == [held[max(0, step - lag)] for step in range(13)]


def test_jitter_is_that_of_other_sensors():
    """The same words as for a sensor of that uuid: delay + U[0, jitter) in whole steps, per env and step."""
    from sensorium.pipeline import formula
    from sensorium.pipeline.kernels import threefry

    scene, camera = moving(delay=0.03, jitter=0.03, n_envs=4)
    taken = run(scene, camera, 20)
    k0, k1 = formula.key(7, "c", formula.TIMING)
    ages = set()
    for step in range(1, 21):
        for env in range(4):
            word = threefry(np.uint32(k0), np.uint32(k1), np.uint32(env), np.uint32(step))[0]
            late = 3.0 + (int(word) >> 8) * 2.0**-24 * 3.0
            age = int(np.ceil(late - 1e-6))
            assert taken[step, env] == max(0, step - age)
            ages.add(age)
    assert len(ages) > 2


def test_dropouts_hold_the_image_before():
    scene, camera = moving(dropout=0.5)
    taken = run(scene, camera, 20)
    held = 0
    for step in range(1, 21):
        for env in range(2):
            assert taken[step, env] in (step, taken[step - 1, env])
            held += int(taken[step, env] != step)
    assert 5 < held < 35


def test_history_is_what_was_read_newest_first():
    for options in ({}, {"delay": 0.02}, {"rate": 30.0}):
        plain = run(*moving(**options))
        scene, camera = moving(history_length=4, **options)
        for step in range(1, 13):
            scene.step()
            window = camera.read().segmentation
            assert window.shape == (2, 4, 2, 60, 2)
            for age in range(4):
                assert columns(window[:, age]) == plain[max(0, step - age)].tolist()
            assert torch.equal(camera.read(history_length=2).segmentation, window[:, :2])
            truth = camera.read_ground_truth().segmentation
            assert [columns(truth[:, age])[0] for age in range(4)] == [max(0, step - age) for age in range(4)]
    with pytest.raises(sn.OptionError, match="history_length=9"):
        camera.read(history_length=9)


def test_reset_starts_those_envs_afresh():
    scene, camera = moving(delay=0.03, history_length=3, n_envs=3)
    scene.step(count=8)
    before = camera.read().segmentation.clone()
    scene.reset(envs=[1])
    after = camera.read().segmentation
    assert torch.equal(after[[0, 2]], before[[0, 2]])
    assert [columns(after[:, age])[1] for age in range(3)] == [0, 0, 0]
    scene["rig"].set_joint_velocities(SPEED / DT, envs=[1])
    scene.step(count=5)
    assert columns(camera.read().segmentation[:, 0]) == [10, 2, 10]


def test_timing_changes_while_running():
    scene, camera = moving(max_delay=0.05)
    scene.step(count=3)
    camera.set(delay=0.02, envs=[1])
    scene.step(count=4)
    assert columns(camera.read().segmentation) == [7, 5]
    with pytest.raises(sn.OptionError, match="max_delay"):
        camera.set(delay=0.2)
    scene, camera = moving()
    scene.step(count=2)
    camera.set(rate=10.0)  # a camera without a shutter gets one
    scene.step(count=5)
    assert columns(camera.read().segmentation) == [2, 2]
    scene.step(count=5)
    assert columns(camera.read().segmentation) == [10, 10]


def test_outputs_that_are_switched_on_later_are_captured_too():
    scene, camera = moving(rate=10.0, delay=0.02)
    scene.step(count=4)
    camera.enable_rgb_rendering()
    assert camera.read().rgb.shape == (2, 2, 60, 3)
    scene.step(count=8)
    assert columns(camera.read().segmentation) == [10, 10]


def test_readings_do_not_depend_on_batch_size_or_readers():
    options = {"rate": 50.0, "delay": 0.02, "jitter": 0.02, "dropout": 0.2}
    one, many = run(*moving(n_envs=1, **options)), run(*moving(n_envs=5, **options))
    assert one[:, 0].tolist() == many[:, 0].tolist()
    scene, camera = moving(n_envs=5, **options)
    scene.step(count=12)
    assert columns(camera.read().segmentation) == many[-1].tolist()


# -- lens, imager and shutter, on the measured branch ---------------------------------------


def linear(image):
    """sRGB to linear light."""
    value = image.double() / 255
    return torch.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def test_a_profile_acts_on_what_is_measured_alone():
    noisy = sn.CameraProfile(full_well=2000, read_noise=5, vignette=0.5)
    options = {"outputs": ("rgb", "segmentation")}
    scene, camera = moving(profile=noisy, **options)
    _, plain = moving(**options)
    truth, measured = camera.read_ground_truth(), camera.read()
    assert torch.equal(truth.rgb, plain.read().rgb)
    assert not torch.equal(measured.rgb, truth.rgb)
    assert torch.equal(measured.segmentation, truth.segmentation)
    first, address = measured.rgb.clone(), measured.rgb.data_ptr()
    assert torch.equal(camera.read().rgb, first)
    camera.set_pose(pos=(0, 0, 0.001), envs=[1])
    assert torch.equal(camera.read().rgb[0], first[0])  # no new draw within a step
    scene.step()
    assert camera.read().rgb.data_ptr() == address
    _, alone = moving(n_envs=1, profile=noisy, **options)
    assert torch.equal(alone.read().rgb[0], first[0])


def test_noise_is_frozen_in_at_capture():
    scene, camera = moving(profile=sn.CameraProfile(full_well=500, read_noise=20), rate=10.0, outputs=("rgb",))
    scene.step(count=3)
    first = camera.read().rgb.clone()
    scene.step(count=3)
    assert torch.equal(camera.read().rgb, first)
    scene.step(count=5)
    assert not torch.equal(camera.read().rgb, first)


def test_a_lens_that_bends_inwards_has_no_black_border():
    scene = sn.Scene()
    scene.add_object(sn.Box(size=(0.1, 20, 20), rgba=(1, 1, 1, 1)), pos=(1, 0, 0))
    camera = scene.add_sensor(
        sn.Camera(
            lookat=(1, 0, 0), resolution=(60, 40), fov=50, profile=sn.CameraProfile(k1=-0.1), outputs=("rgb", "depth")
        )
    )
    scene.build()
    truth, measured = camera.read_ground_truth(), camera.read()
    assert camera.view.width > 60
    assert truth.rgb.shape == measured.rgb.shape == (1, 40, 60, 3)
    assert int(measured.rgb.min()) > 100
    assert float((measured.depth - 0.95).abs().max()) < 2e-3
    assert camera.intrinsics[0, :2, 2].tolist() == [30, 20]
    assert camera.pick_pixel(0, 30, 20).position == pytest.approx((0.95, 0, 0), abs=0.02)


def test_exposure_blurs_what_moves():
    options = {"outputs": ("rgb", "segmentation")}
    scene, camera = moving(exposure=0.04, **options)
    twin, plain = moving(**options)
    scene.step(count=10)
    twin.step(count=10)
    sharp = linear(plain.read().rgb)[0, 0, :, 0]
    assert torch.equal(camera.read_ground_truth().rgb, plain.read().rgb)
    blurred = linear(camera.read().rgb)[0, 0, :, 0]
    # of the 8 sub-frames, half a pixel apart, those at whole pixels show the bar in the centre of one
    assert blurred.nonzero().flatten().tolist() == [7, 8, 9, 10]
    assert blurred[7:11].tolist() == pytest.approx([float(sharp[10]) / 8] * 4, rel=0.1)
    assert columns(camera.read().segmentation) == [10, 10]
    scene.step(count=3)
    twin.step(count=3)
    assert torch.equal(scene.get_state(), twin.get_state())
    scene.reset(envs=[1])
    assert linear(camera.read().rgb)[1, 0, :, 0].nonzero().flatten().tolist() == [0]


def test_rolling_shutter_takes_rows_one_after_the_other():
    scene, camera = moving(
        rolling_shutter=0.08,
        profile=sn.CameraProfile(rolling_frames=9),
        resolution=(60, 9),
        principal_point=(0.5, 4.5),
        outputs=("rgb", "segmentation"),
    )
    scene.step(count=12)
    data = camera.read()
    rows = (data.segmentation[1, :, :, 0] >= 0).int().argmax(dim=1).tolist()
    assert rows == list(range(4, 13))  # the bottom row is that of now
    assert (data.rgb[1, :, :, 0] > 0).int().argmax(dim=1).tolist() == rows
    truth = camera.read_ground_truth().segmentation[1, :, :, 0]
    assert (truth >= 0).int().argmax(dim=1).tolist() == [12] * 9


def test_a_camera_on_a_link_is_blurred_by_its_own_motion():
    scene = sn.Scene(dt=DT, substeps=1, gravity=(0, 0, 0))
    scene.add_object(sn.Box(size=(0.01, 0.018, 1)), pos=(1, -0.21, 0))
    carrier = scene.add_object(sn.Box(size=(0.01, 0.01, 0.01), collide=False), name="carrier", free=True)
    camera = scene.add_sensor(
        sn.Camera(
            link="carrier",
            lookat=(1, 0, 0),
            focal_length=50.0,
            resolution=(40, 4),
            rolling_shutter=0.02,
            outputs=("depth",),
        )
    )
    scene.build()
    scene.world.bind("qvel")[:, 1] = -2.0  # a pixel a step to the right
    scene.forward()
    scene.step(count=5)
    assert carrier.get_pose()[0][0, 1].item() == pytest.approx(-0.1)
    # it was at 20 + 50 * 0.21 = 30.5, and goes left as the camera goes right; the top row is 2 steps old
    rows = torch.isfinite(camera.read().depth[0]).int().argmax(dim=1).tolist()
    assert (rows[0], rows[-1]) == (27, 25)
    assert torch.isfinite(camera.read_ground_truth().depth[0]).int().argmax(dim=1).tolist() == [25] * 4


def test_the_way_of_a_gpu_gives_the_same_images(monkeypatch):
    from test_graph_path import GraphWorld

    from sensorium.worlds import scene as scenes

    options = {"rate": 50.0, "delay": 0.02, "jitter": 0.02, "dropout": 0.2, "history_length": 2, "n_envs": 3}
    plain, camera = moving(**options)
    with monkeypatch.context() as patched:
        patched.setattr(scenes, "MujocoWorld", GraphWorld)
        graph, other = moving(**options)
    assert isinstance(graph.world, GraphWorld)
    for step in range(12):
        for scene in (plain, graph):
            scene.step()
            if step == 6:
                scene.reset(envs=[1])
        assert torch.equal(camera.read().segmentation, other.read().segmentation), step
        assert torch.equal(camera.read_ground_truth().segmentation, other.read_ground_truth().segmentation), step
