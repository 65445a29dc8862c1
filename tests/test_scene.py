"""Scenes and the CPU engine: composition, names, steps, state, failing envs."""

import mujoco
import numpy as np
import pytest
import torch
from conftest import ARM, arm_scene, drop_scene

import sensorium as sn

URDF = """
<robot name="lever">
  <link name="foot"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><geometry><box size="0.1 0.1 0.1"/></geometry></collision></link>
  <link name="arm"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><geometry><sphere radius="0.1"/></geometry></collision></link>
  <joint name="hinge" type="revolute"><parent link="foot"/><child link="arm"/><origin xyz="0 0 0.5"/>
    <axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="5" velocity="5"/></joint>
</robot>
"""


def test_physics_is_bit_identical_to_mujoco():
    """``scene.step`` against a loop of ``mj_step`` on the same model, with one and with two calls per step."""
    for n_envs in (1, 32):
        scene = drop_scene(substeps=5)
        scene.add_sensor(sn.IMU(link="box"))
        scene.build(n_envs=n_envs)
        data = mujoco.MjData(scene.model)
        for _ in range(60):
            scene.step()
            for _ in range(5):
                mujoco.mj_step(scene.model, data)
        np.testing.assert_array_equal(scene.world.bind("qpos")[-1].numpy(), data.qpos)
        np.testing.assert_array_equal(scene.world.bind("qvel")[-1].numpy(), data.qvel)
        assert scene.time[0] == pytest.approx(0.6)


@pytest.mark.parametrize("exact", [True, False])
def test_sensors_read_the_state_at_time_t(exact):
    """Poses and velocities are those of t, or one substep old without exact_sensing; forces are those that acted."""
    scene = sn.Scene(dt=0.01, substeps=5, exact_sensing=exact)
    scene.add_object(sn.Sphere(), name="ball", pos=(0, 0, 5), free=True)
    pose = scene.add_sensor(sn.FramePose(link="ball"))
    imu = scene.add_sensor(sn.IMU(link="ball"))
    scene.build(n_envs=9)
    scene.step(20)
    t = 0.2 if exact else 0.2 - 0.002
    assert pose.read().lin_vel[3, 2] == pytest.approx(-9.81 * t, rel=1e-5)
    assert torch.allclose(pose.read().pos[:, 2].double(), scene.world.bind("qpos")[:, 2]) == exact
    assert imu.read().lin_acc.abs().max() < 1e-5


def test_models_of_all_kinds():
    scene = sn.Scene()
    spec = mujoco.MjSpec.from_string(ARM)
    left = scene.add_robot(ARM, name="left", pos=(0, 1, 0))
    right = scene.add_robot(spec, name="right", pos=(0, -1, 0), euler=(0, 0, np.pi / 2))
    third = scene.add_robot(ARM)
    fourth = scene.add_robot(ARM)
    lever = scene.add_robot(URDF, free=True, pos=(2, 0, 1))
    assert (third.name, fourth.name, lever.name) == ("arm", "arm_2", "lever")
    shapes = [sn.Box(), sn.Sphere(), sn.Cylinder(), sn.Capsule()]
    for x, shape in enumerate(shapes):
        scene.add_object(shape, pos=(x, 3, 1), free=True)
    scene.add_terrain(sn.Plane(), name="ground")
    scene.build(n_envs=2)
    assert left.joint_names == right.joint_names == ["shoulder", "elbow"]
    assert left.actuator_names == ["m1", "m2"]
    assert lever.joint_names == ["hinge"]
    assert right.get_pose()[0][0].tolist() == pytest.approx([0, -1, 0.5])
    assert right.get_pose()[1][1].tolist() == pytest.approx([np.sqrt(0.5), 0, 0, np.sqrt(0.5)], abs=1e-6)
    assert len(spec.bodies) == 3, "the spec of the user must not change"
    scene.step(3)
    assert scene["lever"].get_pose()[0][0, 2] < 1.0


