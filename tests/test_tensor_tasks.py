"""Tensor tasks: random numbers of episodes, the loop of episodes, observations, and the views for learners."""

import itertools
import math

import mujoco
import numpy as np
import pytest
import torch
from gl import needs_gl

import sensorium as sn
from sensorium.entities.nesting import flat_values
from sensorium.tasks.tensor import EpisodeDraws, TensorTask, TensorTaskConfig, rotations
from sensorium.training.tensor_evaluation import run_actions

QUIET = {"joints": 0.0, "speed": 0.0, "payload": (0, 0), "friction": (1, 1), "push": 0.0}
QUIET |= {"stiffness": (1, 1), "damping": (1, 1), "strength": (1, 1)}


def walk(n_envs=2, **options):
    task = sn.tasks.make("walk", n_envs=n_envs, **options)
    task.reset()
    return task


# -- random numbers ---------------------------------------------------------------------------------------------------


def test_draws_depend_on_seed_env_episode_name_and_counter_only():
    def draw(n_envs, seed=0, episode=3, name="a", counter=0):
        draws = EpisodeDraws(seed, torch.full((n_envs,), episode))
        return draws.uniform(name, 4, counter=torch.full((n_envs,), counter))

    first = draw(8)
    assert torch.equal(draw(3), first[:3])
    for other in (draw(8, seed=1), draw(8, episode=4), draw(8, name="b"), draw(8, counter=1)):
        assert not (other == first).any()
    assert len(first.unique()) == first.numel()


def test_draws_are_uniform_and_normal():
    draws = EpisodeDraws(0, torch.zeros(20_000, dtype=torch.int64))
    values = np.sort(draws.uniform("a", 1, -2.0, 3.0)[:, 0].numpy())
    assert values[0] >= -2.0
    assert values[-1] < 3.0
    expected = (np.arange(20_000) + 0.5) / 20_000
    assert np.abs((values + 2) / 5 - expected).max() < 1.63 / math.sqrt(20_000)  # Kolmogorov-Smirnov, 1 %
    normal = draws.normal("b", 1)[:, 0]
    assert abs(float(normal.mean())) < 0.03
    assert abs(float(normal.std()) - 1) < 0.03


def test_episodes_far_apart_have_different_draws():
    episode = torch.tensor([0, 1 << 16, 1 << 20, (1 << 27) + 5])
    env = torch.zeros(4, dtype=torch.int64)
    draws = EpisodeDraws(0, episode)
    draws._envs = env
    assert len(draws.uniform("a", 1).unique()) == 4


def test_a_draw_keeps_its_size():
    draws = EpisodeDraws(0, torch.zeros(2, dtype=torch.int64))
    draws.uniform("a", 3)
    with pytest.raises(sn.OptionError, match="'a' has 3 numbers per env and cannot have 2"):
        draws.uniform("a", 2)


def test_bounds_of_a_draw_are_in_order():
    draws = EpisodeDraws(0, torch.zeros(2, dtype=torch.int64))
    for low, high in ((2.0, -1.0), (math.nan, 1), (0, math.nan)):
        with pytest.raises(sn.OptionError, match=f"the draw 'a' must have low <= high, got low={low} and high={high}"):
            draws.uniform("a", 1, low, high)
    assert draws.uniform("a", 1, torch.ones(2, 1), torch.zeros(2, 1)).shape == (2, 1)


def test_rotations_agree_with_mujoco():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 5, 4))
    a, b = (q / np.linalg.norm(q, axis=1, keepdims=True) for q in (a, b))
    vector = rng.normal(size=(5, 3))
    for row in range(5):
        product, turned, back = np.zeros(4), np.zeros(3), np.zeros(4)
        mujoco.mju_mulQuat(product, a[row], b[row])
        mujoco.mju_negQuat(back, a[row])
        mujoco.mju_rotVecQuat(turned, vector[row], back)
        one = [torch.from_numpy(each[row : row + 1]) for each in (a, b, vector)]
        assert np.allclose(rotations.multiply(one[0], one[1])[0], product)
        assert np.allclose(rotations.rotate_back(one[0], one[2])[0], turned)
        mujoco.mju_rotVecQuat(turned, np.array([0.0, 0, 1]), back)
        assert np.allclose(rotations.up(one[0])[0], turned)


# -- a task of one's own ----------------------------------------------------------------------------------------------


