"""The path tracer against bare Mitsuba: the same scene, the same samples, from the second frame on; and its denoisers.

.venv/bin/python benchmarks/cameras_pathtrace.py [--json out/cameras_pathtrace.json] [--reference out/reference.npz]

Denoisers are compared with an image of many samples. Errors are RMSE in linear light, before tone mapping, divided by
that of the image that is not denoised. Tracing the reference takes minutes to an hour.
"""

from __future__ import annotations

import argparse
import importlib.util
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import Report, interleave, ratio

import sensorium as sn

SIDE, SAMPLES, SEEDS = 224, 16, 4
HAS_OIDN = importlib.util.find_spec("pyoidn") is not None


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

    from sensorium.cameras.pathtrace.renderer import _using

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


def rmse(image: np.ndarray, truth: np.ndarray, where: np.ndarray | None = None) -> float:
    """In linear light."""
    square = (image.astype(np.float64) - truth) ** 2
    return float(np.sqrt((square if where is None else square[where]).mean()))


def silhouettes(shape: np.ndarray, depth: np.ndarray) -> np.ndarray:
    """Pixels at most 2 from where the shape changes, or the depth by more than 5%."""
    near = 1 / depth
    edge = np.zeros(shape.shape, bool)
    for axis in (0, 1):
        a, b = (tuple(cut if each == axis else slice(None) for each in (0, 1)) for cut in (slice(1, None), slice(-1)))
        change = (shape[a] != shape[b]) | (np.abs(near[a] - near[b]) > 0.05 * np.maximum(near[a], near[b]))
        edge[a] |= change
        edge[b] |= change
    wide = np.pad(edge, 1)
    height, width = edge.shape
    return np.any([wide[i : i + height, j : j + width] for i in range(3) for j in range(3)], axis=0)


def sight(camera: Any) -> tuple[Any, Any, Any]:
    """The tracer of a camera, its lens, and its Mitsuba variant, after a first frame."""
    from sensorium.cameras.pathtrace.renderer import _pose
    from sensorium.cameras.pathtrace.tracers import Lens

    camera.read()
    renderer, view = camera._block._renderer, camera.view
    pose: dict[str, Any] = {name: values[0] for name, values in _pose(view).items()}
    pose |= {name: float(pose[name]) for name in ("fx", "fy", "cx", "cy")}
    lens = Lens(view.width, view.height, near=view.near, far=view.far, aperture=0.0, focus=1e4, **pose)
    return renderer._tracer, lens, renderer._variant


def reference(tracer: Any, lens: Any, samples: int, path: Path | None) -> np.ndarray:
    """An image of many samples: from a file where there is one, else traced, and kept in the file."""
    if path is not None and path.exists():
        stored = np.load(path)
        print(f"  reference of {int(stored['samples'])} samples from {path}")
        return np.asarray(stored["light"])
    light = tracer.radiance(lens, samples, 12345)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, light=light, samples=samples)
    return np.asarray(light)


def denoisers(report: Report, samples: int, path: Path | None) -> None:
    """What the denoisers leave of the error, and how long the à-trous filter takes."""
    from sensorium.cameras.pathtrace.denoise import atrous, oidn
    from sensorium.cameras.pathtrace.renderer import _using

    gallery = runpy.run_path(str(Path(__file__).parent.parent / "docs/gallery/camera_pathtrace.py"))
    (camera,) = gallery["room"](gallery["photo"]("photo", samples=SAMPLES, resolution=(SIDE, SIDE), denoise="atrous"))
    tracer, lens, variant = sight(camera)
    with _using(variant):
        truth = reference(tracer, lens, samples, path)
        surfaces = tracer.surfaces(lens)
        edge = silhouettes(surfaces.shape, surfaces.depth)
        rows: dict[str, list[list[float]]] = {"atrous": []} | ({"oidn": []} if HAS_OIDN else {})
        for seed in range(SEEDS):
            noisy = tracer.radiance(lens, SAMPLES, seed)
            images = {"atrous": atrous(tracer, lens, SAMPLES, seed)}
            if HAS_OIDN:
                images["oidn"] = oidn(noisy, surfaces)
            for name, image in images.items():
                rows[name].append([rmse(image, truth, where) / rmse(noisy, truth, where) for where in (None, edge)])
                print(f"  seed {seed}, {name}: {rows[name][-1][0]:.3f}, at silhouettes {rows[name][-1][1]:.3f}")
        seeds = iter(range(1 << 30))
        contenders: dict[str, Callable[[], Any]] = {
            "trace": lambda: tracer.radiance(lens, SAMPLES, next(seeds)),
            "atrous": lambda: atrous(tracer, lens, SAMPLES, next(seeds)),
        }
        if HAS_OIDN:
            contenders["oidn"] = lambda: oidn(tracer.radiance(lens, SAMPLES, next(seeds)), tracer.surfaces(lens))
        times = interleave(contenders, rounds=3, calls=1)
    for name, ratios in rows.items():
        bounds = (0.5, 1.0, 1.0) if name == "atrous" else (None, None, None)
        every, edges = np.max(ratios, axis=0).tolist()
        report.add(f"error with {name} / without, the highest of {SEEDS} seeds", every, "x", bounds[0])
        report.add("  within 2 pixels of silhouettes", edges, "x", bounds[1])
        report.add("  time beyond tracing / tracing", ratio(times, name, "trace") - 1, "x", bounds[2])
    report.add(f"tracing the gallery's scene, {SAMPLES} samples", min(times["trace"]) * 1e3, "ms")


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--reference", type=Path, help="read the reference from here, or write it if there is no file")
    parser.add_argument("--reference-samples", type=int, default=4096)
    parser.add_argument("--only", choices=("frames", "denoisers"))
    arguments = parser.parse_args()
    report = Report("path tracer", ("mujoco", "mitsuba", "drjit", *(["pyoidn"] if HAS_OIDN else [])))
    if arguments.only != "denoisers":
        frames(report)
    if arguments.only != "frames":
        denoisers(report, arguments.reference_samples, arguments.reference)
    report.finish(arguments.json)


if __name__ == "__main__":
    main()
