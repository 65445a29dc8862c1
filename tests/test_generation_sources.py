"""Datasets are generated with trained policies, and with tasks, policies, robots and rigs of one's own."""

import sys
import textwrap

import numpy as np
import pytest

import sensorium as sn
from sensorium.cli import main
from sensorium.generation import GenerateOptions, generate
from sensorium.training import load_brain, recipe, train

MODULE = """
import numpy as np
import sensorium as sn
from sensorium.tasks.balance import Balance

class Lean(Balance):
    name = "own_lean"

    def judge(self):
        return self.step_count >= 5

sn.tasks.TASKS[Lean.name] = Lean

def push(observation):
    return np.full((len(observation["qpos"]["body"]), 2), 0.125)

class Pull(sn.policies.Policy):
    def get_action(self, observation):
        return np.full((self.task.n_envs, 2), -0.25)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A file with a task and two policies, as a user would write it."""
    path = tmp_path / "own_tasks.py"
    path.write_text(MODULE)
    yield str(path)
    sys.modules.pop("own_tasks", None)
    sn.tasks.TASKS.pop("own_lean", None)


@pytest.mark.parametrize(("policy", "value"), [("own_tasks:push", 0.125), ("own_tasks:Pull", -0.25)])
def test_tasks_and_policies_of_a_module(module, tmp_path, policy, value, capsys):
    out = tmp_path / "out"
    arguments = ["own_lean", "--modules", module, "--policy", policy, "--episodes", "2", "--envs", "2"]
    options = ["--option", "max_steps=6", "fall=3", "range=50", "--out", str(out)]
    assert main(["generate", *arguments, *options]) == 0
    assert sn.datasets.validate(out).valid
    for episode in sn.datasets.Dataset(out):
        np.testing.assert_array_equal(episode["actions/action"], value)
    capsys.readouterr()


@pytest.mark.slow
def test_workers_import_the_module(module, tmp_path, capsys):
    out = tmp_path / "out"
    options = ["--policy", "own_tasks:push", "--episodes", "2", "--envs", "1", "--workers", "2", "--out", str(out)]
    given = ["--option", "max_steps=6", "fall=3", "range=50"]
    assert main(["generate", "own_lean", "--module", module, *options, *given]) == 0
    assert len(sn.datasets.Dataset(out)) == 2
    capsys.readouterr()


@pytest.mark.slow
def test_processes_of_a_cluster_import_the_module(module, tmp_path, monkeypatch, capsys):
    pytest.importorskip("ray")
    monkeypatch.chdir(tmp_path)  # a relative path, which processes of a cluster find in the same folder
    options = ["--policy", "own_tasks:push", "--episodes", "4", "--envs", "1", "--option", "max_steps=6", "fall=3"]
    words = ["generate", "own_lean", "--module", "own_tasks.py", *options, "range=50"]
    assert main([*words, "--cluster", "local", "--workers", "2", "--out", "ray"]) == 0
    assert main([*words, "--out", "alone"]) == 0
    files = sorted(path.name for path in (tmp_path / "alone").glob("episode_*"))
    assert len(files) == 4
    for name in files:
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()
    capsys.readouterr()


@pytest.mark.slow
def test_episodes_of_a_trained_policy_are_its_decisions(tmp_path):
    options = recipe("balance", steps=32, n_envs=2, warmup=8, evaluate_every=32, episodes=1, checkpoint_every=32)
    train(options, tmp_path / "run", tensorboard=False)
    made = GenerateOptions(
        task="balance",
        policy=str(tmp_path / "run"),
        episodes=1,
        envs=1,
        options={"max_steps": 5},
        successes_only=False,
    )
    generate(made, tmp_path / "data")
    episode = sn.datasets.Dataset(tmp_path / "data")[0]
    names = [sensor.name for sensor in options.entity.sensors.sensors]
    assert {f"robot_{name}" for name in names} <= set(episode.suite)
    assert {"qpos", "env_states", "task_info"} <= set(episode.suite)  # the data of the task are complete

    brain, entity = load_brain(tmp_path / "run"), options.entity.make()
    first = {name: _reading(episode, name, entity.observation_space[name]) for name in entity.observation_space}
    np.testing.assert_allclose(brain.decide_batch(first, True)[0], episode["actions/action"][0], atol=1e-5)


def _reading(episode, name, space):
    """Return the first reading of a rig's sensor in the form of the entity's observation."""
    path = f"obs/extra/robot_{name}"
    if hasattr(space, "spaces"):
        return {key: episode[f"{path}/{key}"][:1] for key in space}
    return episode[path][:1]


