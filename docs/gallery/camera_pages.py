"""Draw two pictures for each page of cameras: NAME_at_work.png, and NAME_plot.png, measured against true.

Names are camera_profiles, batch_renderer and pathtrace. The last one needs ``sensorium[photoreal]``.

.venv/bin/python docs/gallery/camera_pages.py [NAME ...]
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import numpy as np
import torch
from camera_pathtrace import BENCH, VIEW, photo, room
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from saving import save_figure
from sensor_pages import BLUE, GREEN, GROUND, RED, SAND, look

import sensorium as sn
from sensorium.cameras.imager import Imager, Intrinsics
from sensorium.cameras.plotting import camera_pictures

TRUE, MEASURED = "0.35", "C3"
SKY = ((0.35, 0.55, 0.85), (0.92, 0.94, 0.96))


def compose(snapshot: np.ndarray, images: Mapping[str, np.ndarray], columns: int, share: float) -> Figure:
    """Return a figure with a snapshot on the left and titled images in a grid on the right.

    Args:
        snapshot: the picture of the scene.
        images: title -> image; titles that start with "_" are not shown.
        columns: columns of the grid.
        share: width of the grid relative to that of the snapshot.
    """
    figure = Figure(figsize=(10, 10 / (1 + share) * snapshot.shape[0] / snapshot.shape[1]))
    left, rows = 1 / (1 + share), -(-len(images) // columns)
    titled = not all(title.startswith("_") for title in images)
    edges = {"left": left + 0.01, "right": 0.995, "bottom": 0.005, "top": 0.95 if titled else 0.995}
    grid = figure.add_gridspec(rows, columns, **edges, wspace=0.04, hspace=0.12 if titled else 0.04)
    places = [figure.add_axes((0, 0, left, 1)), *(figure.add_subplot(cell) for cell in grid)]
    for axes, (title, image) in zip(places, {"_scene": snapshot, **images}.items(), strict=True):
        axes.imshow(image, interpolation="antialiased")
        axes.set_axis_off()
        if not title.startswith("_"):
            axes.set_title(title, fontsize=9)
    return figure


def _add_lamps(scene: sn.Scene) -> None:
    """Add a sun and a weaker lamp from the other side."""
    scene.add_light("directional", pos=(0, 0, 3), direction=(0.4, 0.5, -1), intensity=0.7)
    scene.add_light("directional", pos=(0, 0, 3), direction=(-0.5, 0.6, -0.4), intensity=0.4, shadow=False)


def label(axes: Axes, title: str, x: str, y: str) -> None:
    """Give axes a title, labels and a legend."""
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x, fontsize=9)
    axes.set_ylabel(y, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=8)


# -- camera_profiles.md -----------------------------------------------------------------------------------------------

FAN = """
<mujoco><default><geom contype="0" conaffinity="0"/></default><worldbody>
  <geom type="cylinder" size="0.03 0.3" pos="0 0.08 0.3" rgba="0.3 0.32 0.36 1"/>
  <body name="rotor" pos="0 0 0.62"><joint name="spin" axis="0 1 0" damping="0.001"/>
    <geom type="cylinder" size="0.05 0.04" euler="90 0 0" rgba="0.3 0.32 0.36 1"/>
    <geom type="box" size="0.025 0.006 0.13" pos="0 0 0.17" rgba="0.85 0.5 0.2 1"/>
    <geom type="box" size="0.025 0.006 0.13" pos="0.147 0 -0.085" euler="0 120 0" rgba="0.85 0.5 0.2 1"/>
    <geom type="box" size="0.025 0.006 0.13" pos="-0.147 0 -0.085" euler="0 240 0" rgba="0.85 0.5 0.2 1"/>
  </body></worldbody></mujoco>
