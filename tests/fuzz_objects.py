"""Objects that users hold, one of every kind: tests/fuzz_calls.py calls their methods with wrong values."""

import functools
import tempfile
from pathlib import Path

import numpy as np
import torch
from conftest import ARM
from gymnasium import spaces

import sensorium as sn

DATA = Path(__file__).parent / "data"
_FOLDER = tempfile.TemporaryDirectory()


def new_object(name: str) -> object:
    """Return a new object of those that calls change: "unbuilt" or "buffer"."""
    if name == "buffer":
        return sn.Buffer(torch.zeros(3))
    unbuilt = sn.Scene()
    unbuilt.add_object(sn.Plane(), name="floor")
    unbuilt.add_object(sn.Box(size=(0.1, 0.1, 0.1)), name="box", pos=(0, 0, 0.5), free=True)
    return unbuilt


def _scene() -> dict[str, object]:
    scene = sn.Scene(dt=0.01, substeps=1)
    scene.add_object(sn.Plane())
    box = scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", pos=(0, 0, 0.5), free=True)
    arm = scene.add_robot(ARM, name="arm", pos=(1, 0, 0))
    imu = scene.add_sensor(sn.IMU(link="box", uuid="imu", history_length=2))
    encoder = scene.add_sensor(sn.JointEncoder(uuid="encoder"))
    lidar = scene.add_sensor(sn.Lidar(link="box", pattern=sn.RingPattern(n_points=8), uuid="lidar"))
    contact = scene.add_sensor(sn.Contact(link="box", uuid="contact"))
    camera = scene.add_sensor(sn.Camera(pos=(1, 0, 1), lookat=(0, 0, 0), resolution=(16, 12), uuid="camera"))
    rover = scene.add_robot(sn.robots.make("diffdrive", pos=(0, 2, 0)), name="rover")
    scene.add_light("point", name="lamp", pos=(0, 0, 3))
    skin = scene.add_sensor(sn.TactileArray(link="box", grid=(2, 2), spacing=0.01, uuid="skin"))
    depth = scene.add_sensor(sn.DepthCamera(link="box", uuid="depth"))
    scene.build(n_envs=2)
    suite = sn.SensorSuite(2, [imu])
    return {
        "unbuilt": new_object("unbuilt"),
        "scene": scene,
        "box": box,
        "arm": arm,
        "imu": imu,
        "encoder": encoder,
        "lidar": lidar,
        "contact": contact,
        "skin": skin,
        "depth": depth,
        "camera": camera,
        "profile": sn.CameraProfile(),
        "pattern": sn.GridPattern(size=(1, 1), resolution=0.5),
        "tiles": sn.TileMap([[1, 0], [0, 1]]),
        "rover": rover,
        "rig": rover.rig,
        "trace": sn.Trace(imu),
        "path": sn.scenarios.make("random-acceleration", scene, rover),
        "suite": suite,
        "buffer": new_object("buffer"),
    }


def _experience() -> dict[str, object]:
    observation = spaces.Dict({"imu": spaces.Box(-1, 1, (3,))})
    action = spaces.Box(-1, 1, (2,))
    memory = sn.entities.Memory(observation, action, 16, 2)
    zeros = {"imu": np.zeros((2, 3), np.float32)}
    flags = np.zeros(2, bool)
    values = zeros, np.zeros((2, 2), np.float32), np.zeros(2, np.float32), zeros, flags, flags
    memory.add(*values)
    clusters = sn.entities.VectorizedClusterBuffer(
        observation, action, sn.entities.ClusterOptions(capacity=64, clusters=2, warmup=8)
    )
    clusters.add(*values)
    return {
        "memory": memory,
        "clusters": clusters,
        "layout": memory.layout,
        "brain": sn.SACMLPBrain(observation, action, hidden=(4,)),
    }


