"""The GPU world: the same API and the same readings as the CPU. Needs CUDA, and is skipped without it."""

import contextlib
import copy
import statistics
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import mujoco
import numpy as np
import pytest
import reference
import torch
from conftest import ARM, arm_scene, drop_scene
from probe import Probe, ProbeSensor
from thermometer import Thermometer

import sensorium as sn
from sensorium.pipeline.flags import FLAGS
from sensorium.testing import SensorContract, flat

pytestmark = pytest.mark.gpu


class OnGpu:
    device: ClassVar[str] = "cuda"

    def make_scene(self):
        scene = sn.Scene(dt=0.01, substeps=2)
        scene.add_object(sn.Sphere(), name="ball", pos=(0, 0, 50), free=True)
        return scene


class TestProbe(OnGpu, SensorContract):
    imperfections: ClassVar = {"noise": 0.1, "random_walk": (0.1, 0.2, 0.3), "deadband": 0.01, "resolution": 0.001}

    def make_options(self, **options):
        return Probe(**options)


class TestThermometer(OnGpu, SensorContract):
    imperfections: ClassVar = {"noise": 0.1, "random_walk": 0.05}

    def make_options(self, **options):
        return Thermometer(link="ball", time_constant=0.05, **options)


class TestFramePose(OnGpu, SensorContract):
    imperfections: ClassVar = {"pos_noise": 0.1, "rot_noise": 0.02, "ang_vel_bias": 0.1}

    def make_options(self, **options):
        return sn.FramePose(link="ball", **options)


class TestScanningLidar(OnGpu, SensorContract):
    imperfections: ClassVar = {"noise": 0.05, "noise_per_metre": 0.02, "ray_dropout": 0.3}

    def make_scene(self):
        scene = super().make_scene()
        scene.add_object(sn.Plane())
        return scene

    def make_options(self, **options):
        pattern = sn.SphericalPattern(fov=(360, 90), n_points=(12, 3))
        scanning = {"pattern": pattern, "scan_rate": 15.0, "exclude_self": True, "frame": "world"}
        return sn.Lidar(link="ball", euler=(0, 1.0, 0), **scanning, **options)

    def test_set_changes_only_the_given_envs(self):
        """What was scanned before keeps the noise that it had then, so compare from one revolution on."""
        scene, sensor = self.start()
        sensor.set(envs=[1], **self.imperfections)
        changed = self.run(scene, sensor)
        clean, imperfect = self.run(*self.start()), self.run(*self.start(**self.imperfections))
        for step in range(8, self.steps):
            torch.testing.assert_close(changed[step][[0, 2]], clean[step][[0, 2]], rtol=1e-4, atol=1e-3)
            torch.testing.assert_close(changed[step][1], imperfect[step][1], rtol=1e-4, atol=1e-3)


class TestGPS(OnGpu, SensorContract):
    imperfections: ClassVar = {"noise": 0.1, "vel_noise": 0.1, "bias": (1.0, 0.0, 0.0)}

    def make_options(self, **options):
        return sn.GPS(link="ball", origin=(47.0, 8.0, 400.0), **options)


def test_the_documented_example():
    scene = drop_scene(substeps=5, height=0.5)
    imu = scene.add_sensor(sn.IMU(link="box", uuid="imu", acc_noise=0.02, gyro_noise=0.005, delay=0.02, jitter=0.02))
    touch = scene.add_sensor(sn.Contact(link="box", uuid="touch"))
    force = scene.add_sensor(sn.ContactForce(link="box", uuid="force", resolution=0.01, history_length=4))
    scene.build(n_envs=64, seed=0, device="cuda")
    for _ in range(100):
        scene.step()
    scene.check()
    acc = imu.read().lin_acc
    assert acc.is_cuda
    assert acc.shape == (64, 3)
    assert (acc[:, 2] - 9.81).abs().max() < 0.2
    assert touch.read().all()
    assert touch.read().dtype == torch.bool
    assert force.read().shape == (64, 4, 3)
    assert (force.read()[..., 2] - 9.81).abs().max() < 0.1
    address = acc.data_ptr()
    scene.step()
    assert imu.read().lin_acc.data_ptr() == address
    imu.set(acc_noise=0.1, envs=[0, 1])
    scene.reset(envs=[3])
    assert touch.read()[3].item() is False
    assert touch.read()[[0, 1, 2, 4]].all()
    assert scene.time[3].item() == 0
    assert "in the graph" in scene.describe()


