"""Joint positions and controls that a reset returns to."""

import mujoco
import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.errors import NameNotFoundError

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
HALF = np.sqrt(0.5)
DOG = """
<mujoco model="dog"><compiler angle="radian"/><worldbody><body name="base" pos="0 0 .45"><freejoint name="root"/>
  <geom type="box" size=".2 .1 .05" mass="5"/>
  <body name="front" pos=".2 .1 0"><joint name="front_hip" axis="0 1 0" ref="0.2"/>
    <geom type="capsule" fromto="0 0 0 0 0 -.3" size=".02"/></body>
  <body name="rear" pos="-.2 .1 0"><joint name="rear_hip" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0 0 -.3" size=".02"/>
    <body name="tail" pos="0 0 -.3"><joint name="tail" type="ball"/><geom size=".03"/></body></body></body></worldbody>
<actuator><position name="front" joint="front_hip" kp="50" gear="2"/><position name="rear" joint="rear_hip" kp="50"/>
  <motor name="wag" joint="rear_hip"/></actuator>
<keyframe><key name="home" qpos=".1 0 .3 1 0 0 0 .5 .6 1 0 0 0" ctrl=".9 .65 .1"/>
  <key name="sit" qpos="0 0 .2 1 0 0 0 .7 .8 0 1 0 0"/></keyframe></mujoco>
"""


def dog(device="cpu", n_envs=2, **options):
    scene = sn.Scene(dt=0.02, substeps=4)
    scene.add_robot(DOG, name="dog", **options)
    scene.build(n_envs=n_envs, device=device)
    return scene


def state(scene, env=0):
    """Return positions and controls of one env."""
    return tuple(scene.world.bind(name)[env].double().cpu().numpy() for name in ("qpos", "ctrl"))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("options", "qpos", "ctrl"),
    [
        ({"keyframe": "home"}, [0.1, 0, 0.3, 1, 0, 0, 0, 0.5, 0.6, 1, 0, 0, 0], [0.9, 0.65, 0.1]),
        # a keyframe without controls: servos hold its positions
        ({"keyframe": "sit"}, [0, 0, 0.2, 1, 0, 0, 0, 0.7, 0.8, 0, 1, 0, 0], [1.4, 0.8, 0]),
        # a free base is placed in the frame of pos and euler
        (
            {"keyframe": "home", "pos": (1, 2, 0.1), "euler": (0, 0, np.pi / 2)},
            [1, 2.1, 0.4, HALF, 0, 0, HALF, 0.5, 0.6, 1, 0, 0, 0],
            [0.9, 0.65, 0.1],
        ),
        # positions by name replace those of the keyframe
        (
            {"keyframe": "home", "joint_positions": {"front.*": 0.1}},
            [0.1, 0, 0.3, 1, 0, 0, 0, 0.1, 0.6, 1, 0, 0, 0],
            [0.2, 0.65, 0.1],
        ),
        ({"joint_positions": {".*_hip": 0.3}}, [0, 0, 0.45, 1, 0, 0, 0, 0.3, 0.3, 1, 0, 0, 0], [0.6, 0.3, 0]),
        ({"joint_positions": {"tail": (0, 2, 0, 0)}}, [0, 0, 0.45, 1, 0, 0, 0, 0.2, 0, 0, 1, 0, 0], [0, 0, 0]),
        ({"keyframe": "home", "free": False}, [0.5, 0.6, 1, 0, 0, 0], [0.9, 0.65, 0.1]),
    ],
)
def test_a_reset_returns_to_the_initial_pose(options, qpos, ctrl, device):
    scene = dog(device, **options)
    for expected, found in zip((qpos, ctrl), state(scene), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)
    scene["dog"].set_ctrl(0.3)
    scene.step(10)
    moved = state(scene)
    scene.reset(envs=[1])
    for expected, found in zip((qpos, ctrl), state(scene, 1), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)
    for before, found in zip(moved, state(scene), strict=True):
        np.testing.assert_array_equal(found, before)
    assert scene.time.tolist() == [pytest.approx(0.2), 0.0]
    assert not scene.world.bind("qvel")[1].any()


def test_without_an_initial_pose_the_model_stays_as_it_was():
    scene = dog()
    assert [scene.model.key(i).name for i in range(scene.model.nkey)] == ["dog/home", "dog/sit"]
    np.testing.assert_array_equal(state(scene)[0], scene.model.qpos0)


