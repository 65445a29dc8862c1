"""Measure the GPU world: physics with and without sensors, and the fused step against a copy of its bytes.

.venv/bin/python benchmarks/gpu.py [--json out/gpu.json]
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import mujoco_warp as mjw
import numpy as np
import torch
import trimesh
import warp as wp
from common import Report
from sensors import room

import sensorium as sn
from sensorium.worlds._mujoco_warp import vec6

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

DELAYED = {"delay": 0.015, "jitter": 0.01}


def arm() -> str:
    """Return the MJCF of a 7-joint arm of capsules with a two-finger hand."""
    links = ""
    for joint in range(7):
        axis = "0 0 1" if joint % 2 == 0 else "0 1 0"
        links += (
            f'<body name="link{joint}" pos="0 0 {0.15 if joint else 0.1}">'
            f'<joint name="joint{joint}" axis="{axis}" range="-2.8 2.8" damping="1" armature="0.1"/>'
            f'<geom type="capsule" fromto="0 0 0 0 0 0.12" size="0.05" mass="1.5"/>'
        )
    hand = (
        '<body name="hand" pos="0 0 0.15"><geom type="box" size="0.04 0.08 0.02" mass="0.5"/>'
        '<body name="finger" pos="0 0.05 0.05"><joint name="grip" type="slide" axis="0 1 0" range="-0.04 0.04"/>'
        '<geom type="box" size="0.01 0.01 0.04" mass="0.1"/></body></body>'
    )
    motors = "".join(f'<position joint="joint{j}" kp="200" kv="20"/>' for j in range(7))
    return (
        f'<mujoco model="arm"><worldbody>{links}{hand}{"</body>" * 7}</worldbody>'
        f'<actuator>{motors}<position joint="grip" kp="100"/></actuator></mujoco>'
    )


def arm_scene(n_envs: int, sensors: bool, substeps: int = 5) -> sn.Scene:
    """Return a scene of the arm and a box, with IMU, contact, contact force and encoders with all imperfections."""
    scene = sn.Scene(dt=0.002 * substeps, substeps=substeps, integrator="implicitfast")
    scene.add_object(sn.Plane())
    scene.add_robot(arm(), name="arm")
    scene.add_object(sn.Box(size=(0.08, 0.08, 0.08), mass=0.3), name="box", pos=(0.5, 0, 0.041), free=True)
    if sensors:
        walk = {"acc_noise": 0.02, "acc_random_walk": 0.01, "gyro_noise": 0.005, "gyro_random_walk": 0.001}
        scene.add_sensor(sn.IMU(link="hand", **walk, **DELAYED))
        scene.add_sensor(sn.Contact(link="finger", noise=0.1, **DELAYED))
        scene.add_sensor(sn.ContactForce(link="box", noise=0.1, random_walk=0.01, **DELAYED))
        scene.add_sensor(sn.JointEncoder(robot="arm", noise=0.001, vel_noise=0.01, random_walk=0.0001, **DELAYED))
    scene.build(n_envs=n_envs, device="cuda")
    scene["arm"].set_ctrl(torch.linspace(-0.5, 0.5, 8))
    return scene


def seconds(call: Callable[[], Any], repeats: int) -> float:
    """Return the median device time of a call in seconds, measured by CUDA events.

    The device is busy when the host launches the call, so that no time of the host is included.
    """
    work = torch.ones(4096, 4096, device="cuda")
    for _ in range(5):
        call()
    times = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.mm(work, work)  # 2 to 3 ms
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e-3)
    return statistics.median(times)


def copy_bandwidth() -> float:
    """Return the bytes per second, read plus written, of a large copy on the device."""
    source = torch.rand(512 * 2**20, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.numel() * 4 / seconds(lambda: target.copy_(source), 20)


def _sense(scene: sn.Scene) -> None:
    """Run the timing and the fused step of a scene's sensors."""
    kernels = scene._sensing._pipelines[-1].kernels
    kernels.time()
    kernels.step()


