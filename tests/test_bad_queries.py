"""Weights, networks, numbers of workers and env ids that cannot be used raise our errors."""

import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.errors import NameNotFoundError
from sensorium.generation import GenerateOptions, generate

KEYS = ("qpos",)


@pytest.fixture(scope="module")
def task():
    made = sn.tasks.make("pick", n_envs=2)
    made.reset()
    yield made
    made.close()


def network(task, outputs=None, width=None):
    observation = task.suite.read()
    inputs = sum(sn.suites.flatten_reading(observation[key]).shape[1] for key in KEYS)
    return torch.nn.Linear(width or inputs, outputs or task.robot.n_actions)


def policy(task, module, path=None):
    return sn.policies.make("checkpoint", task, module=module, keys=KEYS, path=path)


def test_weights_are_loaded(task, tmp_path):
    saved, module = network(task), network(task)
    torch.save(saved.state_dict(), tmp_path / "a.pt")
    made = policy(task, module, tmp_path / "a.pt")
    assert torch.equal(module.weight, saved.weight)
    assert made.get_action(task.suite.read()).shape == (2, task.robot.n_actions)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "cannot be read as weights"),
        (b"no weights", "cannot be read as weights"),
        (b"PK\x03\x04" + bytes(100), "cannot be read as weights"),
        ([1, 2], "must contain a dict of tensors"),
        ({"weight": 3}, "must contain a dict of tensors"),
        ({}, "'bias' has the shape None there"),
        ({"weight": torch.zeros(1, 1), "bias": torch.zeros(1)}, "weights of another network: 'bias' has the shape"),
    ],
)
def test_other_files_are_refused(task, tmp_path, content, words):
    path, module = tmp_path / "a.pt", network(task)
    before = module.weight.clone()
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content, path)
    with pytest.raises((sn.OptionError, sn.DatasetError), match=words):
        policy(task, module, path)
    assert torch.equal(module.weight, before)


