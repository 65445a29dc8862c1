"""Cameras on one CUDA device: reading one in many envs, compared with bare calls of MuJoCo Warp's ray tracer.

.venv/bin/python benchmarks/cameras_gpu.py [--json out/cameras_gpu.json]
.venv/bin/python benchmarks/cameras_gpu.py --device cpu --envs 2

The second command runs the script without a GPU. Its figures mean little, because our renderer uses several threads
there.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np
import torch
import warp as wp
from common import Report

import sensorium as sn
from sensorium.cameras import look_at

import mujoco_warp as mjw  # isort: skip

SIZE, FOV, EYE, TARGET = 84, 60.0, (2.2, -1.6, 1.6), (0.0, 0.0, 0.4)


def model_camera() -> str:
    """Return the camera as an element of the model, for bare calls."""
    turned = look_at(torch.tensor(EYE), torch.tensor(TARGET), torch.tensor([0.0, 0, 1])).numpy()
    axes = " ".join(f"{value:.9g}" for value in (*turned[:, 0], *turned[:, 1]))
    pos = " ".join(str(value) for value in EYE)
    eye = f'<camera name="eye" pos="{pos}" xyaxes="{axes}" fovy="{FOV}"/>'
    return f'<mujoco><worldbody><body name="stand">{eye}</body></worldbody></mujoco>'


def table(n_envs: int, device: str, quality: str) -> tuple[sn.Scene, Any]:
    """Build a floor with 20 boxes, balls and capsules, three boxes that fall, and a camera."""
    scene = sn.Scene(dt=0.01, substeps=2, sky=((0.5, 0.6, 0.8), (0.1, 0.2, 0.4)))
    scene.add_object(sn.Plane())
    rng = np.random.default_rng(0)
    for number in range(20):
        colour = (*rng.uniform(0.2, 1, 3), 1)
        shape = (
            sn.Box(size=tuple(rng.uniform(0.1, 0.3, 3)), rgba=colour, collide=False),
            sn.Sphere(radius=rng.uniform(0.05, 0.15), rgba=colour, collide=False),
            sn.Capsule(radius=0.05, length=0.2, rgba=colour, collide=False),
        )[number % 3]
        scene.add_object(shape, name=f"thing{number}", pos=tuple(rng.uniform((-1, -1, 0.1), (1, 1, 0.5))))
    for number in range(3):
        scene.add_object(sn.Box(size=(0.2, 0.2, 0.2)), name=f"box{number}", pos=(0.4 * number - 0.4, 0, 0.8), free=True)
    scene.add_object(model_camera(), name="bare")
    scene.add_light("directional", direction=(0.3, 0.2, -1))
    lens = {"pos": EYE, "lookat": TARGET, "fov": FOV, "resolution": (SIZE, SIZE), "outputs": ("rgb", "depth")}
    camera = scene.add_sensor(sn.Camera(renderer="batch", quality=quality, **lens))
    scene.build(n_envs=n_envs, device=device)
    scene.step(20)
    return scene, camera


class Bare:
    """Draws the same frames with MuJoCo Warp's calls, on the same arrays of the engine."""

    def __init__(self, scene: sn.Scene, quality: str) -> None:
        world: Any = scene.world
        self.run = world.run if hasattr(world, "run") else _on_cpu
        self.run(lambda: self._start(scene, world, quality))

    def _start(self, scene: sn.Scene, world: Any, quality: str) -> None:
        n_envs = scene.n_envs
        if hasattr(world, "m"):
            self.m, self.d = world.m, world.d
        else:  # without a GPU, the engine's arrays are MuJoCo's
            self.m = mjw.put_model(scene.model)
            self.d = SimpleNamespace(nworld=n_envs, flexvert_xpos=wp.zeros((n_envs, 0), dtype=wp.vec3))
            for name in ("geom_xpos", "geom_xmat", "cam_xpos", "cam_xmat", "light_xpos", "light_xdir"):
                kind = wp.mat33 if name.endswith("xmat") else wp.vec3
                setattr(self.d, name, wp.array(world.bind(name).float().numpy(), dtype=kind))
        self.rc = mjw.create_render_context(
            scene.model,
            nworld=n_envs,
            cam_res=(SIZE, SIZE),
            render_rgb=True,
            render_depth=True,
            render_seg=False,
            use_shadows=quality != "fast",
            render_skybox=True,
        )
        self.rgb = wp.zeros((n_envs, SIZE, SIZE), dtype=wp.vec3)
        self.depth = wp.zeros((n_envs, SIZE, SIZE), dtype=float)

    def render(self) -> None:
        """Render into the tracer's packed buffers."""
        self.run(self._render)

    def _render(self) -> None:
        mjw.refit_bvh(self.m, self.d, self.rc)
        mjw.render(self.m, self.d, self.rc)

    def images(self) -> None:
        """Render, and unpack the buffers into images with MuJoCo Warp's helpers."""
        self.run(self._images)

    def _images(self) -> None:
        self._render()
        mjw.get_rgb(self.rc, 0, self.rgb)
        mjw.get_depth(self.rc, 0, 1.0, self.depth)