def fused(report: Report, bandwidth: float) -> None:
    """Compare the fused step of 1,026 columns x 16,384 envs, in a graph of its own, with a copy of its bytes."""
    n_envs, n_sensors = 16384, 114
    scene = sn.Scene(dt=0.01, substeps=1)
    scene.add_object(sn.Sphere(), name="ball", free=True)
    parts = [f"{part}_{name}" for part in ("acc", "gyro", "mag") for name in ("noise", "bias", "random_walk")]
    for i in range(n_sensors):
        scene.add_sensor(sn.IMU(link="ball", uuid=f"imu{i}", **dict.fromkeys(parts, 0.1), **DELAYED))
    scene.build(n_envs=n_envs, device="cuda")
    world: Any = scene.world
    graph = torch.cuda.CUDAGraph()
    many = 10  # in one graph, so that the launch time is negligible
    with torch.cuda.graph(graph):
        world.run(lambda: [_sense(scene) for _ in range(many)])
    # per column and env: sensor data in; truth, reading, ring and cache out; ring in; walk in and out
    moved = n_sensors * 9 * n_envs * 4 * 8
    # timing: arrival and offset out, two arrivals and one offset in, lag in and out, age out
    moved += n_sensors * n_envs * 4 * 8
    took = seconds(graph.replay, 20) / many
    report.add(f"fused step, {n_sensors * 9} columns x {n_envs} envs", took * 1e6, "us")
    report.add("  a copy of its bytes", moved / bandwidth * 1e6, "us")
    report.add("  fused step / copy of its bytes", took / (moved / bandwidth), "x", 1.5)
    # memory is read in sectors of 8 envs, whose jittered delays select two slots of the ring
    sectors = moved + n_sensors * 9 * n_envs * 4
    report.add("  fused step / copy of the sectors it touches", took / (sectors / bandwidth), "x")


def arms(report: Report) -> None:
    """Compare the arm scene with and without sensors."""
    for n_envs in (4096, 16384):
        bare, full = arm_scene(n_envs, sensors=False), arm_scene(n_envs, sensors=True)
        for scene in (bare, full):
            scene.step(20)
        rounds = [(seconds(bare.step, 20), seconds(full.step, 20)) for _ in range(5)]
        physics = statistics.median(b for b, _ in rounds)
        share = statistics.median((f - b) / b for b, f in rounds)
        report.add(f"arm: physics step, {n_envs} envs", physics * 1e3, "ms")
        report.add(f"arm: env-steps per second with sensors, {n_envs} envs", n_envs / rounds[-1][1] / 1e6, "M/s")
        report.add(f"arm: sensors beyond physics, {n_envs} envs", share * 100, "%", 10.0)


def substeps(report: Report) -> None:
    """Compare an IMU that is captured at every one of 5 substeps with one that is captured once per step."""

    def scene(at_substeps: bool) -> sn.Scene:
        made = sn.Scene(dt=0.01, substeps=5, integrator="implicitfast")
        made.add_object(sn.Plane())
        made.add_robot(arm(), name="arm")
        made.add_sensor(sn.IMU(link="hand", acc_noise=0.02, gyro_noise=0.005, substeps=at_substeps, **DELAYED))
        made.build(n_envs=4096, device="cuda")
        made["arm"].set_ctrl(torch.linspace(-0.5, 0.5, 8))
        made.step(20)
        return made

    once, each = scene(False), scene(True)
    rounds = [(seconds(once.step, 20), seconds(each.step, 20)) for _ in range(5)]
    ratio = statistics.median(many / one for one, many in rounds)
    report.add("arm: IMU at each of 5 substeps / once per step, 4096 envs", ratio, "x", 1.25)


