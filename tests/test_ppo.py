"""Training by PPO: what the actor sees, resuming, evaluation, and the command line."""

import json
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import av
import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.cli import main
from sensorium.training import PPOOptions, evaluate, evaluate_ppo, load_policy, ppo_memory, recipe, train, train_ppo
from sensorium.training.ppo import PPOTrainer
from sensorium.training.ppo_evaluation import run_episodes

SMALL = {"n_envs": 4, "horizon": 4, "epochs": 1, "minibatches": 1, "hidden": (16,), "episodes": 2}
SMALL |= {"task_options": {"max_steps": 6}, "evaluate_every": 32, "checkpoint_every": 32}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "walk"
    seen = []
    result = train_ppo(PPOOptions(steps=64, **SMALL), folder, progress=seen.append)
    assert result.finished
    assert result.steps == 64
    assert [each.steps for each in seen] == [16, 32, 48, 64]
    return folder


def test_files_of_a_training(trained):
    assert {path.name for path in trained.iterdir()} >= {
        *("config.json", "checkpoints", "best", "last", "evaluations.json", "curve.png", "tensorboard")
    }
    entries = json.loads((trained / "evaluations.json").read_bytes())
    assert [entry["steps"] for entry in entries] == [32, 64]
    assert 0 < entries[0]["tracking"] <= 1
    assert PPOOptions.load(trained) == PPOOptions(steps=64, **SMALL)
    assert not list(trained.rglob("*.pkl"))
    assert not list(trained.rglob("*.pt"))


def tensors(folder, steps):
    from safetensors.torch import load_file

    return load_file(folder / "checkpoints" / f"{steps:012d}" / "training.safetensors")


def test_resuming_gives_the_same_networks_as_an_uninterrupted_training(trained, tmp_path):
    folder = tmp_path / "walk"
    train_ppo(PPOOptions(steps=32, **SMALL), folder, tensorboard=False)
    result = train_ppo(PPOOptions(steps=64, **SMALL), folder, resume=True, tensorboard=False)
    assert result.steps == 64
    one, other = tensors(trained, 64), tensors(folder, 64)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_the_actor_does_not_see_what_is_privileged(trained):
    task = sn.tasks.make("walk", n_envs=3, max_steps=6)
    task.reset()
    policy, observation = load_policy(trained, task), task.as_tensordict()
    action = policy(observation)
    observation["critic"] += 1.0
    assert torch.equal(policy(observation), action)
    observation["actor"] += 1.0
    assert not torch.equal(policy(observation), action)


def test_a_rig_replaces_the_sensors_of_the_robot_and_stays_in_the_folder(tmp_path):
    rig = tmp_path / "my.yaml"
    rig.write_text("sensors:\n  - {name: attitude, type: Attitude, mount: {link: torso}, options: {noise: 0.5}}\n")
    out = tmp_path / "walk"
    sizes = ["--envs", "2", "--steps", "8", "--option", "max_steps=6", 'observe=["attitude"]', "--brain", "horizon=4"]
    assert main(["train", "walk", *sizes, "--rig", str(rig), "--out", str(out), "--no-tensorboard"]) == 0
    rig.unlink()
    (sensor,) = PPOOptions.load(out).make_config().rig.sensors
    assert sensor.options == {"noise": 0.5}
    assert len(evaluate_ppo(out, 2).returns) == 2
    assert main(["train", "walk", "--resume", "--rig", str(rig), "--out", str(out)]) == 2
    with pytest.raises(sn.errors.NameNotFoundError, match="did you mean 'quadruped'"):
        sn.tasks.make("walk", rig="quadrupd")


def test_stop_keeps_a_checkpoint(tmp_path):
    calls = []
    result = train_ppo(
        PPOOptions(steps=64, **SMALL), tmp_path / "a", tensorboard=False, stop=lambda: bool(calls) or calls.append(1)
    )
    assert not result.finished
    assert result.steps == 16
    assert (tmp_path / "a" / "checkpoints" / "000000000016").is_dir()
    assert (tmp_path / "a" / "last").is_dir()


