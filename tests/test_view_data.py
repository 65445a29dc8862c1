"""The page of recorded data: it shows the recorded states, from Python and in a real browser.

One long file, because the tests share a generated dataset and a recording.
"""

import io
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import h5py
import numpy as np
import pytest
import torch
from conftest import patiently
from matplotlib.image import imread

import sensorium as sn
from sensorium.cli import main
from sensorium.errors import DatasetError, DeviceError, GenerationError, OptionError
from sensorium.generation import GenerateOptions, generate
from sensorium.viewer.data_opening import open_source
from sensorium.viewer.data_plots import _marked, _picture, _with_mark
from sensorium.viewer.data_source import Series, Texts

STEPS = 60


@pytest.fixture(scope="module")
def episodes(tmp_path_factory):
    """Two episodes of a task with a camera and randomised colours."""
    folder = tmp_path_factory.mktemp("data") / "pick"
    cameras = sn.tasks.camera_views(["front"], (64, 48), depth=True)
    options = {"cameras": cameras, "randomize": {"colors": 0.5}}
    try:
        generate(GenerateOptions(task="pick", episodes=2, envs=2, options=options), folder)
    except DeviceError as error:
        pytest.skip(str(error))
    return folder


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """A red box that falls in env 0 and is thrown up in env 1, with a noisy IMU and a lidar of 40 rays."""
    folder = tmp_path_factory.mktemp("data") / "run"
    scene = sn.Scene(dt=0.01, substeps=2)
    scene.add_object(sn.Plane())
    red = sn.Box(size=(0.3, 0.3, 0.3), rgba=(0.9, 0.1, 0.1, 1.0))
    box = scene.add_object(red, name="box", pos=(0, 0, 2.5), free=True)
    scene.add_sensor(sn.IMU(link="box", uuid="imu", acc_noise=0.3))
    scene.add_sensor(sn.Lidar(link="box", uuid="lidar", pattern=sn.RingPattern(n_points=40), exclude_self=True))
    scene.build(n_envs=2, seed=1)
    colours = scene.world.expand("geom_rgba")
    velocity = scene.world.bind("qvel")
    velocity[1, 2] = 3.0
    scene.forward()
    with sn.recording.Recorder(scene, folder) as recorder:
        for step in range(STEPS):
            scene.step()
            if step == 30:
                colours[1, scene.model.geom("box").id, :3] = torch.tensor([0.1, 0.1, 0.9]).to(colours)
            recorder.step()
    heights = box.get_pose()[0][:, 2]
    assert heights[1] > heights[0] + 1
    scene.close()
    return folder


# -- sources of a page ------------------------------------------------------------------------------------------------


def differences(source, episode, step):
    """Yield the differences between the poses in the scene and in the file, in metres or 1."""
    source.pose(step)
    for name, entity in source.scene.entities.items():
        if f"env_states/actors/{name}" in episode.paths():
            pos, quat = entity.get_pose()
            recorded = episode[f"env_states/actors/{name}"][step]
            yield np.abs(pos[source.env].numpy() - recorded[:3]).max()
            yield np.abs(quat[source.env].numpy() - recorded[3:7]).max()
        if entity.joint_names:
            recorded = episode[f"env_states/articulations/{name}"][step, : len(entity.joint_names)]
            yield np.abs(entity.get_joint_positions()[source.env].numpy() - recorded).max()