class Slide(TensorTask[TensorTaskConfig]):
    """A box that the robot "diffdrive" stands beside; its episodes end by rule, so that the loop can be checked."""

    name = "slide"

    def begin_episodes(self, mask):
        self.begun = getattr(self, "begun", 0) + mask.long()

    def rewards(self):
        return {"one": torch.ones(self.n_envs), "steps": 0.1 * self.step_count.float()}

    def failures(self):
        ends = torch.tensor([3, 100]).expand(2)
        return {"late": self.step_count >= ends}

    def observe(self):
        return {"count": self.step_count[:, None].float()}


def slide(**options):
    return Slide(TensorTaskConfig(robot="diffdrive", n_envs=2, max_steps=5, **options))


def test_loop_of_episodes():
    task = slide()
    observation, info = task.reset()
    assert info["episode"].tolist() == [0, 0]
    assert observation["count"].tolist() == [[0], [0]]
    seen = []
    for _ in range(6):
        observation, reward, terminated, truncated, _ = task.step(torch.zeros(2, 2))
        seen.append((observation["count"][:, 0].tolist(), reward.tolist(), terminated.tolist(), truncated.tolist()))
    # env 0 fails at its third step, env 1 is truncated at its fifth; both begin again in the same step
    assert [each[0] for each in seen] == [[1, 1], [2, 2], [0, 3], [1, 4], [2, 0], [0, 1]]
    assert [each[2] for each in seen] == [[i in (2, 5), False] for i in range(6)]
    assert [each[3] for each in seen] == [[False, i == 4] for i in range(6)]
    assert np.allclose(seen[2][1], [1.3, 1.3])
    assert task.episode.tolist() == [2, 1]
    log = task.log.take()
    assert log["episodes"] == 3
    assert log["length"] == pytest.approx(11 / 3)
    assert log["return"] == pytest.approx((3.6 + 3.6 + 6.5) / 3)
    assert log["one"] == pytest.approx(1.0)
    assert log["ended/late"] == 2
    assert task.log.take()["episodes"] == 0


def test_results_of_a_step_do_not_change_later():
    task = slide()
    task.reset()
    first = task.step(torch.zeros(2, 2))
    kept = [first[0]["count"].clone(), first[1].clone()]
    task.step(torch.zeros(2, 2))
    assert torch.equal(first[0]["count"], kept[0])
    assert torch.equal(first[1], kept[1])


def test_final_observation_is_that_of_the_episode_that_ended():
    task = slide(history=2)
    task.keep_final = True
    task.reset()
    for _ in range(3):
        task.step(torch.zeros(2, 2))
    assert task.final_actor()[0].tolist()[-1] == 2.0  # the frame before the last
    n = task._observations.n_actor
    assert task.final_actor()[0, n - 1] == 3.0
    assert task.groups()["actor"][0, [n - 1, -1]].tolist() == [0.0, 0.0]  # a new episode: its first frame twice


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_term_that_is_not_finite_is_named(value):
    class Bad(Slide):
        def rewards(self):
            bad = torch.where(self.step_count == 2, value, 0.0)
            return {"good": torch.ones(2), "bad": torch.stack((torch.zeros(()), bad[1]))}

    task = Bad(TensorTaskConfig(robot="diffdrive", n_envs=2, max_steps=5))
    task.reset()
    for _ in range(4):
        task.step_in_place(torch.zeros(2, 2))
    with pytest.raises(sn.errors.SensoriumError, match=r"'bad' of .* was NaN or infinite in env 1 at step 2 of its"):
        task.log.take()
    task.reset()
    task.step(torch.zeros(2, 2))
    with pytest.raises(sn.errors.SensoriumError, match=r"'bad' of .* was NaN or infinite in env 1 at step 2 of its"):
        task.step(torch.zeros(2, 2))


def test_a_sum_of_terms_that_is_not_finite_is_named():
    class Bad(Slide):
        def rewards(self):
            return {"one": torch.full((2,), 3e38), "other": torch.tensor([0.0, 3e38])}

    task = Bad(TensorTaskConfig(robot="diffdrive", n_envs=2))
    task.reset()
    with pytest.raises(
        sn.errors.SensoriumError, match=r"the sum of the terms of the reward was NaN or infinite in env 1 at step 1"
    ):
        task.step(torch.zeros(2, 2))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_metric_that_is_not_finite_is_named(value):
    class Bad(Slide):
        def metrics(self):
            return {"speed": torch.tensor([0.0, value])}

    task = Bad(TensorTaskConfig(robot="diffdrive", n_envs=2))
    task.reset()
    task.step(torch.zeros(2, 2))
    with pytest.raises(
        sn.errors.SensoriumError, match=r"^the metric 'speed' was NaN or infinite in env 1 at step 1 of its episode$"
    ):
        task.log.take()


