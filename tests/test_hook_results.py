"""What hooks of tasks and sensors of users return: a wrong result raises an error that names the hook or the sensor."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

import sensorium as sn
from sensorium.tasks.balance import Balance, BalanceConfig
from sensorium.tasks.tensor import TensorTask, TensorTaskConfig
from sensorium.tasks.tensor.hook_results import checked_terms

B = 2


class OwnError(RuntimeError):
    """An exception of the user's own code."""


# -- array tasks -------------------------------------------------------------------------------------------------------


def array_task(**hooks):
    """Return a task with hooks that return these values, or call them."""

    def method(value):
        return value if callable(value) else lambda self, *args: value

    defaults = {"judge": np.zeros(B, bool), "rewards": {"one": np.zeros(B)}}  # those of "balance" call other hooks
    kind = type("Mine", (Balance,), {name: method(value) for name, value in (defaults | hooks).items()})
    return kind(BalanceConfig(n_envs=B, max_steps=4, keep_history=False))


def step(task):
    task.reset()
    return task.step(np.zeros(task.action_space.shape))


@pytest.mark.parametrize(
    "value", [None, "much", [1.0], np.zeros((B, 1)), np.zeros(3), np.zeros(B, complex), object(), [[1], [2, 3]], {}]
)
def test_rewards_of_a_wrong_form(value):
    task = array_task(rewards={"good": np.zeros(B), "a": value})
    wanted = r"Mine\.rewards must return numbers of shape \(2,\), one per env, for 'a'; got"
    with pytest.raises(sn.OptionError, match=wanted):
        step(task)
    task.close()


@pytest.mark.parametrize("hook", ["rewards", "failures"])
@pytest.mark.parametrize("value", [None, np.zeros(B), {3: np.zeros(B)}, [("a", np.zeros(B))]])
def test_terms_without_names(hook, value):
    task = array_task(**{hook: value})
    with pytest.raises(sn.OptionError, match=rf"Mine\.{hook} must return a dict of names to \w+ of shape \(2,\); got"):
        step(task)
    task.close()


def test_no_term_of_the_reward():
    with pytest.raises(sn.OptionError, match=r"Mine\.rewards must return at least one term; got"):
        step(array_task(rewards={}))


def test_the_reward_is_the_sum_of_its_terms():
    task = array_task(rewards={"near": np.array([1.0, 2.0]), "effort": -0.25})
    assert step(task)[1].tolist() == [0.75, 1.75]
    assert {name: value.tolist() for name, value in task.reward_terms.items()} == {
        "near": [1.0, 2.0],
        "effort": [-0.25, -0.25],
    }
    task.close()


def test_any_failure_terminates():
    task = array_task(failures={"left": np.array([True, False]), "right": [False, False]})
    assert step(task)[2].tolist() == [True, False]
    task.close()


@pytest.mark.parametrize("value", [np.array([0.0, np.nan]), [1.0, np.inf], np.array([1.0, 1e300])])
@pytest.mark.filterwarnings("ignore:overflow")
def test_rewards_that_are_not_finite(value):
    task = array_task(rewards={"good": [0.0, 0.0], "bad": value})
    wanted = r"Mine\.rewards must return finite numbers of float32, got [\w+]+ for 'bad' in env 1 at step 1"
    with pytest.raises(sn.OptionError, match=wanted):
        step(task)
    task.close()


@pytest.mark.parametrize("value", [0.5, [0.5, 0.5], torch.tensor([0.5, 0.5]), np.full(B, 0.5)])
def test_rewards_in_any_container(value):
    task = array_task(rewards={"one": value})
    assert step(task)[1].tolist() == [0.5, 0.5]
    task.close()


@pytest.mark.parametrize("value", [None, "no", [True], np.zeros((B, 1), bool), np.array([0.5, np.nan])])
@pytest.mark.parametrize("hook", ["judge", "failures"])
def test_masks_of_a_wrong_form(hook, value):
    task = array_task(**{hook: value if hook == "judge" else {"fall": value}})
    with pytest.raises(sn.OptionError, match=rf"Mine\.{hook} must return booleans of shape \(2,\), one per env.*; got"):
        step(task)
    task.close()


