"""IMU, contact sensors, joint encoder and frame pose against physics."""

import math

import numpy as np
import pytest
import torch
from conftest import arm_scene, drop_scene

import sensorium as sn


def test_acceleration_is_zero_in_free_fall_and_g_at_rest():
    scene = drop_scene(height=1.0)
    imu = scene.add_sensor(sn.IMU(link="box"))
    scene.build(n_envs=3)
    scene.step(20)
    assert imu.read().lin_acc.abs().max() < 1e-5
    scene.step(200)
    assert torch.allclose(imu.read().lin_acc, torch.tensor([0.0, 0.0, 9.81]), atol=1e-3)
    assert imu.read().ang_vel.abs().max() < 1e-4


def test_imu_reads_in_its_mounting_frame():
    """At rest, a sensor rolled by 90 degrees reads gravity along its own y axis; the field is rotated, too."""
    scene = drop_scene(height=0.1)
    imu = scene.add_sensor(sn.IMU(link="box", euler=(math.pi / 2, 0, 0)))
    scene.build()
    scene.step(100)
    assert imu.read().lin_acc[0].tolist() == pytest.approx([0, 9.81, 0], abs=1e-3)
    assert imu.read().mag[0].tolist() == pytest.approx([0, -4.3e-5, -2.1e-5], abs=1e-9)


def test_spinning_body_has_rate_and_centripetal_acceleration():
    scene = sn.Scene(dt=0.001, substeps=1, gravity=(0, 0, 0))
    scene.add_object(sn.Sphere(radius=0.1, mass=1.0), name="ball", free=True)
    imu = scene.add_sensor(sn.IMU(link="ball", pos=(0.05, 0, 0)))
    scene.build()
    scene.world.bind("qvel")[0, 5] = 10.0
    scene.step(50)
    assert imu.read().ang_vel[0].tolist() == pytest.approx([0, 0, 10], abs=1e-4)
    assert imu.read().lin_acc[0].tolist() == pytest.approx([-(10**2) * 0.05, 0, 0], abs=1e-2)


def test_misalignment_matrix_is_applied():
    matrix = ((1.0, 0.0, 0.1), (0.0, 1.0, 0.0), (0.0, 0.0, 0.5))
    scene = drop_scene(height=0.1)
    imu = scene.add_sensor(sn.IMU(link="box", acc_misalignment=matrix))
    scene.build(n_envs=2)
    scene.step(100)
    truth = imu.read_ground_truth().lin_acc
    torch.testing.assert_close(imu.read().lin_acc, truth @ torch.tensor(matrix).T)
    imu.set(acc_misalignment=np.eye(3), envs=[1])
    scene.step()
    torch.testing.assert_close(imu.read().lin_acc[1], imu.read_ground_truth().lin_acc[1])
    assert imu.read().lin_acc[0, 0].item() == pytest.approx(0.981, abs=1e-2)


def stack_scene():
    """Return a scene with a 2 kg box on a 3 kg box on the ground."""
    scene = sn.Scene(dt=0.01, substeps=5)
    scene.add_object(sn.Plane(), name="ground")
    scene.add_object(sn.Box(size=(0.4, 0.4, 0.2), mass=3.0), name="lower", pos=(0, 0, 0.1), free=True)
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=2.0), name="upper", pos=(0, 0, 0.3), free=True)
    return scene


def test_contact_forces_of_a_static_stack():
    scene = stack_scene()
    add = scene.add_sensor
    net = add(sn.ContactForce(link="lower", uuid="net"))
    below = add(sn.ContactForce(link="lower", uuid="below", touching="ground"))
    above = add(sn.ContactForce(link="lower", uuid="above", touching=("upper",)))
    both = add(sn.ContactForce(link="lower", uuid="both", touching=("upper", "ground")))
    turned = add(sn.ContactForce(link="upper", uuid="turned", euler=(0, math.pi / 2, 0)))
    scene.build(n_envs=2)
    scene.step(300)
    g = 9.81
    assert net.read()[1].tolist() == pytest.approx([0, 0, 3 * g], abs=0.02)
    assert below.read()[1].tolist() == pytest.approx([0, 0, 5 * g], abs=0.02)
    assert above.read()[1].tolist() == pytest.approx([0, 0, -2 * g], abs=0.02)
    torch.testing.assert_close(both.read(), net.read(), atol=1e-4, rtol=1e-4)
    # pitched by 90 degrees, its x axis points down: an upward force is along -x
    assert turned.read()[1].tolist() == pytest.approx([-2 * g, 0, 0], abs=0.02)


