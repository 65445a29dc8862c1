"""How scenes, sensors, options, twins and windows look in a notebook (``_repr_html_``)."""

import base64
import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from conftest import drop_scene
from PIL import Image

import sensorium as sn
from sensorium import _notebook
from sensorium.fit import Estimate, Problem, Twin

ATTACK = "<script>alert('x')&\""


class Tables(HTMLParser):
    """The rows of all tables of a page, as texts. Fails on tags that are closed in the wrong order."""

    VOID = {"br", "img"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.open: list[str] = []
        self.feed(text)
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag == "br":
            self.handle_data("\n")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


def rows_of(value) -> list[list[str]]:
    """Return the rows of all tables of an object's representation."""
    return Tables(value._repr_html_()).rows


def test_options_show_what_differs_from_the_default():
    options = sn.IMU(link="torso", acc_noise=0.05, delay=0.02)
    text = options._repr_html_()
    shown, folded = text.split("<details>")
    assert Tables(shown).rows == [
        ["option", "value"],
        ["link", "'torso'"],
        ["delay", "0.02"],
        ["acc", "AxisImperfections(noise=0.05)"],
    ]
    assert ["jitter", "0.0"] in Tables(f"<details>{folded}").rows
    assert len(rows_of(options)) == len(sn.IMU.model_fields) + 2  # one head per table


def test_sensor_shows_measured_and_true_values_of_env_0():
    scene = drop_scene()
    imu = scene.add_sensor(sn.IMU(link="box", acc_bias=(1.0, 0.0, 0.0)))
    assert "IMUSensor &#x27;imu_box&#x27;, not built" in imu._repr_html_()
    scene.build(n_envs=3)
    scene.step()
    rows = {row[0]: row[1:] for row in rows_of(imu)}
    measured, truth = imu.read().lin_acc[0], imu.read_ground_truth().lin_acc[0]
    assert rows["lin_acc"] == [
        "(B, 3)",
        ", ".join(f"{value:.4g}" for value in measured),
        ", ".join(f"{value:.4g}" for value in truth),
    ]
    assert rows["acc"] == ["AxisImperfections(bias=(1.0, 0.0, 0.0))"]


def test_sensor_with_many_columns_is_shortened():
    scene = drop_scene()
    lidar = scene.add_sensor(sn.Lidar(link="box", pattern=sn.RingPattern(n_points=90)))
    scene.build()
    (row,) = [row for row in rows_of(lidar) if row[0] == "distances"]
    assert row[2].endswith("(90 numbers)")
    assert row[2].count(",") == 6


def test_image_sensor_shows_a_picture_of_each_kind():
    scene = drop_scene()
    depth = scene.add_sensor(sn.DepthCamera(link="box", pos=(0, 0, 1), width=32, height=24, noise=0.05, max_range=3))
    scene.build()
    scene.step()
    text = depth._repr_html_()
    pictures = re.findall(r'<img src="data:image/png;base64,([^"]*)" alt="([^"]*)"', text)
    assert [alt.split(",")[1] for _, alt in pictures] == [" measured", " true"]
    image = np.asarray(Image.open(io.BytesIO(base64.b64decode(pictures[0][0]))))
    assert image.shape == (24, 32)
    values = depth.read()[0].numpy()
    assert set(image[values == values.max()]) == {255}
    assert set(image[values == values.min()]) == {0}


def test_picture_scales_values_and_shows_holes_white():
    values = np.array([[1.0, 2.0], [3.0, np.inf]])
    text = _notebook.picture(values, "depth")
    data = re.search(r"base64,([^\"]*)", text)[1]
    image = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))
    assert image.tolist() == [[0, 127], [255, 255]]
    assert "depth, black 1 to white 3" in text
    assert "black 1 to white 6 or more" in _notebook.picture(np.array([[1.0, 2.0], [2.0, 100.0]]), "depth")
    assert "black 0 to white 0" in _notebook.picture(np.full((2, 2), np.nan), "depth")


def test_scene_shows_its_sensors_before_and_after_build():
    scene = drop_scene()
    scene.add_sensor(sn.IMU(link="box", delay=0.02))
    assert rows_of(scene) == [["entities"], ["plane, box"], ["uuid", "class"], ["imu_box", "IMUSensor"]]
    scene.build(n_envs=2)
    scene.step()
    rows = rows_of(scene)
    assert rows[:2] == [["time in env 0", "entities"], ["0.01 s", "plane, box"]]
    assert rows[2][:2] == scene.describe().splitlines()[1].split()[:2]
    assert rows[3][0] == "imu_box"
    assert "2 envs on cpu" in scene._repr_html_()


def test_twin_shows_estimates_and_problems():
    estimates = [
        Estimate.normal("gyro.bias", [0.01, -0.02, 0.005], [1e-3] * 3, "rad/s"),
        Estimate.at_most("gyro.random_walk", [1e-5] * 3, "rad/s/√s", "no drift in 60 s of rest"),
    ]
    problems = [Problem("time.jumps", "two jumps", "record again")]
    rows = rows_of(Twin("imu", {one.name: one for one in estimates}, problems))
    assert rows[1][0] == "gyro.bias"
    assert rows[1][1].split("\n") == ["0.01", "-0.02", "0.005"]
    assert rows[2][1:] == ["≤ 1e-05", "0 … 1e-05", "rad/s/√s", "no", "no drift in 60 s of rest"]
    assert "time.jumps" in rows[-1][0]


def test_window_is_embedded(monkeypatch):
    pytest.importorskip("viser")
    scene = drop_scene()
    scene.build()
    with scene.view() as viewer:
        text = viewer._repr_html_()
        assert f'<iframe src="{viewer.address}"' in text
    Tables(text)


def test_texts_are_escaped():
    scene = drop_scene()
    scene.add_object(sn.Sphere(radius=0.1), name=ATTACK, pos=(0, 0, 3), free=True)
    imu = scene.add_sensor(sn.IMU(link=ATTACK, uuid=f"{ATTACK} uuid"))
    problem = Problem(ATTACK, ATTACK, ATTACK)
    twin = Twin("imu", {ATTACK: Estimate.normal(ATTACK, 1.0, 0.1, ATTACK)}, [problem])
    for text in (scene._repr_html_(), imu._repr_html_(), imu.options._repr_html_(), twin._repr_html_()):
        assert "<script" not in text
        assert "&lt;script&gt;" in text
    assert "<script" not in _notebook.frame(f"http://{ATTACK}")
    assert "<script" not in _notebook.details(ATTACK, "") + _notebook.heading(ATTACK)
