"""Cameras: reading 3 of them in 64 envs, compared with bare calls of MuJoCo's renderer, and reading stored images.

.venv/bin/python benchmarks/cameras.py [--json out/cameras.json]
"""

from __future__ import annotations

import argparse
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from common import Report, interleave, ratio

import sensorium as sn
from sensorium.worlds.opengl import make_context

ENVS = 64
VIEWS = {"front": (2.5, 0, 1.5), "side": (0, -2.5, 1.2), "above": (0.1, 0, 3.5)}


def table(size: int, outputs: tuple[str, ...]) -> tuple[sn.Scene, list[Any]]:
    """Build a floor on which 28 boxes, balls and capsules fall, and three cameras."""
    scene = sn.Scene(dt=0.01, substeps=1)
    scene.add_object(sn.Plane())
    rng = np.random.default_rng(0)
    for number in range(28):
        colour = (*rng.uniform(0.2, 1, 3), 1)
        shape = (
            sn.Box(size=tuple(rng.uniform(0.1, 0.3, 3)), rgba=colour),
            sn.Sphere(radius=rng.uniform(0.05, 0.15), rgba=colour),
            sn.Capsule(radius=0.05, length=0.2, rgba=colour),
        )[number % 3]
        scene.add_object(shape, name=f"thing{number}", pos=tuple(rng.uniform((-1, -1, 0.2), (1, 1, 1))), free=True)
    cameras = [
        scene.add_sensor(sn.Camera(uuid=name, pos=pos, lookat=(0, 0, 0.2), resolution=(size, size), outputs=outputs))
        for name, pos in VIEWS.items()
    ]
    scene.build(n_envs=ENVS)
    return scene, cameras


def bare(scene: sn.Scene, cameras: list[Any], depth: bool) -> Callable[[], None]:
    """Return a function that draws the same frames with MuJoCo's calls: one scene update per env, then each camera."""
    threads, own = len(os.sched_getaffinity(0)), threading.local()
    views = [camera.view for camera in cameras]
    size, qpos, model = views[0].width, scene.world.bind("qpos").numpy(), scene.model
    area = mujoco.MjrRect(0, 0, size, size)
    near, far = views[0].near, views[0].far
    half = near * size / 2 / float(views[0].fy[0])
    model.vis.quality.offsamples = 0
    model.vis.global_.offwidth = model.vis.global_.offheight = size

    def prepare() -> None:
        own.gl, _ = make_context(size, size)
        own.pixels = mujoco.MjrContext(model, int(mujoco.mjtFontScale.mjFONTSCALE_100))
        mujoco.mjr_setBuffer(int(mujoco.mjtFramebuffer.mjFB_OFFSCREEN), own.pixels)
        own.scene, own.data = mujoco.MjvScene(model, 1000), mujoco.MjData(model)
        own.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = False
        own.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
        own.option, own.camera = mujoco.MjvOption(), mujoco.MjvCamera()
        own.rgb = np.zeros((size, size, 3), np.uint8)
        own.levels = np.zeros((size, size), np.float32) if depth else None

    def draw_share(first: int) -> None:
        for env in range(first, ENVS, threads):
            own.data.qpos[:] = qpos[env]
            mujoco.mj_kinematics(model, own.data)
            mujoco.mj_camlight(model, own.data)
            mujoco.mjv_updateScene(model, own.data, own.option, None, own.camera, 7, own.scene)
            for view in views:
                for eye in own.scene.camera:
                    eye.pos, eye.up = view.position[env].numpy(), view.rotation[env, :, 1].numpy()
                    eye.forward = -view.rotation[env, :, 2].numpy()
                    eye.frustum_top, eye.frustum_bottom, eye.frustum_near, eye.frustum_far = half, -half, near, far
                mujoco.mjr_render(area, own.scene, own.pixels)
                mujoco.mjr_readPixels(own.rgb, own.levels, area, own.pixels)

    pool = ThreadPoolExecutor(threads, initializer=prepare)
    return lambda: list(pool.map(draw_share, range(threads)))  # type: ignore[return-value]


def against_bare(report: Report) -> None:
    """Compare reading three cameras in all envs with bare calls."""
    for size in (84, 224):
        for outputs in (("rgb",), ("rgb", "depth")):
            scene, cameras = table(size, outputs)
            scene.step(20)

            def ours(scene: sn.Scene = scene, cameras: list[Any] = cameras) -> None:
                scene.world.changes.mark()  # as after a step
                for camera in cameras:
                    camera.read()

            times = interleave({"ours": ours, "bare": bare(scene, cameras, "depth" in outputs)}, rounds=7, calls=1)
            what = f"{size} x {size} {' + '.join(outputs)}"
            report.add(f"3 cameras x {ENVS} envs, {what}", min(times["ours"]) / ENVS / 3 * 1e3, "ms per image")
            report.add("  bare calls of the renderer", min(times["bare"]) / ENVS / 3 * 1e3, "ms per image")
            report.add("  ours / bare", ratio(times, "ours", "bare"), "x", 1.1)


def cached(report: Report) -> None:
    """Time reads of images that are up to date."""
    scene, cameras = table(84, ("rgb", "depth"))
    scene.step()
    cameras[0].read()
    times = interleave({"read": cameras[0].read, "truth": cameras[0].read_ground_truth}, rounds=20, calls=2000)
    report.add("cached read()", min(times["read"]) * 1e6, "us", 5.0)
    report.add("cached read_ground_truth()", min(times["truth"]) * 1e6, "us", 5.0)
    bare_scene, _ = table(84, ("rgb",))
    steps = interleave({"step": bare_scene._sensing.step}, rounds=20, calls=500)  # type: ignore[union-attr]
    report.add("time per step of cameras that are not read", min(steps["step"]) * 1e6, "us")


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    report = Report("cameras", ("mujoco", "torch", "numba"))
    cached(report)
    against_bare(report)
    report.finish(arguments.json)


if __name__ == "__main__":
    main()
