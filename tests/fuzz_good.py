"""Good values of required arguments: tests/fuzz_calls.py makes one argument wrong while the others are good.

Callables that are not listed get the wrong value in all required arguments at once.
"""

from pathlib import Path

import numpy as np
import torch
from conftest import ARM
from gymnasium import spaces

import sensorium as sn

WALK = Path(__file__).parent / "data" / "walk"
OBSERVATION = spaces.Dict({"imu": spaces.Box(-1, 1, (3,))})
ACTION = spaces.Box(-1, 1, (2,))


_LOG = ("fields", "units", "rate", "group")
_PLACED = ("pos", "quat", "link", "rig", "keyframe", "joint_positions")
_NOISY = ("acc_noise", "acc_bias", "gyro_noise", "delay", "jitter", "rate", "envs")
OPTIONS: dict[str, tuple[str, ...]] = {
    "Scene": ("dt", "substeps", "gravity", "solver", "iterations", "disable", "wind"),
    "presets.encoder": ("uuid", "joints", "delay"),
    "presets.imu": ("link", "acc_noise", "delay"),
    "presets.lidar": ("link", "pattern", "noise"),
    "presets.load": ("link", "delay"),
    "robots.make": (*_PLACED, "sensors"),
    "robots.register_urdf": ("base", "strict", "wheels"),
    "scenarios.make": ("seed", "map", "speed"),
    "tasks.make": ("robot", "n_envs", "device", "seed", "cameras", "max_steps", "dt", "substeps", "randomize"),
    "policies.make": ("actions", "seed", "noise"),
    "policies.MultiPlanner": ("seed", "noise"),
    "training.evaluate_ppo": ("robot", "randomize", "command_time"),
    "training.play": ("robot", "randomize"),
    "training.watch": ("robot", "randomize"),
    "training.ppo_recipe": ("n_envs", "device", "hidden", "horizon", "task_options"),
    "training.recipe": ("n_envs", "steps", "memory", "seed"),
    **dict.fromkeys(
        ("<unbuilt>.add_contact_pair", "<scene>.add_contact_pair"), ("friction", "condim", "margin", "solref")
    ),
    **dict.fromkeys(("<unbuilt>.add_light", "<scene>.add_light"), ("name", "pos", "direction", "color", "intensity")),
    **dict.fromkeys(("<unbuilt>.add_robot", "<scene>.add_robot"), _PLACED),
    "<imu>.set": _NOISY,
    "<encoder>.set": ("noise", "bias", "resolution", "delay"),
    "<lidar>.set": ("noise", "bias", "delay"),
    "<contact>.set": ("threshold", "delay"),
    "<skin>.set": ("noise", "delay", "stiffness"),
    "<depth>.set": ("noise", "delay"),
    "<camera>.set": ("delay", "exposure", "noise"),
    "<entity>.make_robot": _PLACED,
    "<entity>.start_memory": ("n_envs", "shared", "seed"),
    "<recording>.load_scene": ("n_envs", "device", "renderer"),
    "<twin>.options": ("link", "uuid", "pos"),
    **dict.fromkeys((f"fit.{name}" for name in ("barometer", "channel", "distance", "force_torque")), _LOG),
    **dict.fromkeys((f"fit.{name}" for name in ("gps", "imu", "joint_encoder", "validate")), _LOG),
}
"""Name of a callable -> names of arguments that its signature does not have; each gets the wrong values."""


