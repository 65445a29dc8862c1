"""The sensors of the catalogue on the GPU world: the same readings as on the CPU. Needs CUDA."""

import warnings

import numpy as np
import pytest
import torch
from conftest import ARM
from everywhere import LIDARS, MOBILE, RAYS, mobile_scene, shapes_scene

import sensorium as sn
from sensorium.testing import flat, tensors

pytestmark = pytest.mark.gpu

HITS = {"returns": ("distances", "points", "normals", "body_ids", "intensity"), "noise_per_metre": 0.01}


def catalogue_scene(device):
    """A ball in free fall and an arm at rest, with what runs on both devices and all further imperfections."""
    scene = sn.Scene(dt=0.01, substeps=2)
    scene.add_object(sn.Plane())
    scene.add_robot(ARM, name="arm")
    scene.add_object(sn.Sphere(radius=0.05), name="ball", pos=(3, 0, 50), free=True)
    on = {"link": "ball"}
    worse = {
        "acc_bandwidth": 8.0,
        "acc_scale_error": 0.1,
        "acc_bias_spread": 0.5,
        "acc_outliers": 0.2,
        "acc_outlier_size": 3.0,
        "gyro_drift": 0.3,
        "gyro_drift_time": 0.1,
        "mag_temperature_drift": 1e-6,
        "temperature": 60.0,
        "stuck": 3.0,
        "delay": 0.02,
        "jitter": 0.02,
    }
    sensors = [
        sn.presets.imu("consumer_mems", **on, uuid="imu"),
        sn.IMU(**on, uuid="worse", **worse),
        sn.JointTorque(robot="arm", noise=0.1, bandwidth=10.0),
        sn.Barometer(**on),
        sn.Magnetometer(**on),
        sn.OpticalFlow(**on),
        sn.Clock(offset=1.0, drift=50.0),
        sn.ForceTorque(link="lower"),
        sn.GPS(**on, noise=0.1, horizontal_error=2.0, loss_rate=3.0, reacquire_time=0.03, rate=50.0),
        sn.WheelOdometry(left="shoulder", right="elbow", radius=0.1, track=0.3, vel_noise=0.1),
        sn.BatteryState(robot="arm", idle_power=10.0, voltage_noise=0.1, capacity=0.01),
        sn.Raycaster(**on, pattern=sn.GridPattern(size=(1, 1), resolution=0.25), **HITS, frame="world"),
        sn.Lidar(**on, euler=(0, 0.5 * np.pi, 0), pattern=sn.RingPattern(n_points=9, fov=40), scan_rate=20.0, **HITS),
        sn.DepthCamera(**on, euler=(0, 0.5 * np.pi, 0), width=8, height=6, max_range=90.0, noise=0.1),
    ]
    made = {options.__class__.__name__ + str(i): scene.add_sensor(options) for i, options in enumerate(sensors)}
    scene.build(n_envs=8, seed=3, device=device)
    return scene, made


def test_the_catalogue_reads_the_same_as_on_the_cpu():
    cpu, on_cpu = catalogue_scene("cpu")
    gpu, on_gpu = catalogue_scene("cuda")
    for step in range(20):
        for name, sensor in on_cpu.items():
            for read in ("read", "read_ground_truth"):
                expected, got = (flat(getattr(one, read)()).double().cpu() for one in (sensor, on_gpu[name]))
                torch.testing.assert_close(got, expected, rtol=2e-4, atol=2e-3, msg=lambda text, n=name: f"{n}: {text}")
        cpu.step()
        gpu.step()
        if step == 12:
            cpu.reset([2, 5])
            gpu.reset([2, 5])


def follow(cpu, gpu, n_steps, compare, between=None):
    """Step both, the GPU from the CPU's state each time, and compare all fields of readings and ground truths."""
    for step in range(n_steps):
        for field in ("qpos", "qvel", "qacc_warmstart"):
            gpu.world.bind(field).copy_(cpu.world.bind(field).float())
        for scene in (cpu, gpu):
            scene.step()
            if between is not None:
                between(scene, step)
        for uuid in cpu.sensors:
            for read in ("read", "read_ground_truth"):
                expected, got = (getattr(one[uuid], read)() for one in (cpu, gpu))
                names = getattr(expected, "_fields", ("value",))
                for name, a, b in zip(names, tensors(expected), tensors(got), strict=True):
                    compare(f"{uuid}.{name}", f"{uuid}.{name} by {read} at step {step}", a.double(), b.double().cpu())


def test_rays_read_the_same_as_on_the_cpu():
    """All shapes, patterns, frames and imperfections; draws decide the same rays, so that what is lost is the same."""
    cpu, gpu = shapes_scene(n_envs=4), shapes_scene(n_envs=4, device="cuda")
    assert "after the graph" not in gpu.describe()
    apart = []

    def compare(_, what, expected, got):
        # a ray that grazes an edge may hit it in one precision and miss it in the other; no more than a few may
        off = ~torch.isclose(got, expected, rtol=1e-3, atol=2e-3, equal_nan=True)
        apart.append(off.double().mean().item())
        assert apart[-1] < 0.01, f"{what}: {apart[-1]:.1%} of the numbers differ"

    def between(scene, step):
        if step == 8:
            scene.reset(envs=[1, 3])
        if step == 12:
            scene["lidar"].set(noise=0.0, ray_dropout=0.5, envs=[0])

    follow(cpu, gpu, 25, compare, between)
    assert np.mean(apart) < 0.002