@pytest.mark.parametrize("value", [None, 3, "text", [("a", 1)]])
def test_descriptions_of_a_wrong_form(value):
    with pytest.raises(sn.OptionError, match=r"Mine\.describe_env must return a mapping .*; got"):
        array_task(describe_env=value).reset()


def test_descriptions_that_are_not_json():
    with pytest.raises(sn.OptionError, match="'task_info'"):
        array_task(describe_env={"far": np.zeros(2)}).reset()


@pytest.mark.parametrize(
    ("hook", "value"),
    [("scene_options", None), ("scene_options", {1: 2}), ("scene_options", {"dt": 0.1}), ("place_robot", None)],
)
def test_hooks_of_the_scene(hook, value):
    with pytest.raises(sn.OptionError, match=rf"Mine\.{hook} must return .*; got"):
        array_task(**{hook: value})


@pytest.mark.parametrize("value", [None, 3, [None], "text"])
@pytest.mark.parametrize("hook", ["create_robot_sensors", "create_task_sensors"])
def test_sensors_of_a_wrong_form(hook, value):
    with pytest.raises(sn.OptionError, match=r"robot 'balancer'|create_task_sensors|task 'balance'"):
        array_task(**{hook: value})


@pytest.mark.parametrize("value", ["high", float("nan"), True])
def test_max_return(value):
    kind = type("Mine", (Balance,), {"max_return": value})
    with pytest.raises(sn.OptionError, match=r"Mine\.max_return must return a finite number or None; got"):
        sn.tasks.hook_results.max_return_of(kind.__new__(kind))


@pytest.mark.parametrize("hook", ["rewards", "judge", "failures", "describe_env"])
def test_exceptions_of_hooks_pass_through(hook):
    def fails(self, *args):
        raise OwnError("mine")

    with pytest.raises(OwnError, match=r"^mine$"):
        step(array_task(**{hook: fails}))


# -- tensor tasks ------------------------------------------------------------------------------------------------------


class Slide(TensorTask[TensorTaskConfig]):
    """A box that the robot "diffdrive" stands beside."""

    name = "slide"

    def rewards(self):
        return {"one": torch.ones(self.n_envs)}


def tensor_task(**hooks):
    def method(value):
        return value if callable(value) else lambda self, *args: value

    kind = type("Mine", (Slide,), {name: method(value) for name, value in hooks.items()})
    return kind(TensorTaskConfig(robot="diffdrive", n_envs=B, max_steps=4))


def tensor_step(task):
    task.reset()
    return task.step(torch.zeros_like(task.action))


WRONG = [
    None,
    torch.zeros(B),
    [torch.zeros(B)],
    {"a": None},
    {"a": 0.0},
    {"a": np.zeros(B)},
    {"a": torch.zeros(3)},
    {"a": torch.tensor(0.0)},
    {"a": torch.zeros(B, dtype=torch.complex64)},
    {"a": torch.zeros(B, device="meta")},
    {"a": torch.zeros(B).to_sparse()},
    {1: torch.zeros(B)},
]


@pytest.mark.parametrize("hook", ["rewards", "failures", "metrics", "observe", "observe_privileged"])
@pytest.mark.parametrize("value", WRONG)
def test_tensors_of_a_wrong_form(hook, value):
    with pytest.raises(
        sn.OptionError, match=rf"Mine\.{hook} must return a dict of names to tensors of shape \(2,.*; got"
    ):
        tensor_step(tensor_task(**{hook: value}))


@pytest.mark.parametrize("hook", ["rewards", "failures", "metrics"])
def test_tensors_of_two_axes(hook):
    with pytest.raises(sn.OptionError, match=rf"Mine\.{hook} must return .*got Tensor of shape \(2, 1\)"):
        tensor_step(tensor_task(**{hook: {"a": torch.zeros(B, 1)}}))