MANY = {
    "scale_error": 0.02,
    "bias_spread": 0.3,
    "drift": 0.2,
    "drift_time": 0.05,
    "temperature_drift": 0.01,
    "outliers": 0.2,
    "outlier_size": 3.0,
    "bandwidth": 7.0,
    "resolution": 0.03,
    "deadband": 0.1,
    "saturation": (-4.0, 12.0),
}


@pytest.mark.parametrize(
    ("timing", "parts"),
    [
        ({}, {}),
        ({"rate": 77.0, "dropout": 0.1}, {}),
        ({"interpolate": True, "temperature": 60.0}, MANY),
        ({"rate": 30.0, "stuck": 1.0, "temperature": -5.0}, MANY),
    ],
    ids=["plain", "held", "interpolated", "worst"],
)
def test_readings_have_the_bits_of_the_reference_for_the_same_raw_signal(timing, parts):
    scene = drop_scene()
    timing = {"delay": 0.013, "jitter": 0.013, **timing}
    parts = {"noise": 0.3, "random_walk": 0.5, "bias": 0.2, **parts}
    own = {f"acc_{name}": value for name, value in parts.items()}
    imu = scene.add_sensor(sn.IMU(link="box", uuid="imu", **own, **timing))
    scene.build(n_envs=500, seed=9, device="cuda")
    parts["low"], parts["high"] = parts.pop("saturation", (-np.inf, np.inf))
    parts["drift_size"] = parts.pop("drift", 0.0)
    expected = reference.Reference(seed=9, uuid="imu", shape=(3, 500), dt=0.01, **parts, **timing)
    expected.reset(imu.group.truth[:3].cpu().numpy(), 0)
    for _ in range(1, 40):
        scene.step()
        got = imu.read().lin_acc.T.cpu().numpy()
        truth = imu.group.truth[:3].cpu().numpy()
        np.testing.assert_array_equal(got, expected.step(truth))


def agreement(n_steps=100):
    """Largest difference of every sensor between CPU and GPU, physics state copied from one to the other each step."""

    def make(device):
        scene = arm_scene(substeps=5)
        scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", pos=(1, 0, 0.12), free=True)
        common = {"delay": 0.02, "jitter": 0.02}
        add = scene.add_sensor
        sensors = [
            add(sn.IMU(link="box", uuid="imu", acc_noise=0.1, gyro_noise=0.1, gyro_random_walk=0.1, **common)),
            add(sn.IMU(link="lower", uuid="arm_imu", pos=(0, 0, 0.2), acc_noise=0.1)),
            add(sn.ContactForce(link="box", uuid="force", noise=0.1, **common)),
            add(sn.Contact(link="box", uuid="touch")),
            add(sn.JointEncoder(robot="arm", uuid="encoder", noise=0.01, vel_noise=0.1)),
            add(sn.FramePose(link="tip", uuid="pose", relative_to="upper", pos_noise=0.01, rot_noise=0.01)),
        ]
        scene.build(n_envs=8, seed=4, device=device)
        return scene, sensors

    cpu, on_cpu = make("cpu")
    gpu, on_gpu = make("cuda")
    worst = {}
    for step in range(n_steps):
        torque = [2.0 if step < 30 else -1.0, 0.3]
        for scene in (cpu, gpu):
            scene["arm"].set_ctrl(torque)
        for field in ("qpos", "qvel", "qacc_warmstart"):
            gpu.world.bind(field).copy_(cpu.world.bind(field).float())
        cpu.step()
        gpu.step()
        for a, b in zip(on_cpu, on_gpu, strict=True):
            for branch in ("read", "read_ground_truth"):
                left, right = getattr(a, branch)(), getattr(b, branch)()
                fields = left._asdict() if hasattr(left, "_asdict") else {"value": left}
                for name, value in fields.items():
                    other = getattr(right, name).cpu() if hasattr(right, "_asdict") else right.cpu()
                    difference = (value.double() - other.double()).abs().max().item()
                    key = f"{a.uuid}.{name}"
                    worst[key] = max(worst.get(key, 0.0), difference)
    return worst