def test_lidars_read_the_same_as_on_the_cpu():
    """Echoes, scans, moving patterns and plain rays of one group; parameters and resets per env."""
    cpu, gpu = (shapes_scene(n_envs=4, device=device, rays=LIDARS) for device in ("cpu", "cuda"))
    assert "after the graph" not in gpu.describe()
    apart = []

    def compare(_, what, expected, got):
        off = ~torch.isclose(got, expected, rtol=1e-3, atol=2e-3, equal_nan=True)
        apart.append(off.double().mean().item())
        assert apart[-1] < 0.02, f"{what}: {apart[-1]:.1%} of the numbers differ"

    def between(scene, step):
        if step == 8:
            scene.reset(envs=[1, 3])
        if step == 12:
            scene["echo"].set(threshold=0.2, envs=[0])
            scene["echo"].set(extinction=0.5, envs=[1])

    follow(cpu, gpu, 25, compare, between)
    assert np.mean(apart) < 0.004


def test_lost_returns_are_the_same_rays_as_on_the_cpu():
    cpu, gpu = (shapes_scene(n_envs=64, device=device, rays=RAYS[:1]) for device in ("cpu", "cuda"))
    follow(cpu, gpu, 3, lambda *_: None)

    def lost(scene):
        group = scene["lidar"].group
        n_beams = scene["lidar"]._rig.n_beams
        hits = group.truth[:n_beams].isfinite()
        return hits.cpu(), (hits & group.reading[:n_beams].isinf()).cpu()

    (hits, expected), (on_gpu, got) = lost(cpu), lost(gpu)
    both = hits & on_gpu
    assert both.double().mean() > 0.2
    assert torch.equal(got & both, expected & both)
    assert 0.08 < expected[hits].double().mean() < 0.12


MOBILE_TOLERANCES = {
    "latitude": 2e-8,  # degrees: 2 mm
    "longitude": 2e-8,
    "altitude": 2e-3,
    "velocity": 2e-2,  # wheels stand on the ground, and the solvers of contacts stop at different iterates
    "fix": 0.0,
    "pos": 2e-3,
    "yaw": 5e-3,
    "speed": 2e-2,
    "yaw_rate": 1e-1,
    "charge": 1e-3,
    "voltage": 2e-2,
    "current": 5e-2,
    "power": 1.0,
    "energy": 5e-2,
}


def test_mobile_sensors_read_the_same_as_on_the_cpu():
    sensors = tuple(options for options in MOBILE if options.uuid != "counted")  # counts may round the other way
    cpu, gpu = mobile_scene(sensors=sensors), mobile_scene(device="cuda", sensors=sensors)
    assert "after the graph" not in gpu.describe()

    def compare(field, what, expected, got):
        tolerance = MOBILE_TOLERANCES[field.split(".")[1]]
        torch.testing.assert_close(got, expected, rtol=0, atol=tolerance, msg=lambda m: f"{what} {m}")

    def between(scene, step):
        if step == 20:
            scene.reset(envs=[1, 3])
            scene["cart"].set_ctrl([4.0, 7.0])
        if step == 25:
            scene["gps"].set(visible=False, envs=[0, 1])
        if step == 30:
            scene["gps"].set(visible=True)

    follow(cpu, gpu, 50, compare, between)


def test_rays_do_not_synchronise_and_use_memory_in_proportion_to_their_number():
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    scene = sn.Scene(dt=0.01, substeps=1)
    scene.add_object(sn.Plane())
    scene.add_object(sn.Sphere(radius=0.1), name="ball", pos=(0, 0, 2), free=True)
    lidar = scene.add_sensor(sn.Lidar(link="ball", max_range=20.0, noise=0.01, noise_per_metre=0.01, ray_dropout=0.1))
    gps = scene.add_sensor(sn.GPS(link="ball", noise=0.1, loss_rate=1.0))
    scene.build(n_envs=256, device="cuda")
    rays = 256 * 16 * 360
    assert torch.cuda.memory_allocated() - before < 600 * rays  # 32 B of the rays themselves; readings, 2 branches
    hidden = torch.tensor([3, 200], device="cuda")
    scene.step()
    torch.cuda.synchronize()
    try:
        with warnings.catch_warnings(action="ignore"):
            torch.cuda.set_sync_debug_mode("error")
        for _ in range(3):
            scene.step()
            lidar.read()
        scene.reset(envs=hidden)
        gps.set(visible=torch.zeros(2, 1, dtype=torch.bool, device="cuda"), envs=hidden)
        scene.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert gps.read().fix[[3, 200], 0].tolist() == [0, 0]
