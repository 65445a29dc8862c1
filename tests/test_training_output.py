"""What a training shows: lines of progress without a terminal, a bar on one, and the learning curve."""

import io
import os
import re
import subprocess
import sys
import time
from contextlib import closing, contextmanager

import av
import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.cli import main
from sensorium.errors import OptionError
from sensorium.robots import RigSensor, SensorMount, SensorRig
from sensorium.training import EntityOptions, Evaluation, Progress, TrainOptions, evaluate, play, progress_lines, train
from sensorium.training.curve import draw_curve
from sensorium.training.play import draw_images
from sensorium.training.play_images import as_picture, draw_insets
from sensorium.training.play_plots import ReadingPlots
from sensorium.training.players import PPOPlayer, open_player
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


class Still:
    """A policy that does nothing."""

    def __call__(self, observation):
        return torch.zeros(1, 2)

    def reset(self, ended=None):
        pass


@contextmanager
def still_player(robot, *patterns):
    task = sn.tasks.make("balance", robot, n_envs=1, device="cpu", observe=patterns)
    with closing(task):
        yield PPOPlayer(task, Still())


def drawn_by(player, steps):
    """Make steps; returns their plots and readings."""
    plots, rows = ReadingPlots(player.labels, player.task.config.dt), []
    for _ in range(steps):
        player.step()
        rows.append([(measured[0].clone(), true[0].clone()) for measured, true in player.readings()])
        plots.add(player.readings())
    assert plots.draw().shape == (480, 640, 3)
    return plots, rows


def test_plots_of_constant_and_of_small_readings_keep_their_labels_in_the_image():
    """A lidar that hits nothing reads 12 m; the magnetic field is 2e-5 T. Their ticks moved the first title out."""
    with still_player(sn.robots.make("diffdrive"), "lidar", "imu") as player:
        plots, _ = drawn_by(player, 5)
    for axes in plots._axes:
        low, high = axes.get_ylim()
        values = np.concatenate([line.get_ydata() for line in axes.lines])
        assert 0.5 * (high - low) <= np.ptp(values) or np.ptp(values) == 0
    check_labels(plots)
    for axes in plots._axes:
        axes.set_ylim(-5e-5, 3.5e-5)  # the magnetic field of a robot that turns
    plots._canvas.draw()
    check_labels(plots)


def check_labels(plots):
    """Check that titles and labels of ticks are inside the image."""
    renderer = plots._canvas.get_renderer()
    for axes in plots._axes:
        low, high = axes.get_ylim()
        ticks = [text for text in axes.get_yticklabels() if low <= text.get_position()[1] <= high]
        for text in (axes._left_title, axes.yaxis.get_offset_text(), *ticks):
            box = text.get_window_extent(renderer)
            inside = box.x0 >= 0 and box.y1 <= plots._canvas.figure.bbox.y1
            assert inside or not text.get_text(), text


def test_the_newest_of_the_readings_of_a_history_is_plotted():
    rig = SensorRig(sensors=(RigSensor(name="wheels", type="JointEncoder", options={**WHEELS, "history_length": 3}),))
    with still_player(sn.robots.make("balancer", rig=rig), "wheels") as player:
        assert [tuple(label.names) for label in player.labels[:2]] == [("left_wheel", "right_wheel")] * 2
        player.step()
        sensor = player.task.robot.rig["wheels"]
        measured, true = player.readings()[0]
        assert torch.equal(measured, sensor.read().positions[:, 0])
        assert torch.equal(true, sensor.read_ground_truth().positions[:, 0])


# -- trainings by SAC --------------------------------------------------------------------------------------------------

WHEELS = {"joints": [0, 1], "noise": 0.01}
SENSORS = (
    RigSensor(name="skin", type="ElastomerDisplacement", mount=SensorMount(link="torso"), options={"grid": [2, 3]}),
    RigSensor(name="eye", type="DepthCamera", mount=SensorMount(link="torso"), options={"width": 4, "height": 3}),
    RigSensor(name="imu", type="IMU", mount=SensorMount(link="torso"), options={"delay": 0.02, "history_length": 2}),
    RigSensor(name="wheels", type="JointEncoder", options=WHEELS),
)
TRUTH = SensorRig(sensors=(RigSensor(name="pose", type="FramePose", mount=SensorMount(link="torso")),))


def sac_options(device):
    sizes = {"n_envs": 2, "steps": 24, "warmup": 12, "episodes": 1, "gradient_steps": 1, "checkpoint_every": 12}
    entity = EntityOptions(robot="balancer", sensors=SensorRig(sensors=SENSORS), privileged=TRUTH)
    brain = {"hidden": [8]}
    return TrainOptions(task="balance", entity=entity, device=device, brain_options=brain, evaluate_every=12, **sizes)


@pytest.fixture(scope="module", params=[None, "cpu"], ids=["arrays", "tensors"])
def by_sac(request, tmp_path_factory):
    """Return the folder of a training by SAC."""
    folder = tmp_path_factory.mktemp("sac") / "balance"
    train(sac_options(request.param), folder, tensorboard=False)
    return folder


def test_the_video_of_an_entity_can_be_decoded(by_sac, tmp_path, capsys):
    out = tmp_path / "balance.mp4"
    assert main(["play", str(by_sac), "--which", "last", "--seconds", "0.4", "--out", str(out)]) == 0
    assert "10 images, 0.4 s" in capsys.readouterr().out
    with av.open(str(out)) as file:
        frames = [frame.to_ndarray(format="rgb24").astype(int) for frame in file.decode(video=0)]
    assert [frame.shape for frame in frames] == [(480, 1280, 3)] * 10
    for half in (slice(0, 640), slice(640, 1280)):  # the robot, and the plots
        assert np.abs(frames[0][:, half] - frames[-1][:, half]).max() > 50
    assert frames[0][:, 640:].mean() > 200  # plots are white