def test_what_a_reset_takes_is_said():
    task = slide()
    for numbers in (torch.tensor([True, False]), [5]):
        with pytest.raises(sn.OptionError, match=r"reset\(\) of a tensor task begins an episode in every env: numbers"):
            task.reset(numbers)


def test_ranges_are_in_order():
    for name in ("forward", "left", "turn"):
        with pytest.raises(
            sn.OptionError, match=rf"WalkConfig\.{name} must be \(low, high\) with low <= high, got \(1"
        ):
            sn.tasks.make("walk", **{name: (1.0, -1.0)})
    for name in ("payload", "friction", "stiffness", "damping", "strength"):
        with pytest.raises(sn.OptionError, match=rf"WalkRandomization\.{name} must be \(low, high\) with low <= high"):
            sn.tasks.make("walk", randomize={name: (2.0, 1.0)})
    with pytest.raises(sn.OptionError, match=r"WalkRandomization\.friction must be \(low, high\) with low >= 0"):
        sn.tasks.make("walk", randomize={"friction": (-1.0, 1.0)})


def test_a_robot_without_the_readings_of_a_task_does_not_fit():
    with pytest.raises(
        sn.OptionError, match=r"robot: 'quadruped' does not fit the task 'balance', .* it lacks 'wheels'"
    ):
        sn.tasks.make("balance", robot="quadruped", device="cpu")


def test_actions_are_checked():
    task = slide()
    with pytest.raises(sn.EpisodeOverError, match="reset"):
        task.step(torch.zeros(2, 2))
    task.reset()
    with pytest.raises(sn.OptionError, match=r"shape \(2, 2\), got \(2, 3\)"):
        task.step(torch.zeros(2, 3))
    with pytest.raises(sn.OptionError, match="finite"):
        task.step(torch.full((2, 2), math.nan))


def test_observe_patterns():
    with pytest.raises(sn.errors.NameNotFoundError, match=r"'imu/gyro' matches no reading.*imu/ang_vel"):
        walk(observe=("imu/gyro",))
    with pytest.raises(sn.errors.NameNotFoundError, match=r"'imu' matches no reading.*no sensors.*rig"):
        walk(observe=("imu",), rig={"sensors": ()})
    assert set(walk(observe=("joints/positions",)).observation()) == {
        *("joints", "command", "last_action", "privileged/joints", "privileged/command", "privileged/last_action"),
        *(f"privileged/{name}" for name in ("velocity", "height", "torques", "payload", "friction")),
        *(f"privileged/{name}" for name in ("stiffness", "damping", "strength")),
    }


def test_cameras_of_a_rig_are_not_flattened_into_the_observations():
    """The depth of the sky is infinite, which made the actions of a policy NaN."""
    task = slide()
    task.reset()
    assert {"front_left", "front_right"} < set(task.robot.rig.names)
    assert [name for name in task.observation() if not name.startswith("privileged/")] == [
        *("lidar", "imu", "odometry", "count")
    ]
    assert task.as_rsl_rl().get_observations()["critic"].isfinite().all()
    for pattern in ("front_left", "front_left/depth", "front*"):
        with pytest.raises(sn.OptionError, match=r"camera of 'robot'.*observe_cameras"):
            slide(observe=("imu", pattern))


def test_observations_that_are_not_finite_are_named():
    class Undefined(Slide):
        def observe(self):
            return {"slope": torch.tensor([[0.0], [math.inf]])}

    task = Undefined(TensorTaskConfig(robot="diffdrive", n_envs=2))
    task.reset()
    with pytest.raises(sn.OptionError, match=r"action must be finite.*'slope' in env 1"):
        task.step(torch.full((2, 2), math.nan))


# -- walk -------------------------------------------------------------------------------------------------------------


def test_an_episode_does_not_depend_on_the_number_of_envs():
    runs = []
    for n_envs in (2, 5):
        task = walk(n_envs, seed=7, max_steps=4)
        for _ in range(6):  # into the second episode
            task.step(torch.full((n_envs, 12), 0.3))
        runs.append((task.scene.get_state()[:2], task.groups()["actor"][:2], task.groups()["critic"][:2]))
    assert all(torch.equal(*pair) for pair in zip(*runs, strict=True))


