"""Several entities in one tensor task: senses, ends, memories and views, on the device of the physics."""

import gymnasium
import numpy as np
import pytest
import torch
from pettingzoo.test import parallel_api_test, parallel_seed_test

import sensorium as sn
from sensorium.entities.nesting import flat_values
from sensorium.errors import EpisodeOverError, NameNotFoundError, OptionError, SensoriumError
from sensorium.tasks.shared_task import seed_of

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
IMU, WHEELS = sn.IMU(link="torso", acc_noise=0.1, delay=0.02), sn.JointEncoder(joints=[0, 1], noise=0.002)


def make(sensors=(IMU, WHEELS), robot="balancer", **options):
    return sn.TrainableEntity(robot, list(sensors), **options)


def learner(sensors=(IMU, WHEELS), **options):
    brain = {"brain": sn.SACMLPBrain, "brain_options": {"hidden": (16,), "batch_size": 16}, "memory": 400}
    return make(sensors, **brain, **options)


def pair(device="cpu", first="left", second="right", **options):
    entities = {first: make(), second: make([IMU])}
    return sn.tasks.make("balance", entities=entities, device=device, **{"n_envs": 4, "max_steps": 12, **options})


def actions_of(task, value=0.0):
    return {name: torch.full_like(member.action, value) for name, member in task.members.items()}


def roll(task, steps, seed=0):
    """Step with the same random actions for every entity; returns what each step returned."""
    rng = np.random.default_rng(seed)
    task.reset()
    found = []
    for _ in range(steps):
        drawn = torch.as_tensor(rng.uniform(-1, 1, (task.n_envs, 2)), dtype=torch.float32, device=task.device)
        found.append(task.step(dict.fromkeys(task.members, drawn)))
    return found


# -- what each one senses ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_each_entity_observes_its_own_sensors_on_the_device(device):
    task = pair(device)
    observations, infos = task.reset()
    assert {name: list(each) for name, each in observations.items()} == {
        "left": ["imu", "joint_encoder", "last_action"],
        "right": ["imu", "last_action"],
    }
    found = task.step(actions_of(task))
    for each in (observations, infos, *found):
        for value in flat_values(each).values():
            assert value.device == task.device
            assert len(value) == 4
    assert found[1]["left"].shape == found[2]["left"].shape == found[3]["right"].shape == (4,)
    for name, entity in task.entities.items():
        assert list(entity.observation_space) == list(observations[name])
        for key, value in flat_values(entity.suite.read()).items():
            seen = flat_values(found[0][name])[key]
            np.testing.assert_array_equal(seen.cpu(), value)
    task.close()


def test_one_entity_alone_is_the_task_for_one_entity():
    """The same bits in observations, rewards and ends, over several episodes."""
    alone = sn.tasks.make("balance", entity=make(), device="cpu", n_envs=5, max_steps=9, seed=4)
    alone.reseed(seed_of("robot", 4))
    shared = sn.tasks.make("balance", entities={"robot": make()}, device="cpu", n_envs=5, max_steps=9, seed=4)
    rng = np.random.default_rng(1)
    for ours, theirs in ((shared.reset(), alone.reset()),):
        for key, value in flat_values(theirs[0]).items():
            assert torch.equal(flat_values(ours[0]["robot"])[key], value), key
    ends = 0
    for _ in range(30):
        drawn = rng.uniform(-1, 1, (5, 2)).astype(np.float32)
        theirs, ours = alone.step(drawn), [each["robot"] for each in shared.step({"robot": drawn})]
        for mine, other in zip(ours, theirs, strict=True):
            mine, other = (flat_values(each) if isinstance(each, dict) else {"": each} for each in (mine, other))
            assert list(mine) == list(other)
            for key, value in other.items():
                assert torch.equal(mine[key], value), key
        ends += int((theirs[2] | theirs[3]).sum())
    assert ends >= 15
    assert shared.members["robot"].log.take() == alone.log.take()


