"""An ONNX file acts on the observations that ``TorchDataset`` would give to the network that it was exported from."""

from pathlib import Path

import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.cli import main
from sensorium.datasets import TorchDataset
from sensorium.generation import GenerateOptions, generate
from sensorium.generation.sources import make_policy, make_task

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'sensorium[test]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'sensorium[deploy]'")

WALK = Path(__file__).parent / "data" / "walk"
"""Folder of a training of "walk" by PPO."""
FLOAT = onnx.TensorProto.FLOAT


def save_linear(path, inputs, n_actions, batch="B", rng=None):
    """Write a file whose action is the sum of a linear function of each input; return the matrices (k, n_actions).

    Args:
        path: the file.
        inputs: name -> shape of one env and ONNX's element type.
        n_actions: number of outputs.
        batch: name or length of the batch axis.
        rng: generator of the matrices.
    """
    from onnx import helper, numpy_helper

    rng, weights, nodes, sums = rng or np.random.default_rng(0), {}, [], []
    for number, (name, (shape, _)) in enumerate(inputs.items()):
        size = int(np.prod(shape))
        weights[name] = rng.uniform(-0.1, 0.1, (size, n_actions)).astype(np.float32) / size
        nodes += [
            helper.make_node("Cast", [name], [f"float{number}"], to=FLOAT),
            helper.make_node("Flatten", [f"float{number}"], [f"flat{number}"], axis=1),
            helper.make_node("MatMul", [f"flat{number}", f"weight{number}"], [f"part{number}"]),
        ]
        sums.append(f"part{number}")
    nodes.append(helper.make_node("Sum", sums, ["action"]))
    graph = helper.make_graph(
        nodes,
        "linear",
        [helper.make_tensor_value_info(name, kind, [batch, *shape]) for name, (shape, kind) in inputs.items()],
        [helper.make_tensor_value_info("action", FLOAT, [batch, n_actions])],
        [numpy_helper.from_array(each, f"weight{number}") for number, each in enumerate(weights.values())],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return weights


def check_actions(folder, weights):
    """Check that every action of a dataset is that of the linear function of the sample's observations."""
    data = TorchDataset(folder, list(weights))
    for index in range(len(data)):
        sample = data[index]
        wanted = sum(sample[name].numpy().reshape(-1).astype(np.float64) @ each for name, each in weights.items())
        np.testing.assert_allclose(sample["action"][0], wanted, rtol=1e-4, atol=1e-5)


def test_generate_with_an_onnx_file(tmp_path, capsys):
    weights = save_linear(tmp_path / "push.onnx", {"qpos": ((2,), FLOAT), "qvel": ((2,), FLOAT)}, 2)
    words = ["balance", "--policy", str(tmp_path / "push.onnx"), "--episodes", "3", "--envs", "2", "--option"]
    out = tmp_path / "out"
    assert main(["generate", *words, "max_steps=5", "--no-successes-only", "--out", str(out)]) == 0
    assert sn.datasets.validate(out).valid
    assert sn.datasets.Dataset(out)[0].attributes["policy"].endswith("push.onnx")
    check_actions(out, weights)
    capsys.readouterr()


def test_inputs_are_laid_out_as_in_training(tmp_path):
    """Groups are in the robot's order without the base, images are (C, H, W), one array of a nested sensor is named."""
    camera = {"name": "front", "resolution": (16, 12), "pos": (1.5, 0, 1.1), "lookat": (0.4, 0, 0.5)}
    inputs = {
        "qpos": ((9,), onnx.TensorProto.DOUBLE),
        "qpos.base": ((3,), FLOAT),
        "object_poses.pickup_obj": ((1, 7), FLOAT),
        "front_segmentation": ((2, 12, 16), onnx.TensorProto.INT32),
    }
    weights = save_linear(tmp_path / "act.onnx", inputs, 11)
    options = {"max_steps": 4, "cameras": [{**camera, "segmentation": True}]}
    made = GenerateOptions(
        task="pick",
        robot="mobile_franka",
        policy=str(tmp_path / "act.onnx"),
        episodes=1,
        envs=1,
        options=options,
        successes_only=False,
    )
    generate(made, tmp_path / "out")
    check_actions(tmp_path / "out", weights)


def test_files_that_do_not_fit_are_refused(tmp_path):
    path = tmp_path / "bad.onnx"

    def refused(message):
        with pytest.raises(sn.OptionError, match=message):
            generate(
                GenerateOptions(task="balance", policy=str(path), episodes=1, envs=2, options={"max_steps": 2}),
                tmp_path / "out",
            )

    save_linear(path, {"qposs": ((4,), FLOAT)}, 2)
    refused(r"the input 'qposs' of .*bad\.onnx is no observation of the task \(did you mean 'qpos'")
    save_linear(path, {"task_info": ((4,), FLOAT)}, 2)
    refused("'task_info' .* is no observation of the task")
    save_linear(path, {"qpos": ((5,), FLOAT)}, 2)
    refused(r"has shape \(B, 5\), but the sensor \(2,\)")
    save_linear(path, {"qpos": ((2,), FLOAT)}, 2, batch=1)
    refused(r"takes 1 envs at a time, and the task has 2: export it with a dynamic batch axis, or set envs=1")
    save_linear(path, {"qpos": ((2,), FLOAT)}, 3)
    refused(r"the first output of .* has shape \(2, 3\) instead of \(2, 2\)")
    path.write_bytes(b"no model")
    refused(r"cannot load .*bad\.onnx")


def export_walk(path):
    """Export the trained policy of "walk" as the documentation shows."""
    task = sn.tasks.make("walk", n_envs=2)
    network = sn.training.load_policy(WALK, task).as_onnx(verbose=False).eval()
    example = torch.zeros(2, network.input_size)
    torch.onnx.export(network, example, path, input_names=network.input_names, dynamic_shapes=({0: "B"},))
    task.close()


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")  # of torch.onnx itself
@pytest.mark.slow
def test_exported_training_of_a_tensor_task_acts_like_its_folder(tmp_path, capsys):
    pytest.importorskip("onnxscript", reason="torch.onnx needs onnxscript")
    export_walk(tmp_path / "walk.onnx")
    for name, policy in {"file": tmp_path / "walk.onnx", "run": WALK}.items():
        words = ["--episodes", "3", "--envs", "3", "--option", "max_steps=20", "--out", str(tmp_path / name)]
        assert main(["generate", "walk", "--policy", str(policy), *words]) == 0
    assert sn.datasets.validate(tmp_path / "file").valid
    for ours, theirs in zip(sn.datasets.open(tmp_path / "file"), sn.datasets.open(tmp_path / "run"), strict=True):
        np.testing.assert_allclose(ours["actions/action"], theirs["actions/action"], atol=1e-3)
        assert np.abs(theirs["actions/action"]).max() > 0.1
    capsys.readouterr()


def tensor_actions(path, shapes, weights_of, **options):
    """Let a file act for three steps of a tensor task; yield the task, its actions and the expected ones."""
    made = GenerateOptions(policy=str(path), episodes=2, envs=2, **options)
    episodes = make_task(made)
    weights = save_linear(path, {name: (shape, FLOAT) for name, shape in shapes.items()}, episodes.robot.n_actions)
    policy = make_policy(made, episodes)
    episodes.register_policy(policy)
    observation, _ = episodes.reset()
    for _ in range(3):
        values = weights_of(episodes, observation)
        wanted = sum(np.asarray(values[name]).reshape(2, -1).astype(np.float64) @ weights[name] for name in shapes)
        action = policy.get_action(observation)
        np.testing.assert_allclose(action, wanted, rtol=1e-4, atol=1e-5)
        observation, *_ = episodes.step(action)
    episodes.close()


def test_inputs_of_a_tensor_task_by_name(tmp_path):
    shapes = {"robot_imu.ang_vel": (3,), "robot_joints.positions": (12,), "command": (3,), "obs": (2 * 45,)}

    def read(episodes, observation):
        parts = observation["robot_imu"]["ang_vel"], observation["robot_joints"]["positions"], observation["command"]
        return dict(zip(shapes, (*parts, episodes.task.groups()["actor"]), strict=True))

    tensor_actions(tmp_path / "a.onnx", shapes, read, task="walk", options={"history": 2, "max_steps": 9})


def test_cameras_of_a_tensor_task_are_inputs(tmp_path):
    tensor_actions(
        tmp_path / "a.onnx",
        {"obs": (32,), "image_front": (3, 84, 84)},
        lambda episodes, _: {"obs": episodes.task.groups()["actor"], **episodes.task.images()},
        task="lift",
        options={"camera": True, "max_steps": 9},
    )


def test_device_chooses_the_tensor_form_of_a_task(tmp_path):
    task = sn.tasks.make("balance", n_envs=2, device="cpu")
    shape = tuple(task.groups()["actor"].shape[1:])
    task.close()
    options = {"task": "balance", "options": {"device": "cpu", "max_steps": 9}}
    tensor_actions(
        tmp_path / "a.onnx", {"obs": shape}, lambda episodes, _: {"obs": episodes.task.groups()["actor"]}, **options
    )
    for device, message in (("cuda", "datasets are generated on the CPU, got 'cuda'"), ("cpu", "there is no planner")):
        with pytest.raises(sn.OptionError, match=message):
            make_task(GenerateOptions(task="balance", policy="planner", episodes=1, options={"device": device}))
