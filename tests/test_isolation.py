"""Changes of one env, sensor or parameter do not affect the others."""

import numpy as np
import pytest
import torch
from conftest import ARM, arm_scene, drop_scene
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from probe import HookedProbe, Probe, probe_scene

import sensorium as sn
from sensorium.sensors import IMUSensor
from sensorium.testing import flat

SENSORS = (
    sn.IMU(link="box", uuid="imu", acc_noise=0.1, gyro_random_walk=0.1, max_delay=0.05, history_length=2),
    sn.Contact(link="box", uuid="touch", noise=1.0),
    sn.ContactForce(link="box", uuid="force", resolution=0.1),
    sn.FramePose(link="box", uuid="pose", pos_random_walk=0.2),
)
CHANGES = st.sampled_from(
    [
        ("imu", {"acc_noise": 0.5}),
        ("imu", {"acc_noise": 0.0, "gyro_random_walk": 0.0}),
        ("imu", {"delay": 0.02, "jitter": 0.02}),
        ("imu", {"rate": 30.0}),
        ("imu", {"rate": None, "delay": 0.0, "jitter": 0.0}),
        ("imu", {"acc_misalignment": ((1, 0.1, 0), (0, 1, 0), (0, 0, 1))}),
        ("imu", {"dropout": 0.5, "gyro_bias": 0.3}),
        ("touch", {"threshold": 20.0}),
        ("touch", {"threshold": 0.0, "noise": 0.0}),
        ("force", {"max_force": 3.0, "resolution": 0.0}),
        ("force", {"min_force": 4.0, "bias": (1.0, 0.0, -1.0)}),
        ("pose", {"pos_random_walk": 0.0}),
        ("pose", {"pos_random_walk": 0.4, "rot_noise": 0.01}),
    ]
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["own", "others"]), st.one_of(CHANGES, st.sampled_from(["reset", "forward"]))),
    max_size=12,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(script=STEPS)
def test_env_reads_the_same_bits_alone_and_in_a_batch(script):
    """Env 0 alone and env 0 in a batch read the same bits, whatever is set or reset in the other envs."""
    scenes = {}
    for name, n_envs in (("alone", 1), ("batch", 9)):
        scene = drop_scene()
        for options in SENSORS:
            scene.add_sensor(options)
        scene.build(n_envs=n_envs, seed=2)
        scenes[name] = scene
    for target, change in script:
        for scene in scenes.values():
            envs = [0] if target == "own" else list(range(1, scene.n_envs))
            if change in ("reset", "forward"):
                getattr(scene, change)(envs=envs)
            elif envs:
                scene[change[0]].set(envs=envs, **change[1])
            scene.step(2)
        for uuid in scenes["alone"].sensors:
            for read in ("read", "read_ground_truth"):
                alone, batch = (flat(getattr(scene[uuid], read)()) for scene in scenes.values())
                assert torch.equal(alone[0], batch[0]), (uuid, read)


def test_random_walk_keeps_its_value_when_it_is_set_to_0():
    scene, probe = probe_scene(Probe(random_walk=1.0), n_envs=2)
    scene.step(100)
    probe.set(random_walk=0.0)
    drift = None
    for _ in range(3):
        scene.step()
        now = probe.read() - probe.read_ground_truth()
        assert drift is None or torch.allclose(now, drift, atol=1e-6)
        drift = now
    assert drift.abs().min() > 1e-3


def test_reset_does_not_change_post_processed_readings_of_other_envs():
    scene = drop_scene(height=0.1)
    touch = scene.add_sensor(sn.Contact(link="box"))
    scene.build(n_envs=4)
    scene.step(50)
    touch.set(threshold=1000.0)
    scene.reset(envs=[3])
    assert touch.read().T.tolist() == [[True, True, True, False]]
    assert touch.read_ground_truth()[:3].all()


def test_contact_sums_all_contacts_of_the_link():
    """Four corners together carry 9.81 N, which exceeds a threshold of 9 N but not one of 10 N."""
    scene = drop_scene(height=0.1)
    under = scene.add_sensor(sn.Contact(link="box", uuid="under", threshold=9.0))
    over = scene.add_sensor(sn.Contact(link="box", uuid="over", threshold=10.0))
    scene.build()
    scene.step(150)
    assert under.read().item() is True
    assert over.read().item() is False