@pytest.mark.parametrize("device", DEVICES)
def test_an_episode_of_an_entity_depends_on_its_name_alone(device):
    """Not on the other entities, their order, nor the number of envs."""
    few, many = pair(device, n_envs=2, spacing=3.0), pair(device, "right", "left", n_envs=5, spacing=3.0)
    starts = []
    for task in (few, many):
        task.reset()
        address = int(task.scene.model.jnt_qposadr[task.scene.model.body("left/torso").jntadr[0]])
        starts.append(task.scene.world.bind("qpos")[:2, address + 3 : address + 7].clone())  # the lean and the heading
        task.close()
    assert torch.equal(*starts)
    other = pair(device, "light", "right", n_envs=2)
    other.reset()
    address = int(other.scene.model.jnt_qposadr[other.scene.model.body("light/torso").jntadr[0]])
    assert not torch.equal(other.scene.world.bind("qpos")[:, address + 3 : address + 7], starts[0])


def test_entities_feel_each_other_only_when_they_touch():
    """The torque of another robot changes what a robot senses if both touch, not if they are far apart."""
    felt = {}
    for spacing in (0.09, 3.0):
        for torque in (0.0, 0.3):
            task = pair(n_envs=1, tilt=0.0, fall=3.1, spacing=spacing)
            task.reset()
            for _ in range(8):
                observations, *_ = task.step({**actions_of(task), "right": torch.full((1, 2), torque)})
            felt[spacing, torque] = observations["left"]["joint_encoder"]["positions"].clone()
    assert torch.equal(felt[3.0, 0.0], felt[3.0, 0.3])
    assert float((felt[0.09, 0.0] - felt[3.0, 0.0]).abs().max()) > 0.1
    assert float((felt[0.09, 0.0] - felt[0.09, 0.3]).abs().max()) > 0.02


# -- ends -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_the_episodes_of_all_entities_of_an_env_end_together(device):
    task = pair(device, n_envs=6, max_steps=40, spacing=3.0)
    together = [0, 0]
    count = torch.zeros(6, dtype=torch.int64, device=task.device)
    for observations, _, terminated, truncated, infos in roll(task, 60, seed=3):
        ends = {name: terminated[name] | truncated[name] for name in task.members}
        count = count + 1
        assert torch.equal(ends["left"], ends["right"])
        for name, other in (("left", "right"), ("right", "left")):
            assert not bool((terminated[name] & truncated[name]).any())
            cut = truncated[name] & (count < 40)  # ended by the other one, which has failed
            assert bool(terminated[other][cut].all())
            together[0] += int(cut.sum())
        together[1] += int((count == 40).sum())
        over = ends["left"]
        for name in task.members:
            last = infos[name]["final_obs"]["last_action"]
            assert bool((observations[name]["last_action"][over] == 0).all())  # of the new episode
            assert bool((last[over] != 0).all())
            assert torch.equal(last[~over], observations[name]["last_action"][~over])
        count = torch.where(over, 0, count)
    assert together[0] >= 3
    for member in task.members.values():
        assert torch.equal(member.step_count, count)
        assert torch.equal(member.episode, task.members["left"].episode)
    assert bool((task.members["left"].episode >= 1).all())
    task.close()


def test_a_failure_of_another_entity_is_no_success():
    """With a curriculum, the entity that stands does not get harder episodes because the other one falls."""
    task = pair(n_envs=4, tilt=0.0, max_steps=200, curriculum=True, spacing=3.0)
    task.reset()
    hard = {**actions_of(task), "left": torch.full((4, 2), 0.5)}
    for _ in range(120):
        _, _, terminated, truncated, _ = task.step(hard)
        assert not bool(terminated["right"].any())
        if bool(truncated["right"].any()):
            break
    else:
        pytest.fail("the robot with torque did not fall")
    taken = task.members["left"].log.take()
    assert taken["ended/fall"] + taken["ended/range"] > 0
    assert float(task.members["right"].difficulty.max()) == 0.0
    lasting = pair(n_envs=2, tilt=0.0, max_steps=5, curriculum=True, spacing=3.0)
    lasting.reset()
    for _ in range(5):
        lasting.step(actions_of(lasting))
    for member in lasting.members.values():
        torch.testing.assert_close(member.difficulty, torch.full((2,), 0.1))