def test_posed_scene_matches_the_recorded_images(episodes):
    """The scene in the recorded poses, seen by its camera, gives the recorded image at any step, in any order."""
    data, source = sn.datasets.open(episodes), open_source(episodes)
    assert source.keys == data.numbers == [0, 1]
    for number in (1, 0):
        source.choose(number)
        episode, video = data[number], data[number].video("front")
        assert source.n_steps == len(video) == episode.length + 1
        for step in (episode.length, 3, episode.length // 2, 4, 5):
            assert max(differences(source, episode, step)) < 1e-5
            seen = source.scene["front"].read().rgb[source.env].numpy().astype(int)
            assert np.abs(seen - video[step]).mean() < 6  # of 255; H.264 is lossy
            np.testing.assert_array_equal(source.image("front", step), video[step])
            np.testing.assert_array_equal(source.image("front_depth", step), data[number].video("front_depth")[step])
        moved = np.abs(video[0].astype(int) - video[-1]).mean()
        assert moved > 3
    source.close()


@pytest.mark.parametrize(
    ("task", "robot"),
    [("opening", "franka"), ("nav_to_obj", "mobile_franka"), ("multi", "franka"), ("door_opening", "")],
)
def test_poses_of_every_task_match_the_file(task, robot, tmp_path):
    """Cabinets, doors, rooms, and each task of several. The episodes were cut short, so they are labelled as failed."""
    robot = robot or sn.tasks.default_robot(task)
    options = GenerateOptions(
        task=task, robot=robot, envs=2, episodes=1, max_attempts=4, keep_failed=True, options={"max_steps": 4}
    )
    with pytest.raises(GenerationError):
        generate(options, tmp_path / "cut")
    source = open_source(tmp_path / "cut")
    for number in (3, 0, 1):
        source.choose(number)
        (path,) = (tmp_path / "cut" / "failed").glob(f"episode_*{number}.h5")
        assert max(differences(source, sn.datasets.Episode(path), 3)) < 1e-5
        assert source.label(number).startswith(f"{number} · failure · 4 steps · ")
    source.close()


def test_arrays_over_time(episodes):
    source, episode = open_source(episodes), sn.datasets.open(episodes)[0]
    joints = source.series("obs/agent/qpos")
    np.testing.assert_array_equal(joints.measured.astype(np.float32), episode["obs/agent/qpos"])
    assert list(joints.labels[:2]) == ["joint1", "joint2"]
    np.testing.assert_allclose(joints.times, 0.02 * np.arange(len(episode) + 1))
    reward = source.series("rewards")
    assert reward.times[0] == pytest.approx(0.02)  # at the end of the first step
    assert reward.measured[-1] == episode["rewards"][-1] == 1
    assert source.series("actions/action").times[0] == 0
    commands = source.series("actions/joint_pos")  # text with numbers only
    assert commands.measured[5].tolist() == pytest.approx(
        [number for part in episode.text("actions/joint_pos")[5].values() for number in part]
    )
    assert commands.labels[0] == "arm 0"
    phase = source.series("obs/extra/policy_phase")
    assert isinstance(phase, Texts)
    assert json.loads(phase.entries[3]) == episode.text("policy_phase")[3]
    for name in source.names:  # all arrays can be plotted
        assert len(source.series(name)[0]) in (episode.length, episode.length + 1)
    source.close()


def test_recording_is_posed_in_its_states(recording):
    data, source = sn.datasets.open(recording), open_source(recording)
    assert (source.keys, source.n_steps, source.dt) == ([0, 1], STEPS, 0.01)
    geom = source.scene.model.geom("box").id
    for env, step in ((1, 45), (0, 10), (1, 12)):
        source.choose(env)
        source.pose(step)
        position = source.scene["box"].get_pose()[0][env]
        np.testing.assert_array_equal(position, data.column("box.position", range(step, step + 1))[0, env])
        colour = source.scene.world.expanded["geom_rgba"][env, geom, :3].tolist()
        assert colour == pytest.approx([0.1, 0.1, 0.9] if step > 30 else [0.9, 0.1, 0.1], abs=1e-6)
    acceleration = source.series("imu lin_acc")
    np.testing.assert_array_equal(acceleration.measured, data.column("imu.measured")[:, 1, :3])
    np.testing.assert_array_equal(acceleration.truth, data.column("imu.ground_truth")[:, 1, :3])
    assert 0.1 < np.std(acceleration.measured - acceleration.truth) < 0.6
    assert source.series("box.position").truth is None
    assert source.series("lidar distances").measured.shape == (STEPS, 40)
    source.close()


def test_mark_is_at_the_current_time(recording):
    times = 0.1 * np.arange(11)
    values = np.column_stack([np.sin(times), np.full(11, np.inf)])
    for now in (0.0, 0.4, 0.43, 1.0):
        marked_times, _, broken, mark = _marked(Series(times, values, None, ("a", "b")), (-1.0, 2.0), now)
        (peak,) = np.flatnonzero(mark > 2.0)
        assert marked_times[peak] == marked_times[peak - 1] == marked_times[peak + 1] == now
        assert (np.delete(mark, peak) < -1.0).all()  # below the visible range
        assert (np.diff(marked_times) >= 0).all()
        assert np.isnan(broken).all()
    many = Series(times, np.tile(times[:, None], (1, 40)), None, ())
    picture = _picture(many, 0.0, 1.0)
    assert picture[:, -1].sum() > picture[:, 0].sum() + 1000  # viridis gets lighter
    changed = (_with_mark(picture, times, 0.5) != picture).any(axis=(0, 2))
    assert np.flatnonzero(changed).mean() == pytest.approx(picture.shape[1] / 2, abs=2)


# -- the page, from Python --------------------------------------------------------------------------------------------


def test_show_goes_to_a_step(episodes, capsys):
    episode = sn.datasets.open(episodes)[1]
    with sn.datasets.view(episodes) as page:
        assert page.address in capsys.readouterr().out
        assert (page.episode, page.step) == (0, 0)
        page.show(1, -1, array="obs/extra/tcp_pose")
        assert (page.episode, page.step, page.n_steps) == (1, episode.length, episode.length + 1)
        robot = episode["obs/extra/tcp_pose"][-1]
        assert f"<b>{robot[0]:.4g}</b>" in page._panel.plot._legend.content
        assert page._panel._images["front"].image.shape == (48, 64, 3)
        for wrong, message in (
            ({"episode": 7}, "has no episode 7; it has '0', '1'"),
            ({"episode": 0, "step": 100_000}, "step must be an integer in"),
            ({"episode": 0, "array": "obs/agent/qpo"}, "did you mean 'obs/agent/qpos'"),
        ):
            with pytest.raises(OptionError, match=message):
                page.show(**wrong)
            assert (page.episode, page.step) == (1, episode.length)
        assert not page.closed
    assert page.closed
    page.close()


def test_damaged_files_are_reported_on_the_page(episodes, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(episodes, copy)
    (copy / "episode_000001_front.mp4").write_bytes(b"nothing")
    with h5py.File(copy / "episode_000000.h5", "r+") as file:
        del file["traj_0/rewards"]
    source = None
    with pytest.raises(DatasetError, match=r"cannot read .*episode_000000.h5"):
        source = open_source(copy)
    assert source is None
    shutil.copy(episodes / "episode_000000.h5", copy)
    with sn.datasets.view(copy) as page:
        page.control.ask("number", 1)
        for _ in range(200):
            if "cannot read step 0" in page._panel._status.content:
                break
            time.sleep(0.05)
        assert "cannot read step 0 of" in page._panel._status.content
        assert "episode_000001_front.mp4" in page._panel._status.content
        page.show(0, 2)
        assert "cannot read" not in page._panel._status.content


def test_view_errors(recording, tmp_path, capsys, monkeypatch):
    with pytest.raises(DatasetError, match="does not exist"):
        sn.datasets.view(tmp_path / "none")
    with pytest.raises(DatasetError, match=r"neither a dataset.*nor a recording.*it contains '.*run'"):
        sn.datasets.view(recording.parent)
    with pytest.raises(GenerationError):
        generate(GenerateOptions(task="pick", max_attempts=1, envs=1, options={"max_steps": 1}), tmp_path / "empty")
    with pytest.raises(DatasetError, match="has no episodes; generate"):
        sn.datasets.view(tmp_path / "empty")
    assert main(["view", str(recording), "--native"]) == 2
    assert "--native is for models" in capsys.readouterr().err
    assert main(["view", str(tmp_path / "none")]) == 2
    assert "does not exist" in capsys.readouterr().err
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OptionError, match="cannot be used"):
            sn.datasets.view(recording, port=taken.getsockname()[1])
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(DeviceError, match=r"pip install 'sensorium\[view\]'"):
        sn.datasets.view(recording)


@pytest.mark.slow
def test_view_command_shows_a_recording(recording):
    code = "import sys; from sensorium.cli import main; sys.exit(main(['view', sys.argv[1]]))"
    process = subprocess.Popen([sys.executable, "-c", code, recording], stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        assert f"the recording {recording} is shown at" in line
        with urllib.request.urlopen(line.split()[-1], timeout=20) as page:
            assert b"<html" in page.read().lower()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    finally:
        process.kill()
        process.stdout.close()


def test_many_episodes_are_listed_in_parts(recording, monkeypatch):
    monkeypatch.setattr("sensorium.viewer.data_panel.LISTED", 1)
    with sn.datasets.view(recording) as page:
        assert tuple(page._panel._choice.options) == ("0",)
        page.show(1)
        assert tuple(page._panel._choice.options) == ("1",)
        assert page._panel._number.value == 1


# -- in a real browser ------------------------------------------------------------------------------------------------


@pytest.fixture
def opened(browser):
    """A function that opens a folder and returns the viewer and its page; fails if the browser logs errors."""
    held, errors = [], []

    def note(message):
        if message.type == "error" and "blob:" not in message.location["url"]:  # images that were replaced
            errors.append(message.text)

    def open_folder(folder):
        viewer = sn.datasets.view(folder)
        page = browser.new_page(viewport={"width": 560, "height": 400})  # small: rendered in software on few cores
        held.append((viewer, page))
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", note)
        page.goto(viewer.address)
        page.get_by_text("step 0 of").first.wait_for()
        return viewer, page

    yield open_folder
    for viewer, page in held:
        page.close()
        viewer.close()
    assert not errors


def seen(page):
    """Return the 3D view, (H, W, 3)."""
    page.mouse.move(5, 5)
    return imread(io.BytesIO(page.locator("canvas").first.screenshot()))[..., :3]


def settled(page):
    """Return the 3D view when it no longer changes."""
    last = [seen(page)]

    def same():
        last.append(seen(page))
        return np.array_equal(last[-1], last[-2])

    assert patiently(page, same)
    return last[-1]


def red_rows(page):
    """Return the rows of red pixels in the 3D view."""
    picture = seen(page)
    return np.argwhere((picture[..., 0] > 0.4) & (picture[..., 0] > 2 * picture[..., 1:3].max(axis=2)))[:, 0]


def plotted(page):
    """Return the data of the plot in the browser: times, columns, mark; None if there is no plot."""
    return page.evaluate(
        "() => { const all = Object.values(window.__viserTestpoints?.uplots ?? {});"
        " return all.length ? Array.from(all[0].chart.data, one => Array.from(one)) : null; }"
    )


def mark_of(page):
    """Return the time of the mark in seconds."""
    data = plotted(page)
    return None if data is None else data[0][int(np.argmax(data[-1]))]


def choose(page, name, option):
    page.get_by_role("combobox", name=name).click()
    page.get_by_role("option", name=option).click()


@pytest.mark.slow
def test_choose_and_step_through_an_episode(episodes, opened):
    second = sn.datasets.open(episodes)[1]
    viewer, page = opened(episodes)
    assert page.get_by_text("success").count() >= 1
    assert patiently(page, lambda: plotted(page) is not None)
    assert len(plotted(page)) == 1 + 9 + 1
    choose(page, "Episode", second.scene["instruction"])
    assert patiently(page, lambda: page.get_by_text(f"step 0 of {len(second)}").count() == 1)
    assert viewer.episode == 1
    assert patiently(page, lambda: np.allclose(plotted(page)[1][-1], second["obs/agent/qpos"][-1, 0]))

    script = """image => {
        const canvas = document.createElement('canvas');
        canvas.width = image.naturalWidth; canvas.height = image.naturalHeight;
        const pen = canvas.getContext('2d'); pen.drawImage(image, 0, 0);
        return Array.from(pen.getImageData(0, 0, canvas.width, canvas.height).data);
    }"""
    picture = page.locator("img[src^='blob:']").first
    video = second.video("front")

    def off(step):
        data = np.array(picture.evaluate(script), int)
        return np.abs(data.reshape(48, 64, 4)[..., :3] - video[step]).mean() if data.size == 48 * 64 * 4 else 255

    assert patiently(page, lambda: off(0) < 6)
    before = settled(page)
    slider = page.get_by_role("slider").first
    slider.focus()
    for _ in range(3):
        slider.press("ArrowRight")
    assert patiently(page, lambda: page.get_by_text(f"step 3 of {len(second)}").count() == 1)
    assert patiently(page, lambda: mark_of(page) == pytest.approx(3 * 0.02))

    track = slider.locator("xpath=ancestor::*[contains(@class, 'Slider-track')][1]").bounding_box()
    middle = track["y"] + track["height"] / 2
    page.mouse.move(track["x"] + 2, middle)
    page.mouse.down()
    page.mouse.move(track["x"] + track["width"] / 3, middle, steps=3)
    page.mouse.move(track["x"] + track["width"] + 2, middle, steps=3)
    page.mouse.up()
    assert patiently(page, lambda: viewer.step == len(second))
    assert patiently(page, lambda: mark_of(page) == pytest.approx(len(second) * 0.02))
    assert patiently(page, lambda: off(len(second)) < 6)
    assert patiently(page, lambda: (np.abs(seen(page) - before).max(axis=2) > 0.2).sum() > 60)
    shown = second["obs/agent/qpos"][-1, 1]
    assert patiently(page, lambda: page.get_by_text(f"{shown:.4g}", exact=True).count() >= 1)


@pytest.mark.slow
def test_play_a_recording(recording, opened):
    viewer, page = opened(recording)
    assert patiently(page, lambda: len(red_rows(page)) > 30)
    settled(page)
    high = red_rows(page).mean()
    assert patiently(page, lambda: plotted(page) is not None)
    assert len(plotted(page)) == 1 + 2 * 3 + 1  # accelerations, measured and true
    assert page.get_by_text("ground truth").count() == 1
    page.get_by_role("button", name="Play", exact=True).click()
    assert patiently(page, lambda: viewer.step == STEPS - 1)
    assert viewer.control.paused
    assert patiently(page, lambda: mark_of(page) == pytest.approx(0.01 * (STEPS - 1)))
    assert patiently(page, lambda: len(red_rows(page)) and red_rows(page).mean() > high + 15)  # it fell

    choose(page, "Array", "lidar distances")
    picture = page.locator("img[src^='blob:']").first
    picture.wait_for()
    source = picture.get_attribute("src")
    page.get_by_role("button", name="Back", exact=True).click()
    assert patiently(page, lambda: viewer.step == STEPS - 2)
    assert patiently(page, lambda: picture.get_attribute("src") != source)  # the mark has moved
    choose(page, "Env", "1")
    assert patiently(page, lambda: page.get_by_text(f"step 0 of {STEPS - 1}").count() == 1)
    assert viewer.episode == 1