def test_delay_hook_without_other_hooks():
    class Answer(sn.IMU):
        pass

    class AnswerSensor(IMUSensor, options=Answer):
        @classmethod
        def _apply_delay(cls, group, ring, out):
            out.fill_(42.0)

    scene = drop_scene()
    answer = scene.add_sensor(Answer(link="box", delay=0.02, history_length=2))
    scene.build(n_envs=2)
    assert (answer.read().lin_acc == 42.0).all()
    scene.step(3)
    assert (answer.read().lin_acc == 42.0).all()
    scene.reset(envs=[1])
    assert (answer.read().lin_acc == 42.0).all()


def test_hooks_run_once_at_a_reset():
    class Counted(Probe):
        pass

    from probe import ProbeSensor

    class CountedSensor(ProbeSensor, options=Counted):
        @classmethod
        def _apply_physics_imperfections(cls, group, data):
            count = group.state("count")
            count += 1

    scene, counted = probe_scene(Counted(), n_envs=2)
    assert counted.group.state("count").unique().tolist() == [1.0]
    scene.step(2)
    scene.reset(envs=[1])
    assert counted.group.state("count").tolist() == [[3.0, 1.0]] * 3


def test_saturation_is_never_exceeded():
    scene = drop_scene(height=0.1)
    force = scene.add_sensor(sn.ContactForce(link="box", max_force=5.0, resolution=3.0))
    scene.build()
    scene.step(100)
    assert force.read()[0, 2] == 5.0


def test_counts_per_revolution_apply_to_hinges_only():
    slider = """<mujoco model="mixed"><worldbody><body name="a"><joint name="turn" axis="0 0 1"/><geom size="0.1"/>
      <body name="b"><joint name="push" type="slide"/><geom size="0.1"/></body></body></worldbody></mujoco>"""
    scene = sn.Scene(gravity=(0, 0, 0))
    scene.add_robot(slider)
    encoder = scene.add_sensor(sn.JointEncoder(counts_per_revolution=10))
    scene.build()
    scene["mixed"].set_joint_positions([0.5, 0.5])
    scene.forward()
    assert encoder.read().positions[0].tolist() == pytest.approx([2 * np.pi / 10, 0.5])
    encoder.set(counts_per_revolution=[100, 100])
    scene.step()
    assert encoder.read().positions[0, 1].item() == pytest.approx(0.5)


def test_unnamed_elements_belong_to_the_robot():
    unnamed = """<mujoco><worldbody><body><joint axis="0 1 0"/><geom size="0.1"/>
      <body name="tip"><joint axis="0 1 0"/><geom size="0.1"/></body></body></worldbody>
      <actuator><motor joint="joint0"/></actuator></mujoco>""".replace(
        '<joint axis="0 1 0"/><geom size="0.1"/>\n', "", 0
    )
    spec_text = unnamed.replace("<body><joint axis", '<body><joint name="first" axis').replace("joint0", "first")
    scene = sn.Scene()
    robot = scene.add_robot(spec_text)
    encoder = scene.add_sensor(sn.JointEncoder(robot="robot"))
    scene.build(n_envs=2)
    assert robot.name == "robot"
    assert robot.joint_names == ["first", "joint1"]
    assert encoder.joint_names == ["robot/first", "robot/joint1"]
    robot.set_ctrl(1.0)
    assert scene.world.bind("ctrl").tolist() == [[1.0], [1.0]]


KEYED = """<mujoco model="keyed"><worldbody><body name="base">{base}<geom size="0.1"/>
  <body name="arm"><joint name="j" axis="0 1 0"/><geom size="0.1" pos="0 0 0.3"/></body></body></worldbody>
  <keyframe><key name="home" qpos="{qpos}"/></keyframe></mujoco>"""


@pytest.mark.parametrize(("base", "qpos", "free"), [("<freejoint/>", "0 0 1 1 0 0 0 0.5", False), ("", "0.5", True)])
def test_changing_the_base_removes_keyframes_that_no_longer_fit(base, qpos, free):
    scene = sn.Scene()
    scene.add_robot(KEYED.format(base=base, qpos=qpos), free=free)
    scene.build()
    assert scene.model.nkey == 0
    assert scene.model.nq == (8 if free else 1)


def test_terrain_with_a_free_joint_is_fixed():
    scene = sn.Scene()
    loose = '<mujoco model="rock"><worldbody><body name="a"><freejoint/><geom size="0.1"/></body></worldbody></mujoco>'
    rock = scene.add_terrain(loose, pos=(0, 0, 1))
    scene.build()
    scene.step(20)
    assert rock.get_pose()[0][0, 2].item() == 1.0


