"""Properties that all sensors share: drawing, pickling, options as JSON, and the rejection of wrong options."""

import math
import pickle

import numpy as np
import pytest
import torch
from conftest import drop_scene
from matplotlib.image import imread

import sensorium as sn
from sensorium.sensors.rays.patterns import Pattern
from sensorium.worlds import Painter

ROVER = """
<mujoco><worldbody><body name="base" pos="0 0 0.2"><freejoint/><geom type="box" size="0.15 0.1 0.04" mass="3"/>
  <site name="wrist" pos="0 0 0.04"/>
  <body name="left" pos="0 0.13 0"><joint name="left" axis="0 1 0"/><geom size="0.05" mass="0.3"/></body>
  <body name="right" pos="0 -0.13 0"><joint name="right" axis="0 1 0"/><geom size="0.05" mass="0.3"/></body>
</body></worldbody><actuator><velocity joint="left"/><velocity joint="right"/></actuator></mujoco>"""
TOP = {"link": "base", "pos": (0, 0, 0.04)}
EVERY = {
    "imu": sn.IMU(link="base"),
    "contact": sn.Contact(link="left"),
    "force": sn.ContactForce(link="base"),
    "encoder": sn.JointEncoder(robot="rover"),
    "pose": sn.FramePose(link="base"),
    "torque": sn.JointTorque(robot="rover"),
    "wrench": sn.ForceTorque(link="left"),
    "wrist": sn.ForceTorque(link="wrist"),
    "attitude": sn.Attitude(link="base"),
    "barometer": sn.Barometer(link="base"),
    "gps": sn.GPS(link="base"),
    "magnetometer": sn.Magnetometer(link="base"),
    "flow": sn.OpticalFlow(link="base"),
    "odometry": sn.WheelOdometry(left="left", right="right", radius=0.05, track=0.26),
    "battery": sn.BatteryState(),
    "clock": sn.Clock(),
    "proximity": sn.Proximity(link="base"),
    "probe": sn.ContactProbe(**TOP),
    "depth": sn.ContactDepthProbe(**TOP),
    "skin": sn.TactileArray(**TOP, grid=(4, 4), spacing=0.01),
    "gel": sn.ElastomerDisplacement(**TOP),
    "heat": sn.TemperatureGrid(link="base", grid_size=(3, 2, 3)),
    "lidar": sn.Lidar(link="base", pattern=sn.SphericalPattern(n_points=(8, 3)), exclude_self=True),
    "scan": sn.Lidar(link="base", pattern=sn.RingPattern(n_points=12), scan_rate=20.0),
    "echo": sn.Lidar(
        link="base",
        pattern=sn.SphericalPattern(n_points=(8, 3)),
        divergence=0.01,
        echoes=("first", "last"),
        returns=("distances", "points", "intensity", "times"),
    ),
    "rosette": sn.Lidar(link="base", euler=(0, 1.2, 0), pattern=sn.RosettePattern(n_points=20, repeat_after=2)),
    "grid": sn.Raycaster(link="base", pattern=sn.GridPattern(size=(0.2, 0.2), resolution=0.1)),
    "depth_camera": sn.DepthCamera(link="base", width=6, height=4),
}


def rover(n_envs=2, **options):
    """Return a built scene of a rover with every sensor, and the sensors by name."""
    scene = sn.Scene(dt=0.01, substeps=2)
    scene.add_object(sn.Plane(), name="ground")
    scene.add_robot(ROVER, name="rover")
    scene.add_object(sn.Box(size=(0.05, 0.05, 0.05)), name="cargo", pos=(0, 0, 0.3), free=True)
    sensors = {
        name: scene.add_sensor(type(made)(**(dict(made) | options | {"uuid": name}))) for name, made in EVERY.items()
    }
    scene.build(n_envs=n_envs)
    scene.step(10)
    return scene, sensors


@pytest.mark.slow
@pytest.mark.parametrize("history", [None, 3])
def test_every_sensor_can_be_drawn_and_plotted(tmp_path, history):
    scene, sensors = rover(draw_debug=True, history_length=history)
    for name, sensor in sensors.items():
        sensor.plot(env=1, path=tmp_path / f"{name}.png")
        assert imread(tmp_path / f"{name}.png").std() > 0.02
        painter = Painter()
        sensor._draw(painter, 1)
        # sensors that draw nothing here
        silent = {"contact", "encoder", "torque", "odometry", "battery", "clock", "heat", "scan"}
        assert len(painter) > 0 or name in silent, name
    try:
        assert scene.snapshot(width=64, height=48).std() > 1
    except sn.DeviceError as error:
        pytest.skip(str(error))


