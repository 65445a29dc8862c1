"""Plots of traces and readings, snapshots with debug drawings, and the command ``sensorium plot``."""

import mujoco
import numpy as np
import pytest
import torch
from conftest import drop_scene
from matplotlib.image import imread
from probe import Probe, probe_scene

import sensorium as sn
from sensorium.cli import main
from sensorium.sensors.value_log import ValueLog
from sensorium.worlds import Painter


def test_trace_stores_readings_over_time():
    scene, late, prompt = probe_scene(Probe(uuid="late", delay=0.03), Probe(uuid="prompt"), n_envs=2)
    trace = sn.Trace(late, prompt, env=1)
    for _ in range(30):
        scene.step()
        trace.take()
    measured, truth = trace.values(late)["value"]
    times = np.asarray(trace.times)
    np.testing.assert_allclose(truth[:, 0], np.sin(3 * times + 1), atol=1e-5)
    np.testing.assert_allclose(measured[3:, 2], 3 * np.sin(3 * (times[3:] - 0.03) + 1), atol=1e-4)
    assert len(trace.plot().axes) == 2
    with pytest.raises(sn.OptionError, match="take"):
        sn.Trace(late).plot()
    with pytest.raises(sn.OptionError, match="at least one"):
        sn.Trace()


@pytest.mark.parametrize("history", [None, 20])
def test_reading_and_history_are_plotted(tmp_path, history):
    scene, sensor = probe_scene(Probe(noise=0.1, history_length=history), n_envs=2)
    scene.step(20)
    figure = sensor.plot(env=1, path=tmp_path / "new" / "reading.png")
    assert imread(tmp_path / "new" / "reading.png").std() > 0.05
    values = figure.axes[0].lines if history else figure.axes[0].patches
    assert len(values) == 6  # three columns, measured and ground truth
    if history:
        truth = figure.axes[0].lines[3].get_xydata()  # after the measured lines; newest first, seconds before now
        np.testing.assert_allclose(truth[:, 1], np.sin(3 * (0.2 + truth[:, 0]) + 1), atol=1e-5)


def test_unbuilt_sensors_cannot_be_plotted():
    sensor = drop_scene().add_sensor(Probe())
    with pytest.raises(sn.NotBuiltError):
        sensor.plot()


def test_painted_shapes_have_the_given_positions():
    painter = Painter()
    scene = mujoco.MjvScene(mujoco.MjModel.from_xml_string("<mujoco/>"), 100)
    start, end = np.array([1.0, 2.0, 3.0]), np.array([1.5, 1.0, 5.0])
    painter.line(start, end)
    painter.arrow(start, end - start)
    painter.points([[0, 0, 1], [np.nan, 0, 0], [0, 0, 2]])
    painter.frame((0, 0, 0), np.eye(3), size=0.5)
    painter.line(start, start)
    assert painter.add_to(scene) == 0
    assert scene.ngeom == 2 + 2 + 3
    line, arrow = scene.geoms[0], scene.geoms[1]
    axis = np.asarray(line.mat).reshape(3, 3)[:, 2]
    np.testing.assert_allclose(line.pos + axis * line.size[2], end, atol=1e-6)
    np.testing.assert_allclose(line.pos - axis * line.size[2], start, atol=1e-6)
    np.testing.assert_allclose(arrow.pos, start)
    np.testing.assert_allclose(arrow.pos + np.asarray(arrow.mat).reshape(3, 3)[:, 2] * arrow.size[2], end, atol=1e-6)
    assert [scene.geoms[i].pos[2] for i in (2, 3)] == [1.0, 2.0]
    small = mujoco.MjvScene(mujoco.MjModel.from_xml_string("<mujoco/>"), 3)
    assert painter.add_to(small) == 4


def picture(**options):
    """Return a snapshot of a falling box with an IMU."""
    scene = drop_scene(height=0.3)
    scene.add_sensor(sn.IMU(link="box", **options))
    scene.build(n_envs=2)
    return scene.snapshot(env=1, width=160, height=120)


def test_snapshots_show_debug_drawings(tmp_path):
    try:
        plain = picture()
    except sn.DeviceError as error:
        pytest.skip(str(error))
    assert plain.shape == (120, 160, 3)
    assert plain.dtype == np.uint8
    assert plain.std() > 3
    assert (picture() == plain).all()
    drawn = picture(draw_debug=True)
    red = drawn[..., 0].astype(int) - drawn[..., 1]
    assert red.max() > 60 > (plain[..., 0].astype(int) - plain[..., 1]).max()
    scene = drop_scene()
    scene.build(n_envs=1)
    scene.snapshot(path=tmp_path / "scene.png", width=40, height=30)
    assert imread(tmp_path / "scene.png").shape[:2] == (30, 40)
    with pytest.raises(sn.OptionError, match=r"env must be an integer in \[0, 1\)"):
        scene.snapshot(env=1)