@pytest.mark.parametrize("device", DEVICES)
def test_servos_hold_the_initial_pose(device):
    """Without gravity nothing moves; with controls of 0 the joints would."""
    arm = """<mujoco><worldbody><body pos="0 0 1"><joint name="a" axis="0 1 0" damping=".1"/>
    <geom type="capsule" fromto="0 0 0 0 0 -.3" size=".03"/><body pos="0 0 -.3"><joint name="b" type="slide"/>
    <geom size=".05"/></body></body></worldbody><actuator>
    <position name="a" joint="a" kp="20" gear="3" timeconst=".05"/>
    <intvelocity name="b" joint="b" kp="20" actrange="-1 1"/></actuator></mujoco>"""
    scene = sn.Scene(gravity=(0, 0, 0))
    robot = scene.add_robot(arm, name="arm", joint_positions={"a": 0.4, "b": 0.1})
    scene.build(device=device)
    scene.step(100)
    np.testing.assert_allclose(robot.get_joint_positions()[0].cpu(), [0.4, 0.1], atol=1e-5)
    assert state(scene)[1].tolist() == pytest.approx([1.2, 0.0])


def test_objects_have_initial_poses_too():
    door = """<mujoco><worldbody><body name="door"><joint name="hinge" axis="0 0 1"/><geom size=".1"/></body>
    </worldbody></mujoco>"""
    scene = sn.Scene()
    scene.add_object(door, name="left", joint_positions={"hinge": 0.7})
    scene.add_object(door, name="right")
    scene.build(n_envs=2)
    scene.step()
    scene.reset()
    assert scene["left"].get_joint_positions().tolist() == [[pytest.approx(0.7)]] * 2
    assert scene["right"].get_joint_positions().tolist() == [[0.0]] * 2
    with pytest.raises(sn.OptionError, match="'box' is a primitive and has no joints"):
        sn.Scene().add_object(sn.Box(), name="box", joint_positions={"a": 1.0})


def test_a_manipulator_has_its_home_there():
    scene = sn.Scene()
    robot = scene.add_robot("franka", name="arm", joint_positions={"joint1": 0.5, "joint[47]": -1.0})
    scene.build(n_envs=2)
    home = [0.5, -0.785, 0.0, -1.0, 0.0, 1.571, -1.0]
    np.testing.assert_allclose(robot.groups["arm"].target[0], home)
    robot.act({"arm": np.zeros(7)})
    scene.step(20)
    scene.reset(envs=[1])
    np.testing.assert_allclose(robot.groups["arm"].qpos[1], home)
    np.testing.assert_allclose(robot.groups["arm"].target[1], home)
    scene.step(50)
    np.testing.assert_allclose(robot.groups["arm"].qpos[1], home, atol=0.01)
    again = sn.Scene.from_contents(scene.contents)
    again.build()
    np.testing.assert_allclose(again["arm"].groups["arm"].qpos[0], home)
    made = sn.robots.make("franka", joint_positions={"joint1": 0.5})
    assert made.groups["arm"].description.home[0] == 0.5
    with pytest.raises(sn.OptionError, match="matches 'finger_joint1', a joint of the gripper 'gripper'"):
        sn.robots.make("franka", joint_positions={"finger.*": 0.01})


def test_set_home_restores_the_controls_of_the_initial_pose():
    scene = dog(keyframe="home")
    scene["dog"].act(torch.full((3,), 0.2))
    scene.reset()
    scene["dog"].set_home()
    np.testing.assert_allclose(state(scene)[1], [0.9, 0.65, 0.1])


@pytest.mark.parametrize(
    "options",
    [{"keyframe": "home", "pos": (1, 0, 0)}, {"joint_positions": {".*_hip": 0.3, "tail": (0, 1, 0, 0)}}],
)
def test_contents_contain_the_initial_pose(options):
    scene = dog(**options)
    again = sn.Scene.from_contents(scene.contents)
    again.build()
    np.testing.assert_array_equal(again.model.key_qpos, scene.model.key_qpos)
    np.testing.assert_array_equal(state(again)[0], state(scene)[0])
    other = mujoco.MjModel.from_xml_string(scene.to_xml())
    np.testing.assert_allclose(other.key("initial").qpos, state(scene)[0], atol=1e-6)


