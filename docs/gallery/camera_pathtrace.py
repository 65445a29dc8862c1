"""Draw the pictures of docs/camera_pathtrace.md: one scene by the rasterizer and by the path tracer, and denoised.

.venv/bin/python docs/gallery/camera_pathtrace.py
"""

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import sensorium as sn

PICTURES = Path(__file__).parent.parent / "pictures"
BENCH = """
<mujoco model="bench">
  <asset>
    <texture name="tiles" type="2d" builtin="checker" rgb1=".62 .58 .52" rgb2=".40 .37 .34" width="256" height="256"/>
    <material name="tiles" texture="tiles" texrepeat="3 3" texuniform="true" specular=".4" shininess=".6"/>
    <material name="plaster" rgba=".82 .80 .76 1" specular="0"/>
    <material name="orange" rgba=".93 .42 .08 1" specular=".6" shininess=".7"/>
    <material name="grey" rgba=".25 .27 .30 1" specular=".5" shininess=".5"/>
    <material name="steel" rgba=".85 .86 .88 1" metallic="1" roughness=".12"/>
    <material name="brass" rgba=".95 .84 .58 1" metallic="1" roughness=".3"/>
    <material name="teal" rgba=".05 .45 .48 1" specular=".7" shininess=".9"/>
    <material name="paper" rgba=".92 .90 .84 1" specular="0"/>
  </asset>
  <worldbody>
    <geom type="plane" size="4 4 .1" material="tiles"/>
    <geom type="box" size="4 .05 1.5" pos="0 1.1 1.5" material="plaster"/>
    <geom type="box" size=".05 4 1.5" pos="-1.4 0 1.5" material="plaster"/>
    <body name="arm" pos="-.25 .25 0">
      <geom type="cylinder" size=".16 .04" pos="0 0 .04" material="grey"/>
      <geom type="cylinder" size=".1 .09" pos="0 0 .16" material="orange"/>
      <body pos="0 0 .27" euler="0 -25 0">
        <geom type="sphere" size=".085" material="grey"/>
        <geom type="capsule" size=".055" fromto="0 0 0 0 0 .42" material="orange"/>
        <body pos="0 0 .42" euler="0 100 0">
          <geom type="sphere" size=".075" material="grey"/>
          <geom type="capsule" size=".045" fromto="0 0 0 0 0 .36" material="orange"/>
          <body pos="0 0 .40" euler="0 75 0">
            <geom type="cylinder" size=".05 .03" material="steel"/>
            <geom type="box" size=".012 .03 .06" pos=".035 0 .08" material="grey"/>
            <geom type="box" size=".012 .03 .06" pos="-.035 0 .08" material="grey"/>
          </body>
        </body>
      </body>
    </body>
    <geom type="sphere" size=".15" pos=".42 -.22 .15" material="steel"/>
    <geom type="sphere" size=".09" pos="-.12 -.42 .09" material="teal"/>
    <geom type="box" size=".11 .11 .11" pos=".12 .02 .11" euler="0 0 28" material="paper"/>
    <geom type="cylinder" size=".06 .1" pos=".72 .28 .1" material="brass"/>
    <geom type="ellipsoid" size=".12 .08 .05" pos=".25 -.6 .05" euler="0 0 40" material="orange"/>
  </worldbody>
</mujoco>
"""


VIEW: dict[str, Any] = {"pos": (1.65, -1.55, 0.95), "lookat": (0.05, -0.05, 0.27), "fov": 37}


def room(*cameras: sn.Camera) -> list[Any]:
    """Build the bench, lit by an area light and the sky, and return its cameras."""
    scene = sn.Scene(sky=((0.42, 0.55, 0.75), (0.55, 0.52, 0.48)))
    scene.add_object(BENCH, name="bench")
    scene.add_light(type="area", pos=(1.3, -1.0, 2.2), lookat=(0, 0, 0.2), radius=0.35, color=(1, 0.93, 0.82))
    sensors = [scene.add_sensor(camera) for camera in cameras]
    scene.build()
    return sensors


def photo(uuid: str, **options: Any) -> sn.RaytracerCamera:
    """Return the options of a path-traced camera."""
    return sn.RaytracerCamera(uuid=uuid, environment_multiplier=0.45, **(VIEW | options))


def photographs(samples: int = 256, size: tuple[int, int] = (400, 320)) -> list[np.ndarray]:
    """Return images of the bench by the rasterizer and by the path tracer."""
    raster = sn.RasterizerCamera(uuid="raster", quality="high", resolution=size, **VIEW)
    cameras = room(raster, photo("photo", samples=samples, denoise=True, resolution=size))
    return [camera.read().rgb[0].numpy() for camera in cameras]


def denoisers(samples: int = 16, reference: int = 256, size: tuple[int, int] = (224, 224)) -> list[np.ndarray]:
    """Return images of the bench with few samples, with each denoiser, and with many samples."""
    choices = ((samples, False), (samples, "atrous"), (samples, "oidn"), (reference, False))
    cameras = [photo(f"{n} {how}", samples=n, denoise=how, resolution=size) for n, how in choices]
    return [camera.read().rgb[0].numpy() for camera in room(*cameras)]


def save(images: list[np.ndarray], name: str) -> None:
    """Write images side by side to a file."""
    gap = np.full((images[0].shape[0], 6, 3), 255, np.uint8)
    row = [piece for image in images for piece in (image, gap)][:-1]
    picture = Image.fromarray(np.concatenate(row, 1))
    picture.quantize(256, dither=Image.Dither.FLOYDSTEINBERG).save(PICTURES / name, optimize=True)


def main() -> None:
    """Draw both pictures."""
    save(photographs(), "pathtrace.png")
    save(denoisers(), "pathtrace_denoise.png")


if __name__ == "__main__":
    main()