def looking_level(**scene_options):
    """Return a snapshot of a box on the ground, with the horizon in the middle of the image."""
    scene = sn.Scene(dt=0.01, **scene_options)
    scene.add_object(sn.Plane(), name="ground")
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2)), name="box", pos=(0, 0, 0.1))
    scene.build()
    view = mujoco.MjvCamera()
    view.lookat[:] = 0, 0, 0.3
    view.distance, view.azimuth, view.elevation = 1.0, 90, -1
    return scene.snapshot(width=120, height=90, camera=view)


def test_snapshots_are_bright_and_have_a_sky():
    try:
        image = looking_level()
    except sn.DeviceError as error:
        pytest.skip(str(error))
    sky, ground = image[:25].astype(int), image[70:].astype(int)
    assert sky.min() > 110  # no black above the horizon
    assert (sky[..., 2] >= sky[..., 0]).all()
    assert ground.mean() > 60
    assert (np.abs(np.diff(image[:, 5].astype(int), axis=0)) < 60).all()  # haze instead of an edge with specks


def test_default_view_shows_everything_in_its_current_pose():
    scene = drop_scene(height=3.0)
    try:
        scene.build()
        falling = scene.snapshot(width=80, height=60)
        scene.step(200)
        resting = scene.snapshot(width=80, height=60)
    except sn.DeviceError as error:
        pytest.skip(str(error))
    middle = (slice(20, 40), slice(30, 50))
    ground = resting[55, 3].astype(int)
    for image in (falling, resting):  # the box is in the middle, also after its fall
        assert np.abs(image[middle].astype(int) - ground).max() > 25


def test_plot_command(tmp_path, capsys):
    out = tmp_path / "imu.png"
    assert main(["plot", "IMU", "--set", "acc_noise=0.5", "delay=0.05", "--seconds", "0.2", "--out", str(out)]) == 0
    assert imread(out).std() > 0.05
    assert "50 ms" in capsys.readouterr().out
    assert main(["plot", "imu:automotive", "--seconds", "0.1", "--out", str(out)]) == 0
    model = tmp_path / "arm.xml"
    model.write_text(
        '<mujoco><worldbody><body name="a"><joint name="j"/><geom size="0.1"/></body></worldbody></mujoco>'
    )
    arguments = ["plot", "JointEncoder", "--model", str(model), "--seconds", "0.1", "--out", str(out)]
    assert main(arguments) == 0
    for bad, message in (
        (["plot", "IMUU"], "did you mean 'IMU'"),
        (["plot", "IMU", "--set", "acc_nois=1"], "did you mean"),
        (["plot", "IMU", "--set", "acc_noise"], "name=value"),
        (["plot", "imo:automotive"], "did you mean 'imu'"),
        (["plt"], "no command 'plt'"),
    ):
        assert main(bad) == 2
        assert message in capsys.readouterr().err
    assert main(["--version"]) == 0
    assert main([]) == 0


def test_values_of_all_types_are_kept_as_they_were():
    rng = np.random.default_rng(0)
    log, held = ValueLog(), []
    kinds = {
        "reading": torch.zeros(3),
        "time": torch.zeros((), dtype=torch.float64),
        "flags": torch.zeros(2, 2, dtype=torch.bool),
        "nothing": torch.zeros(0, 3),
        "ids": torch.zeros(4, dtype=torch.int32),
        "other": torch.zeros(2, 1),
    }
    assert log.column(0) == []
    for step in range(5):
        for value in kinds.values():
            value.copy_(torch.as_tensor(rng.integers(0, 100, value.shape)))
        log.add(list(kinds.values()))
        held.append([value.numpy().copy() for value in kinds.values()])
        if step == 2:
            log.column(1)  # reading does not change what follows
    assert len(log) == 5
    for number in range(len(kinds)):
        for found, value in zip(log.column(number), [each[number] for each in held], strict=True):
            assert found.dtype == value.dtype
            np.testing.assert_array_equal(found, value)
    for wrong in ([torch.zeros(3)], [*list(kinds.values())[:-1], torch.zeros(1, 2)]):
        with pytest.raises(sn.OptionError, match="must keep their number, types and shapes"):
            log.add(wrong)
    assert len(log) == 5