def test_the_lines_of_an_entity_are_its_readings_and_the_ground_truth(by_sac):
    with open_player(by_sac, "last") as player:
        labels = [(label.title, tuple(label.names)) for label in player.labels]
        plots, rows = drawn_by(player, 12)
        imu, wheels = (player.task.robot.rig[name] for name in ("imu", "wheels"))
        for each, name in zip(rows[-1], ("lin_acc", "ang_vel", "mag"), strict=False):
            assert torch.equal(each[0], getattr(imu.read(), name)[0, 0])
            assert torch.equal(each[1], getattr(imu.read_ground_truth(), name)[0, 0])
        assert torch.equal(rows[-1][3][0], wheels.read().positions[0])
        assert torch.equal(rows[-1][3][1], wheels.read_ground_truth().positions[0])
        assert not torch.equal(*rows[-1][3])
    assert labels == [
        ("imu lin_acc, m/s²", ("x", "y", "z")),
        ("imu ang_vel, rad/s", ("x", "y", "z")),
        ("imu mag, T", ("x", "y", "z")),
        ("wheels positions, rad", ("left_wheel", "right_wheel")),
    ]  # no images, no ground truth alone, and at most 4
    for number, axes in enumerate(plots._axes):
        for place, line in enumerate(axes.lines):
            column, kind = divmod(place, 2)
            assert line.get_linestyle() == ("-", "--")[kind]
            expected = [row[number][kind][column].item() for row in rows]
            np.testing.assert_allclose(line.get_ydata(), expected, rtol=1e-6, atol=1e-12)


def test_an_entity_is_shown_as_it_is_evaluated(by_sac):
    """The episodes are those of ``evaluate``, and begin anew when they end."""
    with open_player(by_sac, "last") as player:
        ends, first = [], int(player.task.episode[0])
        for step in range(1, 200):
            player.step()
            if int(player.task.episode[0]) - first > len(ends):
                ends.append(step)
    assert len(ends) >= 2
    assert evaluate(by_sac, 1, which="last").lengths == (ends[0],)


@pytest.mark.slow
def test_an_entity_can_be_watched_in_the_browser(by_sac, capsys):
    assert main(["play", str(by_sac), "--view", "--seconds", "0.1"]) == 0
    assert "http://127.0.0.1:" in capsys.readouterr().out


def test_a_folder_without_a_policy_is_not_played(tmp_path, capsys):
    out = tmp_path / "out" / "a.mp4"
    assert main(["play", str(tmp_path / "none"), "--out", str(out)]) == 1
    assert "none holds no training: config.json is missing" in capsys.readouterr().err
    sac_options(None).save(tmp_path)
    assert main(["play", str(tmp_path), "--out", str(out)]) == 1
    assert "has no best brain yet: continue the training with --resume" in capsys.readouterr().err
    with pytest.raises(OptionError, match="which must be 'best' or 'last', got 'first'"):
        next(play(tmp_path, which="first"))
    assert not out.parent.exists()


def test_a_brain_is_made_on_the_device_that_is_asked_for():
    options = sac_options(None).model_copy(update={"brain_options": {"hidden": [8], "device": "cuda:99"}})
    made = options.entity.make()
    assert options.make_brain(made.observation_space, made.action_space, "cpu").device.type == "cpu"


# -- images of cameras -------------------------------------------------------------------------------------------------


def test_observed_images_are_drawn_at_the_lower_left():
    picture = np.zeros((480, 640, 3), np.uint8)
    rows = np.arange(80, dtype=np.uint8)[:, None, None]
    wide = np.broadcast_to(rows, (80, 160, 3))
    draw_insets(picture, [wide, *[np.full((20, 10, 3), 9, np.uint8)] * 9])
    assert np.array_equal(picture[398:478, 2:162], wide)
    assert (picture[396:398, :164] == 255).all()
    assert (picture[318:478, 166:246] == 9).all()  # scaled to 160 x 80
    assert not picture[:316].any()
    assert (picture[478:, :584] == 255).all()  # five of the nine fit
    assert not picture[:, 584:].any()


def test_depths_are_bright_where_they_are_near():
    picture = as_picture(np.array([[1.0, 2.0], [4.0, np.inf], [np.nan, 0.0]]))
    near, middle, far, *unknown = picture[..., 0].flatten().tolist()
    assert near > middle > far > 0
    assert unknown == [0, 0, 0]
    assert as_picture(np.full((2, 2), np.nan)).max() == 0


@pytest.mark.slow
def test_a_video_shows_the_camera_of_an_entity(tmp_path):
    eye = RigSensor(name="eye", type="Camera", mount=SensorMount(link="torso"), options={"resolution": [80, 40]})
    wheels = RigSensor(name="wheels", type="JointEncoder", options=WHEELS)
    entity = EntityOptions(robot="balancer", sensors=SensorRig(sensors=(wheels, eye)))
    sizes = {"n_envs": 2, "steps": 24, "warmup": 12, "episodes": 1, "gradient_steps": 1, "checkpoint_every": 12}
    options = TrainOptions(task="balance", entity=entity, brain_options={"hidden": [8]}, evaluate_every=12, **sizes)
    train(options, tmp_path / "run", tensorboard=False)
    with open_player(tmp_path / "run", "last") as player:
        picture = next(draw_images(player, 0.1))
        (image,) = player.images()
        assert image.shape == (40, 80, 3)
        assert np.array_equal(picture[398:478, 2:162], image.repeat(2, axis=0).repeat(2, axis=1))
