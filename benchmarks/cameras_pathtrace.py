"""The path tracer compared with bare Mitsuba (same scene, same samples, without the first frame), and its denoisers.

.venv/bin/python benchmarks/cameras_pathtrace.py [--json out/cameras_pathtrace.json] [--reference out/reference.npz]

Denoisers are compared with a reference image of many samples. Errors are RMSE in linear light, before tone mapping,
divided by that of the image without denoising. Tracing the reference takes minutes to an hour.
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
    """Return a scene with a floor, on which 28 boxes and balls fall, lit by the sun and the sky."""
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
    """Return a function that renders the camera's current view with Mitsuba alone."""
    import mitsuba as mi

    from sensorium.cameras.pathtrace.renderer import _use_variant

    renderer = camera._render_pass._renderer
    tracer = renderer._scene.tracer
    with _use_variant(renderer._variant):
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
        with _use_variant(renderer._variant):
            image = mi.render(tracer._scene, sensor=sensor, integrator=tracer._integrator, spp=SAMPLES, seed=next(seed))
            return np.array(image)

    return render


def frames(report: Report) -> None:
    """Time frames of changing states: the update of the scene, tracing and tone mapping."""
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
    report.add("  step, scene update, tracing and tone mapping / bare", ratio(times, "ours", "bare"), "x", 1.3)
    report.add("  " + camera.renderer_choice.why, min(times["ours"]) * 1e3, "ms")


def rmse(image: np.ndarray, truth: np.ndarray, where: np.ndarray | None = None) -> float:
    """Return the root mean square error in linear light, optionally only where a mask is True."""
    square = (image.astype(np.float64) - truth) ** 2
    return float(np.sqrt((square if where is None else square[where]).mean()))


def silhouettes(shape: np.ndarray, depth: np.ndarray) -> np.ndarray:
    """Return a mask of the pixels within 2 pixels of a change of the shape, or of the depth by more than 5%."""
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


def viewpoint_of(camera: Any) -> tuple[Any, Any, Any]:
    """Return the tracer of a camera, its viewpoint, and its Mitsuba variant, after a first frame."""
    from sensorium.cameras.pathtrace.renderer import _host_arrays
    from sensorium.cameras.pathtrace.tracers import Viewpoint

    camera.read()
    renderer, view = camera._render_pass._renderer, camera.view
    pose: dict[str, Any] = {name: values[0] for name, values in _host_arrays(view).items()}
    pose |= {name: float(pose[name]) for name in ("fx", "fy", "cx", "cy")}
    viewpoint = Viewpoint(view.width, view.height, near=view.near, far=view.far, aperture=0.0, focus=1e4, **pose)
    return renderer._scene.tracer, viewpoint, renderer._variant


def reference(tracer: Any, viewpoint: Any, samples: int, path: Path | None) -> np.ndarray:
    """Return an image of many samples, from a file if it exists; otherwise trace it, and write the file."""
    if path is not None and path.exists():
        stored = np.load(path)
        print(f"  reference of {int(stored['samples'])} samples from {path}")
        return np.asarray(stored["light"])
    light = tracer.radiance(viewpoint, samples, 12345)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, light=light, samples=samples)
    return np.asarray(light)


def denoisers(report: Report, samples: int, path: Path | None) -> None:
    """Measure the error that the denoisers leave, and the time that they take."""
    from sensorium.cameras.pathtrace.denoise import denoise_oidn, trace_atrous
    from sensorium.cameras.pathtrace.renderer import _use_variant

    gallery = runpy.run_path(str(Path(__file__).parent.parent / "docs/gallery/camera_pathtrace.py"))
    (camera,) = gallery["room"](gallery["photo"]("photo", samples=SAMPLES, resolution=(SIDE, SIDE), denoise="atrous"))
    tracer, viewpoint, variant = viewpoint_of(camera)
    with _use_variant(variant):
        truth = reference(tracer, viewpoint, samples, path)
        hits = tracer.first_hits(viewpoint)
        edge = silhouettes(hits.shape, hits.depth)
        rows: dict[str, list[list[float]]] = {"atrous": []} | ({"oidn": []} if HAS_OIDN else {})
        for seed in range(SEEDS):
            noisy = tracer.radiance(viewpoint, SAMPLES, seed)
            images = {"atrous": trace_atrous(tracer, viewpoint, SAMPLES, seed)}
            if HAS_OIDN:
                images["oidn"] = denoise_oidn(noisy, hits)
            for name, image in images.items():
                rows[name].append([rmse(image, truth, where) / rmse(noisy, truth, where) for where in (None, edge)])
                print(f"  seed {seed}, {name}: {rows[name][-1][0]:.3f}, at silhouettes {rows[name][-1][1]:.3f}")
        seeds = iter(range(1 << 30))
        contenders: dict[str, Callable[[], Any]] = {
            "trace": lambda: tracer.radiance(viewpoint, SAMPLES, next(seeds)),
            "atrous": lambda: trace_atrous(tracer, viewpoint, SAMPLES, next(seeds)),
        }
        if HAS_OIDN:
            contenders["oidn"] = lambda: denoise_oidn(
                tracer.radiance(viewpoint, SAMPLES, next(seeds)), tracer.first_hits(viewpoint)
            )
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
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument(
        "--reference", type=Path, help="file of the reference: read it, or create it if it does not exist"
    )
    parser.add_argument("--reference-samples", type=int, default=4096, help="samples per pixel of the reference")
    parser.add_argument("--only", choices=("frames", "denoisers"), help="run only this part")
    arguments = parser.parse_args()
    report = Report("path tracer", ("mujoco", "mitsuba", "drjit", *(["pyoidn"] if HAS_OIDN else [])))
    if arguments.only != "denoisers":
        frames(report)
    if arguments.only != "frames":
        denoisers(report, arguments.reference_samples, arguments.reference)
    report.finish(arguments.json)


if __name__ == "__main__":
    main()
