"""What a training shows: lines of progress without a terminal, a bar on one, and the learning curve."""

import io
import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest

import sensorium as sn
from sensorium.cli import main
from sensorium.errors import OptionError
from sensorium.training import Evaluation, Progress, progress_lines
from sensorium.training.curve import draw_curve
from sensorium.training.progress_lines import describe

LINE = re.compile(
    r"^[\d,]+ of [\d,]+ steps \(\d+%\), [\d,]+ steps/s(, return -?[\d.]+)?(, evaluated: .+)?, [\d:]+ left$"
)
COMMANDS = {
    "balance": ["--option", "max_steps=30", "--brain", "hidden=[16,16]", "--gradient-steps", "1", "--envs", "4"],
    "walk": ["--envs", "8", "--option", "max_steps=10", "--brain", "hidden=[16]", "--brain", "horizon=4"],
}


def command(task, folder, *options):
    fixed = ["--out", str(folder), "--no-tensorboard", "--episodes", "2", "--evaluate-every", "800"]
    return [sys.executable, "-m", "sensorium", "train", task, *fixed, *COMMANDS[task], *options]


@pytest.mark.slow
@pytest.mark.parametrize("task", ["balance", "walk"])
def test_a_pipe_receives_lines_of_progress(task, tmp_path):
    arguments = command(task, tmp_path / "run", "--steps", "1600", "--progress-every", "0.1")
    run = subprocess.run(arguments, capture_output=True, text=True, timeout=300, check=True)
    lines = [line for line in run.stderr.splitlines() if " of 1,600 steps" in line]
    assert len(lines) >= 2, run.stderr
    assert all(LINE.match(line) for line in lines), lines
    steps = [int(line.split(" ")[0].replace(",", "")) for line in lines]
    assert steps == sorted(steps)
    assert any("return" in line for line in lines)
    if task == "walk":
        assert any("tracking 0." in line for line in lines), lines
    assert "steps/s" not in run.stdout
    assert (tmp_path / "run" / "curve.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_a_terminal_shows_the_bar_only(tmp_path):
    reader, writer = os.openpty()
    arguments = command("balance", tmp_path / "run", "--steps", "800", "--progress-every", "0.1")
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=writer, env=os.environ | {"TERM": "xterm"}) as run:
        os.close(writer)
        shown = b""
        while True:
            try:
                part = os.read(reader, 4096)
            except OSError:  # the end, on Linux
                break
            if not part:
                break
            shown += part
        assert run.wait(300) == 0
    os.close(reader)
    assert b"/800" in shown
    assert b"of 800 steps" not in shown
    assert b"left," not in shown


def test_lines_also_appear_while_nothing_is_reported():
    out = io.StringIO()
    with progress_lines(0.02, out) as show:
        time.sleep(0.2)
        show(Progress(50, 200, 10.0, 1.5, None))
        time.sleep(0.2)
    lines = out.getvalue().splitlines()
    assert lines.count("starting, no steps yet") >= 2
    assert lines.count("50 of 200 steps (25%), 10 steps/s, return 1.5, 0:15 left") >= 2
    time.sleep(0.1)
    assert out.getvalue().splitlines() == lines  # the thread has ended


def test_a_closed_output_does_not_end_the_training():
    out = io.StringIO()
    out.close()
    with progress_lines(0.01, out) as show:
        time.sleep(0.05)
        show(Progress(1, 2, 1.0, None, None))


def test_line_of_a_long_training():
    evaluation = Evaluation(returns=(1.0, 3.0), lengths=(5, 5), successes=(True, True), metrics={"tracking": 0.9})
    line = describe(Progress(1_000_000, 20_000_000, 2000.0, None, evaluation))
    assert line == "1,000,000 of 20,000,000 steps (5%), 2,000 steps/s, evaluated: 2.0, tracking 0.900, 2:38:20 left"
    assert describe(Progress(0, 10, 0.0, None, None)) == "0 of 10 steps (0%), 0 steps/s"


def test_interval_is_checked(tmp_path, capsys):
    with pytest.raises(OptionError, match="every must be > 0 s, got 0"), progress_lines(0):
        pass
    assert main(["train", "balance", "--out", str(tmp_path / "a"), "--progress-every", "-1"]) == 2
    assert "--progress-every must be > 0, got -1" in capsys.readouterr().err


def entry(steps, values, metrics):
    result = Evaluation(returns=values, lengths=(9, 9), successes=(True, True), max_return=10.0, metrics=metrics)
    return {"steps": steps, **result.summary(), "episodes": result.model_dump(mode="json")}


def test_curve_shows_returns_and_metrics():
    from matplotlib import image

    def drawn(metrics, n):
        entries = [entry(1000 * k, (1.0 * k, 2.0 * k), dict.fromkeys(metrics, 0.2 * k)) for k in range(1, n + 1)]
        return image.imread(io.BytesIO(draw_curve(entries)))

    returns, tracking = drawn((), 4), drawn(("tracking",), 4)
    assert returns.shape == (280, 700, 4)
    assert tracking.shape == (560, 700, 4)
    assert not np.array_equal(returns, drawn((), 3))
    assert drawn((), 1).shape == returns.shape


def test_plots_of_constant_and_of_small_readings_keep_their_labels_in_the_image():
    """A lidar that hits nothing reads 12 m; the magnetic field is 2e-5 T. Their ticks moved the first title out."""
    from sensorium.training.play import _Plots

    task = sn.tasks.make("balance", sn.robots.make("diffdrive"), n_envs=1, device="cpu", observe=("lidar", "imu"))
    task.reset()
    plots = _Plots(task)
    for _ in range(5):
        plots.add(task.step(np.zeros((1, 2), np.float32))[0])
    plots.draw()
    renderer = plots._canvas.get_renderer()
    for axes in plots._axes:
        low, high = axes.get_ylim()
        values = np.concatenate([line.get_ydata() for line in axes.lines])
        assert 0.5 * (high - low) <= np.ptp(values) or np.ptp(values) == 0
        ticks = [text for text in axes.get_yticklabels() if low <= text.get_position()[1] <= high]
        for text in (axes._left_title, axes.yaxis.get_offset_text(), *ticks):
            box = text.get_window_extent(renderer)
            inside = box.x0 >= 0 and box.y1 <= plots._canvas.figure.bbox.y1
            assert inside or not text.get_text(), text
    task.close()