def resets(report: Report) -> None:
    """Measure resets of no env, of 1 % and of all envs beside a step: the arm, and a scene of many geoms."""
    n_envs = 4096
    for name, scene in (("arm", arm_scene(n_envs, sensors=True)), ("12 boxes", boxes(n_envs))):
        scene.step(count=20)
        masks = {}
        for what, share in (("no env", 0.0), ("1 % of the envs", 0.01), ("all envs", 1.0)):
            masks[what] = torch.arange(n_envs, device="cuda") < round(share * n_envs)
        step = seconds(scene.step, 50)
        took = {what: seconds(partial(scene.reset, envs=mask), 50) for what, mask in masks.items()}
        report.add(f"{name}: step, {n_envs} envs", step * 1e3, "ms")
        report.add("  reset of no env", took["no env"] * 1e3, "ms", 0.05)
        report.add("  reset of 1 % of the envs / step", took["1 % of the envs"] / step, "x", 0.25)
        report.add("  reset of all envs / step", took["all envs"] / step, "x", 1.0)


def boxes(n_envs: int) -> sn.Scene:
    """Return a scene of 12 boxes on the ground with an IMU."""
    scene = sn.Scene(dt=0.02, substeps=4)
    scene.add_object(sn.Plane())
    for i in range(12):
        scene.add_object(sn.Box(size=(0.1, 0.1, 0.1), mass=1.0), name=f"box{i}", pos=(0.3 * i, 0, 0.2), free=True)
    scene.add_sensor(sn.IMU(link="box0", acc_noise=0.1))
    scene.build(n_envs=n_envs, device="cuda")
    return scene


def pressing_arm(n_envs: int, *sensors: sn.SimpleSensorOptions, device: str = "cuda") -> sn.Scene:
    """Return a scene of the arm, whose finger presses on a box on a pillar."""
    scene = sn.Scene(dt=0.01, substeps=5, integrator="implicitfast")
    scene.add_object(sn.Plane())
    scene.add_robot(arm(), name="arm")
    scene.add_object(sn.Box(size=(0.1, 0.06, 1.19)), name="pillar", pos=(0, 0.115, 0.595))
    scene.add_object(sn.Box(size=(0.08, 0.08, 0.02), mass=2.0), name="box", pos=(0, 0.102, 1.2001), free=True)
    for options in sensors:
        scene.add_sensor(options)
    scene.build(n_envs=n_envs, device=device)
    scene["arm"].set_ctrl([0.0] * 7 + [0.04])
    scene.step(50)
    return scene


def touch(report: Report) -> None:
    """Measure a tactile array of 16 x 16 taxels on a finger that presses on a box, and other sensors of touch."""
    on_finger = {"link": "finger", "pos": (0, 0.0095, 0), "euler": (-math.pi / 2, 0, 0)}
    in_front = on_finger | {"pos": (0, 0.0115, 0)}
    skin = {"noise": 0.001, "gain_spread": 0.05, "crosstalk_length": 0.001, "relaxation_fraction": 0.2}
    array = sn.TactileArray(grid=(16, 16), spacing=0.00125, **on_finger)
    rows: dict[str, tuple[sn.SimpleSensorOptions, float | None]] = {
        "tactile array 16 x 16": (array, 30.0),
        "tactile array 16 x 16 with imperfections of the skin, delay": (array.model_copy(update=skin | DELAYED), None),
        "elastomer 16 x 16": (sn.ElastomerDisplacement(grid=(16, 16), size=(0.02, 0.02), **in_front), None),
        "16 proximity probes": (sn.Proximity(positions=tuple((0, y / 800, 0) for y in range(16)), **in_front), None),
        "temperature grid 4 x 4 x 4": (sn.TemperatureGrid(link="finger", grid_size=(4, 4, 4)), None),
    }
    bare = pressing_arm(4096)
    for name, (options, bound) in rows.items():
        full = pressing_arm(4096, options)
        rounds = [(seconds(bare.step, 20), seconds(full.step, 20)) for _ in range(5)]
        share = statistics.median((f - b) / b for b, f in rounds)
        report.add(f"arm: {name} beyond physics, 4096 envs", share * 100, "%", bound)
        if isinstance(options, sn.TactileArray):
            loaded = full.sensors[f"tactile_array_{options.link}"].read_ground_truth().force.norm(dim=-1) > 0
            report.add("  taxels that feel the box", loaded.float().mean().item() * 100, "%")
        full.close()


