"""Plots as a person would draw them: units, names, legends beside the curves, scans from above, images on one scale."""

import numpy as np
import pytest
from conftest import drop_scene
from matplotlib.figure import Figure

import sensorium as sn
from sensorium.cli import main
from sensorium.ros import topics
from sensorium.sensors.pictures import ImagePair

ARM = """
<mujoco>
  <worldbody>
    <body><joint name="shoulder" axis="0 1 0"/><geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0"/>
      <body pos="0.3 0 0"><joint name="elbow" axis="0 1 0"/><geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0"/>
        <body pos="0.3 0 0"><joint name="slider" type="slide" axis="1 0 0"/><geom size="0.03"/></body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def room() -> sn.Scene:
    """Return a scene with a free box in the middle of a room, 4 m long (x) and 3 m wide (y)."""
    scene = drop_scene(height=0.1)
    for number, (x, y) in enumerate(((2.1, 0), (-2.1, 0), (0, 1.6), (0, -1.6))):
        scene.add_object(sn.Box(size=(0.2, 4, 2) if x else (5, 0.2, 2)), name=f"wall{number}", pos=(x, y, 1))
    return scene


def labels(figure: Figure) -> list[str]:
    """Return the labels of the y axes of the panels that have one."""
    return [axes.get_ylabel() for axes in figure.axes if axes.get_ylabel()]


def legend_of(figure: Figure, number: int = 0) -> list[str]:
    """Return the texts of a panel's legend."""
    return [text.get_text() for text in figure.axes[number].get_legend().get_texts()]


def test_lines_have_units_axis_names_and_a_legend_beside_the_curves(tmp_path):
    scene = drop_scene()
    imu = scene.add_sensor(sn.IMU(link="box", acc_noise=0.2, delay=0.02))
    pose = scene.add_sensor(sn.FramePose(link="box"))
    scene.build()
    trace = sn.Trace(imu, pose)
    for _ in range(20):
        scene.step()
        trace.take()
    figure = trace.plot(tmp_path / "imu.png")
    assert labels(figure)[:3] == ["lin_acc, m/s²", "ang_vel, rad/s", "mag, T"]
    assert labels(figure)[3:] == ["pos, m", "quat", "lin_vel, m/s", "ang_vel, rad/s"]
    assert legend_of(figure) == ["x", "y", "z", "measured", "ground truth"]
    assert legend_of(figure, 4) == ["w", "x", "y", "z", "measured", "ground truth"]
    assert figure.axes[-1].get_xlabel() == "time, s"
    for axes in figure.axes:  # the legend covers no curve
        assert axes.get_legend().get_window_extent().x0 >= axes.get_window_extent().x1
    measured, truth = figure.axes[0].lines[2].get_ydata(), figure.axes[0].lines[5].get_ydata()
    np.testing.assert_array_equal(measured, trace.values(imu)["lin_acc"][0][:, 2])
    np.testing.assert_array_equal(truth, trace.values(imu)["lin_acc"][1][:, 2])


def test_joints_have_names_and_the_units_of_their_types(tmp_path):
    model = tmp_path / "arm.xml"
    model.write_text(ARM)
    scene = sn.Scene(dt=0.01)
    scene.add_robot(model, name="arm")
    turning = scene.add_sensor(sn.JointEncoder(joints=("shoulder", "elbow"), uuid="turning"))
    sliding = scene.add_sensor(sn.JointEncoder(joints=("slider",), uuid="sliding"))
    both = scene.add_sensor(sn.JointTorque(which="total", history_length=5))
    scene.build()
    scene.step(5)
    figure = turning.plot()
    assert labels(figure) == ["positions, rad", "velocities, rad/s"]
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["arm/shoulder", "arm/elbow"]
    assert labels(sliding.plot()) == ["positions, m", "velocities, m/s"]
    history = both.plot()
    assert labels(history) == ["N·m or N"]
    assert legend_of(history)[:3] == ["arm/shoulder", "arm/elbow", "arm/slider"]
    assert history.axes[0].get_xlabel() == "time before now, s"


