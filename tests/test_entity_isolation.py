"""No world can be reached from a brain or a memory: a walk over the object graph and over memory addresses."""

import functools
import gc
import sys
import types
import weakref

import mujoco
import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.suites import ObservationSensor, SensorSuite
from sensorium.tasks import SharedTask, Task
from sensorium.tree import Module

WORLD_TYPES = (Module, SharedTask, Task, SensorSuite, ObservationSensor, mujoco.MjModel, mujoco.MjData, mujoco.MjSpec)
"""Types that give access to a world. Scenes, robots and sensors are modules of the tree."""
FIELDS = ("qpos", "qvel", "ctrl", "xpos", "xquat", "cvel", "sensordata")


def belongs_to_a_world(obj):
    return isinstance(obj, WORLD_TYPES) or type(obj).__module__.startswith("sensorium.worlds")


def neighbours(obj):
    """Return the objects that code can reach from an object. Modules are skipped, since any code can import them."""
    if isinstance(obj, types.ModuleType):
        return []
    if isinstance(obj, types.FunctionType):  # its globals belong to a module
        return [*(obj.__closure__ or ()), obj.__defaults__, obj.__kwdefaults__, vars(obj)]
    if isinstance(obj, type):
        package = str(obj.__module__).partition(".")[0]
        is_own = package not in (*sys.stdlib_module_names, "torch", "numpy", "pydantic")
        return list(vars(obj).values()) if is_own else []
    if isinstance(obj, weakref.finalize):
        return list(obj.peek() or ())
    found = [type(obj), *gc.get_referents(obj)]
    found += [getattr(obj, "__dict__", None), getattr(obj, "__self__", None), getattr(obj, "__func__", None)]
    for cls in type(obj).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        found += [getattr(obj, slot, None) for slot in ((slots,) if isinstance(slots, str) else slots)]
    if isinstance(obj, weakref.ref):
        found.append(obj())
    if isinstance(obj, np.ndarray):
        found.append(obj.base)
        found += obj.ravel().tolist() if obj.dtype == object else []
    if isinstance(obj, memoryview):
        found.append(obj.obj)
    if isinstance(obj, types.GeneratorType):
        found += list((obj.gi_frame.f_locals if obj.gi_frame else {}).values())
    return found


def reachable(root):
    """Return all objects that can be reached from an object, including itself, but not beyond objects of a world."""
    queue, seen = [root], {}
    while queue:
        obj = queue.pop()
        if obj is None or id(obj) in seen:
            continue
        seen[id(obj)] = obj  # keeps the object alive, so that its id is not reused
        if not belongs_to_a_world(obj):
            queue.extend(neighbours(obj))
    return list(seen.values())


def span(array):
    """Return the start and end address of an array or a tensor."""
    if isinstance(array, torch.Tensor):
        storage = array.untyped_storage()
        return storage.data_ptr(), storage.data_ptr() + storage.nbytes()
    return np.lib.array_utils.byte_bounds(array)


def world_memory(task):
    """Return the address ranges of the state of a world and of the readings of its sensors."""
    world = task.scene.world
    spans = [span(world.bind(name)) for name in FIELDS]
    members = task.members.values() if isinstance(task, SharedTask) else [task]
    for member in members:
        for name in member.robot.rig.names:
            reading = member.robot.rig[name].read()
            parts = reading._asdict().values() if hasattr(reading, "_asdict") else [reading]
            spans += [span(each) for each in parts if each is not None]
    return [each for each in spans if each[0] < each[1]]


def leaks(root, task):
    """Return what can be reached of the world: the types of objects, and arrays in its memory."""
    ranges = world_memory(task)
    found = []
    for obj in reachable(root):
        if belongs_to_a_world(obj):
            found.append(type(obj).__name__)
        elif isinstance(obj, np.ndarray | torch.Tensor) and obj.nbytes:
            first, last = span(obj)
            if any(first < stop and start < last for start, stop in ranges):
                found.append(f"array in the world's memory {tuple(obj.shape)}")
    return found


def make(brain=sn.SACMLPBrain, camera=False, **options):
    sensors = [sn.IMU(link="torso", rate=200, acc_noise=0.1, delay=0.02), sn.JointEncoder(joints=[0, 1], noise=0.002)]
    sensors += [sn.Camera(resolution=(40, 40))] * camera
    if brain is sn.SACMLPBrain:
        options["brain_options"] = {"hidden": (16, 16), "batch_size": 16}
    return sn.TrainableEntity("balancer", sensors, brain, memory=64, **options)


