"""The live viewer in a real browser."""

import io
import threading

import numpy as np
import pytest
from conftest import patiently
from matplotlib.image import imread

import sensorium as sn
from sensorium.cameras import Camera


@pytest.fixture(scope="module")
def shown(browser):
    """A page with a scene that runs in real time: a red box falls repeatedly in front of a camera."""
    scene = sn.Scene(dt=0.01, substeps=2)
    scene.add_object(sn.Plane())
    red = sn.Box(size=(0.3, 0.3, 0.3), rgba=(0.9, 0.1, 0.1, 1.0))
    scene.add_object(red, name="box", pos=(0, 0, 0.8), free=True)
    scene.add_sensor(sn.FramePose(link="box", uuid="pose"))
    camera = scene.add_sensor(Camera(pos=(1.5, 0, 0.5), lookat=(0, 0, 0.4), resolution=(64, 48), uuid="eye"))
    scene.build()
    try:
        camera.read()
    except sn.DeviceError as error:
        pytest.skip(str(error))
    viewer = scene.view()
    thread = threading.Thread(target=viewer.run)
    thread.start()
    page = browser.new_page(viewport={"width": 640, "height": 480})  # small: rendered in software on few cores
    page.set_default_timeout(120_000)
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(viewer.address)
    page.get_by_text("real time").first.wait_for()
    yield scene, viewer, page
    page.close()
    viewer.close()
    thread.join(10)
    scene.close()
    assert not errors


def red_pixels(page):
    """Return which pixels of the 3D view are red, (H, W)."""
    page.mouse.move(5, 5)
    picture = imread(io.BytesIO(page.locator("canvas").first.screenshot()))
    return (picture[..., 0] > 0.4) & (picture[..., 0] > 2 * picture[..., 1:3].max(axis=2))


def shown_time(page):
    return float(page.locator("b", has_text=" s").first.inner_text().split()[0])


def press(page, name):
    page.get_by_role("button", name=name, exact=True).click()


@pytest.mark.slow
def test_scene_is_drawn_and_moves(shown):
    scene, _, page = shown
    assert patiently(page, lambda: red_pixels(page).sum() > 100)
    press(page, "Reset")
    press(page, "Pause")
    press(page, "Reset")
    assert patiently(page, lambda: shown_time(page) == 0)
    page.wait_for_timeout(1500)
    high = np.argwhere(red_pixels(page))[:, 0].mean()
    press(page, "Run")
    assert patiently(page, lambda: scene.time[0] > 1.0)
    page.wait_for_timeout(1500)
    low = np.argwhere(red_pixels(page))[:, 0].mean()
    assert low > high + 15  # row numbers increase downwards


@pytest.mark.slow
def test_camera_images_equal_the_camera(shown):
    scene, _, page = shown
    press(page, "Pause")
    page.wait_for_timeout(1000)
    script = """image => {
        const canvas = document.createElement('canvas');
        canvas.width = image.naturalWidth; canvas.height = image.naturalHeight;
        const pen = canvas.getContext('2d'); pen.drawImage(image, 0, 0);
        return [canvas.width, canvas.height, Array.from(pen.getImageData(0, 0, canvas.width, canvas.height).data)];
    }"""
    picture = page.locator("img[src^='blob:']").first
    picture.scroll_into_view_if_needed()
    assert picture.is_visible()
    width, height, data = picture.evaluate(script)
    assert (width, height) == (64, 48)
    image = np.array(data).reshape(48, 64, 4)[..., :3]
    expected = scene["eye"].read().rgb[0].numpy().astype(int)
    assert expected.std() > 10
    assert np.abs(image - expected).mean() < 8  # of 255; JPEG is lossy
    press(page, "Run")


@pytest.mark.slow
def test_plots_update_over_time(shown):
    _, viewer, page = shown
    press(page, "Run")
    press(page, "Reset")
    script = "canvas => canvas.toDataURL()"
    canvas = page.locator(".uplot canvas").first
    first = canvas.evaluate(script)
    assert patiently(page, lambda: canvas.evaluate(script) != first)
    page.get_by_role("combobox", name="Field").click()
    page.get_by_role("option", name="quat").click()
    assert patiently(page, lambda: viewer._history.field == "quat")
    assert patiently(page, lambda: len(viewer._plot.data) == 1 + 2 * 4)  # time; four numbers, measured and true
    press(page, "Pause")
    page.wait_for_timeout(1000)
    still = canvas.evaluate(script)
    page.wait_for_timeout(1000)
    assert canvas.evaluate(script) == still


def test_pause_stops_time_and_step_makes_one_step(shown):
    scene, viewer, page = shown
    press(page, "Pause")
    assert patiently(page, lambda: viewer.control.paused)
    page.wait_for_timeout(1000)
    stood = float(scene.time[0])
    page.wait_for_timeout(500)
    assert scene.time[0] == stood
    assert patiently(page, lambda: shown_time(page) == pytest.approx(stood, abs=6e-4))
    assert page.get_by_text("paused").count()
    press(page, "Step")
    assert patiently(page, lambda: scene.time[0] > stood)
    page.wait_for_timeout(500)
    assert float(scene.time[0]) == pytest.approx(stood + scene.dt)
    assert patiently(page, lambda: shown_time(page) == pytest.approx(stood + scene.dt, abs=6e-4))
    press(page, "Run")
    assert patiently(page, lambda: scene.time[0] > stood + 0.2)