def test_every_reading_can_be_pickled():
    _, sensors = rover(n_envs=1)
    for sensor in sensors.values():
        reading = sensor.read()
        again = pickle.loads(pickle.dumps(reading))
        parts = [reading] if isinstance(reading, torch.Tensor) else list(reading)
        back = [again] if isinstance(again, torch.Tensor) else list(again)
        assert all(torch.equal(one, other) for one, other in zip(parts, back, strict=True))


def test_options_of_every_sensor_survive_json():
    for options in EVERY.values():
        assert type(options).model_validate_json(options.model_dump_json()) == options
    with pytest.raises(sn.OptionError, match="GridPattern"):
        sn.Raycaster(link="a", pattern={"kind": "GridPatern", "size": (1, 1), "resolution": 0.1})


@pytest.mark.parametrize("n", [1, 50])
def test_custom_patterns_are_validated(n):
    class Odd(Pattern):
        @property
        def shape(self):
            return (2,)

        def rays(self):
            return np.zeros((n, 3)), np.tile([0, 0, -1.0], (n, 1))

    class Long(Odd):
        def rays(self):
            return np.zeros((2, 3)), np.tile([0, 0, -2.0], (2, 1))

    for pattern, message in ((Odd(), r"must have shape \(2, 3\)"), (Long(), "unit vectors")):
        scene = drop_scene()
        scene.add_sensor(sn.Raycaster(link="box", pattern=pattern))
        with pytest.raises(sn.OptionError, match=message):
            scene.build()


def test_plotted_images_show_values():
    _, sensors = rover()
    image = sensors["heat"].plot().axes[0].images[0].get_array()
    assert image.max() == pytest.approx(sensors["heat"].read().max().item())
    reading, max_range = sensors["lidar"].read(), sensors["lidar"].options.max_range
    points = reading.points[0].reshape(-1, 3)[reading.distances[0].reshape(-1) < max_range]  # those with a return
    shown = sensors["lidar"].plot().axes[1].collections[0].get_offsets()
    np.testing.assert_allclose(shown, points[:, :2], atol=1e-5)


@pytest.mark.parametrize("options", [sn.Magnetometer, sn.GPS, sn.OpticalFlow, sn.FramePose])
def test_interpolation_is_rejected_for_discontinuous_readings(options):
    with pytest.raises(sn.OptionError, match="interpolate"):
        options(link="a", interpolate=True)


def test_noise_does_not_create_ground_for_optical_flow():
    scene = sn.Scene(dt=0.01, gravity=(0, 0, 0))
    scene.add_object(sn.Box(), name="d", pos=(0, 0, 5), free=True)
    flow = scene.add_sensor(sn.OpticalFlow(link="d", range_noise=1.0))
    scene.build(n_envs=300)
    scene.step()
    assert flow.read().quality.max() == 0
    assert (flow.read().distance == 30.0).all()


def test_noise_density_follows_the_rate():
    scene = sn.Scene(dt=0.01, gravity=(0, 0, 0))
    scene.add_object(sn.Box(), name="d", free=True)
    imu = scene.add_sensor(sn.IMU(link="d", acc_noise_density=1.0, gyro_noise=0.1))
    scene.build(n_envs=3000)
    imu.set(rate=10.0)
    scene.step(20)
    assert imu.read().lin_acc.std() == pytest.approx(math.sqrt(5), rel=0.03)
    assert imu.read().ang_vel.std() == pytest.approx(0.1, rel=0.03)
    imu.set(rate=torch.where(torch.arange(3000) < 1500, 50.0, 100.0))
    scene.step(20)
    assert imu.read().lin_acc[:1500].std() == pytest.approx(5, rel=0.03)
    assert imu.read().lin_acc[1500:].std() == pytest.approx(math.sqrt(50), rel=0.03)
    imu.set(acc_noise=0.5)
    imu.set(rate=100.0)  # noise per sample does not depend on the rate
    scene.step(20)
    assert imu.read().lin_acc.std() == pytest.approx(0.5, rel=0.03)


def test_options_replace_alternatives_of_presets():
    imu = sn.presets.imu("consumer_mems", link="a", acc_noise=0.1)
    assert (imu.acc.noise, imu.acc.noise_density) == (0.1, None)
    encoder = sn.presets.encoder("magnetic_14_bit", resolution=0.1)
    assert (encoder.resolution, encoder.counts_per_revolution) == (0.1, None)
    with pytest.raises(sn.OptionError, match="imu: name must be text, got 3"):
        sn.presets.imu(3, link="a")