def test_a_robot_that_walks_is_not_judged_by_the_fall_of_another_one():
    """``walk`` makes episodes easier after a fall or bad tracking, but not those that another entity cuts short."""
    dogs = {name: make([sn.IMU(link="torso"), sn.JointEncoder()], "quadruped") for name in ("left", "right")}
    task = sn.tasks.make(
        "walk", entities=dogs, n_envs=2, spacing=2.0, curriculum=True, standing=0.0, forward=(0.9, 1.0)
    )
    task.reset()
    for member in task.members.values():
        member.difficulty.fill_(0.5)
    for _ in range(3):
        task.step(actions_of(task))
    first = int(task.scene.model.jnt_qposadr[task.scene.model.body("right/torso").jntadr[0]])
    task.scene.world.bind("qpos")[0, first + 3 : first + 7] = torch.tensor([0.0, 1.0, 0.0, 0.0])
    _, _, terminated, truncated, _ = task.step(actions_of(task))
    assert terminated["right"].tolist() == truncated["left"].tolist() == [True, False]
    assert task.members["right"].difficulty.tolist() == pytest.approx([0.4, 0.5])
    assert task.members["left"].difficulty.tolist() == [0.5, 0.5]


def test_physics_that_diverges_ends_the_episode_of_all_without_reward():
    task = pair(n_envs=3)
    task.reset()
    task.step(actions_of(task))
    task.scene.world.bind("qvel")[1, :] = 1e12
    _, rewards, terminated, truncated, _ = task.step(actions_of(task))
    for name in task.members:
        assert rewards[name][1] == 0
        assert (rewards[name][[0, 2]] != 0).all()
        assert truncated[name].tolist() == [False, True, False]
        assert not terminated[name].any()


def test_without_autoreset_episodes_go_on():
    task = pair(n_envs=2, tilt=0.0, max_steps=3)
    assert task.autoreset
    task.autoreset = False
    task.reset()
    for _ in range(4):
        _, _, _, truncated, _ = task.step(actions_of(task))
    assert truncated["left"].all()
    assert task.members["right"].step_count.tolist() == [4, 4]
    for member in task.members.values():  # the episode is counted once
        taken = member.log.take()
        assert (taken["episodes"], taken["length"]) == (2.0, 3.0)
    with pytest.raises(OptionError, match=r"task\.autoreset = True"):
        task.rollout()
    assert task.reset()[1]["left"]["episode"].tolist() == [1, 1]


def test_reseed_matches_a_task_of_that_seed():
    first, second = pair(seed=1), pair(seed=2)
    with pytest.raises(OptionError, match="seed"):
        first.reseed(-1)
    first.reset()
    first.reseed(2)
    first.reset()
    second.reset()
    assert torch.equal(first.scene.get_state(), second.scene.get_state())


# -- brains and memories ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_entities_remember_every_step_and_learn_from_their_own_memories(device):
    task = sn.tasks.make(
        "balance", entities={"a": learner(), "b": learner([IMU])}, device=device, n_envs=4, max_steps=10
    )
    means = task.rollout(20)
    assert list(means) == ["a", "b"]
    for name, entity in task.entities.items():
        assert entity.brain.device.type == entity.memory.device.type == task.device.type
        assert len(entity.memory) == 80
        batch = entity.memory.sample(400)
        assert abs(float(batch.reward.mean()) - means[name]) < 0.2
        assert bool((batch.terminated | batch.truncated).any())
        following = batch.next_observation["last_action"]
        torch.testing.assert_close(following, batch.action.to(following))  # also at the end of an episode
    weights = {name: each.brain._sac.actor.mu.weight.clone() for name, each in task.entities.items()}
    assert np.isfinite(list(task.entities["a"].learn(2).values())).all()
    assert not torch.equal(weights["a"], task.entities["a"].brain._sac.actor.mu.weight)
    assert torch.equal(weights["b"], task.entities["b"].brain._sac.actor.mu.weight)
    task.rollout(5, remember=False, deterministic=True)
    assert len(task.entities["b"].memory) == 80
    task.close()