def test_options_are_checked(trained, tmp_path):
    with pytest.raises(sn.OptionError, match="horizon is 4 in this training"):
        train_ppo(PPOOptions(steps=64, **{**SMALL, "horizon": 8}), trained, resume=True)
    with pytest.raises(sn.OptionError, match="holds a training already"):
        train_ppo(PPOOptions(steps=64, **SMALL), trained)
    with pytest.raises(sn.OptionError, match="did you mean 'walk'"):
        train_ppo(PPOOptions(task="wlak"), tmp_path / "b")
    assert not (tmp_path / "b").exists()
    with pytest.raises(sn.OptionError, match="sets 'seed' itself"):
        train_ppo(PPOOptions(task_options={"seed": 1}), tmp_path / "b")
    (tmp_path / "c").mkdir()
    with pytest.raises(sn.errors.DatasetError, match="holds no training"):
        evaluate_ppo(tmp_path / "c")


def test_evaluation_runs_whole_episodes(trained):
    result = evaluate_ppo(trained, episodes=3, seed=5)
    assert len(result.returns) == 3
    assert max(result.lengths) <= 6
    assert result == evaluate_ppo(trained, 3, 5)
    assert 0 < result.metrics["tracking"] <= 1
    assert result.max_return == pytest.approx(2.25 * 0.02 * 6)


@pytest.mark.parametrize("network", ["gru", "lstm"])
def test_recurrent_policies(tmp_path, network):
    train_ppo(PPOOptions(steps=32, network=network, memory=8, **SMALL), tmp_path / "a", tensorboard=False)
    assert len(evaluate_ppo(tmp_path / "a", 2).returns) == 2


def test_a_policy_for_other_observations_is_refused(trained):
    task = sn.tasks.make("walk", n_envs=1, history=2)
    task.reset()
    with pytest.raises(sn.errors.DatasetError, match="takes 45 observations, and the task has 90"):
        load_policy(trained, task)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"hidden": ()}, "hidden"),
        ({"hidden": (16, 0)}, "hidden"),
        ({"minibatches": 17}, r"minibatches must be <= 16, n_envs x horizon; got 17"),
        ({"minibatches": 5, "network": "gru"}, "minibatches must be <= 4, n_envs, for a recurrent network; got 5"),
    ],
)
def test_networks_without_layers_and_empty_minibatches_are_refused(options, text):
    with pytest.raises(sn.OptionError, match=text):
        PPOOptions(steps=32, **{**SMALL, **options})


def test_a_changed_byte_of_a_policy_is_noticed(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "walk")
    file = tmp_path / "walk" / "best" / "policy.safetensors"
    content = bytearray(file.read_bytes())
    content[-40] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(sn.errors.DatasetError, match=r"best/policy\.safetensors is damaged: it has changed"):
        evaluate_ppo(tmp_path / "walk", 2)
    assert len(evaluate_ppo(tmp_path / "walk", 2, which="last").returns) == 2


def test_a_policy_with_other_widths_than_its_training_is_refused(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "walk")
    config = json.loads((trained / "config.json").read_bytes())
    (tmp_path / "walk" / "config.json").write_text(json.dumps(config | {"hidden": [8]}))
    with pytest.raises(
        sn.errors.DatasetError, match=r"does not fit .* has the shape \(16, 45\), and \(8, 45\) in .*hidden=\(8,\)"
    ):
        evaluate_ppo(tmp_path / "walk", 2)
    (tmp_path / "walk" / "config.json").write_text("{}")
    with pytest.raises(sn.errors.DatasetError, match=r"config\.json is damaged: it lacks 'format'"):
        evaluate_ppo(tmp_path / "walk", 2)


def test_a_training_without_its_checkpoints_is_not_begun_again(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "walk")
    shutil.rmtree(tmp_path / "walk" / "checkpoints")
    before = (tmp_path / "walk" / "evaluations.json").read_bytes()
    with pytest.raises(sn.errors.DatasetError, match="cannot be resumed: it has no checkpoints"):
        train_ppo(PPOOptions(steps=96, **SMALL), tmp_path / "walk", resume=True, tensorboard=False)
    assert (tmp_path / "walk" / "evaluations.json").read_bytes() == before