TOLERANCES = {
    "imu.lin_acc": 1e-2,  # contact forces on the 1 kg box, N: the solvers stop at different iterates
    "imu.ang_vel": 2e-3,
    "imu.mag": 1e-8,
    "arm_imu.lin_acc": 1e-3,
    "arm_imu.ang_vel": 5e-4,
    "arm_imu.mag": 1e-8,
    "force.value": 1e-2,
    "touch.value": 0.0,
    "encoder.positions": 1e-5,
    "encoder.velocities": 5e-4,
    "pose.pos": 1e-5,
    "pose.quat": 1e-5,
    "pose.lin_vel": 1e-4,
    "pose.ang_vel": 1e-4,
}


def test_cpu_and_gpu_agree():
    for name, difference in agreement().items():
        assert difference <= TOLERANCES[name], f"{name}: {difference:.3g}"


def test_columns_are_flagged_as_on_the_cpu():
    """What is not used must not cost the memory traffic of looking it up."""
    seen = {}
    for device in ("cpu", "cuda"):
        scene = drop_scene()
        imu = scene.add_sensor(sn.IMU(link="box", uuid="imu", acc_noise=0.3, gyro_resolution=0.1, mag_random_walk=0.1))
        scene.build(n_envs=8, device=device)
        table = imu.group._pipeline.layout.blocks[torch.float32].store.table
        seen[device] = [table[:, FLAGS].tolist()]
        for change in ({"acc_noise": 0.0}, {"acc_bias": 1.0}, {"gyro_resolution": 0.0}, {"mag_random_walk": 0.0}):
            imu.set(**change)
            seen[device].append(table[:, FLAGS].tolist())
        imu.set(acc_noise=torch.full((8, 3), 0.1, device=device))
        imu.set(gyro_bias=0.1, envs=[2])
        seen[device].append(table[:, FLAGS].tolist())
    assert seen["cpu"] == seen["cuda"]


def test_calls_do_not_synchronise_with_the_device():
    scene = drop_scene()
    scene.add_robot(ARM, name="arm", pos=(2, 0, 0))
    imu = scene.add_sensor(sn.IMU(link="box", acc_noise=0.1, gyro_misalignment=torch.eye(3).tolist(), delay=0.02))
    touch = scene.add_sensor(sn.Contact(link="box"))
    scene.build(n_envs=1024, device="cuda")
    envs = torch.tensor([3, 900, 17], device="cuda")
    noise = torch.rand(3, 1, device="cuda")
    matrices, turned = torch.rand(3, 3, 3, device="cuda"), torch.rand(3, 4, device="cuda")
    push = torch.ones(1024, 2, device="cuda")
    scene["arm"].set_ctrl(0.0, actuators=["m2"])  # a name is looked up once
    scene["arm"].set_joint_velocities(0.0, joints=["elbow"])
    scene["arm"].get_joint_positions(["elbow"])
    scene.step()
    torch.cuda.synchronize()
    try:
        with warnings.catch_warnings(action="ignore"):  # torch says that it does not see every kind of waiting
            torch.cuda.set_sync_debug_mode("error")
        for _ in range(5):
            scene.step()
            imu.read()
            touch.read()
        scene.reset(envs=envs)
        imu.set(acc_noise=noise, envs=envs)
        imu.set(gyro_misalignment=matrices, envs=envs)
        imu.set(acc_noise_density=0.01, rate=50.0, envs=[3, 5])
        imu.set(delay=0.01, jitter=0.005)
        scene.reset(envs=[900])
        scene["box"].set_pose(pos=(0, 0, 1), quat=turned, envs=envs)
        scene["arm"].set_ctrl(push)
        scene["arm"].set_ctrl([0.5], actuators=["m2"])
        scene["arm"].set_joint_velocities(0.1, joints=["elbow"], envs=envs)
        scene["arm"].get_joint_positions(["elbow"])
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert scene.time[[3, 4]].tolist() == pytest.approx([0, 0.06])
    assert scene.world.bind("ctrl")[7].tolist() == pytest.approx([1.0, 0.5])
    assert scene.world.bind("qpos")[900, 2].item() == 1


