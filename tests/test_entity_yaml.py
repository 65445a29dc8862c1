"""Entities as YAML: reading, writing, and errors with line numbers."""

from pathlib import Path

import numpy as np
import pytest

import sensorium as sn
from sensorium.entities.rig_options import options_of, rig_of
from sensorium.errors import OptionError

FILE = """\
# A balancer with the sensors of a cheap IMU board.
robot: balancer
rate: 25
sensors:
  - IMU: {link: torso, rate: 200, acc_noise: 0.05, delay: 0.02}
  - JointEncoder:
      joints: [0, 1]
      noise: 0.002
  - Camera: {uuid: eye, resolution: [40, 44], pos: [0.06, 0, 0.2]}
privileged:
  - FramePose: {link: torso}
brain:
  SACMLPBrain: {hidden: [16, 16], seed: 3}
memory: 500
"""


class Still:
    """A custom brain."""

    def __init__(self, observation_space, action_space, push=0.0):
        self.action = np.full(action_space.shape, push)

    def decide(self, observation, deterministic=False):
        return self.action

    def decide_batch(self, observation, deterministic=False):
        return np.tile(self.action, (len(observation["imu"]["lin_acc"]), 1))


class HookedIMU(sn.IMU):
    """Custom sensor options."""


def test_yaml_entity_equals_the_python_entity():
    read = sn.TrainableEntity.from_yaml(FILE)
    made = sn.TrainableEntity(
        "balancer",
        [
            sn.IMU(link="torso", rate=200, acc_noise=0.05, delay=0.02),
            sn.JointEncoder(joints=[0, 1], noise=0.002),
            sn.Camera(uuid="eye", resolution=(40, 44), pos=(0.06, 0, 0.2)),
        ],
        sn.SACMLPBrain,
        privileged=[sn.FramePose(link="torso")],
        brain_options={"hidden": (16, 16), "seed": 3},
        rate=25,
        memory=500,
    )
    assert read.observation_space == made.observation_space
    assert list(read.observation_space) == ["imu", "joint_encoder", "eye", "privileged/frame_pose"]
    assert (read.rate, read.action_space) == (25.0, made.action_space)
    tasks = [sn.tasks.make("balance", entities={"a": each}, n_envs=2, seed=1) for each in (read, made)]
    first, second = (task.reset()[0]["a"] for task in tasks)
    np.testing.assert_array_equal(first["imu"]["lin_acc"], second["imu"]["lin_acc"])
    actions = [each.decide_batch(first, deterministic=True) for each in (read, made)]
    np.testing.assert_array_equal(*actions)
    assert read.memory.capacity == made.memory.capacity == 500


def test_yaml_round_trip(tmp_path):
    read = sn.TrainableEntity.from_yaml(FILE)
    file = tmp_path / "robot.yaml"
    text = read.to_yaml(file)
    assert file.read_text() == text
    for source in (file, str(file), text):
        again = sn.TrainableEntity.from_yaml(source)
        assert again._rig == read._rig
        assert again.to_yaml() == text
    assert "- IMU: {link: torso, rate: 200.0, delay: 0.02, acc_noise: 0.05}" in text
    assert "uuid: eye" in text
    assert "uuid: imu" not in text  # the default name is not written


def test_cluster_options_round_trip():
    memory = "memory: {capacity: 900, clusters: 3, warmup: 60, keys: [imu]}"
    text = f"robot: balancer\nsensors:\n  - IMU: {{link: torso}}\n{memory}\n"
    read = sn.TrainableEntity.from_yaml(text)
    assert sn.TrainableEntity.from_yaml(read.to_yaml()).to_yaml() == read.to_yaml()
    sn.tasks.make("balance", entity=read, n_envs=2)
    assert read.memory.options == sn.entities.ClusterOptions(capacity=900, clusters=3, warmup=60, keys=("imu",))
    assert memory in " ".join(read.to_yaml().split())


def test_sensor_names_round_trip():
    imu = sn.IMU(link="torso")
    robot = sn.TrainableEntity("balancer", [imu, sn.IMU(link="torso", uuid="imu_3"), imu, imu], privileged=[imu])
    again = sn.TrainableEntity.from_yaml(robot.to_yaml())
    assert list(again.suite) == list(robot.suite) == ["imu", "imu_3", "imu_2", "imu_4", "privileged/imu_5"]
    with pytest.raises(OptionError, match="two sensors have the uuid 'a'"):
        sn.TrainableEntity("balancer", [sn.IMU(link="torso", uuid="a"), sn.IMU(link="torso", uuid="a")])


