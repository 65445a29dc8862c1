"""The cluster buffer as the memory of entities and trainings."""

import json
import multiprocessing

import numpy as np
import pytest
import torch
from test_training import QUICK, KilledError, killed_after, weights

import sensorium as sn
from sensorium.cli import main
from sensorium.entities import ClusterOptions, Memory, VectorizedClusterBuffer
from sensorium.errors import OptionError
from sensorium.training import TrainOptions, evaluate, recipe, train

CLUSTERS = {"capacity": 400, "clusters": 4, "warmup": 120, "balance": 0.7}
SENSORS = [sn.IMU(link="torso"), sn.JointEncoder(joints=[0, 1])]


def make_entity(**options):
    return sn.TrainableEntity("balancer", SENSORS, sn.SACMLPBrain, brain_options={"hidden": (8,)}, **options)


def play(entity, n_steps, n_envs=4, seed=0):
    """Let an entity act in a task and store its transitions."""
    task = sn.tasks.make("balance", entity=entity, n_envs=n_envs, seed=seed, autoreset=True, max_steps=15)
    observation, _ = task.reset()
    due = np.ones(n_envs, bool)
    for _ in range(n_steps):
        action = entity.choose(observation, due)
        observation, reward, terminated, truncated, info = task.step(action)
        entity.experience(reward, info.get("final_obs", observation), terminated, truncated, due)
    task.close()


def test_entity_fills_a_cluster_buffer_as_it_fills_a_memory():
    entities = make_entity(memory=ClusterOptions(**CLUSTERS)), make_entity(memory=400)
    for entity in entities:
        play(entity, 40)
    buffer, memory = (entity.memory for entity in entities)
    assert isinstance(buffer, VectorizedClusterBuffer)
    assert isinstance(memory, Memory)
    assert len(buffer) == len(memory) == 160
    assert buffer.clusters is not None
    place = [each.name for each in memory.layout.fields].index("observation.imu.lin_acc")
    own, other = buffer._arrays[place], memory._rings.blocks[place].numpy()
    order = np.argsort(buffer._serials[buffer._rows_by_ring()])
    np.testing.assert_array_equal(own[buffer._rows_by_ring()][order], other[:160])
    assert entities[0].learn(2)["train/critic_loss"] > 0
    again = entities[0].start_memory(ClusterOptions(**CLUSTERS), 4, seed=3)
    assert entities[0].memory is again
    assert len(again) == 0


def _play_in_worker(name, writer):
    entity = make_entity()
    entity.attach_memory(name, writer)
    play(entity, 20, seed=writer)
    entity.memory.close()


@pytest.mark.slow
def test_entities_of_several_processes_fill_one_buffer():
    learner = make_entity()
    buffer = learner.start_memory(ClusterOptions(**CLUSTERS), n_envs=4)
    shared = buffer.share(writers=2, n_envs=4)
    with pytest.raises(OptionError, match="the entity has"):
        sn.TrainableEntity("balancer", SENSORS[:1]).attach_memory(shared.name, 0)
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=_play_in_worker, args=(shared.name, writer)) for writer in range(2)]
    for process in workers:
        process.start()
    for process in workers:
        process.join(300)
        assert process.exitcode == 0
    assert np.isfinite(list(learner.learn(2).values())).all()
    assert len(buffer) == 160
    assert buffer.missed == 0
    # the same transitions as if this process had made them
    alone = make_entity(memory=400)
    play(alone, 20, seed=1)
    rewards = alone.memory._rings.blocks[[each.name for each in alone.memory.layout.fields].index("reward")][:80]
    place = [each.name for each in buffer.layout.fields].index("reward")
    stored = torch.from_numpy(buffer._arrays[place][buffer._rows_by_ring()])
    assert torch.isin(rewards, stored).all()
    buffer.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the folder of an uninterrupted training."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    train(recipe("balance", **QUICK, memory=CLUSTERS), folder, tensorboard=False)
    return folder