def _on_cpu(body: Callable[[], None]) -> None:
    with wp.ScopedDevice("cpu"):
        body()


def seconds(call: Callable[[], Any], device: str, repeats: int) -> float:
    """Return the median duration of a call, s; on a GPU by its own clock."""
    times = []
    for _ in range(repeats):
        if device == "cpu":
            begun = time.perf_counter()
            call()
            times.append(time.perf_counter() - begun)
            continue
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e-3)
    return statistics.median(times)


def host_seconds(call: Callable[[], Any], device: str) -> float:
    """Return the median time that a call occupies the host, s; the device is idle before it."""
    times = []
    for _ in range(20):
        if device != "cpu":
            torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def against_bare(report: Report, device: str, n_envs: int, quality: str) -> None:
    """Compare reading RGB and depth of one camera with bare calls."""
    scene, camera = table(n_envs, device, quality)
    bare = Bare(scene, quality)

    def ours() -> None:
        scene.world.changes.mark()  # as after a step
        camera.read()

    for call in (ours, bare.render, bare.images):
        for _ in range(3):
            call()
    check_same_frames(camera, bare)
    rounds = [[seconds(call, device, 7) for call in (ours, bare.render, bare.images)] for _ in range(7)]
    mine, traced, unpacked = (statistics.median(one) for one in zip(*rounds, strict=True))
    what = f"{n_envs} envs, {SIZE} x {SIZE} rgb + depth, {quality}"
    report.add(f"read(), {what}", mine * 1e3, "ms")
    report.add("  images per second", n_envs / mine / 1e3, "thousand/s")
    report.add("  bare refit_bvh() and render()", traced * 1e3, "ms")
    report.add("  ours / bare", statistics.median(a / b for a, b, _ in rounds), "x", 1.15)
    report.add("  bare with get_rgb() and get_depth()", unpacked * 1e3, "ms")
    report.add("  ours / that", statistics.median(a / c for a, _, c in rounds), "x")
    report.add("  host time of read()", host_seconds(ours, device) * 1e6, "us")
    report.add("  host time of bare render()", host_seconds(bare.render, device) * 1e6, "us")
    scene.close()


def check_same_frames(camera: Any, bare: Bare) -> None:
    """Check that both draw the same images."""
    bare.images()
    depth = camera.read().depth
    traced = wp.to_torch(bare.rc.depth_data).reshape(depth.shape).to(depth.device)
    hit = torch.isfinite(depth) & (traced > 0)
    assert float(hit.float().mean()) > 0.5
    assert float(((depth - traced)[hit].abs() < 1e-3).float().mean()) > 0.99
    colour = (camera.read().rgb.float() / 255 - wp.to_torch(bare.rgb)).abs()
    assert float((colour < 0.02).float().mean()) > 0.98


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--device", default="cuda", help="cpu runs the script without a GPU; its figures mean little")
    parser.add_argument("--envs", type=int, nargs="+", default=[1024, 8192], help="numbers of envs")
    arguments = parser.parse_args()
    report = Report("Cameras on the GPU", ())
    if arguments.device != "cpu":
        report.machine["gpu"] = torch.cuda.get_device_name()
    report.machine |= {"torch": torch.__version__, "warp": wp.__version__, "mujoco": mujoco.__version__}
    for quality in ("fast", "balanced"):
        for n_envs in arguments.envs:
            against_bare(report, arguments.device, n_envs, quality)
    report.finish(arguments.json)


if __name__ == "__main__":
    main()