@pytest.mark.parametrize(
    ("robot", "n_joints", "height", "mass"), [("quadruped", 12, 0.2825, 12.9), ("humanoid", 19, 0.645, 34.8)]
)
def test_robots_stand_without_actions(robot, n_joints, height, mass):
    task = walk(robot=robot, randomize=QUIET)
    for _ in range(100):
        _, _, terminated, _, _ = task.step(torch.zeros(2, n_joints))
        assert not terminated.any()
    assert torch.allclose(task.observation()["privileged/height"], torch.tensor(height), atol=0.01)
    model = task.scene.model
    assert model.body_mass.sum() == pytest.approx(mass)
    assert model.nu == n_joints


@needs_gl
@pytest.mark.parametrize(("robot", "n_feet"), [("quadruped", 4), ("humanoid", 2)])
def test_images_show_the_robot_down_to_its_feet(robot, n_feet):
    image = walk(robot=robot, randomize=QUIET).render().astype(int)
    assert image.shape == (480, 640, 3)
    orange = (image[..., 0] > 1.5 * image[..., 2]) & (image[..., 0] > 60)
    rows, columns = np.nonzero(orange)
    assert len(rows) > 40 * n_feet
    assert rows.max() < 460
    assert columns.min() > 40
    assert columns.max() < 600


def test_episodes_begin_at_the_keyframe_of_a_model_file(tmp_path, capfd):
    geom = '<geom type="capsule" size=".03" fromto="0 0 0 0 0 -.2"/>'
    leg = '<body pos="{x} 0 0"><joint name="{n}" axis="0 1 0" range="-1 1"/>' + geom + "</body>"
    legs = "".join(leg.format(x=x, n=n) for n, x in (("front", 0.2), ("rear", -0.2)))
    servos = "".join(f'<position name="{n}" joint="{n}" kp="20" kv="1" inheritrange="1"/>' for n in ("front", "rear"))
    (tmp_path / "dog.xml").write_text(f"""
        <mujoco><worldbody><body name="torso" pos="0 0 .4"><freejoint/><geom type="box" size=".3 .1 .05"/>{legs}</body>
        </worldbody><actuator>{servos}</actuator>
        <keyframe><key name="home" qpos="0 0 .3 1 0 0 0 .4 -.4" ctrl=".4 -.4"/></keyframe></mujoco>""")
    still = {"joints": 0.0, "speed": 0.0}
    options = {"robot": str(tmp_path / "dog.xml"), "observe": (), "n_envs": 3, "randomize": still}
    task = sn.tasks.make("walk", keyframe="home", **options)
    task.reset()
    qpos = task.scene.world.bind("qpos")
    torch.testing.assert_close(qpos[:, 2], torch.full((3,), 0.3, dtype=qpos.dtype))
    torch.testing.assert_close(qpos[:, 7:], torch.tensor([[0.4, -0.4]], dtype=qpos.dtype).expand(3, 2))
    assert task.scene.world.bind("ctrl")[0].tolist() == [0.4, -0.4]
    assert "WARNING" not in capfd.readouterr().err
    with pytest.raises(sn.errors.NameNotFoundError, match="did you mean 'home'"):
        sn.tasks.make("walk", keyframe="hom", **options)


def test_commands_lie_in_their_ranges_and_some_stand():
    task = walk(400, seed=1, forward=(0.2, 0.8), left=(0, 0), turn=(-0.5, 0.5), standing=0.25, randomize=QUIET)
    command = task.observation()["command"]
    still = (command == 0).all(dim=1)
    assert 0.15 < float(still.float().mean()) < 0.35
    moving = command[~still]
    assert moving[:, 0].min() >= 0.2
    assert moving[:, 0].max() < 0.8
    assert (moving[:, 1] == 0).all()
    assert moving[:, 2].min() < -0.4
    assert moving[:, 2].max() > 0.4


def test_the_command_changes_after_its_time():
    task = walk(8, command_time=0.1, standing=0.0, randomize=QUIET)
    seen = [task.observation()["command"], *(task.step(torch.zeros(8, 12))[0]["command"] for _ in range(10))]
    changed = [bool((a != b).any()) for a, b in itertools.pairwise(seen)]
    assert changed == [step % 5 == 0 for step in range(1, 11)]