def lidar(report: Report) -> None:
    """Measure 16 x 360 rays among 50 geoms: the sensor, its casting alone, and MuJoCo Warp's casting of these rays."""
    pattern = sn.SphericalPattern(fov=(360, 30), n_points=(360, 16))
    options = sn.Lidar(link="base", pos=(0, 0, 0.3), max_range=20.0, noise=0.01, pattern=pattern)
    for n_envs in (64, 1024):
        full, bare = room(n_envs, options, device="cuda"), room(n_envs, device="cuda")
        rounds = [(seconds(bare.step, 20), seconds(full.step, 20)) for _ in range(5)]
        beyond = statistics.median(f - b for b, f in rounds)
        group: Any = full.sensors["lidar_base"].group
        plan, world, count = group.backend._plans[0], full.world, n_envs * 5760
        everyone = torch.ones(n_envs, dtype=torch.bool, device="cuda")
        own = torch.full((5760,), full.model.body("base").id, dtype=torch.int32, device="cuda")
        normals = wp.zeros(tuple(plan.batch.distances.shape), dtype=wp.vec3, device="cuda")
        groups = vec6(*[-1] * 6)

        def theirs(
            world: Any = world, plan: Any = plan, own: Any = own, normals: Any = normals, g: Any = groups
        ) -> None:
            mjw.rays(
                world.m, world.d, plan.points, plan.directions, g, True, wp.from_torch(own),
                plan.distances, plan.geoms, normals,
            )  # fmt: skip

        casts = {"ours": lambda w=world, p=plan, e=everyone: w.cast(p.batch, e), "theirs": theirs}
        took = {name: seconds(lambda call=call, w=world: w.run(call), 10) for name, call in casts.items()}
        report.add(f"lidar 16 x 360 beyond physics, {n_envs} envs", beyond * 1e3, "ms")
        report.add("  rays per second", count / beyond / 1e6, "M/s")
        report.add("  casting alone", count / took["ours"] / 1e6, "M/s")
        report.add("  MuJoCo Warp's casting of the same rays", count / took["theirs"] / 1e6, "M/s")


def mesh_lidar(report: Report) -> None:
    """Measure 1,024 rays per env against one mesh of 100,000 triangles: hills, and a house of boxes."""
    n_envs, pattern = 4096, sn.SphericalPattern(fov=(360, 30), n_points=(64, 16))
    for name, mesh in (("hills", hills(224)), ("house of boxes", box_house(8333))):
        with tempfile.TemporaryDirectory() as folder:
            mesh.export(Path(folder) / "mesh.obj")
            asset = '<asset><mesh name="mesh" file="mesh.obj" inertia="shell"/></asset>'
            world = '<worldbody><geom type="mesh" mesh="mesh" contype="0" conaffinity="0"/></worldbody>'
            (Path(folder) / "mesh.xml").write_text(f"<mujoco>{asset}{world}</mujoco>")
            scene = sn.Scene(dt=0.02)
            scene.add_object(Path(folder) / "mesh.xml", name="ground")
            scene.add_object(sn.Sphere(radius=0.05, mass=1.0), name="drone", pos=(0, 0, 3.0), free=True)
            lidar = scene.add_sensor(sn.Lidar(link="drone", max_range=60.0, pattern=pattern))
            scene.build(n_envs=n_envs, device="cuda")
        scene.step(count=3)
        plan, world_ = lidar.group.backend._plans[0], scene.world
        everyone = torch.ones(n_envs, dtype=torch.bool, device="cuda")
        took = seconds(lambda w=world_, p=plan, e=everyone: w.run(lambda: w.cast(p.batch, e)), 20)
        report.add(
            f"lidar, {name}, {len(mesh.faces)} triangles", n_envs * 1024 / took / 1e6, "M rays/s", 330.0, at_least=True
        )