def test_contact_force_on_an_inclined_plane():
    """A box at rest on a 15 degree slope has the normal force m g cos and the friction m g sin in its own frame."""
    angle = math.radians(15)
    scene = sn.Scene(dt=0.01, substeps=10)
    scene.add_object(sn.Plane(), euler=(0, angle, 0))
    normal = np.array([math.sin(angle), 0, math.cos(angle)])
    box = sn.Box(size=(0.2, 0.2, 0.1), mass=1.0)
    scene.add_object(box, name="box", pos=tuple(normal * 0.05), euler=(0, angle, 0), free=True)
    force = scene.add_sensor(sn.ContactForce(link="box"))
    scene.build()
    scene.step(200)
    expected = [-9.81 * math.sin(angle), 0, 9.81 * math.cos(angle)]
    assert force.read()[0].tolist() == pytest.approx(expected, abs=0.05)


def test_min_force_and_max_force_limit_each_axis():
    scene = drop_scene(height=0.1)
    clamped = scene.add_sensor(sn.ContactForce(link="box", uuid="clamped", max_force=5.0))
    numb = scene.add_sensor(sn.ContactForce(link="box", uuid="numb", min_force=20.0))
    turned = scene.add_sensor(sn.ContactForce(link="box", uuid="turned", max_force=5.0, euler=(math.pi, 0, 0)))
    scene.build()
    scene.step(100)
    assert clamped.read()[0, 2] == 5.0
    assert turned.read()[0, 2] == -5.0
    assert numb.read()[0, 2] == 0.0
    assert clamped.read_ground_truth()[0, 2].item() == pytest.approx(9.81, abs=0.01)


def test_contact_switch_threshold_and_touching():
    scene = stack_scene()
    any_touch = scene.add_sensor(sn.Contact(link="upper", uuid="any"))
    ground = scene.add_sensor(sn.Contact(link="upper", uuid="ground_only", touching="ground"))
    either = scene.add_sensor(sn.Contact(link="upper", uuid="either", touching=("ground", "lower")))
    firm = scene.add_sensor(sn.Contact(link="upper", uuid="firm", threshold=100.0))
    scene.build(n_envs=2)
    scene["upper"].set_pose(pos=(0, 0, 2.0), envs=[1])
    scene.forward()
    scene.step(30)
    assert any_touch.read().tolist() == [[True], [False]]
    assert ground.read().tolist() == [[False], [False]]
    assert either.read().tolist() == [[True], [False]]
    assert firm.read().tolist() == [[False], [False]]
    firm.set(threshold=1.0, envs=[0])
    scene.step()
    assert firm.read().tolist() == [[True], [False]]


def test_contact_switch_closes_if_opposite_forces_cancel():
    """The switch adds up the normal forces of contacts instead of using the net force."""
    scene = sn.Scene(dt=0.01, substeps=5, gravity=(0, 0, 0))
    for name, x in (("left", -0.148), ("right", 0.148)):
        scene.add_object(sn.Box(size=(0.1, 0.3, 0.3)), name=name, pos=(x, 0, 0))
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", free=True)
    touch = scene.add_sensor(sn.Contact(link="box"))
    force = scene.add_sensor(sn.ContactForce(link="box"))
    scene.build()
    scene.step(100)
    assert force.read().norm() < 1e-3
    assert touch.read().item() is True


