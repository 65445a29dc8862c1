"""Compare tile maps as boxes and as a height field: time of a physics step, by the number of boxes.

.venv/bin/python benchmarks/terrain.py [--json out/terrain.json] [--device cuda --envs 1024]
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import numpy as np
from common import Report, interleave

import sensorium as sn
from sensorium.worlds import Primitive

_BODIES = 12
"""Bodies that rest on the map: the number of links of a quadruped that can touch the ground."""
_SHAPES = {
    "spheres": sn.Sphere(radius=0.08),
    "capsules": sn.Capsule(radius=0.06, length=0.2),
    "boxes": sn.Box(size=(0.2, 0.16, 0.12)),
}


def world(side: int, form: str, shape: Primitive, device: str, envs: int) -> sn.Scene:
    """Return a scene of ``side`` x ``side`` tiles of different heights, with bodies at rest on it."""
    rng = np.random.default_rng(0)
    tiles = sn.TileMap(rng.uniform(0, 0.3, (side, side)), 0.5, form=form)
    scene = sn.Scene(dt=0.002, substeps=1)
    scene.add_terrain(tiles)
    reach = min(side * 0.25 - 0.3, 3.0)
    for number in range(_BODIES):
        spot = rng.uniform(-reach, reach, 2)
        scene.add_object(shape, name=f"body{number}", pos=(*spot, 0.5 + 0.02 * number), free=True)
    scene.build(n_envs=envs, device=device)
    scene.step(400)
    return scene


def crossing(report: Report, device: str, envs: int) -> None:
    """Compare both forms for increasing numbers of boxes."""
    for name, shape in _SHAPES.items():
        for side in (8, 16, 24, 32, 48, 64):
            scenes = {form: world(side, form, shape, device, envs) for form in ("boxes", "height_field")}

            def call(scene: sn.Scene) -> None:
                scene.step(20)
                scene.time.cpu()

            times = interleave({form: lambda s=scene: call(s) for form, scene in scenes.items()}, rounds=7, calls=3)
            boxes, field = (statistics.median(times[form]) / 20 * 1e6 for form in scenes)
            report.add(f"{name} on {side * side} boxes, one step", boxes, "µs")
            report.add("  height field", field, "µs")
            report.add("  boxes / height field", boxes / field, "x")
            for scene in scenes.values():
                scene.close()


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--envs", type=int, default=1)
    options = parser.parse_args()
    report = Report(f"terrain, {options.device}, {options.envs} envs", ("sensorium", "mujoco", "torch"))
    crossing(report, options.device, options.envs)
    report.finish(options.json)


if __name__ == "__main__":
    main()