def test_units_of_plots_are_those_of_messages(tmp_path):
    model = tmp_path / "arm.xml"
    model.write_text(ARM)
    scene = drop_scene()
    scene.add_robot(model, name="arm")
    mounted = (
        sn.IMU, sn.Attitude, sn.Magnetometer, sn.ForceTorque, sn.ContactForce, sn.Barometer, sn.GPS, sn.FramePose,
        sn.OpticalFlow, sn.Proximity, sn.ContactProbe, sn.ContactDepthProbe, sn.TemperatureGrid, sn.Contact,
        sn.ElastomerDisplacement, sn.DepthCamera, sn.Lidar,
    )  # fmt: skip
    options = [kind(link="box") for kind in mounted]
    options += [sn.TactileArray(link="box", grid=(2, 2), spacing=0.02), sn.Clock(), sn.BatteryState()]
    options += [sn.JointEncoder(joints=("elbow",)), sn.JointTorque(joints=("elbow",))]
    sensors = []
    for option in options:
        sensors.append(option.make_sensor({one.uuid for one in sensors}))
    for sensor in sensors:
        if hasattr(type(sensor), "_turns") or "Joint" in type(sensor).__name__:
            sensor._turns, sensor.joint_names = [True], ["elbow"]
        for home in topics.ros_fields(sensor):
            unit = sensor._plotted_unit(home.field or "value")
            assert unit == ("" if home.unit == "1" else home.unit), (sensor.uuid, home.field)


def test_scan_is_seen_from_above_in_metres():
    scene = room()
    lidar = scene.add_sensor(
        sn.Lidar(link="box", noise=0.02, max_range=10, pattern=sn.SphericalPattern(fov=(360, 0), n_points=(360, 1)))
    )
    scene.build(seed=3)
    scene.step()
    true, seen, error = lidar.plot().axes[:3]
    assert (true.get_xlabel(), true.get_ylabel()) == ("x forward, m (360 of 360 rays return)", "y left, m")
    assert true.get_xlim() == seen.get_xlim()
    assert true.get_ylim() == seen.get_ylim()
    points = true.collections[0].get_offsets()
    assert np.abs(points[:, 0]).max() == pytest.approx(2.0, abs=1e-3)  # the walls
    assert np.abs(points[:, 1]).max() == pytest.approx(1.5, abs=1e-3)
    on_wall = np.minimum(np.abs(np.abs(points[:, 0]) - 2.0), np.abs(np.abs(points[:, 1]) - 1.5))
    assert on_wall.max() < 1e-3
    azimuth, errors = error.collections[0].get_offsets().T
    reading = [one.distances[0, 0].numpy() for one in (lidar.read(), lidar.read_ground_truth())]
    np.testing.assert_allclose(errors, reading[0] - reading[1], atol=1e-6)
    assert np.ptp(azimuth) > 350
    assert "azimuth" in error.get_xlabel()


def test_rows_of_a_lidar_are_coloured_by_height_and_shown_as_range_images():
    scene = room()
    lidar = scene.add_sensor(sn.Lidar(link="box", noise=0.02, max_range=10))
    scene.build(seed=3)
    scene.step()
    axes = lidar.plot().axes
    true, seen = axes[0].collections[0], axes[1].collections[0]
    assert true.get_clim() == seen.get_clim()
    images = [one.images[0] for one in axes if one.images]
    assert images[0].get_clim() == images[1].get_clim()
    assert images[0].get_array().shape == (16, 360)
    low, high = images[2].get_clim()
    assert low == -high
    trace = sn.Trace(lidar)
    for _ in range(3):
        scene.step()
        trace.take()
    over_time = [axes for axes in trace.plot().axes if "mean |error|" in axes.get_ylabel()]
    assert [one.get_ylabel() for one in over_time] == ["mean |error| of\ndistances, m"]
    measured, truth = trace.values(lidar)["distances"]
    with np.errstate(invalid="ignore"):
        size = np.nanmean(np.where(np.isfinite(truth), np.abs(measured - truth), np.nan), axis=(1, 2))
    np.testing.assert_allclose(over_time[0].lines[0].get_ydata(), size, rtol=0.02)


def test_height_scans_and_depth_images_are_images():
    scene = room()
    scan = scene.add_sensor(
        sn.Raycaster(
            link="box",
            pos=(0, 0, 1),
            alignment="yaw",
            max_range=3.0,
            noise=0.01,
            pattern=sn.GridPattern(size=(1.6, 1.0), resolution=0.1),
        )
    )
    depth = scene.add_sensor(sn.DepthCamera(link="box", noise=0.01, width=20, height=10))
    scene.build()
    scene.step()
    image = scan.plot().axes[0].images[0]
    assert image.get_array().shape == (11, 17)  # y upwards, x to the right
    np.testing.assert_allclose(image.get_extent(), (-0.85, 0.85, -0.55, 0.55))
    figure = depth.plot()
    assert [axes.get_title() for axes in figure.axes[:3]] == ["depth: ground truth", "depth: measured", "error"]
    np.testing.assert_array_equal(figure.axes[1].images[0].get_array(), depth.read()[0].numpy())


