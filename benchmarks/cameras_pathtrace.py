"""The path tracer against bare Mitsuba: the same scene, the same samples, from the second frame on.

.venv/bin/python benchmarks/cameras_pathtrace.py [--json out/cameras_pathtrace.json]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import Report, interleave, ratio

import sensorium as sn

SIDE, SAMPLES = 224, 16


def table() -> sn.Scene:
    """A floor on which 28 boxes and balls have fallen, in the light of the sun and the sky."""
    scene = sn.Scene(dt=0.01, substeps=2, sky=((0.4, 0.6, 0.9), (0.8, 0.8, 0.8)))
    scene.add_object(sn.Plane(), name="floor")
    scene.add_light(direction=(-0.4, 0.3, -1), intensity=0.6)
    rng = np.random.default_rng(0)
    for i in range(28):
        colour = (*rng.uniform(0.2, 0.9, 3), 1.0)
        shape = sn.Box(size=(0.2, 0.2, 0.2), rgba=colour) if i % 2 else sn.Sphere(radius=0.12, rgba=colour)
        scene.add_object(shape, name=f"thing{i}", pos=(*rng.uniform(-0.8, 0.8, 2), rng.uniform(0.2, 0.6)), free=True)
    return scene


def bare(camera: Any) -> Callable[[], np.ndarray]:
    """What renders the camera's view of its scene by Mitsuba alone, standing still."""
    import mitsuba as mi

    from sensorium.cameras.pathtrace import _using

    renderer = camera._block._renderer
    tracer = renderer._tracer
    with _using(renderer._variant):
        view = camera.view
        pose = np.eye(4)
        pose[:3, :3] = view.rotation[0].numpy() * [-1, 1, -1]
        pose[:3, 3] = view.position[0].numpy()
        sensor = mi.load_dict(
            {
                "type": "perspective",
                "fov": float(np.degrees(2 * np.arctan(SIDE / (2 * float(view.fx[0]))))),
                "to_world": mi.ScalarTransform4f(pose),
                "film": {"type": "hdrfilm", "width": SIDE, "height": SIDE, "rfilter": {"type": "box"}},
                "sampler": {"type": "independent", "sample_count": SAMPLES},
            }
        )
    seed = iter(range(1 << 30))

    def render() -> np.ndarray:
        with _using(renderer._variant):
            image = mi.render(tracer._scene, sensor=sensor, integrator=tracer._integrator, spp=SAMPLES, seed=next(seed))
            return np.array(image)

    return render


def frames(report: Report) -> None:
    """Every frame shows a new state: what moved is written, light is traced, tones are mapped."""
    scene = table()
    camera = scene.add_sensor(
        sn.RaytracerCamera(pos=(2.2, -1.5, 1.5), lookat=(0, 0, 0.2), resolution=(SIDE, SIDE), samples=SAMPLES)
    )
    scene.build()
    scene.step(30)

    def ours() -> None:
        scene.step()
        camera.read()

    times = interleave({"ours": ours, "bare": bare(camera)}, rounds=9, calls=2)
    report.add(f"bare Mitsuba, {SIDE} x {SIDE}, {SAMPLES} samples, 29 geoms", min(times["bare"]) * 1e3, "ms")
    report.add("  step, what moved, light and tones / bare", ratio(times, "ours", "bare"), "x", 1.3)
    report.add("  " + camera.renderer_choice.why, min(times["ours"]) * 1e3, "ms")


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    arguments = parser.parse_args()
    report = Report("path tracer", ("mujoco", "mitsuba", "drjit"))
    frames(report)
    report.finish(arguments.json)


if __name__ == "__main__":
    main()
