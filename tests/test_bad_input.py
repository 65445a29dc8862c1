"""Bad input raises an error that names the option and the value, and the failed call changes nothing."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from conftest import ARM, arm_scene, drop_scene
from probe import Probe, probe_scene

import sensorium as sn

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sn.IMU(link="box", acc_noise=-1.0), ("IMU.acc_noise", "must be >= 0", "-1.0")),
        (lambda: sn.IMU(link="box", gyro_noise=(0.1, -0.2, 0.1)), ("IMU.gyro_noise", "must be >= 0", "-0.2")),
        (lambda: sn.IMU(link="box", acc_bias=NAN), ("IMU.acc_bias", "finite", "nan")),
        (lambda: sn.IMU(link="box", acc_bias=(0, INF, 0)), ("IMU.acc_bias", "finite", "inf")),
        (lambda: sn.IMU(link="box", acc_noise="0.5"), ("IMU.acc_noise", "must be a number", "'0.5'")),
        (lambda: sn.IMU(link="box", acc_noise=(0.1, True, 0.1)), ("IMU.acc_noise", "must be a number", "True")),
        (lambda: sn.IMU(link="box", history_length=True), ("IMU.history_length", "must be a number", "True")),
        (lambda: sn.Scene(dt="0.01"), ("SceneOptions.dt", "must be a number", "'0.01'")),
        (lambda: sn.IMU(link="box", delay=0.01, jitter=0.02), ("jitter", "0.02", "delay", "0.01")),
        (lambda: sn.IMU(link="box", jitter=0.02), ("jitter", "delay")),
        (lambda: sn.IMU(link="box", delay=0.2, max_delay=0.1), ("max_delay", "0.1", "0.2")),
        (lambda: sn.IMU(link="box", rate=0), ("IMU.rate", "must be > 0", "0")),
        (lambda: sn.IMU(link="box", rate=-5), ("IMU.rate", "-5")),
        (lambda: sn.IMU(link="box", delay=-0.1), ("IMU.delay", "-0.1")),
        (lambda: sn.IMU(link="box", dropout=1.5), ("IMU.dropout", "1.5")),
        (lambda: sn.IMU(link="box", history_length=-1), ("IMU.history_length", "-1")),
        (lambda: sn.IMU(link="box", uuid=""), ("IMU.uuid",)),
        (lambda: sn.IMU(link="box", uuid="a.b"), ("uuid", "a.b")),
        (lambda: sn.IMU(link="box", acc_nois=0.1), ("acc_nois", "did you mean 'acc_noise'")),
        (lambda: sn.IMU(), ("IMU needs the option 'link'",)),
        (lambda: sn.IMU(link="box", acc_saturation=(2, 1)), ("IMU.acc_saturation", "min <= max")),
        (lambda: sn.IMU(link="box", acc_misalignment=((1, 0), (0, 1))), ("IMU.acc_misalignment",)),
        (lambda: sn.IMU(link="box", quat=(0, 0, 0, 0)), ("quat", "zero")),
        (lambda: sn.IMU(link="box", quat=(1, 0, 0, 0), euler=(0, 0, 0)), ("quat or euler",)),
        (lambda: sn.Contact(link="box", threshold=-1), ("Contact.threshold", "-1")),
        (lambda: sn.ContactForce(link="box", min_force=1, deadband=1), ("min_force", "deadband")),
        (lambda: sn.JointEncoder(counts_per_revolution=0), ("JointEncoder.counts_per_revolution", "0")),
        (lambda: sn.JointEncoder(counts_per_revolution=9, resolution=1), ("counts_per_revolution", "resolution")),
        (lambda: sn.JointEncoder(joints=()), ("joints must name at least one joint",)),
        (lambda: sn.Box(size=(1, 0, 1)), ("Box.size", "every extent must be > 0")),
        (lambda: sn.Box(rgba="red"), ("Box.rgba must be numbers, got 'red'",)),
        (lambda: sn.Box(mass="1"), ("Box.mass must be a number, got '1'",)),
        (lambda: sn.Box(size=(1, 1)), ("Box.size",)),
        (lambda: sn.Sphere(radius=-1), ("Sphere.radius", "-1")),
        (lambda: sn.Box(mass=0), ("Box.mass", "0")),
        (lambda: sn.Box(colour="red"), ("colour", "it has")),
        (lambda: sn.Scene(dt=0), ("dt", "must be > 0")),
        (lambda: sn.Scene(dt=NAN), ("dt", "nan")),
        (lambda: sn.Scene(substeps=0), ("substeps", "0")),
        (lambda: sn.Scene(gravty=(0, 0, 0)), ("gravty", "did you mean 'gravity'")),
        (lambda: sn.Scene(integrator="midpoint"), ("integrator", "midpoint")),
        (
            lambda: sn.RaytracerCamera(denoise="oidnn"),
            ("RaytracerCamera.denoise must be True, False, 'oidn' or 'atrous', got 'oidnn' (did you mean 'oidn'?)",),
        ),
        (
            lambda: sn.Camera(quality="hihg"),
            ("Camera.quality must be 'fast', 'balanced', 'high' or None, got 'hihg' (did you mean 'high'?)",),
        ),
        (
            lambda: sn.Camera(outputs=("rgb", "dept")),
            ("Camera.outputs[1] must be 'rgb', 'depth', ", "got 'dept' (did you mean 'depth'?)"),
        ),
        (lambda: sn.RasterizerCamera(renderer="batch"), ("RasterizerCamera.renderer must be 'raster', got 'batch'",)),
        (lambda: sn.Camera(outputs=3), ("Camera.outputs", "got 3")),
        (lambda: sn.IMU(link=""), ("IMU.link",)),
        (lambda: sn.IMU(link="box", uuid="a\0b"), ("uuid must not contain", "control characters")),
        (lambda: sn.IMU(link="box", acc_noise=(1, 2)), ("IMU", "noise must be a number or one per axis", "(1.0, 2.0)")),
        (lambda: sn.IMU(link="box", acc_noise=1e300), ("IMU.acc_noise", "1e+30", "1e+300")),
    ],
)
def test_bad_options_raise(make, words):
    with pytest.raises(sn.OptionError) as caught:
        make()
    for word in words:
        assert word in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("sensor", "words"),
    [
        (sn.IMU(link="bxo"), ("IMU(uuid='imu_bxo').link", "'bxo'", "did you mean 'box'")),
        (sn.Contact(link="box", touching="groud"), ("touching", "'groud'", "did you mean 'ground'")),
        (sn.FramePose(link="box", relative_to="bix"), ("relative_to", "did you mean 'box'")),
        (sn.JointEncoder(), ("the scene has no hinge or slide joint",)),
        (sn.JointEncoder(robot="box"), ("the robot 'box' has no hinge or slide joint",)),
        (sn.JointEncoder(robot="bxo"), (".robot: there is no robot named 'bxo' (did you mean 'box'?)",)),
        (sn.JointEncoder(robot="bxo", joints=("hip",)), ("no robot named 'bxo' (did you mean 'box'?)",)),
        (sn.JointTorque(robot="zzz"), (".robot: there is no robot named 'zzz'; there are 'ground', 'box'",)),
        (sn.BatteryState(robot="bxo"), (".robot: there is no robot named 'bxo' (did you mean 'box'?)",)),
        (sn.BatteryState(robot="box"), ("the robot 'box' has no actuator",)),
        (sn.IMU(link="zzz"), ("there are 'world', 'ground', 'box'",)),
    ],
)
def test_unknown_names_leave_the_scene_usable(sensor, words):
    scene = sn.Scene()
    scene.add_object(sn.Plane(), name="ground")
    scene.add_object(sn.Box(), name="box", free=True)
    scene.add_sensor(sensor)
    with pytest.raises(sn.errors.NameNotFoundError) as caught:
        scene.build()
    for word in words:
        assert word in str(caught.value)
    scene.add_object(sn.Sphere())  # the scene is not built, so objects can be added


def test_ambiguous_names_raise():
    scene = sn.Scene()
    scene.add_robot(ARM, name="left")
    scene.add_robot(ARM, name="right")
    scene.add_sensor(sn.IMU(link="lower"))
    with pytest.raises(sn.errors.NameNotFoundError, match=r"ambiguous; write one of 'left/lower', 'right/lower'"):
        scene.build()


def test_unknown_joints_raise():
    for joints, words in ((("elbo",), "did you mean"), ((5,), r"must lie in \[0, 2\), got 5")):
        scene = arm_scene()
        scene.add_sensor(sn.JointEncoder(joints=joints))
        with pytest.raises(sn.SensoriumError, match=words):
            scene.build()


def test_per_axis_values_of_the_wrong_length_raise():
    with pytest.raises(sn.OptionError, match=r"IMU\.acc: noise must be a number or one per axis, 3 numbers"):
        sn.IMU(link="box", acc_noise=(0.1, 0.2))
    scene = drop_scene()
    force = scene.add_sensor(sn.ContactForce(link="box", noise=(0.1, 0.2)))
    with pytest.raises(sn.OptionError, match=r"ContactForce\.noise .* got shape \(2,\)"):
        scene.build()
    with pytest.raises(sn.NotBuiltError):
        force.read()


def test_calls_in_the_wrong_order_raise():
    scene = drop_scene()
    imu = scene.add_sensor(sn.IMU(link="box", uuid="imu"))
    for call in (imu.read, imu.read_ground_truth, lambda: imu.set(acc_noise=1), lambda: imu.read(history_length=1)):
        with pytest.raises(sn.NotBuiltError, match=r"scene\.build"):
            call()
    for call in (
        scene.step,
        scene.reset,
        scene.get_state,
        scene.read_sensors,
        lambda: scene.time,
        scene["box"].get_pose,
    ):
        with pytest.raises(sn.NotBuiltError):
            call()
    scene.build()
    for call in (
        lambda: scene.add_sensor(sn.IMU(link="box")),
        lambda: scene.add_object(sn.Box()),
        lambda: scene.add_robot(ARM),
    ):
        with pytest.raises(sn.errors.AlreadyBuiltError, match="must come before build"):
            call()
    with pytest.raises(sn.errors.AlreadyBuiltError, match=r"^build\(\) can be called only once: .*create a new Scene"):
        scene.build()
    assert list(scene.sensors) == ["imu"]


def test_names_in_use_raise():
    scene = drop_scene()
    scene.add_sensor(sn.IMU(link="box", uuid="imu"))
    with pytest.raises(sn.errors.DuplicateNameError, match="'imu' is already the name of a sensor"):
        scene.add_sensor(sn.IMU(link="box", uuid="imu"))
    with pytest.raises(sn.errors.DuplicateNameError, match="'box' is already the name of an entity"):
        scene.add_sensor(sn.IMU(link="box", uuid="box"))
    with pytest.raises(sn.errors.DuplicateNameError, match="'box'"):
        scene.add_object(sn.Box(), name="box")
    with pytest.raises(sn.OptionError, match="'a/b'"):
        scene.add_object(sn.Box(), name="a/b")
    scene.build()
    assert list(scene.entities) == ["plane", "box"]
    with pytest.raises(sn.errors.NameNotFoundError, match="did you mean 'box'"):
        _ = scene["bok"]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("<mujoco><worldbody><bdy/></worldbody></mujoco>", "bdy"),
        ("<mujoco>", "XML"),
        ("no/such/file.xml", "no model file 'no/such/file.xml'"),
        (42, "cannot add int"),
    ],
)
def test_models_that_cannot_be_read_raise(model, words):
    scene = drop_scene()
    with pytest.raises(sn.errors.ModelError, match=words):
        scene.add_robot(model)
    scene.build()
    assert list(scene.entities) == ["plane", "box"]


def test_bad_poses_and_bases_raise():
    scene = sn.Scene()
    for bad, error in (
        ({"pos": (0, 0)}, sn.OptionError),
        ({"pos": (0, 0, NAN)}, sn.OptionError),
        ({"quat": (0, 0, 0, 0)}, sn.OptionError),
        ({"quat": (1, 0, 0, 0), "euler": (0, 0, 0)}, sn.OptionError),
        ({"euler": (0, 0)}, sn.OptionError),
    ):
        with pytest.raises(error):
            scene.add_object(sn.Box(), **bad)
    with pytest.raises(sn.OptionError, match="plane cannot be free"):
        scene.add_object(sn.Plane(), free=True)
    with pytest.raises(sn.OptionError, match="terrain is fixed"):
        scene.add_terrain(sn.Box(), free=True)
    with pytest.raises(sn.errors.ModelError, match="already has joints"):
        scene.add_robot(ARM, free=True)
    with pytest.raises(sn.OptionError, match=r"sn\.IMU"):
        scene.add_sensor("imu")
    assert not scene.entities


@pytest.mark.parametrize("bad", [{"n_envs": 0}, {"n_envs": 2.5}, {"seed": -1}, {"threads": -1}, {"device": "tpu"}])
def test_bad_build_arguments_raise(bad):
    scene = drop_scene()
    with pytest.raises((sn.OptionError, RuntimeError), match=next(iter(bad))):
        scene.build(**bad)
    scene.build()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"noise": -1.0}, ("Probe.noise", ">= 0", "-1")),
        ({"noise": NAN}, ("Probe.noise", "finite")),
        ({"bias": INF}, ("Probe.bias", "finite")),
        ({"noise": [0.1, 0.2]}, ("Probe.noise", "(3,)", "(2,)")),
        ({"noise": np.zeros((5, 3))}, ("Probe.noise", "(4, 3)", "(5, 3)")),
        ({"noise": "loud"}, ("noise",)),
        ({"nose": 1.0}, ("nose", "did you mean 'noise'")),
        ({"history_length": 3}, ("history_length", "cannot be changed after build")),
        ({"saturation": (1.0, -1.0)}, ("Probe.saturation", "min <= max")),
        ({"saturation": 3.0}, ("Probe.saturation", "(min, max)")),
        ({"delay": 0.2}, ("0.2", "max_delay=0.2")),
        ({"jitter": 0.05}, ("jitter", "delay")),
        ({"dropout": 2.0}, ("Probe.dropout", "<= 1")),
        ({"rate": -2.0}, ("Probe.rate", ">= 0")),
    ],
)
def test_failed_set_changes_nothing(values, words):
    scene, probe = probe_scene(Probe(uuid="p", noise=0.1, delay=0.02, jitter=0.02), n_envs=4)
    twin, undisturbed = probe_scene(Probe(uuid="p", noise=0.1, delay=0.02, jitter=0.02), n_envs=4)
    with pytest.raises(sn.OptionError) as caught:
        probe.set(bias=7.0, **{k: v for k, v in values.items() if k != "bias"}) if "bias" not in values else probe.set(
            noise=9.0, **values
        )
    for word in words:
        assert word in str(caught.value)
    for _ in range(10):
        scene.step()
        twin.step()
        assert torch.equal(probe.read(), undisturbed.read())


@pytest.mark.parametrize("envs", [[4], [-1], [0.5], np.ones(3, bool), "all"])
def test_bad_envs_raise(envs):
    scene, probe = probe_scene(Probe(), n_envs=4)
    for call in (scene.reset, probe.read, lambda envs: probe.set(noise=1.0, envs=envs)):
        with pytest.raises(sn.OptionError, match="envs"):
            call(envs=envs)


def test_reading_more_history_than_allocated_raises():
    scene, probe, other = probe_scene(Probe(history_length=3), Probe(uuid="other"))
    for call in (probe.read, probe.read_ground_truth):
        with pytest.raises(sn.OptionError, match="at most 3 is allocated; construct the sensor with history_length=4"):
            call(history_length=4)
        with pytest.raises(sn.OptionError, match="must be >= 0; at most 3 is allocated"):
            call(history_length=-1)
    scene.close()
    scene, probe = probe_scene(Probe())
    with pytest.raises(sn.OptionError, match="no history is allocated"):
        probe.read(history_length=1)
    assert other.uuid == "other"


def test_bad_states_and_entity_values_raise():
    scene = arm_scene()
    scene.build(n_envs=3)
    state = scene.get_state()
    for bad, words in ((state[:2], "shape"), (state * NAN, "finite")):
        with pytest.raises(sn.OptionError, match=words):
            scene.set_state(bad)
    arm = scene["arm"]
    for call, words in (
        (lambda: arm.set_ctrl([1, 2, 3]), "shape"),
        (lambda: arm.set_ctrl(NAN), "finite"),
        (lambda: arm.set_ctrl(np.zeros((2, 2)), envs=[0]), "shape"),
        (lambda: arm.set_ctrl(True), "numbers"),
        (lambda: arm.set_joint_positions(0, envs=[7]), r"\[0, 3\)"),
        (lambda: arm.set_pose(pos=(0, 0, 0)), "fixed base"),
        (lambda: scene["plane"].set_ctrl(0), "no actuators"),
    ):
        with pytest.raises(sn.OptionError, match=words):
            call()
    with pytest.raises(sn.errors.NameNotFoundError, match="did you mean 'elbow'"):
        arm.get_joint_positions(["elbw"])
    with pytest.raises(sn.errors.NameNotFoundError, match="did you mean 'm2' or 'm1'"):
        arm.set_ctrl(0, actuators=["m3"])
    assert torch.equal(scene.get_state(), state)


def test_inconsistent_sensor_classes_raise():
    class Odd(sn.sensors.SimpleSensorOptions):
        pass

    class OddSensor(sn.sensors.SimpleSensor[torch.Tensor], options=Odd):
        def _get_return_format(self):
            return (1,)

        @classmethod
        def _get_cache_dtype(cls):
            return torch.bool

        @classmethod
        def _update_raw_data(cls, group, out):
            out.zero_()

    with pytest.raises(sn.OptionError, match="must override _post_process"):
        probe_scene(Odd())

    class Orphan(sn.sensors.SimpleSensorOptions):
        pass

    with pytest.raises(sn.OptionError, match="no sensor class was declared for Orphan"):
        probe_scene(Orphan())
    scene = drop_scene()
    scene.add_sensor(sn.Contact(link="box", delay=0.1, interpolate=True))
    with pytest.raises(sn.OptionError, match="cannot be interpolated"):
        scene.build()


def test_common_mistakes_raise(tmp_path):
    scene = drop_scene()
    for call, words in (
        (lambda: scene.add_sensor(sn.IMU), "add_sensor takes sensor options"),
        (lambda: scene.add_object(sn.Box(), name=3), "name must be text, got 3"),
        (
            lambda: sn.TileMap(grid=("aa",), heights={"a": 0.1}).height_at([0.1, 0.1, 0.1]),
            r"shape \(2,\) or \(n, 2\), got \(3,\)",
        ),
        (lambda: sn.TileMap(grid=("aa",), heights={"a": 0.1}).height_at(1.0), "height_at"),
    ):
        with pytest.raises(sn.OptionError, match=words):
            call()
    imu = scene.add_sensor(sn.IMU(link="box", history_length=3, temperature=30.0, acc_temperature_drift=0.1))
    scene.build()
    for call, words in (
        (lambda: imu.read(history_length=2.5), "must be an integer, got 2.5"),
        (lambda: imu.set(temperature=None), "temperature must be numbers, got None"),
        (lambda: scene.snapshot(path=tmp_path / "a.xyz"), r"path must end in \.png"),
        (lambda: scene.world.bind("nope"), "no field 'nope'"),
        (lambda: scene.world.expand("body_mas"), "'body_mas' that can differ per env: .*did you mean 'body_mass'"),
        (lambda: scene["box"].set_pose(pos=[[1, 2, 3], [1]]), "rows of equal length"),
    ):
        with pytest.raises(sn.OptionError, match=words):
            call()


def test_joints_of_a_robot_can_be_given_by_full_name():
    scene = sn.Scene()
    scene.add_robot(ARM, name="left")
    scene.add_robot(ARM, name="right", pos=(1, 0, 0))
    by_full = scene.add_sensor(sn.JointEncoder(robot="left", joints=("left/shoulder",), uuid="full"))
    by_own = scene.add_sensor(sn.JointEncoder(robot="left", joints=("shoulder",), uuid="own"))
    scene.add_sensor(sn.JointEncoder(robot="left", joints=("right/shoulder",), uuid="other"))
    with pytest.raises(sn.errors.NameNotFoundError, match="right"):
        scene.build()
    scene.remove_sensor("other")
    scene.build()
    scene.world.bind("qpos")[:, :] = 0.3
    scene.forward()
    assert torch.equal(by_full.read().positions, by_own.read().positions)
    assert by_own.read().positions.item() == pytest.approx(0.3)


@pytest.mark.parametrize("value", ["oidnn", 3.5, None])
def test_error_of_a_union_with_literals_is_one_line(value):
    with pytest.raises(sn.OptionError) as caught:
        sn.RaytracerCamera(denoise=value)
    assert "\n" not in str(caught.value)
    assert repr(value) in str(caught.value)


# -- a failed call changes nothing ------------------------------------------------------------------------------------


def imu_scene() -> tuple[sn.Scene, sn.sensors.Sensor]:
    scene = drop_scene()
    imu = scene.add_sensor(sn.IMU(link="box", uuid="imu", acc_noise=0.1))
    scene.build(n_envs=2)
    return scene, imu


WRONG_CALLS = {
    "step_count of text": (lambda scene, imu: setattr(scene, "step_count", "x"), "step_count must be an integer >= 0"),
    "step_count of None": (lambda scene, imu: setattr(scene, "step_count", None), "step_count"),
    "step_count < 0": (lambda scene, imu: setattr(scene, "step_count", -1), "got -1"),
    "step_count of 1.5": (lambda scene, imu: setattr(scene, "step_count", 1.5), "got 1.5"),
    "noise of None": (lambda scene, imu: imu.set(acc_noise=None), r"IMU.acc_noise must be numbers, got None"),
    "noise of 1e300": (lambda scene, imu: imu.set(acc_noise=1e300), r"IMU.acc_noise must be <= 1e\+30"),
    "bias of -1e300": (lambda scene, imu: imu.set(acc_bias=-1e300), r"IMU.acc_bias must be >= -1e\+30"),
    "noise of two axes": (lambda scene, imu: imu.set(acc_noise=(1, 2)), "one value per axis"),
    "state of text": (lambda scene, imu: scene.set_state("x"), "state must be an array of real numbers"),
    "complex state": (lambda scene, imu: scene.set_state(scene.get_state() * 1j), "real numbers"),
    "retrace of a wrong shape": (lambda scene, imu: scene.retrace(None, np.zeros((2, 3)), 1), "after must have shape"),
    "retrace before": (
        lambda scene, imu: scene.retrace(np.zeros((1, 3)), scene.get_state().numpy(), 1),
        "before must have shape",
    ),
    "retrace of a step of text": (
        lambda scene, imu: scene.retrace(None, scene.get_state().numpy(), "x"),
        "step must be an integer",
    ),
    "unknown entity": (lambda scene, imu: scene.entities["bxo"], "no entity 'bxo' .did you mean 'box'"),
    "unknown sensor": (lambda scene, imu: scene.sensors["imo"], "no sensor 'imo' .did you mean 'imu'"),
    "sensor of a number": (lambda scene, imu: scene.sensors[0], "no sensor 0; there are 'imu'"),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_a_failed_call_changes_nothing(name):
    call, words = WRONG_CALLS[name]
    (scene, imu), (twin, other) = imu_scene(), imu_scene()
    for each in (scene, twin):
        each.step(count=3)
    with pytest.raises(sn.SensoriumError, match=words):
        call(scene, imu)
    assert scene.step_count == 3
    for each in (scene, twin):
        each.step(count=2)
    assert torch.equal(scene.get_state(), twin.get_state())
    assert torch.equal(imu.read().lin_acc, other.read().lin_acc)


@pytest.mark.parametrize("step", ["a", None, -1, 1.5, True])
def test_steps_of_action_noise_are_integers(step):
    scene = sn.Scene()
    arm = scene.add_robot("franka", name="arm", action_noise=0.01)
    scene.build()
    with pytest.raises(sn.OptionError, match="step must be an integer >= 0"):
        arm.set_noise_step(step)
    arm.set_noise_step(np.int64(4))


@pytest.mark.parametrize(
    ("pose", "words"),
    [
        ({"pos": "abc"}, "pos must be three finite numbers, got 'abc'"),
        ({"pos": [1, [2], 3]}, "pos must be three"),
        ({"pos": (0, 0, 1j)}, "pos must be three"),
        ({"quat": "x"}, "quat must be four"),
        ({"quat": [1, [2]]}, "quat must be four"),
        ({"euler": "abc"}, "euler must be three"),
        ({"free": "yes"}, "free must be True, False or None, got 'yes'"),
    ],
)
def test_poses_of_wrong_types_raise(pose, words):
    scene = sn.Scene()
    with pytest.raises(sn.OptionError, match=words):
        scene.add_object(sn.Box(), name="box", **pose)
    assert not scene.entities
    scene.add_object(sn.Box(), name="box")


@pytest.mark.parametrize(
    "contents",
    [None, 3, "x", [3], [None], [{}], {"a": 1}, [{"call": "add_object"}], [{"call": "add_object", "model": None}]],
)
def test_malformed_contents_raise(contents):
    with pytest.raises(sn.OptionError, match="contents"):
        sn.Scene.from_contents(contents)


def test_memories_refuse_what_is_not_finite():
    space, action = gym.spaces.Dict({"imu": gym.spaces.Box(-1, 1, (3,))}), gym.spaces.Box(-1, 1, (2,))
    memory = sn.entities.Memory(space, action, 16, 2)
    good = {
        "observation": {"imu": np.zeros((2, 3))},
        "action": np.zeros((2, 2)),
        "reward": np.zeros(2),
        "next_observation": {"imu": np.zeros((2, 3))},
        "terminated": np.zeros(2, bool),
        "truncated": np.zeros(2, bool),
    }
    for name, value in (
        ("reward", np.array([0, NAN])),
        ("reward", np.array([0, 1e300])),
        ("reward", torch.tensor([0, NAN])),
        ("action", np.full((2, 2), -INF)),
    ):
        with pytest.raises(sn.OptionError, match=rf"{name}.* must be finite in float32; the row of env [01] has"):
            memory.add(**{**good, name: value})
    for name, value in (("observation", None), ("observation", [1]), ("reward", [1, [2]]), ("reward", None)):
        with pytest.raises(sn.OptionError):
            memory.add(**{**good, name: value})
    assert len(memory) == 0
    memory.add(**{**good, "reward": np.array([3e38, 3e38])})  # the sum is larger than a float32, the values are not
    memory.add(**{**good, "observation": {"imu": np.full((2, 3), INF)}})  # the depth of the sky
    assert len(memory) == 4


def test_names_of_actuators_are_text():
    scene = arm_scene()
    scene.build()
    arm = scene.entities["arm"]
    for wrong in ([0], 3, [None], True):
        with pytest.raises(sn.OptionError, match="actuators must be names"):
            arm.set_ctrl(1.0, actuators=wrong)
    for wrong in (np.full((2, 3), NAN), [1, [2, 3]], None, "x"):
        with pytest.raises(sn.OptionError, match="pose must"):
            scene["arm"].in_base_frame(wrong)