def test_velocity_of_the_critic_and_tracking_agree_with_mujoco():
    task = walk(1, randomize={**QUIET, "speed": 1.0}, seed=5)
    for _ in range(3):
        task.step(torch.zeros(1, 12))
    model, data = task.scene.model, mujoco.MjData(task.scene.model)
    data.qpos[:], data.qvel[:] = task.scene.world.bind("qpos")[0], task.scene.world.bind("qvel")[0]
    mujoco.mj_forward(model, data)
    twist = np.zeros(6)
    mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, model.body("robot/torso").id, twist, True)
    observation = task.observation()
    assert np.allclose(observation["privileged/velocity"][0], twist[3:], atol=1e-5)
    assert np.allclose(observation["privileged/imu"]["ang_vel"][0], twist[:3], atol=1e-5)
    error = np.sum((observation["command"][0, :2].numpy() - twist[3:5]) ** 2)
    assert float(task.last_metrics()["tracking"][0]) == pytest.approx(math.exp(-error / 0.25), abs=1e-5)
    assert float(task.rewards()["track_velocity"][0]) == pytest.approx(1.5 * 0.02 * math.exp(-error / 0.25), abs=1e-6)


def test_randomised_fields_are_what_the_critic_sees():
    task = walk(16, seed=3)
    observation, world, model = task.observation(), task.scene.world, task.scene.model
    torso = model.body("robot/torso").id
    mass = world.expanded["body_mass"][:, torso]
    assert torch.allclose(mass.float() - 6.1, observation["privileged/payload"][:, 0], atol=1e-5)
    assert len(mass.unique()) == 16
    assert mass.min() >= 5.1
    assert mass.max() <= 8.1
    gain = world.expanded["actuator_gainprm"][:, :, 0].float()
    assert torch.allclose(gain, 40 * observation["privileged/stiffness"].expand(16, 12), rtol=1e-5)
    force = world.expanded["actuator_forcerange"][:, 0, 1].float()
    assert torch.allclose(force, 24 * observation["privileged/strength"][:, 0], rtol=1e-5)
    before = mass.clone()
    task.reset()
    assert (mass != before).all()


@pytest.mark.parametrize("low", [-50.0, -6.1])
def test_a_payload_leaves_the_torso_some_mass(low):
    text = rf"^randomize\.payload must be > -6\.1 kg, since the link 'torso' has a mass of 6\.1 kg; got \({low:g}, 1\)"
    with pytest.raises(sn.OptionError, match=text):
        walk(randomize={"payload": (low, 1.0)})
    task = walk(randomize={"payload": (-6.0, -6.0)})
    assert (task.scene.world.expanded["body_mass"][:, task.scene.model.body("robot/torso").id] > 0).all()


def test_pushes_change_the_velocity_when_they_are_due():
    pushed, quiet = (walk(4, randomize={**QUIET, "push": push, "push_time": 0.1}) for push in (0.5, 0.0))
    for step in range(1, 7):
        for task in (pushed, quiet):
            task.step(torch.zeros(4, 12))
        same = torch.equal(pushed.scene.get_state(), quiet.scene.get_state())
        assert same == (step <= 5)  # the push comes before the sixth step
    change = pushed.scene.world.bind("qvel")[:, :2] - quiet.scene.world.bind("qvel")[:, :2]
    assert (change.abs() > 1e-3).all()
    assert (change.abs() < 0.6).all()


def test_a_robot_that_falls_terminates():
    task = walk(2, randomize=QUIET)
    qpos = task.scene.world.bind("qpos")
    qpos[0, 3:7] = torch.tensor([math.cos(0.75), math.sin(0.75), 0.0, 0.0])
    _, reward, terminated, truncated, _ = task.step(torch.zeros(2, 12))
    assert terminated.tolist() == [True, False]
    assert truncated.tolist() == [False, False]
    assert reward[0] < 0.9 * task.config.rewards.fall
    assert reward[1] > 0.9 * task.config.rewards.fall
    assert task.episode.tolist() == [1, 0]
    assert task.step_count.tolist() == [0, 1]


def test_an_env_that_diverges_is_truncated_and_begins_again():
    task = walk(2, randomize=QUIET)
    task.scene.world.bind("qvel")[1] = 1e12
    _, reward, terminated, truncated, _ = task.step(torch.zeros(2, 12))
    assert truncated.tolist() == task.diverged.tolist() == [False, True]
    assert not terminated.any()
    assert reward[1] == 0
    for _ in range(3):
        observation, _, _, truncated, _ = task.step(torch.zeros(2, 12))
        assert not truncated.any()
        assert torch.isfinite(observation["privileged/velocity"]).all()
        assert not task.diverged.any()


