"""Timed cameras and shutters: rate, delay, jitter, drop-outs, history, motion blur, with a moving bar as a clock."""

import numpy as np
import pytest
import torch
from gl import needs_gl

import sensorium as sn
from sensorium.cameras.imager.lens import Intrinsics

pytestmark = needs_gl
DT = 0.01
SPEED = 0.02
"""Speed of the bar, m per step."""


def moving(n_envs=2, **options):
    """Build a bar that moves by one pixel per step, so that its column is the step at which an image was taken."""
    scene = sn.Scene(dt=DT, substeps=1, gravity=(0, 0, 0))
    model = f"""<mujoco><worldbody><body name="bar" pos="1 0 0"><joint name="y" type="slide" axis="0 -1 0"/>
    <geom type="box" size="0.0001 {SPEED / 2 * 0.9} 1"/></body></worldbody></mujoco>"""
    bar = scene.add_robot(model, name="rig")
    # at 1 m a pixel is SPEED wide, so after k steps the bar fills column k
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


def captured_steps(image):
    """Return the step at which each env's image (B, 2, 60, 2) was captured."""
    return (image[:, 0, :, 0] >= 0).int().argmax(dim=1).tolist()


def run(scene, camera, steps=12):
    """Step the scene, and return the capture steps of all readings, (steps + 1, B)."""
    taken = [captured_steps(camera.read().segmentation)]
    for _ in range(steps):
        scene.step()
        taken.append(captured_steps(camera.read().segmentation))
    return np.array(taken)


def test_column_of_the_bar_is_the_step():
    scene, camera = moving()
    assert run(scene, camera)[:, 1].tolist() == list(range(13))


def test_rate_captures_at_its_sample_times_independently_of_reads():
    scene, camera = moving(rate=30.0)
    expected, latest = [], 0
    for step in range(13):
        if np.floor(step * DT * 30 + 1e-6) > np.floor((step - 1) * DT * 30 + 1e-6):
            latest = step
        expected.append(latest)
    assert run(scene, camera)[:, 0].tolist() == expected
    scene, camera = moving(rate=30.0)
    scene.step(count=9)  # without reads
    assert captured_steps(camera.read().segmentation) == [expected[9]] * 2
    assert captured_steps(camera.read_ground_truth().segmentation) == [9, 9]


def test_rate_renders_only_at_its_sample_times():
    scene, camera = moving(rate=10.0)
    start = camera._render_pass.passes
    scene.step(count=9)
    assert camera._render_pass.passes == start
    scene.step()
    assert camera._render_pass.passes == start + 1
    camera.read(), camera.read_ground_truth()
    assert camera._render_pass.passes == start + 1


