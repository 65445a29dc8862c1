"""Training: learning, exact resume from checkpoints, evaluation, and the commands."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from sensorium.cli import main
from sensorium.errors import DatasetError, NameNotFoundError, OptionError
from sensorium.training import TrainOptions, evaluate, recipe, train
from sensorium.training.checkpoints import newest, save

QUICK = {
    "task_options": {"max_steps": 30, "threads": 1},
    "brain_options": {"hidden": [16, 16], "learning_rate": 1e-3},
    "n_envs": 4,
    "steps": 480,
    "warmup": 80,
    "gradient_steps": 2,
    "evaluate_every": 160,
    "episodes": 3,
    "checkpoint_every": 160,
}


class KilledError(Exception):
    pass


def killed_after(steps):
    """Return a progress function that raises after some steps, as a kill would interrupt the training."""

    def progress(progress):
        if progress.steps >= steps:
            raise KilledError

    return progress


def weights(folder):
    from safetensors.numpy import load_file

    return load_file(folder / "last" / "brain.safetensors")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the folder of an uninterrupted training."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    train(recipe("balance", **QUICK), folder)
    return folder


def test_training_writes_all_files(whole):
    assert sorted(path.name for path in whole.iterdir()) == [
        "best",
        "checkpoints",
        "config.json",
        "curve.png",
        "evaluations.json",
        "last",
        "policy.json",
        "policy.onnx",
        "tensorboard",
    ]
    assert TrainOptions.load(whole) == recipe("balance", **QUICK)
    assert [path.name for path in sorted((whole / "checkpoints").iterdir())] == ["000000000320", "000000000480"]
    evaluations = json.loads((whole / "evaluations.json").read_bytes())
    assert [each["steps"] for each in evaluations] == [160, 320, 480]
    assert all(len(each["episodes"]["returns"]) == 3 for each in evaluations)
    assert len({tuple(each["episodes"]["returns"]) for each in evaluations}) == 3  # different episodes each time


def test_tensorboard_log_has_the_evaluations(whole):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(whole / "tensorboard"))
    events.Reload()
    found = {event.step: event.value for event in events.Scalars("evaluation/return")}
    evaluations = json.loads((whole / "evaluations.json").read_bytes())
    assert found == pytest.approx({each["steps"]: each["return_mean"] for each in evaluations}, rel=1e-6)
    assert {"train/critic_loss", "train/return"} <= set(events.Tags()["scalars"])


@pytest.mark.parametrize("kill_at", [200, 320])
@pytest.mark.slow
def test_killed_and_resumed_training_is_bit_identical(whole, tmp_path, kill_at):
    options = recipe("balance", **QUICK)
    with pytest.raises(KilledError):
        train(options, tmp_path / "run", progress=killed_after(kill_at), tensorboard=False)
    trained = train(options, tmp_path / "run", resume=True, tensorboard=False)
    assert trained.finished
    assert trained.steps == 480
    mine, other = weights(tmp_path / "run"), weights(whole)
    assert mine.keys() == other.keys()
    assert all(np.array_equal(mine[name], other[name]) for name in mine)
    assert (tmp_path / "run" / "evaluations.json").read_bytes() == (whole / "evaluations.json").read_bytes()


@pytest.mark.slow
def test_resume_with_more_steps_matches_a_longer_training(whole, tmp_path):
    short = recipe("balance", **{**QUICK, "steps": 320})
    train(short, tmp_path / "run", tensorboard=False)
    train(recipe("balance", **QUICK), tmp_path / "run", resume=True, tensorboard=False)
    mine, other = weights(tmp_path / "run"), weights(whole)
    assert all(np.array_equal(mine[name], other[name]) for name in mine)


@pytest.mark.slow
def test_another_seed_gives_other_weights(whole, tmp_path):
    train(recipe("balance", **QUICK, seed=1), tmp_path / "run", tensorboard=False)
    mine, other = weights(tmp_path / "run"), weights(whole)
    assert any(not np.array_equal(mine[name], other[name]) for name in mine)


def test_incomplete_checkpoints_are_ignored_and_removed(tmp_path):
    def write(folder):
        (folder / "part").write_text("half")
        raise KilledError

    with pytest.raises(KilledError):
        save(tmp_path, 10, write)
    assert newest(tmp_path) is None
    leftover = tmp_path / ".000000000020-xyz"  # of a process that was killed while it wrote
    leftover.mkdir()
    (leftover / "part").write_text("half")
    (tmp_path / ".DS_Store").write_text("of another program")
    assert newest(tmp_path) is None
    for steps in (10, 20, 30):
        save(tmp_path, steps, lambda folder: (folder / "part").write_text("whole"))
    assert not leftover.exists()
    assert [path.name for path in sorted(tmp_path.iterdir())] == [".DS_Store", "000000000020", "000000000030"]
    assert newest(tmp_path).name == "000000000030"


@pytest.mark.parametrize("how", ["changed", "cut", "missing", "no manifest"])
def test_damaged_checkpoint_is_not_used(tmp_path, how):
    for steps in (20, 30):
        save(tmp_path, steps, lambda folder: (folder / "part").write_bytes(b"12345678"))
    hit = tmp_path / "000000000030"
    if how == "changed":
        (hit / "part").write_bytes(b"12345679")
    elif how == "cut":
        (hit / "part").write_bytes(b"1234")
    elif how == "missing":
        (hit / "part").unlink()
    else:
        (hit / "manifest.json").unlink()
    with pytest.warns(UserWarning, match="000000000030 is damaged"):
        assert newest(tmp_path).name == "000000000020"
    (tmp_path / "000000000020" / "part").unlink()
    with pytest.raises(DatasetError, match="there is no other checkpoint"):
        newest(tmp_path)


def test_evaluation_is_deterministic(whole):
    first, again = (evaluate(whole, episodes=5) for _ in range(2))
    assert first == again
    assert len(first.returns) == len(first.lengths) == 5
    assert first.max_return == 30
    assert first.fraction == pytest.approx(np.mean(first.returns) / 30)
    assert evaluate(whole, episodes=5, seed=7) != first
    assert evaluate(whole, episodes=20).returns[:5] != ()


def test_evaluate_command_prints_and_writes_statistics(whole, tmp_path, capsys):
    assert main(["evaluate", str(whole), "--episodes", "3", "--json", str(tmp_path / "out" / "figures.json")]) == 0
    out = capsys.readouterr().out
    assert "of the maximum" in out
    figures = json.loads((tmp_path / "out" / "figures.json").read_bytes())
    assert figures["return_mean"] == pytest.approx(np.mean(figures["each"]["returns"]))
    assert figures["return_min"] <= figures["return_mean"] <= figures["return_max"]


@pytest.mark.slow
def test_ctrl_c_saves_a_checkpoint_and_prints_how_to_resume(tmp_path):
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "sensorium", "train", "balance", "--out", str(folder), "--no-tensorboard"]
    command += ["--envs", "4", "--option", "max_steps=30", "--brain", "hidden=[16,16]", "--gradient-steps", "1"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    try:
        deadline = time.monotonic() + 300
        while not (folder / "config.json").exists() and time.monotonic() < deadline and running.poll() is None:
            time.sleep(0.1)
        time.sleep(0.5)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=300)
    finally:
        running.kill()
    assert running.returncode == 130, err
    assert f"sensorium train balance --out {folder} --resume" in out
    steps = int(newest(folder / "checkpoints").name)
    assert steps > 0
    again = ["train", "balance", "--out", str(folder), "--resume", "--steps", str(steps + 8), "--no-tensorboard"]
    assert main(again) == 0
    assert newest(folder / "checkpoints").name == f"{steps + 8:012d}"


@pytest.mark.slow
def test_training_without_a_checkpoint_is_resumed_from_the_start(whole, tmp_path):
    folder = tmp_path / "run"
    trained = train(recipe("balance", **QUICK), folder, tensorboard=False, stop=lambda: True)
    assert (trained.steps, trained.finished) == (0, False)
    assert train(recipe("balance", **QUICK), folder, resume=True, tensorboard=False).steps == 480
    for name, value in weights(whole).items():
        np.testing.assert_array_equal(value, weights(folder)[name], err_msg=name)


def test_training_stops_early_at_the_target_return(tmp_path):
    trained = train(recipe("balance", **QUICK, stop_at=0.01), tmp_path / "run", tensorboard=False)
    assert trained.finished
    assert trained.steps == 160


def test_custom_brain_is_trained(tmp_path):
    options = recipe("balance", **{**QUICK, "steps": 160, "brain": f"{__name__}:Still", "brain_options": {}})
    trained = train(options, tmp_path / "run", tensorboard=False)
    assert trained.best.returns == evaluate(tmp_path / "run", episodes=3, seed=1_000_000).returns
    assert (tmp_path / "run" / "last" / "learned").read_text() == str((160 - 80) // 4 * 2)


class Still:
    """A brain that does not move and does not learn."""

    def __init__(self, observation_space, action_space, seed):
        self.shape = action_space.shape
        self.learned = 0

    def decide_batch(self, observation, deterministic=False):
        return np.zeros((len(observation["imu"]["lin_acc"]), *self.shape))

    def observe(self, observation):
        assert {name: set(each) for name, each in observation.items()} == {
            "imu": {"lin_acc", "ang_vel", "mag"},
            "wheels": {"positions", "velocities"},
        }

    def learn(self, memory, gradient_steps):
        self.learned += gradient_steps
        return {}

    def save(self, folder):
        (folder / "learned").write_text(str(self.learned))

    def restore(self, folder):
        self.learned = int((folder / "learned").read_text())


def test_invalid_arguments_raise(whole, tmp_path, capsys):
    with pytest.raises(NameNotFoundError, match="did you mean 'balance'"):
        recipe("balanc")
    with pytest.raises(NameNotFoundError, match="did you mean 'SACMLPBrain'"):
        train(recipe("balance", **{**QUICK, "brain": "SACBrain"}), tmp_path / "a")
    assert not (tmp_path / "a").exists()
    with pytest.raises(OptionError, match="the training sets 'n_envs' itself"):
        train(recipe("balance", **{**QUICK, "task_options": {"n_envs": 3}}), tmp_path / "b")
    with pytest.raises(OptionError, match="holds a training already"):
        train(recipe("balance", **QUICK), whole)
    with pytest.raises(OptionError, match="n_envs is 4 in this training"):
        train(recipe("balance", **{**QUICK, "n_envs": 8}), whole, resume=True)
    with pytest.raises(DatasetError, match="did you mean 'whole'"):
        evaluate(whole.parent / "whoel")
    with pytest.raises(OptionError, match="'best' or 'last'"):
        evaluate(whole, which="bets")
    with pytest.raises(OptionError, match=r"no option 'hiden' .did you mean 'hidden'"):
        train(recipe("balance", **{**QUICK, "brain_options": {"hiden": [16]}}), tmp_path / "b")
    with pytest.raises(OptionError, match="at least the 480 that the training has taken, got 100"):
        train(recipe("balance", **{**QUICK, "steps": 100}), whole, resume=True)
    assert TrainOptions.load(whole).steps == 480
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    with pytest.raises(OptionError, match="is not empty and holds no training"):
        train(recipe("balance", **QUICK), tmp_path / "other")
    (tmp_path / "other" / "config.json").write_text("{")
    with pytest.raises(DatasetError, match="damaged"):
        evaluate(tmp_path / "other")
    for arguments, message, code in (
        (["train", "balanced", "--out", str(tmp_path / "c")], "did you mean 'balance'", 2),
        (["train", "pick", "--out", str(tmp_path / "c")], "no recipe", 2),
        (["train", "reach", "--out", str(whole), "--resume"], "a training of the task 'balance'", 2),
        (["evaluate", str(whole.parent / "whol")], "did you mean 'whole'", 1),
        (["evaluate", str(whole), "--episodes", "0"], "must be >= 1", 2),
    ):
        assert main(arguments) == code
        assert message in capsys.readouterr().err


def test_reach_is_solved_by_inverse_kinematics_and_not_by_random_actions():
    options = recipe("reach")
    task = options.make_task(options.entity.make(), 4, seed=0)
    rng = np.random.default_rng(0)
    found = {}
    for how in ("solved", "random"):
        observation, _ = task.reset()
        np.testing.assert_allclose(observation["target"]["pos"], task.target, atol=0.02)
        arm, total = task._arm, np.zeros(4)
        while not task.is_done().all():
            action = rng.uniform(task.action_space.low, task.action_space.high)
            if how == "solved":
                pose = arm.tcp_pose()
                pose[:, :3] = task.target
                action[:, :7] = np.clip((arm.solve(pose)[0] - arm.target) / task.config.dt, -2, 2)
            _, reward, *_ = task.step(action)
            total += reward
        found[how] = total, task.judge_success()
    assert found["solved"][1].all()
    assert (found["solved"][0] > 0.7 * task.max_return).all()
    assert (found["random"][0] < 0.4 * task.max_return).all()


def test_balance_reward_is_highest_at_the_start_pose():
    import sensorium as sn

    task = sn.tasks.make("balance", n_envs=4, seed=0, use_sensors=False, tilt=0.0, near=0.5)
    task.reset()
    start = task.robot.base_pose()
    quat = start[:, 3:].copy()
    heading = 2 * np.arctan2(quat[:, 3], quat[:, 0])
    turn = np.array([0.0, 0.0, np.pi / 2, np.pi])
    quat[:, 0], quat[:, 3] = np.cos((heading + turn) / 2), np.sin((heading + turn) / 2)
    pos = start[:, :3] + np.array([[0, 0, 0], [0.3, 0.4, 0], [0, 0, 0], [0, 0, 0]])
    task.robot.entity.set_pose(pos, quat)
    task.scene.forward()
    np.testing.assert_allclose(task.rewards()["balance"], [1.0, 0.5, 0.975, 0.95], atol=1e-3)
    task.step(np.array([[0.0, 0.0], [0.0, 0.0], [1.0, -1.0], [2.0, 2.0]]))
    np.testing.assert_allclose(task.scene.world.bind("ctrl")[3], 1.0)  # actions are clipped at the limits of the motors
    task.robot.entity.set_pose(pos + np.array([1.6, 0, 0]), quat)
    task.scene.forward()
    assert task.failures()["range"].all()
    assert (task.rewards()["balance"] == 0).all()


@pytest.mark.slow
def test_balance_is_learned(tmp_path):
    """About a minute of training reaches far more than an idle robot."""
    options = recipe("balance", steps=10_000, evaluate_every=2_000, checkpoint_every=10_000)
    still = {**options.model_dump(), "brain": f"{__name__}:Still", "brain_options": {}, "steps": 160, "stop_at": None}
    chance = train(TrainOptions(**still), tmp_path / "still", tensorboard=False).best.mean
    train(options, tmp_path / "run", tensorboard=False)
    assert evaluate(tmp_path / "run", episodes=10).mean > 3 * chance


def test_non_finite_reward_raises_before_it_is_stored(tmp_path, monkeypatch):
    from sensorium.tasks.balance import Balance

    real = Balance.rewards

    def broken(task):
        reward = real(task)["balance"]
        reward[1] = np.nan if task.step_count[1] == 5 else reward[1]
        return {"balance": reward}

    monkeypatch.setattr(Balance, "rewards", broken)
    wanted = r"Balance\.rewards must return .*, got nan for 'balance' in env 1 at step 5 of its episode"
    with pytest.raises(OptionError, match=wanted):
        train(recipe("balance", **QUICK), tmp_path / "run")