def test_rig_file_replaces_the_sensors_of_the_robot(tmp_path, capsys):
    rig = tmp_path / "rig.yaml"
    rig.write_text(
        textwrap.dedent(
            """
            sensors:
              - {name: gyro, type: IMU, options: {acc_noise: 0.5, delay: 0.02}}
              - {name: eye, type: Camera, mount: {pos: [0.1, 0, 0.1]}, options: {resolution: [40, 24], profile: rgbd}}
            """
        )
    )
    arguments = ["balance", "--rig", str(rig), "--policy", "random", "--episodes", "1", "--envs", "1"]
    assert main(["generate", *arguments, "--option", "max_steps=4", "--out", str(tmp_path / "a")]) == 0
    assert sn.datasets.validate(tmp_path / "a").valid
    data = sn.datasets.Dataset(tmp_path / "a")
    assert data[0].cameras == ["robot_eye"]
    assert data[0].camera_profile("robot_eye") == sn.CameraProfile.named("rgbd")
    assert data[0]["obs/extra/robot_gyro/lin_acc"].std() > 0.1
    assert data.header["options"]["rig"]["sensors"][0]["name"] == "gyro"
    assert main(["generate", *arguments, "--option", "max_steps=4", "--out", str(tmp_path / "a")]) == 0  # complete
    capsys.readouterr()


@pytest.mark.slow
def test_one_rig_file_serves_record_replay_train_and_generate(tmp_path, capsys):
    rig = tmp_path / "rig.yaml"
    rig.write_text(
        "sensors:\n  - {name: imu, type: IMU, mount: {pos: [0.1, 0, 0]}, options: {acc_noise: 0.5, delay: 0.02}}\n"
    )
    record = ["--robot", "balancer", "--scenario", "random-acceleration", "--steps", "8", "--rig", str(rig)]
    assert main(["record", *record, "--out", str(tmp_path / "recorded")]) == 0
    assert main(["replay", str(tmp_path / "recorded"), "--sensors", str(rig), "--out", str(tmp_path / "seen")]) == 0
    recorded, seen = (sn.recording.Recording(tmp_path / name) for name in ("recorded", "seen"))
    (name,) = [each for each in recorded.names if each.endswith("imu.measured")]
    (again,) = [each for each in seen.names if each.endswith("imu.measured")]
    for step in range(8):  # the noise of a sensor depends on its uuid, so the readings are the same bits
        np.testing.assert_array_equal(seen[step][again], recorded[step][name])
    train_options = ["--steps", "16", "--envs", "2", "--episodes", "1", "--no-tensorboard", "--rig", str(rig)]
    assert main(["train", "balance", *train_options, "--out", str(tmp_path / "run")]) == 0
    arguments = ["--policy", str(tmp_path / "run"), "--episodes", "1", "--envs", "1", "--no-successes-only"]
    assert main(["generate", "balance", *arguments, "--option", "max_steps=3", "--out", str(tmp_path / "data")]) == 0
    assert "obs/extra/robot_imu/lin_acc" in sn.datasets.Dataset(tmp_path / "data")[0].paths()
    capsys.readouterr()


def test_robot_objects_are_stored_with_the_options(tmp_path):
    robot = sn.robots.make("balancer", radius=0.3, rig=sn.robots.SensorRig())
    options = GenerateOptions(
        task="balance", robot=robot, policy="random", episodes=1, envs=1, options={"max_steps": 3}
    )
    assert GenerateOptions.model_validate_json(options.model_dump_json()) == options
    generate(options, tmp_path / "a")
    assert sn.datasets.Dataset(tmp_path / "a")[0].attributes["robot"] == "balancer"


def test_unknown_policies_and_modules_raise(tmp_path):
    def make(**options):
        generate(GenerateOptions(task="balance", episodes=1, **options), tmp_path / "x")

    with pytest.raises(sn.OptionError, match=r"there is no file 'walk\.onnx'"):
        make(policy="walk.onnx")
    with pytest.raises(sn.OptionError, match="has no policy, function or entity named 'nothing'"):
        make(policy="textwrap:nothing")
    with pytest.raises(sn.OptionError, match=r"modules: there is no file 'missing\.py'"):
        make(modules=("missing.py",))
    (tmp_path / "textwrap.py").write_text("")  # not imported silently as the module of that name
    with pytest.raises(sn.OptionError, match=r"modules: '.*textwrap\.py' has the name of a module that is imported"):
        make(modules=(str(tmp_path / "textwrap.py"),))
    with pytest.raises(sn.OptionError, match="modules: cannot import 'no_such_module'"):
        make(modules=("no_such_module",))