def test_one_step_costs_one_graph_launch_on_the_host():
    scene = drop_scene(substeps=1)
    scene.add_sensor(sn.IMU(link="box", acc_noise=0.1, delay=0.02, jitter=0.02))
    scene.add_sensor(sn.Contact(link="box"))
    scene.build(n_envs=8192, device="cuda")
    scene.step(3)
    times = []
    for _ in range(50):
        torch.cuda.synchronize()
        start = time.perf_counter()
        scene.step()
        times.append(time.perf_counter() - start)
    ours = statistics.median(times)
    assert ours < 30e-6, f"{ours * 1e6:.1f} us"


def test_reset_touches_those_envs_only():
    scene = drop_scene(height=1.0)
    imu = scene.add_sensor(sn.IMU(link="box", acc_noise=0.1, acc_random_walk=1.0, delay=0.02, history_length=2))
    pose = scene.add_sensor(sn.FramePose(link="box"))
    scene.build(n_envs=6, device="cuda")
    at_start = pose.read().pos[2].clone()
    scene.step(30)
    kept = [0, 1, 3, 4, 5]
    before = imu.read().lin_acc.clone()
    state = scene.get_state()
    scene.reset(envs=[2])
    assert torch.equal(imu.read().lin_acc[kept], before[kept])
    assert torch.equal(scene.get_state()[kept], state[kept])
    torch.testing.assert_close(pose.read().pos[2], at_start)
    drift = imu.read().lin_acc[2] - imu.read_ground_truth().lin_acc[2]
    assert drift.abs().max() < 0.6


def test_state_round_trip_and_forward():
    scene = arm_scene()
    encoder = scene.add_sensor(sn.JointEncoder(robot="arm"))
    scene.build(n_envs=3, device="cuda")
    scene["arm"].set_ctrl([1.0, 0.5])
    scene.step(10)
    state = scene.get_state()
    scene.step(10)
    scene.set_state(state)
    torch.testing.assert_close(scene.get_state(), state, atol=1e-4, rtol=1e-4)
    assert scene.time.tolist() == pytest.approx([0.1] * 3)
    scene["arm"].set_joint_positions(0.7, joints=["shoulder"], envs=[1])
    scene.forward(envs=[1])
    assert encoder.read().positions[1, 0].item() == pytest.approx(0.7)
    scene.set_state(state[[0]], envs=[2])
    scene.step(5)


def test_a_diverging_env_is_reported_and_the_others_continue_on_a_gpu():
    scene = drop_scene()
    scene.add_sensor(sn.IMU(link="box"))
    scene.build(n_envs=4, device="cuda")
    scene.world.bind("qvel")[1, 2] = float("nan")
    scene.step()
    with pytest.raises(sn.DivergenceError, match="env 1"):
        scene.check()
    scene.step(5)
    scene.check()
    state = scene.get_state()
    assert torch.isfinite(state).all()
    assert scene.time.tolist() == pytest.approx([0.06, 0, 0.06, 0.06])
    scene.reset(envs=[1])
    scene.step(3)
    assert scene.time[1].item() == pytest.approx(0.03)
    assert scene.failed == {}


def test_contacts_beyond_the_capacity_raise():
    scene = drop_scene(height=0.1)
    scene.build(n_envs=4, device="cuda", nconmax=1, njmax=4)
    scene.step()
    with pytest.raises(sn.CapacityError, match=r"more than .*(nconmax=1|njmax=4)"):
        scene.check()
    scene.step()
    scene.reset()  # forgets neither
    with pytest.raises(sn.CapacityError):
        scene.check()
    scene.reset()
    scene["box"].set_pose(pos=(0, 0, 5))
    scene.forward()
    with contextlib.suppress(sn.CapacityError):
        scene.check()
    scene.step(3)
    scene.check()