def test_camera_images_share_one_scale_and_stay_aligned():
    scene = room()
    outputs = ("rgb", "depth", "segmentation", "normals")
    camera = scene.add_sensor(
        sn.Camera(pos=(1.2, -1, 0.8), lookat=(0, 0, 0.1), resolution=(64, 48), outputs=outputs, profile="rgbd")
    )
    try:
        scene.build()
    except sn.DeviceError as error:
        pytest.skip(str(error))
    scene.step()
    figure = camera.plot()
    figure.canvas.draw()
    rows = [figure.axes[3 * i : 3 * i + 3] for i in range(4)]
    assert [row[0].get_title() for row in rows] == [f"{name}: ground truth" for name in outputs]
    for column in range(3):  # rgb and depth are aligned, although only depth has a colour bar
        places = [row[column].get_window_extent() for row in rows]
        assert np.ptp([place.x0 for place in places]) < 1
        assert np.ptp([place.width for place in places]) < 1
    depth = [axes.images[0] for axes in rows[1]]
    assert depth[0].get_clim() == depth[1].get_clim()
    truth = camera.read_ground_truth()
    measured = camera.read()
    levels = np.abs(measured.rgb[0].numpy().astype(float) - truth.rgb[0].numpy()).mean(axis=-1)
    np.testing.assert_allclose(rows[0][2].images[0].get_array(), levels)
    bars = [axes.get_ylabel() for row in rows for one in row for axes in one.child_axes]
    assert bars[:3] == ["levels of 255", "m", "m"]
    assert rows[2][2].get_title() == "error: none"


def test_skin_shows_pressure_as_colour_and_shear_as_arrows():
    scene = drop_scene(height=0.1)
    pad = scene.add_sensor(
        sn.TactileArray(link="box", pos=(0, 0, -0.1), euler=(np.pi, 0, 0), grid=(4, 4), spacing=0.02, noise=0.01)
    )
    scene.build(seed=1)
    scene.step(10)
    figure = pad.plot()
    true, seen, error = figure.axes[:3]
    assert true.collections[0].get_clim() == seen.collections[0].get_clim()
    force, truth = pad.read().force[0].numpy(), pad.read_ground_truth().force[0].numpy()
    np.testing.assert_allclose(seen.collections[0].get_array(), force[:, 2])
    np.testing.assert_allclose(true.collections[0].get_array(), truth[:, 2])
    arrows = seen.collections[1]
    np.testing.assert_allclose(np.stack([arrows.U, arrows.V], -1), force[:, :2], rtol=1e-5)
    np.testing.assert_allclose(np.ptp(seen.collections[0].get_offsets(), axis=0), (60, 60))  # mm
    assert seen.get_xlabel() == "x, mm"
    assert error.get_title() == "error"


def test_temperatures_are_images_of_layers():
    scene = drop_scene(height=0.1)
    grid = scene.add_sensor(sn.TemperatureGrid(link="box", grid_size=(5, 4, 1), temperatures={"box": 60}, noise=0.5))
    scene.build()
    scene.step()
    axes = grid.plot().axes
    assert axes[0].get_title() == "temperature: ground truth"
    assert axes[0].images[0].get_array().shape == (4, 5)
    assert axes[1].child_axes[0].get_ylabel() == "°C"
    assert axes[0].images[0].get_clim() == axes[1].images[0].get_clim()


def test_equal_values_have_the_same_colour_in_both_images():
    axes = np.array(Figure().subplots(1, 3), dtype=object)
    ImagePair("none", "N", np.zeros((2, 2)), np.zeros((2, 2))).draw(axes)
    true, seen = (one.images[0] for one in axes[:2])
    axes[0].figure.canvas.draw()
    assert true.get_clim() == seen.get_clim()  # a colour bar beside one of them changes nothing
    assert axes[2].get_title() == "error: none"


@pytest.mark.parametrize("sensor", ["Raycaster", "TactileArray", "ContactDepthProbe", "lidar:2d"])
def test_plot_command_shows_something_of_each_kind(tmp_path, sensor):
    out = tmp_path / "plot.png"
    assert main(["plot", sensor, "--seconds", "0.05", "--out", str(out)]) == 0
    assert out.stat().st_size > 5000