def test_two_dogs_walk_with_commands_of_their_own():
    sensors = [sn.IMU(link="torso", gyro_noise=0.05), sn.JointEncoder(noise=0.01)]
    dogs = {name: make(sensors, "quadruped") for name in ("first", "second")}
    task = sn.tasks.make("walk", entities=dogs, n_envs=3, spacing=1.5, randomize_sensors={"imu.gyro_bias": (0.1, 0.2)})
    assert [member.robot.options.pos[1] for member in task.members.values()] == [0.75, -0.75]
    observations, _ = task.reset()
    assert not torch.equal(observations["first"]["command"], observations["second"]["command"])
    for _ in range(50):
        observations, rewards, terminated, *_ = task.step(actions_of(task))
    assert not terminated["first"].any()  # the initial pose stands
    bias = {name: observations[name]["imu"]["ang_vel"] for name in dogs}
    assert all(bool((each.mean(0) > 0.0).all()) for each in bias.values())
    assert rewards["first"].shape == (3,)
    assert task.render(1).shape == (480, 640, 3)


def test_randomised_objects_exclude_other_robots():
    """``object_mass`` is for what is no robot; each robot's own masses are those of its task."""
    with pytest.raises(OptionError, match="no body besides the robot can move"):
        pair(randomize={"object_mass": (0.5, 2.0)})
    with pytest.raises(NameNotFoundError, match="there is no sensor 'right_imu'"):
        pair(randomize_sensors={"right_imu.acc_noise": (0.0, 1.0)})
    task = pair(randomize={"mass": (0.5, 2.0)})
    task.reset()
    model, masses = task.scene.model, task.scene.world.expand("body_mass")
    factors = [masses[:, model.body(f"{name}/torso").id] / model.body(f"{name}/torso").mass[0] for name in task.members]
    for factor in factors:
        assert 0.5 <= float(factor.min()) < float(factor.max()) <= 2.0
    assert not torch.allclose(*factors)


class Pair(sn.tasks.tensor.TensorBalance):
    """Balance with a sensor of the task for each entity; its hooks know the number of envs."""

    def check_shared(self):
        assert self.n_envs == self.config.n_envs

    def scene_options(self):
        return {"integrator": "implicitfast"} if self.n_envs else {}

    def add_sensors(self, scene):
        uuid = f"pose_{self.robot.name}"
        self.pose = scene.add_sensor(sn.FramePose(uuid=uuid, link=f"{self.robot.name}/torso", max_delay=0.04))


def test_sensors_of_the_task_are_randomised_by_the_entity_that_they_belong_to(monkeypatch):
    """Neither the presence of the other entity nor the order changes what is drawn for one of them."""
    monkeypatch.setitem(sn.tasks.TENSOR_TASKS, "balance", Pair)
    delays = []
    for names in ("left", "left right", "right left"):
        entities = {name: make() for name in names.split()}
        ranges = {"pose_left.delay": (0.0, 0.04), "imu.acc_noise": (0.1, 0.2)}
        task = sn.tasks.make("balance", entities=entities, device="cpu", n_envs=3, randomize_sensors=ranges)
        task.reset()
        delays.append(task.members["left"].pose.bind("delay").clone())
    assert len(delays[0].unique()) == 3
    assert torch.equal(delays[0], delays[1])
    assert torch.equal(delays[0], delays[2])


class Ball(sn.tasks.tensor.TensorBalance):
    """Balance beside a ball that belongs to no entity, with a tracker of it."""

    def check_shared(self):
        """Accept several entities."""

    def add_scene(self, scene):
        super().add_scene(scene)
        scene.add_object(sn.Sphere(radius=0.1, mass=1.0), name="ball", pos=(9, 0, 0.1), free=True)
        scene.add_sensor(sn.FramePose(uuid="track", link="ball", max_delay=0.04))

    def on_build(self):
        super().on_build()
        self.drawing = self.draws_shared


def test_what_belongs_to_no_entity_is_drawn_once(monkeypatch):
    """By the entity whose name is first in the alphabet, in any order of the entities."""
    monkeypatch.setitem(sn.tasks.TENSOR_TASKS, "balance", Ball)
    found = []
    for names in ("red blue", "blue red", "blue"):
        options = {"randomize": {"object_mass": (0.5, 2.0)}, "randomize_sensors": {"track.delay": (0.0, 0.04)}}
        entities = {name: make() for name in names.split()}
        task = sn.tasks.make("balance", entities=entities, device="cpu", n_envs=3, seed=2, **options)
        task.reset()
        mass = task.scene.world.expand("body_mass")[:, task.scene.model.body("ball").id]
        drawn = task.members["blue"]._randomizers.with_values({})["object_mass"][:, 0]
        torch.testing.assert_close(mass, drawn.double())
        found.append((mass.clone(), task.scene.sensors["track"].bind("delay").clone()))
        assert [name for name, member in task.members.items() if member.drawing] == ["blue"]
        if "red" in names:
            assert "object_mass" not in task.members["red"]._randomizers.with_values({})
    assert len(found[0][0].unique()) == 3
    for other in found[1:]:
        for one, same in zip(found[0], other, strict=True):
            assert torch.equal(one, same)


