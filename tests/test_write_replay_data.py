"""``write_replay_data``: buffers that were set by hand move the simulation."""

import math

import pytest
import torch

import sensorium as sn


def make_scene(n_envs=2, device="cpu"):
    scene = sn.Scene()
    scene.add_object(sn.Plane())
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", pos=(0, 0, 0.5), free=True)
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2)), name="wall", pos=(3, 0, 0.1))
    scene.add_robot("diffdrive", name="robot", pos=(0, 3, 0.2))
    scene.add_sensor(sn.FramePose(link="box", uuid="pose"))
    scene.build(n_envs=n_envs, device=device)
    return scene


@pytest.mark.parametrize("updated", [True, False])
def test_a_pose_set_in_place_is_applied(updated):
    scene = make_scene()
    if updated:
        scene.update_state()
    wanted = torch.tensor([[0.0, 1.0, 2.0], [3.0, 0.0, 2.0]])
    scene["box"].position.value[:] = wanted
    others = scene["robot"].get_pose()[0].clone()
    scene.write_replay_data()
    assert torch.equal(scene["box"].get_pose()[0], wanted)
    assert torch.equal(scene["robot"].get_pose()[0], others)
    assert torch.allclose(scene.sensors["pose"].read().pos, wanted, atol=1e-6)  # the sensors restart there
    scene.step(20)
    fallen = scene["box"].get_pose()[0]
    assert torch.allclose(fallen[:, 2], torch.full((2,), 2.0 - 0.5 * 9.81 * 0.2**2), atol=0.01)


def test_setting_the_value_of_an_earlier_update_goes_back():
    scene = make_scene()
    scene.update_state()
    start = scene["box"].position.value.clone()
    scene.step(10)
    scene["box"].position.value[:] = start
    scene.write_replay_data()
    assert torch.equal(scene["box"].get_pose()[0], start)


def test_nothing_is_written_unless_it_was_set():
    scene = make_scene()
    scene.update_state()
    scene.step(10)
    state = scene.get_state()
    scene.write_replay_data()
    assert torch.equal(scene.get_state(), state)
    scene["box"].position.value[0] += 1.0
    scene.write_replay_data()
    state = scene.get_state()
    scene.step(3)
    moved = scene.get_state()
    scene.write_replay_data()  # what was written once is not written again
    assert torch.equal(scene.get_state(), moved)
    assert not torch.equal(state, moved)


def test_joints_controls_and_velocities_of_a_robot_are_applied():
    scene = make_scene()
    robot = scene["robot"]
    scene.update_state()
    robot.joint_positions.value[0, 0] = 0.7
    robot.joint_velocities.set_value(torch.full_like(robot.joint_velocities.value, 0.3))
    robot.ctrl.value[1] = 0.1
    half = math.sqrt(0.5)
    robot.orientation.value[:] = torch.tensor([half, 0.0, 0.0, half])
    robot.linear_velocity.value[:] = torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]])
    robot.angular_velocity.value[:] = torch.tensor([0.5, 0.0, 1.0])
    scene.write_replay_data()
    assert robot.get_joint_positions()[0, 0] == pytest.approx(0.7)
    assert torch.allclose(robot.get_joint_velocities(), torch.tensor(0.3))
    assert torch.allclose(scene.world.bind("ctrl")[1].float(), torch.tensor(0.1))
    linear, angular = robot.get_velocity()
    assert torch.allclose(linear, torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]]), atol=1e-5)
    assert torch.allclose(angular, torch.tensor([0.5, 0.0, 1.0]).expand(2, 3), atol=1e-5)
    # MuJoCo keeps the angular velocity in the frame of the link, which is turned by 90 degrees about z
    joint = int(scene.model.body("robot/base").jntadr[0])
    dof = int(scene.model.jnt_dofadr[joint])
    inner = scene.world.bind("qvel")[:, dof + 3 : dof + 6].float()
    assert torch.allclose(inner, torch.tensor([0.0, -0.5, 1.0]), atol=1e-5)
    scene.update_state()
    assert torch.allclose(robot.linear_velocity.value, linear, atol=1e-6)