def test_truncated_weights_are_refused(task, tmp_path):
    module = network(task)
    torch.save(module.state_dict(), tmp_path / "a.pt")
    data = (tmp_path / "a.pt").read_bytes()
    for size in range(0, len(data), len(data) // 25):
        (tmp_path / "b.pt").write_bytes(data[:size])
        with pytest.raises(sn.DatasetError, match=r"b\.pt cannot be read as weights"):
            policy(task, module, tmp_path / "b.pt")
    with pytest.raises(sn.DatasetError, match=r"c\.pt does not exist"):
        policy(task, module, tmp_path / "c.pt")


def test_networks_of_other_shapes_are_refused(task):
    observation = task.suite.read()
    with pytest.raises(sn.OptionError, match=r"the network cannot take \(2, \d+\) of \('qpos',\)"):
        policy(task, network(task, width=100)).get_action(observation)
    with pytest.raises(sn.OptionError, match=r"must return actions \(2, \d+\), got \(2, 3\)"):
        policy(task, network(task, outputs=3)).get_action(observation)
    for module in (None, "network", lambda x: x):
        with pytest.raises(sn.OptionError, match=r"module must be a torch\.nn\.Module"):
            policy(task, module)


@pytest.mark.parametrize("workers", [0, -1, 1.5, None, True, 1025, 10**18])
def test_numbers_of_workers(tmp_path, workers):
    options = GenerateOptions(task="balance", policy="random", episodes=1, envs=1)
    for call in (
        lambda: generate(options, tmp_path / "a", workers=workers),
        lambda: sn.recording.replay(tmp_path / "a", tmp_path / "b", workers=workers),
    ):
        with pytest.raises(sn.OptionError, match=r"workers must be an integer( in .*)?, got"):
            call()
    assert not list(tmp_path.iterdir())


QUERIES = ("describe_scene", "describe_env", "observation_of", "render")


@pytest.mark.parametrize("env", [2, -1, 10**18, 0.5, None, True, "a", [0]])
def test_envs_of_task_queries(task, env):
    for query in (*QUERIES, "pickup_name"):
        with pytest.raises(sn.OptionError, match=r"env must be an integer in \[0, 1\], got"):
            getattr(task, query)(env)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nav_to_obj", "opening", "door_opening", "reach", "pick_and_place", "multi"])
def test_envs_of_queries_of_other_tasks(name):
    options = {"tasks": ("pick", "pick_and_place")} if name == "multi" else {}
    task = sn.tasks.make(name, n_envs=2, **options)
    task.reset()
    for query in QUERIES:
        for env in (2, -1, 0.5, None, True, "a"):
            with pytest.raises(sn.OptionError, match=r"env must be an integer in \[0, 1\], got"):
                getattr(task, query)(env)
    task.close()


@pytest.mark.parametrize("envs", [[2], [-1], 5, -1, [0.5], "a", [[0]], np.ones(3, bool), [None]])
def test_ids_of_resets(task, envs):
    with pytest.raises(sn.OptionError, match="env"):
        task.reset(envs=envs)


def test_names_and_ids_of_links(task):
    for bodies in ([0, 10**6], [-1, 0], [0], "a", None, [0.5, 1], [0, [1]]):
        with pytest.raises(sn.OptionError, match=r"bodies must be 2 ids of links in \[0, "):
            task.body_poses(bodies)
    for names in (["nonesuch"] * 2, "a", None, [3, 4]):
        with pytest.raises(sn.OptionError, match="links must be one of"):
            task.grips(names)


def test_observations_with_nan_are_replaced_by_the_mean():
    pytest.importorskip("stable_baselines3")
    entity = sn.TrainableEntity("diffdrive", [sn.IMU(link="base", uuid="imu")], sn.SACMLPBrain)
    task = sn.tasks.make("balance", entity=entity, n_envs=2)
    observation = entity.suite.read()
    assert np.isfinite(entity.decide_batch(observation)).all()
    observation["imu"]["lin_acc"][0] = np.nan
    assert np.isfinite(entity.decide_batch(observation)).all()
    with torch.no_grad():
        for weights in entity.brain._sac.policy.actor.parameters():
            weights.fill_(np.nan)
    with pytest.raises(sn.OptionError, match="the networks return NaN"):
        entity.decide_batch(observation)
    task.close()


ODD_ENVS = {
    "two axes": np.zeros((0, 2)),
    "tensor of two axes": torch.zeros((0, 2)),
    "meta": torch.tensor([1], device="meta"),
    "meta mask": torch.zeros(2, dtype=torch.bool, device="meta"),
    "bfloat16": torch.zeros(2, dtype=torch.bfloat16),
    "sparse": torch.tensor([1]).to_sparse(),
}


@pytest.mark.parametrize("envs", ODD_ENVS.values(), ids=ODD_ENVS)
def test_envs_that_are_no_ids(envs):
    scene = sn.Scene()
    box = scene.add_object(sn.Box(size=(0.2, 0.2, 0.2)), name="box", free=True)
    imu = scene.add_sensor(sn.IMU(link="box"))
    scene.build(n_envs=2)
    before = set(scene.state_dict())
    for call in (
        lambda: scene.reset(envs),
        lambda: scene.hold(envs),
        lambda: scene.set_color("box", (1, 0, 0), envs=envs),
        lambda: box.set_pose((0, 0, 1), envs=envs),
        lambda: imu.read(envs),
        lambda: imu.set(acc_noise=0.1, envs=envs),
    ):
        with pytest.raises(sn.OptionError, match="envs must be integer ids or a boolean mask, got"):
            call()
    assert set(scene.state_dict()) == before
    assert imu.read([]).lin_acc.shape == (0, 3)


def test_tensors_with_a_gradient_in_a_list():
    values = [torch.zeros(1, requires_grad=True)[0]] * 3
    scene = sn.Scene()
    with pytest.raises(sn.OptionError, match="pos must be three finite numbers"):
        scene.add_object(sn.Box(), name="a", pos=values)
    box = scene.add_object(sn.Box(), name="box", free=True)
    imu = scene.add_sensor(sn.IMU(link="box"))
    scene.build()
    for call in (
        lambda: box.set_pose(values),
        lambda: imu.set(acc_noise=values),
        lambda: scene.set_color("box", values),
        lambda: scene.set_color("box", [10**400] * 3),
    ):
        with pytest.raises(sn.OptionError, match="must be numbers"):
            call()


def test_calls_on_what_is_no_sensor_or_name():
    with pytest.raises(sn.OptionError, match="Trace: sensors must be sensors, as"):
        sn.Trace("imu")
    with pytest.raises(NameNotFoundError, match="no module, entity or sensor"):
        sn.Scene()[["box"]]
    with pytest.raises(sn.NotBuiltError):
        sn.Scene().update_state()
    with pytest.raises(sn.OptionError, match="folder must be a path, got None"):
        sn.datasets.view(None)