def test_pinned_memory_may_be_used_again_at_once():
    scene = arm_scene()
    scene.build(n_envs=1024, device="cuda")
    push = torch.ones(1024, 2).pin_memory()
    scene.step(30)
    scene["arm"].set_ctrl(push)
    push.fill_(9.0)
    assert scene.world.bind("ctrl").unique().tolist() == [1.0]


def test_values_on_a_gpu_for_a_scene_on_the_cpu_are_checked():
    scene = arm_scene()
    imu = scene.add_sensor(sn.IMU(link="lower", delay=0.02))
    scene.build(n_envs=2)
    with pytest.raises(sn.OptionError, match="finite"):
        scene["arm"].set_ctrl(torch.full((2, 2), float("nan"), device="cuda"))
    with pytest.raises(sn.OptionError, match="max_delay=5"):
        imu.set(delay=torch.full((2, 1), 5.0, device="cuda"))
    scene["arm"].set_ctrl(torch.ones(2, 2, device="cuda"))
    assert scene.world.bind("ctrl").tolist() == [[1, 1], [1, 1]]


def test_diverged_envs_read_finite_values():
    scene = arm_scene()
    imu = scene.add_sensor(sn.IMU(link="lower", history_length=2, delay=0.02))
    joints = scene.add_sensor(sn.JointEncoder(robot="arm"))
    torque = scene.add_sensor(sn.JointTorque(robot="arm"))
    battery = scene.add_sensor(sn.BatteryState(robot="arm", delay=0.01))
    scene.build(n_envs=4, device="cuda")
    scene.step(3)
    for _ in range(4):
        push = torch.ones(4, 2, device="cuda")
        push[2, 0] = float("nan")
        scene["arm"].set_ctrl(push)
        with contextlib.suppress(sn.DivergenceError):
            scene.step()
        for sensor in (imu, joints, torque, battery):
            assert flat(sensor.read()).isfinite().all()
            assert flat(sensor.read_ground_truth()).isfinite().all()
    with contextlib.suppress(sn.DivergenceError):
        scene.check()
    assert list(scene.failed) == [2]


def test_constants_are_those_of_each_env():
    sizes = torch.tensor([0.1, 0.2, 0.3, 0.4])
    scene = sn.Scene(dt=0.01, substeps=2)
    scene.add_object(sn.Plane())
    scene.add_object(sn.Sphere(radius=0.1, mass=1.0), name="ball", pos=(0, 0, 0.5), free=True)
    scene.build(n_envs=4, device="cuda")
    world, ball = scene.world, scene.model.body("ball").id
    geom = int(scene.model.body_geomadr[ball])
    world.expand("geom_size")[:, geom, 0] = sizes.cuda()
    world.expand("body_mass")[:, ball] = 10 * sizes.cuda()
    world.update_constants()
    for env, size in enumerate(sizes.tolist()):
        model = copy.copy(scene.model)
        model.geom_size[geom, 0], model.body_mass[ball] = size, 10 * size
        mujoco.mj_setConst(model, mujoco.MjData(model))
        for name in ("body_subtreemass", "body_invweight0", "dof_invweight0"):
            got, expected = world.expanded[name][env].cpu().numpy(), getattr(model, name)
            np.testing.assert_allclose(got.reshape(expected.shape), expected, rtol=1e-4, atol=1e-6, err_msg=name)
        assert world.expanded["geom_rbound"][env, geom].item() == pytest.approx(size)
    scene.step(150)
    scene.check()
    torch.testing.assert_close(world.bind("qpos")[:, 2].cpu(), sizes, atol=2e-3, rtol=0)