@pytest.mark.parametrize("n_envs", [1, 3])
def test_rewards_have_the_same_bits_at_every_number_of_envs(n_envs):
    many, few = walk(16, seed=5), walk(n_envs, seed=5)
    action = torch.zeros(16, 12)
    for step in range(10):
        action.fill_(0.05 * step)
        assert torch.equal(many.step(action)[1][:n_envs], few.step(action[:n_envs])[1])


def test_the_last_observation_of_an_env_that_diverges_is_that_of_the_step_before():
    task = walk(2, randomize=QUIET)
    task.keep_final = True
    before = task.step(torch.zeros(2, 12))[0]
    task.scene.world.bind("qvel")[1] = 1e12
    last = task.step(torch.zeros(2, 12))[4]["final_obs"]
    pairs = list(zip(flat_values(before).values(), flat_values(last).values(), strict=True))
    assert all(torch.equal(one[1], other[1]) for one, other in pairs)
    assert not all(torch.equal(one[0], other[0]) for one, other in pairs)


def test_a_good_episode_that_is_over_raises_the_difficulty_once():
    task = walk(1, randomize=QUIET, curriculum=True, standing=1.0, max_steps=20)
    task.autoreset = False
    task.reset()
    for _ in range(30):
        task.step(torch.zeros(1, 12))
    assert float(task.log.take()["tracking"]) > 0.8
    assert task.difficulty.tolist() == pytest.approx([0.1])


def test_an_episode_that_diverges_is_no_success_in_an_evaluation_and_leaves_no_nan():
    class Unstable(Slide):
        def failures(self):
            return {}

        def act(self):
            velocity = self.scene.world.bind("qvel")
            velocity[1, 0] = torch.where(self.step_count[1] == 2, 1e30, velocity[1, 0])

        def metrics(self):
            return {"drift": torch.where(self.scene.world.diverged != 0, math.nan, 0.5)}

    task = Unstable(TensorTaskConfig(robot="diffdrive", n_envs=2, max_steps=5))
    found = run_actions(task, lambda: torch.zeros(2, 2), 2)
    assert found.lengths == (5, 3)
    assert found.successes == (True, False)
    assert math.isfinite(found.metrics["drift"])
    assert math.isfinite(task.log.take()["drift"])


def test_ground_truth_for_the_actor():
    task = walk(ground_truth=True)
    observation = task.step(torch.zeros(2, 12))[0]
    for uuid in ("imu", "joints"):
        for part, value in observation[uuid].items():
            assert torch.equal(value, observation[f"privileged/{uuid}"][part])
    measured = walk().step(torch.zeros(2, 12))[0]
    assert not torch.equal(measured["joints"]["velocities"], measured["privileged/joints"]["velocities"])


def test_tasks_with_planners_refuse_a_gpu():
    with pytest.raises(sn.OptionError, match=r"'pick' runs on the CPU only.*walk"):
        sn.tasks.make("pick", device="cuda")
    with pytest.raises(sn.OptionError, match="fixed"):
        sn.tasks.make("walk", robot="franka")
    with pytest.raises(sn.OptionError, match="position servo per joint"):
        sn.tasks.make("walk", robot="balancer", observe=("*",))


# -- on a GPU ---------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_episodes_are_the_same_on_both_devices():
    tasks = [sn.tasks.make("walk", n_envs=4, seed=3, device=device, max_steps=4) for device in ("cpu", "cuda")]
    for task in tasks:
        task.reset()
        for _ in range(6):  # captured from the second step on; into the second episode
            task.step(torch.full((4, 12), 0.2, device=task.device))
    one, other = (flat(task.observation()) for task in tasks)
    assert one.keys() == other.keys()
    for name in ("command", "privileged/payload", "privileged/friction", "privileged/strength"):
        assert torch.equal(one[name], other[name]), name
    for name in ("privileged/height", "privileged/velocity", "privileged/joints/positions", "attitude"):
        assert torch.allclose(one[name], other[name], atol=2e-3), name
    assert tasks[0].step_count.tolist() == tasks[1].step_count.tolist() == [2] * 4
    assert tasks[1].episode.tolist() == [1] * 4