"""


def camera_profiles() -> None:
    """Draw a fan that an action camera looks at, and depth, noise and lens of measured images."""
    scene = sn.Scene(dt=0.002, sky=SKY)
    scene.add_object(GROUND, name="ground")
    scene.add_robot(FAN, name="fan")
    scene.add_object(sn.Box(size=(0.3, 0.3, 0.3), rgba=BLUE), name="box", pos=(-0.55, 0.2, 0.15))
    scene.add_object(sn.Cylinder(radius=0.09, height=0.5, rgba=GREEN), name="post", pos=(0.55, 0.25, 0.25))
    camera = scene.add_sensor(
        sn.Camera(pos=(0, -0.62, 0.58), lookat=(0, 0, 0.58), fov=85, profile="action", resolution=(320, 240),
                  quality="high", draw_debug=True)
    )  # fmt: skip
    _add_lamps(scene)
    scene.build(seed=1)
    scene["fan"].set_joint_velocities([40.0])
    scene.step(20)
    view = scene.snapshot(width=800, height=640, camera=look((0.05, -0.2, 0.45), 1.75, 55, -16))
    images = {"ground truth": camera.read_ground_truth().rgb[0], "measured, profile action": camera.read().rgb[0]}
    save_figure(
        compose(view, {name: image.numpy() for name, image in images.items()}, 1, 0.6), "camera_profiles_at_work"
    )
    scene.close()
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    depth, noise, lens = figure.subplots(1, 3)
    _draw_depth(depth)
    _draw_noise(noise)
    _draw_lens(lens)
    save_figure(figure, "camera_profiles_plot")


def _draw_depth(axes: Axes) -> None:
    """Draw the errors of an RGB-D camera over a floor, and the stereo equation."""
    scene = sn.Scene()
    scene.add_object(GROUND, name="ground")
    camera = scene.add_sensor(
        sn.Camera(
            pos=(0, 0, 0.6), lookat=(1.5, 0, 0), fov=55, resolution=(320, 240), outputs=("depth",), profile="rgbd"
        )
    )
    scene.build(seed=1)
    profile = sn.CameraProfile.named("rgbd")
    true, seen = camera.read_ground_truth().depth[0].numpy(), camera.read().depth[0].numpy()
    kept = (seen > 0) & (true < 6)
    true, error = true[kept], (seen - true)[kept]
    some = np.random.default_rng(0).choice(len(true), 8000, replace=False)
    axes.scatter(true[some], 1e3 * error[some], 4, color=MEASURED, linewidths=0, label="measured - true")
    z = np.linspace(true.min(), 6, 100)
    pixels = np.hypot(profile.disparity_noise, profile.disparity_step / np.sqrt(12))
    sigma = 1e3 * z**2 * pixels / (profile.disparity_focal_length * profile.baseline)
    axes.plot(z, 2 * sigma, color=TRUE, label="± 2σ of the stereo equation")
    axes.plot(z, -2 * sigma, color=TRUE)
    label(axes, "rgbd: error of the depth", "true depth, m", "error, mm")


def _draw_noise(axes: Axes) -> None:
    """Draw the variance of grey patches over their signal, and the photon-transfer law."""
    profile = sn.CameraProfile(full_well=8000, read_noise=6, iso=1600, bit_depth=12)
    scale = profile.full_well * 100 / profile.iso  # electrons of white
    intrinsics = Intrinsics(*(torch.tensor([value]) for value in (300.0, 300.0, 100.0, 100.0)))
    imager = Imager(profile, 200, 200, ("rgb",), intrinsics, 1, seed=0, uuid="eye", device="cpu")
    found = []
    for number, level in enumerate(range(40, 231, 10)):
        grey = torch.full((1, 200, 200, 3), level, dtype=torch.uint8)
        measured = torch.empty_like(grey)
        imager.apply({"rgb": grey}, {"rgb": measured}, draw=number)
        electrons = scale * _linear(measured.numpy())
        found.append((scale * _linear(np.array(level)), electrons.var()))
    signal, variance = np.array(found).T
    line = np.linspace(0, signal.max(), 50)
    axes.plot(line, line + profile.read_noise**2, color=TRUE, label="signal + read noise²")
    axes.plot(signal, variance, "o", color=MEASURED, ms=4, label="measured at ISO 1600")
    label(axes, "noise of grey patches", "true signal, electrons", "variance, electrons²")


def _linear(levels: np.ndarray) -> np.ndarray:
    """Decode sRGB levels of 255 to linear light in [0, 1]."""
    values = levels / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def _draw_lens(axes: Axes) -> None:
    """Draw an image of balls through a fisheye, and where a pinhole and the lens model put their centres."""
    scene = sn.Scene(sky=SKY)
    scene.add_object(sn.Box(size=(0.1, 12, 9), rgba=(0.95, 0.95, 0.95, 1)), name="wall", pos=(2, 0, 0))
    spots = np.array([(1.5, y, z) for y in np.linspace(-2.1, 2.1, 7) for z in np.linspace(-1.4, 1.4, 5)])
    for number, spot in enumerate(spots):
        scene.add_object(sn.Sphere(radius=0.1, rgba=BLUE), name=f"ball{number}", pos=spot)
    camera = scene.add_sensor(
        sn.Camera(lookat=(1, 0, 0), fov=85, resolution=(320, 240), outputs=("rgb", "instance"), profile="action",
                  quality="high")
    )  # fmt: skip
    scene.add_light("directional", direction=(1, 0.3, -0.6), intensity=0.8, shadow=False)
    scene.build(seed=1)
    profile, data, k = sn.CameraProfile.named("action"), camera.read(), camera.intrinsics[0].numpy()
    axes.imshow(data.rgb[0].numpy())
    flat = -spots[:, 1:] / spots[:, :1]  # x right, y down
    radius = np.linalg.norm(flat, axis=1, keepdims=True)
    angle = np.arctan(radius)
    bent = angle * (1 + profile.k1 * angle**2 + profile.k2 * angle**4 + profile.k3 * angle**6)
    ids = data.instance[0].numpy()
    errors = []
    for number, factor in enumerate(np.divide(bent, radius, out=np.ones_like(radius), where=radius > 0)):
        expected = k[[0, 1], [0, 1]] * flat[number] * factor + k[:2, 2]
        rows, columns = np.nonzero(ids == camera.instance_names.index(f"ball{number}"))
        inside = len(rows) and rows.min() > 0 and rows.max() < 239 and columns.min() > 0 and columns.max() < 319
        if inside:
            errors.append(np.linalg.norm([columns.mean() + 0.5, rows.mean() + 0.5] - expected))
        axes.plot(*(expected - 0.5), "+", color="k", ms=8, label=None if number else "lens model")
        straight = k[[0, 1], [0, 1]] * flat[number] + k[:2, 2] - 0.5
        axes.plot(*straight, "x", color=MEASURED, ms=4, label=None if number else "pinhole")
    axes.set(xlim=(-0.5, 319.5), ylim=(239.5, -0.5), xticks=[], yticks=[])
    axes.set_title(f"action: centres within {max(errors):.1f} px", fontsize=10)
    axes.legend(fontsize=8, loc="lower right")


# -- batch_renderer.md ------------------------------------------------------------------------------------------------


def still_life(n_envs: int) -> tuple[sn.Scene, sn.Module]:
    """Build shapes on a table, and a camera of the batch renderer."""
    scene = sn.Scene(sky=SKY)
    scene.add_object(GROUND, name="ground")
    scene.add_object(sn.Box(size=(0.9, 0.9, 0.3), rgba=SAND), name="table", pos=(0, 0, 0.15))
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), rgba=RED), name="box", pos=(0.2, 0.2, 0.401), free=True)
    scene.add_object(sn.Sphere(radius=0.11, rgba=GREEN), name="ball", pos=(-0.05, -0.25, 0.411), free=True)
    scene.add_object(sn.Cylinder(radius=0.06, height=0.36, rgba=BLUE), name="post", pos=(-0.25, 0.2, 0.48))
    _add_lamps(scene)
    camera = scene.add_sensor(
        sn.BatchRendererCamera(
            pos=(0.75, -0.65, 1.1), lookat=(0, 0.0, 0.32), resolution=(240, 180), fov=42, quality="high",
            outputs=("rgb", "depth", "normals"), draw_debug=True,
        )
    )  # fmt: skip
    scene.build(n_envs=n_envs, seed=2)
    return scene, camera


def batch_renderer() -> None:
    """Draw a camera of which twelve envs are rendered in one pass, and its images beside rays of the engine."""
    scene, camera = still_life(12)
    view = scene.snapshot(width=800, height=640, camera=look((0.25, -0.2, 0.46), 2.1, 60, -20))
    rng = np.random.default_rng(4)
    for name, spot in (("ball", (-0.05, -0.2, 0.411)), ("box", (0.2, 0.2, 0.401))):
        scene[name].set_pose(pos=spot + rng.uniform(-0.1, 0.1, (12, 3)) * (1, 1, 0))
    for name in ("table", "box", "ball", "post"):
        scene.set_color(name, rng.uniform(0.25, 0.9, (12, 3)))
    images = {f"_{env}": image.numpy() for env, image in enumerate(camera.read().rgb)}
    save_figure(compose(view, images, 3, 0.9), "batch_renderer_at_work", small=False)
    scene.close()
    scene, camera = still_life(1)
    data, truth = camera.read(), _traced(scene, camera)
    measured = {name: getattr(data, name)[0].numpy() for name in truth}
    figure = Figure(figsize=(10, 5.2), layout="constrained")
    for picture, axes in zip(camera_pictures(tuple(truth), measured, truth), figure.subplots(2, 3), strict=True):
        picture.draw(axes)
        axes[0].set_title(f"{picture.title}: rays of MuJoCo's engine, float64", fontsize="small")
        axes[1].set_title(f"{picture.title}: batch", fontsize="small")
    save_figure(figure, "batch_renderer_plot", dpi=90)


def _traced(scene: sn.Scene, camera: sn.Module) -> dict[str, np.ndarray]:
    """Return depth and normals of a camera by rays of the engine through the centres of its pixels."""
    width, height = camera.options.resolution
    k, pose = camera.intrinsics[0].double(), camera.cam2world_cv[0].double()
    right = (torch.arange(width).double() + 0.5 - k[0, 2]) / k[0, 0]
    down = (torch.arange(height).double() + 0.5 - k[1, 2]) / k[1, 1]
    y, x = torch.meshgrid(down, right, indexing="ij")
    directions = torch.stack([x, y, torch.ones_like(x)], -1).reshape(-1, 3) @ pose[:3, :3].T
    depth, _, normals = scene.world.rays(pose[:3, 3].expand_as(directions), directions, normal=True)
    turned = normals[0].double() @ pose[:3, :3]
    return {"depth": depth[0].reshape(height, width).numpy(), "normals": turned.reshape(height, width, 3).numpy()}


# -- camera_pathtrace.md ----------------------------------------------------------------------------------------------


def pathtrace() -> None:
    """Draw a path-traced camera in front of a bench, and its light and noise beside their laws."""
    scene = sn.Scene(sky=((0.42, 0.55, 0.75), (0.55, 0.52, 0.48)))
    scene.add_object(BENCH, name="bench")
    scene.add_light(type="area", pos=(1.3, -1.0, 2.2), lookat=(0, 0, 0.2), radius=0.35, color=(1, 0.93, 0.82))
    lens = sn.CameraProfile(focal_length=0.085, f_number=1.4, focus_distance=1.9)
    options = {**VIEW, "resolution": (320, 256), "environment_multiplier": 0.45, "denoise": "atrous"}
    sharp = scene.add_sensor(sn.RaytracerCamera(uuid="pinhole", samples=128, draw_debug=True, **options))
    wide = scene.add_sensor(sn.RaytracerCamera(uuid="aperture", samples=128, profile=lens, **options))
    scene.build()
    view = scene.snapshot(width=800, height=640, camera=look((0.75, -0.6, 0.5), 2.9, 100, -22))
    images = {"pinhole": sharp.read().rgb[0].numpy(), "85 mm, f/1.4, focus at 1.9 m": wide.read().rgb[0].numpy()}
    save_figure(compose(view, images, 1, 0.6), "pathtrace_at_work")
    scene.close()
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    light, noise = figure.subplots(1, 2)
    _draw_light(light)
    _draw_samples(noise)
    save_figure(figure, "pathtrace_plot")


def _draw_light(axes: Axes) -> None:
    """Draw the light of matte balls under a distant lamp over the angle of incidence, and Lambert's law."""
    scene = sn.Scene()
    for number, name in enumerate(("dark", "middle", "bright")):
        scene.add_object(_matte_ball(0.2 + 0.3 * number), name=name, pos=(0, number - 1, 0))
    scene.add_light("directional", direction=(-1, 0, -0.6), intensity=1.0)
    camera = scene.add_sensor(
        sn.RaytracerCamera(
            pos=(6, 0, 2), lookat=(0, 0, 0), fov=22, resolution=(300, 120), samples=64, tone_mapper="linear",
            bounces=1, environment_multiplier=0.0, outputs=("rgb", "normals", "instance"),
        )
    )  # fmt: skip
    scene.build()
    data = camera.read()
    towards = torch.tensor([1.0, 0, 0.6]) / 1.36**0.5 @ camera.cam2world_cv[0, :3, :3]
    cosines, light = (data.normals[0] @ towards).numpy(), _linear(data.rgb[0].numpy()).mean(-1)
    degrees = np.degrees(np.arccos(np.clip(cosines, -1, 1)))
    curve = np.linspace(0, 90, 91)
    for number, name in enumerate(("dark", "middle", "bright")):
        albedo, chosen = 0.2 + 0.3 * number, data.instance[0].numpy() == camera.instance_names.index(name)
        first = number == 0
        axes.scatter(degrees[chosen], light[chosen], 3, color=MEASURED, linewidths=0, label="pixels" if first else None)
        axes.plot(curve, albedo * np.cos(np.radians(curve)), color=TRUE, label="Lambert's law" if first else None)
        axes.text(2, albedo + 0.025, f"albedo {albedo:.1f}", fontsize=8)
    axes.set_ylim(0, 0.95)
    label(axes, "matte balls under a distant lamp", "true angle of incidence, °", "radiance")