def test_the_full_state_is_applied_before_the_other_buffers():
    scene = make_scene()
    scene.step(5)
    early = scene.get_state()
    scene.step(30)
    scene.update_state()
    late = scene["box"].position.value.clone()
    scene.physics.value[:] = early
    scene["box"].position.value[1] = torch.tensor([1.0, 1.0, 1.0])
    scene.write_replay_data()
    # a buffer that was set is written in all envs
    assert torch.equal(scene["box"].get_pose()[0], torch.stack([late[0], torch.tensor([1.0, 1.0, 1.0])]))
    state = scene.get_state()
    changed = (state != early).any(dim=0).nonzero().flatten()
    box = int(scene.model.body("box").jntadr[0])
    first = 1 + int(scene.model.jnt_qposadr[box])  # the state begins with the time
    assert set(changed.tolist()) <= set(range(first, first + 3))


def test_model_fields_set_by_hand_reach_the_cameras():
    scene = make_scene()
    colours = scene.world.expand("geom_rgba")
    version = scene.world.changes.version
    scene.write_replay_data()
    assert scene.world.changes.version == version
    colours[1, 1] = torch.tensor([1.0, 0.0, 0.0, 1.0], dtype=colours.dtype)
    dict(scene.named_buffers())["world.geom_rgba"].value[0, 1, 0] = 0.25
    scene.write_replay_data()
    assert scene.world.changes.version > version


def test_a_pose_that_cannot_be_set_warns_by_name():
    scene = make_scene()
    scene.update_state()
    scene["wall"].position.value[0] += 1.0
    with pytest.warns(UserWarning, match=r"wall\.position was set.*free=True"):
        scene.write_replay_data()
    arm = sn.Scene()
    franka = arm.add_robot("franka", name="arm")
    arm.build()
    arm.update_state()
    franka.linear_velocity.value += 1.0
    with pytest.warns(UserWarning, match=r"arm\.linear_velocity was set.*joint_velocities"):
        arm.write_replay_data()


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("position", torch.full((2, 3), float("nan")), r"box\.position must be finite"),
        ("position", torch.zeros(2, 2), r"box\.position must be a tensor of shape \(2, 3\), got \(2, 2\)"),
        ("position", "here", r"box\.position must be a tensor of shape \(2, 3\), got 'here'"),
        ("orientation", torch.zeros(2, 4), r"box\.orientation must be quaternions"),
    ],
)
def test_bad_values_raise_and_change_nothing(name, value, match):
    scene = make_scene()
    scene.update_state()
    scene["robot"].position.value[:] = 1.0
    getattr(scene["box"], name).value = value
    state = scene.get_state()
    with pytest.raises(sn.OptionError, match=match):
        scene.write_replay_data()
    assert torch.equal(scene.get_state(), state)


def test_velocities_of_free_entities():
    scene = make_scene()
    box = scene["box"]
    box.set_velocity(linear=(1.0, 0.0, 2.0), angular=(0.0, 0.0, 3.0), envs=[1])
    linear, angular = box.get_velocity()
    assert linear.tolist() == [[0, 0, 0], [1, 0, 2]]
    assert torch.allclose(angular[1], torch.tensor([0.0, 0.0, 3.0]))
    with pytest.raises(sn.OptionError, match="'wall' has a fixed base"):
        scene["wall"].get_velocity()
    with pytest.raises(sn.OptionError, match="'wall' has a fixed base"):
        scene["wall"].set_velocity(linear=(1, 0, 0))


@pytest.mark.gpu
def test_buffers_set_by_hand_are_applied_on_a_gpu():
    scene = make_scene(device="cuda")
    scene.update_state()
    scene.step(10)
    assert not scene["box"].position.is_set  # the last update is a copy, not a view of the state
    assert not scene["robot"].linear_velocity.is_set
    wanted = torch.tensor([[0.0, 1.0, 2.0], [3.0, 0.0, 2.0]], device="cuda")
    scene["box"].position.value[:] = wanted
    scene["robot"].linear_velocity.set_value([[0.0, 0.0, 1.0], [0.5, 0.0, 0.0]])
    scene.write_replay_data()
    assert torch.allclose(scene["box"].get_pose()[0], wanted)
    assert torch.allclose(scene["robot"].entity.get_velocity()[0][1].cpu(), torch.tensor([0.5, 0.0, 0.0]))
