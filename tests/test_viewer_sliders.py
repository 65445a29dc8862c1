"""The sliders of ``sensorium view robot.xml`` in a real browser: they move the robot that the page shows."""

import io
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from conftest import patiently
from matplotlib.image import imread

pytest.importorskip("viser")

ARM = """
<mujoco>
  <compiler angle="radian"/>
  <worldbody>
    <geom type="cylinder" size="0.08 0.25" pos="0 0 0.25" rgba="0.4 0.45 0.5 1"/>
    <body name="upper" pos="0 0 0.55">
      <joint name="shoulder" axis="0 1 0" range="-1.2 1.2" limited="true" damping="2" armature="0.1"/>
      <geom type="capsule" size="0.05" fromto="0 0 0 0.6 0 0" rgba="0.9 0.1 0.1 1"/>
    </body>
  </worldbody>
  <actuator><position name="servo" joint="shoulder" kp="40"/></actuator>
</mujoco>
"""


@pytest.fixture
def page(browser, tmp_path):
    """Yield the page of the command ``sensorium view arm.xml``, which runs in its own process."""
    model = tmp_path / "arm.xml"
    model.write_text(ARM)
    process = subprocess.Popen([sys.executable, "-m", "sensorium", "view", model], stdout=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().split()[-1]
        opened = browser.new_page(viewport={"width": 900, "height": 640})
        opened.set_default_timeout(120_000)
        opened.goto(address)
        opened.get_by_text("real time").first.wait_for()
        yield opened
        opened.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.stdout.close()


def arm_row(page):
    """Return the mean row of the red arm in the 3D view, from its top; NaN if it is not visible."""
    page.mouse.move(5, 5)
    picture = imread(io.BytesIO(page.locator("canvas").first.screenshot()))
    red = (picture[..., 0] > 0.4) & (picture[..., 0] > 2 * picture[..., 1:3].max(axis=2))
    return float(np.argwhere(red)[:, 0].mean()) if red.sum() > 50 else float("nan")


def settled(page):
    """Return the row of the arm when it no longer moves."""
    rows = [arm_row(page)]

    def stands():
        rows.append(arm_row(page))
        return abs(rows[-1] - rows[-2]) < 0.3

    assert patiently(page, stands)
    return rows[-1]


def keep(page, name):
    """Save a picture of the page if the variable SENSORIUM_PICTURES names a folder."""
    if folder := os.environ.get("SENSORIUM_PICTURES"):
        page.screenshot(path=f"{folder}/{name}.png")


@pytest.mark.slow
def test_sliders_move_the_robot_that_is_shown(page):
    assert patiently(page, lambda: np.isfinite(arm_row(page)))
    start = settled(page)
    keep(page, "sliders_start")
    thumbs = page.get_by_role("slider")
    servo = thumbs.last  # "Joints" is closed, so that the last slider is the one of the actuator
    servo.scroll_into_view_if_needed()
    servo.focus()
    servo.press("Home")  # -1.2 rad about y lifts the arm
    assert patiently(page, lambda: arm_row(page) < start - 30)
    raised = settled(page)
    keep(page, "sliders_servo")

    page.get_by_role("button", name="Pause", exact=True).click()
    assert patiently(page, lambda: page.get_by_text("paused").count() > 0)
    page.get_by_text("Joints", exact=True).click()
    assert patiently(page, lambda: thumbs.count() > 1)
    joint = thumbs.nth(thumbs.count() - 2)  # it follows the servo, against gravity
    assert patiently(page, lambda: float(joint.get_attribute("aria-valuenow")) < -0.8)
    joint.scroll_into_view_if_needed()
    joint.focus()
    joint.press("End")  # the joint itself, while the scene is paused
    assert patiently(page, lambda: arm_row(page) > start + 30 > raised)
    keep(page, "sliders_joint")