def test_ranges_hold_for_the_entities_that_have_the_sensor():
    task = pair(randomize_sensors={"joint_encoder.noise": (0.5, 1.0)})  # only "left" has one
    observations, _ = task.reset()
    assert "privileged/sensor_parameters" not in observations["left"]  # for critics of tasks without entities
    assert task.members["left"].robot.rig["joint_encoder"].bind("noise").min() >= 0.5
    with pytest.raises(NameNotFoundError, match="there is no sensor 'wheels'; there are"):
        pair(randomize_sensors={"wheels.noise": (0.5, 1.0)})
    entity = make(privileged=[sn.FramePose(link="torso")])
    with pytest.raises(NameNotFoundError, match="there is no sensor 'frame_pose'"):  # only its truth is observed
        sn.tasks.make("balance", entity=entity, device="cpu", randomize_sensors={"frame_pose.pos_noise": (0.0, 1.0)})


def test_the_difficulty_of_an_entity_does_not_change_when_another_one_fails():
    task = pair(n_envs=3, curriculum=True, tilt=0.0, spacing=3.0, max_steps=50)
    task.reset()
    for member in task.members.values():
        member.difficulty.fill_(0.5)
    address = int(task.scene.model.jnt_qposadr[task.scene.model.body("right/torso").jntadr[0]])
    upside_down = torch.tensor([0.0, 1.0, 0.0, 0.0])
    task.scene.world.bind("qpos")[1, address + 3 : address + 7] = upside_down.to(torch.float64)
    _, _, terminated, truncated, _ = task.step(actions_of(task))
    assert terminated["right"].tolist() == truncated["left"].tolist() == [False, True, False]
    torch.testing.assert_close(task.members["left"].difficulty, torch.full((3,), 0.5))
    torch.testing.assert_close(task.members["right"].difficulty, torch.tensor([0.5, 0.4, 0.5]))


# -- PettingZoo -------------------------------------------------------------------------------------------------------


def parallel(**options):
    return pair(**{"n_envs": 1, "max_steps": 60, **options}).as_parallel_env()


def test_pettingzoo_api_tests_pass():
    parallel_api_test(parallel(), num_cycles=100)
    parallel_seed_test(parallel)


def test_a_parallel_env_on_arrays_is_reset_by_its_user():
    env = pair(n_envs=1, tilt=0.0, max_steps=3).as_parallel_env(flatten=True, render_mode="rgb_array")
    with pytest.raises(EpisodeOverError, match="reset"):
        env.step({})
    observations, infos = env.reset(seed=3)
    assert infos == {"left": {"episode_number": 0}, "right": {"episode_number": 0}}
    assert isinstance(observations["left"], np.ndarray)
    assert observations["left"] in env.observation_space("left")
    assert [space.shape for space in env.observation_spaces.values()] == [(15,), (11,)]
    for step in range(3):
        assert env.agents == ["left", "right"]
        _, rewards, terminated, truncated, _ = env.step({agent: np.zeros(2, np.float32) for agent in env.agents})
        assert isinstance(rewards["left"], float)
        assert truncated == dict.fromkeys(env.possible_agents, step == 2)
        assert terminated == dict.fromkeys(env.possible_agents, False)
    assert env.agents == []
    assert env.reset()[1]["right"] == {"episode_number": 1}
    assert env.render().shape == (480, 640, 3)
    assert parallel().render() is None
    env.close()


