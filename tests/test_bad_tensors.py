"""Tensors and arrays that are not plain numbers: sparse, quantised, nested, without values, masked, with a gradient."""

import numpy as np
import pytest
import torch
from conftest import ARM
from gymnasium import spaces

import sensorium as sn

pytestmark = pytest.mark.filterwarnings("ignore")  # quantised tensors are deprecated, nested and masked ones prototypes
MASKED = np.ma.masked_array([0.0, 1.0], mask=[False, True])


def unusual(*shape):
    """Return name -> a tensor of that shape that holds no plain numbers."""
    return {
        "sparse": torch.zeros(shape).to_sparse(),
        "quantised": torch.quantize_per_tensor(torch.zeros(shape), 0.1, 0, torch.qint8),
        "nested": torch.nested.nested_tensor([torch.zeros(1), torch.zeros(2)]),
        "meta": torch.zeros(shape, device="meta"),
        "MaskedTensor": torch.masked.masked_tensor(torch.zeros(shape), torch.zeros(shape, dtype=torch.bool)),
    }


@pytest.fixture(scope="module")
def scene():
    scene = sn.Scene(dt=0.01, substeps=1)
    scene.add_object(sn.Plane())
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2)), name="box", pos=(0, 0, 0.5), free=True)
    scene.add_robot(ARM, name="arm", pos=(1, 0, 0))
    scene.add_robot(sn.robots.make("diffdrive", pos=(0, 2, 0)), name="rover")
    scene.add_sensor(sn.IMU(link="box", uuid="imu"))
    scene.add_sensor(sn.Camera(pos=(1, 0, 1), lookat=(0, 0, 0), resolution=(16, 12), uuid="camera"))
    scene.add_light("point", name="lamp", pos=(0, 0, 3))
    scene.build(n_envs=2)
    return scene


@pytest.fixture
def memory():
    space = spaces.Dict({"imu": spaces.Box(-1, 1, (3,))})
    return sn.entities.Memory(space, spaces.Box(-1, 1, (2,)), 16, 2)


CALLS = {
    "set_ctrl": ("values", (2,), lambda scene, value: scene["arm"].set_ctrl(value)),
    "set_joint_positions": ("values", (2,), lambda scene, value: scene["arm"].set_joint_positions(value)),
    "set_pose": ("pos", (2, 3), lambda scene, value: scene["box"].set_pose(pos=value)),
    "act": ("rover.act: action", (2,), lambda scene, value: scene["rover"].act(value)),
    "set_color": ("set_color: color", (3,), lambda scene, value: scene.set_color("box", value)),
    "set_light": ("set_light: pos", (3,), lambda scene, value: scene.set_light("lamp", pos=value)),
    "set": ("acc_noise", (3,), lambda scene, value: scene.sensors["imu"].set(acc_noise=value)),
    "camera": (
        "principal_point",
        (2,),
        lambda scene, value: scene.sensors["camera"].set_intrinsics(principal_point=value),
    ),
    "set_episodes": ("numbers", (2,), lambda scene, value: scene.set_episodes(value)),
}
"""Name -> the argument in the message, the shape of a good value, and the call."""


@pytest.mark.parametrize("name", CALLS)
def test_tensors_without_plain_numbers_are_refused(scene, name):
    option, shape, call = CALLS[name]
    before = scene.get_state()
    for kind, value in unusual(*shape).items():
        word = {"nested": "nested", "meta": '"meta"'}.get(kind, kind)
        with pytest.raises(sn.OptionError, match=rf"{option}.* must be .*{word}"):
            call(scene, value)
    assert torch.equal(scene.get_state(), before)


@pytest.mark.parametrize("name", CALLS)
def test_masked_arrays_are_refused(scene, name):
    option, shape, call = CALLS[name]
    dtype = int if name == "set_episodes" else float
    masked = np.ma.masked_array(np.zeros(shape, dtype), mask=np.arange(np.prod(shape)).reshape(shape) == 1)
    with pytest.raises(sn.OptionError, match=rf"{option}.* must be"):
        call(scene, masked)
    call(scene, np.ma.masked_array(np.zeros(shape, dtype), mask=False))  # no element is masked


@pytest.mark.parametrize("name", [name for name in CALLS if name != "set_episodes"])
def test_the_state_does_not_keep_the_graph_of_a_network(scene, name):
    _, shape, call = CALLS[name]
    call(scene, torch.zeros(shape, requires_grad=True) * 1.0)
    call(scene, torch.zeros(shape, dtype=torch.bfloat16))
    scene.step()
    held = [scene["rover"].action.value, scene["arm"].action.value, scene.get_state(), scene["box"].get_pose()[0]]
    held += [scene.sensors["camera"].intrinsics, scene.sensors["camera"].extrinsics_cv]
    held += [scene.sensors["imu"].read().lin_acc]
    assert not any(value.requires_grad for value in held)