@pytest.mark.parametrize("turn", [{"quat": (0.5, 0.5, -0.5, -0.5)}, {"euler": (1.0, 0.2, 0.0)}, {"lookat": (1, 1, 0)}])
def test_camera_poses_round_trip(turn):
    robot = sn.TrainableEntity("balancer", [sn.Camera(resolution=(4, 4), pos=(0.0, 0.0, 0.3), **turn)])
    again = sn.TrainableEntity.from_yaml(robot.to_yaml())
    quats = []
    for each in (robot, again):
        task = sn.tasks.make("balance", entity=each, tilt=0.0)
        task.reset()
        quats.append(task.robot.rig["camera"].cam2world_gl.numpy())
    np.testing.assert_allclose(*quats, atol=1e-6)


def test_custom_brains_and_sensors_are_named_by_module_and_class():
    name = __name__
    text = f"robot: balancer\nsensors:\n  - {name}:HookedIMU: {{link: torso, uuid: imu}}\n"
    text += f"brain:\n  {name}:Still: {{push: 0.5}}\n"
    robot = sn.TrainableEntity.from_yaml(text)
    assert isinstance(robot.brain, Still)
    assert robot.decide({}).tolist() == [0.5, 0.5]
    assert sn.TrainableEntity.from_yaml(robot.to_yaml()).to_yaml() == robot.to_yaml()
    with pytest.raises(OptionError, match="cannot name the brain"):
        sn.TrainableEntity("balancer", [sn.IMU(link="torso")], lambda *spaces: Still(*spaces)).to_yaml()


def test_model_file_is_found_in_the_folder_of_the_yaml_file(tmp_path):
    model = Path(sn.robots.__file__).parent / "models" / "balancer.xml"
    (tmp_path / "mine.xml").write_text(model.read_text())
    (tmp_path / "mine.yaml").write_text("robot: mine.xml\nsensors:\n  - IMU: {link: torso}\n")
    robot = sn.TrainableEntity.from_yaml(tmp_path / "mine.yaml")
    assert robot.action_space.shape == (2,)


def test_entity_made_from_a_rig_round_trips(tmp_path):
    rig = tmp_path / "rig.yaml"
    rig.write_text(
        "sensors:\n  - {name: eye, type: Camera, mount: {pos: [0, 0, 0.3], euler: [0, 0, 1]}, "
        "options: {resolution: [4, 4]}}\n"
    )
    robot = sn.TrainableEntity("balancer", rig)
    again = sn.TrainableEntity.from_yaml(robot.to_yaml())
    assert list(again.suite) == ["eye"]