def test_encoder_reads_selected_joints_in_counts():
    scene = arm_scene()
    encoder = scene.add_sensor(sn.JointEncoder(robot="arm", joints=("elbow", "shoulder"), counts_per_revolution=360))
    by_index = scene.add_sensor(sn.JointEncoder(joints=(0,), uuid="first"))
    everything = scene.add_sensor(sn.JointEncoder(uuid="all"))
    scene.build(n_envs=2)
    scene["arm"].set_joint_positions([[0.1, 0.2], [-0.3, 0.4]])
    scene["arm"].set_joint_velocities([1.0, -1.0])
    scene.forward()
    truth = encoder.read_ground_truth()
    torch.testing.assert_close(truth.positions, torch.tensor([[0.2, 0.1], [0.4, -0.3]]))
    torch.testing.assert_close(truth.velocities, torch.tensor([[-1.0, 1.0], [-1.0, 1.0]]))
    counts = encoder.read().positions / (2 * math.pi / 360)
    torch.testing.assert_close(counts, counts.round(), atol=1e-4, rtol=0)
    assert (encoder.read().positions - truth.positions).abs().max() <= math.pi / 360 + 1e-6
    assert everything.joint_names == ["arm/shoulder", "arm/elbow"]
    torch.testing.assert_close(by_index.read().positions[:, 0], torch.tensor([0.1, -0.3]))


def turning_scene(options, n_envs=2, substeps=1):
    """Return a scene with a wheel that turns at 1.7 rad/s, and an encoder of its joint."""
    scene = sn.Scene(dt=0.01, substeps=substeps, gravity=(0, 0, 0))
    wheel = '<body name="wheel"><joint name="j"/><geom size="0.1" mass="1"/></body>'
    scene.add_robot(f"<mujoco><worldbody>{wheel}</worldbody></mujoco>", name="r")
    encoder = scene.add_sensor(options)
    scene.build(n_envs=n_envs)
    scene["r"].set_joint_velocities([1.7])
    scene.forward()
    return scene, encoder


@pytest.mark.parametrize("rate", [None, 25.0])
def test_encoder_derives_velocity_from_counts(rate):
    """Every velocity is a whole number of counts per sample interval, and their mean is the true velocity."""
    count, interval = 2 * math.pi / 500, 1 / (rate or 100.0)
    options = sn.JointEncoder(robot="r", counts_per_revolution=500, velocity="counts", rate=rate)
    scene, encoder = turning_scene(options)
    positions, velocities = [], []
    for _ in range(200):
        scene.step()
        positions.append(encoder.read().positions[0, 0].item())
        velocities.append(encoder.read().velocities[0, 0].item())
    torch.testing.assert_close(encoder.read_ground_truth().velocities, torch.full((2, 1), 1.7), atol=1e-4, rtol=0)
    assert velocities[0] == 0.0 or rate is None  # before the second sample there is no difference
    steps = torch.tensor(velocities[10:]) * interval / count
    torch.testing.assert_close(steps, steps.round(), atol=2e-3, rtol=0)
    assert set(steps.round().tolist()) <= {1.0, 2.0} | {5.0, 6.0}  # 1.35 or 5.41 counts per sample
    assert len(set(steps.round().tolist())) == 2
    every = round(interval * 100)
    moved = positions[-1] - positions[-1 - 40 * every]
    assert sum(velocities[-40 * every :: every]) * interval == pytest.approx(moved, abs=2 * count)
    assert sum(velocities[-40 * every :]) / (40 * every) == pytest.approx(1.7, abs=count / interval / 30)


def test_velocity_from_counts_restarts_at_a_reset_without_changing_other_envs():
    options = {"robot": "r", "counts_per_revolution": 500, "velocity": "counts", "noise": 0.02, "rate": 50.0}
    seen = []
    for resets in (False, True):
        scene, encoder = turning_scene(sn.JointEncoder(uuid="e", **options))
        for step in range(12):
            scene.step()
            if resets and step == 5:
                scene.reset([0])
                assert encoder.read().velocities[0].item() == 0.0
            seen.append(encoder.read().velocities[1].item())
    assert seen[:12] == seen[12:]
    assert len(set(seen)) > 3