def test_channels_of_wrenches_and_poses_have_all_imperfections():
    scene = sn.Scene(dt=0.01, gravity=(0, 0, -10))
    scene.add_object(sn.Box(mass=1.0), name="d")
    kinds = {"force_bias_spread": 2.0, "torque_temperature_drift": 0.1, "temperature": 35.0}
    wrench = scene.add_sensor(sn.ForceTorque(link="d", **kinds))
    pose = scene.add_sensor(sn.FramePose(link="d", pos_outliers=1.0, pos_outlier_size=0.5, lin_vel_scale_error=0.1))
    scene.build(n_envs=2000)
    scene.step()
    error = wrench.read().force - wrench.read_ground_truth().force
    assert error.std(dim=0).tolist() == pytest.approx([2.0] * 3, rel=0.1)
    torch.testing.assert_close(wrench.read().torque - wrench.read_ground_truth().torque, torch.ones(2000, 3))
    off = (pose.read().pos - pose.read_ground_truth().pos).abs()
    torch.testing.assert_close(off, torch.full((2000, 3), 0.5))
    wrench.set(temperature=25.0)
    scene.step()
    torch.testing.assert_close(wrench.read().torque, wrench.read_ground_truth().torque)


def test_contradictory_options_are_rejected():
    with pytest.raises(sn.OptionError, match="got 'a' in both"):
        sn.WheelOdometry(left="a", right="a", radius=0.1, track=0.3)
    scene = drop_scene()
    scene.add_object(sn.Box(), name="far", pos=(9, 0, 0), free=True)
    scene.add_sensor(sn.TemperatureGrid(link="box", touching=("plane",), temperatures={"far": 90.0}))
    with pytest.raises(sn.OptionError, match="'far' takes no part in the heat flow"):
        scene.build()


def test_battery_power_is_limited_by_internal_resistance():
    scene = sn.Scene(dt=0.01)
    scene.add_robot(ROVER, name="rover")
    battery = scene.add_sensor(sn.BatteryState(idle_power=1e6, capacity=100.0, internal_resistance=0.05))
    scene.build(n_envs=1)
    scene.step()
    reading = battery.read()
    assert reading.power.item() == pytest.approx((reading.voltage * reading.current).item(), rel=1e-4)
    assert reading.power.item() == pytest.approx(25.2**2 / (4 * 0.05), rel=0.02)


def test_wrong_calls_are_rejected():
    scene, sensors = rover(n_envs=1)
    for call, message in (
        (lambda: scene.snapshot(camera=0), "number below 0"),
        (lambda: scene.snapshot(camera="nope"), "the model has no camera named 'nope'"),
        (lambda: scene.snapshot(env=1.0), "integer"),
        (lambda: scene.snapshot(width=0), "width"),
        (lambda: scene.snapshot(width=1.5), "width must be an integer, got 1.5"),
        (lambda: scene.step(1.5), "integer"),
        (lambda: sensors["gps"].set(visible="no"), "True or False"),
        (lambda: sensors["imu"].plot(env=9), r"\[0, 1\)"),
        (lambda: sn.Trace(sensors["imu"], env=7), r"\[0, 1\)"),
        (lambda: sn.Trace(sensors["imu"]).values(sensors["gps"]), "not traced"),
        (lambda: sensors["imu"].read(history_length=-1), "must be >= 0"),
        (lambda: sn.GridPattern(size=(1, 1), resolution=0.1, direction=(0, 0, 1e-200)), "zero"),
    ):
        with pytest.raises(sn.SensoriumError, match=message):
            call()
    with pytest.raises(sn.NotBuiltError):
        sn.Trace(drop_scene().add_sensor(sn.Clock()))


def test_only_rays_of_the_last_step_are_drawn_for_a_scanning_lidar():
    scene = sn.Scene(dt=0.01, gravity=(0, 0, 0))
    scene.add_object(sn.Box(size=(0.2, 5, 5)), name="wall", pos=(3.1, 0, 0))
    scene.add_object(sn.Sphere(radius=0.1), name="b", free=True)
    pattern = sn.RingPattern(n_points=10, fov=20)
    lidar = scene.add_sensor(sn.Lidar(link="b", pattern=pattern, scan_rate=10.0, draw_debug=True))
    scene.build()
    scene.world.bind("qvel")[:, 0] = 1.0
    scene.forward()
    scene.step(50)
    painter = Painter()
    lidar._draw(painter, 0)
    spots = [shape[2][0] for shape in painter.shapes if shape[0] == 2]
    assert len(spots) == 1
    assert spots[0] == pytest.approx(3.0, abs=1e-3)


def test_every_sensor_class_is_exported():
    """``sn.sensors.LidarSensor`` is the class of ``sn.Lidar``, and so on."""
    options = {name: getattr(sn, name) for name in sn.__all__ if "Camera" not in name or name == "DepthCamera"}
    sensors = [name for name, each in options.items() if hasattr(each, "make_sensor")]
    assert len(sensors) > 20
    for name in sensors:
        assert getattr(sn.sensors, f"{name}Sensor").options_type is options[name]