@pytest.fixture(scope="module")
def trained():
    entities = {
        "quick": make(),
        "slow": make(rate=25, privileged=[sn.FramePose(link="torso")]),
        "eye": make(camera=True),
    }
    task = sn.tasks.make("balance", entities=entities, n_envs=2, max_steps=12, autoreset=True)
    for _ in range(3):
        task.rollout(10)
        for entity in entities.values():
            entity.learn(1)
    yield task
    task.close()


@pytest.mark.parametrize("name", ["quick", "slow", "eye"])
def test_no_world_can_be_reached_from_a_trained_brain_or_its_memory(trained, name):
    entity = trained.entities[name]
    assert len(entity.memory) > 0
    assert len(reachable(entity.brain)) > 500
    assert leaks(entity.brain, trained) == []
    assert leaks(entity.memory, trained) == []
    assert leaks(entity._transitions, trained) == []
    others = [each for key, each in trained.entities.items() if key != name]
    own = {id(each) for each in (*reachable(entity.brain), *reachable(entity.memory))}
    for other in others:  # nor another entity
        assert not own & {id(other), id(other.brain), id(other.memory), id(other.suite)}


def test_walk_finds_a_world_where_there_is_one(trained):
    entity = trained.entities["quick"]
    assert leaks(trained, trained) == ["SharedTask"]
    assert {"Scene", "Balance"} <= set(leaks(vars(trained), trained))
    assert "SensorSuite" in leaks(entity, trained)


class Holder:
    """A brain that can hold any object."""

    def __init__(self, observation_space, action_space):
        self.shape = action_space.shape
        self.held = None

    def decide(self, observation, deterministic=False):
        return np.zeros(self.shape)

    def decide_batch(self, observation, deterministic=False):
        return np.zeros((len(observation["imu"]["lin_acc"]), *self.shape))


class Slotted:
    __slots__ = ("inner",)

    def __init__(self, inner):
        self.inner = inner


def generator(scene):
    yield 1
    yield scene


def running(scene):
    walk = generator(scene)
    next(walk)
    return walk


def closure(scene):
    return lambda: scene


def default(scene):
    return lambda kept=scene: kept


def with_class_attribute(scene):
    return type("Kept", (), {"scene": scene})()


def in_objects(scene):
    box = np.empty(1, object)
    box[0] = scene
    return box


WAYS = {
    "attribute": lambda task: task.scene,
    "list in a dict": lambda task: {"a": [task.scene]},
    "slot": lambda task: Slotted(task),
    "closure": lambda task: closure(task.scene),
    "default": lambda task: default(task.scene),
    "bound method": lambda task: task.scene.step,
    "partial": lambda task: functools.partial(print, task),
    "weak reference": lambda task: weakref.ref(task.scene),
    "generator": lambda task: running(task.scene),
    "class attribute": lambda task: with_class_attribute(task.scene),
    "array of objects": lambda task: in_objects(task.scene),
    "model": lambda task: task.scene.model,
    "suite": lambda task: task.suite,
    "sensor's read": lambda task: task.robot.rig["imu"].read,
    "view of the state": lambda task: task.scene.world.bind("qpos").numpy(),
    "part of the state": lambda task: task.scene.world.bind("xpos")[:, 1],
    "reading": lambda task: task.robot.rig["imu"].read().lin_acc,
}


@pytest.mark.parametrize("way", WAYS)
def test_walk_finds_a_world_for_every_kind_of_reference(way):
    robot = make(Holder)
    task = sn.tasks.make("balance", entity=robot, n_envs=2)
    task.reset()
    robot.step()
    assert leaks(robot.brain, task) == []
    robot.brain.held = WAYS[way](task)
    assert leaks(robot.brain, task)
    robot.brain.held = None
    assert leaks(robot.brain, task) == []
    task.close()


def test_observations_of_a_brain_are_copies():
    """Later steps do not change an observation, and writing to it does not change the sensors."""
    robot = make(Holder)
    task = sn.tasks.make("balance", entity=robot, n_envs=2)
    observation, _ = task.reset()
    robot.brain.held = observation
    assert leaks(robot.brain, task) == []
    before = observation["imu"]["lin_acc"].copy()
    task.step(np.ones((2, 2)))
    np.testing.assert_array_equal(observation["imu"]["lin_acc"], before)
    reading = task.suite.read()["imu"]["lin_acc"].copy()
    task.suite.read()["imu"]["lin_acc"][:] = np.nan
    np.testing.assert_array_equal(task.suite.read()["imu"]["lin_acc"], reading)
    task.close()