def good_arguments(objects: dict[str, object]) -> dict[str, dict[str, object]]:
    """Return name of a callable -> good values of its required arguments.

    Args:
        objects: those whose methods are called, of ``fuzz_objects.objects()``.
    """
    scene, rover, pick = objects["scene"], objects["rover"], objects["pick"]
    times = 0.01 * np.arange(400)
    turns = np.tile((1.0, 0.0, 0.0, 0.0), (400, 1))
    pose = np.tile((0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0), (2, 1))
    rest = objects["real"]
    seen = objects["entity_task"].suite.read()
    step = _step({"imu": np.zeros((2, 3), np.float32)}, np.zeros((2, 2), np.float32))
    spaces_of = {"observation_space": OBSERVATION, "action_space": ACTION}
    task = {"task": pick}
    driver = {"scene": scene, "robot": rover, "seed": 0}
    estimate = {"name": "bias", "value": 0.1, "unit": "m"}
    return {
        # scenes
        "<unbuilt>.add_object": {"model": sn.Box(size=(0.1, 0.1, 0.1))},
        "<unbuilt>.add_terrain": {"model": sn.Plane()},
        "<unbuilt>.add_robot": {"robot": ARM},
        "<unbuilt>.add_entity": {"kind": "object", "model": sn.Box(size=(0.1, 0.1, 0.1))},
        "<unbuilt>.add_contact_pair": {"first": "box", "second": "floor"},
        "<unbuilt>.exclude_contacts": {"first": "box", "second": "floor"},
        "<scene>.set_color": {"name": "box", "color": (1, 0, 0)},
        "<scene>.set_light": {"name": "lamp", "intensity": 1.0},
        "<scene>.set_state": {"state": scene.get_state()},
        "<scene>.set_episodes": {"numbers": [0, 1]},
        "<scene>.load_state_dict": {"values": scene.state_dict()},
        "<arm>.set_ctrl": {"values": 0.0},
        "<arm>.set_joint_positions": {"values": 0.0},
        "<arm>.set_joint_velocities": {"values": 0.0},
        "<lidar>.returns_in_world": {"env": 0},
        "<camera>.pick_pixel": {"env": 0, "x": 3, "y": 3},
        "<suite>.extend": {"sensors": []},
        "SensorSuite": {"n_envs": 2},
        "cameras.look_at": {"position": torch.ones(3), "target": torch.zeros(3), "up": torch.eye(3)[2]},
        "cameras.randomize_look": {"scene": scene},
        # robots and tasks
        "robots.make": {"model": "diffdrive"},
        "<rover>.act": {"action": np.zeros(rover.n_actions)},
        "<rover>.place": {"xy": (0.0, 2.0), "yaw": 0.0},
        "<rover>.way_in_base_frame": {"start": pose, "goal": pose, "dt": 0.01},
        "<franka>.act": {"action": np.zeros(pick.robot.n_actions)},
        "<franka>.disturb": {"envs": None, "max_offset": 0.01, "rngs": [np.random.default_rng(0)] * 2},
        "<group>.solve": {"pose": pose[0]},
        "<group>.aim": {"target": np.zeros((2, 7)), "rows": slice(None)},
        "<group>.put": {"position": np.zeros((2, 7)), "rows": slice(None)},
        "<group>.solve_from_base": {"pose": pose, "rows": slice(None), "iterations": 3},
        "<planner>.succeeded": {"env": 0, "phase": "lift"},
        "<opening>.handle_path": {"env": 0, "positions": np.zeros(2)},
        "<nav>.drivable": {"env": 0},
        "<floor_plan>.add": {"name": "new", "shape": 0.1, "gap": 0.1, "rng": np.random.default_rng(0)},
        "tasks.make": {"name": "balance"},
        "tasks.as_gym": {"task": objects["gym_env"].task},
        "tasks.as_vector": task,
        "tasks.camera_views": {"names": ("front",), "resolution": (64, 48)},
        "tasks.Footprint.of": {"shape": sn.Box(size=(0.1, 0.1, 0.1)), "x": 0.0, "y": 0.0, "yaw": 0.0},
        "tasks.Footprint.circle": {"x": 0.0, "y": 0.0, "radius": 0.1},
        "policies.make": {"name": "random", **task},
        "policies.RandomPolicy": task,
        "policies.PickPlanner": task,
        "policies.PlaybackPolicy": {**task, "actions": np.zeros((3, 2, pick.robot.n_actions))},
        "policies.FunctionPolicy": {**task, "function": lambda observation: None},
        "policies.Waypoint": {"phase": "lift", "pose": pose[0], "opening": 0.5},
        "policies.Plan": {"arm": "arm", "waypoints": [], "grip": pose[0]},
        # scenarios
        "scenarios.make": {"name": "random-acceleration", "scene": scene, "robot": rover},
        "scenarios.RandomAcceleration": {**driver, "options": sn.scenarios.RandomAccelerationOptions()},
        "scenarios.OccupancyMap": {"cells": np.zeros((4, 4)), "resolution": 0.1},
        "scenarios.OccupancyMap.from_scene": {"scene": scene},
        "<paths>.plan": {"start": (0.5, 0.5), "goal": (1.0, 1.0)},
        "<paths>.sees": {"start": (0.5, 0.5), "end": (1.0, 1.0)},
        # entities
        "SACMLPBrain": spaces_of,
        "TrainableEntity": {"robot": "balancer"},
        "entities.ExperienceLayout.of": spaces_of,
        "entities.Memory": {**spaces_of, "capacity": 16, "n_envs": 2},
        "entities.VectorizedClusterBuffer": {
            **spaces_of,
            "options": sn.entities.ClusterOptions(capacity=64, clusters=2, warmup=8),
        },
        "<memory>.add": step,
        "<memory>.sample": {"batch_size": 2},
        "<memory>.read_since": {"writer": 0, "number": 0, "out": objects["memory"].batch(2)},
        "<clusters>.add": step,
        "<layout>.collect": step,
        "<layout>.batch": {"n_rows": 2},
        "<layout>.arrays": _collected(objects, step),
        "<layout>.tensors": _collected(objects, step),
        "<brain>.decide": {"observation": {"imu": np.zeros(3)}},
        "<brain>.decide_batch": {"observation": {"imu": np.zeros((2, 3))}},
        "<entity>.choose": {"observation": seen},
        "<entity>.decide_batch": {"observation": seen},
        "<entity>.experience": {"observation": seen, **{name: step[name] for name in ("reward", *_FLAGS)}},
        # logs and fits
        "fit.as_log": {"source": {"time": times, "gyro": np.zeros((400, 3))}},
        "fit.PoseReference": {"time": times, "quat": turns},
        "fit.SignalReference": {"time": times, "values": np.sin(times)},
        "fit.allan_deviation": {"values": np.random.default_rng(0).normal(size=400), "rate": 100.0},
        "fit.imu": {"log": rest},
        "fit.report": {"twin": objects["twin"], "path": "report.html"},
        "fit.rest_segments": {"log": rest},
        "fit.channel": {"log": rest, "name": "gyro"},
        "fit.Estimate": {**estimate, "interval": (0.0, 0.2)},
        "fit.Estimate.normal": {**estimate, "std": 0.1},
        "fit.Estimate.positive": {**estimate, "relative_std": 0.1},
        "fit.Estimate.at_most": {"name": "bias", "bound": 0.1, "unit": "m", "reason": "too small"},
        "fit.Estimate.missing": {"name": "bias", "unit": "m", "reason": "at rest"},
        "<pose>.magnetic_field": {"t": times[50:60], "field": (1.0, 0.0, 0.0)},
        "<signal>.smooth": {"t": times[50:60]},
        "<twin>.sample": {"envs": 2},
        "logs.resample": {"log": objects["log"], "fields": {"turning": ("/imu", "angular_velocity")}, "rate": 50.0},
        "doctor.examine": {"log": objects["log"]},
        "deploy.run_log": {"policy": objects["deployed"], "messages": []},
        # files
        "<recording>.column": {"name": "imu.measured"},
        "<recording>.read_state_dict": {"index": 0},
        "<recording>.step": {"index": 0},
        "<recording>.seek": {"scene": objects["retracer"].scene, "index": 0},
        "recording.Retracer": {"recording": objects["recording"], "scene": objects["retracer"].scene},
        "recording.check": {"folder": objects["recording"].folder},
        "recording.replay": {"source": objects["recording"].folder, "out": "seen"},
        "datasets.validate": {"folder": objects["dataset"].folder},
        "datasets.TorchDataset": {"folder": objects["dataset"].folder},
        "datasets.ShuffledSampler": {"data": objects["samples"]},
        "datasets.from_log": {
            "log": objects["log"],
            "out": "logged",
            "fields": {"turning": ("/imu", "angular_velocity")},
            "rate": 50.0,
        },
        "datasets.export": {"dataset": objects["dataset"].folder, "format": "robomimic", "out": "exported"},
        "training.load_policy": {"folder": WALK, "task": objects["walk"]},
        # suites
        "suites.ArraySensor": {"uuid": "height", "source": lambda: np.zeros((2, 1)), "shape": (1,)},
        "suites.DictSensor": {"uuid": "text", "source": lambda: [{}, {}]},
        "suites.PipelineSensor": {"sensor": objects["imu"]},
        "suites.ObservationSensor": {"uuid": "a", "space": spaces.Box(-1, 1, (3,))},
        "suites.box_space": {"shape": (3,)},
        "suites.encode": {"uuid": "text", "values": [{}], "length": 100},
        "suites.pick_env": {"value": {"a": np.zeros((2, 1))}, "env": 0},
        "units.from_discrete_noise": {"sigma": 0.1, "rate": 100.0},
        "units.from_walk_per_step": {"sigma": 0.1, "dt": 0.01},
    }


_FLAGS = ("terminated", "truncated")


def _step(observation: dict[str, np.ndarray], action: np.ndarray) -> dict[str, object]:
    flags = dict.fromkeys(_FLAGS, np.zeros(2, bool))
    reward = np.zeros(2, np.float32)
    return {"observation": observation, "action": action, "reward": reward, "next_observation": observation, **flags}


def _collected(objects: dict[str, object], step: dict[str, object]) -> dict[str, object]:
    layout = objects["layout"]
    return {"values": layout.collect(**step), "shapes": layout.shapes(2)}