@pytest.mark.gpu
def test_loop_of_episodes_on_a_gpu():
    runs = []
    for device in ("cpu", "cuda"):
        task = sn.tasks.make("walk", n_envs=3, device=device, max_steps=3, randomize=QUIET)
        task.reset()
        rows = []
        for _ in range(7):
            observation, reward, terminated, truncated, _ = task.step(torch.zeros(3, 12, device=task.device))
            assert observation["command"].device == task.device
            rows.append([terminated.tolist(), truncated.tolist(), task.step_count.tolist(), task.episode.tolist()])
            assert torch.isfinite(reward).all()
        runs.append((rows, task.log.take()))
    assert runs[0][0] == runs[1][0]
    assert runs[0][1].keys() == runs[1][1].keys()
    for name, value in runs[0][1].items():
        assert runs[1][1][name] == pytest.approx(value, rel=0.02, abs=2e-3), name


def flat(observation):
    """Return "uuid/part" -> tensor on the CPU."""
    found = {}
    for uuid, value in observation.items():
        parts = {f"{uuid}/{part}": each for part, each in value.items()} if isinstance(value, dict) else {uuid: value}
        found |= {name: each.cpu() for name, each in parts.items()}
    return found


# -- views ------------------------------------------------------------------------------------------------------------


def test_rsl_rl_view():
    env = walk(3, max_steps=2).as_rsl_rl()
    groups = env.get_observations()
    assert set(groups.keys()) == {"actor", "critic"}
    assert groups["actor"].shape == (3, 45)
    assert groups["critic"].shape[1] > 45
    for _ in range(2):
        groups, reward, dones, extras = env.step(torch.zeros(3, 12))
    assert dones.tolist() == [1, 1, 1]
    assert extras["time_outs"].all()
    assert reward.shape == (3,)
    assert env.episode_length_buf.tolist() == [0, 0, 0]


def test_stable_baselines3_learns_in_the_view():
    from stable_baselines3 import PPO

    env = walk(4, max_steps=6).as_sb3()
    observation = env.reset()
    assert observation.shape == (4, 45)
    assert env.observation_space.contains(observation[0])
    for _ in range(6):
        before, (observation, _, done, infos) = observation, env.step(np.zeros((4, 12), np.float32))
    assert done.all()
    assert all(info["TimeLimit.truncated"] for info in infos)
    final = infos[0]["terminal_observation"]
    assert not np.array_equal(final, observation[0])
    assert not np.array_equal(final, before[0])
    assert infos[0]["episode"]["l"] == 6
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=16, n_epochs=1, seed=0, device="cpu")
    weights = [each.clone() for each in model.policy.parameters()]
    model.learn(64)
    assert any(not torch.equal(a, b) for a, b in zip(weights, model.policy.parameters(), strict=True))


def test_stable_baselines3_observes_dicts():
    from stable_baselines3 import PPO

    env = walk(4, max_steps=6).as_sb3(flatten=False)
    observation = env.reset()
    assert {name: value.shape for name, value in observation.items()} == {
        "imu": (4, 3),
        "attitude": (4, 3),
        "joints": (4, 24),
        "command": (4, 3),
        "last_action": (4, 12),
    }
    flat = walk(4, max_steps=6).as_sb3()
    assert np.array_equal(flat.reset(), np.concatenate(list(observation.values()), axis=1))
    action = np.full((4, 12), 0.1, np.float32)
    for _ in range(6):
        (observation, reward, done, infos), (same, same_reward, _, same_infos) = env.step(action), flat.step(action)
        assert np.array_equal(same, np.concatenate(list(observation.values()), axis=1))
        assert np.array_equal(reward, same_reward)
    assert done.all()
    for info, other in zip(infos, same_infos, strict=True):
        last = np.concatenate(list(info["terminal_observation"].values()))
        assert np.array_equal(last, other["terminal_observation"])
    PPO("MultiInputPolicy", env, n_steps=8, batch_size=16, n_epochs=1, seed=0, device="cpu").learn(32)
    assert set(walk(4).as_sb3(keys=("imu", "privileged/velocity"), flatten=False).reset()) == {
        "imu",
        "privileged/velocity",
    }


OWN = """
<mujoco>
  <compiler angle="radian"/>
  <worldbody>
    <body name="torso" pos="0 0 0.27">
      <freejoint/>
      <geom type="box" size="0.2 0.1 0.05" mass="3"/>
      <body pos="0.2 0 -0.05">
        <joint name="front" axis="0 1 0" range="-1 1"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.02" mass="0.3"/>
      </body>
      <body pos="-0.2 0 -0.05">
        <joint name="rear" axis="0 1 0" range="-0.5 0.5"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.02" mass="0.3"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position joint="front" kp="50" forcerange="-20 20"/>
    <position name="back" joint="rear" kp="50" ctrlrange="-0.2 0.3"/>
  </actuator>
</mujoco>
"""
"""A robot whose first servo has neither a name nor a control range."""