def test_entity_of_a_module_brings_its_robot_and_sensors(tmp_path, capsys):
    path = tmp_path / "own_entities.py"
    path.write_text(
        "import sensorium as sn\n"
        "sensors = [sn.IMU(link='torso', uuid='imu'), sn.JointEncoder(joints=[0, 1], uuid='wheels')]\n"
        "entity = sn.TrainableEntity(robot='balancer', sensors=sensors, brain=sn.SACMLPBrain)\n"
        "class Config(sn.tasks.BalanceConfig):\n    robot: str = 'diffdrive'\n"
        "class Stand(sn.tasks.Balance):\n    name, config_type = 'own_stand', Config\n"
        "sn.tasks.TASKS['own_stand'] = Stand\n"
    )
    out = str(tmp_path / "out")
    words = ["generate", "balance", "--module", str(path), "--policy", "own_entities:entity", "--no-successes-only"]
    words += ["--episodes", "1", "--envs", "1", "--option", "max_steps=4", "--out", out]
    try:
        assert main(words) == 0
        episode = sn.datasets.Dataset(out)[0]
        assert {"robot_imu", "robot_wheels"} <= set(episode.suite)
        assert episode.attributes["robot"] == "balancer"
        assert (
            main([*words[:1], "own_stand", *words[2:], "--out", str(tmp_path / "stand")]) == 0
        )  # not the task's robot
        assert main([*words, "--robot", "diffdrive", "--out", str(tmp_path / "other")]) != 0
        assert "the policy acts on 'balancer', got 'diffdrive'" in capsys.readouterr().err
    finally:
        sys.modules.pop("own_entities", None)
        sn.tasks.TASKS.pop("own_stand", None)


def test_message_about_another_robot_is_short(tmp_path):
    robot = sn.robots.make("balancer")
    made = {"task": "balance", "policy": "random", "episodes": 1, "envs": 1, "options": {"max_steps": 2}}
    generate(GenerateOptions(robot=robot, **made), tmp_path / "data")
    with pytest.raises(sn.DatasetError, match=r"robot_options = .*\.\.\., got None; choose another folder") as error:
        generate(GenerateOptions(**made), tmp_path / "data")
    assert len(str(error.value)) < 600


REFUSED = {
    "unknown policy": (GenerateOptions(task="balance", policy="nonesuch"), "nonesuch"),
    "no planner": (GenerateOptions(task="balance"), "planner"),
    "no file": (GenerateOptions(task="balance", policy="nonesuch.onnx"), "there is no file 'nonesuch.onnx'"),
    "robot": (GenerateOptions(task="balance", robot="nonesuch", policy="random"), "nonesuch"),
    "option": (GenerateOptions(task="balance", policy="random", options={"nonesuch": 1}), "nonesuch"),
    "camera": (GenerateOptions(task="pick", policy="random", options={"cameras": [{"name": 3}]}), "name"),
    "sensors": (GenerateOptions(task="pick", policy="random", options={"use_sensors": False}), "without observations"),
    "tensor task": (GenerateOptions(task="lift"), "no planner for the tensor task"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_call_leaves_the_folder_as_it_was(tmp_path, name):
    options, words = REFUSED[name]
    with pytest.raises(sn.SensoriumError, match=words):
        generate(options, tmp_path / "new" / "data")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "data").mkdir()
    with pytest.raises(sn.SensoriumError, match=words):
        generate(options, tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.parametrize("place", [{"workers": 2}, {"cluster": "local"}], ids=str)
def test_a_refused_call_of_other_processes_leaves_the_folder_as_it_was(tmp_path, place):
    if "cluster" in place:
        pytest.importorskip("ray")
    with pytest.raises(sn.OptionError, match=r"there is no file .nonesuch\.onnx"):
        generate(REFUSED["no file"][0], tmp_path / "data", **place)
    assert list(tmp_path.iterdir()) == []


def test_a_refused_call_does_not_change_the_header_of_a_dataset(tmp_path):
    good = GenerateOptions(task="balance", policy="random", episodes=1, envs=1, options={"max_steps": 3})
    generate(good, tmp_path / "data")
    for path in (tmp_path / "data").glob("episode_*"):  # a dataset without episodes can be replaced
        path.unlink()
    before = (tmp_path / "data" / "dataset.json").read_bytes()
    with pytest.raises(sn.OptionError):
        generate(REFUSED["no planner"][0], tmp_path / "data")
    assert (tmp_path / "data" / "dataset.json").read_bytes() == before