def test_rewards_need_a_term():
    with pytest.raises(sn.OptionError, match=r"Mine\.rewards must return"):
        tensor_step(tensor_task(rewards={}))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_failures_must_be_boolean(dtype):
    with pytest.raises(
        sn.OptionError, match=rf"Mine\.failures must return tensors of dtype torch\.bool; got dtype {dtype} for 'fall'"
    ):
        tensor_step(tensor_task(failures={"fall": torch.zeros(B, dtype=dtype)}))


@pytest.mark.parametrize(
    ("hook", "fix"),
    [("observe", "return it as 'mass' in observe_privileged"), ("observe_privileged", "name it 'mass'")],
)
def test_names_of_observations_do_not_begin_with_privileged(hook, fix):
    """The actor would receive what ``observe`` returns."""
    with pytest.raises(
        sn.OptionError, match=rf"Mine\.{hook} must return names that do not .*; got 'privileged/mass'; {fix}"
    ):
        tensor_task(**{hook: {"a": torch.zeros(B, 1), "privileged/mass": torch.ones(B, 1)}})


@pytest.mark.parametrize(
    ("hooks", "text"),
    [
        ({"metrics": {"one": torch.zeros(B)}}, r"Mine.metrics .*no term of rewards\(\) has; got 'one'"),
        ({"metrics": {"return": torch.zeros(B)}}, "Mine.metrics .*episodes, return, length; got 'return'"),
        ({"rewards": {"length": torch.zeros(B)}}, "Mine.rewards .*; got 'length'"),
        ({"metrics": {"ended/fall": torch.zeros(B)}}, "Mine.metrics .*; got 'ended/fall'"),
    ],
)
def test_names_of_the_log_are_different(hooks, text):
    with pytest.raises(sn.OptionError, match=text):
        tensor_step(tensor_task(**hooks))


@pytest.mark.parametrize("hook", ["observe", "observe_privileged"])
def test_observations_do_not_have_the_names_of_sensors(hook):
    own = Slide(TensorTaskConfig(robot="diffdrive", n_envs=B)).actor_parts[0].uuid
    with pytest.raises(sn.OptionError, match=f"the robot's sensor {own!r} has the name of a value of the task"):
        tensor_task(**{hook: {own: torch.zeros(B, 1)}})


def test_the_options_have_the_class_of_the_task():
    class Options(TensorTaskConfig):
        speed: float = 1.0

    class Fast(Slide):
        config_type = Options

    with pytest.raises(sn.OptionError, match=r"Fast has the options Options \(its config_type\), got TensorTaskConfig"):
        Fast(TensorTaskConfig(robot="diffdrive"))


def test_rewards_may_be_called_privileged():
    assert tensor_step(tensor_task(rewards={"privileged/a": torch.ones(B)}))[1].tolist() == [1.0] * B


@pytest.mark.parametrize("hook", ["rewards", "failures", "metrics", "observe"])
@pytest.mark.parametrize(("later", "text"), [({"b": (B,)}, "same names"), ({}, "same names|dict of names")])
def test_names_stay_the_same(hook, later, text):
    task = tensor_task(**{hook: {"a": torch.zeros(B, dtype=torch.bool)}})
    tensor_step(task)
    setattr(task, hook, lambda: {name: torch.zeros(shape, dtype=torch.bool) for name, shape in later.items()})
    with pytest.raises(sn.OptionError, match=rf"Mine\.{hook} must return .*({text})"):
        task.step(torch.zeros_like(task.action))


def test_names_in_any_order_are_not_mixed_up():
    def turned(task, values):
        return values if int(task.step_count[0]) % 2 else dict(reversed(values.items()))

    def rewards(task):
        return turned(task, {"a": torch.full((B,), 1.0), "b": torch.full((B,), 3.0)})

    def failures(task):
        return turned(task, {"early": task.step_count > 99, "late": task.step_count > 3})

    def observe(task):
        return turned(task, {"x": torch.full((B, 1), 5.0), "y": torch.full((B, 1), 7.0)})

    task = tensor_task(rewards=rewards, failures=failures, observe=observe)
    tensor_step(task)
    for _ in range(3):
        observation, *_ = task.step(torch.zeros_like(task.action))
        assert (float(observation["x"][0, 0]), float(observation["y"][0, 0])) == (5.0, 7.0)
    means = task.log.take()
    assert (means["a"], means["b"], means["ended/early"], means["ended/late"]) == (1.0, 3.0, 0.0, B)


