"""SAC on tensor tasks: the files of a training, exact resume, evaluation, policy files and the commands."""

import json

import numpy as np
import pytest
import torch
from test_training import QUICK, KilledError, killed_after, weights

import sensorium as sn
from sensorium.cli import main
from sensorium.entities import ClusterOptions, Memory
from sensorium.errors import OptionError
from sensorium.robots import RigSensor, SensorMount, SensorRig
from sensorium.training import EntityOptions, TrainOptions, evaluate, export_policy, load_brain, recipe, train

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
TRUTH = SensorRig(sensors=(RigSensor(name="truth", type="FramePose", mount=SensorMount(link="torso")),))


def options_of(device="cpu", **changes):
    entity = recipe("balance").entity.model_copy(update={"privileged": TRUTH})
    return recipe("balance", **{**QUICK, "entity": entity, "device": device, **changes})


@pytest.fixture(scope="module", params=DEVICES)
def whole(request, tmp_path_factory):
    """Return the folder of an uninterrupted training."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    train(options_of(request.param), folder, tensorboard=False)
    return folder


@pytest.mark.slow
def test_training_keeps_brain_and_memory_on_the_device(whole):
    options = TrainOptions.load(whole)
    brain = load_brain(whole, "last")
    assert brain.device.type == options.device
    assert {"last_action", "privileged/truth.pos"} <= set(brain._inputs.boxes)
    assert "privileged/truth.pos" not in brain._inputs.actor_names
    newest = sorted((whole / "checkpoints").iterdir())[-1]
    memory = Memory.load(newest / "memory", device=options.device)
    assert len(memory) == 480
    batch = memory.sample(300)
    assert bool((batch.observation["last_action"] != 0).any())
    ended = (batch.truncated | batch.terminated).bool()
    assert bool(ended.any())
    # the next observation is the end of the episode, where the last action is not yet 0, as in a new one
    torch.testing.assert_close(batch.next_observation["last_action"], batch.action)
    evaluations = json.loads((whole / "evaluations.json").read_bytes())
    assert [each["steps"] for each in evaluations] == [160, 320, 480]
    assert len({tuple(each["episodes"]["returns"]) for each in evaluations}) == 3  # different episodes each time
    assert {"distance", "tilt"} <= set(evaluations[0])


@pytest.mark.slow
@pytest.mark.parametrize("kill_at", [200, 320])
@pytest.mark.parametrize("memory", [2_000, ClusterOptions(capacity=2_000, clusters=4, warmup=120)])
def test_killed_and_resumed_training_on_tensors_is_bit_identical(tmp_path, kill_at, memory):
    options = options_of(memory=memory)
    train(options, tmp_path / "whole", tensorboard=False)
    with pytest.raises(KilledError):
        train(options, tmp_path / "run", progress=killed_after(kill_at), tensorboard=False)
    assert train(options, tmp_path / "run", resume=True, tensorboard=False).steps == 480
    mine, other = weights(tmp_path / "run"), weights(tmp_path / "whole")
    assert all(np.array_equal(mine[name], other[name]) for name in mine)
    files = ((tmp_path / name / "evaluations.json").read_bytes() for name in ("run", "whole"))
    assert next(files) == next(files)


@pytest.mark.slow
def test_evaluation_on_tensors_is_deterministic(whole):
    first, again = (evaluate(whole, episodes=5, device="cpu") for _ in range(2))
    assert first == again
    assert (len(first.returns), first.max_return) == (5, 30)
    assert evaluate(whole, episodes=5, seed=7, device="cpu") != first
    without_truth = recipe("balance").entity  # the actor does not need it
    assert len(evaluate(whole, episodes=2, entity=without_truth, device="cpu").returns) == 2


@pytest.mark.slow
def test_policy_file_acts_as_the_brain(whole, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    contract = export_policy(whole, tmp_path / "policy.onnx", which="last")
    terms = {term.name: term for term in contract.observations}
    assert terms["last_action"].source == "previous_action"
    brain = load_brain(whole, "last", device="cpu")
    rng = np.random.default_rng(0)
    readings = {name: rng.normal(size=(50, *brain._inputs.boxes[name].shape)) for name in brain._inputs.actor_names}
    readings = {name: value.astype(np.float32) for name, value in readings.items()}
    flat = np.concatenate([readings[name].reshape(50, -1) for name in terms], axis=1)
    session = onnxruntime.InferenceSession(str(tmp_path / "policy.onnx"), providers=["CPUExecutionProvider"])
    (action, *_) = session.run(None, {session.get_inputs()[0].name: flat})
    np.testing.assert_allclose(action, brain.decide_batch(readings, deterministic=True), atol=1e-4)


def test_walk_trains_by_sac(tmp_path):
    imu = RigSensor(name="imu", type="IMU", mount=SensorMount(link="torso"), options={"delay": 0.02})
    joints = RigSensor(name="joints", type="JointEncoder", options={"noise": 0.01})
    options = TrainOptions(
        task="walk",
        entity=EntityOptions(robot="quadruped", sensors=SensorRig(sensors=(imu, joints))),
        device="cpu",
        **{**QUICK, "steps": 160},
    )
    result = train(options, tmp_path / "run", tensorboard=False)
    assert result.finished
    assert 0 < result.best.metrics["tracking"] <= 1
    assert (tmp_path / "run" / "policy.onnx").is_file()


@pytest.mark.slow
def test_balance_is_learned_on_tensors(tmp_path):
    """Far more than an idle robot, whose return is about 25; 187 was measured."""
    options = recipe("balance", steps=10_000, evaluate_every=2_000, checkpoint_every=10_000, device="cpu")
    train(options, tmp_path / "run", tensorboard=False)
    assert evaluate(tmp_path / "run", episodes=10).mean > 75


@pytest.mark.slow
def test_commands_on_tensors(tmp_path, capsys):
    out = str(tmp_path / "run")
    sizes = ["--envs", "4", "--steps", "1040", "--brain", "hidden=[16]", "--gradient-steps", "1"]
    sizes = [*sizes, "--option", "max_steps=20", "--episodes", "2", "--no-tensorboard"]
    assert main(["train", "balance", "--algorithm", "sac", "--device", "cpu", *sizes, "--out", out]) == 0
    assert TrainOptions.load(tmp_path / "run").device == "cpu"
    assert main(["train", "balance", "--resume", "--steps", "1060", "--no-tensorboard", "--out", out]) == 0
    assert main(["evaluate", out, "--episodes", "3", "--device", "cpu"]) == 0
    assert "tilt" in capsys.readouterr().out
    generate = ["generate", "balance", "--policy", out, "--episodes", "1", "--out", str(tmp_path / "data")]
    assert main(generate) == 2
    assert "use its policy.onnx" in capsys.readouterr().err


@pytest.mark.slow
def test_wrong_options_on_tensors_raise(whole, tmp_path):
    with pytest.raises(OptionError, match="the training sets 'device' itself"):
        train(options_of(task_options={"device": "cpu"}), tmp_path / "a")
    assert not (tmp_path / "a").exists()
    with pytest.raises(OptionError, match=r"device is .* in this training and cannot change on resume"):
        train(options_of(device=None), whole, resume=True)
    train(recipe("balance", **QUICK), tmp_path / "arrays", tensorboard=False, stop=lambda: True)
    with pytest.raises(OptionError, match="is a training on arrays"):
        evaluate(tmp_path / "arrays", episodes=2, device="cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_missing_device_of_a_training_raises(tmp_path):
    with pytest.raises(sn.errors.DeviceError):
        train(options_of(device="cuda"), tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_non_finite_reward_raises_on_tensors(tmp_path, monkeypatch):
    from sensorium.tasks.tensor import TensorBalance

    real = TensorBalance.rewards

    def broken(task):
        terms = real(task)
        return {**terms, "near": torch.where(task.step_count == 9, torch.nan, terms["near"])}

    monkeypatch.setattr(TensorBalance, "rewards", broken)
    with pytest.raises(sn.SensoriumError, match=r"near|finite"):
        train(options_of(), tmp_path / "run", tensorboard=False)