@pytest.mark.parametrize("envs", [np.ma.masked_array([0, 1], mask=[True, False]), [np.ma.masked_array([1], mask=True)]])
def test_masked_envs_are_refused(scene, envs):
    for call in (scene.reset, scene.forward):
        with pytest.raises(sn.OptionError, match="envs must be integer ids or a boolean mask, got"):
            call(envs)
    with pytest.raises(sn.OptionError, match="envs must be integer ids"):
        scene["arm"].set_ctrl(0.0, envs=envs)


def test_arrays_with_a_mask_but_no_masked_element_are_ids(scene):
    scene.reset(np.ma.masked_array([0, 1], mask=False))


def test_memories_refuse_tensors_and_arrays_without_plain_numbers(memory):
    seen, flags = {"imu": np.zeros((2, 3), np.float32)}, np.zeros(2, bool)
    good = [seen, np.zeros((2, 2), np.float32), np.zeros(2, np.float32), seen, flags, flags]
    masked = np.ma.masked_array(np.zeros((2, 2), np.float32), mask=[[False, True], [False, False]])
    for value in (*unusual(2, 2).values(), masked):
        with pytest.raises(sn.OptionError):
            memory.add(good[0], value, *good[2:])
    for value in (torch.eye(3).to_sparse(), torch.zeros(3)):
        with pytest.raises(sn.OptionError, match="observation must be a mapping of key"):
            memory.add(value, *good[1:])
    assert len(memory) == 0
    memory.add({"imu": torch.ones(2, 3, requires_grad=True)}, *good[1:])
    assert len(memory) == 2
    assert not memory.sample(2).observation["imu"].requires_grad


def test_actions_of_manipulators_and_tensor_tasks():
    pick = sn.tasks.make("pick", n_envs=2, seed=0)
    pick.reset()
    n = pick.robot.n_actions
    walk = sn.tasks.make("walk", n_envs=2, seed=0)
    walk.reset()
    shape = tuple(walk.action.shape)
    for act, size, words in ((pick.robot.act, (2, n), "act: action of arm"), (walk.step, shape, "action")):
        for value in unusual(*size).values():
            with pytest.raises(sn.OptionError, match=rf"{words}.* must be"):
                act(value)
        with pytest.raises(sn.OptionError, match=rf"{words}.* must be"):
            act(np.ma.masked_array(np.zeros(size), mask=np.eye(*size, dtype=bool)))
        act(torch.zeros(size, dtype=torch.bfloat16, requires_grad=True))
        act(torch.zeros(size, requires_grad=True) * 1.0)
    assert not walk.action.requires_grad
    assert not walk.last_action.requires_grad


def test_buffers_hold_plain_numbers():
    for value in (*unusual(3).values(), np.ma.masked_array(np.zeros(3, np.float32), mask=[0, 1, 0])):
        buffer = sn.Buffer(torch.ones(3))
        for call in (buffer.set_value, buffer.load, buffer.update):
            with pytest.raises(sn.errors.TreeError, match=r"expected float32 of shape \(3,\)"):
                call(value)
        assert buffer.value.tolist() == [1.0, 1.0, 1.0]
    buffer.set_value(torch.zeros(3, requires_grad=True))
    buffer.load(torch.zeros(3, requires_grad=True))
    assert not buffer.value.requires_grad


def test_camera_geometry_refuses_what_does_not_fit():
    up, origin = torch.tensor([0.0, 0.0, 1.0]), torch.zeros(3)
    for value in unusual(3).values():
        with pytest.raises(sn.OptionError, match="look_at: target must be a dense tensor"):
            sn.cameras.look_at(up, value, up)
    with pytest.raises(sn.OptionError, match=r"must fit each other, got the shapes \[\(2, 3\), \(3, 3\), \(3,\)\]"):
        sn.cameras.look_at(torch.ones(2, 3), torch.zeros(3, 3), up)
    turn = sn.cameras.look_at(torch.tensor([1, 0, 0]), origin.bfloat16(), up)
    assert turn[:, 2].tolist() == [1.0, 0.0, 0.0]
    k, cv = torch.eye(3)[None], torch.eye(4)[None, :3]
    with pytest.raises(sn.OptionError, match=r"project: points must have shape \(n, 3\)"):
        sn.cameras.project(torch.zeros(3), k, cv)
    with pytest.raises(sn.OptionError, match="must fit each other"):
        sn.cameras.project(torch.zeros(2, 1, 3), k.expand(3, 3, 3), cv)
    with pytest.raises(sn.OptionError, match="project: points must be numbers"):
        sn.cameras.project(MASKED, k, cv)


def test_other_arrays_with_masked_elements_are_refused():
    with pytest.raises(sn.OptionError, match="cells must not be masked"):
        sn.scenarios.OccupancyMap(np.ma.masked_array(np.zeros((2, 2)), mask=np.eye(2)), 0.1)
    with pytest.raises(sn.OptionError, match="values must be numbers, got masked_array"):
        sn.fit.allan_deviation(MASKED, 10.0)
    with pytest.raises(sn.OptionError, match="must be numbers, got masked_array"):
        sn.ArrayPattern(directions=np.ma.masked_array(np.eye(3), mask=np.eye(3)))
