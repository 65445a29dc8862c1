"""Draw docs/pictures/camera_profiles.png: one scene through every named profile.

.venv/bin/python docs/gallery/camera_profiles.py
"""

import math
import os
from pathlib import Path

os.environ.setdefault("MUJOCO_GL", "egl")

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import mujoco
import numpy as np
import torch
from PIL import Image

from sensorium.cameras.imager import CameraProfile, Imager, Intrinsics, Margins

PICTURES = Path(__file__).parent.parent / "pictures"
WIDTH, HEIGHT = 320, 240

SCENE = """
<mujoco>
  <asset>
    <texture name="tiles" type="2d" builtin="checker" rgb1=".75 .72 .68" rgb2=".35 .4 .45" width="200" height="200"/>
    <material name="tiles" texture="tiles" texrepeat="10 10" reflectance=".1"/>
    <texture type="skybox" builtin="gradient" rgb1=".6 .75 .9" rgb2=".9 .95 1" width="64" height="64"/>
  </asset>
  <visual><global offwidth="2000" offheight="2000"/><headlight ambient=".35 .35 .35" diffuse=".4 .4 .4"/></visual>
  <worldbody>
    <light pos="-1 -2 4" dir=".2 .4 -1" diffuse=".7 .7 .7"/>
    <geom type="plane" size="4 4 .1" material="tiles"/>
    <geom type="box" size="4 .05 1.5" pos="0 2.6 1.5" rgba=".8 .78 .74 1"/>
    <geom type="box" size=".25 .25 .35" pos="-.55 .7 .35" euler="0 0 25" rgba=".85 .3 .2 1"/>
    <geom type="sphere" size=".28" pos=".35 .35 .28" rgba=".2 .45 .8 1"/>
    <geom type="cylinder" size=".04 .7" pos=".95 1 .7" rgba=".95 .8 .2 1"/>
    <geom type="capsule" fromto="-1.3 1.6 .15 -.9 1.6 1.1" size=".12" rgba=".3 .65 .35 1"/>
  </worldbody>
</mujoco>
"""


def render(fov: float, margins: Margins) -> tuple[torch.Tensor, torch.Tensor, Intrinsics]:
    """Return colour and depth of the scene with overscan margins, and the intrinsics of the image without them."""
    focal = HEIGHT / 2 / math.tan(math.radians(fov) / 2)
    above = max(margins)  # MuJoCo's camera is symmetric, so render equal margins and crop
    spec = mujoco.MjSpec.from_string(SCENE)
    tall = HEIGHT + 2 * above
    camera = spec.worldbody.add_camera(pos=(0, -1.7, 1.0), fovy=2 * math.degrees(math.atan(tall / 2 / focal)))
    camera.quat = (math.cos(math.radians(38)), math.sin(math.radians(38)), 0, 0)
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    rows = slice(above - margins.top, above + HEIGHT + margins.bottom)
    columns = slice(above - margins.left, above + WIDTH + margins.right)
    with mujoco.Renderer(model, tall, WIDTH + 2 * above) as renderer:
        renderer.update_scene(data, 0)
        color = renderer.render()[rows, columns].copy()
        renderer.enable_depth_rendering()
        depth = renderer.render()[rows, columns].copy()
    values = (torch.tensor([value]) for value in (focal, focal, WIDTH / 2, HEIGHT / 2))
    return torch.from_numpy(color)[None], torch.from_numpy(depth)[None], Intrinsics(*values)


def photograph(profile: CameraProfile, fov: float) -> tuple[np.ndarray, np.ndarray]:
    """Return measured colour and depth."""
    _, _, intrinsics = render(fov, Margins(0, 0, 0, 0))
    margins = profile.overscan(intrinsics, (WIDTH, HEIGHT))
    color, depth, _ = render(fov, margins)
    size = (1, HEIGHT, WIDTH)
    out = {"rgb": torch.zeros(*size, 3, dtype=torch.uint8), "depth": torch.zeros(size)}
    imager = Imager(profile, WIDTH, HEIGHT, tuple(out), intrinsics, 1, 0, "camera", "cpu", margins)
    imager.apply({"rgb": color, "depth": depth}, out, 0)
    return out["rgb"][0].numpy(), out["depth"][0].numpy()


def profiles() -> None:
    """Draw images without a profile and with each profile, and below them depth and details."""
    clean, depth = photograph(CameraProfile(), 58)
    rgbd, ranged = photograph(CameraProfile.named("rgbd"), 58)
    action, _ = photograph(CameraProfile.named("action"), 85)
    machine, _ = photograph(CameraProfile.named("machine_vision"), 58)
    figure, axes = plt.subplots(2, 4, figsize=(9.2, 3.8), layout="constrained")
    detail = (slice(110, 170), slice(170, 250))
    shown = [
        ("no profile", clean),
        ("rgbd", rgbd),
        ("action (fov 85°)", action),
        ("machine_vision", machine),
        ("depth, no profile", depth),
        ("depth, rgbd", np.where(ranged > 0, ranged, np.nan)),
        ("action, detail", action[detail]),
        ("machine_vision, detail", machine[detail]),
    ]
    for axis, (title, image) in zip(axes.flat, shown, strict=True):
        if image.ndim == 2:
            axis.set_facecolor("black")
            axis.imshow(image, cmap="viridis", vmin=1, vmax=4.5, interpolation="nearest")
        else:
            axis.imshow(image, interpolation="nearest")
        axis.set_title(title, fontsize=9)
        axis.set_xticks([])
        axis.set_yticks([])
    path = PICTURES / "camera_profiles.png"
    figure.savefig(path, dpi=90)
    plt.close(figure)
    # fewer colours, because noise does not compress
    Image.open(path).convert("RGB").quantize(200, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    profiles()