@pytest.mark.parametrize("device", DEVICES)
def test_a_parallel_env_on_tensors_has_all_envs(device, monkeypatch):
    task = pair(device, seed=5)
    env = task.as_parallel_env(output="torch", flatten=True)
    observations, infos = env.reset()
    assert infos["left"]["episode_number"].tolist() == [0, 0, 0, 0]
    steps, plain_step = [], task.step  # two tasks with one seed differ in the last digits on a GPU

    def step_and_keep(actions):
        steps.append(plain_step(actions))
        return steps[-1]

    monkeypatch.setattr(task, "step", step_and_keep)
    ended = 0
    for step in range(30):
        before = observations
        observations, rewards, terminated, truncated, infos = env.step(actions_of(task, 0.4 * (step % 3 - 1)))
        expected = steps[step]
        assert env.agents == ["left", "right"]
        for name in env.agents:
            assert observations[name].device == task.device
            assert not torch.equal(observations[name], before[name])
            matrices = [
                torch.cat(list(flat_values(each[name]).values()), dim=1) for each in (expected[0], _final(expected))
            ]
            assert torch.equal(observations[name], matrices[0])
            assert torch.equal(infos[name]["final_obs"], matrices[1])
            for mine, other in zip((rewards, terminated, truncated), expected[1:4], strict=True):
                assert torch.equal(mine[name], other[name])
        ended += int((terminated["left"] | truncated["left"]).sum())
    assert len(steps) == 30
    assert ended >= 4
    task.close()


def _final(step):
    return {name: info["final_obs"] for name, info in step[4].items()}


# -- errors leave what was there --------------------------------------------------------------------------------------


class Lettered(sn.tasks.tensor.TensorBalance):
    """Balance with one more observation, the number of the step."""

    def observe(self):
        return {**super().observe(), "step": self.step_count[:, None].float()}


def test_a_task_that_cannot_be_made_leaves_its_entities_in_theirs(monkeypatch):
    one, other = learner(), learner()
    task = sn.tasks.make("balance", entities={"one": one}, device="cpu", n_envs=2)
    task.rollout(2)
    monkeypatch.setitem(sn.tasks.TENSOR_TASKS, "balance", Lettered)
    sn.tasks.make("balance", entities={"other": other}, device="cpu", n_envs=2).rollout(2)
    monkeypatch.undo()
    before = {name: value.clone() for name, value in one.brain._tensors().items()}
    with pytest.raises(OptionError, match="has learned in a task with other observations"):
        sn.tasks.make("balance", entities={"one": one, "other": other}, device="cpu", n_envs=3)
    assert one.suite.n_envs == 2
    assert all(torch.equal(before[name], value) for name, value in one.brain._tensors().items())
    task.rollout(2)
    assert len(one.memory) == 8


def test_a_reward_that_is_nan_leaves_no_transition_over_two_steps(monkeypatch):
    class Uneven(Lettered):
        def rewards(self):
            wrong = (self.step_count == 3) & (self.robot.name == "left")
            return {**super().rewards(), "odd": torch.where(wrong, torch.nan, 0.0)}

    monkeypatch.setitem(sn.tasks.TENSOR_TASKS, "balance", Uneven)
    entities = {"left": learner(), "right": learner()}
    task = sn.tasks.make("balance", entities=entities, device="cpu", n_envs=1, tilt=0.0)
    with pytest.raises(SensoriumError, match="left: the term 'odd'"):
        task.rollout(5)
    monkeypatch.setattr(task.members["left"].log, "check_reward", lambda reward: None)
    task.rollout(2)
    batch = entities["right"].memory.sample(100)
    steps = torch.stack((batch.observation["step"].flatten(), batch.next_observation["step"].flatten()), dim=1)
    assert steps.unique(dim=0).tolist() == [[0.0, 1.0], [1.0, 2.0], [3.0, 4.0], [4.0, 5.0]]


def test_the_draws_of_an_entity_do_not_depend_on_who_draws_those_of_the_scene(monkeypatch):
    class Ball(sn.tasks.tensor.TensorBalance):
        def add_scene(self, scene):
            super().add_scene(scene)
            scene.add_object(sn.Sphere(radius=0.1, mass=1.0), name="ball", pos=(9, 0, 0.1), free=True)
            scene.add_sensor(sn.FramePose(uuid="ball_pose", link="ball", max_delay=0.04))

    monkeypatch.setitem(sn.tasks.TENSOR_TASKS, "balance", Ball)
    ranges = {"ball_pose.delay": (0.0, 0.04), "imu.acc_noise": (0.1, 0.2)}
    found = []
    for names in (["red"], ["red", "zed"], ["blue", "red"]):
        entities = {name: make() for name in names}
        task = sn.tasks.make("balance", entities=entities, device="cpu", n_envs=2, seed=2, randomize_sensors=ranges)
        task.reset()
        found.append(task.members["red"].robot.rig["imu"].bind("acc_noise").clone())
        assert len(task.scene.sensors["ball_pose"].bind("delay").unique()) == 2
        task.close()
    assert len(found[0].unique()) == 6
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