def test_a_model_file_without_sensors_names_and_control_ranges_walks(tmp_path):
    path = tmp_path / "own.xml"
    path.write_text(OWN)
    task = sn.tasks.make("walk", robot=str(path), n_envs=2)
    observation, _ = task.reset()
    assert {"imu", "attitude", "joints"} <= observation.keys()
    term = task.action_terms()[0]
    assert term.actuators == ("front", "back")
    assert term.min == (-1.0, -0.2)
    assert term.max == (1.0, 0.3)
    task.step(torch.ones(2, 2))
    path.write_text(
        OWN.replace('<position name="back"', '<motor name="back"').replace(' kp="50" ctrlrange="-0.2 0.3"', "")
    )
    with pytest.raises(sn.OptionError, match="actuator 'back' has no ctrlrange, and cannot take one from its joint"):
        sn.tasks.make("walk", robot=str(path))


@pytest.mark.parametrize("name", ["own", "lift"])
def test_robots_that_a_task_has_changed_are_recorded(name, tmp_path):
    """A model whose servos were completed, and an arm without its controllers."""
    robot = {"own": OWN, "lift": None}[name]
    task = sn.tasks.make("walk", robot=robot, n_envs=2) if robot else sn.tasks.make("lift", n_envs=2)
    task.robot.options.model_dump(mode="json")
    task.reset()
    action = torch.zeros_like(task.action)
    with sn.recording.Recorder(task.scene, tmp_path / "run") as recorder:
        task.step(action)
        recorder.step()
    scene = sn.recording.Recording(tmp_path / "run").build_scene()
    assert scene.model.nq == task.scene.model.nq
    torch.testing.assert_close(scene.model.actuator_ctrlrange, task.scene.model.actuator_ctrlrange)


def test_a_model_with_incomplete_servos_that_does_not_compile_raises():
    with pytest.raises(sn.errors.ModelError, match="the model does not compile"):
        sn.tasks.make("walk", robot=OWN.replace('mass="3"', 'mass="-3"'))


def test_servos_on_joints_in_the_frame_of_the_parent_are_named():
    """MuJoCo cannot give them the range of the joint."""
    text = OWN.replace('<position joint="front" kp', '<position jointinparent="front" kp')
    with pytest.raises(sn.OptionError, match="actuator 'front' has no ctrlrange, and cannot take one from its joint"):
        sn.tasks.make("walk", robot=text)


@pytest.mark.parametrize("name", ["balance", "walk"])
def test_an_episode_that_goes_on_without_a_reset_is_counted_once(name):
    task = sn.tasks.make(
        name, n_envs=3, device="cpu", curriculum=True, max_steps=5, **({} if name == "walk" else {"tilt": 0.0})
    )
    task.autoreset = False
    taken = []
    for _ in range(2):
        task.reset()
        for _ in range(12):
            task.step(torch.zeros_like(task.action))
        taken.append(task.log.take())
        assert task.step_count.tolist() == [12, 12, 12]
        assert task.truncated.all()
    for each in taken:
        assert (each["episodes"], each["length"]) == (3.0, 5.0)
        assert each["ended/fall"] == 0
    if name == "balance":
        torch.testing.assert_close(task.difficulty, torch.full((3,), 0.2))  # two successes
        assert taken[0]["return"] <= 5.0 + 1e-6  # of five steps
    task.autoreset = True
    task.step(torch.zeros_like(task.action))
    assert task.step_count.tolist() == [0, 0, 0]  # new episodes began
    assert task.log.take() == {"episodes": 0.0}


def test_heights_of_flat_ground_are_refused():
    with pytest.raises(sn.OptionError, match='observe_heights needs terrain="rough"'):
        sn.tasks.make("walk", observe_heights=True)


def test_a_reading_that_observe_returns_whole_is_refused_with_its_parts():
    class Own(Slide):
        def observe(self):
            return {"imu": self.robot.rig["imu"].read()}

    text = r"got IMUData for 'imu'; return its parts, such as 'imu_lin_acc': reading\.lin_acc"
    with pytest.raises(sn.OptionError, match=text):
        Own(
            TensorTaskConfig(
                robot="diffdrive", n_envs=2, rig=sn.robots.SensorRig(sensors=[{"name": "imu", "type": "IMU"}])
            )
        )