def test_delay_returns_earlier_frames():
    scene, camera = moving(delay=0.03)
    assert run(scene, camera)[:, 0].tolist() == [0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert captured_steps(camera.read_ground_truth().segmentation) == [12, 12]


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
    """Each frame has a latency of its own, and the youngest that has arrived is read, as with any other sensor."""
    from sensorium.pipeline import formula
    from sensorium.pipeline.kernels import threefry

    def word(k0, k1, c0, c1):
        return threefry(*(np.uint32(value) for value in (k0, k1, c0, c1)))

    scene, camera = moving(delay=0.03, jitter=0.03, n_envs=4)
    taken = run(scene, camera, 20)
    key = formula.key(7, "c", formula.TIMING)
    ages = set()
    for env in range(4):
        arrival = {0: 0.0}
        for step in range(1, 21):
            drawn = word(*key, *word(env, 0, step, formula.DRAW))[0]
            arrival[step] = step + 3.0 + (int(drawn) >> 8) * 2.0**-24 * 3.0
            newest = max(frame for frame, time in arrival.items() if time <= step + 1e-6)
            assert taken[step, env] == newest
            ages.add(step - newest)
    assert len(ages) > 2


def test_dropouts_hold_the_previous_frame():
    scene, camera = moving(dropout=0.5)
    taken = run(scene, camera, 20)
    held = 0
    for step in range(1, 21):
        for env in range(2):
            assert taken[step, env] in (step, taken[step - 1, env])
            held += int(taken[step, env] != step)
    assert 5 < held < 35


def test_history_contains_earlier_readings_newest_first():
    for options in ({}, {"delay": 0.02}, {"rate": 30.0}):
        plain = run(*moving(**options))
        scene, camera = moving(history_length=4, **options)
        for step in range(1, 13):
            scene.step()
            window = camera.read().segmentation
            assert window.shape == (2, 4, 2, 60, 2)
            for age in range(4):
                assert captured_steps(window[:, age]) == plain[max(0, step - age)].tolist()
            assert torch.equal(camera.read(history_length=2).segmentation, window[:, :2])
            truth = camera.read_ground_truth().segmentation
            assert [captured_steps(truth[:, age])[0] for age in range(4)] == [max(0, step - age) for age in range(4)]
    with pytest.raises(sn.OptionError, match="history_length=9"):
        camera.read(history_length=9)


def test_reset_restarts_only_the_given_envs():
    scene, camera = moving(delay=0.03, history_length=3, n_envs=3)
    scene.step(count=8)
    before = camera.read().segmentation.clone()
    scene.reset(envs=[1])
    after = camera.read().segmentation
    assert torch.equal(after[[0, 2]], before[[0, 2]])
    assert [captured_steps(after[:, age])[1] for age in range(3)] == [0, 0, 0]
    scene["rig"].set_joint_velocities(SPEED / DT, envs=[1])
    scene.step(count=5)
    assert captured_steps(camera.read().segmentation[:, 0]) == [10, 2, 10]


def test_timing_can_change_at_run_time():
    scene, camera = moving(max_delay=0.05)
    scene.step(count=3)
    camera.set(delay=0.02, envs=[1])
    scene.step(count=4)
    assert captured_steps(camera.read().segmentation) == [7, 5]
    with pytest.raises(sn.OptionError, match="max_delay"):
        camera.set(delay=0.2)
    scene, camera = moving()
    scene.step(count=2)
    camera.set(rate=10.0)  # makes an untimed camera timed
    scene.step(count=5)
    assert captured_steps(camera.read().segmentation) == [2, 2]
    scene.step(count=5)
    assert captured_steps(camera.read().segmentation) == [10, 10]


def test_outputs_enabled_later_are_captured_too():
    scene, camera = moving(rate=10.0, delay=0.02)
    scene.step(count=4)
    camera.enable_rgb_rendering()
    assert camera.read().rgb.shape == (2, 2, 60, 3)
    scene.step(count=8)
    assert captured_steps(camera.read().segmentation) == [10, 10]


def test_readings_do_not_depend_on_batch_size_or_on_reads():
    options = {"rate": 50.0, "delay": 0.02, "jitter": 0.02, "dropout": 0.2}
    one, many = run(*moving(n_envs=1, **options)), run(*moving(n_envs=5, **options))
    assert one[:, 0].tolist() == many[:, 0].tolist()
    scene, camera = moving(n_envs=5, **options)
    scene.step(count=12)
    assert captured_steps(camera.read().segmentation) == many[-1].tolist()


# -- profiles and shutters ---------------------------------------------------------------------------------------------


def linear(image):
    """Convert sRGB to linear light."""
    value = image.double() / 255
    return torch.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def test_profile_changes_only_measured_images():
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
    assert torch.equal(camera.read().rgb[0], first[0])  # no new noise within a step
    scene.step()
    assert camera.read().rgb.data_ptr() == address
    _, alone = moving(n_envs=1, profile=noisy, **options)
    assert torch.equal(alone.read().rgb[0], first[0])


def test_the_noise_of_a_frame_does_not_depend_on_the_time_step():
    frames = []
    for dt in (0.05, 0.01):
        scene = sn.Scene(dt=dt)
        scene.add_object(sn.Plane())
        profile = sn.CameraProfile(full_well=500, read_noise=20)
        camera = scene.add_sensor(
            sn.Camera(
                pos=(0, 0, 2), lookat=(0.1, 0, 0), resolution=(16, 12), renderer="batch", rate=10.0, profile=profile
            )
        )
        scene.build(n_envs=2)
        frames.append([])
        for _ in range(3):
            scene.step(count=round(0.1 / dt))
            frames[-1].append(camera.read().rgb.clone())
    for coarse, fine in zip(*frames, strict=True):
        assert torch.equal(coarse, fine)
        assert coarse.float().std() > 1
    assert not torch.equal(frames[0][0], frames[0][1])


def test_noise_is_drawn_at_capture():
    scene, camera = moving(profile=sn.CameraProfile(full_well=500, read_noise=20), rate=10.0, outputs=("rgb",))
    scene.step(count=3)
    first = camera.read().rgb.clone()
    scene.step(count=3)
    assert torch.equal(camera.read().rgb, first)
    scene.step(count=5)
    assert not torch.equal(camera.read().rgb, first)


def test_barrel_distortion_has_no_black_border():
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


@pytest.mark.parametrize("outputs", [("points",), ("depth", "points")])
@pytest.mark.parametrize("lens", [{}, {"k1": -0.15}])
def test_measured_points_are_computed_from_measured_depth(outputs, lens):
    profile = sn.CameraProfile(depth_noise=(0.05, 0, 0), min_range=0.5, max_range=3.0, **lens)
    scene = sn.Scene()
    scene.add_object(sn.Box(size=(0.1, 20, 20)), pos=(2.05, 0, 0))
    scene.add_object(sn.Box(size=(0.02, 0.2, 0.2)), name="near", pos=(0.3, 0.1, 0))
    options = {"pos": (0, 0.1, 0.2), "lookat": (2, -0.3, 0), "resolution": (64, 48), "fov": 50, "profile": profile}
    camera = scene.add_sensor(sn.Camera(**options, outputs=outputs))
    twin = scene.add_sensor(sn.Camera(**options, outputs=("depth", "rgb"), uuid=camera.uuid + "2"))
    scene.build(n_envs=2)
    camera.set_pose(pos=(0.1, 0.1, 0.2), lookat=(2, -0.3, 0), envs=[1])
    measured, truth = camera.read(), camera.read_ground_truth()
    assert truth.points[0, 24, 60, 0] == pytest.approx(2.0, abs=1e-3)
    out = camera.extrinsics_cv
    own = measured.points @ out[:, None, :, :3].transpose(-1, -2) + out[:, None, None, :, 3]
    lost = torch.isnan(own[..., 2])
    assert bool(lost.any(dim=(1, 2)).all())  # the near box is below min_range
    z = own[..., 2]
    wall = torch.isfinite(z) & (truth.points[..., 0] > 1)
    assert float((measured.points - truth.points)[wall].norm(dim=-1).mean()) > 0.02
    # along the rays of the lens
    matrix = camera.intrinsics
    fx, fy, cx, cy = (matrix[:, i, j].view(-1, 1, 1) for i, j in ((0, 0), (1, 1), (0, 2), (1, 2)))
    x, y = profile.rays(Intrinsics(*(value.flatten() for value in (fx, fy, cx, cy))), (64, 48))
    assert torch.allclose((own[..., 0] / z)[wall], x[wall], atol=1e-4)
    assert torch.allclose((own[..., 1] / z)[wall], y[wall], atol=1e-4)
    if "depth" in outputs:
        assert torch.equal(lost, measured.depth == 0)
        assert torch.allclose(z[~lost], measured.depth[~lost], atol=1e-5)
    else:
        assert measured.depth is None
    # without a lens, the depth differs from the ground truth only by noise
    off = (z - twin.read_ground_truth().depth)[~lost] if not lens else None
    if off is not None:
        assert float(off[: len(off) // 2].std()) == pytest.approx(0.05, rel=0.1)
    kept = measured.points.clone()
    camera.set_pose(pos=(0.2, 0.1, 0.2), envs=[1])
    assert torch.equal(camera.read().points[0].nan_to_num(), kept[0].nan_to_num())


def test_points_of_a_distorting_lens_agree_with_depth():
    scene = sn.Scene()
    scene.add_object(sn.Box(size=(0.1, 20, 20)), pos=(2.05, 0, 0))
    camera = scene.add_sensor(
        sn.Camera(lookat=(2, -0.5, 0), profile=sn.CameraProfile(k1=-0.15), outputs=("depth", "points"))
    )
    scene.build()
    data, out = camera.read(), camera.extrinsics_cv[0]
    assert torch.allclose(data.points[..., 0], torch.tensor(2.0), atol=2e-3)
    assert torch.allclose((data.points @ out[:, :3].T + out[:, 3])[..., 2], data.depth, atol=1e-5)


def test_exposure_blurs_moving_objects():
    options = {"outputs": ("rgb", "segmentation")}
    scene, camera = moving(exposure=0.04, **options)
    twin, plain = moving(**options)
    scene.step(count=10)
    twin.step(count=10)
    sharp = linear(plain.read().rgb)[0, 0, :, 0]
    assert torch.equal(camera.read_ground_truth().rgb, plain.read().rgb)
    blurred = linear(camera.read().rgb)[0, 0, :, 0]
    # 8 sub-frames from 4 steps ago (the bar in column 6) until now; the first and the last have half the weight
    assert blurred.nonzero().flatten().tolist() == [6, 7, 8, 9, 10]
    assert blurred[6:11].tolist() == pytest.approx([float(sharp[10]) * w / 7 for w in (0.5, 2, 2, 2, 0.5)], rel=0.2)
    assert captured_steps(camera.read().segmentation) == [10, 10]
    scene.step(count=3)
    twin.step(count=3)
    assert torch.equal(scene.get_state(), twin.get_state())
    scene.reset(envs=[1])
    assert linear(camera.read().rgb)[1, 0, :, 0].nonzero().flatten().tolist() == [0]


def test_rolling_shutter_captures_rows_at_different_times():
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
    assert rows == list(range(4, 13))  # the bottom row shows the current state
    assert (data.rgb[1, :, :, 0] > 0).int().argmax(dim=1).tolist() == rows
    truth = camera.read_ground_truth().segmentation[1, :, :, 0]
    assert (truth >= 0).int().argmax(dim=1).tolist() == [12] * 9


def record_draws(camera, monkeypatch):
    """Return a list to which every render call adds its number of envs."""
    drawn, renderer = [], camera._render_pass._renderer
    render = renderer.render
    n_envs = camera.group.n_envs
    count = lambda envs: n_envs if envs is None else len(envs)  # noqa: E731
    monkeypatch.setattr(renderer, "render", lambda views, envs: (drawn.append(count(envs)), render(views, envs)))
    return drawn


def test_rows_of_a_rolling_shutter_share_sub_frames(monkeypatch):
    scene, camera = moving(
        n_envs=3,
        rolling_shutter=0.08,
        exposure=0.02,
        profile=sn.CameraProfile(rolling_frames=9, exposure_time=0.02, motion_blur=4),
        resolution=(60, 9),
        principal_point=(0.5, 4.5),
        outputs=("rgb", "segmentation"),
    )
    drawn = record_draws(camera, monkeypatch)
    scene.step(count=14)
    data = camera.read()
    assert drawn == [3] * 12  # 9 + 4 - 1 including the current state; not 36
    light = linear(data.rgb)[1, :, :, 0]
    where = (light * torch.arange(60)).sum(1) / light.sum(1)
    middle = torch.arange(6.0, 15.0) - 1  # one row per step, minus half of the exposure of 2 steps
    assert (where - middle).abs().max() < 0.5
    assert (where - middle).mean().abs() < 0.1
    assert (light > 0).sum(1).min() >= 2
    row, column = (data.segmentation[1, :, :, 0] >= 0).nonzero().T  # between two columns the bar is in neither
    assert len(row) >= 8
    assert (column - (row + 6)).abs().max() <= 1
    truth = camera.read_ground_truth().segmentation[1, :, :, 0]
    assert (truth >= 0).int().argmax(dim=1).tolist() == [14] * 9
    before = data.rgb.clone()
    drawn.clear()
    scene.reset(envs=[2])
    assert torch.equal(camera.read().rgb[:2], before[:2])
    assert drawn == [1]  # the env that was reset has not moved
    assert linear(camera.read().rgb)[2, :, :, 0].nonzero()[:, 1].unique().tolist() == [0]


def test_batch_renderer_reuses_its_plans_for_sub_frames(monkeypatch):
    from sensorium.cameras.batch.tracer import Tracer

    scene, camera = moving(n_envs=1, exposure=0.04, renderer="batch", outputs=("rgb", "segmentation"))
    twin, plain = moving(n_envs=1, renderer="batch", outputs=("rgb", "segmentation"))
    scene.step(count=10)
    twin.step(count=10)
    assert linear(camera.read().rgb)[0, 0, :, 0].nonzero().flatten().tolist() == [6, 7, 8, 9, 10]
    made = []
    make = Tracer._make_plan
    monkeypatch.setattr(Tracer, "_make_plan", lambda *given: (made.append(1), make(*given))[1])
    scene.step()
    twin.step()
    assert linear(camera.read().rgb)[0, 0, :, 0].nonzero().flatten().tolist() == [7, 8, 9, 10, 11]
    assert torch.equal(camera.read_ground_truth().rgb, plain.read().rgb)
    assert torch.equal(camera.read().segmentation, plain.read().segmentation)
    assert not made


def test_rolling_shutter_can_act_on_colour_only():
    options = {"resolution": (60, 9), "principal_point": (0.5, 4.5), "outputs": ("rgb", "depth", "segmentation")}
    profile = sn.CameraProfile(rolling_shutter=0.08, rolling_frames=9, rolling_depth=False)
    scene, camera = moving(profile=profile, **options)
    scene.step(count=12)
    data, truth = camera.read(), camera.read_ground_truth()
    assert (data.rgb[1, :, :, 0] > 0).int().argmax(dim=1).tolist() == list(range(4, 13))
    assert torch.equal(data.depth, truth.depth)
    assert torch.isfinite(data.depth[1]).int().argmax(dim=1).tolist() == [12] * 9
    assert torch.equal(data.segmentation, truth.segmentation)
    assert not sn.CameraProfile.named("rgbd").rolling_depth
    scene, camera = moving(profile=profile, **{**options, "outputs": ("depth",)})
    scene.step(count=12)
    assert torch.isfinite(camera.read().depth[1]).int().argmax(dim=1).tolist() == [12] * 9
    assert camera._render_pass.passes == 1


def test_memory_of_shutters_and_lenses_is_reported():
    _, plain = moving(outputs=("rgb",))
    _, lens = moving(outputs=("rgb",), profile=sn.CameraProfile(k1=0.1))
    scene, slow = moving(outputs=("rgb",), profile=sn.CameraProfile(k1=0.1), exposure=0.02)
    scene.step(count=3)
    slow.read()
    image = 2 * 2 * 60 * 3
    one, two, three = (camera._images.n_bytes for camera in (plain, lens, slow))
    assert one == image
    assert two == 2 * image + 2 * 60 * 3 * 4  # measured images, and the lens map
    assert three == two + 2 * image + 4 * image  # a sub-frame, the exposed image, and the sum of light


def test_rolling_shutter_sees_the_motion_of_the_camera():
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
    scene.world.bind("qvel")[:, 1] = -2.0  # one pixel per step to the right
    scene.forward()
    scene.step(count=5)
    assert carrier.get_pose()[0][0, 1].item() == pytest.approx(-0.1)
    # the box was at 20 + 50 * 0.21 = 30.5, and moves left as the camera moves right; the top row is 2 steps old
    rows = torch.isfinite(camera.read().depth[0]).int().argmax(dim=1).tolist()
    assert (rows[0], rows[-1]) == (27, 25)
    assert torch.isfinite(camera.read_ground_truth().depth[0]).int().argmax(dim=1).tolist() == [25] * 4


def test_graph_path_gives_the_same_images(monkeypatch):
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