# -- bad input --------------------------------------------------------------------------------------------------------


def test_invalid_arguments_raise():
    one = make()
    both = {"entities": {"a": one, "b": make()}, "device": "cpu"}
    with pytest.raises(OptionError, match="entities must be different objects"):
        sn.tasks.make("walk", entities={"a": one, "b": one})
    with pytest.raises(OptionError, match="with at least one"):
        sn.tasks.make("balance", entities={}, device="cpu")
    with pytest.raises(OptionError, match="do not pass robot or entity"):
        sn.tasks.make("balance", robot="balancer", **both)
    with pytest.raises(OptionError, match="spacing must be finite and > 0, got 0"):
        sn.tasks.make("balance", **both, spacing=0)
    with pytest.raises(OptionError, match=r"the task 'lift' is for one robot; .* if it defines check_shared\(\)"):
        sn.tasks.make("lift", **both)
    with pytest.raises(OptionError, match="the task 'pick' is for one robot; several entities can only do 'balance'"):
        sn.tasks.make("pick", entities={"a": one})
    with pytest.raises(OptionError, match='terrain must be "flat"'):
        sn.tasks.make("walk", entities={"a": make(robot="quadruped", sensors=[])}, terrain="rough")
    with pytest.raises(OptionError, match="history: with an entity, this follows from its sensors"):
        sn.tasks.make("balance", **both, history=2)
    with pytest.raises(OptionError, match="remove cameras"):
        sn.tasks.make("balance", **both, cameras=[{"name": "front"}])
    seeing = make([sn.Camera(resolution=(48, 48))])
    with pytest.raises(OptionError, match="b: entities with cameras act in tasks on arrays only"):
        sn.tasks.make("balance", entities={"a": make(), "b": seeing}, device="cpu")
    with pytest.raises(OptionError, match="slow: it decides 25 times per second"):
        sn.tasks.make("balance", entities={"slow": make(rate=25)}, device="cpu")
    with pytest.raises(OptionError, match='n_envs=4; use output="torch"'):
        pair().as_parallel_env()
    with pytest.raises(OptionError, match="render_mode"):
        parallel().task.as_parallel_env(render_mode="human")
    env = parallel()
    with pytest.raises(NameNotFoundError, match="did you mean 'left'"):
        env.action_space("lef")
    env.reset()
    with pytest.raises(OptionError, match="mapping of agents"):
        env.step(np.zeros(2))


def test_actions_that_cannot_be_used_change_nothing():
    task = pair(n_envs=2)
    with pytest.raises(EpisodeOverError, match=r"reset\(\)"):
        task.step(actions_of(task))
    task.reset()
    state, good = task.scene.get_state().clone(), actions_of(task)
    with pytest.raises(OptionError, match="actions must be a dict"):
        task.step([1, 2])
    with pytest.raises(NameNotFoundError, match="did you mean 'left'"):
        task.step({**good, "lefd": torch.zeros(2, 2)})
    with pytest.raises(OptionError, match="the action of 'right' is missing"):
        task.step({"left": good["left"]})
    with pytest.raises(OptionError, match=r"the action of 'right' must have shape \(2, 2\), got \(2,\)"):
        task.step({**good, "right": torch.zeros(2)})
    with pytest.raises(OptionError, match="the action of 'left' must be finite"):
        task.step({**good, "left": torch.full((2, 2), torch.nan)})
    assert torch.equal(task.scene.get_state(), state)
    for wrong in (0, 2.5, "two", None, True, [1]):
        with pytest.raises(OptionError, match="steps must be"):
            task.rollout(wrong)
    for option in ("deterministic", "remember"):
        with pytest.raises(OptionError, match=option):
            task.rollout(1, **{option: "no"})
    with pytest.raises(OptionError, match="has no brain"):
        task.rollout()
    task.reseed(3)
    with pytest.raises(EpisodeOverError, match=r"reset\(\)"):
        task.step(good)