BAD = {
    "unknown key": ("robot: balancer\nsensor: []\n", r"YAML:2: an entity has no 'sensor' \(did you mean 'sensors'"),
    "no robot": ("rate: 3\n", "YAML:1: robot must be the name of a robot"),
    "unknown robot": ("robot: balencer\n", "did you mean 'balancer'"),
    "unknown sensor": (
        "robot: balancer\nsensors:\n  - IMU: {link: torso}\n  - IMUU: {}\n",
        r"YAML:4: .*did you mean 'IMU'",
    ),
    "unknown option": (
        "robot: balancer\nsensors:\n  - IMU:\n      link: torso\n      rat: 3\n",
        r"YAML:5: IMU has no option 'rat' \(did you mean 'rate'",
    ),
    "bad value": (
        "robot: balancer\nsensors:\n  - IMU:\n      link: torso\n      rate: -3\n",
        "YAML:5: IMU.rate must be > 0",
    ),
    "missing option": ("robot: balancer\nsensors:\n  - IMU\n", "YAML:3: IMU needs the option 'link'"),
    "no list": ("robot: balancer\nsensors: {IMU: {link: torso}}\n", "YAML:2: sensors must be a list"),
    "two kinds": (
        "robot: balancer\nsensors:\n  - IMU: {link: torso}\n    GPS: {}\n",
        "YAML:3: a sensor must be",
    ),
    "twice": ("robot: balancer\nrate: 2\nrate: 3\n", "YAML:3: 'rate' is given twice"),
    "rate": ("robot: balancer\nrate: fast\n", "YAML:2: rate must be a number or None, got 'fast'"),
    "memory": ("robot: balancer\nmemory: -1\n", "YAML:2: memory must be an integer > 0"),
    "memory's option": (
        "robot: balancer\nmemory:\n  capacity: 900\n  cluster: 3\n",
        r"YAML:4: memory: ClusterOptions has no option 'cluster' \(did you mean 'clusters'",
    ),
    "memory's size": ("robot: balancer\nmemory: {capacity: 900}\n", "YAML:2: memory: .*warmup must be between"),
    "unknown brain": ("robot: balancer\nbrain: SACBrain\n", r"YAML:2: there is no brain 'SACBrain' \(did you mean"),
    "brain's option": (
        "robot: balancer\nsensors:\n  - IMU: {link: torso}\nbrain:\n  SACMLPBrain: {hiden: [3]}\n",
        r"YAML:4: brain SACMLPBrain has no option 'hiden' \(did you mean 'hidden'",
    ),
    "module not imported": ("robot: balancer\nbrain: antigravity:Fly\n", "YAML:2: .*import the module 'antigravity'"),
    "alias": ("robot: balancer\nsensors: &a []\nprivileged: *a\n", r"YAML:3: aliases \(\*a\) are not supported"),
    "code": ("robot: !!python/object/apply:os.getcwd []\n", "not valid YAML"),
    "too deep": ("robot: " + "[" * 1200 + "]" * 1200 + "\n", "not valid YAML"),
    "binary": ("robot: \x00\n", "not valid YAML"),
    "no YAML": ("robot: [\n", "not valid YAML"),
    "no mapping": ("- robot\n", "YAML:1: expected a mapping"),
    "empty": ("\n", "YAML:1: expected a mapping"),
    "no file": ("nowhere.yaml", "there is no file 'nowhere.yaml'"),
}


@pytest.mark.parametrize("case", BAD)
def test_errors_name_the_line(case):
    text, message = BAD[case]
    with pytest.raises(sn.SensoriumError, match=message):
        sn.TrainableEntity.from_yaml(text)


def test_robot_options_and_landmarks_round_trip():
    text = """
robot: franka
robot_options: {controllers: {arm: ee_pose}}
sensors:
  - FramePose: {link: target, relative_to: hand, pos_noise: 0.002}
landmarks: [target]
"""
    robot = sn.TrainableEntity.from_yaml(text)
    assert robot.action_space != sn.TrainableEntity("franka").action_space
    assert sn.TrainableEntity.from_yaml(robot.to_yaml()).to_yaml() == robot.to_yaml()
    with pytest.raises(OptionError, match="YAML:2: landmarks must be a list"):
        sn.TrainableEntity.from_yaml("robot: franka\nlandmarks: target\n")


def test_errors_name_the_file(tmp_path):
    file = tmp_path / "robot.yaml"
    file.write_text("robot: balancer\n\nsensors:\n  - IMU: {link: torso, noise: 3}\n")
    with pytest.raises(OptionError, match=r"robot\.yaml:4: IMU has no option 'noise'"):
        sn.TrainableEntity.from_yaml(file)


def test_exponent_notation_is_read_as_numbers(tmp_path):
    text = "robot: balancer\nsensors:\n  - IMU: {link: torso, acc_noise: 1e-3, delay: 2.e-2, rate: 2E+2}\n"
    entity = sn.TrainableEntity.from_yaml(text)
    (imu,) = entity._rig.sensors
    assert [imu.options[name] for name in ("acc_noise", "delay", "rate")] == [0.001, 0.02, 200.0]
    rig = sn.robots.SensorRig(
        sensors=[{"name": "imu", "type": "IMU", "mount": {"link": "1e3"}, "options": {"acc_noise": 1e-7}}]
    )
    rig.save(tmp_path / "rig.yaml")
    assert sn.robots.SensorRig.load(tmp_path / "rig.yaml") == rig


def test_sensors_with_a_channel_named_pos_survive_the_conversion_to_a_rig():
    given = sn.FramePose(link="torso", pos_noise=0.1)
    entry = rig_of([given]).sensors[0]
    assert entry.resolve("robot", "base", ()).pos == given.pos
    assert sn.FramePose(**options_of(entry)).pos == given.pos