def test_write_replay_data_writes_edited_values():
    """Loaded values that agree with the full state change nothing. Edited values are written."""
    scene = arm_scene()
    encoder = scene.add_sensor(sn.JointEncoder(robot="arm", uuid="encoder"))
    scene.build(n_envs=2)
    scene["arm"].set_ctrl(0.3)
    scene.step(7)
    scene.update_state()
    values = {name: value.clone() for name, value in scene.state_dict().items()}
    scene.step(5)
    scene.load_state_dict(values)
    scene.write_replay_data()
    assert torch.equal(scene.get_state(), values["physics"])
    values["arm.joint_positions"][1] = 0.7
    scene.load_state_dict(values)
    scene.write_replay_data()
    assert scene["arm"].get_joint_positions()[1].tolist() == pytest.approx([0.7, 0.7])
    assert encoder.read().positions[1].tolist() == pytest.approx([0.7, 0.7])
    assert torch.equal(scene.get_state()[0], values["physics"][0])


def test_reset_of_no_envs_keeps_failed_envs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scene = drop_scene()
    scene.build(n_envs=3)
    scene.world.bind("qvel")[1] = 1e30
    with pytest.raises(sn.DivergenceError):
        scene.step()
    for no_envs in ([], (), range(0), torch.zeros(3, dtype=torch.bool)):
        scene.reset(envs=no_envs)
        assert set(scene.failed) == {1}
    scene.reset(envs=torch.tensor(1))
    assert scene.failed == {}
    with pytest.raises(sn.OptionError, match="envs"):
        scene.reset(envs=[[0], [1, 1]])


def test_generated_names_do_not_clash_with_given_names():
    scene = sn.Scene()
    robot = scene.add_robot(
        """<mujoco model="physics"><worldbody><body name="body1"><joint name="joint1" axis="0 0 1"/><geom size="0.1"/>
        <body><joint axis="0 0 1"/><geom size="0.1"/></body></body></worldbody></mujoco>"""
    )
    scene.build()
    assert robot.name == "physics_2"
    assert robot.joint_names == ["joint1", "joint2"]
    scene.state_dict()


def test_partial_replay_changes_only_loaded_values():
    scene = drop_scene(height=1.0)
    imu = scene.add_sensor(sn.IMU(link="box", acc_random_walk=1.0))
    scene.build(n_envs=2)
    scene.step(20)
    scene.update_state()
    scene["box"].set_pose(quat=(0, 1, 0, 0))
    position = scene["box"].position.value.clone()
    position[1, 0] = 3.0
    drift = (imu.read().lin_acc - imu.read_ground_truth().lin_acc)[0].clone()
    scene.load_state_dict({"box.position": position}, strict=False)
    scene.write_replay_data()
    pos, quat = scene["box"].get_pose()
    assert pos[:, 0].tolist() == [0, 3]
    assert quat[1].tolist() == [0, 1, 0, 0]
    assert torch.equal((imu.read().lin_acc - imu.read_ground_truth().lin_acc)[0], drift), "env 0 was not written"
    scene.load_state_dict({"physics": scene.get_state()}, strict=False)
    scene.update_state()
    scene.step(3)
    time = scene.time.clone()
    scene.write_replay_data()
    assert torch.equal(scene.time, time), "update_state discards loaded values"


def test_readings_have_no_negative_zero():
    scene = sn.Scene(gravity=(0, 0, 0))
    scene.add_robot(ARM)
    encoder = scene.add_sensor(sn.JointEncoder())
    scene.build(n_envs=2)
    scene["arm"].set_joint_velocities(-1e-60)
    scene.forward()
    assert not torch.signbit(encoder.read().velocities).any()
    scene.step()
    assert not torch.signbit(encoder.read().velocities[encoder.read().velocities == 0]).any()


def test_forward_revives_failed_envs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log to the working folder
    scene = drop_scene()
    imu = scene.add_sensor(sn.IMU(link="box"))
    scene.build(n_envs=3)
    scene.world.bind("qvel")[1, 2] = 1e30
    with pytest.raises(sn.DivergenceError):
        scene.step()
    scene.forward(envs=[1])
    assert scene.failed == {}
    before = scene.time[1].item()
    scene.step()
    assert scene.time[1].item() == pytest.approx(before + 0.01)
    assert torch.isfinite(imu.read().lin_acc).all()


def test_get_pose_returns_a_pose_that_was_just_set():
    scene = drop_scene()
    scene.build()
    for z in (5.0, 7.0):
        scene["box"].set_pose(pos=(0, 0, z))
        assert scene["box"].get_pose()[0][0, 2].item() == z