def test_members_and_options_that_do_not_fit_are_refused():
    task = pair(n_envs=2)
    task.reset()
    member = task.members["left"]
    for call in (
        member.reset,
        member.begin_ended,
        member.close,
        member.as_gymnasium,
        member.as_rsl_rl,
        member.as_sb3,
        lambda: member.step(torch.zeros(2, 2)),
    ):
        with pytest.raises(OptionError, match="the task of 'left' is a member of a task of several entities"):
            call()
    task.step(actions_of(task))
    with pytest.raises(OptionError, match="autoreset must be True or False, got 'no'"):
        task.autoreset = "no"
    with pytest.raises(OptionError, match="False afterwards"):
        pair(autoreset=True)
    with pytest.raises(OptionError, match=r"spacing is the distance between several entities, got 2\.0; remove it"):
        sn.tasks.make("walk", spacing=2.0)
    with pytest.raises(TypeError):
        task.entities["left"] = make()
    with pytest.raises(OptionError, match=r"use sn.tasks.make\(\.\.\., entities=\.\.\.\).as_parallel_env\(\)"):
        gymnasium.make("sensorium/Walk-v0", entities={"a": make()})
    with pytest.raises(OptionError, match="an Env has one agent"):
        gymnasium.make_vec("sensorium/Balance-v0", num_envs=2, entities={"a": make()})
    env = parallel()
    env.reset()
    with pytest.raises(OptionError, match=r"the action of 'left' must have shape \(2,\), got \(3,\)"):
        env.step({"left": np.zeros(3), "right": np.zeros(2)})


class Silent:
    """A brain that returns what it was told to."""

    def __init__(self, observation_space, action_space, answer=None):
        self.answer = answer

    def decide(self, observation, deterministic=False):
        return self.answer

    decide_batch = decide


def test_brains_that_return_no_actions_are_named():
    for answer in (None, torch.zeros(2, 3), 1.0):
        entity = make(brain=Silent, brain_options={"answer": answer})
        task = sn.tasks.make("balance", entities={"a": entity}, device="cpu", n_envs=2)
        with pytest.raises(OptionError, match=r"must return actions of shape \(2, 2\), one for each env, got"):
            task.rollout()
    with pytest.raises(OptionError, match=r"must make an object with the method decide_batch\(\), got 3"):
        make(brain=lambda observation_space, action_space: 3)


def test_rollout_after_reseed_begins_the_episodes_of_that_seed():
    tasks = [
        sn.tasks.make("balance", entities={"a": learner(), "b": learner([IMU])}, device="cpu", n_envs=2, seed=seed)
        for seed in (1, 2)
    ]
    tasks[0].rollout(2)
    tasks[0].reseed(2)
    for task in tasks:
        task.rollout(1, deterministic=True)
        assert task.members["a"].episode.tolist() == [0, 0]
    address = int(tasks[0].scene.model.jnt_qposadr[tasks[0].scene.model.body("b/torso").jntadr[0]])
    starts = [task.scene.world.bind("qpos")[:, address + 3 : address + 7] for task in tasks]
    torch.testing.assert_close(*starts, atol=0.05, rtol=0.0)


class Uneven(sn.tasks.tensor.TensorBalance):
    """Balance whose reward is NaN for the robot on the left, in its third step."""

    def rewards(self):
        wrong = (self.step_count == 3) & (self.robot.name == "left")
        return {**super().rewards(), "odd": torch.where(wrong, torch.nan, 0.0)}


def test_rewards_that_are_nan_name_the_entity_and_the_term(monkeypatch):
    monkeypatch.setitem(sn.tasks.TENSOR_TASKS, "balance", Uneven)
    task = pair(tilt=0.0)
    task.reset()
    task.step(actions_of(task))
    task.step(actions_of(task))
    with pytest.raises(
        SensoriumError, match=r"left: the term 'odd' of the reward was NaN or infinite in env 0 at step 3"
    ):
        task.step(actions_of(task))