def test_velocity_from_counts_counts_lost_samples():
    """After a lost sample, the difference is over the time since the last one that was taken."""
    options = sn.JointEncoder(robot="r", counts_per_revolution=1e6, velocity="counts", dropout=0.5)
    scene, encoder = turning_scene(options)
    scene.step(20)
    seen = []
    for _ in range(50):
        scene.step()
        seen.append(encoder.read().velocities[0, 0].item())
    assert seen == pytest.approx([1.7] * 50, rel=2e-3)


def test_velocity_from_counts_needs_counts_and_no_imperfections_of_its_own():
    with pytest.raises(sn.OptionError, match="velocity='counts' needs counts_per_revolution or resolution"):
        sn.JointEncoder(velocity="counts")
    with pytest.raises(sn.OptionError, match="vel has no effect with velocity='counts'"):
        sn.JointEncoder(velocity="counts", resolution=0.01, vel_noise=0.1)
    scene, encoder = turning_scene(sn.JointEncoder(velocity="counts", resolution=0.01))
    with pytest.raises(sn.OptionError, match="vel_noise"):
        encoder.set(vel_noise=0.1)
    encoder.set(counts_per_revolution=100.0)
    scene.step()


def test_frame_pose_relative_to_the_world_and_to_a_link():
    scene = arm_scene()
    absolute = scene.add_sensor(sn.FramePose(link="tip", uuid="absolute"))
    relative = scene.add_sensor(sn.FramePose(link="tip", relative_to="lower", uuid="relative"))
    scene.build()
    q1, q2, w1, w2 = 0.4, 0.3, 1.0, -0.5
    scene["arm"].set_joint_positions([q1, q2])
    scene["arm"].set_joint_velocities([w1, w2])
    scene.forward()
    got = absolute.read()
    a, b = q1, q1 + q2
    expected = [0.3 * math.sin(a) + 0.3 * math.sin(b), 0, 0.5 + 0.3 * math.cos(a) + 0.3 * math.cos(b)]
    assert got.pos[0].tolist() == pytest.approx(expected, abs=1e-6)
    assert got.quat[0].tolist() == pytest.approx([math.cos(b / 2), 0, math.sin(b / 2), 0], abs=1e-6)
    speed = [0.3 * math.cos(a) * w1 + 0.3 * math.cos(b) * (w1 + w2), 0]
    speed.append(-0.3 * math.sin(a) * w1 - 0.3 * math.sin(b) * (w1 + w2))
    assert got.lin_vel[0].tolist() == pytest.approx(speed, abs=1e-6)
    assert got.ang_vel[0].tolist() == pytest.approx([0, w1 + w2, 0], abs=1e-6)
    assert relative.read().pos[0].tolist() == pytest.approx([0, 0, 0.3], abs=1e-6)
    assert relative.read().lin_vel.abs().max() < 1e-6
    assert relative.read().ang_vel.abs().max() < 1e-6


def test_orientation_noise_has_the_given_standard_deviation():
    scene = drop_scene()
    pose = scene.add_sensor(sn.FramePose(link="box", rot_noise=0.02))
    scene.build(n_envs=3000)
    scene.step(2)
    quat = pose.read().quat.double()
    torch.testing.assert_close(quat.norm(dim=-1), torch.ones(3000).double(), atol=1e-6, rtol=0)
    truth = pose.read_ground_truth().quat.double()
    # rotation vector between truth and reading, for small angles: twice the vector part of conj(truth) * reading
    w, v = truth[:, :1], -truth[:, 1:]
    turned = 2 * (w * quat[:, 1:] + quat[:, :1] * v + torch.linalg.cross(v, quat[:, 1:]))
    assert turned.std(dim=0).tolist() == pytest.approx([0.02] * 3, rel=0.06)
    assert turned.mean(dim=0).abs().max() < 4 * 0.02 / math.sqrt(3000)