def test_shapes_of_observations_stay_the_same():
    task = tensor_task(observe={"a": torch.zeros(B, 3)})
    tensor_step(task)
    task.observe = lambda: {"a": torch.zeros(B, 2)}
    with pytest.raises(
        sn.OptionError, match=r"Mine\.observe must return the same shapes in each call, \(2, 3\) for 'a'"
    ):
        task.step(torch.zeros_like(task.action))


@pytest.mark.parametrize(
    "value",
    [None, torch.zeros(2), torch.zeros(0, 2), torch.tensor([[1.0, -1.0]]), torch.full((2, 2), torch.nan), [[0, 1]]],
)
def test_limits_of_the_action(value):
    with pytest.raises(sn.OptionError, match=r"Mine\.action_limits must return the bounds of the action"):
        tensor_task(action_limits=value)


@pytest.mark.parametrize(
    ("hook", "value"), [("scene_options", None), ("scene_options", {"dt": 1.0}), ("place_robot", None)]
)
def test_hooks_of_the_scene_of_tensor_tasks(hook, value):
    with pytest.raises(sn.OptionError, match=rf"Mine\.{hook} must return .*; got"):
        tensor_task(**{hook: value})


def test_something_is_observed():
    kind = type("Mine", (Slide,), {"observe": lambda self: {}})
    with pytest.raises(sn.OptionError, match="a tensor task must observe something"):
        kind(TensorTaskConfig(robot="diffdrive", n_envs=B, observe=()))


@pytest.mark.parametrize("value", [3, "text", [None]])
def test_action_terms(value):
    with pytest.raises(sn.OptionError, match=r"int\.action_terms must return a sequence of ActionTerm, or None; got"):
        checked_terms(0, value)


@pytest.mark.parametrize("hook", ["rewards", "failures", "metrics", "observe", "begin_episodes"])
def test_exceptions_of_tensor_hooks_pass_through(hook):
    def fails(self, *args):
        raise OwnError("mine")

    with pytest.raises(OwnError, match=r"^mine$"):
        tensor_step(tensor_task(**{hook: fails}))


# -- observation sensors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [None, "text", 3.0, [[0.0], [0.0]], {"a": np.zeros((B, 1))}, np.zeros(B), torch.zeros(B, 1), object()]
)
def test_readings_of_a_wrong_form(value):
    class Height(sn.suites.ObservationSensor):
        def read(self):
            return value

    suite = sn.SensorSuite(B, [Height("height", spaces.Box(-1, 1, (1,)))], "me")
    with pytest.raises(sn.OptionError, match="the sensor 'height' of me reads"):
        suite.read()


@pytest.mark.parametrize("value", ["text", object(), torch.zeros(B, 1, device="meta"), [[1], [2, 3]], None])
@pytest.mark.filterwarnings("ignore:__array__")
def test_sources_of_arrays(value):
    sensor = sn.suites.ArraySensor("height", lambda: value, (1,))
    with pytest.raises(sn.OptionError, match="'height'"):
        sn.SensorSuite(B, [sensor]).read()


@pytest.mark.parametrize("value", [None, 3, [1, 2], [{"a": 1}], [{"a": object()}] * 2])
def test_sources_of_dicts(value):
    with pytest.raises(sn.OptionError, match="'goal'"):
        sn.SensorSuite(B, [sn.suites.DictSensor("goal", lambda: value)]).read()


def test_sensors_without_a_uuid():
    class Height(sn.suites.ObservationSensor):
        def __init__(self):
            pass

    with pytest.raises(sn.OptionError, match=r"Height, which me contributes, has no uuid: call super\(\).__init__"):
        sn.SensorSuite(B, [Height()], "me")


def test_exceptions_of_sources_pass_through():
    def fails():
        raise OwnError("mine")

    for sensor in (sn.suites.ArraySensor("a", fails, (1,)), sn.suites.DictSensor("a", fails)):
        with pytest.raises(OwnError, match=r"^mine$"):
            sn.SensorSuite(B, [sensor]).read()