def test_calls_after_close_raise():
    scene = drop_scene()
    imu = scene.add_sensor(sn.IMU(link="box"))
    scene.build()
    scene.close()
    for call in (scene.step, lambda: scene.time, imu.read, lambda: imu.set(acc_noise=1.0), scene["box"].get_pose):
        with pytest.raises(sn.NotBuiltError):
            call()
    for call in (scene.build, lambda: scene.add_object(sn.Box())):
        with pytest.raises(sn.errors.AlreadyBuiltError, match="closed"):
            call()


def test_reserved_names_raise():
    scene = drop_scene()
    for name in ("physics", "world", "a\x00b"):
        with pytest.raises(sn.OptionError, match="name"):
            scene.add_object(sn.Box(), name=name)
    with pytest.raises(sn.OptionError, match="physics"):
        scene.add_sensor(sn.IMU(link="box", uuid="physics"))
    scene.build()
    scene.state_dict()


@pytest.mark.parametrize(
    ("sensor", "values", "words"),
    [
        (sn.JointEncoder(), {"counts_per_revolution": "x"}, "counts_per_revolution"),
        (sn.JointEncoder(), {"counts_per_revolution": 0}, "finite and > 0"),
        (sn.FramePose(link="tip"), {"rot_noise": "x"}, "rot_noise"),
        (sn.FramePose(link="tip"), {"rot_saturation": (0, 1)}, "rot_saturation"),
        (sn.ContactForce(link="upper"), {"max_force": "x"}, "max_force"),
        (sn.ContactForce(link="upper"), {"max_force": -1.0}, "must be >= 0"),
        (sn.ContactForce(link="upper"), {"max_force": 1.0, "saturation": (-9, 9)}, "one parameter twice"),
        (sn.IMU(link="upper"), {"acc_misalignment": "x"}, "acc_misalignment"),
        (sn.IMU(link="upper"), {"rate": 0}, "must be > 0"),
    ],
)
def test_set_raises_for_values_that_the_constructor_refuses(sensor, values, words):
    scene = arm_scene()
    made = scene.add_sensor(sensor)
    scene.build(n_envs=2)
    with pytest.raises(sn.OptionError, match=words):
        made.set(**values)


def test_set_accepts_tensors_and_arrays():
    scene = arm_scene()
    imu = scene.add_sensor(sn.IMU(link="upper", max_delay=0.1))
    pose = scene.add_sensor(sn.FramePose(link="tip", rot_noise=0.1))
    scene.build(n_envs=3)
    imu.set(delay=torch.tensor([0.0, 0.01, 0.02]), jitter=0.0)
    imu.set(acc_saturation=np.array([-1.0, 1.0]))
    imu.set(delay=0.0)
    pose.set(rot_noise=0.0)
    scene.step(2)
    assert imu.read().lin_acc.abs().max() <= 1.0
    assert torch.equal(pose.read().quat, pose.read_ground_truth().quat)


def test_build_on_a_missing_gpu_raises():
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    scene = sn.Scene()
    scene.add_robot(ARM)
    with pytest.raises(sn.DeviceError, match=r"device='cuda' needs an NVIDIA GPU.*device='cpu'"):
        scene.build(n_envs=2, device="cuda")
    with pytest.raises(sn.OptionError, match="nconmax"):
        scene.build(n_envs=2, nconmax=10)
    for room in ({"nconmax": 2**30}, {"njmax": 2**70}):
        with pytest.raises(sn.OptionError, match=f"{next(iter(room))} must be <= 1073741823 in 2 envs"):
            scene.build(n_envs=2, device="cuda", **room)
    scene.build(n_envs=2)
    assert "no sensors" in scene.describe()


def test_describe_lists_all_sensors():
    scene = drop_scene()
    scene.add_sensor(sn.IMU(link="box", uuid="imu", rate=200, delay=0.012, jitter=0.005))
    scene.add_sensor(sn.Contact(link="box", uuid="touch"))
    scene.add_sensor(Probe(uuid="probe"))
    scene.add_sensor(HookedProbe(uuid="slow"))
    scene.build(n_envs=4)
    text = scene.describe()
    for word in (
        "4 envs on cpu",
        "imu",
        "IMU",
        "200 Hz",
        "12 ms + 5",
        "bool",
        "fused, post-process",
        "hook, fused",
        "hooks",
        "(4, 3)",
    ):
        assert word in text
