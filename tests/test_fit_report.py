"""Reports of fits: one file without links, the figures, and the words in it."""

import re

import numpy as np
import pytest
from test_fit_validation import make_twin

from sensorium.errors import OptionError
from sensorium.fit.comparison import compare_motion, compare_rest, motion_verdicts, rest_verdicts
from sensorium.fit.estimate import Estimate, Twin
from sensorium.fit.logs import as_log
from sensorium.fit.problems import Problem
from sensorium.fit.report import report
from sensorium.fit.validation import TwinValidation

RATE = 100.0


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    t = np.arange(3000) / RATE
    log = as_log({"time": t, "gyro": 0.01 * rng.normal(size=(3000, 3)), "acc": rng.normal((0, 0, 9.81), 1, (3000, 3))})
    twin = make_twin(problems=[Problem("rest.short", "rest < 60 s", "record <longer>")], log=log)
    twin.estimates["acc.bias"] = Estimate.missing("acc.bias", "m/s²", "needs a reference", (3,))
    rest = compare_rest([log.channels["gyro"]], 0.01 * rng.normal(size=(1000, 8, 3)), RATE, np.zeros(3))
    signal = np.stack([np.sin(2 * t), np.cos(3 * t), np.sin(t)], axis=1)
    motion = compare_motion(t, signal + 0.01 * rng.normal(size=signal.shape), signal, signal, 0.01)
    verdicts = rest_verdicts("gyro", rest) + motion_verdicts("gyro", "rad/s", motion)
    return twin, TwinValidation("a", "b", twin, log, verdicts, {"gyro": rest}, {"gyro": motion})


def test_html_is_one_file_without_links(fitted, tmp_path):
    written = report(fitted[0], tmp_path / "deep" / "r.html", fitted[1])
    text = written[0].read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert not re.search(r"https?://|<script|<link|src='(?!data:)", text)
    assert text.count("src='data:image/png;base64,") == len(written) - 1
    names = {path.stem for path in written[1:]}
    assert names == {"log", "estimates", "gyro_rest", "gyro_motion"}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written[1:])
    assert written[1].parent == tmp_path / "deep" / "r_figures"


def test_html_states_problems_verdicts_and_estimates(fitted, tmp_path):
    (path, *_) = report(fitted[0], tmp_path / "r.html", fitted[1], pictures=False)
    text = path.read_text()
    assert "rest &lt; 60 s" in text  # escaped
    assert "Record &lt;longer&gt;." in text
    for verdict in fitted[1].verdicts:
        assert verdict.text.replace("'", "&#x27;") in text
    for name, one in fitted[0].estimates.items():
        assert f"<td>{name}" in text
        assert one.reason in text
    assert "<h2>Not identified</h2>" in text
    assert "sensors:\n- name: imu" in text  # the options of the preset, not only the comments above them
    assert "nan" not in text.replace("Magnan", "").split("<h2>Figures")[0]
    assert list(tmp_path.iterdir()) == [path]


def test_without_validation_the_allan_deviation_of_the_log_is_drawn(fitted, tmp_path):
    written = report(fitted[0], tmp_path / "r.html")
    assert {path.stem for path in written[1:]} == {"log", "estimates", "allan"}
    assert "Does the twin" not in written[0].read_text()


@pytest.mark.slow
def test_pdf(fitted, tmp_path):
    (path, *_) = report(fitted[0], tmp_path / "r.pdf", fitted[1], pictures=False)
    data = path.read_bytes()
    assert data.startswith(b"%PDF")
    assert data.count(b"/Type /Page\n") + data.count(b"/Type /Page ") >= 5  # text, and a page per figure


def test_other_sensors_have_a_report(tmp_path):
    rng = np.random.default_rng(1)
    log = as_log({"time": np.arange(1000) / RATE, "joint_pos": rng.normal(size=(1000, 12))})
    twin = Twin("joint_encoder", {"resolution": Estimate.normal("resolution", np.full(12, 3e-5), 1e-8, "rad")}, log=log)
    written = report(twin, tmp_path / "r.html")
    assert "log" in {path.stem for path in written[1:]}


def test_names_of_files(fitted, tmp_path):
    with pytest.raises(OptionError, match=r"a report must end in .html or .pdf, got 'r.doc'"):
        report(fitted[0], "r.doc")