def test_a_recording_of_the_cpu_with_values_per_env_is_rebuilt(tmp_path):
    scene = drop_scene()
    scene.add_sensor(sn.IMU(link="box", uuid="imu"))
    scene.build(n_envs=3)
    box = scene.model.body("box").id
    scene.world.expand("body_mass")[:, box] = torch.tensor([1.0, 2.0, 3.0])
    scene.world.update_constants()
    with sn.recording.Recorder(scene, tmp_path / "a") as recorder:
        recorder.record(5)
    episode = sn.datasets.open(tmp_path / "a")
    again = episode.build_scene(device="cuda")
    assert again.world.expanded["body_mass"][:, box].tolist() == [1, 2, 3]
    assert again.world.expanded["body_subtreemass"][:, box].tolist() == [1, 2, 3]
    again.step(5)
    recorded = torch.from_numpy(episode[4]["physics"])
    torch.testing.assert_close(again.get_state()[:, :8].cpu().float(), recorded[:, :8].float(), atol=1e-4, rtol=1e-4)


def test_noise_densities_per_env_and_a_recording(tmp_path):
    scene = drop_scene()
    imu = scene.add_sensor(sn.IMU(link="box", acc_noise_density=0.01, delay=0.02))
    scene.build(n_envs=4, device="cuda")
    scene.step(3)
    imu.set(acc_noise_density=0.04, envs=[1, 2])
    noise = scene._sensing._of[imu.uuid].layout.block(imu.group).store.parameter("noise")
    assert noise[0].tolist() == pytest.approx([0.01 * 50**0.5, *[0.04 * 50**0.5] * 2, 0.01 * 50**0.5])
    with sn.recording.Recorder(scene, tmp_path / "a") as recorder:
        with pytest.raises(sn.DatasetError, match="already being recorded"):
            sn.recording.Recorder(scene, tmp_path / "b")
        recorder.record(3)
    assert len(sn.datasets.open(tmp_path / "a")) == 3


def test_per_env_model_fields():
    scene = drop_scene(height=9.0, gravity=(0, 0, -10))
    scene.build(n_envs=2, device="cuda")
    scene.step()
    gravity = scene.world.expand("opt.gravity")
    gravity[1] = torch.tensor([0.0, 0.0, -1.0], device="cuda")
    scene.reset()
    scene.step(10)
    assert scene.world.bind("qvel")[:, 2].tolist() == pytest.approx([-1.0, -0.1], rel=1e-4)


def test_hooks_that_cannot_be_captured_run_after_the_graph():
    class Peek(Probe):
        """Looks at a value on the device."""

    class PeekSensor(ProbeSensor, options=Peek):
        @classmethod
        def _update_raw_data(cls, group, out):
            super()._update_raw_data(group, out)
            group.seen = float(out.sum())

    scene = sn.Scene(dt=0.01, substeps=1)
    scene.add_object(sn.Sphere(), name="ball", free=True)
    peek = scene.add_sensor(Peek(noise=0.1, delay=0.02))
    plain = scene.add_sensor(sn.IMU(link="ball", acc_noise=0.1))
    stream = torch.cuda.current_stream()
    with pytest.warns(UserWarning, match="PeekSensor cannot be captured"):
        scene.build(n_envs=3, device="cuda")
    assert torch.cuda.current_stream() == stream
    assert len(torch.rand(8, device="cuda").unique()) == 8  # torch's generator is as usable as before
    scene.step(5)
    assert "after the graph" in scene.describe()
    truth = torch.sin(3 * scene.time[0] + torch.arange(3, device="cuda"))
    torch.testing.assert_close(peek.read_ground_truth()[:, 0], truth, atol=1e-5, rtol=1e-5)
    assert plain.read().lin_acc.abs().max() > 0


def test_hooks_that_draw_by_torch_draw_anew_at_every_step():
    class Dice(Probe):
        """Draws by torch's own generator."""

    class DiceSensor(ProbeSensor, options=Dice):
        @classmethod
        def _update_raw_data(cls, group, out):
            out.copy_(torch.rand_like(out))

    scene = sn.Scene(dt=0.01, substeps=1)
    scene.add_object(sn.Sphere(), name="ball", free=True)
    dice = scene.add_sensor(Dice())
    scene.build(n_envs=64, device="cuda")
    assert "in the graph" in scene.describe()
    drawn = []
    for _ in range(8):
        scene.step()
        drawn.append(dice.read_ground_truth().clone())
    assert len(torch.stack(drawn).unique()) > 0.99 * 8 * drawn[0].numel()