def hills(n: int) -> trimesh.Trimesh:
    """Return n x n points of smooth hills over 60 m x 60 m."""
    x, y = np.meshgrid(np.linspace(-30, 30, n), np.linspace(-30, 30, n), indexing="ij")
    z = np.sin(0.4 * x) * np.cos(0.3 * y) + 0.3 * np.sin(1.7 * x + 0.5 * y)
    corner = (np.arange(n - 1)[:, None] * n + np.arange(n - 1)).ravel()
    faces = np.concatenate(
        [np.stack([corner, corner + n, corner + 1], 1), np.stack([corner + 1, corner + n, corner + n + 1], 1)]
    )
    return trimesh.Trimesh(np.stack([x.ravel(), y.ravel(), z.ravel()], 1), faces, process=False)


def box_house(count: int) -> trimesh.Trimesh:
    """Return boxes of 0.1 m to 2 m at random places within 60 m x 60 m x 6 m, as one mesh."""
    rng = np.random.default_rng(0)
    parts = []
    for size, place in zip(
        rng.uniform(0.1, 2.0, (count, 3)), rng.uniform(-1, 1, (count, 3)) * (30, 30, 3), strict=True
    ):
        parts.append(trimesh.creation.box(size, trimesh.transformations.translation_matrix(place)))
    return trimesh.util.concatenate(parts)


def host_time(report: Report) -> None:
    """Measure the host time of scene.step() at 8,192 envs.

    For reference, since the speed of the host varies, it also measures the launch of the same graph alone, the launch
    of a graph of MuJoCo Warp's steps alone, and one addition by torch.
    """
    number = torch.zeros(1, device="cuda")
    for substeps in (1, 5):
        scene = arm_scene(8192, sensors=True, substeps=substeps)
        world: Any = scene.world
        with wp.ScopedDevice("cuda:0"):
            mjw.step(world.m, world.d)
            with wp.ScopedCapture() as capture:
                for _ in range(substeps):
                    mjw.step(world.m, world.d)
        calls = {
            f"host time of scene.step(), 8192 envs, {substeps} substeps": scene.step,
            "  of launching its graph alone": world._graphs["step"].launch,
            "  of launching a graph of the bare physics": partial(wp.capture_launch, capture.graph),
            "  of x.add_(1) on one number by torch": partial(number.add_, 1),
        }
        rounds = [[host_seconds(call, scene.step) for call in calls.values()] for _ in range(9)]
        for what, times in zip(calls, zip(*rounds, strict=True), strict=True):
            bound = 30.0 if what.startswith("host") else None
            report.add(what, statistics.median(times) * 1e6, "us", bound)
        in_a_row = statistics.median(host_seconds_in_a_row(scene.step) for _ in range(9))
        report.add("  of scene.step(), steps in a row", in_a_row * 1e6, "us", 30.0)
    print(scene.describe())


def host_seconds(call: Callable[[], Any], work: Callable[[], Any]) -> float:
    """Return the median host time of a call in seconds, with the device idle after ``work``."""
    times = []
    for _ in range(40):
        work()
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def host_seconds_in_a_row(call: Callable[[], Any]) -> float:
    """Return the median host time of a call in seconds, for calls in a row without synchronising with the device."""
    torch.cuda.synchronize()
    times = []
    for _ in range(40):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    torch.cuda.synchronize()
    return statistics.median(times)


def agreement(report: Report) -> None:
    """Compare CPU and GPU readings: same seed, 100 steps, physics state copied each step."""
    from test_gpu import TOLERANCES
    from test_gpu import agreement as measure

    for name, difference in measure().items():
        report.add(f"CPU and GPU differ by, {name}", difference, "", TOLERANCES[name])


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    report = Report("GPU", ())
    report.machine["gpu"] = torch.cuda.get_device_name()
    report.machine["torch"] = torch.__version__
    bandwidth = copy_bandwidth()
    report.add("copy bandwidth", bandwidth / 1e12, "TB/s")
    fused(report, bandwidth)
    arms(report)
    substeps(report)
    resets(report)
    touch(report)
    lidar(report)
    mesh_lidar(report)
    host_time(report)
    agreement(report)
    report.finish(arguments.json)


if __name__ == "__main__":
    main()