def _tasks() -> dict[str, object]:
    sensors = [sn.IMU(link="torso"), sn.JointEncoder()]
    entity = sn.TrainableEntity("balancer", sensors, sn.SACMLPBrain, brain_options={"hidden": (4,)}, memory=64)
    pair = {name: sn.TrainableEntity("balancer", sensors) for name in ("one", "other")}
    shared = sn.tasks.make("balance", entities=pair, n_envs=2)
    shared.reset()
    own = sn.tasks.make("balance", entity=entity, n_envs=2, seed=0)
    own.reset()
    pick = sn.tasks.make("pick", n_envs=2, seed=0)
    planner = sn.policies.make("planner", pick)
    pick.register_policy(planner)
    pick.reset()
    nav, opening, several = (sn.tasks.make(name, n_envs=2, seed=0) for name in ("nav_to_obj", "door_opening", "multi"))
    for task in (nav, opening):
        task.register_policy(sn.policies.make("planner", task))
        task.reset()
    walk = sn.tasks.make("walk", n_envs=2, seed=0)
    walk.reset()
    brain = {"brain": sn.SACMLPBrain, "brain_options": {"hidden": (4,)}, "memory": 64}
    tensor_pair = {name: sn.TrainableEntity("balancer", sensors, **brain) for name in ("one", "other")}
    tensor_shared = sn.tasks.make("balance", entities=tensor_pair, n_envs=2, device="cpu")
    tensor_shared.rollout(4)
    alone = {"one": sn.TrainableEntity("balancer", sensors)}
    agents = sn.tasks.make("balance", entities=alone, n_envs=1, device="cpu").as_parallel_env()
    agents.reset()
    return {
        "tensor_entity": tensor_pair["one"],
        "tensor_shared": tensor_shared,
        "tensor_agents": agents,
        "tensor_parallel": sn.tasks.make(
            "balance", entities={"one": sn.TrainableEntity("balancer", sensors)}, n_envs=2, device="cpu"
        ).as_parallel_env(output="torch"),
        "entity": entity,
        "entity_task": own,
        "shared": shared,
        "parallel": sn.tasks.make(
            "balance", entities={"one": sn.TrainableEntity("balancer", sensors)}, n_envs=1
        ).as_parallel_env(),
        "gym": sn.tasks.make("balance", n_envs=2, seed=0).as_gymnasium(),
        "pick": pick,
        "planner": planner,
        "random": sn.policies.make("random", pick),
        "franka": pick.robot,
        "group": pick.robot.groups["arm"],
        "walk": walk,
        "sb3": walk.as_sb3(),
        "rsl_rl": walk.as_rsl_rl(),
        "tensor_gym": sn.tasks.make("walk", n_envs=2, seed=0).as_gymnasium(),
        "tensor_gym_env": sn.tasks.make("walk", n_envs=1, seed=0).as_gymnasium(vector=False),
        "nav": nav,
        "nav_planner": nav.policy,
        "floor_plan": nav.plans[0],
        "opening": opening,
        "opening_planner": opening.policy,
        "several": several,
        "gym_env": sn.tasks.make("balance", n_envs=1, seed=0).as_gymnasium(vector=False),
        "observed": next(iter(pick.suite.values())),
        "actions": pick.actions,
        "history": pick.history,
    }


def _files() -> dict[str, object]:
    """Return objects that read and write files; the folder is removed when the process ends."""
    folder = Path(_FOLDER.name)
    scene = sn.Scene(dt=0.01, substeps=1)
    scene.add_object(sn.Plane())
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", pos=(0, 0, 0.5), free=True)
    scene.add_sensor(sn.IMU(link="box", uuid="imu"))
    scene.build(n_envs=2)
    with sn.recording.Recorder(scene, folder / "drop") as recorder, sn.ros.McapRecorder(scene, folder / "log") as log:
        for _ in range(20):
            scene.step()
            recorder.step()
            log.step()
    recording = sn.recording.Recording(folder / "drop")
    options = sn.generation.GenerateOptions(
        task="balance", policy="random", episodes=2, envs=2, options={"max_steps": 6}
    )
    sn.generation.generate(options, folder / "data")
    data = sn.datasets.Dataset(folder / "data")
    log = sn.logs.read(log.files[0])
    policy = folder / "walk.onnx"
    sn.training.export_policy(DATA / "walk", policy)
    times, rng = 0.01 * np.arange(2000), np.random.default_rng(0)
    rest = {"time": times, "gyro": rng.normal(0, 0.01, (2000, 3)), "acc": rng.normal((0, 0, 9.8), 0.1, (2000, 3))}
    turns = np.tile((1.0, 0.0, 0.0, 0.0), (2000, 1))
    return {
        "recording": recording,
        "retracer": sn.recording.Retracer(recording, recording.build_scene()),
        "dataset": data,
        "episode": data[0],
        "samples": sn.datasets.TorchDataset(folder / "data"),
        "log": log,
        "topic": log["/imu"],
        "real": sn.fit.as_log(rest),
        "pose": sn.fit.PoseReference(times, turns),
        "twin": sn.fit.imu(rest),
        "contract": sn.deploy.read_contract(policy),
        "deployed": sn.deploy.Policy.load(policy),
        "training": sn.training.recipe("balance"),
        "learning": sn.training.PPOOptions(),
        "recorder": sn.recording.Recorder(scene, folder / "more"),
        "paths": sn.scenarios.PathPlanner(sn.scenarios.OccupancyMap(np.zeros((20, 20)), 0.1)),
        "signal": sn.fit.SignalReference(times, np.sin(times)),
        "map": sn.scenarios.OccupancyMap.from_scene(scene, resolution=0.1, heights=(0.05, 0.5)),
    }


@functools.cache
def objects() -> dict[str, object]:
    """Return name -> an object whose methods are called: one of every kind that users hold."""
    return _scene() | _experience() | _tasks() | _files()