def test_model_files(tmp_path):
    (tmp_path / "arm.xml").write_text(ARM)
    (tmp_path / "lever.urdf").write_text(URDF)
    scene = sn.Scene()
    scene.add_robot(tmp_path / "arm.xml")
    scene.add_robot(str(tmp_path / "lever.urdf"))
    scene.build()
    assert list(scene.entities) == ["arm", "lever"]


def test_free_adds_and_removes_the_free_joint():
    for model, free, expected in ((ARM, None, 0), (URDF, True, 1), (URDF, False, 0)):
        scene = sn.Scene()
        scene.add_robot(model, name="r", free=free)
        scene.build()
        kinds = [int(kind) for kind in scene.model.jnt_type]
        assert kinds.count(int(mujoco.mjtJoint.mjJNT_FREE)) == expected


def test_options_of_models_are_replaced():
    scene = arm_scene(dt=0.02, substeps=4, gravity=(0, 0, -1.62))
    scene.build()
    assert scene.model.opt.timestep == pytest.approx(0.005)
    assert scene.model.opt.gravity[2] == pytest.approx(-1.62)


def test_control_and_joint_state_per_env():
    scene = arm_scene()
    arm = scene["arm"]
    scene.build(n_envs=4)
    arm.set_ctrl([1.0, 2.0], envs=[1, 3])
    arm.set_ctrl(5.0, actuators=["m2"], envs=[0])
    assert scene.world.bind("ctrl").tolist() == [[0, 5], [1, 2], [0, 0], [1, 2]]
    arm.set_joint_positions([[0.1], [0.2]], joints=["elbow"], envs=[2, 0])
    assert arm.get_joint_positions(["elbow"])[:, 0].tolist() == pytest.approx([0.2, 0, 0.1, 0])
    arm.set_joint_velocities(1.5)
    assert arm.get_joint_velocities().tolist() == [[1.5, 1.5]] * 4
    scene.update_state()
    state = scene.state_dict(include_tags=["joint", "ctrl"])
    assert set(state) == {"arm.joint_positions", "arm.joint_velocities", "arm.ctrl"}
    assert state["arm.ctrl"].tolist() == [[0, 5], [1, 2], [0, 0], [1, 2]]


def test_forward_shows_written_state_to_sensors():
    scene = arm_scene()
    encoder = scene.add_sensor(sn.JointEncoder(joints=("shoulder",), delay=0.05))
    scene.build(n_envs=3)
    scene.step(3)
    others = encoder.read().positions[[0, 2]].clone()
    scene["arm"].set_joint_positions(0.7, joints=["shoulder"], envs=[1])
    scene.forward(envs=[1])
    assert encoder.read().positions[1].item() == pytest.approx(0.7)
    assert torch.equal(encoder.read().positions[[0, 2]], others)


def test_pose_of_a_free_base():
    scene = drop_scene()
    scene.build(n_envs=2)
    scene["box"].set_pose(pos=(1, 2, 3), quat=(2, 0, 0, 0), envs=[1])
    scene.forward()
    pos, quat = scene["box"].get_pose()
    assert pos[1].tolist() == [1, 2, 3]
    assert quat[1].tolist() == [1, 0, 0, 0]
    assert pos[0].tolist() == pytest.approx([0, 0, 0.12])


def test_state_is_restored_exactly():
    scene = arm_scene()
    scene.build(n_envs=3)
    scene["arm"].set_ctrl([[1, 0], [0, 1], [2, 2]])
    scene.step(20)
    state = scene.get_state()
    scene.step(30)
    later = scene.get_state()
    scene.set_state(state)
    assert torch.equal(scene.get_state(), state)
    scene.step(30)
    assert torch.equal(scene.get_state(), later)
    scene.set_state(state[[1]], envs=[1])
    assert torch.equal(scene.get_state()[1], state[1])
    assert torch.equal(scene.get_state()[[0, 2]], later[[0, 2]])


