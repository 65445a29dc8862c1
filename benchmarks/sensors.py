"""Measure the sensor catalogue: ray casting against bare calls of the engine, and all other sensors at once.

.venv/bin/python benchmarks/sensors.py [--json out/sensors.json]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from common import Report, difference, interleave, ratio, spread

import sensorium as sn

WHOLE = sn.SphericalPattern(fov=(360, 30), n_points=(360, 16))


def room(n_envs: int, *sensors: Any, geoms: int = 50, device: str = "cpu") -> sn.Scene:
    """Return a scene of a floor and ``geoms`` boxes and spheres around a carrier."""
    scene = sn.Scene(dt=0.01, substeps=2)
    scene.add_object(sn.Plane(), name="ground")
    rng = np.random.default_rng(0)
    for i in range(geoms - 2):
        angle, away = rng.uniform(0, 2 * np.pi), rng.uniform(2, 9)
        shape = sn.Box(size=tuple(rng.uniform(0.2, 1.0, 3))) if i % 2 else sn.Sphere(radius=rng.uniform(0.1, 0.5))
        pos = (away * np.cos(angle), away * np.sin(angle), rng.uniform(0.2, 1))
        scene.add_object(shape, name=f"obstacle{i}", pos=pos)
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.1), mass=1.0), name="base", pos=(0, 0, 0.3), free=True)
    for options in sensors:
        scene.add_sensor(options)
    scene.build(n_envs=n_envs, device=device)
    scene.step(20)
    return scene


def lidar_against_bare_rays(report: Report) -> None:
    """Compare sensing of 16 x 360 rays in 64 envs with ``Batch.ray`` on the same rays and threads."""
    lidar = sn.Lidar(link="base", pos=(0, 0, 0.3), max_range=20.0, noise=0.01, pattern=WHOLE)
    full, lean = (
        room(64, options) for options in (lidar, lidar.model_copy(update={"returns": ("distances",), "noise": 0.0}))
    )
    batch: Any = full.world.batch  # type: ignore[attr-defined]
    position = full.world.bind("xpos").numpy()[:, full.model.body("base").id][:, None] + [0, 0, 0.3]
    points = np.ascontiguousarray(np.broadcast_to(position, (64, 5760, 3)))
    directions = np.ascontiguousarray(np.broadcast_to(WHOLE.rays()[1], (64, 5760, 3)))
    own = full.model.body("base").id
    times = interleave(
        {
            "bare": lambda: batch.ray(points, directions, bodyexclude=own),
            "full": full._sensing.step,
            "lean": lean._sensing.step,
        },
        rounds=15,
        calls=2,
    )
    rays = 64 * 5760
    report.add("bare Batch.ray, 16 x 360 rays, 64 envs, 50 geoms", rays / min(times["bare"]) / 1e6, "M rays/s")
    bound = 1 / 0.9  # 90% of the rate
    report.add("  lidar, distances alone / bare", ratio(times, "lean", "bare"), "x", bound)
    report.add("  lidar, noisy distances and points / bare", ratio(times, "full", "bare"), "x", bound)


def few_rays(report: Report) -> None:
    """Measure 512 rays at 1 env beyond physics."""
    pattern = sn.SphericalPattern(fov=(360, 30), n_points=(64, 8))
    full, bare = room(1, sn.Lidar(link="base", pos=(0, 0, 0.3), max_range=20.0, noise=0.01, pattern=pattern)), room(1)
    times = interleave({"full": full.step, "bare": bare.step}, rounds=30, calls=20)
    report.add("512 rays at 1 env, beyond physics", difference(times, "full", "bare") * 1e6, "us", 1000.0)
    report.add("  interquartile range of the rounds", spread(times, "full", "bare") * 1e6, "us")


ROVER = """
<mujoco><worldbody><body name="base" pos="0 0 0.12"><freejoint/>
  <geom type="box" size="0.15 0.1 0.04" mass="3"/>
  <body name="left" pos="0 0.13 -0.02"><joint name="left" axis="0 1 0"/>
    <geom type="cylinder" size="0.06 0.02" euler="90 0 0" mass="0.3"/></body>
  <body name="right" pos="0 -0.13 -0.02"><joint name="right" axis="0 1 0"/>
    <geom type="cylinder" size="0.06 0.02" euler="90 0 0" mass="0.3"/></body>
  <body name="caster" pos="0.12 0 -0.05"><geom type="sphere" size="0.03" mass="0.1" friction="0 0 0"/></body>
</body></worldbody>
<actuator><velocity joint="left" kv="0.5"/><velocity joint="right" kv="0.5"/></actuator></mujoco>"""


def catalogue() -> list[Any]:
    """Return one sensor of every class except rays and temperature, on the rover; its tactile skin carries a box."""
    base: dict[str, Any] = {"link": "base"}
    on_top: dict[str, Any] = {"link": "base", "pos": (0, 0, 0.04)}
    return [
        sn.presets.imu("consumer_mems", **base),
        sn.Contact(link="left"),
        sn.ContactForce(**base, noise=0.1),
        sn.presets.encoder("magnetic_14_bit", robot="rover"),
        sn.FramePose(**base, pos_noise=0.01),
        sn.JointTorque(robot="rover"),
        sn.ForceTorque(link="left"),
        sn.Barometer(**base),
        sn.GPS(**base),
        sn.Magnetometer(**base),
        sn.OpticalFlow(**base),
        sn.WheelOdometry(left="left", right="right", radius=0.06, track=0.26),
        sn.BatteryState(),
        sn.Clock(),
        sn.Proximity(**base, positions=((0.15, 0, 0), (0, 0.1, 0))),
        sn.ContactProbe(**on_top),
        sn.ContactDepthProbe(**on_top),
        sn.TactileArray(**on_top, grid=(8, 8), spacing=0.01),
        sn.ElastomerDisplacement(**on_top),
    ]


def rover(*sensors: Any) -> sn.Scene:
    """Return a scene of the rover on the ground with a box on top."""
    scene = sn.Scene(dt=0.01, substeps=2)
    scene.add_object(sn.Plane(), name="ground")
    scene.add_robot(ROVER, name="rover")
    scene.add_object(sn.Box(size=(0.05, 0.05, 0.05), mass=0.2), name="cargo", pos=(0, 0, 0.19), free=True)
    for options in sensors:
        scene.add_sensor(options)
    scene.build(n_envs=1)
    scene.step(50)
    return scene


def whole_catalogue(report: Report) -> None:
    """Measure all other sensors at once at 1 env, beyond physics."""
    sensors = catalogue()
    full, bare = rover(*sensors), rover()
    times = interleave({"full": full.step, "bare": bare.step}, rounds=40, calls=50)
    cost = difference(times, "full", "bare") * 1e6
    report.add(f"{len(sensors)} sensors of {len(sensors)} classes at 1 env, beyond physics", cost, "us", 150.0)
    report.add("  interquartile range of the rounds", spread(times, "full", "bare") * 1e6, "us")


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    report = Report("sensors", ("mujoco", "torch", "numba"))
    lidar_against_bare_rays(report)
    few_rays(report)
    whole_catalogue(report)
    report.finish(arguments.json)


if __name__ == "__main__":
    main()