def _matte_ball(albedo: float) -> str:
    """Return the model of a Lambertian ball that reflects a share of the light."""
    level = 1.055 * albedo ** (1 / 2.4) - 0.055
    return f"""<mujoco><asset><material name="matte" specular="0" rgba="{level} {level} {level} 1"/></asset>
      <worldbody><body name="ball"><geom type="sphere" size="0.4" material="matte"/></body></worldbody></mujoco>"""


def _draw_samples(axes: Axes) -> None:
    """Draw the error of images of the bench over the number of samples, without and with a denoiser."""
    counts = (4, 8, 16, 32, 64, 128)
    options = {"resolution": (160, 128), "tone_mapper": "linear"}
    cameras = [photo(f"{how} {n}", samples=n, denoise=how, **options) for how in (False, "atrous") for n in counts]
    *images, truth = (
        _linear(camera.read().rgb[0].numpy()) for camera in room(*cameras, photo("truth", samples=2048, **options))
    )
    errors = np.array([np.sqrt(np.mean((image - truth) ** 2)) for image in images]).reshape(2, -1)
    line = errors[0, -1] * np.sqrt(counts[-1] / np.array(counts))  # few samples err less: 8 bits clip bright paths
    axes.loglog(counts, line, color=TRUE, label="1 / √samples")
    axes.loglog(counts, errors[0], "o", color=MEASURED, ms=5, label="no denoiser")
    axes.loglog(counts, errors[1], "s", color="C0", ms=5, label="atrous")
    axes.set_xticks(counts, [str(n) for n in counts])
    axes.minorticks_off()
    label(axes, "error of images of the bench", "samples per pixel", "RMS difference from 2,048 samples")


PAGES = {each.__name__: each for each in (camera_profiles, batch_renderer, pathtrace)}

if __name__ == "__main__":
    for name in sys.argv[1:] or PAGES:
        PAGES[name]()