@pytest.mark.slow
def test_command_line(tmp_path, capsys):
    out = str(tmp_path / "walk")
    sizes = ["--envs", "4", "--steps", "32", "--option", "max_steps=6", "--brain", "horizon=4", "hidden=[16]"]
    assert main(["train", "walk", *sizes, "--out", out, "--no-tensorboard"]) == 0
    assert main(["train", "walk", "--out", out, "--resume", "--steps", "48", "--no-tensorboard"]) == 0
    assert main(["evaluate", out, "--episodes", "2"]) == 0
    assert "tracking" in capsys.readouterr().out
    assert main(["play", out, "--seconds", "0.1", "--out", str(tmp_path / "walk.mp4")]) == 0
    with av.open(str(tmp_path / "walk.mp4")) as file:
        frames = [frame.to_ndarray(format="rgb24") for frame in file.decode(video=0)]
    assert len(frames) == 3  # one per 0.04 s
    assert frames[0].shape == (480, 1280, 3)
    assert np.abs(frames[0][:, :640].astype(int) - frames[-1][:, :640]).max() > 0
    assert main(["train", "walk", "--stop-at", "0.5", "--out", str(tmp_path / "b")]) == 2


def test_the_learner_on_the_command_line(tmp_path, capsys):
    out = str(tmp_path / "balance")
    sizes = ["--envs", "4", "--steps", "32", "--brain", "horizon=4", "hidden=[16]", "--no-tensorboard"]
    assert main(["train", "balance", "--algorithm", "ppo", *sizes, "--option", "max_steps=6", "--out", out]) == 0
    options = PPOOptions.load(Path(out))
    assert (options.task, options.n_envs, options.evaluate_every) == ("balance", 4, 100_000)
    assert main(["train", "balance", "--resume", "--steps", "48", "--no-tensorboard", "--out", out]) == 0
    capsys.readouterr()
    assert main(["train", "balance", "--resume", "--algorithm", "sac", "--out", out]) == 2
    assert "is a training by PPO" in capsys.readouterr().err
    assert main(["train", "reach", "--resume", "--out", out]) == 2
    assert "is a training of the task 'balance', not 'reach'" in capsys.readouterr().err
    assert main(["train", "pick", "--algorithm", "ppo", "--out", str(tmp_path / "b")]) == 2
    assert "PPO trains tensor tasks" in capsys.readouterr().err
    assert main(["train", "balance", "--algorithm", "ppo", "--rig", "a.yaml", "--out", str(tmp_path / "b")]) == 2
    assert "there is no rig file 'a.yaml'" in capsys.readouterr().err
    assert main(["train", "balance", "--algorithm", "ppo", "--stop-at", "1", "--out", str(tmp_path / "b")]) == 2
    assert "--stop-at is an option of SAC" in capsys.readouterr().err
    for device in ([], ["--device", "cpu"]):
        assert main(["train", "walk", "--algorithm", "sac", *device, "--out", str(tmp_path / "b")]) == 2
        assert "--algorithm sac: there is no recipe to train 'walk' by SAC; remove" in capsys.readouterr().err


def test_tasks_that_do_not_run_on_a_gpu_are_named(tmp_path, capsys):
    assert main(["train", "pick", "--device", "cuda", "--out", str(tmp_path / "a")]) == 2
    error = capsys.readouterr().err
    assert "--device cuda: the task 'pick' runs on the CPU only" in error
    assert "tensor tasks, which run on a GPU, are walk, balance, reach, lift" in error


# -- a policy that was trained on a GPU -------------------------------------------------------------------------------

WALK = Path(__file__).parent / "data" / "walk"
"""A policy of `walk` after 60 s of training with 4,096 envs on an NVIDIA H200, with MuJoCo Warp."""


def test_a_policy_trained_on_a_gpu_walks_on_the_cpu():
    result = evaluate_ppo(WALK, episodes=8, device="cpu", max_steps=300)
    assert result.metrics["tracking"] > 0.88  # 0.933 on the GPU
    assert sum(result.successes) >= 7


@pytest.mark.slow
def test_it_needs_what_it_senses():
    """With readings that are useless, the same policy falls or stands."""
    plain = evaluate_ppo(WALK, episodes=8, device="cpu", max_steps=150)
    task = PPOOptions.load(WALK).make_task(8, seed=1, device="cpu")
    task.robot.rig["joints"].set(noise=1.0)
    task.robot.rig["attitude"].set(noise=1.0)
    blind = run_episodes(task, load_policy(WALK, task), 8)
    task.close()
    assert blind.metrics["tracking"] < 0.8 * plain.metrics["tracking"]