def test_a_recording_returns_to_the_initial_pose(tmp_path):
    scene = dog(keyframe="home")
    with sn.recording.Recorder(scene, tmp_path / "run") as recorder:
        recorder.record(3)
        scene.reset(envs=[0])
        recorder.record(3)
    again = sn.recording.Recording(tmp_path / "run").build_scene()
    np.testing.assert_allclose(state(again)[0][:3], [0.1, 0, 0.3])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"keyframe": "hom"}, NameNotFoundError, r"no keyframe 'hom' \(did you mean 'home'\?\)"),
        ({"joint_positions": {"rear_hp": 1}}, NameNotFoundError, r"matches 'rear_hp' \(did you mean 'rear_hip'"),
        ({"joint_positions": {"hip": 1}}, NameNotFoundError, "no hinge or slide matches 'hip'"),
        ({"joint_positions": {"root": 1}}, NameNotFoundError, "'root' is a free joint; its pose is that of pos"),
        ({"joint_positions": {"tail": 1}}, NameNotFoundError, r"joint 'tail' must be four numbers"),
        ({"joint_positions": {"rear_hip": (1, 0, 0, 0)}}, NameNotFoundError, "'rear_hip' must be a number"),
        (
            {"joint_positions": {".*hip": 1, "rear.*": 2}},
            sn.OptionError,
            r"two values for the joint 'rear_hip': '\.\*hip' gives 1 and 'rear\.\*' gives 2",
        ),
        ({"joint_positions": {"(": 1}}, sn.OptionError, r"'\(' is not a regular expression"),
        ({"joint_positions": {"rear_hip": "x"}}, sn.OptionError, r"\['rear_hip'\] must be a finite number"),
        ({"joint_positions": {"rear_hip": np.nan}}, sn.OptionError, r"\['rear_hip'\] must be a finite number"),
        ({"joint_positions": {"tail": (0, 0, 0, 0)}}, sn.OptionError, "must not be zero"),
        ({"joint_positions": [0.1]}, sn.OptionError, "must be a mapping from joint to position"),
        ({"joint_positions": []}, sn.OptionError, r"must be a mapping from joint to position, got \[\]"),
        ({"joint_positions": 0}, sn.OptionError, "must be a mapping from joint to position, got 0"),
    ],
)
def test_wrong_poses_raise_and_change_nothing(options, error, message):
    scene = sn.Scene()
    robot = sn.robots.make(DOG, actions=[{"name": "wag", "limits": (-1, 1), "actuators": {"wag": 1.0}}])
    before = robot.options
    for added in (DOG, robot):
        with pytest.raises(error, match=message):
            scene.add_robot(added, name="dog", **options)
    assert robot.options == before
    assert scene.contents == []
    scene.add_robot(robot, name="dog")


def test_the_kernel_of_the_gpu_writes_the_initial_pose():
    """On Warp's CPU device: in the envs of the mask, and in no other."""
    wp, mjw = pytest.importorskip("warp"), pytest.importorskip("mujoco_warp")
    from sensorium.worlds.warp_initial import write_initial

    model = dog(keyframe="home").model
    with wp.ScopedDevice("cpu"):
        m, d = mjw.put_model(model), mjw.make_data(model, nworld=3)
        for field in (d.qpos, d.ctrl):
            field.fill_(7.0)
        mask = wp.array(np.array([True, False, True]), dtype=bool)
        write_initial(model, m, d, mask)
    for field, expected in ((d.qpos, model.key("initial").qpos), (d.ctrl, model.key("initial").ctrl)):
        np.testing.assert_allclose(field.numpy()[[0, 2]], np.tile(expected, (2, 1)), atol=1e-6)
        assert (field.numpy()[1] == 7).all()


def test_positions_outside_the_range_of_a_joint_are_refused():
    arm = """<mujoco><worldbody><body name="arm"><joint name="hinge" axis="0 1 0" range="-90 90"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".02"/></body></worldbody>
      <actuator><motor name="motor" joint="hinge" ctrlrange="-1 1"/></actuator></mujoco>"""
    scene = sn.Scene()
    with pytest.raises(sn.OptionError, match=r"joint_positions\['hinge'\] must be .* \[-1.5708, 1.5708\], got 2"):
        scene.add_robot(arm, name="arm", joint_positions={"hinge": 2.0})
    assert not scene.entities
