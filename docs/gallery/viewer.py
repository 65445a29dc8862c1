"""Draw docs/pictures/viewer.png: a screenshot of the viewer in a headless Chromium, while a rover drives.

.venv/bin/python docs/gallery/viewer.py
"""

import io
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright

import sensorium as sn

PICTURES = Path(__file__).parent.parent / "pictures"
SOFTWARE_GL = ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-sandbox"]

ROVER = """
<mujoco><worldbody><body name="base" pos="0 0 0.112"><freejoint/>
  <geom type="box" size="0.18 0.12 0.04" mass="3" rgba="0.85 0.5 0.2 1"/>
  <geom type="cylinder" size="0.04 0.05" pos="0 0 0.09" mass="0.2" rgba="0.2 0.25 0.3 1"/>
  <geom type="box" size="0.02 0.06 0.02" pos="0.17 0 0.06" mass="0.1" rgba="0.2 0.25 0.3 1"/>
  <body name="left" pos="0 0.15 -0.03"><joint name="left" axis="0 1 0" damping="0.05"/>
    <geom type="cylinder" size="0.08 0.025" euler="90 0 0" mass="0.4" rgba="0.15 0.15 0.15 1"/></body>
  <body name="right" pos="0 -0.15 -0.03"><joint name="right" axis="0 1 0" damping="0.05"/>
    <geom type="cylinder" size="0.08 0.025" euler="90 0 0" mass="0.4" rgba="0.15 0.15 0.15 1"/></body>
  <geom type="sphere" size="0.04" pos="0.15 0 -0.07" mass="0.1" friction="0 0 0"/>
  <geom type="sphere" size="0.04" pos="-0.15 0 -0.07" mass="0.1" friction="0 0 0"/>
</body></worldbody>
<actuator><velocity joint="left" kv="0.6"/><velocity joint="right" kv="0.6"/></actuator></mujoco>"""


def yard() -> sn.Scene:
    """Return a scene with a rover with lidar, IMU and camera, between crates, drums and balls."""
    scene = sn.Scene(dt=0.01, substeps=5, sky=((0.35, 0.55, 0.85), (0.85, 0.88, 0.92)))
    scene.add_terrain(sn.Plane(), name="ground")
    colours = ((0.75, 0.28, 0.2, 1), (0.25, 0.5, 0.7, 1), (0.85, 0.68, 0.25, 1), (0.35, 0.6, 0.4, 1))
    rng = np.random.default_rng(5)
    for i in range(12):
        angle, away, size = i * 2 * np.pi / 12 + rng.uniform(0, 0.3), rng.uniform(1.0, 1.4), rng.uniform(0.16, 0.3)
        kind = (
            sn.Box(size=(size, size, size), rgba=colours[i % 4]),
            sn.Cylinder(radius=size / 2, height=size, rgba=colours[i % 4]),
            sn.Sphere(radius=size / 2, rgba=colours[i % 4]),
        )[i % 3]
        pos = (away * np.cos(angle), away * np.sin(angle), size / 2)
        scene.add_object(kind, name=f"thing{i}", pos=pos, euler=(0, 0, angle), free=i % 3 < 2)
    scene.add_robot(ROVER, name="rover")
    scene.add_sensor(sn.IMU(link="base", uuid="imu", acc_noise=0.15, gyro_noise=0.02, delay=0.05))
    pattern = sn.RingPattern(n_points=90)
    scene.add_sensor(
        sn.Lidar(link="base", uuid="lidar", pos=(0, 0, 0.12), exclude_self=True, pattern=pattern, draw_debug=True)
    )
    scene.add_sensor(
        sn.Camera(
            link="base",
            uuid="eye",
            pos=(0.2, 0, 0.06),
            lookat=(1.0, 0, 0.0),
            fov=60,
            resolution=(320, 200),
            quality="high",
        )
    )
    scene.add_light("directional", direction=(-0.4, 0.3, -1))
    for number in range(3):  # light from the sky, from all sides
        angle = number * 2 * np.pi / 3
        scene.add_light("directional", direction=(np.cos(angle), np.sin(angle), -0.6), intensity=0.35, shadow=False)
    scene.build(n_envs=4)
    return scene


def drive(scene: sn.Scene, viewer: Any) -> None:
    """Drive in circles until the viewer is closed."""
    while not viewer.closed:
        turn = 5.0 + 3.0 * np.sin(2.5 * float(scene.time[0]))
        scene.entities["rover"].set_ctrl([6.0 - turn, 6.0 + turn])
        scene.step()


def main() -> None:
    """Take the screenshot."""
    scene = yard()
    viewer = scene.view()
    viewer.set_speed(1.0)
    driver = threading.Thread(target=drive, args=(scene, viewer), daemon=True)
    driver.start()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=SOFTWARE_GL)
        page = chromium.new_page(viewport={"width": 1120, "height": 900})
        page.set_default_timeout(120_000)
        page.goto(viewer.address)
        page.get_by_text("real time").first.wait_for()
        page.get_by_role("combobox", name="Field").click()
        page.get_by_role("option", name="ang_vel").click()
        page.wait_for_timeout(15_000)  # until the page has faded in and the plot is filled
        notice = page.get_by_text("Software WebGL")
        if notice.count():
            notice.locator("xpath=ancestor::*[.//button][1]").locator("button").first.click()
        page.wait_for_timeout(1000)
        viewer.control.pause()
        page.wait_for_timeout(3000)
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        chromium.close()
    viewer.close()
    driver.join()
    scene.close()
    picture.quantize(200, method=Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE).save(
        PICTURES / "viewer.png", optimize=True
    )


if __name__ == "__main__":
    main()