def test_training_stores_the_options_and_the_buffer(whole):
    options = TrainOptions.load(whole)
    assert options.memory == ClusterOptions(**CLUSTERS)
    assert options == recipe("balance", **QUICK, memory=ClusterOptions(**CLUSTERS))
    assert json.loads((whole / "config.json").read_bytes())["memory"]["clusters"] == 4
    saved = VectorizedClusterBuffer.load(whole / "checkpoints" / "000000000480" / "memory")
    assert saved.clusters is not None
    assert saved._next_serial == 480
    assert len(evaluate(whole, episodes=2).returns) == 2


@pytest.mark.slow
@pytest.mark.parametrize("kill_at", [200, 320])
def test_killed_and_resumed_training_with_clusters_is_bit_identical(whole, tmp_path, kill_at):
    options = recipe("balance", **QUICK, memory=CLUSTERS)
    with pytest.raises(KilledError):
        train(options, tmp_path / "run", progress=killed_after(kill_at), tensorboard=False)
    assert train(options, tmp_path / "run", resume=True, tensorboard=False).steps == 480
    mine, other = weights(tmp_path / "run"), weights(whole)
    assert all(np.array_equal(mine[name], other[name]) for name in mine)
    assert (tmp_path / "run" / "evaluations.json").read_bytes() == (whole / "evaluations.json").read_bytes()


@pytest.mark.slow
def test_balance_is_learned_with_clusters(tmp_path):
    """As ``test_balance_is_learned`` with a plain memory: far more than an idle robot, whose return is about 25."""
    options = recipe("balance", steps=10_000, evaluate_every=2_000, checkpoint_every=10_000)
    clusters = ClusterOptions(capacity=200_000, clusters=16, warmup=2_000)
    train(options.model_copy(update={"memory": clusters}), tmp_path / "run", tensorboard=False)
    assert evaluate(tmp_path / "run", episodes=10).mean > 75


def test_wrong_options_raise(whole, tmp_path, capsys):
    with pytest.raises(OptionError, match=r"TrainOptions.memory.*no option 'cluster' \(did you mean 'clusters'"):
        recipe("balance", memory={"capacity": 9, "cluster": 3})
    for wrong in (0, True, 1.5, "many"):
        with pytest.raises(OptionError, match=r"TrainOptions.memory must be an integer >= 1 or ClusterOptions, got"):
            recipe("balance", memory=wrong)
    with pytest.raises(OptionError, match="warmup must be between clusters"):
        recipe("balance", memory={"capacity": 100})
    with pytest.raises(sn.errors.NameNotFoundError, match=r"no observation 'imi'; there are 'imu.ang_vel'"):
        train(recipe("balance", **QUICK, memory={**CLUSTERS, "keys": ["imi"]}), tmp_path / "a")
    assert not (tmp_path / "a").exists()
    with pytest.raises(OptionError, match=r"memory is .* in this training and cannot change on resume"):
        train(recipe("balance", **QUICK, memory=200_000), whole, resume=True)
    with pytest.raises(OptionError, match="memory must be"):
        make_entity(memory="many")
    for arguments, message in (
        (["train", "balance", "--memory", "cluster=3"], "did you mean 'clusters'"),
        (["train", "balance", "--memory", "16"], "--memory takes name=value"),
        (["train", "walk", "--memory", "clusters=3"], "--memory is an option of SAC"),
    ):
        assert main([*arguments, "--out", str(tmp_path / "b")]) == 2
        assert message in capsys.readouterr().err
    assert main(["train", "balance", "--out", str(whole), "--resume", "--memory", "clusters=3"]) == 2
    assert "cannot be changed with --resume" in capsys.readouterr().err


def test_command_has_the_memory_of_the_recipe_by_default(tmp_path):
    from sensorium.cli.train import Train

    def memory(*pairs):
        return Train("balance", tmp_path, memory=pairs)._new_options().memory

    assert memory() == memory("capacity=200000") == 200_000
    assert memory("capacity=5000") == 5000
    assert memory("clusters=4", "balance=1.0") == ClusterOptions(capacity=200_000, clusters=4, balance=1.0)