def test_replay_writes_the_physics_buffer_back():
    scene = arm_scene()
    scene.build(n_envs=2)
    scene["arm"].set_ctrl(1.0)
    scene.step(10)
    scene.update_state()
    recorded = {path: value.clone() for path, value in scene.state_dict().items()}
    scene.step(10)
    scene.load_state_dict(recorded)
    scene.write_replay_data()
    assert torch.equal(scene.get_state(), recorded["physics"])


def test_reset_of_some_envs():
    scene = drop_scene()
    scene.build(n_envs=3)
    at_start = scene.get_state()
    scene.step(30)
    moved = scene.get_state()
    scene.reset(envs=[1])
    state = scene.get_state()
    assert torch.equal(state[1], at_start[1])
    assert torch.equal(state[[0, 2]], moved[[0, 2]])
    assert scene.time.tolist() == pytest.approx([0.3, 0, 0.3])
    scene.reset(envs=torch.tensor([True, False, False]))
    assert scene.time.tolist() == pytest.approx([0, 0, 0.3])
    scene.reset(envs=[])
    scene.reset(envs=2)
    assert scene.time.tolist() == [0, 0, 0]


@pytest.mark.parametrize("n_envs", [3, 12])
def test_a_diverging_env_is_reported_and_the_others_continue(n_envs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log to the working directory
    scene, twin = drop_scene(), drop_scene()
    imu = scene.add_sensor(sn.IMU(link="box", acc_noise=0.1, uuid="imu"))
    twin_imu = twin.add_sensor(sn.IMU(link="box", acc_noise=0.1, uuid="imu"))
    scene.build(n_envs=n_envs)
    twin.build(n_envs=n_envs)
    scene.world.bind("qvel")[1, 2] = 1e30
    with pytest.raises(sn.DivergenceError, match=r"env 1: .*scene\.reset\(envs=\[1\]\)") as caught:
        scene.step(4)
    twin.step(4)
    assert caught.value.envs == [1]
    assert "QVEL" in caught.value.messages[1].upper()
    assert set(scene.failed) == {1}
    others = [env for env in range(n_envs) if env != 1]
    assert torch.equal(scene.get_state()[others], twin.get_state()[others])
    assert torch.equal(imu.read().lin_acc[others], twin_imu.read().lin_acc[others])
    held = scene.get_state()[1].clone()
    scene.step(3)  # the failed env stands still and is not reported again
    twin.step(3)
    assert torch.equal(scene.get_state()[1], held)
    assert torch.equal(imu.read().lin_acc[others], twin_imu.read().lin_acc[others])
    scene.reset(envs=[1])
    assert scene.failed == {}
    scene.step(5)
    twin.step(5)
    assert scene.time[1] == pytest.approx(0.05)
    assert torch.isfinite(scene.get_state()).all()
    assert torch.equal(scene.get_state()[others], twin.get_state()[others])


@pytest.mark.parametrize("n_envs", [4, 10])
def test_engine_errors_are_reported_by_env(n_envs):
    """An env in which MuJoCo raises (a constraint of an unknown type) keeps its state, and the others continue."""
    spec = mujoco.MjSpec.from_string(ARM)
    weld = spec.add_equality(type=mujoco.mjtEq.mjEQ_WELD, objtype=mujoco.mjtObj.mjOBJ_BODY)
    weld.name1, weld.name2 = "upper", "world"
    scene = sn.Scene(dt=0.01, substeps=2)
    scene.add_robot(spec, name="arm")
    encoder = scene.add_sensor(sn.JointEncoder())
    scene.build(n_envs=n_envs)
    kind = scene.world.expand("eq_type")
    good = kind.clone()
    kind[2] = 99
    with pytest.raises(sn.DivergenceError) as caught:
        scene.step(2)
    assert caught.value.envs == [2]
    assert caught.value.messages[2]
    expected = [0.02] * n_envs
    expected[2] = 0.0
    assert scene.time.tolist() == pytest.approx(expected)
    scene["arm"].set_joint_positions(0.3)
    with pytest.raises(sn.DivergenceError, match="env 2"):
        scene.forward()
    healthy = [env for env in range(n_envs) if env != 2]
    assert encoder.read().positions[healthy].min() == pytest.approx(0.3), "the others' sensors were refreshed"
    with pytest.raises(sn.DivergenceError, match="env 2"):
        scene.reset(envs=[2])
    kind.copy_(good)
    scene.reset(envs=[2])
    scene.step()
    assert scene.time[2] == pytest.approx(0.01)


def test_per_env_model_fields():
    scene = drop_scene(gravity=(0, 0, -10))
    scene.build(n_envs=2)
    gravity = scene.world.expand("opt.gravity")
    gravity[1] = torch.tensor([0.0, 0.0, -1.0])
    scene["box"].set_pose(pos=(0, 0, 9))
    scene.step(10)
    velocity = scene.world.bind("qvel")[:, 2]
    assert velocity.tolist() == pytest.approx([-1.0, -0.1])


def test_rays():
    scene = drop_scene(height=2.0)
    scene.build(n_envs=2)
    distance, geom = scene.world.rays([0.0, 0, 5], [0.0, 0, -1])
    assert distance[:, 0].tolist() == pytest.approx([2.9, 2.9])
    assert scene.model.geom(int(geom[0, 0])).name == "box"


def test_a_closed_scene_is_freed():
    import gc
    import weakref

    scene = drop_scene()
    scene.add_sensor(sn.IMU(link="box"))
    scene.build(n_envs=2)
    scene.step()
    world = weakref.ref(scene.world)
    scene.close()
    scene.close()
    with pytest.raises(sn.NotBuiltError):
        scene.step()
    del scene
    gc.collect()
    assert world() is None


def test_friction_cones_follow_the_options():
    for options, cone, ratio in (({}, 0, 1.0), ({"cone": "elliptic", "impratio": 10}, 1, 10.0)):
        scene = sn.Scene(**options)
        scene.add_object(sn.Box(size=(0.1, 0.1, 0.1)), free=True)
        scene.build()
        assert (scene.model.opt.cone, scene.model.opt.impratio) == (cone, ratio)
    with pytest.raises(sn.OptionError, match="impratio"):
        sn.Scene(impratio=0)


def test_set_state_takes_rows_in_the_order_of_envs():
    scene = drop_scene()
    scene.build(n_envs=4)
    state = scene.get_state()
    state[:, 1] = torch.arange(4.0)
    scene.set_state(state)
    scene.set_state(state[[3, 1]], envs=[3, 1])
    assert torch.equal(scene.get_state(), state)
    scene.set_state(state[[0, 2]], envs=torch.tensor([True, False, True, False]))
    assert torch.equal(scene.get_state(), state)


def test_held_envs_have_the_pose_of_their_state():
    scene = drop_scene(height=0.5)
    scene.build(n_envs=3)
    scene.hold([1])
    position, orientation = scene["box"].get_pose()  # binds the field for the first time
    assert position[1].tolist() == pytest.approx([0, 0, 0.5])
    assert orientation[1].tolist() == pytest.approx([1, 0, 0, 0])
    scene.step(5)
    height = scene["box"].get_pose()[0][:, 2]
    assert height[1].item() == pytest.approx(0.5)
    assert height[0].item() < 0.5


def test_episodes_are_counted_without_sensors():
    scene = sn.Scene()
    scene.add_object(sn.Box(), name="box", free=True)
    scene.build(n_envs=3)
    assert scene.episodes.tolist() == [0, 0, 0]
    scene.reset([1])
    scene.reset()
    assert scene.episodes.tolist() == [1, 2, 1]
    scene.set_state(scene.get_state()[2:], envs=[2])
    scene.forward()
    assert scene.episodes.tolist() == [1, 2, 2]