def test_steps_follow_the_stream_that_torch_uses():
    scene = drop_scene(substeps=1)
    imu = scene.add_sensor(sn.IMU(link="box", acc_noise=0.1))
    scene.build(n_envs=8192, device="cuda")
    scene.step(3)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(20):
            scene.step()
        seen = scene.time.clone()  # on the same stream: after the last step
    side.synchronize()
    assert seen.tolist() == pytest.approx([0.23] * 8192)
    assert imu.read().lin_acc.isfinite().all()


def test_a_step_is_one_replay_of_the_graph(monkeypatch):
    scene = drop_scene(substeps=1)
    scene.add_sensor(sn.IMU(link="box", acc_noise=0.1))
    scene.build(n_envs=4, device="cuda")
    scene.step()
    replay, replayed = torch.cuda.CUDAGraph.replay, []
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", lambda graph: (replayed.append(graph), replay(graph)))
    scene.step(9)
    assert len(replayed) == 9
    assert len(set(map(id, replayed))) == 1
    assert scene.time.tolist() == pytest.approx([0.1] * 4)


def test_steps_from_another_thread():
    scene = drop_scene(substeps=1)
    scene.build(n_envs=4, device="cuda")
    scene.step(2)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(scene.step, 8).result()
    assert scene.time.tolist() == pytest.approx([0.1] * 4)


def test_graphs_have_memory_of_their_own():
    scene = drop_scene(height=0.11)  # with contacts, so that the solver's conditional nodes are in the graph
    probe = scene.add_sensor(Probe(noise=0.1))  # whose hooks make temporaries in the capture
    scene.build(n_envs=4096, device="cuda")
    others = [torch.full((n, 4096), 7.0, device="cuda") for n in (1, 2, 3, 8, 32) for _ in range(100)]
    scene.step(3)
    scene.reset([1, 2])
    assert all(bool((other == 7.0).all()) for other in others)
    truth = torch.sin(3 * scene.time + torch.arange(4096, device="cuda"))
    torch.testing.assert_close(probe.read_ground_truth()[:, 0], truth, atol=1e-5, rtol=1e-5)


class CpuProbe(Probe):
    pass


class CpuProbeSensor(ProbeSensor, options=CpuProbe):
    cpu_only = True


def test_sensors_that_need_the_cpu_engine_raise():
    scene = drop_scene()
    scene.add_sensor(CpuProbe())
    with pytest.raises(sn.OptionError, match=r"CpuProbe needs the CPU engine.*device='cpu'"):
        scene.build(n_envs=2, device="cuda")


def test_rays():
    scene = drop_scene(height=2.0)
    scene.build(n_envs=2, device="cuda")
    distance, geom = scene.world.rays([[0.0, 0, 5]], [[0.0, 0, -1]])
    assert distance[:, 0].tolist() == pytest.approx([2.9, 2.9], abs=1e-4)
    assert scene.model.geom(int(geom[0, 0])).name == "box"
    body = scene.model.body("box").id
    origins = torch.tensor([[[0.0, 0, 5]], [[0.0, 0, 3]]], device="cuda")
    distance, _, normal = scene.world.rays(origins, [0.0, 0, -2], normal=True)
    assert distance[:, 0].tolist() == pytest.approx([1.45, 0.45], abs=1e-4), "in lengths of the direction"
    assert normal[:, 0].tolist() == [[0, 0, 1]] * 2
    distance, _ = scene.world.rays(origins, [0.0, 0, -1], bodyexclude=body)
    assert distance[:, 0].tolist() == pytest.approx([5.0, 3.0], abs=1e-4)


def test_a_gpu_that_does_not_exist_raises():
    scene = sn.Scene()
    scene.add_robot(ARM)
    with pytest.raises(sn.SensoriumError):
        scene.build(n_envs=2, device="cuda:7")