def test_a_policy_can_be_watched_in_the_browser(capsys):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    seen = []

    def visit():
        for _ in range(200):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=5) as page:
                    seen.append(page.status)
                    return
            except OSError:
                time.sleep(0.05)

    visitor = threading.Thread(target=visit)
    visitor.start()
    start = time.monotonic()
    assert main(["play", str(WALK), "--view", "--seconds", "1", "--port", str(port)]) == 0
    visitor.join()
    assert seen == [200]
    assert time.monotonic() - start > 0.9  # real time
    assert f"http://127.0.0.1:{port}" in capsys.readouterr().out
    assert main(["play", str(WALK)]) == 2
    assert "--view" in capsys.readouterr().err


OWN = """
import sensorium as sn
from sensorium.tasks.tensor import TensorBalance

class Calm(TensorBalance):
    name = "calm"

sn.tasks.TENSOR_TASKS["calm"] = Calm
"""


@pytest.mark.slow
def test_the_command_line_trains_a_task_of_ones_own(tmp_path):
    """In processes of their own, since the module is imported once per process."""
    (tmp_path / "calm_task.py").write_text(OWN)
    module, out = ["--module", str(tmp_path / "calm_task.py")], str(tmp_path / "run")
    small = ["--steps", "64", "--envs", "4", "--episodes", "2", "--option", "max_steps=6"]
    for words in (
        ["train", "calm", *small, "--brain", "horizon=4", "hidden=[16]", "--no-tensorboard", "--out", out, *module],
        ["evaluate", out, "--episodes", "2", *module],
        ["export-policy", out, *module],
    ):
        command = [sys.executable, "-m", "sensorium", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        if words[0] == "train":
            assert f"sensorium evaluate {out} --module" in done.stdout
    done = subprocess.run([*command[:4], out], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert "'calm'" in done.stderr
    assert "--module" in done.stderr
    assert "Traceback" not in done.stderr


def test_resume_without_a_training(tmp_path, capsys):
    assert main(["train", "walk", "--out", str(tmp_path / "run"), "--resume"]) == 1
    assert "run it again without --resume" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


# -- a robot of a model file -----------------------------------------------------------------------------------------

MODELS = Path(sn.robots.__file__).parent / "models"


def write_model(folder, name):
    """Write a robot of the catalogue as two model files and a rig; returns the paths of the model and of the rig."""
    (folder / "parts").mkdir(parents=True)
    text = (MODELS / f"{name}.xml").read_text().replace("<default>", '<include file="parts/size.xml"/><default>', 1)
    (folder / f"{name}2.xml").write_text(text)
    (folder / "parts" / "size.xml").write_text('<mujoco><statistic extent="2"/></mujoco>')
    rig = MODELS.parent / "rigs" / f"{name}.yaml"
    (folder / "rig.yaml").write_text(rig.read_text())
    return f"source/{name}2.xml", "source/rig.yaml"


def remove_source(tmp_path, monkeypatch, run):
    """Remove the model and its rig, move the folder of the training, and go to another folder."""
    shutil.rmtree(tmp_path / "source")
    (tmp_path / "other").mkdir()
    moved = (tmp_path / run).rename(tmp_path / "other" / "moved")
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    return moved


def test_a_training_of_a_model_file_by_ppo_needs_its_folder_only(tmp_path, monkeypatch):
    model, rig = write_model(tmp_path / "source", "quadruped")
    monkeypatch.chdir(tmp_path)
    options = {**SMALL, "task_options": {"max_steps": 6, "robot": model, "rig": rig}}
    train_ppo(PPOOptions(steps=32, **options), Path("run"), tensorboard=False)
    config = json.loads(Path("run/config.json").read_bytes())
    assert config["task_options"]["robot"] == "robot/quadruped2.xml"
    assert Path("run/robot/parts/size.xml").read_bytes() == Path("source/parts/size.xml").read_bytes()
    assert train_ppo(PPOOptions(steps=48, **options), Path("run"), resume=True, tensorboard=False).steps == 48
    (tmp_path / "source" / "parts" / "size.xml").write_text('<mujoco><statistic extent="3"/></mujoco>')
    with pytest.raises(sn.OptionError, match="cannot change on resume"):
        train_ppo(PPOOptions(steps=64, **options), Path("run"), resume=True, tensorboard=False)
    run = remove_source(tmp_path, monkeypatch, "run")
    assert len(evaluate_ppo(run, 2).returns) == 2
    assert main(["train", "walk", "--out", str(run), "--resume", "--steps", "64", "--no-tensorboard"]) == 0
    assert json.loads((run / "config.json").read_bytes())["task_options"]["robot"] == "robot/quadruped2.xml"
    assert main(["evaluate", str(run), "--episodes", "2"]) == 0
    assert main(["play", str(run), "--seconds", "0.1", "--out", str(tmp_path / "walk.mp4")]) == 0
    assert main(["export-policy", str(run)]) == 0
    assert json.loads((run / "policy.json").read_bytes())["robot"] == "robot/quadruped2.xml"


@pytest.mark.slow
def test_a_training_of_a_model_file_by_sac_needs_its_folder_only(tmp_path, monkeypatch):
    model, _ = write_model(tmp_path / "source", "balancer")
    monkeypatch.chdir(tmp_path)
    base = recipe("balance", n_envs=4, steps=32, warmup=16, memory=64, episodes=2, task_options={"max_steps": 6})
    actions = [each.model_dump() for each in sn.robots.make("balancer").options.actions]
    entity = base.entity.model_copy(update={"robot": model, "robot_options": {"actions": actions}})
    train(base.model_copy(update={"entity": entity}), Path("run"), tensorboard=False)
    run = remove_source(tmp_path, monkeypatch, "run")
    assert len(evaluate(run, 2).returns) == 2
    assert main(["train", "balance", "--out", str(run), "--resume", "--steps", "48", "--no-tensorboard"]) == 0
    assert main(["play", str(run), "--seconds", "0.1", "--out", str(tmp_path / "walk.mp4")]) == 0
    assert main(["export-policy", str(run)]) == 0
    assert json.loads((run / "config.json").read_bytes())["entity"]["robot"] == "robot/balancer2.xml"


# -- memory ----------------------------------------------------------------------------------------------------------


def test_too_many_steps_for_the_memory_are_refused(tmp_path, capsys):
    out = tmp_path / "run"
    sizes = ["--envs", "8", "--steps", "1000", "--brain", "horizon=2000000000"]
    assert main(["train", "walk", *sizes, "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert "horizon=2000000000: the steps of 8 envs between updates of PPO need" in error
    assert "use horizon <= " in error
    assert not out.exists()


def test_the_price_of_a_rollout_is_that_of_its_storage(tmp_path):
    trainer = PPOTrainer(PPOOptions(steps=32, **{**SMALL, "minibatches": 16}), tmp_path, False, False)
    storage = trainer.algorithm.storage
    tensors = [each for each in vars(storage).values() if isinstance(each, torch.Tensor)]
    held = sum(each.numel() * each.element_size() for each in (*tensors, *storage.observations.values(True, True)))
    held += 2 * storage.actions.numel() * 4  # parameters of the distribution, which the first step allocates
    priced = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ppo_memory, "check_memory", lambda option, value, what, each: priced.append(value * each))
        ppo_memory.check_rollout(trainer.options, trainer.env.get_observations(), trainer.env.num_actions)
    trainer.close()
    assert priced == [pytest.approx(held * 17 / 16, rel=0.05)]  # an update copies the steps of a minibatch


@pytest.mark.parametrize(
    ("device", "raised", "expected"),
    [
        ("cuda", torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB"), sn.DeviceError),
        ("cpu", RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate"), sn.OptionError),
    ],
)
def test_too_little_memory_in_an_update_names_the_options(monkeypatch, device, raised, expected):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2**30, 2**31))
    with (
        pytest.raises(expected, match=r"n_envs=16, horizon=9 and minibatches=4.*Lower n_envs or horizon"),
        ppo_memory.explain_too_little_memory(PPOOptions(device=device, n_envs=16, horizon=9)),
    ):
        raise raised
    with pytest.raises(RuntimeError, match="another"), ppo_memory.explain_too_little_memory(PPOOptions()):
        raise RuntimeError("another")
